#include "engine/service/turns.h"

namespace longshore {
namespace {

// Classes: up to so many bytes, up to kClassFactor times as many, and so on.
constexpr uint64_t kClassFirst = 256 * 1024, kClassFactor = 4;

uint32_t class_of(uint64_t bytes) {
    uint32_t i = 0;
    for (uint64_t end = kClassFirst; bytes > end && i < Turns::kClasses - 1; end *= kClassFactor) ++i;
    return i;
}

}  // namespace

void Turns::carve(Carver& c, uint32_t operations_max) {
    entries_ = c.take<Entry>(operations_max);
}

void Turns::opened(uint32_t operation, const OperationId& id) {
    entries_[operation] = {};
    entries_[operation].id = id;
}

void Turns::join(uint32_t operation, uint64_t bytes) {
    Entry& e = entries_[operation];
    e.bytes += bytes;
    if (e.sorted && class_of(e.bytes) != e.its_class) unsort(operation);
    if (!e.sorted) sort_in(operation);
}

void Turns::leave(uint32_t operation) {
    if (entries_[operation].sorted) unsort(operation);
    entries_[operation].bytes = 0;
}

// The last of its class, but before the later operations of its own group.
void Turns::sort_in(uint32_t operation) {
    Entry& e = entries_[operation];
    e.sorted = true;
    e.its_class = class_of(e.bytes);
    uint32_t* link = &classes_[e.its_class].first;
    for (; *link != kNone; link = &entries_[*link].next) {
        const OperationId& other = entries_[*link].id;
        if (other.group == e.id.group && other.sequence > e.id.sequence) break;
    }
    e.next = *link;
    *link = operation;
}

void Turns::unsort(uint32_t operation) {
    Entry& e = entries_[operation];
    uint32_t* link = &classes_[e.its_class].first;
    while (*link != operation) link = &entries_[*link].next;
    *link = e.next;
    e.sorted = false;
}

// A class that had nothing to do for a while has not saved it up.
void Turns::charge(uint32_t operation, uint64_t bytes) {
    Class& c = classes_[entries_[operation].its_class];
    if (c.served > level_) level_ = c.served;
    c.served = level_ + bytes + kMoveCostBytes;
}

uint32_t Turns::next_class(uint32_t* tried) const {
    uint32_t least = kNone;
    for (uint32_t c = 0; c < kClasses; ++c) {
        if (classes_[c].first == kNone || (*tried >> c & 1) != 0) continue;
        if (least == kNone || classes_[c].served < classes_[least].served) least = c;
    }
    if (least != kNone) *tried |= 1u << least;
    return least;
}

}  // namespace longshore
