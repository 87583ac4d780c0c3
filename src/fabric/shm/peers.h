// The processes whose memory a NodeCopier moves: each looked up once, and what it shares mapped here, in
// windows. One thread.
#pragma once

#include <memory>
#include <vector>

#include "fabric/shm/region.h"
#include "fabric/shm/system.h"

namespace longshore {

class Peers {
  public:
    static constexpr uint64_t kWindowBytes = uint64_t{1} << 30;
    static constexpr size_t kWindowsMax = 8192;

    // `lets_go`: where there are as many windows, or no room for another, the one that was not used for
    // longest makes room. What was found before the last time may then be gone. Otherwise what was found
    // stays as long as this object.
    explicit Peers(bool lets_go, size_t windows_max = kWindowsMax)
        : lets_go_(lets_go), windows_max_(windows_max) {}

    // False: that process is gone, its pid perhaps another's.
    bool is_there(const ProcessSpan& span);
    // The same, but that it was once is not enough: for who gives its pid to the system.
    bool is_still_there(const ProcessSpan& span);

    // Where bytes at `offset` of the span's shared part lie in this process; *bytes becomes smaller if the
    // rest lies elsewhere. Null: so many of them cannot be mapped; or, unless `at_once`, it is not worth it
    // yet. A page costs more to map than to copy once by way of the system, so that pages are mapped when so
    // much has been moved that it would have paid.
    std::byte* find_shared(const ProcessSpan& span, uint64_t offset, uint64_t* bytes, bool write,
                           bool at_once);

    size_t windows_mapped() const { return windows_mapped_; }

  private:
    struct Moved {
        uint8_t read = 0, written = 0;  // pages, not counted further than kReadPagesMin and kWrittenPagesMin
    };
    struct Window {
        Mapping memory;
        std::unique_ptr<Moved[]> moved;  // by piece
        uint64_t last_use = 0;
        bool failed = false;
    };
    struct Peer {
        uint32_t pid = 0;
        uint64_t start_time = 0, looked_ns = 0;
        uint64_t identity = 0;    // of the file that is, or could not be, mapped
        uint64_t file_bytes = 0;  // that it has at least: it only grows
        std::vector<Window> windows;
    };
    Peer* find(const ProcessSpan& span);
    Window* find_window(Peer& peer, const ProcessSpan& span, uint64_t at, uint64_t bytes);
    bool map(Window& window, const Fd& file, uint64_t offset);
    bool let_one_go();
    void forget(Peer& peer);
    static Fd open_file(const ProcessSpan& span, uint64_t* bytes);
    static bool is_worth(Window& window, uint64_t offset, uint64_t bytes, bool write);

    const bool lets_go_;
    const size_t windows_max_;
    size_t windows_mapped_ = 0;
    uint64_t clock_ = 0;  // counts what is asked for
    std::vector<std::unique_ptr<Peer>>
        peers_;  // by pid, with a few probes; a newer one takes the place of an older
};

}  // namespace longshore
