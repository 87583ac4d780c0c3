// What programs do with their memory beside MPI, each thing once while collectives run: none of them may
// notice that large blocks are shared.      habits WHAT
#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20, kPage = 4096, kBlock = 3 * kMiB;
constexpr size_t kNodeTables =
    450 * kMiB;  // of a node, for all of its ranks; sparse, until a program locks all it has
int rank, size;

// So often that others have mapped what they copy.
void exchange(int rounds) {
    const int count = static_cast<int>(kBlock / static_cast<size_t>(size));
    auto* const sent = static_cast<char*>(malloc(kBlock));
    auto* const received = static_cast<char*>(malloc(kBlock));
    CHECK(sent && received);
    for (int round = 0; round < rounds; ++round) {
        for (int to = 0; to < size; ++to)
            fill(sent + to * count, static_cast<uint64_t>(count), rank, to, round);
        MPI_Alltoall(sent, count, MPI_BYTE, received, count, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < size; ++from)
            CHECK(is_filled(received + from * count, static_cast<uint64_t>(count), from, rank, round));
    }
    free(sent);
    free(received);
}

// The heaps that are mapped here: this process's own, and those of others.
struct Heaps {
    size_t own_bytes = 0, others_bytes = 0;
    bool others_dumped = false, others_locked = false, own_shared = false;
};
Heaps heaps_mapped() {
    Heaps heaps;
    FILE* const file = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long own_inode = 0, inode = 0;
    DIR* const files = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(files)) {
        struct stat status;
        char target[256] = {};
        const std::string path = std::string("/proc/self/fd/") + entry->d_name;
        if (readlink(path.c_str(), target, sizeof target - 1) > 0 && strstr(target, "memfd:longshore-heap") &&
            stat(path.c_str(), &status) == 0)
            own_inode = status.st_ino;
    }
    closedir(files);
    bool is_heap = false;
    while (fgets(line, sizeof line, file)) {
        unsigned long from = 0, to = 0, offset = 0;
        char flags[8], device[16];
        if (sscanf(line, "%lx-%lx %7s %lx %15s %lu", &from, &to, flags, &offset, device, &inode) == 6) {
            is_heap = strstr(line, "memfd:longshore-heap") != nullptr;
            if (is_heap) (inode == own_inode ? heaps.own_bytes : heaps.others_bytes) += to - from;
        } else if (is_heap && inode != own_inode && strncmp(line, "VmFlags:", 8) == 0) {
            heaps.others_dumped |= strstr(line, " dd") == nullptr;
            heaps.others_locked |= strstr(line, " lo") != nullptr;
        }
    }
    fclose(file);
    heaps.own_shared = own_inode != 0;
    return heaps;
}

// Memory that all heaps of this process and those that it maps take, as the files' sizes say.
size_t resident_shared() {
    FILE* const file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;
    while (fgets(line, sizeof line, file)) sscanf(line, "RssShmem: %zu kB", &kib);
    fclose(file);
    return kib * 1024;
}

// Pages that the system has given this process, one after the other.
long pages_given() {
    rusage used{};
    CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    return used.ru_minflt;
}

int wait_for(pid_t child) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

// Address space is taken as it is needed, and what others have is not in this process's core.
void maps_little() {
    exchange(40);
    const Heaps heaps = heaps_mapped();
    CHECK(heaps.own_shared && heaps.own_bytes <= 64 * kMiB);
    CHECK(heaps.others_bytes > 0 && heaps.others_bytes <= static_cast<size_t>(size) * 1024 * kMiB);
    CHECK(!heaps.others_dumped);
}

void locks_all() {
    exchange(40);
    const size_t before = resident_shared();
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return;  // it may not
    CHECK(resident_shared() <= before + kNodeTables + 64 * kMiB);
    exchange(40);
    CHECK(resident_shared() <= before + kNodeTables + 128 * kMiB);
    munlockall();
}

