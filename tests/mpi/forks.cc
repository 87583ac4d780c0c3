// Programs that fork beside collectives: a child has what its parent had at one instant, and its own from
// then on; the parent goes on as if nothing had been.      forks WHAT
#include <pthread.h>
#include <sys/wait.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "check.h"
#include "heap_file.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20, kPage = 4096;
int rank, size;
pid_t own_pid;

// In what a child does: its parent must not come here, which shares the child's stack where that is wrong.
void check_child() {
    if (getpid() == own_pid) abort();
}

// Elsewhere: nor must a child.
void check_parent() {
    if (getpid() != own_pid) _exit(3);
}

bool ends_well(pid_t child) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) fprintf(stderr, "a child ended by %#x\n", status);
    return status == 0;
}

char* block_of(size_t bytes) {
    auto* const block = static_cast<char*>(malloc(bytes));
    CHECK(block);
    return block;
}

// --- on a stack that malloc gave

void fork_here() {
    volatile char local[20'000];
    volatile int depth = 0;
    for (int round = 0; round < 10; ++round) {
        for (char volatile& c : local) c = static_cast<char>(round);
        depth = round;
        const pid_t child = fork();
        if (child == 0) {
            bool right = depth == round;
            for (char volatile& c : local) right &= c == static_cast<char>(round);
            for (int i = 0; i < 200; ++i)
                for (char volatile& c : local) c = 77;
            depth = 1000;
            check_child();
            _exit(right && local[5] == 77 ? 0 : 1);
        }
        check_parent();
        CHECK(child > 0);
        for (int i = 0; i < 200; ++i)
            for (char volatile& c : local) c = 99;
        depth = 2000;
        CHECK(ends_well(child));
        CHECK(depth == 2000);
        for (char volatile& c : local) CHECK(c == 99);
    }
}

void* fork_in_thread(void*) {
    fork_here();
    return nullptr;
}

void on_thread_stack() {
    for (int i = 0; i < 3; ++i) {
        void* stack = nullptr;
        CHECK(posix_memalign(&stack, kPage, kMiB) == 0 && is_shared(stack));
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        CHECK(pthread_attr_setstack(&attributes, stack, kMiB) == 0);
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, fork_in_thread, nullptr) == 0);
        pthread_join(thread, nullptr);
        free(stack);
    }
}

ucontext_t main_context, own_context;

// Runs it on a stack that malloc gave.
void run_on(size_t bytes, void (*body)()) {
    char* const stack = block_of(bytes);
    CHECK(is_shared(stack) && getcontext(&own_context) == 0);
    own_context.uc_stack.ss_sp = stack;
    own_context.uc_stack.ss_size = bytes;
    own_context.uc_link = &main_context;
    makecontext(&own_context, body, 0);
    CHECK(swapcontext(&main_context, &own_context) == 0);
    free(stack);
}

void on_context_stack() {
    for (int i = 0; i < 3; ++i) run_on(256 * 1024, fork_here);
}

// An operation on an array of a stack that malloc gave is open while that stack forks.
void fork_with_open_local() {
    constexpr int kCount = 30'000;
    char sent[2 * kCount], received[2 * kCount];
    for (int round = 0; round < 10; ++round) {
        for (int to = 0; to < 2; ++to) fill(sent + to * kCount, kCount, rank, to, round);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Ialltoall(sent, kCount, MPI_BYTE, received, kCount, MPI_BYTE, MPI_COMM_WORLD, &request);
        const pid_t child = fork();
        if (child == 0) {
            const bool right = is_filled(sent, kCount, rank, 0, round);
            memset(sent, 0, sizeof sent);
            memset(received, 0, sizeof received);
            check_child();
            _exit(right ? 0 : 1);
        }
        check_parent();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int from = 0; from < 2; ++from)
            CHECK(is_filled(received + from * kCount, kCount, from, rank, round));
        CHECK(ends_well(child));
    }
}

void open_on_own_stack() {
    CHECK(size == 2);
    run_on(kMiB, fork_with_open_local);
}

// --- while other threads write

// One of them writes numbers round and round, each behind the last, through all pages of several blocks.
struct Log {
    static constexpr size_t kBlocks = 3, kBlockPages = 200, kPlaces = kBlocks * kBlockPages;
    char* blocks[kBlocks];
    std::atomic<uint64_t> written{0};
    std::atomic<bool> ends{false};

