#include "trace.h"

#include <fmt/format.h>
#include <time.h>

#include <cstring>
#include <fstream>

namespace {

constexpr std::size_t kIntervalsMax =
    1 << 17;  // of a rank, about 100 bytes each in the file; the first are kept

// As 'longshore timeline' tells them apart.
const char* kind_of(const char* name) {
    if (!name) return "compute";
    if (std::strcmp(name, "MPI_Ialltoallv") == 0) return "post";
    return std::strcmp(name, "MPI_Testany") == 0 ? "test" : "wait";
}

}  // namespace

std::int64_t Trace::now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void Trace::begin() {
    ++repeat_;
    open_ = true;
    last_ns_ = now_ns();
}

void Trace::end() {
    add(nullptr, last_ns_, now_ns());
    open_ = false;
}

void Trace::call(const char* name, std::int64_t begin_ns) {
    if (!open_) return;
    const std::int64_t end_ns = now_ns();
    add(nullptr, last_ns_, begin_ns);
    add(name, begin_ns, end_ns);
    last_ns_ = end_ns;
}

void Trace::add(const char* name, std::int64_t begin_ns, std::int64_t end_ns) {
    if (intervals_.size() < kIntervalsMax)
        intervals_.push_back({name, repeat_, begin_ns, end_ns});
    else
        ++left_out_;
}

// Each ends in ",\n".
std::string Trace::lines(int rank) const {
    std::string out = fmt::format(
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":{0},\"args\":{{\"name\":\"rank "
        "{0}\"}}}},\n",
        rank);
    for (const Interval& interval : intervals_)
        out += fmt::format(
            "{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":\"{}\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
            "\"args\":{{\"repeat\":{}}}}},\n",
            kind_of(interval.name), interval.name ? interval.name : "computing", rank,
            double(interval.begin_ns) * 1e-3, double(interval.end_ns - interval.begin_ns) * 1e-3,
            interval.repeat);
    return out;
}

bool Trace::write(const std::string& path, MPI_Comm world) const {
    int rank = 0, ranks = 1;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    if (left_out_ > 0)
        fmt::print(stderr, "fft: the trace of rank {} is full, {} intervals are left out\n", rank, left_out_);
    const std::string mine = lines(rank);
    // One rank after the other: together they may be more than an int of bytes.
    const int length = int(mine.size());
    if (rank != 0) {
        MPI_Send(&length, 1, MPI_INT, 0, 0, world);
        MPI_Send(mine.data(), length, MPI_CHAR, 0, 1, world);
        return true;
    }
    std::string all = mine;
    for (int other = 1; other < ranks; ++other) {
        int bytes = 0;
        MPI_Recv(&bytes, 1, MPI_INT, other, 0, world, MPI_STATUS_IGNORE);
        std::string theirs(std::size_t(bytes), ' ');
        MPI_Recv(theirs.data(), bytes, MPI_CHAR, other, 1, world, MPI_STATUS_IGNORE);
        all += theirs;
    }
    all.erase(all.rfind(','));
    std::ofstream file(path);
    file << "{\"traceEvents\":[\n"
         << all << "\n],\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\",\"origin_ns\":0}}\n";
    return bool(file.flush());
}
