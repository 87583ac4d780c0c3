#include "engine/service_engine.h"

#include <cstring>
#include <new>

#include "engine/service_state.h"

namespace longshore {
namespace {

constexpr uint32_t kGroupCacheSize = 1024;
constexpr uint32_t kRepliesMax = 256, kAlongsMax = 1024;
constexpr uint32_t kLandedMax = 1024;
constexpr uint32_t kActionsPerFrame = 16;
constexpr uint32_t kRelaysMax = 64, kPassesMax = 256;
// Of each relay's parent so many slots can be ours, and no more is told of than there is room for.
constexpr uint32_t kOfferedMax = kRelaysMax * kPinsOfChildMax;
constexpr uint32_t kShareBucketsMax = 1u << 12;

uint32_t power_of_two(uint32_t n) {
    uint32_t p = 1;
    while (p < n) p *= 2;
    return p;
}

}  // namespace

// Hands out parts of one block; with a null base it only counts.
class Carver {
  public:
    explicit Carver(std::byte* base) : base_(base) {}
    template <class T>
    T* take(uint64_t count) {
        used_ = (used_ + 63) & ~uint64_t{63};
        T* at = base_ != nullptr ? reinterpret_cast<T*>(base_ + used_) : nullptr;
        used_ += count * sizeof(T);
        return at;
    }
    uint64_t used() const { return (used_ + 63) & ~uint64_t{63}; }

