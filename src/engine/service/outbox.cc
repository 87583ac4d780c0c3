#include "engine/service/outbox.h"

#include <cstring>

namespace longshore {
namespace {

constexpr uint32_t kActionsPerFrame = 16;
constexpr uint32_t kAlongsMax = 1024;

}  // namespace

void Outbox::carve(Carver& c) {
    letters_ = c.filled<Letter>(peers_.count(), {});
    frames_ = c.take<std::byte>((uint64_t{peers_.count()} + 1) * context_.limits.frame_bytes);
    c.pool(&alongs_, kAlongsMax);
    pending_ = c.filled<uint64_t>((peers_.count() + 63) / 64, 0);
}

FrameWriter& Outbox::frame_to(ServiceAddress to) {
    const uint32_t at = peers_.index(to);
    Letter& l = letters_[at];
    if (!l.open) {
        l.open = true;
        l.frame.start(frames_ + uint64_t{at} * context_.limits.frame_bytes, context_.limits.frame_bytes,
                      {.sender = context_.here(), .incarnation = context_.incarnation});
    }
    set_bit(pending_, at);
    return l.frame;
}

bool Outbox::add(ServiceAddress to, const Message& m) {
    if (!peers_.known(to)) return false;
    if (peers_.is_lost(to)) return true;  // nobody will miss it
    if (frame_to(to).add(m)) return true;
    full_ = true;
    return false;
}

uint32_t Outbox::add_row(ServiceAddress to, MessageKind kind, const Told& told, const Row& row,
                         std::span<const BlockSpan> spans) {
    if (!peers_.known(to)) return 0;
    if (peers_.is_lost(to)) return row.form == Row::Form::kSpans ? static_cast<uint32_t>(spans.size()) : 1;
    const uint32_t written = frame_to(to).add_row(kind, told, row, spans);
    full_ |= written == 0;
    return written;
}

void Outbox::greet(ServiceAddress to) {
    letters_[peers_.index(to)].greet = true;
    set_bit(pending_, peers_.index(to));
}

void Outbox::drop(ServiceAddress to) {
    letters_[peers_.index(to)].open = false;
}

void Outbox::send_along(ServiceAddress to, const BlockName& block, const RegionName& region, uint64_t offset,
                        uint64_t bytes) {
    const uint32_t i = alongs_.take();
    Along& along = alongs_[i];
    along.to = to;
    along.block = block;
    along.region = region;
    along.offset = offset;
    along.bytes = bytes;
    push_back(alongs_.items, &due_alongs_, i);
}

bool Outbox::next_along(Action* out) {
    const uint32_t i = pop_front(alongs_.items, &due_alongs_);
    if (i == kNone) return false;
    const Along& along = alongs_[i];
    *out = Action{};
    out->kind = Action::Kind::kSendAlong;
    out->peer = along.to;
    out->part.block = along.block;
    out->name = along.region;
    out->offset = along.offset;
    out->bytes = along.bytes;
    alongs_.give(i);
    return true;
}

bool Outbox::is_due() {
    if (!full_ && ++since_frame_ < kActionsPerFrame) return false;
    full_ = false;
    since_frame_ = 0;
    return true;
}

bool Outbox::next(Action* out) {
    if (next_along(out)) return true;  // before the frame that tells of it
    const uint32_t n = peers_.count();
    for (;;) {
        uint32_t at = next_bit(pending_, n, round_);
        if (at == n) at = next_bit(pending_, n, 0);
        if (at == n) return false;
        round_ = at + 1;
        Letter& l = letters_[at];
        if (l.greet) {
            Message hello;
            hello.kind = MessageKind::kHello;
            l.greet = !add(peers_.address(at), hello);
        }
        if (!l.greet) clear_bit(pending_, at);
        if (!l.open || l.frame.empty()) continue;
        *out = Action{};
        out->kind = Action::Kind::kSend;
        out->peer = peers_.address(at);
        // The driver may hold on to these bytes for long; what follows goes into the peer's own buffer
        // meanwhile.
        const auto frame = l.frame.finish();
        std::byte* sending = frames_ + uint64_t{n} * context_.limits.frame_bytes;
        memcpy(sending, frame.data(), frame.size());
        out->data = {sending, frame.size()};
        l.open = false;
        return true;
    }
}

}  // namespace longshore