// From here on all that it maps is locked: not what others have.
void locks_first() {
    if (mlockall(MCL_FUTURE) != 0) return;
    exchange(40);
    const Heaps heaps = heaps_mapped();
    CHECK(heaps.others_bytes == 0 || !heaps.others_locked);
    CHECK(resident_shared() <= kNodeTables);
    munlockall();
}

void dumps_core() {
    exchange(40);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) abort();
    MPI_Barrier(MPI_COMM_WORLD);
}

// As libraries do whose devices read memory.
void forks_without_pages() {
    exchange(4);
    auto* const block = static_cast<char*>(malloc(kBlock));
    auto* const other = static_cast<char*>(malloc(kBlock));
    fill(block, kBlock, rank, 1, 1);
    fill(other, kBlock, rank, 2, 2);
    auto* const middle = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(block) / kPage + 10) * kPage);
    CHECK(madvise(middle, 100 * kPage, MADV_DONTFORK) == 0);
    const pid_t child = fork();
    if (child == 0)
        _exit(is_filled(other, kBlock, rank, 2, 2) && is_filled(block, kPage, rank, 1, 1) ? 0 : 1);
    CHECK(child > 0 && wait_for(child) == 0);
    CHECK(is_filled(block, kBlock, rank, 1, 1));
    CHECK(madvise(middle, 100 * kPage, MADV_DOFORK) == 0);
    free(block);
    free(other);
    exchange(4);
}

std::atomic<bool> writing{true};

void* write_and_allocate(void* memory) {
    auto* const block = static_cast<char*>(memory);
    for (unsigned round = 0; writing.load(); ++round) {
        memset(block, static_cast<int>(round), kBlock);
        auto* const more = static_cast<char*>(malloc(kBlock / 2 + round % 64 * kPage));
        more[0] = more[kBlock / 4] = 1;
        free(more);
    }
    return nullptr;
}

// The child has what the thread that forks has written, whatever others do.
void forks_while_threads_write() {
    pthread_t threads[2];
    void* theirs[2];
    for (int i = 0; i < 2; ++i) {
        theirs[i] = malloc(kBlock);
        CHECK(pthread_create(&threads[i], nullptr, write_and_allocate, theirs[i]) == 0);
    }
    auto* const own = static_cast<char*>(malloc(kBlock));
    for (int round = 0; round < 40; ++round) {
        fill(own, kBlock, rank, 3, round);
        const pid_t child = fork();
        if (child == 0) {
            usleep(500);
            const bool right = is_filled(own, kBlock, rank, 3, round);
            memset(own, 0, kBlock);
            free(own);
            auto* const more = static_cast<char*>(malloc(kBlock));
            more[kBlock - 1] = 1;
            _exit(right ? 0 : 1);
        }
        CHECK(child > 0);
        fill(own, kBlock, rank, 4, round);
        CHECK(wait_for(child) == 0);
        CHECK(is_filled(own, kBlock, rank, 4, round));
    }
    writing = false;
    for (int i = 0; i < 2; ++i) {
        pthread_join(threads[i], nullptr);
        free(theirs[i]);
    }
    free(own);
    exchange(4);
}

// A large table, almost empty, of which each place is looked at.
void reads_what_is_zero() {
    const size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * kPage;
    const size_t bytes = std::max<size_t>(
        memory / 2 / static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)) + 64 * kMiB, 576 * kMiB);
    const size_t before = resident_shared();
    auto* const table = static_cast<volatile char*>(calloc(bytes / 64, 64));
    CHECK(table);
    size_t sum = 0;
    for (size_t at = 0; at < bytes; at += kPage) sum += static_cast<size_t>(table[at]);
    CHECK(sum == 0);
    CHECK(resident_shared() <= before + 16 * kMiB);
    free(const_cast<char*>(table));
}

