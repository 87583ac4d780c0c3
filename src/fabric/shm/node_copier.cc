#include "fabric/shm/node_copier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "fabric/shm/copy_bytes.h"

namespace longshore {
namespace {
constexpr uint64_t kBounceBytes = 128 * 1024;  // 10 % faster than 64 KiB, and fits a level-2 cache
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSlowBytesMin = 8 * 1024;
}  // namespace

NodeCopier::NodeCopier(const NodeMemory& memory, const Options& options)
    : memory_(memory), options_(options), processes_(options.is_rank) {}

MoveResult NodeCopier::resolve_span(const ProcessSpan& span, uint64_t offset, uint64_t bytes, Where* out) {
    if (offset > span.bytes || bytes > span.bytes - offset) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    *out = {span, offset, false};
    return processes_.is_there(span) ? MoveResult::kMoved : MoveResult::kNotPermitted;
}

MoveResult NodeCopier::resolve(const MemoryRef& ref, uint64_t bytes, Where* out) {
    const NodeLimits& limits = memory_.limits();
    const auto within = [&](const std::byte* base, uint64_t size) {
        if (ref.offset > size || bytes > size - ref.offset) {
            ++counters_.refused;
            return MoveResult::kFailed;
        }
        *out = {{.base = reinterpret_cast<uint64_t>(base), .bytes = size}, ref.offset, true};
        return MoveResult::kMoved;
    };
    if (ref.rank == kStaging) return within(options_.staging.data(), options_.staging.size());
    const bool own = options_.is_rank && ref.rank == options_.self;
    if (ref.rank.value >= limits.ranks_max || ref.region.value >= limits.regions_max) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    if (ref.region == kArenaRegion && (own || !options_.memory_inaccessible))
        return within(memory_.arena(ref.rank), limits.arena_bytes);
    ProcessSpan span;
    uint32_t generation = 0;
    const RegionEntry& region = memory_.region(ref.rank, ref.region);
    if (!read_region(region, &span, &generation)) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    if (own) return within(reinterpret_cast<const std::byte*>(span.base), span.bytes);
    const MoveResult result = resolve_span(span, ref.offset, bytes, out);
    out->use = {&region, generation};
    return result;
}

// Memory that its process shares is here once it is mapped.
NodeCopier::Place NodeCopier::place_of(const Where& where, uint64_t bytes, bool write) {
    const ProcessSpan& span = where.span;
    const uint64_t address = span.base + where.offset;
    if (where.here) return {true, address, 0, bytes};
    const SharedPart& shared = span.shared;
    const Place away{false, address, span.pid, bytes};
    if (shared.identity == 0 || options_.memory_inaccessible || where.offset >= shared.end) return away;
    if (where.offset < shared.begin)
        return {false, address, span.pid, std::min(bytes, shared.begin - where.offset)};
    uint64_t run = std::min(bytes, shared.end - where.offset);
    const std::byte* mapped =
        processes_.find_shared(span, where.offset, &run, write, counters_.forbidden_error != 0);
    if (mapped == nullptr) return {false, address, span.pid, run};
    return {true, reinterpret_cast<uint64_t>(mapped), 0, run};
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

// Through a chunk of our own, placed so that neither of the kernel's copies is a slow one.
MoveResult NodeCopier::bounce(const Place& from, const Place& to, uint64_t bytes) {
    if (!chunk_) {
        chunk_.reset(static_cast<std::byte*>(aligned_alloc(kPageBytes, kBounceBytes + 2 * kPageBytes)));
        if (!chunk_) return MoveResult::kFailed;
    }
    const uint64_t shift = copies_slowly(from.address, to.address) ? 64 : 0;
    const uint64_t here = reinterpret_cast<uint64_t>(chunk_.get()) + from.address % kPageBytes + shift;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t part = std::min(bytes - done, kBounceBytes);
        const Place chunk{true, here, 0, part};
        MoveResult result = step({from.here, from.address + done, from.pid, part}, chunk, part, 0);
        if (result == MoveResult::kMoved)
            result = step(chunk, {to.here, to.address + done, to.pid, part}, part, 0);
        if (result != MoveResult::kMoved) return result;
        done += part;
    }
    return MoveResult::kMoved;
}

MoveResult NodeCopier::step(const Place& from, const Place& to, uint64_t bytes, uint64_t working_set) {
    if (!from.here) return peer(from, to.address, bytes, false);
    if (!to.here) return peer(to, from.address, bytes, true);
    // A rank may give overlapping blocks of one buffer to itself.
    copy_bytes(reinterpret_cast<std::byte*>(to.address), reinterpret_cast<const std::byte*>(from.address),
               bytes, working_set, true);
    return MoveResult::kMoved;
}

MoveResult NodeCopier::move_run(const Place& from, const Place& to, uint64_t bytes, uint64_t working_set) {
    const bool both_here = from.here && to.here, both_away = !from.here && !to.here;
    const bool slow = !both_here && bytes >= kSlowBytesMin && copies_slowly(from.address, to.address);
    const MoveResult result =
        both_away || slow ? bounce(from, to, bytes) : step(from, to, bytes, working_set);
    if (result == MoveResult::kMoved) {
        (both_here   ? counters_.bytes_mapped
         : both_away ? counters_.bytes_bounced
                     : counters_.bytes_peer_copied) += bytes;
    }
    return result;
}

MoveResult NodeCopier::move(Where from, Where to, uint64_t bytes, uint64_t working_set) {
    while (bytes != 0) {
        const Place source = place_of(from, bytes, false);
        const Place target = place_of(to, source.run, true);
        if ((!source.here && !processes_.is_still_there(from.span)) ||
            (!target.here && !processes_.is_still_there(to.span)))
            return MoveResult::kNotPermitted;
        const int forbidden = counters_.forbidden_error;
        const MoveResult result = move_run(source, target, target.run, working_set);
        // The system has just said that it moves nothing: what is shared can be reached all the same.
        if (result == MoveResult::kNotPermitted && forbidden == 0 && counters_.forbidden_error != 0) continue;
        if (result != MoveResult::kMoved) return result;
        from.offset += target.run;
        to.offset += target.run;
        bytes -= target.run;
    }
    return from.use.is_over() ? MoveResult::kFailed : MoveResult::kMoved;
}

MoveResult NodeCopier::copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes,
                            uint64_t working_set) {
    Where source, target;
    if (options_.staging_only && bytes != 0 && from.rank != kStaging && to.rank != kStaging) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    const MoveResult there = resolve(from, bytes, &source), here = resolve(to, bytes, &target);
    // What is gone at one end is gone for everybody, whoever could reach the other.
    if (there == MoveResult::kFailed || here == MoveResult::kFailed) return MoveResult::kFailed;
    if (there != MoveResult::kMoved || here != MoveResult::kMoved) return MoveResult::kNotPermitted;
    return move(source, target, bytes, working_set);
}

