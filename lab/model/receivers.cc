#include "model/receivers.h"

#include <algorithm>

#include "model/offload.h"
#include "model/service_process.h"

namespace longshore::timed {

Receivers::Receivers(Offload& world)
    : world_(world),
      nodes_(world.job().nodes),
      got_up_(world.job().services),
      after_(world.job().ranks_per_node) {}

void Receivers::begin_operation() {
    begin_ = world_.queue().now();
    own_done_ = 0;
    all_pieces_known_ = !pieces_.empty();
    nodes_[kStandsForAll].last = own_last_;
    for (Node& node : nodes_) {
        node.last_before = node.last;
        node.told = node.last = node.taken = 0;
    }
    std::fill(got_up_.begin(), got_up_.end(), GotUp{});
}

void Receivers::gets_up(ServiceId service, bool has_slept, Time rests_since) {
    GotUp& one = got_up_[service.value];
    if (!one.known) one = {true, has_slept, world_.queue().now(), rests_since};
}

void Receivers::hear(ServiceAddress from, ServiceAddress to, std::span<const std::byte> frame, Time delay) {
    const uint32_t kept = world_.keep_frame(from, to, frame);
    world_.wires().send({from.node.value, Side::kDpu}, {to.node.value, Side::kDpu}, frame.size(), delay, this,
                        tag_of(to.node.value, kept));
}

void Receivers::on_arrival(uint64_t tag) {
    const auto node = static_cast<uint32_t>((tag & ~kPiece) >> 32), number = static_cast<uint32_t>(tag);
    if ((tag & kPiece) != 0) {
        take_piece(node, pieces_[number]);
        return;
    }
    const scale::Frame frame = world_.kept_frame(number);  // others are kept meanwhile
    take_frame(node, frame);
    if (node == kStandsForAll) {
        world_.service_at(frame.to).on_arrival(ServiceProcess::kFrame | number);
    } else {
        world_.drop_frame(number);
    }
}

void Receivers::on_event(uint64_t what) {
    const auto node = static_cast<uint32_t>((what & ~kDone) >> 32);
    if ((what & kDone) != 0) {
        finish_ranks(node);
    } else {
        ask(node, pieces_[static_cast<uint32_t>(what)], kPiece | what);
    }
}

void Receivers::take_frame(uint32_t number, const scale::Frame& frame) {
    nodes_[number].self = frame.to;
    nodes_[number].teller = frame.from;
    FrameReader reader;
    FrameHeader header;
    longshore::Message message;
    LONGSHORE_CHECK(reader.start(frame.content(), &header));
    while (reader.next(&message) == FrameReader::Result::kMessage)
        if (message.kind == MessageKind::kTell) take_tell(number, message.told);
}

// A broadcast is told in one row, and again where it has not been acknowledged for long.
void Receivers::take_tell(uint32_t number, const Told& told) {
    Node& node = nodes_[number];
    if (node.operation == told.operation) {
        if (node.last != 0) acknowledge(node);
        return;
    }
    RowReader rows(told);
    LONGSHORE_CHECK(rows.next(&node.row));
    node.operation = told.operation;
    node.told = world_.queue().now();
    if (number == kStandsForAll) return;
    for (size_t piece = 0; piece < pieces_.size(); ++piece) ask_later(number, piece);
}

// It is told first, as the root's right neighbour is.
void Receivers::asks_for(uint64_t bytes) {
    LONGSHORE_CHECK(nodes_[kStandsForAll].told != 0);
    if (all_pieces_known_) return;
    pieces_.push_back({world_.queue().now() - starts_at(kStandsForAll), bytes});
    for (uint32_t n = kStandsForAll + 1; n < nodes_.size(); ++n)
        if (nodes_[n].told != 0) ask_later(n, pieces_.size() - 1);
}

// When the service process that was told begins with it. Ranks enter at the same time on all nodes, so it is
// rung at the same time, too. But who had its last piece of the operation before earlier has rested for
// longer, and may sleep where another one still looks.
Time Receivers::starts_at(uint32_t number) const {
    const Node &node = nodes_[number], &own = nodes_[kStandsForAll];
    const GotUp& one = got_up_[node.self.service.value];
    const bool by_ranks = one.known && one.rang < own.told;  // else by what it was told
    const Time rang = by_ranks ? one.rang : node.told;
    bool sleeps = one.has_slept;
    if (node.last_before != 0) {
        const Time rests_since = one.rests_since + node.last_before - own.last_before;
        sleeps = rang > rests_since + world_.machine().service_spin;
    }
    return std::max(node.told, rang + (sleeps ? world_.machine().service_wake_up : 0));
}

void Receivers::ask_later(uint32_t number, size_t piece) {
    const Time at = starts_at(number) + pieces_[piece].after;
    world_.queue().at(std::max(at, world_.queue().now()), *this, tag_of(number, piece));
}

void Receivers::ask(uint32_t number, const Piece& piece, uint64_t tag) {
    const uint32_t root = nodes_[number].teller.node.value;
    world_.wires().read({number, Side::kDpu}, {root, Side::kHost}, {number, Side::kHost}, piece.bytes,
                        world_.machine().service_read, this, tag);
}

void Receivers::take_piece(uint32_t number, const Piece& piece) {
    Node& node = nodes_[number];
    node.taken += piece.bytes;
    if (node.taken != node.row.bytes) return;
    node.last = world_.queue().now();
    acknowledge(node);
    finish_when_known(number);
}

void Receivers::acknowledge(const Node& node) {
    longshore::Message m;
    m.kind = MessageKind::kAcknowledge;
    m.acknowledgement.operation = node.operation;
    m.acknowledgement.first = node.row.local_index & ~63;
    m.acknowledgement.sources = uint64_t{1} << (node.row.local_index & 63);
    std::byte buffer[kFrameBytesMin];
    FrameWriter writer;
    writer.start(buffer, sizeof(buffer), {.sender = node.self, .incarnation = 1});
    LONGSHORE_CHECK(writer.add(m));
    world_.send_frame(node.self, node.teller, writer.finish(),
                      world_.machine().service_finish + world_.machine().service_send, 0);
}

void Receivers::piece_came() {
    own_last_ = world_.queue().now();
}

// A rank that still computes when the last piece comes has it some time after its computing.
void Receivers::rank_is_done(LocalRank local) {
    const Job& job = world_.job();
    const Time computed = begin_ + job.compute_of(job.rank_at(kStandsForAll, local.value));
    after_[local.value] = world_.queue().now() - std::max(own_last_, computed);
    if (++own_done_ != job.ranks_per_node) return;
    for (uint32_t n = kStandsForAll + 1; n < nodes_.size(); ++n) finish_when_known(n);
}

// All its ranks are done when its last one has the block.
void Receivers::finish_when_known(uint32_t number) {
    if (nodes_[number].last == 0 || own_done_ != world_.job().ranks_per_node) return;
    world_.queue().after(*std::max_element(after_.begin(), after_.end()), *this, kDone | tag_of(number, 0));
}

void Receivers::finish_ranks(uint32_t number) {
    const Job& job = world_.job();
    for (uint32_t l = 0; l < job.ranks_per_node; ++l) {
        const uint32_t rank = job.rank_at(number, l);
        const Time computed = begin_ + job.compute_of(rank);
        world_.rank_is_done(rank, std::max(nodes_[number].last, computed) + after_[l] - begin_);
    }
}

}  // namespace longshore::timed
