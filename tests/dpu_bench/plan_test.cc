// Who serves whom, for every number of hosts and workers up to 64 x 32, against rules that are stated another
// way than the code computes them; and every pattern carried out in memory, checked byte by byte.
#include "dpu_bench/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include "dpu_bench/buffers.h"
#include "dpu_bench/efficiency.h"

namespace longshore::dpu_bench {
namespace {

constexpr int kHostsMax = 64, kWorkersMax = 32;

void for_every_shape(const std::function<void(const Shape&)>& visit) {
    for (int hosts = 2; hosts <= kHostsMax; ++hosts)
        for (int workers = 1; workers <= kWorkersMax; ++workers)
            if (refusal({hosts, workers}, true).empty()) visit({hosts, workers});
}

bool leaves_root_out(Pattern pattern) {
    return pattern == Pattern::kBcast || pattern == Pattern::kGather;
}

std::vector<std::vector<int>> deal(Pattern pattern, Assignment assignment, const Shape& shape) {
    std::vector<std::vector<int>> lists;
    for (int worker = 0; worker < shape.workers; ++worker)
        lists.push_back(hosts_of(pattern, assignment, shape, worker));
    return lists;
}

// Cards dealt round the table: a counter of workers for every host.
std::vector<std::vector<int>> deal_like_cards(int first, const Shape& shape) {
    std::vector<std::vector<int>> hands(static_cast<std::size_t>(shape.workers));
    int counter = shape.hosts;
    for (int host = first; host < shape.hosts; ++host) {
        hands[std::size_t(counter - shape.hosts)].push_back(host);
        if (++counter == shape.ranks()) counter = shape.hosts;
    }
    return hands;
}

// A queue of hosts: the workers, in turn, take an interval off its front until it is empty.
std::vector<std::vector<int>> take_off_a_queue(int first, const Shape& shape) {
    std::vector<std::vector<int>> taken(static_cast<std::size_t>(shape.workers));
    std::vector<int> queue;
    for (int host = shape.hosts - 1; host >= first; --host) queue.push_back(host);
    while (!queue.empty())
        for (std::vector<int>& mine : taken)
            for (int i = 0; i < shape.hosts / shape.workers && !queue.empty(); ++i) {
                mine.push_back(queue.back());
                queue.pop_back();
            }
    return taken;
}

TEST(Assignment, EveryShapeFollowsTheRules) {
    int shapes = 0;
    for_every_shape([&](const Shape& shape) {
        ++shapes;
        for (const Pattern pattern : kPatterns) {
            const int first = leaves_root_out(pattern) ? 1 : 0;
            ASSERT_EQ(deal(pattern, Assignment::kCyclic, shape), deal_like_cards(first, shape))
                << to_string(pattern) << " " << shape.hosts << " x " << shape.workers;
            ASSERT_EQ(deal(pattern, Assignment::kBlock, shape), take_off_a_queue(first, shape))
                << to_string(pattern) << " " << shape.hosts << " x " << shape.workers;
        }
    });
    EXPECT_EQ(shapes, 63 * 32 - 31 * 30 / 2);  // all but the 465 that have more workers than hosts
}

TEST(Assignment, EveryHostIsServedOnceAndCyclicLoadsDifferByOne) {
    for_every_shape([](const Shape& shape) {
        for (const Pattern pattern : kPatterns)
            for (const Assignment assignment : kAssignments) {
                std::multiset<int> served;
                std::size_t least = std::size_t(shape.hosts), most = 0;
                for (const auto& list : deal(pattern, assignment, shape)) {
                    served.insert(list.begin(), list.end());
                    least = std::min(least, list.size());
                    most = std::max(most, list.size());
                    ASSERT_TRUE(std::is_sorted(list.begin(), list.end()));
                }
                const int first = leaves_root_out(pattern) ? 1 : 0;
                ASSERT_EQ(int(served.size()), shape.hosts - first);
                for (int host = first; host < shape.hosts; ++host) ASSERT_EQ(served.count(host), 1u);
                if (assignment == Assignment::kCyclic) {
                    ASSERT_LE(most - least, 1u);
                }
            }
    });
}

TEST(Assignment, WhatIsLeftOfTheBlocksGoesToTheFirstWorkers) {
    using Lists = std::vector<std::vector<int>>;
    EXPECT_EQ(deal(Pattern::kAllgatherLeader, Assignment::kBlock, {8, 3}),
              (Lists{{0, 1, 6, 7}, {2, 3}, {4, 5}}));
    EXPECT_EQ(deal(Pattern::kBcast, Assignment::kBlock, {8, 3}), (Lists{{1, 2, 7}, {3, 4}, {5, 6}}));
    EXPECT_EQ(deal(Pattern::kBcast, Assignment::kBlock, {8, 4}), (Lists{{1, 2}, {3, 4}, {5, 6}, {7}}));
    EXPECT_EQ(deal(Pattern::kBcast, Assignment::kCyclic, {8, 3}), (Lists{{1, 4, 7}, {2, 5}, {3, 6}}));
}

TEST(Rule, WorkersAreFewerThanHostsAndAtMostHalf) {
    for (int hosts = 0; hosts <= kHostsMax; ++hosts)
        for (int workers = 0; workers <= kHostsMax + 1; ++workers) {
            const bool enough = hosts >= 2 && workers >= 1;
            const bool at_most_half = 2 * workers <= hosts + workers;
            EXPECT_EQ(refusal({hosts, workers}, false).empty(), enough && at_most_half && workers < hosts);
            EXPECT_EQ(refusal({hosts, workers}, true).empty(), enough && at_most_half);
        }
    const std::string text = refusal({2, 6}, false);
    EXPECT_NE(text.find("at most half of all ranks"), text.npos) << text;
    EXPECT_NE(text.find("fewer than the hosts"), text.npos) << text;
}

TEST(Nodes, HostsAndWorkersLieInBlocksAndOneWorkerPerNodeComesFirst) {
    const Shape paper = {64, 16};
    for (int host = 0; host < 64; ++host) EXPECT_EQ(node_of(paper, 8, host), host / 8);
    for (int worker = 0; worker < 16; ++worker) EXPECT_EQ(node_of(paper, 8, 64 + worker), worker / 2);
    for (int worker = 0; worker < 4; ++worker) EXPECT_EQ(node_of({64, 4}, 8, 64 + worker), worker);
    // One worker serves node 0 only from its own: of 1 read and 3 writes, the 2 writes to node 1 cross.
    EXPECT_DOUBLE_EQ(share_between_nodes(Pattern::kBcast, Assignment::kCyclic, {4, 1}, 2), 0.5);
    EXPECT_DOUBLE_EQ(share_between_nodes(Pattern::kBcast, Assignment::kCyclic, {4, 1}, 1), 0);
}

// All processes of a job in one: moves what a work list says between the regions.
class Job {
  public:
    Job(Pattern pattern, const Shape& shape, std::size_t bytes) : shape_(shape) {
        for (int rank = 0; rank < shape.ranks(); ++rank) regions_.emplace_back(pattern, shape, rank, bytes);
    }

