// host/ as a program without MPI sees it: every collective, bytes verified; then what goes wrong.
#include "client.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "fabric/shm/system.h"
#include "host/context.h"

namespace longshore::test {
namespace {

uint8_t pattern(uint32_t from, uint32_t to, uint64_t at, uint32_t round) {
    return static_cast<uint8_t>(from * 131 + to * 17 + at * 7 + (at >> 8) * 3 + round * 29);
}

#define NEED(condition)                                                                 \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "  [rank %u] line %d: %s\n", c.rank, __LINE__, #condition); \
            return __LINE__ % 100 + 1;                                                  \
        }                                                                               \
    } while (0)

bool check_block(const uint8_t* at, uint64_t bytes, uint32_t from, uint32_t to, uint32_t round) {
    for (uint64_t i = 0; i < bytes; ++i)
        if (at[i] != pattern(from, to, i, round)) return false;
    return true;
}
void fill_block(uint8_t* at, uint64_t bytes, uint32_t from, uint32_t to, uint32_t round) {
    for (uint64_t i = 0; i < bytes; ++i) at[i] = pattern(from, to, i, round);
}

int alltoall(RankClient& c, uint64_t block, bool in_place, uint32_t round) {
    std::vector<uint8_t> send(block * c.size), recv(block * c.size + 64, 0xee);
    for (uint32_t r = 0; r < c.size; ++r)
        fill_block((in_place ? recv : send).data() + r * block, block, c.rank, r, round);
    ls_arguments a{};
    a.collective = LS_ALLTOALL;
    a.send = in_place ? nullptr : send.data();
    a.in_place = in_place;
    a.recv = recv.data();
    a.send_block_bytes = a.recv_block_bytes = block;
    NEED(c.run(a) == LS_OK);
    for (uint32_t r = 0; r < c.size; ++r) NEED(check_block(recv.data() + r * block, block, r, c.rank, round));
    for (int i = 0; i < 64; ++i) NEED(recv[block * c.size + static_cast<uint64_t>(i)] == 0xee);
    return 0;
}

// Uneven: rank i gives (i + j) % 3 * unit elements to j; displacements backwards.
int alltoallv(RankClient& c, uint64_t unit, bool in_place, uint32_t round) {
    std::vector<int32_t> counts(c.size), places(c.size);
    int32_t at = 0;
    for (uint32_t r = c.size; r-- > 0;) {
        counts[r] = static_cast<int32_t>((r + c.rank) % 3 * unit);
        places[r] = at;
        at += counts[r] + 1;
    }
    std::vector<uint8_t> send(static_cast<size_t>(at) * 4), recv(static_cast<size_t>(at) * 4, 0xee);
    for (uint32_t r = 0; r < c.size; ++r)
        fill_block((in_place ? recv : send).data() + places[r] * 4, static_cast<uint64_t>(counts[r]) * 4,
                   c.rank, r, round);
    ls_arguments a{};
    a.collective = LS_ALLTOALLV;
    a.send = in_place ? nullptr : send.data();
    a.in_place = in_place;
    a.recv = recv.data();
    a.send_vector = a.recv_vector = {counts.data(), places.data(), 0, 4};
    NEED(c.run(a) == LS_OK);
    for (uint32_t r = 0; r < c.size; ++r)
        NEED(
            check_block(recv.data() + places[r] * 4, static_cast<uint64_t>(counts[r]) * 4, r, c.rank, round));
    return 0;
}

int allgather(RankClient& c, uint64_t block, bool in_place, bool vector, uint32_t round) {
    std::vector<uint8_t> send(block), recv(block * c.size, 0xee);
    fill_block(in_place ? recv.data() + c.rank * block : send.data(), block, c.rank, 0, round);
    std::vector<int64_t> counts(c.size, static_cast<int64_t>(block)), places(c.size);
    for (uint32_t r = 0; r < c.size; ++r) places[r] = static_cast<int64_t>(r * block);
    ls_arguments a{};
    a.collective = vector ? LS_ALLGATHERV : LS_ALLGATHER;
    a.send = in_place ? nullptr : send.data();
    a.in_place = in_place;
    a.recv = recv.data();
    a.send_block_bytes = a.recv_block_bytes = block;
    a.recv_vector = {counts.data(), places.data(), 1, 1};
    NEED(c.run(a) == LS_OK);
    for (uint32_t r = 0; r < c.size; ++r) NEED(check_block(recv.data() + r * block, block, r, 0, round));
    return 0;
}

