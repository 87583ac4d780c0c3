// A rank that says anything to its stand-in on a DPU: a hello first, then a session with the real stand-in
// (dpu/card/stand_in.cc), over a socket. What stands behind the stand-in, the host library, is played here,
// and asks of each operation that reaches it that all its bytes lie in regions that the rank has opened.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "dpu/card/hello.h"
#include "dpu/card/stand_in.h"
#include "played_host.h"

namespace {

using namespace longshore;
using namespace longshore::fuzz;

constexpr uint32_t kRanks = 3;
constexpr uint32_t kRegions = 3;
constexpr uint64_t kRegionBytes = 1024;
constexpr size_t kFrameBytesSentMax = 100'000;
uint64_t got_far = 0;

// --- the rank

class RankOfDpu {
  public:
    RankOfDpu(Choices* choices, Fd socket) : choices_(*choices), socket_(std::move(socket)) {}
    // The next words; at the end of the input the connection ends.
    void go_on() {
        if (!choices_.one_in(3)) listen();
        if (choices_.over() || sent_ > kFrameBytesSentMax) return socket_.reset();
        if (!started_ && !choices_.one_in(8)) {
            for (uint32_t region = 1; region <= kRegions; ++region) open_region(region);
            start_group(1);
        }
        started_ = true;
        for (int frames = 1 + choices_.byte() % 3; frames > 0; --frames) say();
    }
    void leave() { socket_.reset(); }
    void answer(uint64_t id, uint32_t size) {
        SessionExchange all;
        all.id = id;
        all.ok = !choices_.one_in(16);
        all.bytes.resize(kExchangedBytes * size);
        send(SessionKind::kExchanged, encode(all));
    }
    void send(SessionKind kind, std::vector<std::byte> body) {
        last_kind_ = kind;
        last_ = body;
        damage(choices_, &body);
        const uint32_t length = choices_.one_in(64) ? static_cast<uint32_t>(choices_.number())
                                                    : static_cast<uint32_t>(body.size());
        if (choices_.one_in(64)) kind = static_cast<SessionKind>(choices_.number());
        std::vector<std::byte> frame;
        append(&frame, bytes_of(length));
        append(&frame, bytes_of(kind));
        append(&frame, bytes_of(uint16_t{0}));
        append(&frame, body);
        sent_ += frame.size();
        if (socket_) ::send(socket_.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }

  private:
    void listen() const {
        std::byte nowhere[4096];
        while (socket_ && recv(socket_.get(), nowhere, sizeof nowhere, MSG_DONTWAIT) > 0) {
        }
    }
    void say() {
        switch (choices_.byte() % 16) {
            case 0:
            case 1:
                return start_group(choices_.byte() % 4);
            case 2: {
                SessionGroup group;
                group.id = choices_.byte() % 4;
                group.size = 1;
                groups_.erase(group.id);
                return send(SessionKind::kGroupFree, encode(group));
            }
            case 3:
            case 4:
            case 5:
                return open_region(choices_.one_in(8) ? static_cast<uint32_t>(choices_.number())
                                                      : 1 + choices_.byte() % kRegions);
            case 6:
                return send(SessionKind::kDescribe, encode(SessionDone{choices_.byte() % 8u, 0, 0}));
            case 7:
                return send(SessionKind::kAskStats, {});
            case 8:
                return answer(choices_.byte() % 4, 1 + choices_.byte() % kRanks);
            case 9:
                return send(last_kind_, last_);
            case 10:
                if (choices_.one_in(3))
                    return send(SessionKind::kTested, encode(SessionDone{choices_.byte() % 8u, 0, 0}));
                return send(SessionKind::kAttend,
                            encode(SessionAttend{choices_.byte() % 4u, choices_.byte() % 2 != 0}));
            case 11:  // as they are numbered, if they are answered in order
                return send(SessionKind::kCopied,
                            encode(SessionCopied{++answered_ * kHandedMax, choices_.byte() % 2 != 0}));
            default:
                return send(SessionKind::kPost, encode(post()));
        }
    }
    void start_group(uint64_t id) {
        SessionGroup group;
        group.id = id;
        group.size = 1 + choices_.byte() % kRanks;
        group.rank = choices_.byte() % group.size;
        groups_.try_emplace(id, group);
        send(SessionKind::kGroupStart, encode(group));
        answer(id, group.size);
    }
    void open_region(uint32_t region) {
        SessionOpened opened;
        opened.region = region;
        opened.address = 4096;
        opened.bytes = choices_.one_in(8) ? choices_.number() : kRegionBytes;
        opened.key.resize(1 + choices_.byte() % 8);
        send(SessionKind::kOpened, encode(opened));
    }
    // As a rank plans it, in regions that are large enough, and then one field of it otherwise.
    SessionPost post() {
        SessionPost p;
        p.operation = choices_.byte() % 8;
        SessionGroup group;
        group.size = 1;
        if (!groups_.empty()) {
            auto any = groups_.begin();
            std::advance(any, choices_.byte() % groups_.size());
            group = any->second;
        }
        p.group = group.id;
        p.collective = choices_.byte() % kCollectives;
        const uint32_t size = group.size, rank = group.rank;
        p.root = choices_.byte() % size;
        const CollectiveRules& rules = rules_of(static_cast<Collective>(p.collective));
        fill(rules, rules.gives(Rank{rank}, Rank{p.root}), rules.given, size, &p.send_block_bytes,
             &p.send_bytes, &p.send_blocks, &p.send_region, &p.send_offset);
        fill(rules, rules.takes(Rank{rank}, Rank{p.root}), rules.taken, size, &p.recv_block_bytes,
             &p.recv_bytes, &p.recv_blocks, &p.recv_region, &p.recv_offset);
        if (choices_.one_in(4)) {
            p.send_region = 0;
            p.send_offset = 0;
            p.data.resize(p.send_bytes);
        }
        p.copies = static_cast<SessionCopies>(choices_.byte() % 3);
        if (choices_.one_in(4)) change(&p);
        return p;
    }
    void fill(const CollectiveRules& rules, bool there, Blocks blocks, uint32_t size, uint64_t* block_bytes,
              uint64_t* bytes, std::vector<BlockSpan>* spans, uint32_t* region, uint64_t* offset) {
        if (!there) return;
        const uint64_t each = choices_.byte();
        const uint32_t count = blocks == Blocks::kOne ? 1 : size;
        *bytes = each * count;
        *region = 1 + choices_.byte() % kRegions;
        *offset = uint64_t{choices_.byte()} * (kRegionBytes - *bytes) / UINT8_MAX;  // up to the very end
        if (!rules.by_vector || blocks == Blocks::kOne) {
            *block_bytes = each;
            return;
        }
        for (uint32_t i = 0; i < count; ++i) spans->push_back({each * i, each});
    }
    void change(SessionPost* p) {
        uint64_t* const wide[] = {&p->group,      &p->send_block_bytes, &p->recv_block_bytes, &p->send_bytes,
                                  &p->recv_bytes, &p->send_offset,      &p->recv_offset};
        uint32_t* const narrow[] = {&p->root, &p->send_region, &p->recv_region};
        switch (choices_.byte() % 4) {
            case 0:
                *wide[choices_.byte() % std::size(wide)] = choices_.number();
                break;
            case 1:
                *narrow[choices_.byte() % std::size(narrow)] = static_cast<uint32_t>(choices_.number());
                break;
            case 2:
                p->self_in_place = !p->self_in_place;
                break;
            default:
                for (auto* spans : {&p->send_blocks, &p->recv_blocks})
                    if (!spans->empty()) {
                        BlockSpan& span = (*spans)[choices_.byte() % spans->size()];
                        (choices_.byte() % 2 != 0 ? span.offset : span.bytes) = choices_.number();
                    }
        }
    }

    Choices& choices_;
    Fd socket_;
    SessionKind last_kind_ = SessionKind::kAskStats;
    std::vector<std::byte> last_;
    size_t sent_ = 0;
    uint32_t answered_ = 0;
    bool started_ = false;
    std::map<uint64_t, SessionGroup> groups_;  // as it has said first
};

SessionHello hello_of_rank() {
    SessionHello hello;
    hello.job = 1;
    hello.rank = 1;
    hello.size = kRanks;
    hello.service_count = 1;
    hello.service_reads_max = 4;
    hello.service_spin_us = 1000;
    hello.service_restarts_max = 16;
    hello.limit_s = 5;
    hello.eager_bytes = 16384;
    hello.chunk_bytes = 262144;
    hello.staging_bytes = 1 << 24;
    hello.cores = "auto";
    hello.agent.resize(8);
    hello.no_probe = "none";
    hello.copies = true;
    return hello;
}

// What comes of a hello that is said in two pieces.
bool hear_hello(Choices& choices, SessionHello* hello) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    const Fd near(ends[0]);
    Fd far(ends[1]);
    const bool is_of_tasks = choices.one_in(8);
    std::vector<std::byte> body = is_of_tasks ? encode(SessionTasks{1, {}, 5}) : encode(hello_of_rank()),
                           frame;
    damage(choices, &body);
    append(&frame, bytes_of(choices.one_in(32) ? static_cast<uint32_t>(choices.number())
                                               : static_cast<uint32_t>(body.size())));
    append(&frame, bytes_of(is_of_tasks ? SessionKind::kTasks : SessionKind::kHello));
    append(&frame, bytes_of(uint16_t{0}));
    append(&frame, body);
    // More than a hello may have, for one that says it is so long.
    if (choices.one_in(16)) frame.resize(frame.size() + 2 * kHelloBytesMax);
    const size_t first = choices.below(static_cast<uint32_t>(frame.size()));
    HelloReader reader;
    HelloReader::State state = HelloReader::State::kPartial;
    for (const auto part : {std::span(frame).first(first), std::span(frame).subspan(first)}) {
        if (!part.empty()) ::send(far.get(), part.data(), part.size(), MSG_NOSIGNAL);
        if (state == HelloReader::State::kPartial) state = reader.read(near.get());
    }
    if (state == HelloReader::State::kPartial) {
        far.reset();
        require(reader.read(near.get()) == HelloReader::State::kRefused);
        return false;
    }
    if (state == HelloReader::State::kRefused) require(!reader.refusal().reason.empty());
    if (state == HelloReader::State::kTasks)
        require(reader.is_of_tasks() && reader.tasks().limit_s >= 1 && reader.tasks().limit_s <= 3600);
    if (state != HelloReader::State::kWhole) return false;
    *hello = reader.hello();
    require(hello->rank < hello->size && hello->size <= kJobRanksMax);
    return true;
}

}  // namespace

extern "C" uint64_t fuzz_conversations_that_got_far() {
    return got_far;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Choices choices(data, size);
    SessionHello hello;
    if (!hear_hello(choices, &hello) || hello.size > 64) return 0;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return 0;
    RankOfDpu rank(&choices, Fd(ends[1]));
    Host one;
    one.go_on = [&] { rank.go_on(); };
    one.leave = [&] { rank.leave(); };
    one.group_fails = [&] { return choices.one_in(8); };
    one.tests_of_an_operation = [&] { return choices.byte() % 4; };
    one.copies_of_an_operation = [&] { return choices.byte() % 4u; };
    host = &one;
    rank.answer(0, hello.size);
    const StandInOptions options;
    run_stand_in(SessionStream(Fd(ends[0]), 5), hello, Fd(), options);
    got_far += one.posted;
    for (Group* group : one.groups) delete group;
    for (Operation* operation : one.operations) delete operation;
    return 0;
}
