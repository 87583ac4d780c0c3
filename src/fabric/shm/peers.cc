#include "fabric/shm/peers.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

namespace longshore {
namespace {

constexpr size_t kPlaces = 1024, kProbes = 8;
constexpr uint64_t kLookNs = 20'000'000;               // too short for pids to come round
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
    if (peers_[at] != nullptr) forget(*peers_[at]);
    peers_[at] = std::make_unique<Peer>();
    peers_[at]->pid = span.pid;
    peers_[at]->start_time = span.start_time;
    peers_[at]->looked_ns = now_ns();
    return peers_[at].get();
}

bool Peers::is_there(const ProcessSpan& span) {
    return find(span) != nullptr;
}

bool Peers::is_still_there(const ProcessSpan& span) {
    Peer* const peer = find(span);
    if (peer == nullptr) return false;
    const uint64_t now = now_ns();
    if (now - peer->looked_ns < kLookNs) return true;
    peer->looked_ns = now;
    if (process_start_time(span.pid) == span.start_time) return true;
    peer->looked_ns = 0;  // it is looked at each time from now on
    return false;
}

// By way of /proc, which asks for no more than process_vm_readv does. The process may have closed the
// descriptor and opened another file under its number: hence the identity. Sealed against shrinking: a look
// at what it has never faults.
Fd Peers::open_file(const ProcessSpan& span, uint64_t* bytes) {
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", span.pid, span.shared.file);
    Fd file(open(path, O_RDWR | O_CLOEXEC));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0 || status.st_ino != span.shared.identity ||
        !is_memory_file(file.get(), 0, bytes))
        return Fd();
    return file;
}

void Peers::forget(Peer& peer) {
    for (const Window& window : peer.windows)
        if (window.memory) --windows_mapped_;
    peer.windows.clear();
    peer.file_bytes = 0;
}

// The one that was not used for longest, but not what was found for the other end of the copy that this one
// is for.
bool Peers::let_one_go() {
    Window* oldest = nullptr;
    for (const auto& peer : peers_) {
        if (peer == nullptr) continue;
        for (Window& window : peer->windows)
            if (window.memory && window.last_use + 1 < clock_ &&
                (oldest == nullptr || window.last_use < oldest->last_use))
                oldest = &window;
    }
    if (!lets_go_ || oldest == nullptr) return false;
    *oldest = {};
    --windows_mapped_;
    return true;
}

bool Peers::map(Window& window, const Fd& file, uint64_t offset) {
    if (windows_mapped_ >= windows_max_ && !let_one_go()) return false;
    do {
        window.memory = Mapping::window(file.get(), offset, kWindowBytes);
    } while (!window.memory && let_one_go());
    if (!window.memory) return false;
    window.moved = std::make_unique<Moved[]>(kWindowBytes / kPieceBytes);
    ++windows_mapped_;
    return true;
}

// That of `bytes` at `at` of the file, which lie in one. The file is opened only to map it and where it has
// grown.
Peers::Window* Peers::find_window(Peer& peer, const ProcessSpan& span, uint64_t at, uint64_t bytes) {
    if (at + bytes > kSharedFileBytesMax) return nullptr;
    const size_t index = at / kWindowBytes;
    if (index >= peer.windows.size()) peer.windows.resize(index + 1);
    Window& window = peer.windows[index];
    if (window.failed) return nullptr;
    if (!window.memory || at + bytes > peer.file_bytes) {
        const Fd file = open_file(span, &peer.file_bytes);
        if (!file || (!window.memory && !map(window, file, index * kWindowBytes))) {
            window.failed = !window.memory;
            return nullptr;
        }
        if (at + bytes > peer.file_bytes) return nullptr;
    }
    window.last_use = clock_;
    return &window;
}

bool Peers::is_worth(Window& window, uint64_t offset, uint64_t bytes, bool write) {
    bool worth = true;
    for (uint64_t at = offset, end = offset + bytes; at < end;) {
        const uint64_t piece = at / kPieceBytes, next = std::min(end, (piece + 1) * kPieceBytes);
        uint8_t& count = write ? window.moved[piece].written : window.moved[piece].read;
        const uint8_t enough = write ? kWrittenPagesMin : kReadPagesMin;
        if (count < enough) {
            worth = false;
            const uint64_t pages = (next - at + kPageBytes - 1) / kPageBytes;
            count = static_cast<uint8_t>(std::min<uint64_t>(enough, count + pages));
            // Behind the file's end the system does nothing.
            if (count == enough && write)
                madvise(window.memory.data() + piece * kPieceBytes, kPieceBytes, kPopulateWrite);
        }
        at = next;
    }
    return worth;
}

std::byte* Peers::find_shared(const ProcessSpan& span, uint64_t offset, uint64_t* bytes, bool write,
                              bool at_once) {
    const SharedPart& shared = span.shared;
    if (shared.identity == 0 || offset < shared.begin || offset > shared.end || *bytes > shared.end - offset)
        return nullptr;
    const uint64_t at = shared.file_offset + (offset - shared.begin), in_window = at % kWindowBytes;
    *bytes = std::min(*bytes, kWindowBytes - in_window);
    Peer* const peer = find(span);
    if (peer == nullptr) return nullptr;
    if (peer->identity != shared.identity) {
        forget(*peer);
        peer->identity = shared.identity;
    }
    ++clock_;
    Window* const window = find_window(*peer, span, at, *bytes);
    if (window == nullptr) return nullptr;
    return is_worth(*window, in_window, *bytes, write) || at_once ? window->memory.data() + in_window
                                                                  : nullptr;
}

}  // namespace longshore
