// Ranks that say anything to their node's supervisor (fabric/shm/control.h), by real sockets: nothing of it
// may stop the supervisor, put what makes no sense into the node's memory or the book that service processes
// get, or be kept when all ranks have gone.
#include <unistd.h>

#include "conversation.h"
#include "service/node_ranks.h"

namespace {

using namespace longshore;
using namespace longshore::fuzz;

constexpr uint16_t kNodes = 3, kRanks = 3, kServices = 2;
constexpr size_t kClientsMax = 5;
uint64_t got_far = 0;

ServiceParameters parameters(bool network) {
    ServiceParameters p;
    p.node_limits.ranks_max = kRanks;
    p.node_limits.services_max = kServices;
    p.node_limits.groups_max = 3;
    p.node_limits.records_max = 8;
    p.node_limits.operations_ahead_max = 8;
    p.node_limits.regions_max = 2;
    p.node_limits.claims_bytes = p.node_limits.arena_bytes = p.node_limits.groups_bytes = 4096;
    p.node = 1;
    p.node_count = kNodes;
    p.rank_count = kRanks;
    p.service_count = kServices;
    p.network = network;
    return p;
}

struct Rank {
    Fd socket;
    uint32_t local = 0;
    uint32_t told = 0;  // of its next group
};

class Conversation {
  public:
    explicit Conversation(Choices choices)
        : choices_(choices),
          parameters_(parameters(choices_.byte() % 2 != 0)),
          bytes_(NodeLayout::of(parameters_.node_limits).total_bytes),
          block_(static_cast<std::byte*>(aligned_alloc(64, (bytes_ + 63) / 64 * 64)), free) {
        memset(block_.get(), 0, bytes_);
        memory_ = NodeMemory::create(block_.get(), parameters_.node_limits, NodeId{parameters_.node}, kNodes,
                                     kRanks, kServices);
        groups_ = std::make_unique<GroupTable>(memory_);
        book_ = std::make_unique<AddressBook>(JobShape{kNodes, kServices, parameters_.network != 0, false});
        NodeRanks::Given given;
        given.token.fill(7);
        given.memory_bytes = bytes_;
        given.descriptors = {0, 1};
        const NodeRanks::Events events{
            [this] { ++all_attached_; }, [this] { look_at_book(); },
            [this](Fd, pid_t pid, const tasks::OpenPool& request, std::vector<Fd>) {
                // Only a rank that has attached is handed on.
                require(request.local_rank < kRanks && pid == getpid());
                const LocalRank rank{static_cast<uint16_t>(request.local_rank)};
                require(memory_.rank(rank).attached.load() != 0);
            }};
        ranks_ = std::make_unique<NodeRanks>(parameters_, memory_, groups_.get(), book_.get(), given, events);
    }
    void run() {
        for (uint32_t local = 0; local < kRanks; ++local) connect(local);
        for (Rank& rank : ends_)
            if (!choices_.one_in(8)) send(rank, attach(rank));
        while (!choices_.over()) step();
        if (groups_ever_ && all_attached_ != 0) ++got_far;
        for (Rank& rank : ends_) rank.socket.reset();
        turn();
        require(ranks_->connections() == 0 && ranks_->attached_now() == 0);
        // Whoever has gone is in no group any more.
        require(groups_->open() == 0);
        for (uint16_t r = 0; r < kRanks; ++r) require(memory_.rank(LocalRank{r}).attached.load() == 0);
    }

