#include "simulator/text.h"

#include "engine/message.h"

namespace longshore::sim {

std::string name_of(ServiceAddress a) {
    return "service process " + std::to_string(a.node.value) + "." + std::to_string(a.service.value);
}

std::string name_of_rank(uint32_t rank) {
    return "rank " + std::to_string(rank);
}

std::string text_of_frame(std::span<const std::byte> frame) {
    constexpr const char* kNames[] = {"?",    "hello",       "again", "tell",  "hand on", "small block",
                                      "lend", "acknowledge", "want",  "offer", "pass",    "taken"};
    FrameReader reader;
    FrameHeader header;
    Message m;
    if (!reader.start(frame, &header)) return "not a frame";
    std::string t = "incarnation " + std::to_string(header.incarnation);
    while (reader.next(&m) == FrameReader::Result::kMessage) {
        const auto block = [&t](const OperationId& o, Rank source, uint32_t destination) {
            t += " group " + std::to_string(o.group.value % 16) + " sequence " + std::to_string(o.sequence) +
                 " from " + std::to_string(source.value) + " to " + (destination & kToNode ? "node " : "") +
                 std::to_string(destination & ~kToNode);
        };
        t += std::string("; ") + kNames[static_cast<size_t>(m.kind)];
        if (m.kind == MessageKind::kTell || m.kind == MessageKind::kHandOn) {
            t += " group " + std::to_string(m.told.operation.group.value % 16) + " sequence " +
                 std::to_string(m.told.operation.sequence) + " collective " +
                 std::to_string(static_cast<int>(m.told.collective));
            RowReader rows(m.told);
            for (Row row; rows.next(&row);)
                t += " [from " + std::to_string(row.source.value) + " form " +
                     std::to_string(static_cast<int>(row.form)) + " to " +
                     std::to_string(row.destination & ~kToNode) + " region " +
                     std::to_string(row.region.value) + "." + std::to_string(row.generation) + " bytes " +
                     std::to_string(row.bytes) + " spans " + std::to_string(row.span_first) + "+" +
                     std::to_string(row.spans_here) + "/" + std::to_string(row.span_count) +
                     (row.along ? " along" : "") + (row.waited ? " waited" : "") + "]";
        } else if (m.kind == MessageKind::kSmallBlock) {
            block(m.small.operation, m.small.source, m.small.destination);
        } else if (m.kind == MessageKind::kLend) {
            block(m.lent.operation, m.lent.source, m.lent.destination);
        } else if (m.kind == MessageKind::kAcknowledge) {
            const Acknowledgement& a = m.acknowledgement;
            t += " group " + std::to_string(a.operation.group.value % 16) + " sequence " +
                 std::to_string(a.operation.sequence) + (a.failed ? " failed" : "") + " sources " +
                 std::to_string(a.first) + "+" + std::to_string(a.sources);
        } else if (m.kind >= MessageKind::kWant) {
            const Relayed& r = m.relayed;
            if (m.kind == MessageKind::kWant) block(r.operation, r.source, 0);
            t += " ticket " + std::to_string(r.ticket) + " slot " + std::to_string(r.slot) + " serial " +
                 std::to_string(r.serial) + " offset " + std::to_string(r.offset);
        }
    }
    return t;
}

}  // namespace longshore::sim
