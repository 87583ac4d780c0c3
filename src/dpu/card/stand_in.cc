#include "dpu/card/stand_in.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "dpu/card/agent_end.h"
#include "dpu/card/post_check.h"
#include "dpu/card/rank_exchange.h"
#include "dpu/card/stand_in_post.h"
#include "dpu/card/watcher.h"

namespace longshore {
namespace {

constexpr uint64_t kStagingBytesMax = uint64_t{1} << 30;
constexpr uint64_t kRestNs = 20'000'000, kShortRestNs = 1'000'000;
constexpr size_t kOpenMax = kFarPostsMax + size_t{kFarGroupsMax} * kFarPostsOfGroup;
constexpr size_t kUnsentBytesMax = 1 << 20;  // beyond which a rank that does not read is not heard, either

// The longest that a rank of such a job says: what all members give to an exchange, or the blocks of an
// operation.
size_t frame_bytes_max(uint32_t size) {
    constexpr size_t kGivenMax = PieceExchange::kBytesPerRank + PieceExchange::kBytesPerNode;
    return std::min(kSessionBytesMax, (size_t{1} << 20) + size * (kGivenMax + 4 * sizeof(BlockSpan)));
}

class StandIn {
  public:
    StandIn(SessionStream stream, const SessionHello& hello, Fd door, const StandInOptions& options)
        : stream_(std::move(stream)),
          hello_(hello),
          options_(options),
          agent_(std::move(door), hello.limit_s, hello.copies) {}
    int run();

  private:
    struct Group {
        uint64_t id = 0;
        uint32_t rank = 0;
        ls_group* group = nullptr;  // null: it cannot be made
        bool settled = false;       // the rank was told
        RankExchange exchange;
    };
    struct Open {
        uint32_t id = 0;
        ls_operation* operation = nullptr;
        uint8_t collective = 0;
        SessionCopies copies = SessionCopies::kNever;
        Patience patience;
        Copier copier = Copier::kRank;
    };
    bool start();
    bool hear();
    bool hear_agent();
    void watch(int fd);
    bool is_unheard() const { return stream_.unsent_bytes() > kUnsentBytesMax; }
    bool take(SessionKind kind, std::span<const std::byte> body);
    void take_exchanged(const SessionExchange& exchange);
    bool start_group(const SessionGroup& message);
    void settle(Group& group, bool ok);
    void free_group(uint64_t id);
    bool post(SessionPost post);
    bool step();
    bool test_operations();
    bool hand_over();
    bool choose_copier(Open& open);
    bool hand_over(Open& open);
    bool take_copied(const SessionCopied& copied);
    void take_attend(const SessionAttend& attend);
    void tell_stats();
    void rest();
    Group* find_group(uint64_t id);
    static void log(void* user, int level, const char* line);

