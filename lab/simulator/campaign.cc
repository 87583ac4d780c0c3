#include "simulator/campaign.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "simulator/world.h"

namespace longshore::sim {
namespace {

constexpr uint32_t kFailuresMax = 64;
constexpr uint32_t kJobsMax = 64;
constexpr uint32_t kWorldSecondsMax = 60;  // of wall time; a worker that takes longer is killed by its alarm

struct Failure {
    uint64_t seed;
    char oracle[32];
    char detail[200];
};

// Shared between the workers and the parent.
struct Board {
    std::atomic<uint64_t> next, done, virtual_ns;
    std::atomic<uint32_t> failures;
    Failure failed[kFailuresMax];
    std::atomic<uint64_t> running[kJobsMax];  // the seed, 0: none
    std::atomic<uint64_t> coverage[sizeof(Coverage) / sizeof(uint64_t)];
};

void report(Board& board, uint64_t seed, const char* oracle, const std::string& detail) {
    const uint32_t i = board.failures.fetch_add(1);
    if (i >= kFailuresMax) return;
    board.failed[i].seed = seed;
    snprintf(board.failed[i].oracle, sizeof board.failed[i].oracle, "%s", oracle);
    snprintf(board.failed[i].detail, sizeof board.failed[i].detail, "%s", detail.c_str());
}

Verdict run_world(uint64_t seed, Worlds worlds, Workspace& workspace) {
    World world(WorldOptions::draw(seed).made(worlds), workspace, false);
    return world.run();
}

void work(const CampaignOptions& o, Board& board, uint32_t job) {
    Workspace workspace;
    while (board.failures.load() < o.stop_after) {
        const uint64_t seed = board.next.fetch_add(1);
        if (seed >= o.first + o.count) break;
        board.running[job].store(seed);
        alarm(kWorldSecondsMax);
        const Verdict v = run_world(seed, o.worlds, workspace);
        if (!v.ok) {
            report(board, seed, v.oracle.c_str(), v.detail);
        } else if (mix64(seed) % 1000 < o.twice_per_mille &&
                   run_world(seed, o.worlds, workspace).hash != v.hash) {
            report(board, seed, "determinism", "two runs, two hashes");
        }
        uint64_t counts[sizeof(Coverage) / sizeof(uint64_t)];
        memcpy(counts, &v.coverage, sizeof counts);
        for (size_t i = 0; i < std::size(counts); ++i) board.coverage[i].fetch_add(counts[i]);
        board.virtual_ns.fetch_add(v.virtual_ns);
        board.done.fetch_add(1);
    }
    board.running[job].store(0);
}

pid_t start(const CampaignOptions& o, Board& board, uint32_t job) {
    fflush(stdout);
    const pid_t pid = fork();
    LONGSHORE_CHECK(pid >= 0);
    if (pid != 0) return pid;
    work(o, board, job);
    fflush(stdout);
    _exit(0);
}

uint64_t floor_of(const CoverageRow& row, Worlds worlds) {
    return worlds == Worlds::kDpus       ? row.floor_of_dpus
           : worlds == Worlds::kGivingUp ? row.floor_of_giving_up
                                         : row.floor;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

int run_campaign(const CampaignOptions& o) {
    void* shared = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    LONGSHORE_CHECK(shared != MAP_FAILED);
    Board& board = *static_cast<Board*>(shared);
    board.next.store(o.first);
    const uint32_t jobs = std::clamp(o.jobs, 1u, kJobsMax);
    printf("seeds %llu to %llu, options version %u, %u jobs\n", static_cast<unsigned long long>(o.first),
           static_cast<unsigned long long>(o.first + o.count - 1), kOptionsVersion, jobs);
    const auto begin = std::chrono::steady_clock::now();
    const bool bar = isatty(STDOUT_FILENO);
    std::vector<pid_t> workers(jobs);
    for (uint32_t j = 0; j < jobs; ++j) workers[j] = start(o, board, j);
    for (uint32_t left = jobs; left > 0;) {
        bool waited = false;
        for (uint32_t j = 0; j < jobs; ++j) {
            int status = 0;
            if (workers[j] == 0 || waitpid(workers[j], &status, WNOHANG) != workers[j]) continue;
            waited = true;
            workers[j] = 0;
            --left;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
            const bool slow = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
            report(board, board.running[j].load(), slow ? "wall time" : "check",
                   slow ? "no end" : "a check failed");
            if (board.failures.load() >= o.stop_after) continue;
            workers[j] = start(o, board, j);
            ++left;
        }
        if (!waited) usleep(20000);
        if (bar) {
            const double share = static_cast<double>(board.done.load()) / static_cast<double>(o.count);
            printf("\r[%-40.*s] %llu/%llu  %u failed ", static_cast<int>(share * 40),
                   "########################################",
                   static_cast<unsigned long long>(board.done.load()),
                   static_cast<unsigned long long>(o.count), board.failures.load());
            fflush(stdout);
        }
    }
    const double seconds = seconds_since(begin);
    const uint64_t done = board.done.load();
    printf("%s%llu worlds in %.1f s (%.0f per second), %.1f s of virtual time\n", bar ? "\r\033[K" : "",
           static_cast<unsigned long long>(done), seconds, static_cast<double>(done) / seconds,
           static_cast<double>(board.virtual_ns.load()) * 1e-9);
    Coverage total;
    uint64_t counts[sizeof(Coverage) / sizeof(uint64_t)];
    for (size_t i = 0; i < std::size(counts); ++i) counts[i] = board.coverage[i].load();
    memcpy(&total, counts, sizeof total);
    bool low = false;
    for (const CoverageRow& row : kCoverageRows) {
        const uint64_t floor = floor_of(row, o.worlds) * o.count / 20000;
        const bool missed = o.floors && total.*row.count < floor;
        low |= missed;
        printf("  %12llu  %s", static_cast<unsigned long long>(total.*row.count), row.name);
        if (floor != 0)
            printf("  (at least %llu%s)", static_cast<unsigned long long>(floor), missed ? ": MISSED" : "");
        printf("\n");
    }
    const uint32_t failures = std::min(board.failures.load(), kFailuresMax);
    std::sort(board.failed, board.failed + failures,
              [](const Failure& a, const Failure& b) { return a.seed < b.seed; });
    for (uint32_t i = 0; i < failures; ++i)
        printf("FAILED seed %llu, oracle '%s': %s\n  replay: %s --seed %llu --verbose\n",
               static_cast<unsigned long long>(board.failed[i].seed), board.failed[i].oracle,
               board.failed[i].detail, o.replay.c_str(),
               static_cast<unsigned long long>(board.failed[i].seed));
    if (failures == 0 && !low) printf("all passed\n");
    munmap(shared, sizeof(Board));
    return failures != 0 || low ? 1 : 0;
}

int run_one(uint64_t seed, uint32_t version, Worlds worlds, bool verbose) {
    const WorldOptions o = WorldOptions::draw(seed, version).made(worlds);
    printf("%s\n", o.text().c_str());
    fflush(stdout);
    Workspace workspace;
    World world(o, workspace, verbose);
    const Verdict v = world.run();
    printf("%s after %llu events, %llu ns of virtual time, hash %016llx\n", v.ok ? "passed" : "FAILED",
           static_cast<unsigned long long>(v.events), static_cast<unsigned long long>(v.virtual_ns),
           static_cast<unsigned long long>(v.hash));
    if (!v.ok) printf("oracle '%s': %s\n", v.oracle.c_str(), v.detail.c_str());
    return v.ok ? 0 : 1;
}

int run_large(double seconds_max, uint64_t rss_bytes_max) {
    const WorldOptions o = WorldOptions::large_world();
    printf("%s\n", o.text().c_str());
    fflush(stdout);
    const auto begin = std::chrono::steady_clock::now();
    Workspace workspace;
    World world(o, workspace, false);
    const Verdict v = world.run();
    const double seconds = seconds_since(begin);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const uint64_t rss = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    const auto of = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    const double cpu_seconds = of(usage.ru_utime) + of(usage.ru_stime);
    printf(
        "%s: %llu events in %.2f s, %.2f s of them on a core (at most %.0f), %.0f MB resident (at most "
        "%.0f)\n",
        v.ok ? "passed" : "FAILED", static_cast<unsigned long long>(v.events), seconds, cpu_seconds,
        seconds_max, static_cast<double>(rss) * 0x1p-20, static_cast<double>(rss_bytes_max) * 0x1p-20);
    if (!v.ok) printf("oracle '%s': %.2000s\n", v.oracle.c_str(), v.detail.c_str());
    return v.ok && cpu_seconds <= seconds_max && rss <= rss_bytes_max ? 0 : 1;
}

}  // namespace longshore::sim