  private:
    std::byte* base_;
    uint64_t used_ = 0;
};

// Defined here so that it can name the private State.
struct ServiceLayout {
    template <class State>
    static size_t carve(std::byte* base, State* s, const NodeLimits& node, const ServiceLimits& l) {
        Carver c(base);
        c.take<State>(1);
        State counted{};
        State& t = s != nullptr ? *s : counted;
        const uint64_t peers = uint64_t{l.nodes_max} * l.services_per_node_max;
        t.words = static_cast<uint32_t>((peers + 63) / 64);
        const auto pool = [&c]<class T>(Pool<T>* p, uint32_t max) {
            p->items = c.take<T>(max);
            p->max = max;
        };
        pool(&t.watches, l.watches_max);
        pool(&t.share_pool, l.watches_max + l.rows_max);
        pool(&t.queue, l.reads_queued_max);
        pool(&t.reads, l.reads_max);
        pool(&t.moves, l.staging_slots);
        pool(&t.relays, l.staging_slots != 0 ? kRelaysMax : 0);
        pool(&t.wants, l.staging_slots != 0 ? kRelaysMax : 0);
        pool(&t.offered, l.staging_slots != 0 ? kOfferedMax : 0);
        pool(&t.passes, kPassesMax);
        t.node_bits = c.take<uint64_t>(t.words);
        pool(&t.rows, l.rows_max);
        pool(&t.spans, 2 * l.rows_max + kRanksPerNodeMax / kSpansPerChunk);
        pool(&t.batches, l.rows_max);
        pool(&t.small, l.eager_max);
        pool(&t.alongs, kAlongsMax);
        pool(&t.replies, kRepliesMax);
        t.watch_of = c.take<uint32_t>(uint64_t{node.ranks_max} * node.records_max);
        t.due = c.take<uint64_t>(uint64_t{l.watches_max} * t.words);
        t.share_bucket_count =
            l.watches_max < kShareBucketsMax ? power_of_two(l.watches_max) : kShareBucketsMax;
        t.share_buckets = c.take<uint32_t>(t.share_bucket_count);
        t.row_bucket_count = power_of_two(l.rows_max);
        t.row_buckets = c.take<uint32_t>(t.row_bucket_count);
        t.small_bucket_count = power_of_two(l.eager_max);
        t.small_buckets = c.take<uint32_t>(t.small_bucket_count);
        pool(&t.landed_pool, kLandedMax);
        pool(&t.descriptors, kRequestedMax);
        t.imports = c.take<Import>(l.imports_max);
        t.import_links = c.take<Link>(l.imports_max);
        t.import_bucket_count = power_of_two(l.imports_max);
        t.import_buckets = c.take<uint32_t>(t.import_bucket_count);
        t.peers = c.take<Peer>(peers);
        t.services_of = c.take<uint16_t>(l.nodes_max);
        t.group_cache = c.take<typename State::CachedGroup>(kGroupCacheSize);
        t.frames = c.take<std::byte>((peers + 1) * l.frame_bytes);
        t.unsent = c.take<uint64_t>(t.words);
        if (base == nullptr) return c.used();

        for (uint32_t i = 0; i < t.share_bucket_count; ++i) t.share_buckets[i] = kNone;
        for (uint32_t i = 0; i < t.row_bucket_count; ++i) t.row_buckets[i] = kNone;
        for (uint32_t i = 0; i < t.small_bucket_count; ++i) t.small_buckets[i] = kNone;
        for (uint32_t i = 0; i < t.import_bucket_count; ++i) t.import_buckets[i] = kNone;
        for (uint32_t i = 0; i < l.imports_max; ++i) new (&t.imports[i]) Import;
        for (uint64_t i = 0; i < peers; ++i) new (&t.peers[i]) Peer;
        for (uint32_t i = 0; i < l.nodes_max; ++i) t.services_of[i] = 1;
        memset(t.watch_of, 0, uint64_t{node.ranks_max} * node.records_max * sizeof(uint32_t));
        memset(t.unsent, 0, t.words * sizeof(uint64_t));
        memset(t.group_cache, 0, kGroupCacheSize * sizeof(typename State::CachedGroup));
        return c.used();
    }
};

size_t ServiceEngine::bytes_needed(const NodeLimits& node, const ServiceLimits& limits) {
    return ServiceLayout::carve<State>(nullptr, nullptr, node, limits);
}

ServiceEngine::ServiceEngine(void* block, const NodeMemory& memory, ServiceId self, uint16_t incarnation,
                             const ServiceLimits& limits, WakeSet* wake) {
    LONGSHORE_CHECK(incarnation >= 1 && incarnation <= kIncarnationMax &&
                    limits.eager_bytes <= kEagerBytesMax && limits.frame_bytes >= kFrameBytesMin &&
                    limits.frame_bytes <= kFrameBytesMax &&
                    (!limits.staging_only || limits.staging_slots != 0) &&
                    (limits.staging_slots == 0 || limits.staging_slot_bytes != 0));
    s_ = new (block) State{};
    s_->memory = memory;
    s_->self = self;
    s_->incarnation = incarnation;
    s_->limits = limits;
    s_->counters = &counters_;
    s_->worker = service_worker(self, incarnation);
    s_->mover = Mover(memory, s_->worker);
    ServiceLayout::carve(static_cast<std::byte*>(block), s_, memory.limits(), limits);

    s_->set_load(ServiceLoad::kIdle);
    // What an earlier incarnation held is free again: the kernel has said that it is gone.
    for (uint16_t i = 1; i < incarnation; ++i) free_lost_claims(memory, service_worker(self, i), wake);
}

void ServiceEngine::set_peers(std::span<const uint16_t> services_of_node) {
    LONGSHORE_CHECK(services_of_node.size() <= s_->limits.nodes_max);
    for (size_t n = 0; n < services_of_node.size(); ++n) {
        LONGSHORE_CHECK(services_of_node[n] >= 1 && services_of_node[n] <= s_->limits.services_per_node_max);
        s_->services_of[n] = services_of_node[n];
        if (s_->incarnation == 1) continue;
        // The first says nothing to nobody in particular: connections are made when they are needed.
        for (uint16_t i = 0; i < services_of_node[n]; ++i) {
            const ServiceAddress a{NodeId{static_cast<uint16_t>(n)}, ServiceId{i}};
            if (a == s_->here()) continue;
            s_->peer(a).hello_due = true;
            set_bit(s_->unsent, s_->index_of(a));
        }
    }
    s_->frames_pending = true;
}

void ServiceEngine::set_staging_descriptor(std::span<const std::byte> descriptor) {
    LONGSHORE_CHECK(descriptor.size() <= kDescriptorBytesMax);
    s_->staging_descriptor_bytes = static_cast<uint32_t>(descriptor.size());
    if (!descriptor.empty()) memcpy(s_->staging_descriptor, descriptor.data(), descriptor.size());
}

void ServiceEngine::set_now(uint64_t ns) {
    s_->now_ns = ns;
}

// --- frames

FrameWriter& ServiceEngine::State::frame_to(ServiceAddress to) {
    Peer& p = peer(to);
    if (!p.open) {
        p.open = true;
        p.frame.start(frames + uint64_t{index_of(to)} * limits.frame_bytes, limits.frame_bytes,
                      {.sender = here(), .incarnation = incarnation});
    }
    set_bit(unsent, index_of(to));
    frames_pending = true;
    return p.frame;
}

bool ServiceEngine::State::add(ServiceAddress to, const Message& m) {
    if (!known(to)) return false;
    if (peer(to).lost) return true;  // as good as sent: nobody will miss it
    if (frame_to(to).add(m)) return true;
    frame_full = true;
    return false;
}

uint32_t ServiceEngine::State::add_row(ServiceAddress to, MessageKind kind, const Told& told, const Row& row,
                                       std::span<const BlockSpan> parts) {
    if (!known(to)) return 0;
    if (peer(to).lost) return row.form == Row::Form::kSpans ? static_cast<uint32_t>(parts.size()) : 1;
    const uint32_t written = frame_to(to).add_row(kind, told, row, parts);
    frame_full |= written == 0;
    return written;
}

bool ServiceEngine::State::next_frame(Action* out) {
    if (!frames_pending) return false;
    if (next_along(out)) return true;  // before the frame that tells of it
    const uint32_t n = limits.nodes_max * limits.services_per_node_max;
    for (;;) {
        uint32_t at = next_bit(unsent, n, flush_round);
        if (at == n) at = next_bit(unsent, n, 0);
        if (at == n) break;
        flush_round = at + 1;
        clear_bit(unsent, at);
        Peer& p = peers[at];
        if (p.hello_due) {
            Message hello;
            hello.kind = MessageKind::kHello;
            p.hello_due = !add(address(at), hello);
            if (!p.hello_due) clear_bit(unsent, at);
        }
        if (!p.open || p.frame.empty()) continue;
        *out = Action{};
        out->kind = Action::Kind::kSend;
        out->peer = address(at);
        // The driver may hold on to these bytes for long; what follows goes into the peer's own buffer
        // meanwhile.
        const auto frame = p.frame.finish();
        std::byte* sending = frames + uint64_t{n} * limits.frame_bytes;
        memcpy(sending, frame.data(), frame.size());
        out->data = {sending, frame.size()};
        p.open = false;
        return true;
    }
    frames_pending = false;
    return false;
}

// --- operations of our ranks

const GroupEntry* ServiceEngine::State::find_group(GroupId id, GroupSlot* slot) {
    if (id.value == 0) return nullptr;
    CachedGroup& c = group_cache[mix64(id.value) % kGroupCacheSize];
    if (c.id != id.value || memory.group(GroupSlot{c.slot}).id.load(std::memory_order_acquire) != id.value) {
        const GroupSlot found = memory.find_group(id);
        if (found.value == memory.limits().groups_max) return nullptr;
        c = {id.value, found.value};
    }
    *slot = GroupSlot{c.slot};
    return &memory.group(*slot);
}

// Also whether what was read of the record before belongs to it: those reads stay above.
bool ServiceEngine::State::still(const Watch& w) const {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return memory.record(w.local, w.record).generation.load(std::memory_order_acquire) == w.seen.generation;
}

uint32_t ServiceEngine::State::watch_record(LocalRank local, RecordId record, WakeSet* wake) {
    uint32_t& index = watch_of[uint64_t{local.value} * memory.limits().records_max + record.value];
    if (index != 0) {
        if (still(watches[index - 1])) return index - 1;
        drop_watch(index - 1);
    }
    RecordLook seen;
    if (!look(memory.record(local, record), &seen) || seen.group.value >= memory.limits().groups_max)
        return kNone;
    const GroupEntry& group = memory.group(seen.group);
    if (seen.rank.value >= group.size || seen.size != group.size || group.size > limits.group_size_max ||
        seen.root.value >= group.size || static_cast<uint8_t>(seen.collective) >= kCollectives)
        return kNone;
    const Member& member = memory.members(group)[seen.rank.value];
    if (member.node != memory.node() || member.local != local) return kNone;
    // Published means: in the ring. Before that nobody may look for what has been told.
    RecordId published;
    if (entered(memory, group, member.local_index, seen.sequence, &published) != Entered::kPublished ||
        published != record)
        return kNone;
    const uint32_t i = watches.take();
    if (i == kNone) {
        ++counters->pool_full;
        scan_needed |= member.service == self;
        return kNone;
    }
    Watch& w = watches[i];
    w.used = true;
    w.helps = member.service != self;
    w.local = local;
    w.record = record;
    w.seen = seen;
    w.local_index = member.local_index;
    w.several_nodes = group.local_count != group.size;
    w.resend_after = limits.repeat_ticks;
    for (uint32_t k = 0; k < words; ++k) due_bits(i)[k] = 0;
    index = i + 1;
    ++watch_count;
    if (i >= watches_used) watches_used = i + 1;
    join_share(i);
    if (!w.several_nodes || w.helps) return i;
    plan_telling(i);
    join_rows(i);
    for (uint32_t p = 0; any_lost && p < limits.nodes_max * limits.services_per_node_max; ++p)
        if (peers[p].lost) lose(i, address(p), wake);
    return i;
}

void ServiceEngine::State::drop_watch(uint32_t i) {
    Watch& w = watches[i];
    cancel_reads(i);
    forget_due(i);
    if (w.several_nodes && !w.helps) leave_rows(i);
    leave_share(i);
    watch_of[uint64_t{w.local.value} * memory.limits().records_max + w.record.value] = 0;
    w.used = false;
    --watch_count;
    watches.give(i);
    while (watches_used > 0 && !watches[watches_used - 1].used) --watches_used;
}

// Looks for records that a service process's ranks have published since the last time.
void ServiceEngine::State::scan(ServiceId of, WakeSet* wake) {
    if (of == self) scan_needed = false;
    const uint16_t ranks = memory.rank_count();
    for (uint16_t r = 0; r < ranks; ++r) {
        const LocalRank local{r};
        const RankSlot& slot = memory.rank(local);
        if (load_relaxed(&slot.service) != of.value) continue;
        for (uint32_t word = 0; word * 64 < memory.limits().records_max; ++word) {
            for (uint64_t bits = slot.active[word].load(std::memory_order_acquire); bits != 0;
                 bits &= bits - 1) {
                const RecordId record{word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits))};
                const uint32_t known_as = watch_of[uint64_t{r} * memory.limits().records_max + record.value];
                if (known_as != 0 && still(watches[known_as - 1])) continue;
                watch_record(local, record, wake);
            }
        }
    }
}

