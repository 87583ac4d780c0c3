// Phase 3, the files of the ranks become one, and the check of that one.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "patience.h"
#include "phases.h"

namespace bigsort {

namespace {

void require(int code, const std::string& call, const std::string& path) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int bytes = 0;
    MPI_Error_string(code, text, &bytes);
    throw std::runtime_error(
        fmt::format("cannot {} {}: {}", call, path, std::string(text, std::size_t(bytes))));
}

// The place of this rank's values among all.
std::uint64_t place_of(const Job& job, std::uint64_t values) {
    std::uint64_t before = 0;
    MPI_Exscan(&values, &before, 1, MPI_UINT64_T, MPI_SUM, job.ranks);
    return job.rank == 0 ? 0 : before;
}

}  // namespace

double join(const Job& job, const LocalSort& sorted) {
    MPI_Barrier(job.ranks);
    const double begin = now_s();
    const std::uint64_t values = sorted.layout.values, place = place_of(job, values);
    job.temporary->name(job.output);
    MPI_File output;
    require(MPI_File_open(job.ranks, job.output.c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                          &output),
            "open", job.output);
    require(MPI_File_set_size(output, MPI_Offset(job.values_count * sizeof(Value))), "set the size of",
            job.output);
    const int file = sorted.path.empty() ? -1 : open(sorted.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 && !sorted.path.empty()) throw FileError("open", sorted.path, errno);
    const std::uint64_t at_once = job.options.dram_bytes / sizeof(Value);
    std::uint64_t rounds = (values + at_once - 1) / at_once;
    MPI_Allreduce(MPI_IN_PLACE, &rounds, 1, MPI_UINT64_T, MPI_MAX, job.ranks);
    std::vector<Value> buffer(at_once);
    std::uint64_t done = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::uint64_t now = std::min(at_once, values - done);
        if (now > 0) read_all(file, sorted.path, buffer.data(), now * sizeof(Value));
        MPI_Status status;
        require(MPI_File_write_at_all(output, MPI_Offset((place + done) * sizeof(Value)), buffer.data(),
                                      int(now), MPI_UINT64_T, &status),
                "write", job.output);
        int written = 0;
        MPI_Get_count(&status, MPI_UINT64_T, &written);
        if (written != int(now)) throw FileError("write all of a part of", job.output, ENOSPC);
        done += now;
        if (job.progress) job.progress(3, double(round + 1) / double(rounds));
    }
    if (file >= 0) close(file);
    require(MPI_File_close(&output), "close", job.output);
    return now_s() - begin;
}

namespace {

// What one rank finds in its part of the output.
struct Part {
    std::uint64_t count = 0, first = 0, last = 0, disorder = 0, wrong_size = 0;
};

std::string judge(const std::vector<Part>& parts, const Tally& found, const Tally& expected) {
    Value last = 0;
    for (const Part& part : parts) {
        if (part.wrong_size) return "the output has not the size of the input";
        if (part.count == 0) continue;
        if (part.disorder > 0 || part.first < last) return "the output is not in ascending order";
        last = part.last;
    }
    if (found.count != expected.count)
        return fmt::format("the output has {} values, the input {}", found.count, expected.count);
    if (found.hash_sum != expected.hash_sum) return "the output's values are not those of the input";
    return "";
}

}  // namespace

std::string check(const Job& job, const Tally& expected) {
    const std::uint64_t share = (job.values_count + job.ranks_count - 1) / std::uint64_t(job.ranks_count);
    std::uint64_t next = std::min(job.values_count, share * std::uint64_t(job.rank));
    const std::uint64_t end = std::min(job.values_count, next + share);
    const int file = open(job.output.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw FileError("open", job.output, errno);
    Part part;
    if (lseek(file, 0, SEEK_END) != off_t(job.values_count * sizeof(Value))) part.wrong_size = 1;
    if (lseek(file, off_t(next * sizeof(Value)), SEEK_SET) < 0) throw FileError("read", job.output, errno);
    std::vector<Value> values(65536);
    Tally tally;
    while (next < end) {
        const std::uint64_t now = std::min<std::uint64_t>(values.size(), end - next);
        read_all(file, job.output, values.data(), now * sizeof(Value));
        tally.add(values.data(), now);
        for (std::uint64_t i = 0; i < now; ++i) {
            if (part.count == 0) part.first = values[i];
            if (part.count > 0 && values[i] < part.last) ++part.disorder;
            part.last = values[i];
            ++part.count;
        }
        next += now;
    }
    close(file);
    std::vector<Part> parts(std::size_t(job.ranks_count));
    MPI_Allgather(&part, sizeof(part), MPI_BYTE, parts.data(), sizeof(part), MPI_BYTE, job.ranks);
    Tally sums[2] = {tally, expected};
    MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_UINT64_T, MPI_SUM, job.ranks);
    return judge(parts, sums[0], sums[1]);
}

}  // namespace bigsort
