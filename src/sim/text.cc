#include "sim/text.h"

#include "engine/message.h"

namespace longshore::sim {

std::string name_of(ServiceAddress a) {
    return "service process " + std::to_string(a.node.value) + "." + std::to_string(a.service.value);
}

std::string name_of_rank(uint32_t rank) {
    return "rank " + std::to_string(rank);
}

std::string text_of_frame(std::span<const std::byte> frame) {
    constexpr const char* kNames[] = {"?",           "hello",   "notify",         "hand on",
                                      "acknowledge", "request", "region request", "region",
                                      "want",        "offer",   "pass",           "taken"};
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
        if (m.kind == MessageKind::kNotify || m.kind == MessageKind::kHandOn) {
            const Notification& n = m.notification;
            block(n.operation, n.source, n.destination);
            t += " region " + std::to_string(n.owner.value) + "." + std::to_string(n.region.value) +
                 " generation " + std::to_string(n.region_generation) + " bytes " + std::to_string(n.bytes) +
                 (n.eager.empty() ? "" : " eager") + " hops " + std::to_string(n.hops) + " collective " +
                 std::to_string(static_cast<int>(n.collective));
        } else if (m.kind == MessageKind::kAcknowledge) {
            block(m.acknowledgement.operation, m.acknowledgement.source, m.acknowledgement.destination);
        } else if (m.kind == MessageKind::kRequest) {
            block(m.request.operation, m.request.source, m.request.destination);
        } else if (m.kind >= MessageKind::kWant) {
            const Relayed& r = m.relayed;
            if (m.kind == MessageKind::kWant) block(r.operation, r.source, 0);
            t += " ticket " + std::to_string(r.ticket) + " slot " + std::to_string(r.slot) + " serial " +
                 std::to_string(r.serial) + " offset " + std::to_string(r.offset);
        } else if (m.kind != MessageKind::kHello) {
            t += " " + std::to_string(m.region.owner.value) + "." + std::to_string(m.region.region.value) +
                 " generation " + std::to_string(m.region.generation);
        }
    }
    return t;
}

}  // namespace longshore::sim