bool ServiceEngine::next(Action* out, WakeSet* wake) {
    State& s = *s_;
    if (s.forget_pending) {
        s.forget_pending = false;
        *out = Action{};
        out->kind = Action::Kind::kForget;
        out->region = s.forget;
        return true;
    }
    ++s.steps;
    s.send_relay_messages();
    // What others wait for goes out although there may be much to copy here.
    if (s.frame_full || ++s.since_frame >= kActionsPerFrame) {
        s.frame_full = false;
        s.since_frame = 0;
        s.send_acknowledgements(State::Awaited::kQueued);
        s.ask_for_dropped();
        if (s.next_frame(out)) return true;
    }
    s.retire_cancelled(wake);
    if (s.next_move(out) || s.next_offered(out) || s.next_import(out, wake)) return true;

    ServiceSlot& slot = s.memory.service(s.self);
    const uint32_t events = slot.events.load(std::memory_order_seq_cst);
    if (events != s.scan_events || s.scan_needed) {
        s.scan_events = events;
        s.settled_some = true;  // by ranks, perhaps
        s.scan(s.self, wake);
        s.retry_stalled();
        s.look_at_waiting(wake);
        s.answer_held_wants();
    } else if (s.waiting_blocked) {
        s.look_at_waiting(wake);
    }
    if (s.due_replies.count != 0) s.send_replies();
    if (s.next_turn(out, events, wake)) {
        s.offer(wake);
        return true;
    }
    s.retire_cancelled(wake);
    // What is told and acknowledged goes out in batches; now that there is nothing better to do, as it is.
    s.send_acknowledgements(State::Awaited::kInFlight);
    s.ask_for_dropped();
    s.send_relay_messages();
    if (s.next_import(out, wake) || s.next_frame(out)) return true;
    s.note_pause();
    if (s.help(out, events, wake)) return true;
    s.tell_completions();
    return false;
}

