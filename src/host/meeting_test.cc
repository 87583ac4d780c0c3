// What ranks tell each other while they attach: that it comes whole to the first rank of every node, whatever
// the shape of the job, and how much of it a rank holds, exactly.
#include "host/meeting.h"

#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <numeric>

namespace longshore {
namespace {

// The ranks of a job in one process, in step. What they give is put together when the first of them asks.
class PlayedJob {
  public:
    PlayedJob(std::vector<uint32_t> ranks_of_nodes, bool strided = false) : nodes_(ranks_of_nodes.size()) {
        std::vector<uint16_t> locals(nodes_);
        while (std::accumulate(ranks_of_nodes.begin(), ranks_of_nodes.end(), 0u) != 0) {
            for (uint16_t node = 0; node < nodes_; ++node) {
                for (; ranks_of_nodes[node] != 0; --ranks_of_nodes[node]) {
                    places_.push_back({node, locals[node]++, 0});
                    if (strided) break;
                }
                if (strided && ranks_of_nodes[node] != 0) --ranks_of_nodes[node];
            }
        }
    }
    void begin() {
        ranks_.resize(places_.size());
        for (size_t i = 0; i < ranks_.size(); ++i) {
            Rank& rank = ranks_[i];
            rank.job = this;
            rank.number = static_cast<uint32_t>(i);
            Meeting::Options options;
            options.exchange = {&rank, rank.number, static_cast<uint32_t>(places_.size()), start, test};
            options.job = {static_cast<uint32_t>(nodes_), kServices, true, false};
            options.places = places_;
            rank.meeting = std::make_unique<Meeting>(options);
        }
    }
    template <class Start>
    void exchange(const Start& start_of) {
        for (Rank& rank : ranks_) ASSERT_EQ(start_of(*rank.meeting, rank.number), LS_OK);
        size_t over = 0;
        while (over != ranks_.size()) {
            given_.assign(ranks_.front().bytes * places_.size(), std::byte{0});
            for (const Rank& rank : ranks_) {
                ASSERT_EQ(rank.bytes, ranks_.front().bytes) << "ranks are out of step";
                memcpy(given_.data() + rank.number * rank.bytes, rank.in, rank.bytes);
            }
            over = 0;
            for (Rank& rank : ranks_) {
                held_max_ = std::max<uint64_t>(held_max_, given_.size());
                over += rank.meeting->test() == LS_OK;
            }
        }
    }
    const std::vector<Place>& places() const { return places_; }
    Meeting& meeting(size_t i) { return *ranks_[i].meeting; }
    uint64_t held_max() const { return held_max_; }
    uint64_t bound() const { return 16 * places_.size() + 1024 * nodes_; }
    static constexpr uint16_t kServices = 2;