// Many blocks grow side by side, little by little. The system moves their pages, and nothing is copied again
// and again, into pages that are new each time: there are about as many as the program touches.
void grows_slowly() {
    constexpr size_t kGrowStep = 64 * 1024, kSteps = 768, kBlocks = 12;
    char* grown[kBlocks] = {};
    const long before = pages_given();
    for (size_t step = 1; step <= kSteps; ++step)
        for (char*& at : grown) {
            at = static_cast<char*>(realloc(at, step * kGrowStep));
            CHECK(at);
            at[(step - 1) * kGrowStep] = static_cast<char>(step);
        }
    const long given = pages_given() - before;
    fprintf(stderr, "%ld pages for %zu that are touched\n", given, kSteps * kBlocks);
    CHECK(given <= static_cast<long>(2 * kSteps * kBlocks));
    for (char* at : grown) {
        for (size_t step = 1; step <= kSteps; ++step)
            CHECK(at[(step - 1) * kGrowStep] == static_cast<char>(step));
        free(at);
    }
}

void discards() {
    auto* const block = static_cast<char*>(aligned_alloc(kPage, kBlock));
    memset(block, 1, kBlock);
    CHECK(madvise(block + kPage, 50 * kPage, MADV_DONTNEED) == 0);
    for (size_t page = 0; page < kBlock / kPage; ++page)
        CHECK(block[page * kPage] == (page >= 1 && page < 51 ? 0 : 1));
    CHECK(madvise(block, kPage, MADV_FREE) == 0);
    CHECK(madvise(block, kBlock, MADV_NORMAL) == 0);
    errno = 0;
    CHECK(madvise(block + 1, kPage, MADV_DONTNEED) == -1 && errno == EINVAL);
    const pid_t child = fork();
    if (child == 0) {
        const bool done = madvise(block + 100 * kPage, kPage, MADV_DONTNEED) == 0;
        _exit(done && block[100 * kPage] == 0 && block[101 * kPage] == 1 ? 0 : 1);
    }
    CHECK(wait_for(child) == 0 && block[100 * kPage] == 1);
    free(block);
}

// As a daemon does.
void closes_all() {
    exchange(4);
    auto* const block = static_cast<char*>(malloc(kBlock));
    fill(block, kBlock, rank, 5, 5);
    const pid_t child = fork();
    if (child == 0) {
        for (int file = 3; file < 4096; ++file) close(file);
        const pid_t grandchild = fork();
        if (grandchild == 0) _exit(is_filled(block, kBlock, rank, 5, 5) ? 0 : 1);
        _exit(wait_for(grandchild) == 0 && is_filled(block, kBlock, rank, 5, 5) ? 0 : 1);
    }
    CHECK(wait_for(child) == 0);
    // The heap's alone, whose number nobody of the program knows.
    for (int file = 3; file < 4096; ++file) {
        char target[256] = {};
        if (readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), target, sizeof target - 1) > 0 &&
            strstr(target, "memfd:longshore-heap"))
            close(file);
    }
    const pid_t later = fork();
    if (later == 0) _exit(is_filled(block, kBlock, rank, 5, 5) ? 0 : 1);
    CHECK(wait_for(later) == 0);
    std::vector<void*> many;
    for (int i = 0; i < 40; ++i) CHECK(memset(many.emplace_back(malloc(kBlock)), 1, kBlock));
    for (void* one : many) free(one);
    free(block);
    exchange(4);
}

void has_no_heap() {
    exchange(1);
    CHECK(!heaps_mapped().own_shared);
}

constexpr struct {
    const char* name;
    void (*run)();
} kHabits[] = {{"exchanges", [] { exchange(40); }},
               {"has_no_heap", has_no_heap},
               {"maps_little", maps_little},
               {"locks_all", locks_all},
               {"locks_first", locks_first},
               {"dumps_core", dumps_core},
               {"forks_without_pages", forks_without_pages},
               {"forks_while_threads_write", forks_while_threads_write},
               {"reads_what_is_zero", reads_what_is_zero},
               {"grows_slowly", grows_slowly},
               {"discards", discards},
               {"closes_all", closes_all}};

}  // namespace

PROGRAM(habits) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bool known = false;
    for (const auto& habit : kHabits) {
        if (argc < 2 || strcmp(argv[1], habit.name) != 0) continue;
        known = true;
        habit.run();
    }
    CHECK(known);
    return finish("habits");
}
