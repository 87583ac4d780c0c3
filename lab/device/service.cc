#include "device/service.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>

#include "device/clock.h"
#include "engine/rank_engine.h"
#include "host/job_limits.h"

namespace longshore::device {
namespace {

constexpr uint32_t kNodes = 4, kRanks = 8;  // of each; one service process
constexpr uint64_t kBlockBytes = 64 * 1024;
constexpr RegionId kBuffers{1};
constexpr GroupId kGroup{1};

enum Step : uint32_t { kPost, kLook, kMessage, kSend, kRead, kCopy, kFinish, kInVain, kSteps };
constexpr const char* kNames[kSteps] = {"rank post",    "rank look",    "service message", "service send",
                                        "service read", "service copy", "service finish",  "service look"};

struct Cost {
    uint64_t ns = 0, count = 0;
};
using Costs = std::array<Cost, kSteps>;

// Zeroed memory of which only what is touched is there.
class Zeroed {
  public:
    explicit Zeroed(size_t bytes) : bytes_(bytes) {
        void* const at =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        data_ = at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
    }
    ~Zeroed() {
        if (data_ != nullptr) munmap(data_, bytes_);
    }
    Zeroed(const Zeroed&) = delete;
    Zeroed& operator=(const Zeroed&) = delete;
    std::byte* data() const { return data_; }

  private:
    size_t bytes_;
    std::byte* data_ = nullptr;
};

JobSize job_size() {
    JobSize size;
    size.nodes = kNodes;
    size.local_ranks = kRanks;
    size.ranks = kNodes * kRanks;
    return size;
}

struct Frame {
    NodeId to;
    std::vector<std::byte> bytes;
};

// One node of the job: its memory, its ranks and its service process.
struct Node {
    Node(NodeId node, std::span<const Member> members)
        : limits(limits_of_node()),
          id(node),
          bytes(NodeLayout::of(limits).total_bytes),
          service_bytes(ServiceEngine::bytes_needed(limits, service_limits_for(job_size()))) {
        for (auto& block : rank_bytes) block = std::make_unique<Zeroed>(RankEngine::bytes_needed(limits));
        is_there = bytes.data() != nullptr && service_bytes.data() != nullptr;
        for (auto& block : rank_bytes) is_there = is_there && block->data() != nullptr;
        if (is_there) begin(members);
    }

    static NodeLimits limits_of_node() {
        NodeLimits limits = node_limits_for(job_size());
        limits.groups_max = 1;
        return limits;
    }

    void begin(std::span<const Member> members) {
        memory = NodeMemory::create(bytes.data(), limits, id, kNodes, kRanks, 1);
        memory.create_group(GroupSlot{0}, kGroup, members.data(), kNodes * kRanks, memory.group_data_begin());
        for (uint16_t r = 0; r < kRanks; ++r) {
            ranks[r] = std::make_unique<RankEngine>(rank_bytes[r]->data(), memory, LocalRank{r});
            RegionEntry& region = memory.region(LocalRank{r}, kBuffers);
            region.bytes = UINT64_MAX / 2;
            region.generation.store(1);
        }
        WakeSet wake;
        service = std::make_unique<ServiceEngine>(service_bytes.data(), memory, ServiceId{0}, uint16_t{1},
                                                  service_limits_for(job_size()), &wake);
        service->set_peers(std::array<uint16_t, kNodes>{1, 1, 1, 1});
    }

    const NodeLimits limits;
    const NodeId id;
    Zeroed bytes, service_bytes;
    std::array<std::unique_ptr<Zeroed>, kRanks> rank_bytes;
    bool is_there = false;
    NodeMemory memory;
    std::array<std::unique_ptr<RankEngine>, kRanks> ranks;
    std::array<RecordId, kRanks> records;
    std::unique_ptr<ServiceEngine> service;
    std::deque<Frame> inbox;
};

// Alltoalls on all nodes, one after the other, by one thread. What is read and copied is there at once.
class Exchange {
  public:
    Exchange() {
        std::vector<Member> members;
        for (uint16_t n = 0; n < kNodes; ++n)
            for (uint16_t r = 0; r < kRanks; ++r)
                members.push_back({NodeId{n}, ServiceId{0}, LocalRank{r}, r});
        for (uint16_t n = 0; n < kNodes; ++n) nodes_.push_back(std::make_unique<Node>(NodeId{n}, members));
    }
    bool is_there() const {
        for (const auto& node : nodes_)
            if (!node->is_there) return false;
        return true;
    }

    void run(Costs* costs) {
        costs_ = costs;
        ++sequence_;
        for (auto& node : nodes_)
            for (uint32_t r = 0; r < kRanks; ++r) post(*node, r);
        for (bool works = true; works;) {
            works = false;
            for (auto& node : nodes_) works |= turn(*node);
        }
        for (auto& node : nodes_)
            for (uint32_t r = 0; r < kRanks; ++r) end(*node, r);
        // What its ranks have released, and acknowledgements.
        for (bool works = true; works;) {
            works = false;
            for (auto& node : nodes_) works |= turn(*node);
        }
    }

