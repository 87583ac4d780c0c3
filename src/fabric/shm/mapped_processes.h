// The processes whose memory a NodeCopier moves: each looked up once, and what it shares mapped here, in
// windows. One thread.
#pragma once

#include <memory>
#include <vector>

#include "fabric/shm/region.h"
#include "fabric/shm/system.h"

namespace longshore {

class MappedProcesses {
  public:
    static constexpr uint64_t kWindowBytes = uint64_t{1} << 30;
    static constexpr size_t kWindowsMax = 8192;

    // No more processes than that are found: those of a job on one machine are far fewer.
    static constexpr size_t kProcessesMax = 65536;
    // Files that one process shares, one after the other. Bytes of further ones are not mapped.
    static constexpr size_t kFilesMax = 4;

    // `lets_go`: where there are as many windows or files, or no room for another window, the one that was
    // not used for longest makes room. What was found before the last time may then be gone. Otherwise what
    // was found stays as long as this object, however many processes it meets: service processes keep such
    // addresses while they wait for a stream.
    explicit MappedProcesses(bool lets_go, size_t windows_max = kWindowsMax)
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
    struct File {
        uint64_t identity = 0;  // of what is, or could not be, mapped
        uint64_t bytes = 0;     // that it has at least: it only grows
        uint64_t last_use = 0;
        std::vector<Window> windows;
    };
    struct Process {
        uint32_t pid = 0;
        uint64_t start_time = 0, looked_ns = 0;
        std::vector<File> files;  // those that it shares: one, as a rule
    };
    // Where its entry is, or belongs if it has none.
    size_t place_of(uint32_t pid, uint64_t start_time) const;
    void grow();
    Process* find(const ProcessSpan& span);
    File* find_file(Process& process, uint64_t identity);
    Window* find_window(File& file, const ProcessSpan& span, uint64_t at, uint64_t bytes);
    bool map(Window& window, const Fd& file, uint64_t offset);
    bool let_one_go();
    void forget(File& file);
    static Fd open_file(const ProcessSpan& span, uint64_t* bytes);
    static bool is_worth(Window& window, uint64_t offset, uint64_t bytes, bool write);

    const bool lets_go_;
    const size_t windows_max_;
    size_t windows_mapped_ = 0;
    uint64_t clock_ = 0;  // counts what is asked for
    // By a hash of the pid, and where that place is taken behind it. It grows before it is half full, and an
    // entry stays as long as this object.
    std::vector<std::unique_ptr<Process>> processes_;
    size_t count_ = 0;  // of entries
};

}  // namespace longshore