// The words are in this cache now; the rank's will be cold when it returns from its computation.
void ServiceEngine::State::tell_completions() {
    if (!settled_some) return;
    settled_some = false;
    for (uint32_t i = 0; i < watches_used; ++i) {
        Watch& w = watches[i];
        if (!w.used || w.completed || !still(w)) continue;
        if (!Completion(memory, w.local, w.record, w.seen).all(&w.done) || !still(w)) continue;
        w.completed = true;
        memory.record(w.local, w.record).completed.store(w.seen.generation, std::memory_order_release);
    }
}

// --- events

void ServiceEngine::on_frame(std::span<const std::byte> frame, WakeSet* wake) {
    State& s = *s_;
    FrameReader reader;
    FrameHeader header;
    if (!reader.start(frame, &header) || !s.known(header.sender) ||
        header.sender.service.value >= s.services_of[header.sender.node.value] || header.sender == s.here()) {
        ++counters_.malformed_messages;
        return;
    }
    Peer& p = s.peer(header.sender);
    if (header.incarnation < p.incarnation) {
        ++counters_.stale_messages;
        return;
    }
    if (header.incarnation > p.incarnation) {
        const bool restarted = p.incarnation != 0;
        p.incarnation = header.incarnation;
        // We may have heard of an earlier one through others only.
        s.drop_pins(header.sender, header.incarnation);
        if (restarted) {
            s.drop_parts(header.sender);
            s.drop_small_of(header.sender);
            s.resync(header.sender);
        }
    }
    Message m;
    for (;;) {
        switch (reader.next(&m)) {
            case FrameReader::Result::kEnd:
                return;
            case FrameReader::Result::kMalformed:
                ++counters_.malformed_messages;
                return;
            case FrameReader::Result::kMessage:
                break;
        }
        switch (m.kind) {
            case MessageKind::kHello:
                s.resync(header.sender);
                break;
            case MessageKind::kAgain:
                s.retell(header.sender);
                break;
            case MessageKind::kTell:
            case MessageKind::kHandOn:
                s.on_told(m.told, header.sender, m.kind == MessageKind::kHandOn, wake);
                break;
            case MessageKind::kSmallBlock:
                s.on_small(header.sender, m.small);
                break;
            case MessageKind::kLend:
                s.on_lent(m.lent, wake);
                break;
            case MessageKind::kAcknowledge:
                s.on_acknowledge(header.sender, m.acknowledgement, wake);
                break;
            case MessageKind::kRegionRequest:
                s.on_region_request(header.sender, m.region);
                break;
            case MessageKind::kRegion:
                s.on_region(header.sender, m.region, wake);
                break;
            case MessageKind::kWant:
                s.on_want(m.relayed, 0);
                break;
            case MessageKind::kOffer:
                s.on_offer(header.sender, header.incarnation, m.relayed);
                break;
            case MessageKind::kPass:
                s.on_pass(m.relayed);
                break;
            case MessageKind::kTaken:
                s.on_taken(header.sender, m.relayed);
                break;
        }
    }
}