int bcast(RankClient& c, uint64_t bytes, uint32_t root, uint32_t round) {
    std::vector<uint8_t> buffer(bytes, 0xee);
    if (c.rank == root) fill_block(buffer.data(), bytes, root, 0, round);
    ls_arguments a{};
    a.collective = LS_BCAST;
    a.recv = buffer.data();
    a.root = root;
    a.recv_block_bytes = bytes;
    NEED(c.run(a) == LS_OK);
    NEED(check_block(buffer.data(), bytes, root, 0, round));
    return 0;
}

// With counts the root has a block per rank of its own size; the last rank's is empty.
int gather(RankClient& c, uint64_t bytes, bool in_place, bool vector, uint32_t root, uint32_t round) {
    const bool is_root = c.rank == root;
    std::vector<int64_t> counts, places;
    int64_t at = 0;
    for (uint32_t r = 0; r < c.size; ++r) {
        counts.push_back(static_cast<int64_t>(vector && r + 1 == c.size ? 0 : bytes));
        places.push_back(at += vector ? 3 : 0);
        at += counts.back();
    }
    const auto own = static_cast<uint64_t>(counts[c.rank]), own_at = static_cast<uint64_t>(places[c.rank]);
    std::vector<uint8_t> send(own), recv(is_root ? static_cast<uint64_t>(at) : 0, 0xee);
    in_place = in_place && is_root;
    fill_block(in_place ? recv.data() + own_at : send.data(), own, c.rank, 0, round);
    ls_arguments a{};
    a.collective = vector ? LS_GATHERV : LS_GATHER;
    a.root = root;
    a.in_place = in_place;
    a.send = in_place ? nullptr : send.data();
    a.send_block_bytes = own;
    a.recv = recv.data();
    a.recv_block_bytes = is_root ? bytes : 0;
    if (is_root) a.recv_vector = {counts.data(), places.data(), 1, 1};
    NEED(c.run(a) == LS_OK);
    for (uint32_t r = 0; r < c.size && is_root; ++r)
        NEED(check_block(recv.data() + places[r], static_cast<uint64_t>(counts[r]), r, 0, round));
    return 0;
}

int scatter(RankClient& c, uint64_t bytes, bool in_place, bool vector, uint32_t root, uint32_t round) {
    const bool is_root = c.rank == root;
    in_place = in_place && is_root;
    std::vector<int64_t> counts(c.size, static_cast<int64_t>(bytes)), places;
    if (vector) counts.back() = 0;
    std::vector<uint8_t> send;
    for (uint32_t r = 0; r < c.size; ++r) {
        places.push_back(static_cast<int64_t>(send.size()));
        if (!is_root) continue;
        send.resize(send.size() + static_cast<uint64_t>(counts[r]));
        fill_block(send.data() + places[r], static_cast<uint64_t>(counts[r]), root, r, round);
    }
    const auto own = static_cast<uint64_t>(counts[c.rank]);
    std::vector<uint8_t> recv(own, 0xee);
    ls_arguments a{};
    a.collective = vector ? LS_SCATTERV : LS_SCATTER;
    a.root = root;
    a.in_place = in_place;
    a.send = send.data();
    a.send_block_bytes = is_root ? bytes : 0;
    if (is_root) a.send_vector = {counts.data(), places.data(), 1, 1};
    a.recv = in_place ? nullptr : recv.data();
    a.recv_block_bytes = in_place ? 0 : own;
    NEED(c.run(a) == LS_OK);
    if (!in_place) NEED(check_block(recv.data(), own, root, c.rank, round));
    return 0;
}