    std::atomic<uint64_t>& place(uint64_t number) const {
        const size_t at = number * 7 % kPlaces;  // over the blocks and back
        return *reinterpret_cast<std::atomic<uint64_t>*>(blocks[at % kBlocks] + at / kBlocks * kPage + 64);
    }
    // All that was written until some number, and nothing behind it.
    bool is_whole() const {
        uint64_t newest = 0;
        for (size_t i = 0; i < kPlaces; ++i) newest = std::max(newest, place(i).load());
        for (uint64_t number = newest; number + kPlaces > newest; --number)
            if (place(number).load() != number) return false;
        return true;
    }
};

void* write_log(void* argument) {
    Log& log = *static_cast<Log*>(argument);
    for (uint64_t number = Log::kPlaces; !log.ends.load(std::memory_order_relaxed); ++number) {
        // What it wrote before is what it finds.
        if (log.place(number).load(std::memory_order_relaxed) != number - Log::kPlaces) abort();
        log.place(number).store(number, std::memory_order_release);
        log.written.store(number, std::memory_order_release);
    }
    return nullptr;
}

void in_order() {
    for (int round = 0; round < 40; ++round) {
        Log log;
        for (char*& block : log.blocks) block = block_of(Log::kBlockPages * kPage);
        for (uint64_t i = 0; i < Log::kPlaces; ++i) log.place(i).store(i);
        pthread_t writer;
        CHECK(pthread_create(&writer, nullptr, write_log, &log) == 0);
        for (int fork_number = 0; fork_number < 3; ++fork_number) {
            const uint64_t before = log.written.load();
            while (log.written.load() < before + 2 * Log::kPlaces) usleep(100);
            const pid_t child = fork();
            if (child == 0) _exit(log.is_whole() && log.written.load() >= before ? 0 : 1);
            CHECK(child > 0 && ends_well(child));
        }
        log.ends = true;
        pthread_join(writer, nullptr);
        CHECK(log.is_whole());
        for (char* block : log.blocks) free(block);
    }
}

// --- with open operations

void with_open_operations() {
    constexpr size_t kBlock = 3 * kMiB;
    const int count = static_cast<int>(kBlock / static_cast<size_t>(size));
    for (int round = 0; round < 30; ++round) {
        char* const sent = block_of(2 * kBlock);  // more than is sent
        char* const received = block_of(2 * kBlock);
        char* const gathered = block_of(kBlock);
        memset(sent + kBlock, 3, kBlock);
        memset(received, 4, 2 * kBlock);
        for (int to = 0; to < size; ++to)
            fill(sent + to * count, static_cast<uint64_t>(count), rank, to, round);
        MPI_Request requests[2];
        MPI_Ialltoall(sent, count, MPI_BYTE, received, count, MPI_BYTE, MPI_COMM_WORLD, &requests[0]);
        MPI_Iallgather(sent, count, MPI_BYTE, gathered, count, MPI_BYTE, MPI_COMM_WORLD, &requests[1]);
        pid_t children[2];
        for (pid_t& child : children) {
            child = fork();
            if (child == 0) {
                bool right = is_filled(sent, static_cast<uint64_t>(count), rank, 0, round);
                for (size_t i = kBlock; i < 2 * kBlock; i += 997) right &= sent[i] == 3 && received[i] == 4;
                memset(sent, 5, 2 * kBlock);
                memset(received, 5, 2 * kBlock);
                memset(gathered, 5, kBlock);
                free(sent);
                free(received);
                _exit(right ? 0 : 1);
            }
            CHECK(child > 0);
            memset(sent + kBlock, 3, kBlock);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int from = 0; from < size; ++from) {
            CHECK(is_filled(received + from * count, static_cast<uint64_t>(count), from, rank, round));
            CHECK(is_filled(gathered + from * count, static_cast<uint64_t>(count), from, 0, round));
        }
        for (size_t i = kBlock; i < 2 * kBlock; i += 997) CHECK(sent[i] == 3 && received[i] == 4);
        for (pid_t child : children) CHECK(ends_well(child));
        // Once more, by blocks that the fork has made private in part.
        for (int to = 0; to < size; ++to)
            fill(sent + kBlock + to * count, static_cast<uint64_t>(count), rank, to, round + 1000);
        MPI_Alltoall(sent + kBlock, count, MPI_BYTE, received + kBlock, count, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < size; ++from)
            CHECK(is_filled(received + kBlock + from * count, static_cast<uint64_t>(count), from, rank,
                            round + 1000));
        free(sent);
        free(received);
        free(gathered);
    }
}