    SessionStream stream_;
    const SessionHello& hello_;
    const StandInOptions& options_;
    ls_host host_{};
    RankExchange exchange_;
    ls_context* context_ = nullptr;
    bool settled_ = false, ready_ = false, broken_ = false;
    std::vector<std::unique_ptr<Group>> groups_;
    std::vector<Open> open_;
    HandOver handed_;
    AgentEnd agent_;
    uint64_t bytes_by_agent_[LS_COLLECTIVE_COUNT] = {};
    uint64_t blocks_by_rank_ = 0, blocks_by_agent_ = 0;
    std::vector<uint64_t> regions_ = std::vector<uint64_t>(kFarRegionsMax);  // bytes of each; 0: never opened
    Fd arrivals_{epoll_create1(EPOLL_CLOEXEC)};  // of all that anybody says to this stand-in
    std::unique_ptr<Watcher> watcher_;
};

void StandIn::log(void* user, int level, const char* line) {
    static_cast<StandIn*>(user)->stream_.send(SessionKind::kLine,
                                              SessionLine{static_cast<uint8_t>(level), line});
}

bool StandIn::start() {
    stream_.send(SessionKind::kWelcome, SessionWelcome{true, ""});
    host_ = {hello_.host,         hello_.agent.data(), hello_.agent.size(),
             hello_.probe.data(), hello_.probe.size(), hello_.no_probe.c_str()};
    ls_options o{};
    o.service_count = hello_.service_count;
    o.service_reads_max = hello_.service_reads_max;
    o.service_spin_us = hello_.service_spin_us;
    o.service_restarts_max = hello_.service_restarts_max;
    o.service_path = options_.service_path.c_str();
    o.service_cores = hello_.cores.c_str();
    o.limit_s = hello_.limit_s;
    o.eager_bytes = hello_.eager_bytes;
    o.chunk_bytes = hello_.chunk_bytes;
    o.staging_bytes = std::min(hello_.staging_bytes, kStagingBytesMax);
    o.memory_mode = static_cast<ls_memory_mode>(std::min<uint8_t>(hello_.memory_mode, LS_MEMORY_STAGING));
    o.host = &host_;
    o.log = &log;
    o.log_user = this;
    exchange_ = {&stream_, 0, hello_.size};
    const ls_exchange api = exchange_.api(hello_.rank);
    return ls_context_start(&o, &api, &context_) == LS_OK;
}

StandIn::Group* StandIn::find_group(uint64_t id) {
    const auto found =
        std::find_if(groups_.begin(), groups_.end(), [&](const auto& g) { return g->id == id; });
    return found != groups_.end() ? found->get() : nullptr;
}

void StandIn::take_exchanged(const SessionExchange& exchange) {
    if (exchange.id == 0) {
        exchange_.take(exchange);
    } else if (Group* group = find_group(exchange.id)) {
        group->exchange.take(exchange);
    }
}

bool StandIn::start_group(const SessionGroup& message) {
    if (!ready_ || message.id == 0 || find_group(message.id) != nullptr || groups_.size() >= kFarGroupsMax ||
        message.size > hello_.size || message.rank >= message.size)
        return false;
    auto group = std::make_unique<Group>();
    group->id = message.id;
    group->rank = message.rank;
    group->exchange = {&stream_, message.id, message.size};
    const ls_exchange api = group->exchange.api(message.rank);
    if (ls_group_start(context_, &api, &group->group) != LS_OK) settle(*group, false);
    groups_.push_back(std::move(group));
    return true;
}

void StandIn::settle(Group& group, bool ok) {
    group.settled = true;
    SessionReady ready;
    ready.id = group.id;
    ready.ok = ok;
    if (ok) {
        ls_group_shape(group.group, &ready.nodes, &ready.ranks_per_node);
    } else {
        ready.reason = "a group cannot be made";
    }
    stream_.send(SessionKind::kReady, ready);
}

void StandIn::free_group(uint64_t id) {
    Group* group = find_group(id);
    if (group == nullptr) return;
    ls_group_free(group->group);
    std::erase_if(groups_, [&](const auto& g) { return g.get() == group; });
}

// False: no rank of ours sends this.
bool StandIn::post(SessionPost post) {
    const Group* group = find_group(post.group);
    if (group == nullptr || group->group == nullptr || open_.size() >= kOpenMax) return false;
    const uint32_t size = group->exchange.size;
    if (!is_sound(post, Rank{group->rank}, size, regions_) ||
        (post.copies != SessionCopies::kNever && !hello_.copies))
        return false;
    OperationArguments a;
    a.collective = static_cast<Collective>(post.collective);
    a.algorithm = static_cast<Algorithm>(post.algorithm);
    a.root = Rank{post.root};
    a.self_in_place = post.self_in_place;
    a.hands_over = post.copies != SessionCopies::kNever;
    a.send_block_bytes = post.send_block_bytes;
    a.recv_block_bytes = post.recv_block_bytes;
    a.send = {{}, RegionId{post.send_region}, post.send_offset};
    a.recv = {{}, RegionId{post.recv_region}, post.recv_offset};
    Plan plan;
    plan.send_bytes = post.send_bytes;
    plan.recv_bytes = post.recv_bytes;
    plan.send_blocks = std::move(post.send_blocks);
    plan.recv_blocks = std::move(post.recv_blocks);
    ls_operation* operation = nullptr;
    const int rc = start_for_rank(group->group, a, std::move(plan), std::move(post.data), &operation);
    if (rc == LS_OK) {
        open_.push_back({post.operation, operation, post.collective, post.copies, {}, Copier::kRank});
        open_.back().patience.begin(now_ns());
    } else {
        stream_.send(SessionKind::kFinished, SessionDone{post.operation, rc});
    }
    return true;
}

// As they are in memory: the rank may be of another architecture.
void StandIn::tell_stats() {
    static_assert(sizeof(ls_service_stats) == 16 + 20 * 8 + LS_COLLECTIVE_COUNT * sizeof(ls_late_counts));
    std::vector<ls_service_stats> all;
    if (ls_is_node_leader(context_)) {
        all.resize(hello_.service_count);
        all.resize(std::min(hello_.service_count, ls_services(context_, all.data(), hello_.service_count)));
    }
    stream_.send(SessionKind::kStats, std::as_bytes(std::span(all)));
}

bool StandIn::take(SessionKind kind, std::span<const std::byte> body) {
    switch (kind) {
        case SessionKind::kExchanged: {
            SessionExchange exchange;
            if (!decode(body, &exchange)) return false;
            take_exchanged(exchange);
            return true;
        }
        case SessionKind::kOpened: {
            SessionOpened opened;
            if (!ready_ || !decode(body, &opened) || opened.region >= kFarRegionsMax ||
                !publish_region_of_rank(
                    *context_, RegionId{opened.region},
                    {NodeId{0}, opened.address, opened.bytes, opened.key, opened.exported, opened.heap_unit}))
                return false;
            regions_[opened.region] = opened.bytes;
            return true;
        }
        case SessionKind::kGroupStart: {
            SessionGroup group;
            return decode(body, &group) && start_group(group);
        }
        case SessionKind::kGroupFree: {
            SessionGroup group;
            if (!decode(body, &group)) return false;
            free_group(group.id);
            return true;
        }
        case SessionKind::kPost: {
            SessionPost operation;
            return decode(body, &operation) && post(std::move(operation));
        }
        case SessionKind::kDescribe: {
            SessionDone about;
            if (!decode(body, &about)) return false;
            for (const Open& open : open_) {
                if (open.id != about.operation) continue;
                char line[256];
                ls_operation_describe(open.operation, line, sizeof line);
                log(this, 0, line);
            }
            return true;
        }
        case SessionKind::kAttend: {
            SessionAttend attend;
            if (!decode(body, &attend)) return false;
            take_attend(attend);
            return true;
        }
        case SessionKind::kTested: {
            SessionDone about;
            if (!decode(body, &about)) return false;
            for (Open& open : open_)
                if (open.id == about.operation) open.patience.note_looks(now_ns());
            return true;
        }
        case SessionKind::kCopied: {
            SessionCopied copied;
            return decode(body, &copied) && take_copied(copied);
        }
        case SessionKind::kAskStats:
            tell_stats();
            return true;
        default:
            return false;
    }
}

bool StandIn::hear() {
    SessionKind kind{};
    std::span<const std::byte> body;
    bool heard = false;
    while (!broken_ && !is_unheard() && stream_.receive(&kind, &body, frame_bytes_max(hello_.size))) {
        heard = true;
        broken_ = !take(kind, body);
    }
    if (broken_)
        stream_.send(SessionKind::kLine,
                     SessionLine{0, "a stand-in on the DPU was told what no rank says, and ends"});
    return heard;
}

// The job, then its groups, until the rank was told of each.
bool StandIn::step() {
    bool moved = false;
    if (!settled_) {
        const int rc = ls_context_test(context_);
        if (rc == LS_IN_PROGRESS) return false;
        settled_ = true;
        ready_ = rc == LS_OK;
        SessionReady ready;
        ready.ok = ready_;
        ready.reason = ready_ ? "" : ls_context_error(context_);
        ready.node = ls_node(context_);
        ready.nodes = ls_node_count(context_);
        ready.leader = ls_is_node_leader(context_) != 0;
        ready.aliases = strcmp(ls_memory_reach(context_), "dpu-alias") == 0;
        ls_surroundings around{};
        ls_look_around(context_, &around);
        ready.spare_cores = around.spare_cores != 0;
        stream_.send(SessionKind::kReady, ready);
        if (ready_) watcher_ = std::make_unique<Watcher>(arrivals_.get(), context_);
        return true;
    }
    for (const auto& group : groups_) {
        if (group->settled) continue;
        const int rc = ls_group_test(group->group);
        if (rc == LS_IN_PROGRESS) continue;
        settle(*group, rc == LS_OK);
        moved = true;
    }
    return moved;
}

bool StandIn::test_operations() {
    const size_t before = open_.size();
    // Once for all: a rank may have thousands that wait.
    if (ls_waiting(context_) != 0) ls_advance(context_);
    std::erase_if(open_, [&](const Open& open) {
        if (!may_be_over(open.operation)) return false;
        const int result = ls_operation_test(open.operation, nullptr);
        if (result == LS_IN_PROGRESS) return false;
        ls_collective_bytes bytes[LS_COLLECTIVE_COUNT];
        ls_rank_bytes(context_, bytes);
        stream_.send(SessionKind::kFinished,
                     SessionDone{open.id, result, bytes[open.collective].by_service,
                                 bytes_by_agent_[open.collective], blocks_by_rank_, blocks_by_agent_});
        ls_operation_free(open.operation);
        return true;
    });
    return open_.size() != before;
}

// --- copies that the rank makes, or its host's agent for it (engine/hand_over.h)

void StandIn::watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (fd >= 0) epoll_ctl(arrivals_.get(), EPOLL_CTL_ADD, fd, &event);
}

bool StandIn::hear_agent() {
    if (!ready_) return false;
    const int before = agent_.connection();
    const bool heard = agent_.hear([this](const Copy& copy, bool ok) {
        finish_for_rank(*context_, copy, ok);
        if (!ok || copy.is_self) return;
        bytes_by_agent_[static_cast<uint8_t>(copy.collective)] += copy.bytes;
        blocks_by_agent_ += copy.is_first;
    });
    if (before < 0) watch(agent_.connection());
    return heard;
}

bool StandIn::take_copied(const SessionCopied& copied) {
    Copy copy;
    if (!handed_.take_back(copied.number, &copy)) return false;
    finish_for_rank(*context_, copy, copied.ok);
    blocks_by_rank_ += copied.ok && !copy.is_self && copy.is_first;
    return true;
}

void StandIn::take_attend(const SessionAttend& attend) {
    handed_.attend(attend.on);
    if (!attend.on) stream_.send(SessionKind::kLeft, attend);
}

// Who makes the copies of an operation that no call waits for: its rank while it waits, and when it has
// computed for too long the host's agent or service processes. True: others than before.
bool StandIn::choose_copier(Open& open) {
    const uint64_t now = now_ns();
    if (open.copier == Copier::kRank && !handed_.attends() && is_all_there(open.operation))
        open.patience.note_there(now);
    const Copier copier = open.patience.choose(handed_.attends(), agent_.attends(), now);
    if (copier == open.copier) return false;
    const bool left = open.copier == Copier::kServices, leaves = copier == Copier::kServices;
    open.copier = copier;
    if (left != leaves) leave_to_services(open.operation, leaves);
    return true;
}

bool StandIn::hand_over(Open& open) {
    const bool in_call = open.copies == SessionCopies::kInCall;
    bool gave = !in_call && choose_copier(open);
    RankCopy copy;
    if (open.copier == Copier::kAgent) {
        for (; agent_.may_give() && claim_for_rank(open.operation, &copy); gave = true)
            agent_.give(copy.copy, copy.giver, copy.from, copy.to_in_heap);
        return gave;
    }
    for (; handed_.may_give(in_call) && claim_for_rank(open.operation, &copy); gave = true)
        stream_.send(SessionKind::kCopy, HandedCopy{handed_.give(copy.copy), open.id, copy.giver, copy.from,
                                                    copy.to, copy.copy.bytes});
    return gave;
}

bool StandIn::hand_over() {
    bool gave = false;
    for (Open& open : open_)
        if (open.copies != SessionCopies::kNever) gave |= hand_over(open);
    return gave;
}

void StandIn::rest() {
    if (!ready_) {
        // One that does not read is not heard: what it says would end each rest at once.
        pollfd rank{stream_.fd(), static_cast<short>(is_unheard() ? POLLOUT : POLLIN), 0};
        poll(&rank, 1, 1);
        return;
    }
    // What the supervisor answers, and room in the socket, wake nobody here.
    const bool soon = !stream_.flushed() || !agent_.flush() ||
                      std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return !g->settled; });
    uint64_t rest_ns = soon ? kShortRestNs : kRestNs;
    const uint64_t now = now_ns();
    for (const Open& open : open_) {
        if (open.copies == SessionCopies::kAttended && open.copier == Copier::kRank && !handed_.attends())
            rest_ns = std::min(rest_ns, std::max(open.patience.until_ns(agent_.attends()), now) - now + 1);
    }
    if (!is_unheard()) watcher_->arm();
    ls_sleep(context_, rest_ns);
}

int StandIn::run() {
    if (!start()) {
        stream_.send(SessionKind::kReady, SessionReady{0, false, 0, 0, 0, false, false, false,
                                                       "no memory, or settings that mean nothing here"});
        return 1;
    }
    watch(stream_.fd());
    watch(agent_.door());
    while (!broken_) {
        // What a rank that has gone still said is of no use to anybody.
        const bool heard = hear() | hear_agent();
        if (!stream_.open()) break;
        const bool moved = step() | test_operations() | hand_over();
        stream_.flush();
        if (!heard && !moved) rest();
    }
    watcher_.reset();
    // With operations open their memory may be read and written still. A stand-in that goes without a word is
    // lost, and with it all that its rank would have entered.
    if (open_.empty() && settled_)
        ls_context_free(context_);
    else if (!broken_)
        leave_node(*context_);
    return broken_ ? 1 : 0;
}

}  // namespace

int run_stand_in(SessionStream stream, const SessionHello& hello, Fd door, const StandInOptions& options) {
    return StandIn(std::move(stream), hello, std::move(door), options).run();
}

}  // namespace longshore