int every_collective(RankClient& c, uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; ++round) {
        for (const uint64_t bytes : {0ul, 1ul, 700ul, 5000ul, 300000ul}) {
            for (const bool in_place : {false, true}) {
                if (int rc = alltoall(c, bytes, in_place, round)) return rc;
                if (int rc = alltoallv(c, bytes / 4, in_place, round)) return rc;
                if (int rc = allgather(c, bytes, in_place, false, round)) return rc;
                if (int rc = allgather(c, bytes, in_place, true, round)) return rc;
                for (const bool vector : {false, true}) {
                    const uint32_t root = (round + vector) % c.size;
                    if (int rc = gather(c, bytes, in_place, vector, root, round)) return rc;
                    if (int rc = scatter(c, bytes, in_place, vector, root, round)) return rc;
                }
            }
            if (int rc = bcast(c, bytes, round % c.size, round)) return rc;
        }
    }
    return 0;
}

struct Variant {
    const char* name;
    JobOptions options;
};
JobOptions with(uint32_t ranks, uint32_t nodes, uint32_t services, bool strided = false,
                bool cooperative = true, bool inaccessible = false) {
    JobOptions o;
    o.ranks = ranks, o.nodes = nodes, o.services = services;
    o.strided = strided, o.cooperative = cooperative, o.inaccessible = inaccessible;
    return o;
}

JobOptions staged(JobOptions o, ls_algorithm algorithm, ls_memory_mode mode = LS_MEMORY_AUTO) {
    o.algorithm = algorithm, o.memory_mode = mode, o.staging_bytes = 65536;
    return o;
}