    void prepare(std::uint64_t round) {
        for (Buffers& region : regions_) region.prepare(round);
    }

    // A worker goes as far as it may before the next one moves, so work that relies on luck instead of on the
    // meeting point goes wrong in one of the two orders.
    void work(std::vector<Work> lists, int first_rank, bool backwards) {
        const std::size_t count = lists.size();
        std::vector<std::size_t> done(count, 0);
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t who = backwards ? count - 1 - i : i;
                for (bool start = true; done[who] < lists[who].size(); start = false) {
                    const Phase& phase = lists[who][done[who]];
                    if (phase.workers_meet_first && !start) break;
                    for (const Transfer& transfer : phase.transfers)
                        carry_out(first_rank + int(who), transfer);
                    ++done[who];
                    moved = true;
                }
            }
        }
    }

    std::string check(std::uint64_t round) const {
        for (const Buffers& region : regions_)
            if (const auto wrong = region.check(round)) return *wrong;
        return "";
    }

    Buffers& region(int rank) { return regions_[std::size_t(rank)]; }

  private:
    void carry_out(int rank, const Transfer& transfer) {
        Buffers& mine = region(rank);
        Buffers& theirs = region(transfer.peer);
        ASSERT_LE(transfer.local_offset + transfer.bytes, mine.size());
        ASSERT_LE(transfer.remote_offset + transfer.bytes, theirs.size());
        char* local = static_cast<char*>(mine.data()) + transfer.local_offset;
        char* remote = static_cast<char*>(theirs.data()) + transfer.remote_offset;
        if (transfer.kind == Transfer::Kind::kRead)
            std::memmove(local, remote, transfer.bytes);
        else
            std::memmove(remote, local, transfer.bytes);
    }

    Shape shape_;
    std::vector<Buffers> regions_;
};

std::vector<Work> staged(Pattern pattern, Assignment assignment, const Shape& shape, std::size_t bytes) {
    std::vector<Work> lists;
    for (int worker = 0; worker < shape.workers; ++worker)
        lists.push_back(worker_work(pattern, assignment, shape, worker, bytes));
    return lists;
}

TEST(Work, EveryShapeAndPatternDeliversEveryByte) {
    constexpr std::size_t kBytes = 9;  // a word and a bit
    for_every_shape([](const Shape& shape) {
        // All shapes up to 20 hosts, then a sample: regions grow with the square of the hosts.
        if (shape.hosts > 20 && (shape.hosts * 7 + shape.workers) % 23 != 0) return;
        for (const Pattern pattern : kPatterns) {
            Job job(pattern, shape, kBytes);
            std::uint64_t round = 0;
            for (const Assignment assignment : kAssignments)
                for (const bool backwards : {false, true}) {
                    if (!has_assignment(pattern, assignment)) continue;
                    job.prepare(++round);
                    job.work(staged(pattern, assignment, shape, kBytes), shape.hosts, backwards);
                    ASSERT_EQ(job.check(round), "") << to_string(pattern) << " " << to_string(assignment)
                                                    << " " << shape.hosts << " x " << shape.workers;
                }
            std::vector<Work> hosts;
            for (int host = 0; host < shape.hosts; ++host)
                hosts.push_back(host_work(pattern, shape, host, kBytes));
            job.prepare(++round);
            job.work(hosts, 0, false);
            ASSERT_EQ(job.check(round), "") << to_string(pattern) << " of hosts alone, " << shape.hosts;
        }
    });
}