  private:
    void connect(uint32_t local) {
        int ends[2];
        if (ends_.size() == kClientsMax ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
            return;
        ranks_->add(Fd(ends[0]));
        ends_.push_back({Fd(ends[1]), local, 0});
    }
    void step() {
        if (ends_.empty()) return connect(choices_.byte() % kRanks);
        Rank& rank = ends_[choices_.byte() % ends_.size()];
        switch (choices_.byte() % 16) {
            case 0:
                return connect(choices_.byte() % (kRanks + 1));
            case 1:
                if (choices_.one_in(4)) ends_.erase(ends_.begin() + (&rank - ends_.data()));
                return;
            case 2:
            case 3:
                hear(rank);
                return;
            case 4:
            case 5:
                return turn();
            case 6:
                return send(rank, last_);  // again
            case 7:
            case 8:
                return send(rank, attach(rank));
            case 9:
            case 10:
                return send(rank, nodes());
            case 11:
            case 12:
                return send(rank, join(rank));
            case 13: {
                tasks::OpenPool open;
                open.token.fill(7);
                open.local_rank = choices_.byte() % (kRanks + 1);
                open.environment_bytes = choices_.number();
                return send(rank, bytes_of(open));
            }
            case 14: {
                GroupLeaveRequest leave;
                leave.id = 1 + choices_.byte() % 4;
                return send(rank, bytes_of(leave));
            }
            default:
                return send(rank, bytes_of(ControlHeader{kControlMagic,
                                                         static_cast<ControlKind>(choices_.number())}));
        }
    }
    void send(Rank& rank, std::vector<std::byte> packet) {
        last_ = packet;
        damage(choices_, &packet);
        if (!packet.empty()) send_packet(rank.socket, packet.data(), packet.size());
        if (!choices_.one_in(4)) turn();
    }
    void hear(Rank& rank) {
        std::byte answer[kControlBytesMax];
        size_t bytes = 0;
        std::vector<Fd> descriptors;
        while (receive_packet(rank.socket, answer, sizeof answer, &bytes, &descriptors) == Io::kOk) {
            ControlHeader header;
            require(bytes >= sizeof header);
            memcpy(&header, answer, sizeof header);
            if (header.kind != ControlKind::kGroupJoined) continue;
            GroupJoinAnswer joined;
            require(bytes == sizeof joined);
            memcpy(&joined, answer, sizeof joined);
            groups_ever_ |= joined.result == JoinResult::kOk;
            require(joined.result != JoinResult::kOk || joined.slot < parameters_.node_limits.groups_max);
        }
    }
    void turn() {
        ranks_->turn();
        require(ranks_->attached_now() <= kRanks);
        look_at_groups();
    }
    // Service processes and ranks rely on it.
    void look_at_groups() const {
        for (uint32_t i = 0; i < parameters_.node_limits.groups_max; ++i) {
            const GroupEntry& group = memory_.group(GroupSlot{i});
            if (group.id.load() == 0) continue;
            require(group.size > 0 && group.local_count > 0 && group.local_count <= kRanks);
            uint32_t local = 0;
            for (uint32_t m = 0; m < group.size; ++m) {
                const Member& member = memory_.at<Member>(group.members_offset)[m];
                require(member.node.value < kNodes && member.service.value < kServices);
                if (member.node.value != parameters_.node) continue;
                require(member.local.value < kRanks);
                ++local;
            }
            require(local == group.local_count);
        }
    }
    void look_at_book() const {
        if (!book_->is_whole()) return;
        AddressBook heard(JobShape{kNodes, kServices, parameters_.network != 0, false});
        for (const auto& packet : book_->packets())
            require(packet.size() <= kControlBytesMax && heard.take(packet));
        require(heard.is_whole() && heard.services() == book_->services());
        // What ServiceEngine::set_peers and the fabrics ask for.
        for (const NodeAddress& node : heard.nodes())
            require(node.services == kServices && strnlen(node.name.text, 48) < 48 &&
                    strnlen(node.host, 64) < 64);
    }

    std::vector<std::byte> attach(const Rank& rank) const {
        static uint64_t word = 5;
        AttachRequest request;
        request.token.fill(7);
        request.local_rank = rank.local;
        request.pid = static_cast<uint32_t>(getpid());
        request.probe_address = reinterpret_cast<uint64_t>(&word);
        request.probe_value = word;
        return bytes_of(request);
    }
    std::vector<std::byte> nodes() {
        AddressBookPiece piece;
        piece.total = kNodes;
        piece.first = choices_.byte() % 2 != 0 ? 0 : choices_.byte() % kNodes;
        piece.count = choices_.byte() % 2 != 0 ? kNodes - piece.first : choices_.byte() % (kNodes + 1);
        std::vector<std::byte> packet = bytes_of(piece);
        NodeEntry node;
        memset(node.address.host, 'h', sizeof node.address.host - 1);
        node.address.name = unpack_name({1, 2, 3});
        node.address.services = kServices;
        if (choices_.one_in(4)) node.address.services = static_cast<uint16_t>(choices_.number());
        if (parameters_.network) node.services.resize(kServices, std::vector<std::byte>(choices_.byte()));
        for (uint32_t i = 0; i < piece.count; ++i) append_address(encode_entry(node), &packet);
        return packet;
    }
    // Of groups with one member on each node, or all ranks of this one.
    std::vector<std::byte> join(Rank& rank) {
        GroupJoinPiece piece;
        piece.id = 1 + choices_.byte() % 4;
        piece.size = choices_.byte() % 4 != 0 ? 3 : choices_.byte() % 8;
        piece.first = choices_.byte() % 2 != 0 ? 0 : std::min(rank.told, piece.size);
        piece.count = choices_.byte() % 2 != 0 ? piece.size - piece.first : choices_.byte() % 4;
        rank.told = piece.first + piece.count;
        const bool here = choices_.byte() % 2 != 0;
        std::vector<std::byte> packet = bytes_of(piece);
        for (uint32_t i = piece.first; i < piece.first + piece.count; ++i) {
            const auto number = static_cast<uint16_t>(i);
            append(&packet,
                   bytes_of(here ? Member{NodeId{parameters_.node}, ServiceId{0}, LocalRank{number}, number}
                                 : Member{NodeId{number}, ServiceId{1}, LocalRank{0}, 0}));
        }
        return packet;
    }

    Choices choices_;
    const ServiceParameters parameters_;
    const size_t bytes_;
    const std::unique_ptr<std::byte, void (*)(void*)> block_;
    NodeMemory memory_;
    std::unique_ptr<GroupTable> groups_;
    std::unique_ptr<AddressBook> book_;
    std::unique_ptr<NodeRanks> ranks_;
    std::vector<Rank> ends_;
    std::vector<std::byte> last_;
    uint32_t all_attached_ = 0;
    bool groups_ever_ = false;
};

}  // namespace

extern "C" uint64_t fuzz_conversations_that_got_far() {
    return got_far;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Conversation(Choices(data, size)).run();
    return 0;
}
