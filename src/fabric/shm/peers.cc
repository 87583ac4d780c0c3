#include "fabric/shm/peers.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

namespace longshore {
namespace {

constexpr size_t kPlaces = 1024, kProbes = 8;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPiecePages = 16, kPieceBytes = kPiecePages * kPageBytes;
// Full passes over a piece before it is mapped (docs/decisions/0011-shared-allocations.md has the
// measurements).
constexpr uint8_t kReadPagesMin = 1 * kPiecePages, kWrittenPagesMin = 3 * kPiecePages;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14: before, pages fault in one by one

}  // namespace

Peers::Peer* Peers::find(const ProcessSpan& span) {
    if (peers_.empty()) peers_.resize(kPlaces);
    // Where all places that are looked at are taken, the first of them is: one beyond would never be found
    // again.
    size_t at = span.pid % kPlaces;
    for (size_t i = 0; i < kProbes; ++i) {
        const size_t place = (span.pid + i) % kPlaces;
        const Peer* const peer = peers_[place].get();
        if (peer != nullptr && peer->pid == span.pid && peer->start_time == span.start_time)
            return peers_[place].get();
        if (peer == nullptr) {
            at = place;
            break;
        }
    }
    if (process_start_time(span.pid) != span.start_time) return nullptr;
    peers_[at] = std::make_unique<Peer>();
    peers_[at]->pid = span.pid;
    peers_[at]->start_time = span.start_time;
    return peers_[at].get();
}

bool Peers::is_there(const ProcessSpan& span) {
    return find(span) != nullptr;
}

// By way of /proc, which asks for no more than process_vm_readv does. The process may have closed the
// descriptor and opened another file under its number: hence the identity. Sealed against shrinking: a look
// into it never faults.
void Peers::map_file(Peer& peer, const ProcessSpan& span) {
    peer.memory.reset();
    peer.moved.reset();
    peer.identity = span.shared.identity;
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", span.pid, span.shared.file);
    const Fd file(open(path, O_RDWR | O_CLOEXEC));
    struct stat status;
    uint64_t bytes = 0;
    if (!file || fstat(file.get(), &status) != 0 || status.st_ino != span.shared.identity ||
        !is_memory_file(file.get(), 0, &bytes))
        return;
    peer.moved = Mapping::anonymous((bytes / kPieceBytes + 1) * sizeof(Moved));
    if (peer.moved) peer.memory = Mapping::shared(file.get(), bytes);
    // A forked child has no use for it.
    if (peer.memory) madvise(peer.memory.data(), peer.memory.size(), MADV_DONTFORK);
}

bool Peers::is_worth(Peer& peer, uint64_t file_offset, uint64_t bytes, bool write) {
    auto* const moved = reinterpret_cast<Moved*>(peer.moved.data());
    bool worth = true;
    for (uint64_t at = file_offset, end = file_offset + bytes; at < end;) {
        const uint64_t piece = at / kPieceBytes, next = std::min(end, (piece + 1) * kPieceBytes);
        uint8_t& count = write ? moved[piece].written : moved[piece].read;
        const uint8_t enough = write ? kWrittenPagesMin : kReadPagesMin;
        if (count < enough) {
            worth = false;
            const uint64_t pages = (next - at + kPageBytes - 1) / kPageBytes;
            count = static_cast<uint8_t>(std::min<uint64_t>(enough, count + pages));
            if (count == enough && write)
                madvise(peer.memory.data() + piece * kPieceBytes,
                        std::min(kPieceBytes, peer.memory.size() - piece * kPieceBytes), kPopulateWrite);
        }
        at = next;
    }
    return worth;
}

std::byte* Peers::find_shared(const ProcessSpan& span, uint64_t offset, uint64_t bytes, bool write,
                              bool at_once) {
    const SharedPart& shared = span.shared;
    if (shared.identity == 0 || offset < shared.begin || offset > shared.end || bytes > shared.end - offset)
        return nullptr;
    Peer* const peer = find(span);
    if (peer == nullptr) return nullptr;
    if (peer->identity != shared.identity) map_file(*peer, span);
    const uint64_t at = shared.file_offset + (offset - shared.begin);
    if (!peer->memory || at > peer->memory.size() || bytes > peer->memory.size() - at) return nullptr;
    return is_worth(*peer, at, bytes, write) || at_once ? peer->memory.data() + at : nullptr;
}

}  // namespace longshore
