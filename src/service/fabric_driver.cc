#include "service/fabric_driver.h"

#include <string.h>

#include <utility>

#include "fabric/shm/sight_times.h"

namespace longshore {
namespace {

constexpr uint64_t kCopyBit = uint64_t{1} << 63;

}  // namespace

FabricDriver::FabricDriver(const StartService& start, const NodeMemory& memory, std::byte* sight,
                           Fabric& fabric, ServiceEngine& engine)
    : start_(start),
      memory_(memory),
      sight_(sight),
      fabric_(fabric),
      engine_(engine),
      reads_(start.parameters.service_limits.reads_max, start.parameters.node_limits.chunk_bytes) {
    engine_.set_read_window(reads_.window_bytes());
}

void FabricDriver::trace(uint64_t begin, uint64_t kind, uint64_t value) {
    if (!start_.parameters.trace) return;
    const ServiceId self{start_.service};
    SightSlot& sight = SightLayout::slot(sight_, self);
    const uint64_t at = sight.trace_written.load(std::memory_order_relaxed);
    TraceEntry& entry = SightLayout::trace(sight_, self)[at % kTraceEntries];
    entry.begin_ns.store(begin, std::memory_order_relaxed);
    entry.end_ns.store(now_ns(), std::memory_order_relaxed);
    entry.kind.store(kind, std::memory_order_relaxed);
    entry.value.store(value, std::memory_order_relaxed);
    sight.trace_written.store(at + 1, std::memory_order_release);
}

void FabricDriver::handle(const FabricEvent& event, WakeSet* wake) {
    switch (event.kind) {
        case FabricEvent::Kind::kMessage:
            engine_.on_frame(event.message, wake);
            break;
        case FabricEvent::Kind::kMoved:
            if ((event.id & kCopyBit) != 0) {
                const auto index = static_cast<uint32_t>(event.id & ~kCopyBit);
                engine_.finish_copy(copies_[index], event.result, wake);
                free_copies_.push_back(index);
            } else {
                finish_read(static_cast<uint32_t>(event.id));
                engine_.finish_read(static_cast<uint32_t>(event.id), event.result, wake);
            }
            break;
        case FabricEvent::Kind::kImported:
            LONGSHORE_CHECK(!"a Fabric reads by names");
            break;
        case FabricEvent::Kind::kPeerLost:
            note_problem();
            refused_.drop(event.peer);
            engine_.on_peer_lost(event.peer, wake);
            break;
    }
}

// To the window of reads, which may then be another.
void FabricDriver::finish_read(uint32_t id) {
    const ReadsUnderWay::Read read = reads_.finish(id, now_ns());
    if (read.bytes == 0) return;
    trace(read.posted_ns, kTraceUnderWay, read.bytes);
    engine_.set_read_window(reads_.window_bytes());
}

void FabricDriver::follow_core_wait(uint64_t now) {
    if (reads_.asks_core_wait(now)) reads_.set_core_wait(core_wait_.take_ns(), now);
}

// Before operations fail because of it: their ranks say why.
void FabricDriver::note_problem() {
    std::string problem = fabric_.take_problem();
    if (problem.empty()) return;
    SightProblem& seen = SightLayout::problem(sight_, ServiceId{start_.service});
    memset(seen.text, 0, sizeof seen.text);
    problem.copy(seen.text, sizeof seen.text - 1);
    seen.count.fetch_add(1, std::memory_order_release);
    problem_ = std::move(problem);
}

std::string FabricDriver::take_problem() {
    note_problem();
    return std::exchange(problem_, {});
}

bool FabricDriver::send(const Action& action) {
    if (!refused_.has(action.peer) && fabric_.send(action.peer, action.data) == Post::kAccepted) return true;
    return refused_.push(action.peer, action.data);
}

bool FabricDriver::send_refused() {
    return refused_.flush(
        [this](ServiceAddress to, std::span<const std::byte> frame) { return fabric_.send(to, frame); });
}

bool FabricDriver::copy(const Action& action) {
    const bool timed = keeps_times(sight_);
    const uint64_t begin = start_.parameters.trace || timed ? now_ns() : 0;
    if (free_copies_.empty()) {
        free_copies_.push_back(static_cast<uint32_t>(copies_.size()));
        copies_.emplace_back();
    }
    const uint32_t index = free_copies_.back();
    copies_[index] = action.copy;
    if (fabric_.copy(action.copy.from, action.copy.to, action.copy.bytes, kCopyBit | index,
                     action.copy.working_set) == Post::kAgain)
        return false;
    if (timed) note_copy(memory_, sight_, action.copy, begin, now_ns(), false);
    free_copies_.pop_back();
    trace(begin, kTraceCopy, action.copy.bytes);
    return true;
}

bool FabricDriver::carry_out(const Action& action) {
    const uint64_t begin = start_.parameters.trace ? now_ns() : 0;
    switch (action.kind) {
        case Action::Kind::kCopy:
            return copy(action);
        case Action::Kind::kRead:
            if (fabric_.read(action.peer, action.name, action.offset, action.to, action.bytes, action.id,
                             action.along ? &action.part : nullptr) == Post::kAgain)
                return false;
            reads_.post(action.id, action.bytes, now_ns());
            trace(begin, kTraceRead, action.bytes);
            return true;
        case Action::Kind::kMove:
            if (fabric_.copy(action.from, action.to, action.bytes, action.id) == Post::kAgain) return false;
            trace(begin, kTraceCopy, action.bytes);
            return true;
        case Action::Kind::kWrite:
            return fabric_.write(action.data, action.to, action.id) == Post::kAccepted;
        case Action::Kind::kSend:
            return send(action);
        case Action::Kind::kSendAlong:
            fabric_.send_along(action.peer, action.part.block, action.name, action.offset, action.bytes);
            return true;
    }
    return true;
}

}  // namespace longshore
