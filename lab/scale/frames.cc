#include "scale/frames.h"

#include "base/check.h"

namespace longshore::scale {

void MessageCounts::count(std::span<const std::byte> frame) {
    FrameReader reader;
    FrameHeader header;
    LONGSHORE_CHECK(reader.start(frame, &header));
    ++frames;
    bytes += frame.size();
    Message m;
    FrameReader::Result result;
    while ((result = reader.next(&m)) == FrameReader::Result::kMessage) {
        ++of_kind[static_cast<size_t>(m.kind)];
        if (m.kind == MessageKind::kTell) rows += m.told.row_count;
    }
    LONGSHORE_CHECK(result == FrameReader::Result::kEnd);
}

uint64_t MessageCounts::control() const {
    uint64_t sum = 0;
    for (size_t kind = 0; kind < of_kind.size(); ++kind) sum += of_kind[kind];
    return sum - of(MessageKind::kSmallBlock);
}

const char* name_of(MessageKind kind) {
    static constexpr const char* kNames[] = {"none", "hello",       "again", "tell",  "hand_on", "small",
                                             "lend", "acknowledge", "want",  "offer", "pass",    "taken"};
    static_assert(std::size(kNames) == kMessageKinds + 1);
    return kNames[static_cast<size_t>(kind)];
}

}  // namespace longshore::scale
