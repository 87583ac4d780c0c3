#include "mpi/native/callers.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstring>

namespace longshore::mpi {
namespace {

struct Range {
    std::atomic<uintptr_t> begin{0}, end{0};
};
constexpr int kRangesMax = 8;
Range ranges[kRangesMax];
std::atomic<int> range_count{0};
std::atomic<bool> has_communicators{false};

struct Search {
    uintptr_t address, begin, end;
};

// The executable segments of the object that holds the address.
int look_at_object(dl_phdr_info* info, size_t, void* user) {
    auto* search = static_cast<Search*>(user);
    uintptr_t begin = UINTPTR_MAX, end = 0;
    bool holds = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
        const uintptr_t from = info->dlpi_addr + segment.p_vaddr, to = from + segment.p_memsz;
        if (from < begin) begin = from;
        if (to > end) end = to;
        holds = holds || (search->address >= from && search->address < to);
    }
    if (!holds) return 0;
    search->begin = begin;
    search->end = end;
    return 1;
}

void add_object_of(const void* address) {
    Search search{reinterpret_cast<uintptr_t>(address), 0, 0};
    if (dl_iterate_phdr(look_at_object, &search) != 1) return;
    const int place = range_count.load();
    if (place == kRangesMax) return;
    ranges[place].begin = search.begin;
    ranges[place].end = search.end;
    range_count.store(place + 1, std::memory_order_release);
}

// Open MPI's components are files of that name.
bool is_component(const char* path) {
    const char* const slash = strrchr(path, '/');
    const char* const name = slash ? slash + 1 : path;
    return strncmp(name, "mca_", 4) == 0 || strncmp(name, "libmca_", 7) == 0;
}

// Where an MPI has its Fortran layer in the library itself: mpi_comm_dup_, MPI_COMM_DUP.
bool is_fortran(const char* symbol) {
    if (!symbol) return false;
    if (*symbol == 'P' || *symbol == 'p') ++symbol;
    if (strncmp(symbol, "mpi_", 4) == 0) return true;
    if (strncmp(symbol, "MPI_", 4) != 0) return false;
    for (; *symbol; ++symbol)
        if (islower(static_cast<unsigned char>(*symbol))) return false;
    return true;
}

}  // namespace

void set_mpi_code(const void* function) {
    if (function && !is_mpi_code(function)) add_object_of(function);
}

bool is_mpi_code(const void* return_address) {
    const auto address = reinterpret_cast<uintptr_t>(return_address);
    const int count = range_count.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i)
        if (address >= ranges[i].begin.load(std::memory_order_relaxed) &&
            address < ranges[i].end.load(std::memory_order_relaxed))
            return true;
    return false;
}

bool makes_communicator_for_mpi(const void* return_address) {
    Dl_info info{};
    const bool known = dladdr(return_address, &info) != 0;
    bool is_mpis = is_mpi_code(return_address) && !(known && is_fortran(info.dli_sname));
    if (!is_mpis && known && info.dli_fname && is_component(info.dli_fname)) {
        set_mpi_code(return_address);
        is_mpis = true;
    }
    if (is_mpis) has_communicators.store(true, std::memory_order_relaxed);
    return is_mpis;
}

bool mpi_has_communicators() {
    return has_communicators.load(std::memory_order_relaxed);
}

}  // namespace longshore::mpi