void ServiceEngine::finish_copy(const Copy& copy, MoveResult result, WakeSet* wake) {
    if (!copy.is_self) ++counters_.copies;
    s_->settled_some = true;
    s_->mover.finish(copy, result, wake);
}

void ServiceEngine::finish_read(uint32_t id, MoveResult result, WakeSet* wake) {
    State& s = *s_;
    if ((id & kMoveId) != 0) {
        s.finish_move(id & ~kMoveId, result, wake);
        return;
    }
    LONGSHORE_CHECK(id < s.reads.made && s.reads[id].queued != kNone);
    ReadInFlight& read = s.reads[id];
    const uint32_t queued = read.queued;
    read.queued = kNone;
    s.reads.give(id);
    s.reading_bytes -= read.bytes;
    if (result == MoveResult::kMoved) counters_.bytes_between_nodes += read.bytes;
    s.settle_read(queued, read.claim_offset, read.bytes, result, wake);
    s.chunk_over(queued);
    s.finish_queued(queued, wake);
}

void ServiceEngine::set_read_window(uint64_t bytes) {
    s_->read_window = bytes;
}

void ServiceEngine::finish_import(uint32_t id, ImportHandle region, bool ok, WakeSet* wake) {
    s_->import_done(id, region, ok, wake);
}