  private:
    // `step` is chosen by what was done; kSteps: it is not counted.
    template <class F>
    void time(F&& call) {
        const uint64_t begin = now_ns();
        const Step step = call();
        const uint64_t ns = now_ns() - begin;
        if (step == kSteps) return;
        (*costs_)[step].ns += ns;
        ++(*costs_)[step].count;
    }

    void post(Node& node, uint32_t rank) {
        OperationArguments a;
        const LocalRank local{static_cast<uint16_t>(rank)};
        a.group = GroupSlot{0};
        a.rank = Rank{node.id.value * kRanks + rank};
        a.sequence = sequence_;
        a.collective = Collective::kAlltoall;
        a.send = a.recv = {local, kBuffers, 0};
        a.recv.offset = kNodes * kRanks * kBlockBytes;
        a.send_block_bytes = a.recv_block_bytes = kBlockBytes;
        WakeSet wake;
        node.ranks[rank]->reap(&wake);
        time([&] {
            LONGSHORE_CHECK(node.ranks[rank]->post(a, true, &node.records[rank], &wake) ==
                            PostResult::kPosted);
            return kPost;
        });
    }

    void end(Node& node, uint32_t rank) {
        WakeSet wake;
        time([&] {
            LONGSHORE_CHECK(node.ranks[rank]->poll(node.records[rank]) == Progress::kComplete);
            return kLook;
        });
        node.ranks[rank]->release(node.records[rank], &wake);
    }

    bool turn(Node& node) {
        WakeSet wake;
        bool works = !node.inbox.empty();
        node.service->set_now(now_ns());
        while (!node.inbox.empty()) {
            const Frame frame = std::move(node.inbox.front());
            node.inbox.pop_front();
            time([&] {
                node.service->on_frame(frame.bytes, &wake);
                return kMessage;
            });
        }
        for (int actions = 0; actions < kActionsPerTurn; ++actions) {
            Action action;
            bool found = false;
            time([&] {
                found = node.service->next(&action, &wake);
                return found ? step_of(action) : kInVain;
            });
            if (!found) return works;
            works = true;
            carry_out(node, action);
        }
        return works;
    }

    static Step step_of(const Action& action) {
        switch (action.kind) {
            case Action::Kind::kSend:
                return kSend;
            case Action::Kind::kRead:
                return kRead;
            case Action::Kind::kCopy:
                return kCopy;
            default:
                return kSteps;
        }
    }

    void carry_out(Node& node, const Action& action) {
        WakeSet wake;
        switch (action.kind) {
            case Action::Kind::kSend:
                nodes_[action.peer.node.value]->inbox.push_back(
                    {action.peer.node, {action.data.begin(), action.data.end()}});
                break;
            case Action::Kind::kCopy:
                time([&] {
                    node.service->finish_copy(action.copy, MoveResult::kMoved, &wake);
                    return kFinish;
                });
                break;
            default:
                time([&] {
                    node.service->finish_read(action.id, MoveResult::kMoved, &wake);
                    return kFinish;
                });
        }
    }

    static constexpr int kActionsPerTurn = 32;  // as in the service process's loop
    std::vector<std::unique_ptr<Node>> nodes_;
    Costs* costs_ = nullptr;
    uint64_t sequence_ = 0;
};

// What two looks at the clock take, which is in each cost.
double clock_ns() {
    constexpr uint32_t kLooks = 10'000;
    const uint64_t begin = now_ns();
    for (uint32_t i = 0; i < kLooks; ++i) now_ns();
    return static_cast<double>(now_ns() - begin) / kLooks;
}

}  // namespace

void measure_service(const MachineFacts&, const Effort& effort, const Report& report, const Tell& left_out) {
    Exchange exchange;
    if (!exchange.is_there()) return left_out("what the product's own steps cost: no memory");
    const double clock = clock_ns();
    Costs costs;
    exchange.run(&costs);  // first touches
    std::array<Row, kSteps> rows;
    for (uint32_t s = 0; s < kSteps; ++s) rows[s] = {kNames[s], "ns", 0, 1, {}};
    const int exchanges = effort.quick ? 2 : 50;
    for (int r = 0; r < effort.memory_repeats; ++r) {
        costs = {};
        for (int i = 0; i < exchanges; ++i) exchange.run(&costs);
        for (uint32_t s = 0; s < kSteps; ++s)
            rows[s].samples.push_back(std::max(
                1.0, static_cast<double>(costs[s].ns) / static_cast<double>(costs[s].count) - clock));
    }
    for (Row& row : rows) report(std::move(row));
}

}  // namespace longshore::device