// Another thread forks all the time.
std::atomic<bool> forking{true};
std::atomic<bool> children_fail{false};
void* fork_on(void*) {
    while (forking) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        if (child < 0 || !ends_well(child)) children_fail = true;
    }
    return nullptr;
}

void while_another_thread_forks() {
    constexpr int kCount = 200'000;
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, fork_on, nullptr) == 0);
    for (int round = 0; round < 150; ++round) {
        char* const sent = block_of(static_cast<size_t>(kCount * size));
        char* const received = block_of(static_cast<size_t>(kCount * size));
        for (int again = 0; again < 3; ++again) {
            for (int to = 0; to < size; ++to) fill(sent + to * kCount, kCount, rank, to, round + again);
            memset(received, 0, static_cast<size_t>(kCount * size));
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Ialltoall(sent, kCount, MPI_BYTE, received, kCount, MPI_BYTE, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (int from = 0; from < size; ++from)
                CHECK(is_filled(received + from * kCount, kCount, from, rank, round + again));
        }
        free(sent);
        free(received);
    }
    forking = false;
    pthread_join(thread, nullptr);
    CHECK(!children_fail);
}

// --- again and again

void exchange(char* sent, char* received, int round) {
    constexpr int kCount = 500'000;
    for (int to = 0; to < size; ++to) fill(sent + to * kCount, kCount, rank, to, round);
    MPI_Alltoall(sent, kCount, MPI_BYTE, received, kCount, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < size; ++from)
        CHECK(is_filled(received + from * kCount, kCount, from, rank, round));
}

void again_and_again() {
    const size_t bytes = static_cast<size_t>(size) * 500'000;
    int ends[2];
    CHECK(pipe(ends) == 0);
    // A child that is there all the time.
    const pid_t lasting = fork();
    if (lasting == 0) {
        char end;
        close(ends[1]);
        _exit(read(ends[0], &end, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    for (int round = 0; round < 40; ++round) {
        char *const sent = block_of(bytes), *const received = block_of(bytes);
        auto* const sparse = static_cast<char*>(calloc(64, kMiB));  // of which little is written
        CHECK(is_shared(sent) && is_shared(received));
        sparse[5 * kMiB] = 1;
        exchange(sent, received, round);
        const pid_t child = fork();
        if (child == 0) {
            bool right = sparse[5 * kMiB] == 1 && sparse[6 * kMiB] == 0;
            memset(sparse + 10 * kMiB, 2, kMiB);
            right &= sparse[10 * kMiB] == 2 && sparse[12 * kMiB] == 0;
            for (int from = 0; from < size; ++from)
                right &= is_filled(received + from * 500'000, 500'000, from, rank, round);
            _exit(right ? 0 : 1);
        }
        CHECK(child > 0);
        sparse[6 * kMiB] = sparse[12 * kMiB] = 9;
        memset(sent, 0, bytes);
        CHECK(ends_well(child));
        CHECK(sparse[5 * kMiB] == 1 && sparse[6 * kMiB] == 9 && sparse[10 * kMiB] == 0);
        exchange(sent, received, round + 100);
        free(sparse);
        free(sent);
        free(received);
    }
    CHECK(heap_file().bytes <= 256 * kMiB);
    close(ends[1]);
    CHECK(ends_well(lasting));
}

constexpr struct {
    const char* name;
    void (*run)();
} kForks[] = {{"on_thread_stack", on_thread_stack},
              {"on_context_stack", on_context_stack},
              {"open_on_own_stack", open_on_own_stack},
              {"in_order", in_order},
              {"with_open_operations", with_open_operations},
              {"while_another_thread_forks", while_another_thread_forks},
              {"again_and_again", again_and_again}};

}  // namespace

PROGRAM(forks) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    own_pid = getpid();
    bool known = false;
    for (const auto& one : kForks) {
        if (argc < 2 || strcmp(argv[1], one.name) != 0) continue;
        known = true;
        one.run();
    }
    CHECK(known);
    return finish("forks");
}
