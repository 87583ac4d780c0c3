// What the keeper writes of a machine's ranks, by the state that they have left on the board.
#include "statistics/keeper.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace longshore::statistics {
namespace {

constexpr uint32_t kSize = 4;  // ranks of the job
constexpr uint64_t kBeginNs = 1'000'000'000;

class Keeper : public testing::Test {
  protected:
    Keeper() {
        char name[] = "/tmp/longshore-keeper-XXXXXX";
        folder_ = mkdtemp(name);
    }
    ~Keeper() override { std::filesystem::remove_all(folder_); }

    // A machine of these ranks, each of which has made so many offloaded calls as its number says, and one
    // more.
    Board machine(const std::vector<uint32_t>& ranks) {
        Board board = Board::create(static_cast<uint32_t>(ranks.size()));
        BoardHead& head = board.head();
        head.size = kSize;
        strcpy(head.host, "node7");
        strcpy(head.stats_path, (folder_ + "/stats.json").c_str());
        strcpy(head.trace_path, (folder_ + "/trace.json").c_str());
        for (uint32_t i = 0; i < ranks.size(); ++i) {
            BoardSlot& slot = board.slot(i);
            slot.rank = ranks[i];
            slot.started_ns = slot.origin_ns = kBeginNs;
            slot.figures.word({Family::kBcast, Form::kBlocking}, offsetof(CallCounts, offloaded)) =
                ranks[i] + 1;
            slot.spans.at[0] = {kBeginNs + 1000, kBeginNs + 3000, kFunctionWait, SpanKind::kWait};
            slot.spans.count = 1;
            slot.state = RankState::kRunning;
        }
        return board;
    }

    void write(const Board& board) {
        const std::vector<uint64_t> gone_ns(board.size(), kBeginNs + 2'000'000'000);
        write_what_is_known(board, gone_ns.data());
    }

    std::string text_of(const std::string& name) const {
        std::ifstream file(folder_ + "/" + name);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }
    bool has(const std::string& name, const std::string& part) const {
        return text_of(name).find(part) != std::string::npos;
    }

    std::string folder_;
};

TEST_F(Keeper, ANewMachineIsOpenedByItsToken) {
    const Board board = machine({0});
    const Board again = Board::open(Fd(dup(board.file().get())));
    ASSERT_TRUE(again);
    EXPECT_EQ(again.head().token, board.head().token);
    EXPECT_EQ(again.slot(0).figures.word({Family::kBcast, Form::kBlocking}, offsetof(CallCounts, offloaded)),
              1u);
}

TEST_F(Keeper, AFileOfAnotherKindIsRefused) {
    EXPECT_FALSE(Board::open(Fd()));
    EXPECT_FALSE(Board::open(make_memory_file("other", 1 << 20)));
    const Board board = machine({0});
    board.head().slot_count = 3;  // more than the file has room for
    EXPECT_FALSE(Board::open(Fd(dup(board.file().get()))));
}

TEST_F(Keeper, WhoIsInterrupted) {
    const Board first = machine({0, 1}), other = machine({2, 3}), nobody = Board::create(1);
    EXPECT_TRUE(is_interrupted(first));
    EXPECT_TRUE(is_interrupted(other));
    EXPECT_FALSE(is_interrupted(nobody));
    // Rank 0 has written the files.
    first.slot(0).state = RankState::kFinalized;
    EXPECT_FALSE(is_interrupted(first));
    // Elsewhere rank 0 can still have come to nothing.
    other.slot(0).state = RankState::kFinalized;
    EXPECT_TRUE(is_interrupted(other));
    other.slot(1).state = RankState::kFinalized;
    EXPECT_FALSE(is_interrupted(other));
}

TEST_F(Keeper, TheFirstMachineHasTheNameThatWasAskedFor) {
    const Board board = machine({0, 1});
    board.slot(1).figures.inside = 1 + kFunctionWaitall;
    board.slot(1).figures.inside_since_ns = kBeginNs + 500'000'000;
    write(board);
    EXPECT_TRUE(has("stats.json", "\"complete\": false"));
    EXPECT_TRUE(has("stats.json", "\"missing_ranks\": [2, 3]"));
    EXPECT_TRUE(has("stats.json", "\"MPI_Bcast\": {\"calls\": 3, \"offloaded\": 3"));
    EXPECT_TRUE(has("stats.json",
                    "\"rank\": 1, \"after_s\": 2.000000, \"finalized\": false, \"inside\": "
                    "\"MPI_Waitall\", \"inside_s\": 1.500000"));
    EXPECT_TRUE(has("trace.json", "\"name\":\"MPI_Wait\",\"pid\":0,\"tid\":1,\"ts\":1.000,\"dur\":2.000"));
    EXPECT_TRUE(has("trace.json", "\"complete\":false"));
}

TEST_F(Keeper, AnotherMachineAddsItsName) {
    write(machine({2, 3}));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/stats.json"));
    EXPECT_TRUE(has("stats.json.node7", "\"missing_ranks\": [0, 1]"));
    EXPECT_TRUE(has("stats.json.node7", "\"rank_times\": [null, null, {"));
    EXPECT_TRUE(has("trace.json.node7", "\"tid\":3"));
}

TEST_F(Keeper, ARankThatNeverCameToTheBoardIsMissing) {
    const Board board = machine({0, 1});
    board.slot(1).state = RankState::kAbsent;
    write(board);
    EXPECT_TRUE(has("stats.json", "\"missing_ranks\": [1, 2, 3]"));
    EXPECT_TRUE(has("stats.json", "\"MPI_Bcast\": {\"calls\": 1, "));
}

}  // namespace
}  // namespace longshore::statistics
