#include "engine/hand_over.h"

#include "base/serial.h"

namespace longshore {

// --- the stand-in's end

uint32_t HandOver::give(const Copy& copy) {
    LONGSHORE_CHECK(out_ < kHandedMax);
    uint32_t at = 0;
    while (slots_[at].number != 0) ++at;
    // Its place, and which use of that this is: an answer that comes twice is the answer to nothing.
    serial_ = serial_ % kSerialMax + 1;
    slots_[at] = {serial_ * kHandedMax + at, copy};
    ++out_;
    return slots_[at].number;
}

bool HandOver::take_back(uint32_t number, Copy* out) {
    Slot& slot = slots_[number % kHandedMax];
    if (number == 0 || slot.number != number) return false;
    *out = slot.copy;
    slot.number = 0;
    --out_;
    return true;
}

bool HandOver::lose(Copy* out) {
    attends_ = false;
    for (Slot& slot : slots_)
        if (slot.number != 0) return take_back(slot.number, out);
    return false;
}

// --- the rank's end

bool HandedCopies::attend() {
    if (state_ == State::kAttending) return false;
    state_ = State::kAttending;
    ++serial_;
    return true;
}

bool HandedCopies::leave() {
    if (state_ != State::kAttending) return false;
    state_ = State::kLeaving;
    ++serial_;
    return true;
}

bool HandedCopies::left(uint32_t serial) {
    if (serial % 2 != 0 || !is_after(serial, answered_) || is_after(serial, serial_)) return false;
    answered_ = serial;
    if (serial == serial_) state_ = State::kAway;
    return true;
}

bool HandedCopies::take(const HandedCopy& copy, bool in_call) {
    if (count_ == kHandedMax || !(in_call || is_attended())) return false;
    copies_[(first_ + count_++) % kHandedMax] = copy;
    return true;
}

bool HandedCopies::next(HandedCopy* out) {
    if (count_ == 0) return false;
    *out = copies_[first_];
    first_ = (first_ + 1) % kHandedMax;
    --count_;
    return true;
}

bool HandedCopies::drop(uint32_t operation, HandedCopy* out) {
    for (uint32_t i = 0; i < count_; ++i) {
        if (copies_[(first_ + i) % kHandedMax].operation != operation) continue;
        *out = copies_[(first_ + i) % kHandedMax];
        for (; i + 1 < count_; ++i)
            copies_[(first_ + i) % kHandedMax] = copies_[(first_ + i + 1) % kHandedMax];
        --count_;
        return true;
    }
    return false;
}

void HandedCopies::lose() {
    count_ = 0;
    state_ = State::kAway;
}

}  // namespace longshore