  private:
    struct Rank {
        PlayedJob* job = nullptr;
        uint32_t number = 0;
        const void* in = nullptr;
        void* out = nullptr;
        size_t bytes = 0;
        std::unique_ptr<Meeting> meeting;
    };
    static int start(void* user, const void* in, void* out, size_t bytes) {
        Rank& rank = *static_cast<Rank*>(user);
        rank.in = in, rank.out = out, rank.bytes = bytes;
        return LS_OK;
    }
    static int test(void* user) {
        const Rank& rank = *static_cast<Rank*>(user);
        memcpy(rank.out, rank.job->given_.data(), rank.job->given_.size());
        return LS_OK;
    }
    const size_t nodes_;
    std::vector<Place> places_;
    std::vector<Rank> ranks_;
    std::vector<std::byte> given_;
    uint64_t held_max_ = 0;
};

// Of a node whose service processes have addresses of so many bytes.
std::vector<std::byte> entry_of(uint32_t node, size_t address_bytes, bool alike = true) {
    NodeEntry entry;
    entry.address.name = unpack_name({static_cast<uint8_t>(node), static_cast<uint8_t>(node >> 8)});
    entry.address.token.fill(static_cast<uint8_t>(node));
    entry.address.services = PlayedJob::kServices;
    snprintf(entry.address.host, sizeof entry.address.host, "node%04u", node);
    for (uint16_t s = 0; s < PlayedJob::kServices; ++s)
        entry.services.emplace_back(address_bytes, std::byte(node + (alike ? 0 : s)));
    return encode_entry(entry);
}

NodeWord word_of(uint32_t node, size_t entry_bytes) {
    NodeWord word;
    word.name = {static_cast<uint8_t>(node), static_cast<uint8_t>(node >> 8)};
    word.entry_bytes = static_cast<uint16_t>(entry_bytes);
    word.ok = word.aliases = 1;
    return word;
}

// Every node's entry reaches every first rank whole.
void expect_meeting(PlayedJob& job, const std::vector<std::vector<std::byte>>& entries) {
    const auto node_of = [&](uint32_t rank) { return job.places()[rank].node; };
    job.begin();
    job.exchange([&](Meeting& meeting, uint32_t rank) {
        return meeting.start_words(job.places()[rank].local == 0
                                       ? word_of(node_of(rank), entries[node_of(rank)].size())
                                       : NodeWord{});
    });
    job.exchange(
        [&](Meeting& meeting, uint32_t rank) { return meeting.start_entries(entries[node_of(rank)]); });
    for (uint32_t rank = 0; rank < job.places().size(); ++rank) {
        EXPECT_FALSE(job.meeting(rank).failed_node());
        EXPECT_TRUE(job.meeting(rank).has_all_words());
        if (job.places()[rank].local != 0) continue;
        AddressBook book;
        ASSERT_TRUE(job.meeting(rank).make_book(&book)) << "rank " << rank;
        const std::vector<NodeAddress> nodes = book.nodes();
        for (uint32_t node = 0; node < nodes.size(); ++node) {
            EXPECT_STREQ(
                nodes[node].host,
                ("node" + std::string(4 - std::to_string(node).size(), '0') + std::to_string(node)).c_str());
            NodeEntry entry;
            ASSERT_TRUE(decode_entry(entries[node], &entry));
            EXPECT_EQ(book.services()[node], entry.services);
        }
    }
    EXPECT_LE(job.held_max(), job.bound());
}

TEST(Meeting, UnevenNodesWithAddressesOfManyLengthsHaveOneBook) {
    for (const bool strided : {false, true}) {
        PlayedJob job({1, 7, 2, 16, 3, 1}, strided);
        std::vector<std::vector<std::byte>> entries;
        for (const size_t bytes : {90, 3000, 1, 700, 4000, 2500})
            entries.push_back(entry_of(static_cast<uint32_t>(entries.size()), bytes, bytes % 2 != 0));
        expect_meeting(job, entries);
    }
}

TEST(Meeting, OneRankAloneMeetsItself) {
    PlayedJob job({1});
    expect_meeting(job, {entry_of(0, 4000, false)});
}

TEST(Meeting, WhoeverFailsIsAskedWhy) {
    PlayedJob job({2, 3, 2});
    job.begin();
    job.exchange([&](Meeting& meeting, uint32_t rank) {
        NodeWord word = word_of(job.places()[rank].node, 100);
        word.ok = rank != 2;
        return meeting.start_words(job.places()[rank].local == 0 ? word : NodeWord{});
    });
    for (uint32_t rank = 0; rank < 7; ++rank) ASSERT_EQ(job.meeting(rank).failed_node(), 2u);
    job.exchange([&](Meeting& meeting, uint32_t rank) {
        return meeting.start_reason(2, "reason of " + std::to_string(rank) + std::string(rank * 200, '.'));
    });
    for (uint32_t rank = 0; rank < 7; ++rank)
        EXPECT_EQ(job.meeting(rank).reason(), ("reason of 2" + std::string(400, '.')).substr(0, 255));
    // Who has failed because of another is asked only if nobody has failed by itself.
    job.exchange([&](Meeting& meeting, uint32_t rank) {
        return meeting.start_outcomes(rank == 5   ? Outcome::kFailed
                                      : rank == 1 ? Outcome::kFailedInTurn
                                                  : Outcome::kOk);
    });
    EXPECT_EQ(job.meeting(0).failed_rank(), 5u);
    job.exchange([&](Meeting& meeting, uint32_t rank) {
        return meeting.start_outcomes(rank == 1 ? Outcome::kFailedInTurn : Outcome::kOk);
    });
    EXPECT_EQ(job.meeting(6).failed_rank(), 1u);
    job.exchange([&](Meeting& meeting, uint32_t) { return meeting.start_outcomes(Outcome::kOk); });
    EXPECT_FALSE(job.meeting(3).failed_rank());
}

// Of a job as large as those that this is for the first rank alone is played: what it receives, at a time and
// in all, and what it keeps. A word has 32 bytes, and an entry over TCP 101: 6 of lengths and the like, 12 of
// the socket's name, 16 of the token, 8 of the host's name, 55 of the address of the first service process, 2
// that say that the second has the same, 2 that there is no agent.
struct Shape {
    const char* name;
    uint32_t nodes, ranks_per_node, ranks_of_last;
    uint64_t entry_bytes, word_held, word_rounds, entry_held, entry_rounds;
};
class Shapes : public testing::TestWithParam<Shape> {};

// An allgather of which only the first rank's end is there. The first rank of each node gives its word.
struct PlayedWords {
    const std::vector<Place>& places;
    size_t entry_bytes;
    uint64_t at = 0;
    std::byte* out = nullptr;
    size_t bytes = 0;

