#include "space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace bigsort {

namespace {

// Ranks whose folders are in the same place, on whatever node: each sees the folders of those.
std::vector<bool> sharing_ranks(const Job& job) {
    MPI_Barrier(job.ranks);
    const std::string& mine = job.temporary->folder();
    const std::string stem = mine.substr(0, mine.rfind('-') + 1);
    std::vector<bool> sharing(std::size_t(job.ranks_count));
    for (int i = 0; i < job.ranks_count; ++i)
        sharing[std::size_t(i)] = std::filesystem::exists(stem + std::to_string(i));
    return sharing;
}

constexpr std::size_t kTextBytes = 512;

}  // namespace

std::string lacking_space(const Job& job, std::uint64_t values, std::uint64_t on_disk) {
    // While a cycle is written the files of the one before are there, the bin before the first.
    const std::uint64_t need = 2 * values * sizeof(Value) - on_disk * sizeof(Value);
    std::vector<std::uint64_t> needs(std::size_t(job.ranks_count));
    MPI_Allgather(&need, 1, MPI_UINT64_T, needs.data(), 1, MPI_UINT64_T, job.ranks);
    const std::vector<bool> sharing = sharing_ranks(job);
    std::uint64_t together = 0;
    for (std::size_t i = 0; i < needs.size(); ++i) together += sharing[i] ? needs[i] : 0;

    struct statvfs system;
    if (statvfs(job.temporary->folder().c_str(), &system) != 0)
        throw FileError("ask for the free space of", job.temporary->folder(), errno);
    const std::uint64_t free = std::uint64_t(system.f_bavail) * system.f_frsize;
    char text[kTextBytes] = {};
    if (free < together)
        fmt::format_to_n(
            text, kTextBytes - 1,
            "no space for the temporary files in {}: they need {} bytes, {} are free; give --temporary "
            "another folder, or --total less",
            job.options.temporary, together, free);
    std::vector<char> texts(std::size_t(job.ranks_count) * kTextBytes);
    MPI_Allgather(text, kTextBytes, MPI_CHAR, texts.data(), kTextBytes, MPI_CHAR, job.ranks);
    for (int i = 0; i < job.ranks_count; ++i)
        if (const char* one = &texts[std::size_t(i) * kTextBytes]; *one) return one;
    return "";
}

}  // namespace bigsort