class Collectives : public testing::TestWithParam<Variant> {};
TEST_P(Collectives, BytesArrive) {
    Job job(GetParam().options, [](RankClient& c) {
        if (!c.attach()) {
            fprintf(stderr, "  %s\n", c.error().c_str());
            return 1;
        }
        NEED(c.make_group());
        const int rc = every_collective(c, 3);
        c.barrier();
        return rc;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}
INSTANTIATE_TEST_SUITE_P(
    Jobs, Collectives,
    testing::Values(Variant{"OneRank", with(1, 0, 1)}, Variant{"TwoRanks", with(2, 0, 1)},
                    Variant{"FourRanks", with(4, 0, 1)}, Variant{"OnlyServices", with(4, 0, 2, false, false)},
                    Variant{"Inaccessible", with(4, 0, 1, false, false, true)},
                    Variant{"TwoNodes", with(4, 2, 1)},
                    Variant{"TwoNodesInaccessible", with(4, 2, 1, false, false, true)},
                    Variant{"TwoNodesStrided", with(4, 2, 2, true)},
                    Variant{"ThreeUnevenNodes", with(5, 3, 1)},
                    Variant{"Staged", staged(with(5, 3, 1), LS_STAGED)},
                    Variant{"Hierarchical", staged(with(5, 2, 2), LS_STAGED_HIERARCHICAL)},
                    Variant{"Staging", staged(with(4, 2, 1), LS_DIRECT, LS_MEMORY_STAGING)},
                    Variant{"HierarchicalThroughStaging",
                            staged(with(4, 2, 1, false, false, true), LS_STAGED_HIERARCHICAL)}),
    [](const auto& variant) { return std::string(variant.param.name); });

// Nodes of two, one and two ranks that TCP joins: each entry of the address book comes in slices, and nobody
// hears more at a time than it may.
TEST(Attach, UnevenNodesLearnWhereTcpReachesEachOther) {
    JobOptions options = with(5, 3, 2);
    options.tcp = true;
    Job job(options, [](RankClient& c) {
        if (!c.attach()) {
            fprintf(stderr, "  %s\n", c.error().c_str());
            return 1;
        }
        NEED(c.heard_max <= 16 * 5 + 1024 * 3);
        ls_surroundings around{};
        ls_look_around(c.context, &around);
        NEED(around.joined_by == ls_surroundings::LS_JOINED_BY_TCP);
        NEED(c.make_group());
        const int rc = every_collective(c, 3);
        c.barrier();
        return rc;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

// A job whose service processes may not have the descriptors that they need does not begin, and says what to
// do.
TEST(Attach, TooFewDescriptorsAreOneClearError) {
    JobOptions options = with(4, 4, 2);
    options.tcp = true;
    options.files_soft = options.files_hard = 140;
    Job job(options, [](RankClient& c) {
        NEED(!c.attach());
        NEED(c.error().find("a service process needs up to 148 open files") != std::string::npos);
        NEED(c.error().find("RLIMIT_NOFILE) is 140: raise it") != std::string::npos);
        return 0;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

// Nor is a limit so low that hardly anything runs under it an "Invalid argument".
TEST(Attach, ALowHardLimitIsOneClearErrorToo) {
    JobOptions options = with(2, 0, 1);
    options.files_soft = options.files_hard = 64;
    Job job(options, [](RankClient& c) {
        NEED(!c.attach());
        NEED(c.error().find("the supervisor of the service processes needs up to") != std::string::npos);
        NEED(c.error().find("RLIMIT_NOFILE) is 64: raise it") != std::string::npos);
        return 0;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

// The soft limit is no obstacle: who needs more takes it.
TEST(Attach, ServiceProcessesRaiseTheirLimitOfOpenFiles) {
    JobOptions options = with(2, 0, 1);
    options.files_soft = 64, options.files_hard = 1000;
    Job job(options, [](RankClient& c) {
        NEED(c.attach());
        c.barrier();
        if (c.rank != 0) return 0;
        // A service process that has just been started has no command line yet by which it is found.
        std::vector<rlimit> of_this_job;
        NEED(wait_until([&of_this_job] {
            of_this_job.clear();
            for (const pid_t pid : find_services("")) {
                rlimit files{};
                if (prlimit(pid, RLIMIT_NOFILE, nullptr, &files) != 0) continue;  // that of the job before
                if (files.rlim_max == 1000) of_this_job.push_back(files);
            }
            return of_this_job.size() == 2;
        }));
        for (const rlimit& files : of_this_job) NEED(files.rlim_cur == 1000);
        return 0;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

// A further group of the client's exchange. Null: it could not be made.
ls_group* make_another(RankClient& c) {
    return c.make_group() ? std::exchange(c.group, nullptr) : nullptr;
}

// The process that answers this job's ranks does not run, from stop() on and until this goes, or resume().
class StoppedSupervisor {
  public:
    ~StoppedSupervisor() { resume(); }
    bool stop() {
        const std::vector<pid_t> all = find_services("supervisor");
        if (all.size() != 1 || kill(all[0], SIGSTOP) != 0) return false;
        pid_ = all[0];
        return wait_until([this] { return state_of(pid_) == 'T'; });
    }
    void resume() {
        if (pid_ != 0) kill(std::exchange(pid_, 0), SIGCONT);
    }

  private:
    pid_t pid_ = 0;
};

// Groups that go while their supervisor does not read: it hears of all of them, and of no other's place is
// taken for good.
TEST(Groups, NoPlaceIsLostWhoeverReadsLate) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        constexpr uint32_t kGroups = 500;
        if (!c.attach()) return 1;
        for (int round = 0; round < 3; ++round) {
            std::vector<ls_group*> groups;
            for (uint32_t i = 0; i < kGroups; ++i) {
                groups.push_back(make_another(c));
                NEED(groups.back() != nullptr);
            }
            c.barrier();
            StoppedSupervisor supervisor;
            NEED(c.rank != 0 || supervisor.stop());
            c.barrier();
            for (ls_group* group : groups) ls_group_free(group);
            c.barrier();
            supervisor.resume();
        }
        c.barrier();
        return 0;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

// By a word of the node's memory: no full socket makes a rank that goes one that is lost.
TEST(Groups, ARankThatGoesHasSaidSo) {
    Job job(with(1, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        const RankSlot& slot = c.context->memory.rank(LocalRank{0});
        NEED(slot.attached.load() == kRankAttached);
        const auto at = reinterpret_cast<const std::byte*>(&slot) - c.context->mapping.data();
        const Mapping kept = Mapping::shared(c.context->memory_file.get(), c.context->mapping.size());
        NEED(kept);
        StoppedSupervisor supervisor;
        NEED(supervisor.stop());
        ls_context_free(std::exchange(c.context, nullptr));
        NEED(reinterpret_cast<const RankSlot*>(kept.data() + at)->attached.load() == kRankLeaves);
        supervisor.resume();
        return 0;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

// A supervisor that answers too late has counted the rank in: no group of it is left when the answer is
// heard. Why there is no group is said by one rank.
TEST(Groups, NoPlaceIsLostByALateAnswer) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        static std::string said;
        c.hear_info = [](const char* line) { said += line; };
        StoppedSupervisor supervisor;
        NEED(c.rank != 0 || supervisor.stop());
        c.barrier();
        const uint32_t limit_s = std::exchange(c.context->options.limit_s, 0);
        for (int i = 0; i < 2; ++i) {
            NEED(!c.make_group());
            ls_group_free(std::exchange(c.group, nullptr));
        }
        NEED((c.rank == 0) == (said.find("its supervisor did not answer in time") != said.npos));
        c.context->options.limit_s = limit_s;
        c.barrier();
        supervisor.resume();
        // All places of the node's table.
        for (uint32_t i = 0; i < NodeLimits{}.groups_max; ++i) NEED(make_another(c) != nullptr);
        said.clear();
        NEED(make_another(c) == nullptr);
        NEED((c.rank == 0) ==
             (said.find("as many groups are open on its node as there is room for") != said.npos));
        c.barrier();
        return 0;
    });
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

ls_arguments allgather(const std::vector<uint8_t>& send, std::vector<uint8_t>* recv, ls_algorithm algorithm) {
    ls_arguments a{};
    a.collective = LS_ALLGATHER;
    a.algorithm = algorithm;
    a.send = send.data();
    a.recv = recv->data();
    a.send_block_bytes = a.recv_block_bytes = send.size();
    return a;
}

// A rank has told service processes that it copies its blocks itself when it waits; it does so although it is
// told meanwhile not to work.
TEST(Wait, WhatWasPromisedIsDone) {
    Job job(staged(with(2, 0, 1), LS_STAGED_HIERARCHICAL), [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(c.make_group());
        std::vector<uint8_t> send(100000, static_cast<uint8_t>(c.rank + 1)), recv(200000);
        const ls_arguments a = allgather(send, &recv, LS_STAGED_HIERARCHICAL);
        ls_operation* operation = nullptr;
        NEED(ls_operation_start(c.group, &a, &operation) == LS_OK);
        ls_set_cooperative(c.context, 0);
        NEED(c.wait(operation) == LS_OK);
        ls_operation_free(operation);
        NEED(recv.front() == 1 && recv.back() == 2);
        c.barrier();
        return 0;
    });
    EXPECT_TRUE(job.passed());
}

// How often the service process of the job was seen out of the idle class while it moved the blocks of ranks
// that all compute, or 0 and an error.
int looks_raised(RankClient& c, int* raised) {
    NEED(c.make_group());
    // That of the job before may still be ending, and this one hears of its place after all ranks have
    // attached.
    std::vector<pid_t> services = find_services("sp");
    for (int looks = 0; looks < 10'000; ++looks, services = find_services("sp")) {
        if (services.size() == 1 && sched_getscheduler(services[0]) == SCHED_IDLE) break;
        usleep(500);
    }
    NEED(services.size() == 1);
    c.barrier();
    std::vector<uint8_t> send(8 << 20, static_cast<uint8_t>(c.rank + 1)), recv(c.size * send.size());
    const ls_arguments a = allgather(send, &recv, LS_DIRECT);
    ls_operation* operation = nullptr;
    NEED(ls_operation_start(c.group, &a, &operation) == LS_OK);
    c.barrier();
    if (c.rank == 0) {
        ls_service_stats now{};
        // Without a pause: it is raised for the time of a chunk.
        for (int looks = 0; now.copies < 8 * c.size && looks < 20'000'000; ++looks) {
            *raised += sched_getscheduler(services[0]) != SCHED_IDLE;
            ls_services(c.context, &now, 1);
        }
        NEED(now.copies != 0);
        c.shared->flags[0].store(1);
    }
    while (c.shared->flags[0].load() == 0) usleep(1000);
    NEED(c.wait(operation) == LS_OK);
    ls_operation_free(operation);
    NEED(recv.front() == 1 && recv.back() == c.size);
    c.barrier();
    return 0;
}

// As many ranks as cores, none of which waits: a service process moves their blocks in time that nobody
// wants.
TEST(Wait, NobodyWhoComputesLosesACore) {
    const auto ranks = static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
    if (ranks < 2 || ranks > kRanksMax) GTEST_SKIP() << "not so many ranks as cores";
    Job job(with(ranks, 0, 1), [](RankClient& c) {
        int raised = 0;
        if (!c.attach()) return 1;
        if (const int rc = looks_raised(c, &raised)) return rc;
        NEED(raised == 0);
        return 0;
    });
    EXPECT_TRUE(job.passed());
}

// What the ranks of run_while say of themselves, and are told.
enum : uint32_t { kRound, kMayEnd, kIncarnations };  // the last by node

// Ranks do every collective, round after round, while `meddle` does its work from the parent; and then three
// more rounds, so that there was work left for whoever is still there.
void run_while(const JobOptions& options, const std::function<void(Job&)>& meddle) {
    Job job(options, [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(c.make_group());
        uint32_t last = UINT32_MAX;
        for (uint32_t round = 1; round <= last; ++round) {
            if (int rc = every_collective(c, 1)) return rc;
            ls_service_stats service{};
            if (ls_is_node_leader(c.context) && ls_services(c.context, &service, 1) == 1)
                c.shared->flags[kIncarnations + ls_node(c.context)].store(service.incarnation);
            if (c.rank == 0) c.shared->flags[kRound].store(round);
            if (last == UINT32_MAX && c.from_first_rank(c.shared->flags[kMayEnd].load()) != 0)
                last = round + 3;
        }
        c.barrier();
        return 0;
    });
    meddle(job);
    job.shared().flags[kMayEnd].store(1);
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

bool wait_for_rounds(Job& job, uint32_t more) {
    const uint32_t now = job.shared().flags[kRound].load();
    return wait_until([&] { return job.shared().flags[kRound].load() >= now + more; });
}

// So many of the role, killed while ranks are in a round that follows others.
void kill_in_a_round(Job& job, const char* role, size_t count) {
    ASSERT_TRUE(wait_for_rounds(job, 1)) << "the ranks do not go on";
    std::vector<pid_t> found;
    ASSERT_TRUE(wait_until([&] { return (found = find_services(role)).size() == count; })) << role;
    for (const pid_t pid : found) ASSERT_EQ(kill(pid, SIGKILL), 0) << role;
}

// Each time the next one must have come to be before it is killed, too.
void kill_services_again_and_again(Job& job, uint32_t nodes) {
    for (int i = 0; i < 4; ++i) {
        std::vector<uint32_t> before;
        ASSERT_TRUE(wait_for_rounds(job, 1)) << "the ranks do not go on";
        for (uint32_t n = 0; n < nodes; ++n) before.push_back(job.shared().flags[kIncarnations + n].load());
        kill_in_a_round(job, "sp", nodes);
        for (uint32_t n = 0; n < nodes; ++n) {
            EXPECT_TRUE(wait_until([&] { return job.shared().flags[kIncarnations + n].load() > before[n]; }))
                << "node " << n << " still has incarnation " << before[n];
        }
    }
}

TEST(Loss, ServiceKilledOnOneNode) {
    run_while(with(4, 0, 1), [](Job& job) { kill_services_again_and_again(job, 1); });
}
TEST(Loss, ServiceKilledWithTwoNodes) {
    run_while(with(4, 2, 1), [](Job& job) { kill_services_again_and_again(job, 2); });
}
TEST(Loss, SupervisorKilledOnOneNode) {
    run_while(with(4, 0, 1), [](Job& job) {
        kill_in_a_round(job, "supervisor", 1);
        EXPECT_TRUE(wait_until_gone()) << "its service process stayed";
        EXPECT_TRUE(wait_for_rounds(job, 3)) << "the ranks do not go on alone";
    });
}
TEST(Loss, ServiceStoppedOnOneNode) {
    // Between operations it holds no claim: it is stopped while the ranks are not in one.
    enum : uint32_t { kBegun, kIsStopped, kDone, kSeen };
    Job job(with(4, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(c.make_group());
        c.barrier();
        c.shared->flags[kBegun].store(1);
        while (c.shared->flags[kIsStopped].load() == 0) usleep(1000);
        const int rc = every_collective(c, 3);
        c.shared->flags[kDone].fetch_add(1);
        while (c.shared->flags[kSeen].load() == 0) usleep(1000);
        c.barrier();
        return rc;
    });
    auto& flags = job.shared().flags;
    EXPECT_TRUE(wait_until([&] { return flags[kBegun].load() != 0; }));
    std::vector<pid_t> services;  // that of the job before may still be ending
    EXPECT_TRUE(wait_until([&] { return (services = find_services("sp")).size() == 1; }));
    for (const pid_t pid : services) {
        EXPECT_EQ(kill(pid, SIGSTOP), 0);
        EXPECT_TRUE(wait_until([&] { return state_of(pid) == 'T'; }));
    }
    flags[kIsStopped].store(1);
    EXPECT_TRUE(wait_until([&] { return flags[kDone].load() == 4; }));
    for (const pid_t pid : services) EXPECT_EQ(state_of(pid), 'T') << "somebody had it go on";
    flags[kSeen].store(1);
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}
TEST(Loss, RankKilled) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        c.shared->flags[0].fetch_add(1);
        pause();
        return 0;
    });
    EXPECT_TRUE(wait_until([&] { return job.shared().flags[0].load() == 2; }));
    kill(job.rank_pid(0), SIGKILL);
    kill(job.rank_pid(1), SIGKILL);
    job.wait();
    EXPECT_TRUE(wait_until_gone());
}

TEST(Guest, ApplicationSeesNoChild) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD);
        NEED(c.make_group());
        const int rc = every_collective(c, 1);
        NEED(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD);
        c.barrier();
        return rc;
    });
    EXPECT_TRUE(job.passed());
}
// A root that is through with its broadcast keeps the record until the others have come. Groups that come and
// go meanwhile, more than a node has room for, must not wait for that.
TEST(Groups, GoWhileARecordOfAnotherIsHeld) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(c.make_group());
        ls_group* first = c.group;
        uint8_t buffer[8] = {7};
        ls_arguments a{};
        a.collective = LS_BCAST;
        a.recv = buffer;
        a.recv_block_bytes = sizeof buffer;
        if (c.rank == 0) NEED(c.run(a) == LS_OK);
        for (int i = 0; i < 600; ++i) {
            NEED(c.make_group());
            ls_group_free(c.group);
        }
        c.group = first;
        if (c.rank != 0) NEED(c.run(a) == LS_OK);
        c.barrier();
        return 0;
    });
    EXPECT_TRUE(job.passed());
}
TEST(Guest, ForkedChildIsRefused) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(c.make_group());
        const pid_t pid = fork();
        if (pid == 0) {
            uint8_t buffer[8] = {};
            ls_arguments a{};
            a.collective = LS_BCAST;
            a.recv = buffer;
            a.recv_block_bytes = sizeof buffer;
            ls_operation* operation = nullptr;
            _exit(ls_operation_start(c.group, &a, &operation) == LS_ERR_UNAVAILABLE ? 0 : 1);
        }
        int status = 1;
        waitpid(pid, &status, 0);
        NEED(status == 0);
        const int rc = every_collective(c, 1);
        c.barrier();
        return rc;
    });
    EXPECT_TRUE(job.passed());
}
TEST(Guest, AnotherUserIsRefused) {
    if (getuid() != 0) GTEST_SKIP() << "needs root, to become another user";
    Job job(with(1, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        c.shared->flags[0].store(1);
        while (c.shared->flags[1].load() == 0) usleep(1000);
        NEED(c.make_group());
        return every_collective(c, 1);
    });
    while (job.shared().flags[0].load() == 0) usleep(1000);
    // The name is in /proc/net/unix for everybody to see; the supervisor hangs up on who is not its user.
    // Other jobs of this machine are left alone: they would tell their users.
    std::vector<std::string> names;
    for (const pid_t pid : find_services(""))
        if (const std::string name = name_of_listener(pid); !name.empty()) names.push_back(name);
    EXPECT_FALSE(names.empty());
    const pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(3);
        for (const std::string& name : names) {
            sockaddr_un address{};
            address.sun_family = AF_UNIX;
            memcpy(address.sun_path + 1, name.data(), name.size());
            const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
            if (connect(fd, reinterpret_cast<sockaddr*>(&address),
                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) != 0)
                continue;
            char byte = 0;
            const timeval limit{60, 0};
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            if (recv(fd, &byte, 1, 0) > 0 || errno == EAGAIN) _exit(4);  // neither an answer nor patience
        }
        _exit(0);
    }
    int status = 1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    job.shared().flags[1].store(1);
    EXPECT_TRUE(job.passed());
}
// It sleeps, and in a second and more takes less than a tenth of that from a core: one that polled would take
// all. (A record that is kept for readers has it look 20 times a second.)
TEST(Guest, IdleServiceSleeps) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(c.make_group());
        if (int rc = every_collective(c, 1)) return rc;
        c.barrier();
        while (c.rank != 0 && c.shared->flags[0].load() == 0) usleep(1000);
        if (c.rank != 0) return 0;
        const bool slept = wait_until([&] {  // at first it may still be busy with what was
            ls_service_stats before{}, after{};
            ls_services(c.context, &before, 1);
            const uint64_t begin = now_ns();
            uint64_t took_ns = 0;
            const bool sleeps = wait_until([&] {  // it writes down its figures when it is awake
                ls_services(c.context, &after, 1);
                took_ns = now_ns() - begin;
                return took_ns > 1'000'000'000 && after.sleeps >= before.sleeps + 2;
            });
            fprintf(stderr, "  it slept %llu times in %.1f s and took %.2f ms from a core\n",
                    static_cast<unsigned long long>(after.sleeps - before.sleeps),
                    static_cast<double>(took_ns) / 1e9,
                    static_cast<double>(after.cpu_ns - before.cpu_ns) / 1e6);
            return sleeps && after.cpu_ns - before.cpu_ns < took_ns / 10;
        });
        NEED(slept);
        c.shared->flags[0].store(1);
        return 0;
    });
    EXPECT_TRUE(job.passed());
}
TEST(Guest, MissingProgramIsOneClearError) {
    JobOptions options = with(3, 0, 1);
    options.service_path = "/nowhere/longshored";
    Job job(options, [](RankClient& c) {
        NEED(!c.attach());
        NEED(c.error().find("/nowhere/longshored") != std::string::npos);
        return 0;
    });
    EXPECT_TRUE(job.passed());
}
TEST(Guest, UnreadableMemoryEndsInAnError) {
    Job job(with(2, 0, 1), [](RankClient& c) {
        if (!c.attach()) return 1;
        NEED(c.make_group());
        const size_t block = 1 << 20;
        auto* send = static_cast<uint8_t*>(
            mmap(nullptr, 2 * block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        std::vector<uint8_t> recv(2 * block);
        // A hole in the block that rank 0 gives to rank 1.
        if (c.rank == 0) mprotect(send + block + 65536, 65536, PROT_NONE);
        ls_arguments a{};
        a.collective = LS_ALLTOALL;
        a.send = send;
        a.recv = recv.data();
        a.send_block_bytes = a.recv_block_bytes = block;
        ls_set_cooperative(c.context,
                           c.rank == 1);  // the owner's own memcpy would end it as any program's does
        const int rc = c.run(a);
        NEED(rc == (c.rank == 1 ? LS_ERR_MEMORY : LS_OK) || rc == LS_ERR_MEMORY);
        NEED(c.rank == 0 || rc == LS_ERR_MEMORY);
        c.barrier();
        return 0;
    });
    EXPECT_TRUE(job.passed());
}

}  // namespace
}  // namespace longshore::test

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