    static int start(void* user, const void*, void* out, size_t bytes) {
        auto& self = *static_cast<PlayedWords*>(user);
        self.out = static_cast<std::byte*>(out), self.bytes = bytes;
        return LS_OK;
    }
    static int test(void* user) {
        auto& self = *static_cast<PlayedWords*>(user);
        for (size_t rank = 0; rank < self.places.size(); ++rank) {
            if (self.places[rank].local != 0) continue;
            const NodeWord word = word_of(self.places[rank].node, self.entry_bytes);
            memcpy(self.out + rank * self.bytes, reinterpret_cast<const std::byte*>(&word) + self.at,
                   std::min(self.bytes, sizeof word - self.at));
        }
        self.at += self.bytes;
        return LS_OK;
    }
};

TEST_P(Shapes, BytesAreThese) {
    const Shape& shape = GetParam();
    std::vector<uint32_t> ranks(shape.nodes, shape.ranks_per_node);
    ranks.back() = shape.ranks_of_last;
    const PlayedJob job(ranks);
    const uint64_t all = job.places().size();
    PlayedWords words{job.places(), shape.entry_bytes};
    Meeting::Options options;
    options.exchange = {&words, 0, static_cast<uint32_t>(all), PlayedWords::start, PlayedWords::test};
    options.job = {shape.nodes, PlayedJob::kServices, true, false};
    options.places = job.places();
    Meeting meeting(options);
    ASSERT_EQ(meeting.start_words(word_of(0, shape.entry_bytes)), LS_OK);
    EXPECT_EQ(meeting.pieces().received_bytes(), shape.word_held * all);
    EXPECT_EQ(meeting.pieces().rounds(), shape.word_rounds);
    EXPECT_LE(meeting.pieces().received_bytes(), job.bound());
    while (meeting.test() == LS_IN_PROGRESS) {
    }
    ASSERT_TRUE(meeting.has_all_words());
    ASSERT_EQ(meeting.start_entries(std::vector<std::byte>(shape.entry_bytes)), LS_OK);
    EXPECT_EQ(meeting.pieces().received_bytes(), shape.entry_held * all);
    EXPECT_EQ(meeting.pieces().rounds(), shape.entry_rounds);
    EXPECT_LE(meeting.pieces().received_bytes(), job.bound());
    // 40 bytes for each node's word and shape, a vector, and the entry itself.
    EXPECT_EQ(meeting.kept_bytes(), shape.nodes * (40 + sizeof(std::vector<std::byte>) + shape.entry_bytes));
    EXPECT_LE(meeting.kept_bytes(), shape.nodes * 1024u);
}

INSTANTIATE_TEST_SUITE_P(Jobs, Shapes,
                         testing::Values(Shape{"Nodes1024Ranks32", 1024, 32, 32, 103, 32, 1, 4, 1},
                                         Shape{"Nodes1024Ranks32LongAddresses", 1024, 32, 32, 900, 32, 1, 29,
                                               1},
                                         Shape{"Nodes1024Ranks32ButOneAlone", 1024, 32, 1, 103, 32, 1, 48, 3},
                                         Shape{"Nodes64Ranks512", 64, 512, 512, 103, 18, 2, 1, 1},
                                         Shape{"Nodes64Ranks512ButOneAlone", 64, 512, 1, 103, 18, 2, 18, 6},
                                         Shape{"Nodes1024Ranks1", 1024, 1, 1, 103, 32, 1, 103, 1}),
                         [](const auto& shape) { return std::string(shape.param.name); });

TEST(Meeting, AnEntryOverTcpIsShort) {
    EXPECT_EQ(entry_of(7, 53).size(), 103u);
}

}  // namespace
}  // namespace longshore
