#include "scale/model.h"

#include "base/prng.h"

namespace longshore::scale {
namespace {

constexpr std::byte kNoBytes[kEagerBytesMax] = {};

}  // namespace

class Model::Sender {
  public:
    Sender(const Shape& shape, ServiceAddress from, ServiceAddress to, FrameQueue* out)
        : frame_bytes_(shape.service_limits().frame_bytes), from_(from), to_(to), out_(out) {}
    ~Sender() { send(); }
    Sender(const Sender&) = delete;
    Sender& operator=(const Sender&) = delete;

    void add(const Message& m) {
        begin();
        if (writer_.add(m)) return;
        send();
        begin();
        LONGSHORE_CHECK(writer_.add(m));
    }
    // Returns how many spans of the row went into the present frame.
    uint32_t add_row(const Told& told, const Row& row, std::span<const BlockSpan> spans) {
        begin();
        if (const uint32_t written = writer_.add_row(MessageKind::kTell, told, row, spans)) return written;
        send();
        begin();
        const uint32_t written = writer_.add_row(MessageKind::kTell, told, row, spans);
        LONGSHORE_CHECK(written != 0);
        return written;
    }

  private:
    void begin() {
        if (open_) return;
        open_ = true;
        writer_.start(buffer_, frame_bytes_, {.sender = from_, .incarnation = 1});
    }
    void send() {
        if (!open_) return;
        open_ = false;
        const auto bytes = writer_.finish();
        Frame& frame = out_->add();
        frame.from = from_;
        frame.to = to_;
        frame.length = static_cast<uint32_t>(bytes.size());
        std::copy(bytes.begin(), bytes.end(), frame.bytes.begin());
    }
    size_t frame_bytes_;
    ServiceAddress from_, to_;
    FrameQueue* out_;
    FrameWriter writer_;
    bool open_ = false;
    std::byte buffer_[kFrameBytesMax];
};

Model::Model(const Shape& shape, const Workload& workload)
    : shape_(shape), workload_(workload), words_((shape.ranks + 63) / 64), random_(shape.seed) {
    open_.resize(2 * uint64_t{shape.nodes - shape.real_nodes} * shape.services * shape.real_nodes *
                 shape.services * words_);
}

// Of a shared block any service process of a node may acknowledge: then they keep one bitmap.
uint64_t* Model::open_rows(const Pair& p) {
    const uint64_t service = workload_.rules().is_shared ? 0 : p.modelled.service.value;
    const uint64_t modelled =
        (p.modelled.node.value - shape_.real_nodes) * uint64_t{shape_.services} + service;
    const uint64_t real = uint64_t{p.real.node.value} * shape_.services + p.real.service.value;
    return &open_[(modelled * shape_.real_nodes * shape_.services + real) * words_];
}

void Model::begin(uint64_t sequence) {
    operation_ = {kGroup, sequence};
    if (shape_.pace != Pace::kEarly || workload_.is_rooted()) return;
    for (uint16_t n = static_cast<uint16_t>(shape_.real_nodes); n < shape_.nodes; ++n)
        for (uint16_t s = 0; s < shape_.services; ++s)
            for (uint16_t k = 0; k < shape_.real_nodes; ++k)
                for (uint16_t t = 0; t < shape_.services; ++t)
                    to_tell_.push_back({{NodeId{n}, ServiceId{s}}, {NodeId{k}, ServiceId{t}}});
    for (size_t i = to_tell_.size(); i > 1; --i) std::swap(to_tell_[i - 1], to_tell_[mix64(++random_) % i]);
}

void Model::turn(uint64_t round, FrameQueue* out) {
    if (!to_tell_.empty()) {
        tell_all(to_tell_.back(), out);
        to_tell_.pop_back();
    }
    while (!to_answer_.empty() && to_answer_.front().due <= round) {
        const Answer answer = to_answer_.front();
        to_answer_.pop_front();
        Sender sender(shape_, answer.pair.modelled, answer.pair.real, out);
        for (uint32_t k = 0; k < words_; ++k)
            acknowledge(answer.pair, answer.operation, k, open_rows(answer.pair)[k], sender);
    }
}

// A real service process of node k says something to node x. In step, node 2k - x says the same to node k:
// it is as far from k on the other side. Is x modelled, it answers what has to be answered by itself.
void Model::on_frame(const Frame& frame, uint64_t round, FrameQueue* out) {
    if (frame.to.node == frame.from.node) return;
    const uint32_t other = (2 * frame.from.node.value + shape_.nodes - frame.to.node.value) % shape_.nodes;
    const ServiceAddress twin{NodeId{static_cast<uint16_t>(other)}, frame.from.service};
    const ServiceAddress twin_to{frame.from.node, frame.to.service};
    const bool heard = is_modelled(frame.to.node), mirrors = !answers() && is_modelled(twin.node);
    const Pair hears{frame.to, frame.from}, says{twin, twin_to};
    FrameReader reader;
    FrameHeader header;
    LONGSHORE_CHECK(reader.start(frame.content(), &header));
    Sender mirrored(shape_, says.modelled, says.real, out), answered(shape_, hears.modelled, hears.real, out);
    Message m;
    while (reader.next(&m) == FrameReader::Result::kMessage) {
        if (heard && m.kind == MessageKind::kTell) note_told(hears, m.told, round, answered);
        if (mirrors) mirror(m, says, mirrored);
    }
}

// Rows that are whole are to be acknowledged some time; where their twins have been, now.
void Model::note_told(const Pair& pair, const Told& told, uint64_t round, Sender& to) {
    RowReader reader(told);
    Row row;
    uint64_t *const open = open_rows(pair), *const early = open + open_.size() / 2;
    bool any = false;
    while (reader.next(&row)) {
        if (row.span_first + row.spans_here != row.span_count) continue;
        const uint64_t bit = uint64_t{1} << (row.local_index % 64);
        if ((open[row.local_index / 64] & bit) != 0) {
            LONGSHORE_CHECK(shape_.repeats);
            continue;
        }
        open[row.local_index / 64] |= bit;
        ++rows_open_;
        any = true;
    }
    LONGSHORE_CHECK(!reader.malformed());
    if (any && answers()) to_answer_.push_back({pair, told.operation, round + shape_.answer_rounds});
    for (uint32_t k = 0; k < words_; ++k) {
        const uint64_t now = open[k] & early[k];
        early[k] &= ~now;
        acknowledge(pair, told.operation, k, now, to);
    }
}

void Model::acknowledge(const Pair& pair, const OperationId& operation, uint32_t word, uint64_t sources,
                        Sender& to) {
    if (sources == 0) return;
    Message m;
    m.kind = MessageKind::kAcknowledge;
    m.acknowledgement.operation = operation;
    m.acknowledgement.first = static_cast<uint16_t>(word * 64);
    m.acknowledgement.sources = sources;
    rows_open_ -= static_cast<uint64_t>(__builtin_popcountll(sources));
    open_rows(pair)[word] &= ~sources;
    to.add(m);
}

// The same for the ranks of a modelled node, to a real one.
void Model::mirror(const Message& m, const Pair& pair, Sender& to) {
    const uint32_t base = pair.modelled.node.value * shape_.ranks;
    switch (m.kind) {
        case MessageKind::kTell: {
            RowReader reader(m.told);
            Row row;
            while (reader.next(&row))
                tell_rows(to, pair, m.told.operation, base + row.local_index, row.span_first, row.spans_here);
            break;
        }
        case MessageKind::kSmallBlock: {
            const bool shared = (m.small.destination & kToNode) != 0;
            send_small(to, pair, m.small.operation, base + workload_.local_of(m.small.source.value),
                       shared ? 0 : workload_.local_of(m.small.destination));
            break;
        }
        case MessageKind::kAcknowledge: {
            // Between two real nodes one may be ahead, so that what it acknowledges has not been told to its
            // twin.
            const Acknowledgement& a = m.acknowledgement;
            uint64_t* const open = open_rows(pair) + a.first / 64;
            LONGSHORE_CHECK(!a.failed);
            open[open_.size() / 2] |= a.sources & ~*open;
            acknowledge(pair, a.operation, a.first / 64, a.sources & *open, to);
            break;
        }
        case MessageKind::kAgain:
        case MessageKind::kHello:
            to.add(m);
            break;
        default:
            LONGSHORE_CHECK(false);  // between service processes of one node, or with staging memory
    }
}

void Model::tell_rows(Sender& to, const Pair& pair, const OperationId& operation, uint32_t source,
                      uint32_t span_first, uint32_t spans_max) {
    const uint32_t first =
        pair.real.node.value * shape_.ranks + pair.real.service.value * workload_.ranks_per_service();
    Told told;
    told.operation = operation;
    told.collective = shape_.collective;
    told.origin = pair.modelled;
    Row row;
    row.source = Rank{source};
    row.local_index = static_cast<uint16_t>(workload_.local_of(source));
    row.region = workload_.is_small() ? kArenaRegion : kBuffers;
    row.generation = workload_.is_small() ? 0 : kBuffersGeneration;
    if (workload_.rules().is_shared || workload_.ranks_per_service() == 1) {
        row.form = Row::Form::kOne;
        row.destination = workload_.rules().is_shared ? kToNode | pair.real.node.value : first;
        row.offset = workload_.send_offset(source, first);
        row.bytes = workload_.bytes(source, first);
    } else if (!workload_.varies()) {
        row.form = Row::Form::kUniform;
        row.stride = row.bytes = workload_.bytes(source, 0);
    } else {
        row.form = Row::Form::kSpans;
        row.span_count = static_cast<uint16_t>(workload_.ranks_per_service());
    }
    BlockSpan spans[kRanksPerNodeMax];
    uint32_t count =
        row.form == Row::Form::kSpans ? std::min<uint32_t>(spans_max, row.span_count - span_first) : 1;
    for (uint32_t k = 0; row.form == Row::Form::kSpans && k < count; ++k)
        spans[k] = {workload_.send_offset(source, first + span_first + k),
                    workload_.bytes(source, first + span_first + k)};
    for (uint32_t at = 0; at < count;) {
        row.span_first = static_cast<uint16_t>(row.form == Row::Form::kSpans ? span_first + at : 0);
        at += to.add_row(told, row, {spans + at, row.form == Row::Form::kSpans ? count - at : 0});
    }
}

// `destination`: on the real node.
void Model::send_small(Sender& to, const Pair& pair, const OperationId& operation, uint32_t source,
                       uint32_t destination) {
    const uint32_t rank = pair.real.node.value * shape_.ranks + destination;
    Message m;
    m.kind = MessageKind::kSmallBlock;
    m.small.operation = operation;
    m.small.source = Rank{source};
    m.small.destination = workload_.rules().is_shared ? kToNode | pair.real.node.value : rank;
    m.small.bytes = {kNoBytes, static_cast<size_t>(workload_.bytes(source, rank))};
    to.add(m);
}

// All that one has for another: small blocks, then rows.
void Model::tell_all(const Pair& pair, FrameQueue* out) {
    Sender sender(shape_, pair.modelled, pair.real, out);
    const uint32_t per_service = workload_.ranks_per_service();
    const uint32_t first =
        pair.modelled.node.value * shape_.ranks + pair.modelled.service.value * per_service;
    const bool shared = workload_.rules().is_shared;
    const auto is_for = [&](uint32_t source) {
        return !shared || source % shape_.services == pair.real.service.value;
    };
    for (uint32_t source = first; workload_.is_small() && source < first + per_service; ++source)
        for (uint32_t d = 0; is_for(source) && d < (shared ? 1 : per_service); ++d)
            send_small(sender, pair, operation_, source,
                       shared ? 0 : pair.real.service.value * per_service + d);
    for (uint32_t source = first; source < first + per_service; ++source)
        if (is_for(source)) tell_rows(sender, pair, operation_, source, 0, per_service);
}

}  // namespace longshore::scale
