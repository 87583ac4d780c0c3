#include "fabric/shm/node_copier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

namespace longshore {
namespace {
constexpr uint64_t kBounceBytes = 128 * 1024;  // 10 % faster than 64 KiB, and fits a level-2 cache
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSlowBytesMin = 8 * 1024;
constexpr size_t kKnownMax = 1024;
}  // namespace

NodeCopier::NodeCopier(const NodeMemory& memory, const Options& options)
    : memory_(memory), options_(options) {}

bool NodeCopier::is_alive(const ProcessSpan& span) {
    for (const Known& k : known_) {
        if (k.pid == span.pid && k.start_time == span.start_time) return true;
    }
    if (process_start_time(span.pid) != span.start_time) return false;
    if (known_.size() < kKnownMax) {
        known_.push_back({span.pid, span.start_time});
    } else {
        known_[next_known_++ % kKnownMax] = {span.pid, span.start_time};
    }
    return true;
}

MoveResult NodeCopier::resolve_span(const ProcessSpan& span, uint64_t offset, uint64_t bytes, Place* out) {
    if (offset > span.bytes || bytes > span.bytes - offset) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    *out = {false, span.base + offset, span.pid};
    return is_alive(span) ? MoveResult::kMoved : MoveResult::kNotPermitted;
}

MoveResult NodeCopier::resolve(const MemoryRef& ref, uint64_t bytes, Place* out) {
    const NodeLimits& limits = memory_.limits();
    if (ref.rank == kStaging) {
        if (ref.offset > options_.staging.size() || bytes > options_.staging.size() - ref.offset) {
            ++counters_.refused;
            return MoveResult::kFailed;
        }
        *out = {true, reinterpret_cast<uint64_t>(options_.staging.data() + ref.offset), 0};
        return MoveResult::kMoved;
    }
    const bool own = options_.is_rank && ref.rank == options_.self;
    if (ref.rank.value >= limits.ranks_max || ref.region.value >= limits.regions_max) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    if (ref.region == kArenaRegion && (own || !options_.memory_inaccessible)) {
        if (ref.offset > limits.arena_bytes || bytes > limits.arena_bytes - ref.offset) {
            ++counters_.refused;
            return MoveResult::kFailed;
        }
        *out = {true, reinterpret_cast<uint64_t>(memory_.arena(ref.rank) + ref.offset), 0};
        return MoveResult::kMoved;
    }
    ProcessSpan span;
    if (!read_region(memory_.region(ref.rank, ref.region), &span)) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    if (own) {
        if (ref.offset > span.bytes || bytes > span.bytes - ref.offset) {
            ++counters_.refused;
            return MoveResult::kFailed;
        }
        *out = {true, span.base + ref.offset, 0};
        return MoveResult::kMoved;
    }
    return resolve_span(span, ref.offset, bytes, out);
}

MoveResult NodeCopier::peer(const Place& remote, uint64_t here, uint64_t bytes, bool write) {
    for (uint64_t done = 0; done < bytes;) {
        const iovec local{reinterpret_cast<void*>(here + done), bytes - done};
        const iovec other{reinterpret_cast<void*>(remote.address + done), bytes - done};
        const auto pid = static_cast<pid_t>(remote.pid);
        const ssize_t moved = write ? process_vm_writev(pid, &local, 1, &other, 1, 0)
                                    : process_vm_readv(pid, &local, 1, &other, 1, 0);
        if (moved > 0) {
            done += static_cast<uint64_t>(moved);
        } else if (moved < 0 && errno == EINTR) {
            continue;
        } else if (moved < 0 && (errno == EPERM || errno == ESRCH || errno == ENOSYS || errno == EACCES)) {
            if (errno != ESRCH && counters_.forbidden_error == 0) counters_.forbidden_error = errno;
            return MoveResult::kNotPermitted;
        } else {
            return MoveResult::kFailed;
        }
    }
    return MoveResult::kMoved;
}

// `rep movsb`, which both the kernel and memcpy use for long copies, falls to a quarter or a tenth of its
// speed on Zen 3 and later where the target is 1 to 63 bytes ahead of the source modulo the page size.
bool NodeCopier::copies_slowly(uint64_t from, uint64_t to) {
    const uint64_t ahead = (to - from) % kPageBytes;
    return ahead > 0 && ahead < 64;
}

// Through a chunk of our own, placed so that neither of the two copies is a slow one.
MoveResult NodeCopier::bounce(const Place& from, const Place& to, uint64_t bytes) {
    if (!chunk_) {
        chunk_.reset(static_cast<std::byte*>(aligned_alloc(kPageBytes, kBounceBytes + 2 * kPageBytes)));
        if (!chunk_) return MoveResult::kFailed;
    }
    const uint64_t shift = copies_slowly(from.address, to.address) ? 64 : 0;
    const uint64_t here = reinterpret_cast<uint64_t>(chunk_.get()) + from.address % kPageBytes + shift;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t part = std::min(bytes - done, kBounceBytes);
        const Place chunk{true, here, 0};
        MoveResult result = step({from.here, from.address + done, from.pid}, chunk, part);
        if (result == MoveResult::kMoved) result = step(chunk, {to.here, to.address + done, to.pid}, part);
        if (result != MoveResult::kMoved) return result;
        done += part;
    }
    return MoveResult::kMoved;
}

MoveResult NodeCopier::step(const Place& from, const Place& to, uint64_t bytes) {
    if (!from.here) return peer(from, to.address, bytes, false);
    if (!to.here) return peer(to, from.address, bytes, true);
    // A rank may give overlapping blocks of one buffer to itself.
    memmove(reinterpret_cast<void*>(to.address), reinterpret_cast<const void*>(from.address), bytes);
    return MoveResult::kMoved;
}

MoveResult NodeCopier::move(const Place& from, const Place& to, uint64_t bytes) {
    if (bytes == 0) return MoveResult::kMoved;
    const bool both_here = from.here && to.here, both_away = !from.here && !to.here;
    const bool overlap = both_here && from.address < to.address + bytes && to.address < from.address + bytes;
    const bool slow = bytes >= kSlowBytesMin && !overlap && copies_slowly(from.address, to.address);
    const MoveResult result = both_away || slow ? bounce(from, to, bytes) : step(from, to, bytes);
    if (result == MoveResult::kMoved) {
        (both_here   ? counters_.bytes_mapped
         : both_away ? counters_.bytes_bounced
                     : counters_.bytes_peer_copied) += bytes;
    }
    return result;
}

MoveResult NodeCopier::copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes) {
    Place source, target;
    if (options_.staging_only && bytes != 0 && from.rank != kStaging && to.rank != kStaging) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    MoveResult result = resolve(from, bytes, &source);
    if (result == MoveResult::kMoved) result = resolve(to, bytes, &target);
    return result == MoveResult::kMoved ? move(source, target, bytes) : result;
}

MoveResult NodeCopier::read(const ProcessSpan& from, uint64_t offset, const MemoryRef& to, uint64_t bytes) {
    Place source, target;
    if (options_.staging_only && bytes != 0 && to.rank != kStaging) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    MoveResult result = resolve_span(from, offset, bytes, &source);
    if (result == MoveResult::kMoved) result = resolve(to, bytes, &target);
    return result == MoveResult::kMoved ? move(source, target, bytes) : result;
}

MoveResult NodeCopier::write(std::span<const std::byte> from, const MemoryRef& to) {
    Place target;
    const MoveResult result = resolve(to, from.size(), &target);
    if (result != MoveResult::kMoved) return result;
    return move({true, reinterpret_cast<uint64_t>(from.data()), 0}, target, from.size());
}

}  // namespace longshore