TEST(Work, ReadsAndWritesAreThoseOfThePattern) {
    const Shape shape = {6, 2};
    const auto count = [&](Pattern pattern, int worker, Transfer::Kind kind) {
        std::size_t transfers = 0;
        for (const Phase& phase : worker_work(pattern, Assignment::kCyclic, shape, worker, 8))
            transfers += std::size_t(std::count_if(phase.transfers.begin(), phase.transfers.end(),
                                                   [&](const Transfer& one) { return one.kind == kind; }));
        return transfers;
    };
    const auto read = Transfer::Kind::kRead, write = Transfer::Kind::kWrite;
    EXPECT_EQ(count(Pattern::kBcast, 0, read), 1u);  // every worker reads the root
    EXPECT_EQ(count(Pattern::kBcast, 1, read), 1u);
    EXPECT_EQ(count(Pattern::kBcast, 0, write), 3u);
    EXPECT_EQ(count(Pattern::kGather, 0, read), 3u);
    EXPECT_EQ(count(Pattern::kGather, 1, write), 2u);
    EXPECT_EQ(count(Pattern::kAllgatherLeader, 1, write), 3u);  // to the leader
    EXPECT_EQ(count(Pattern::kAllgatherLeader, 0, write), 6u);  // all blocks at once to every host
    EXPECT_EQ(count(Pattern::kAllgatherMulti, 0, read), 3u);
    EXPECT_EQ(count(Pattern::kAllgatherMulti, 0, write), 18u);  // what it was given, to every host
    EXPECT_EQ(worker_work(Pattern::kAllgatherMulti, Assignment::kCyclic, {6, 1}, 0, 8)[1].transfers.size(),
              6u);
}

TEST(Check, FailsOnAnySingleWrongByte) {
    constexpr std::size_t kBytes = 21;
    const Shape shape = {3, 2};
    for (const Pattern pattern : kPatterns) {
        Job job(pattern, shape, kBytes);
        job.prepare(1);
        job.work(staged(pattern, Assignment::kCyclic, shape, kBytes), shape.hosts, false);
        ASSERT_EQ(job.check(1), "");
        for (int host = 0; host < shape.hosts; ++host) {
            for (const int slot : filled_slots(pattern, shape, host))
                for (std::size_t i = 0; i < kBytes; ++i) {
                    const std::size_t at = slot_offset(shape, host, slot, kBytes) + i;
                    job.region(host).spoil(at);
                    EXPECT_NE(job.check(1).find("byte " + std::to_string(i) + " of 21"), std::string::npos);
                    job.region(host).spoil(at);
                }
            job.region(host).spoil(0);
            EXPECT_NE(job.check(1).find("in what it gives"), std::string::npos);
            job.region(host).spoil(0);
        }
        EXPECT_EQ(job.check(1), "");
        EXPECT_NE(job.check(2), "");  // data of an older round
    }
}

TEST(Check, FailsWhereBytesBehindTheRegionChange) {
    Buffers buffers(Pattern::kBcast, {2, 1}, 2, 16);
    buffers.prepare(1);
    EXPECT_EQ(buffers.check(1), std::nullopt);
    static_cast<char*>(buffers.data())[buffers.size()] ^= 1;
    EXPECT_NE(buffers.check(1), std::nullopt);
}

TEST(Efficiency, FollowsTheFormulas) {
    Times times;
    times.reference = 80;
    times.reference_loop = 90;
    times.pure_comm = 100;
    times.compute = 82;
    times.total = 120;
    EXPECT_DOUBLE_EQ(efficiency_paper(times), 80);
    EXPECT_DOUBLE_EQ(efficiency_code(times), 75);
    times.pure_comm = 10;
    EXPECT_DOUBLE_EQ(efficiency_paper(times), 100.0 * 80 / 82);
    times.total = 45;
    EXPECT_DOUBLE_EQ(efficiency_code(times), 100);
    EXPECT_DOUBLE_EQ(efficiency_paper({}), 0);
    times.reference_median = 30;
    times.pure_comm_median = 20;
    times.compute_median = 40;
    EXPECT_DOUBLE_EQ(efficiency_median(times), 75);
    EXPECT_DOUBLE_EQ(median({5, 1, 9}), 5);
    EXPECT_DOUBLE_EQ(median({5, 1, 9, 6}), 5.5);
    EXPECT_DOUBLE_EQ(mean(std::vector<double>{1, 2, 6}), 3);
}

}  // namespace
}  // namespace longshore::dpu_bench