void ServiceEngine::on_tick(WakeSet* wake) {
    State& s = *s_;
    for (uint32_t i = 0; i < s.watches_used && s.limits.repeat_ticks != 0; ++i) {
        Watch& w = s.watches[i];
        if (!w.used || !w.unacknowledged || w.due_count != 0 || !s.still(w)) continue;
        if (++w.resend_ticks < w.resend_after) continue;
        w.resend_ticks = 0;
        if (w.resend_after < 128) w.resend_after *= 2;
        w.repeats = true;
        s.rearm(i, nullptr);
        counters_.notifications_resent += w.due_count;
    }
    s.retry_stalled();
    s.tick_relays();
    s.send_acknowledgements(State::Awaited::kNothing);
    if (s.limits.repeat_ticks != 0) {  // nets
        s.sweep_rows();
        s.look_at_waiting(wake);
        s.ask_again |= s.again_count != 0;
    }
    for (uint32_t i = 0; i < s.limits.imports_max; ++i) {
        Import& m = s.imports[i];
        if (m.state != Import::State::kRequested || ++m.attempts < 4) continue;
        m.attempts = 0;
        --s.imports_requested;
        s.ask_for(i);
    }
}

void ServiceEngine::on_peer_lost(ServiceAddress lost, WakeSet* wake) {
    State& s = *s_;
    if (!s.known(lost) || lost == s.here()) return;
    s.peer(lost).lost = true;
    s.peer(lost).open = false;
    s.any_lost = true;
    s.drop_parts(lost);
    s.drop_small_of(lost);
    if (s.peer(lost).again_due) --s.again_count;
    s.peer(lost).again_due = false;
    s.lose_imports(lost, wake);
    s.leave_parents(lost.node);
    for (uint32_t i = 0; i < s.watches_used; ++i)
        if (s.watches[i].used && s.watches[i].several_nodes && !s.watches[i].helps && s.still(s.watches[i]))
            s.lose(i, lost, wake);
}

// What an operation expects of a lost peer ends in an error: its blocks will not come, and it will not read
// ours.
void ServiceEngine::State::lose(uint32_t i, ServiceAddress lost, WakeSet* wake) {
    const Watch& w = watches[i];
    const GroupEntry& group = memory.group(w.seen.group);
    const uint32_t p = find_peer(group, lost);
    if (p == group.peer_count) return;
    const GroupPeer& peer = memory.peers(group)[p];
    for (const uint32_t m : memory.members_of(group, peer))
        fail_block(i, Rank{m}, OperationError::kServiceLost, wake);
    settle_peer(w.local, w.record, w.seen, is_shared(w.seen.collective) ? peer.node_first : p, true, wake);
}

void ServiceEngine::yield_to_waiting_ranks(bool on) {
    s_->yields = on;
}

bool ServiceEngine::somebody_waits() const {
    const NodeMemory& memory = s_->memory;
    for (uint16_t r = 0; r < memory.rank_count(); ++r) {
        if (memory.rank(LocalRank{r}).waiting.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
}

bool ServiceEngine::yielded() const {
    return s_->yielded;
}

bool ServiceEngine::idle() const {
    const State& s = *s_;
    if (s.scan_needed && s.watch_count != 0) return false;
    for (uint32_t i = 0; i < s.watches_used; ++i)
        if (s.watches[i].used && s.still(s.watches[i])) return false;
    uint32_t kept = 0;  // for service processes that are lost
    for (uint32_t i = 0; i < s.moves.made; ++i) {
        const StagedMove& m = s.moves[i];
        bool lost = m.over && m.pin_count != 0;
        for (uint32_t k = 0; k < m.pin_count; ++k) lost = lost && s.peer(m.pins[k].at).lost;
        kept += lost;
    }
    return s.queue.in_use() == 0 && s.rows.in_use() == 0 && s.batches.in_use() == 0 &&
           s.reads.in_use() == 0 && s.moves.in_use() == kept && s.due_replies.count == 0 &&
           s.wants.in_use() == 0 && s.offered.in_use() == 0 && s.passes.in_use() == 0;
}

}  // namespace longshore