MoveResult NodeCopier::read(const ProcessSpan& from, uint64_t offset, const MemoryRef& to, uint64_t bytes) {
    Where source, target;
    if (options_.staging_only && bytes != 0 && to.rank != kStaging) {
        ++counters_.refused;
        return MoveResult::kFailed;
    }
    MoveResult result = resolve_span(from, offset, bytes, &source);
    if (result == MoveResult::kMoved) result = resolve(to, bytes, &target);
    return result == MoveResult::kMoved ? move(source, target, bytes, 0) : result;
}

MoveResult NodeCopier::write(std::span<const std::byte> from, const MemoryRef& to) {
    Where target;
    const MoveResult result = resolve(to, from.size(), &target);
    if (result != MoveResult::kMoved) return result;
    const Where source{{.base = reinterpret_cast<uint64_t>(from.data()), .bytes = from.size()}, 0, true};
    return move(source, target, from.size(), 0);
}

MoveResult NodeCopier::fetch(const MemoryRef& from, std::span<std::byte> to) {
    Where source;
    const MoveResult result = resolve(from, to.size(), &source);
    if (result != MoveResult::kMoved) return result;
    const Where target{{.base = reinterpret_cast<uint64_t>(to.data()), .bytes = to.size()}, 0, true};
    return move(source, target, to.size(), 0);
}

std::span<std::byte> NodeCopier::find_mapped(const MemoryRef& ref, uint64_t bytes, bool write) {
    Where where;
    if (resolve(ref, bytes, &where) != MoveResult::kMoved) return {};
    const Place place = place_of(where, bytes, write);
    if (!place.here || place.run != bytes) return {};
    return {reinterpret_cast<std::byte*>(place.address), bytes};
}

}  // namespace longshore
