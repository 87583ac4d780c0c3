// Frames, well formed and then mutated.
#include <algorithm>
#include <cstring>
#include <vector>

#include "driver.h"
#include "engine/message.h"

namespace {

using namespace longshore;

// Mostly small numbers, sometimes any.
uint64_t number(Prng& r) {
    return r.chance(900) ? r.below(4) : r.next() >> r.below(64);
}

// Rows of ranks of the first nodes, most of them as they should be. False: there is no room for them.
bool add_rows(Prng& r, const Message& m, Rank source, uint32_t destination, uint64_t bytes,
              FrameWriter* writer) {
    BlockSpan spans[8];
    for (uint64_t n = r.between(1, 4); n > 0; --n) {
        Row row;
        row.source = source;
        row.local_index = static_cast<uint16_t>(r.chance(900) ? 0 : number(r));
        row.region = RegionId{static_cast<uint32_t>(number(r))};
        row.generation = static_cast<uint32_t>(number(r));
        row.form = static_cast<Row::Form>(r.below(3));
        row.along = r.chance(300);
        row.waited = r.chance(300);
        row.destination = destination;
        row.offset = number(r);
        row.stride = r.chance(800) ? bytes : number(r);
        row.bytes = std::max<uint64_t>(bytes, 1);
        row.span_count = static_cast<uint16_t>(r.chance(800) ? 1 : r.between(1, 8));
        row.span_first = static_cast<uint16_t>(r.chance(800) ? 0 : r.below(row.span_count));
        for (BlockSpan& span : spans) span = {number(r), r.chance(800) ? bytes : number(r)};
        const uint32_t here = row.span_count - row.span_first;
        if (writer->add_row(m.kind, m.told, row, {spans, here}) == 0) return false;
        ++source.value;
    }
    return true;
}

void add_frame(Prng& r, std::vector<uint8_t>* out) {
    std::byte frame[kFrameBytesMax], eager[kEagerBytesMax] = {};
    FrameWriter writer;
    FrameHeader header;
    header.sender = {NodeId(static_cast<uint16_t>(r.chance(900) ? r.between(1, 2) : number(r))),
                     ServiceId(static_cast<uint16_t>(r.below(2)))};
    header.incarnation = static_cast<uint32_t>(r.chance(900) ? 1 : number(r));
    writer.start(frame, sizeof frame, header);
    for (uint64_t n = r.below(8); n > 0; --n) {
        Message m;
        m.kind = static_cast<MessageKind>(r.between(1, kMessageKinds));
        OperationId operation{GroupId{r.chance(900) ? r.between(1, 2) : number(r)},
                              r.chance(900) ? r.between(1, 6) : number(r)};
        Rank source{static_cast<uint32_t>(number(r))};
        uint32_t destination = static_cast<uint32_t>(number(r)) | (r.chance(500) ? kToNode : 0);
        if (r.chance(400)) {  // the broadcast
            operation = {GroupId{1}, 3};
            source = Rank{1};
            destination = kToNode;
        }
        const uint64_t bytes = r.chance(800) ? 40 : number(r);
        const ServiceAddress origin{header.sender.node, ServiceId(static_cast<uint16_t>(r.below(2)))};
        m.lent = {operation,
                  source,
                  destination,
                  origin,
                  LocalRank(static_cast<uint16_t>(number(r))),
                  RegionId{static_cast<uint32_t>(number(r))},
                  static_cast<uint32_t>(number(r)),
                  number(r),
                  bytes};
        m.small = {operation, source, destination, {eager, std::clamp<uint64_t>(bytes, 1, kEagerBytesMax)}};
        m.acknowledgement = {operation, r.chance(200), static_cast<uint16_t>(number(r)), number(r)};
        if (m.kind == MessageKind::kTell || m.kind == MessageKind::kHandOn) {
            m.told.operation = operation;
            m.told.collective = static_cast<Collective>(r.below(kCollectives));
            m.told.origin = r.chance(900) && m.kind == MessageKind::kTell ? header.sender : origin;
            if (!add_rows(r, m, source, destination, bytes, &writer)) break;
            continue;
        }
        m.relayed.operation = operation;
        m.relayed.source = source;
        m.relayed.origin = header.sender;
        m.relayed.hops = static_cast<uint8_t>(number(r));
        // The target is in its second incarnation, and counts what it asks for.
        m.relayed.ticket = r.chance(900) ? uint64_t{2} << 32 | r.below(3) : number(r);
        m.relayed.slot = r.chance(900) ? static_cast<uint32_t>(r.below(3)) : Relayed::kNoSlot;
        m.relayed.serial = static_cast<uint32_t>(number(r));
        m.relayed.offset = r.chance(900) ? 16 * r.below(4) : number(r);
        m.relayed.bytes = r.chance(900) ? 16 : number(r);
        if (!writer.add(m)) break;
    }
    const auto whole = writer.finish();
    std::vector<uint8_t> bytes(whole.size());
    memcpy(bytes.data(), whole.data(), whole.size());
    if (r.chance(500))
        for (uint64_t n = r.below(6); n > 0; --n)
            bytes[r.below(bytes.size())] ^= static_cast<uint8_t>(r.next());
    if (r.chance(100)) bytes.resize(r.below(bytes.size() + 1));
    out->push_back(static_cast<uint8_t>(bytes.size()));
    out->push_back(static_cast<uint8_t>(bytes.size() >> 8 | (r.chance(500) ? 128 : 0)));
    out->insert(out->end(), bytes.begin(), bytes.end());
}

}  // namespace

int main(int argc, char** argv) {
    const auto driven = fuzz::drive(argc, argv, 10, [](Prng& random) {
        std::vector<uint8_t> input;
        for (uint64_t n = random.between(1, 12); n > 0; --n) add_frame(random, &input);
        return input;
    });
    printf("%llu inputs\n", static_cast<unsigned long long>(driven.inputs));
    return 0;
}
