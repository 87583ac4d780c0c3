#include "host/context.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>

#include "fabric/shm/region.h"
#include "host/role.h"

namespace longshore {
void log_line(const ls_context& c, int level, const char* line) {
    if (c.options.log != nullptr) c.options.log(c.options.log_user, level, line);
}

void let_others_read(ls_context& c) {
    c.may_be_read = prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
}

bool is_forked(const ls_context& c) {
    return *reinterpret_cast<const volatile std::byte*>(c.alive.data()) != std::byte{1};
}

void flush_wake(ls_context& c) {
    if (!c.wake.any()) return;
    c.doorbell->ring(c.wake);
    c.wake = {};
}

Io receive_control(ls_context& c, void* buffer, size_t capacity, size_t* bytes,
                   std::vector<Fd>* descriptors) {
    alignas(8) std::byte packet[1024];
    static_assert(sizeof(ProblemReport) <= sizeof packet);
    for (;;) {
        if (!c.control) return Io::kClosed;
        size_t got = 0;
        const Io io = receive_packet(c.control, packet, sizeof packet, &got, descriptors);
        if (io != Io::kOk) return io;
        ControlHeader header;
        memcpy(&header, packet, sizeof header);
        if (got < sizeof header || header.magic != kControlMagic) return Io::kClosed;
        if (header.kind == ControlKind::kProblem) {
            ProblemReport report;
            if (got != sizeof report) return Io::kClosed;
            memcpy(&report, packet, sizeof report);
            report.text[sizeof report.text - 1] = 0;
            log_line(c, 0, report.text);
            continue;
        }
        if (got > capacity) return Io::kClosed;
        memcpy(buffer, packet, got);
        *bytes = got;
        return Io::kOk;
    }
}

namespace {

// A process that dies lets go of its locks before its devices, by which bytes may still come in. A pid that
// is another's by now keeps nobody for long.
bool is_over(const ls_context& c, uint16_t service, ls_context::Life& life, uint64_t now) {
    constexpr uint64_t kLongestNs = 2'000'000'000;
    if (life.unlocked_since_ns == 0) life.unlocked_since_ns = now;
    return process_is_over(c.memory.service(ServiceId{service}).pid.load(std::memory_order_acquire)) ||
           now - life.unlocked_since_ns > kLongestNs;
}

}  // namespace

void look_at_lives(ls_context& c, uint64_t now) {
    c.service_gone = false;
    for (uint16_t s = 0; s < c.lives.size(); ++s) {
        ls_context::Life& life = c.lives[s];
        const uint32_t newest = std::min<uint32_t>(
            c.memory.service(ServiceId{s}).incarnation.load(std::memory_order_acquire), kIncarnationMax);
        while (life.gone < newest && !has_life_lock(c.memory_file.get(), ServiceId{s}, life.gone + 1)) {
            // One that has a successor is over: it was waited for.
            if (life.gone + 1 == newest && !is_over(c, s, life, now)) break;
            life.unlocked_since_ns = 0;
            ++life.gone;
            const WorkerId worker = service_worker(ServiceId{s}, static_cast<uint16_t>(life.gone));
            const uint32_t freed = free_lost_claims(c.memory, worker, &c.wake);
            if (freed > 0) log_line(c, 1, "took over the claims of a lost service process");
        }
        if (life.gone < newest) {
            life.gone_since_ns = 0;
        } else if (newest > 0) {
            c.service_gone = true;
            if (life.gone_since_ns == 0) life.gone_since_ns = now;
        }
    }
}

// The answer may come after the group has failed and gone. The supervisor counts this rank in then.
static void take_answer(ls_context& c, const GroupJoinAnswer& answer) {
    for (ls_group* group : c.groups) {
        if (group->id != answer.id || group->answered) continue;
        group->answered = true;
        group->joined = answer.result == JoinResult::kOk;
        if (!group->joined) group->result = answer.result;
        group->slot = GroupSlot{answer.slot};
        return;
    }
    if (answer.result == JoinResult::kOk) c.leaves.push_back(answer.id);
}

bool tell_leaves(ls_context& c) {
    size_t told = 0;
    for (; told < c.leaves.size() && c.control; ++told) {
        GroupLeaveRequest request;
        request.id = c.leaves[told];
        if (send_packet(c.control, &request, sizeof request) == Io::kAgain) break;
    }
    // The end of the connection is a leave of every group.
    if (!c.control) told = c.leaves.size();
    c.leaves.erase(c.leaves.begin(), c.leaves.begin() + static_cast<ptrdiff_t>(told));
    return c.leaves.empty();
}

void note_leaving(const ls_context& c) {
    if (c.engine) c.memory.rank(c.engine->self()).attached.store(kRankLeaves, std::memory_order_release);
}

void talk_to_supervisor(ls_context& c) {
    alignas(8) std::byte packet[256];
    static_assert(sizeof(GroupJoinAnswer) <= sizeof packet);
    size_t bytes = 0;
    while (c.control) {
        const Io io = receive_control(c, packet, sizeof packet, &bytes, nullptr);
        if (io == Io::kClosed) c.control.reset();
        if (io != Io::kOk) break;
        GroupJoinAnswer answer;
        memcpy(&answer, packet, sizeof answer);
        if (bytes == sizeof answer && answer.header.kind == ControlKind::kGroupJoined) take_answer(c, answer);
    }
    tell_leaves(c);
}

}  // namespace longshore

using namespace longshore;

ls_context::ls_context() = default;
ls_context::~ls_context() {
    if (may_be_read) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
}

const char* ls_context_error(const ls_context* context) {
    return context->error.c_str();
}

void ls_wake(ls_context* context) {
    if (is_forked(*context) || !context->engine) return;
    WakeSet sleeper;
    context->memory.ring_rank(context->engine->self(), &sleeper);
    if (sleeper.any()) context->doorbell->ring(sleeper);
}

void ls_begin_wait(ls_context* context) {
    if (is_forked(*context)) return;
    context->role->begin_wait();
    if (!context->engine || !context->cooperative) return;
    context->engine->begin_wait();
    ++context->waits;
}

void ls_end_wait(ls_context* context) {
    if (is_forked(*context)) return;
    guarded([&]() -> int {
        context->role->end_wait();
        return LS_OK;
    });
    if (context->waits == 0) return;
    context->engine->end_wait();
    --context->waits;
}

void* ls_allocate(ls_context* context, size_t bytes) {
    if (is_forked(*context) || !context->engine || bytes == 0) return nullptr;
    const uint64_t offset = context->engine->arena().allocate(bytes);
    return offset == 0 ? nullptr : context->mapping.data() + offset;
}

void ls_release(ls_context* context, void* memory, size_t bytes) {
    if (is_forked(*context) || !context->engine || memory == nullptr) return;
    context->engine->arena().release(
        static_cast<uint64_t>(static_cast<std::byte*>(memory) - context->mapping.data()), bytes);
}
