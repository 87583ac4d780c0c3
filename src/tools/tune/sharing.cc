// longshore tune --sharing: what it costs on this machine to make memory shared, and after how much moving it
// has paid.
#include "tools/tune/sharing.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "memory/adopt.h"
#include "memory/heap.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr size_t kBytes = 8 << 20;  // of a round; the rounds' parts are never used before
constexpr double kMegabytes = kBytes / 1e6;
constexpr int kRounds = 7, kCopies = 5;

alignas(4096) char adopted[kRounds * kBytes];  // static data, as longshore_adopt() wants it

double now_us() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

template <typename Work>
double time_us(Work work) {
    const double begin = now_us();
    work();
    return now_us() - begin;
}

// All in us per MB.
struct Costs {
    double adopt = 0, map = 0, mapped = 0, peer_copy = 0;
    bool ok = false;
};

// What the reader, another process, measures: copies by way of the system, the first copy out of newly mapped
// pages, and later ones.
struct Reader {
    pid_t process = 0;
    int orders = -1, answers = -1;

    struct Order {
        pid_t owner;
        int file;
        uint64_t offset, address;
    };
    struct Answer {
        double peer_copy, first, later;
    };

    bool start();
    bool ask(const Order& order, Answer* answer) const {
        return write(orders, &order, sizeof order) == sizeof order &&
               read(answers, answer, sizeof *answer) == sizeof *answer && answer->first >= 0;
    }
    void stop() const {
        close(orders);
        close(answers);
        if (process > 0) waitpid(process, nullptr, 0);
    }
    [[noreturn]] static void serve(int orders, int answers);
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

Reader::Answer measure(const Reader::Order& order, char* own) {
    std::vector<double> copies;
    for (int i = 0; i < kCopies; ++i) {
        const iovec here{own, kBytes}, there{reinterpret_cast<void*>(order.address), kBytes};
        ssize_t moved = 0;
        copies.push_back(time_us([&] { moved = process_vm_readv(order.owner, &here, 1, &there, 1, 0); }));
        if (moved != ssize_t(kBytes)) return {-1, -1, -1};
    }
    const int file = open(fmt::format("/proc/{}/fd/{}", order.owner, order.file).c_str(), O_RDWR | O_CLOEXEC);
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(order.offset));
    close(file);
    if (memory == MAP_FAILED) return {-1, -1, -1};
    const double first = time_us([&] { memcpy(own, memory, kBytes); });
    std::vector<double> later;
    for (int i = 0; i < kCopies; ++i) later.push_back(time_us([&] { memcpy(own, memory, kBytes); }));
    munmap(memory, kBytes);
    return {median(copies) / kMegabytes, first / kMegabytes, median(later) / kMegabytes};
}

void Reader::serve(int orders, int answers) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // At the start of a page as the owner's: distances of less than a cache line copy slowly on some
    // processors.
    char* const own = static_cast<char*>(aligned_alloc(4096, kBytes));
    memset(own, 1, kBytes);
    Order order;
    while (read(orders, &order, sizeof order) == sizeof order) {
        const Answer answer = measure(order, own);
        if (write(answers, &answer, sizeof answer) != sizeof answer) break;
    }
    _exit(0);
}

bool Reader::start() {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return false;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    process = fork();
    if (process == 0) {
        close(to[1]);
        close(from[0]);
        serve(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    orders = to[1];
    answers = from[0];
    return process > 0;
}

Costs measure_costs() {
    Reader reader;
    if (!reader.start()) return {};
    std::vector<double> adopt, map, mapped, peer_copy;
    const longshore_heap* heap = longshore_heap_open(2 * sizeof adopted);
    for (int round = 0; heap != nullptr && round < kRounds; ++round) {
        char* const at = adopted + round * kBytes;
        memset(at, round + 1, kBytes);
        uint64_t begin = 0, end = 0, offset = 0;
        int done = 0;
        const double took = time_us([&] {
            done = longshore_adopt(at, kBytes, &begin, &end, &offset);
            // Its owner's pages are to be found anew, too.
            for (size_t i = 0; i < kBytes; i += 4096) static_cast<volatile char*>(at)[i];
        });
        Reader::Answer answer{};
        if (!done || !reader.ask({getpid(), heap->file, offset, reinterpret_cast<uint64_t>(at)}, &answer))
            break;
        adopt.push_back(took / kMegabytes);
        map.push_back(std::max(0.0, answer.first - answer.later));
        mapped.push_back(answer.later);
        peer_copy.push_back(answer.peer_copy);
    }
    reader.stop();
    if (adopt.size() < kRounds) return {};
    return {median(adopt), median(map), median(mapped), median(peer_copy), true};
}

}  // namespace

int tune_sharing() {
    const Costs costs = measure_costs();
    if (!costs.ok) {
        fmt::print(stderr, "longshore tune: memory cannot be shared here; 'longshore doctor' may say why\n");
        return kFailed;
    }
    const double saved = costs.peer_copy - costs.mapped;
    fmt::print("us per MB (medians of {} parts of {:.1f} MB)\n", kRounds, kMegabytes);
    fmt::print("  {:8.1f}  to make ordinary memory shared where it is, once\n", costs.adopt);
    fmt::print("  {:8.1f}  to map it in a further process, once\n", costs.map);
    fmt::print("  {:8.1f}  to copy from it, mapped\n", costs.mapped);
    fmt::print("  {:8.1f}  to copy from ordinary memory (process_vm_readv)\n", costs.peer_copy);
    if (saved <= 0) {
        fmt::print(
            "copying by way of the system is as fast here: LONGSHORE_MEMORY_ALIAS=off loses nothing\n");
        return kOk;
    }
    fmt::print(
        "a block of malloc (LONGSHORE_MEMORY_ALIAS=allocate) has paid when it has been copied {:.1f} times\n",
        costs.map / saved);
    fmt::print("static data (adopt) when others have copied {:.1f} times its bytes:\n",
               (costs.adopt + costs.map) / saved);
    for (const int ranks : {2, 4, 8}) {
        // Of an alltoall everybody reads its own part; of an allgather and a bcast all of it.
        const double readers = ranks - 1;
        fmt::print("  {} ranks: {:.1f} alltoalls, {:.1f} allgathers or bcasts\n", ranks,
                   (costs.adopt + costs.map * readers / ranks) / (saved * readers / ranks),
                   (costs.adopt / readers + costs.map) / saved);
    }
    return kOk;
}

}  // namespace longshore::tools
