#include "fabric/shm/mapped_processes.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

namespace longshore {
namespace {

constexpr size_t kPlacesMin = 8;          // a power of two, and so are all greater numbers of places
constexpr uint64_t kLookNs = 20'000'000;  // too short for pids to come round
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPiecePages = 16, kPieceBytes = kPiecePages * kPageBytes;
// Full passes over a piece before it is mapped (docs/decisions/0011-shared-allocations.md has the
// measurements).
constexpr uint8_t kReadPagesMin = 1 * kPiecePages, kWrittenPagesMin = 3 * kPiecePages;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14: before, pages fault in one by one

}  // namespace

size_t MappedProcesses::place_of(uint32_t pid, uint64_t start_time) const {
    // Pids that lie apart by a power of two, as those of programs with as many threads each, must not meet.
    const size_t last = processes_.size() - 1;
    size_t place = (pid * 0x9e3779b97f4a7c15u >> 32) & last;
    while (processes_[place] != nullptr &&
           (processes_[place]->pid != pid || processes_[place]->start_time != start_time))
        place = (place + 1) & last;
    return place;
}

// Twice as many places, with the same entries.
void MappedProcesses::grow() {
    std::vector<std::unique_ptr<Process>> entries(std::max(kPlacesMin, 2 * processes_.size()));
    processes_.swap(entries);
    for (auto& entry : entries) {
        if (entry != nullptr) processes_[place_of(entry->pid, entry->start_time)] = std::move(entry);
    }
}

MappedProcesses::Process* MappedProcesses::find(const ProcessSpan& span) {
    if (!processes_.empty()) {
        Process* const process = processes_[place_of(span.pid, span.start_time)].get();
        if (process != nullptr) return process;
    }
    if (count_ >= kProcessesMax || process_start_time(span.pid) != span.start_time) return nullptr;
    if (2 * (count_ + 1) > processes_.size()) grow();
    std::unique_ptr<Process>& entry = processes_[place_of(span.pid, span.start_time)];
    entry = std::make_unique<Process>();
    entry->pid = span.pid;
    entry->start_time = span.start_time;
    entry->looked_ns = now_ns();
    ++count_;
    return entry.get();
}

bool MappedProcesses::is_there(const ProcessSpan& span) {
    return find(span) != nullptr;
}

bool MappedProcesses::is_still_there(const ProcessSpan& span) {
    Process* const process = find(span);
    if (process == nullptr) return false;
    const uint64_t now = now_ns();
    if (now - process->looked_ns < kLookNs) return true;
    process->looked_ns = now;
    if (process_start_time(span.pid) == span.start_time) return true;
    process->looked_ns = 0;  // it is looked at each time from now on
    return false;
}

// By way of /proc, which asks for no more than process_vm_readv does. The process may have closed the
// descriptor and opened another file under its number: hence the identity. Sealed against shrinking: a look
// at what it has never faults.
Fd MappedProcesses::open_file(const ProcessSpan& span, uint64_t* bytes) {
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/fd/%u", span.pid, span.shared.file);
    Fd file(open(path, O_RDWR | O_CLOEXEC));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0 || status.st_ino != span.shared.identity ||
        !is_memory_file(file.get(), 0, bytes))
        return Fd();
    return file;
}

void MappedProcesses::forget(File& file) {
    for (const Window& window : file.windows)
        if (window.memory) --windows_mapped_;
    file = {};
}

// The one that was not used for longest, but not what was found for the other end of the copy that this one
// is for.
bool MappedProcesses::let_one_go() {
    Window* oldest = nullptr;
    for (const auto& process : processes_) {
        if (process == nullptr) continue;
        for (File& file : process->files)
            for (Window& window : file.windows)
                if (window.memory && window.last_use + 1 < clock_ &&
                    (oldest == nullptr || window.last_use < oldest->last_use))
                    oldest = &window;
    }
    if (!lets_go_ || oldest == nullptr) return false;
    *oldest = {};
    --windows_mapped_;
    return true;
}

bool MappedProcesses::map(Window& window, const Fd& file, uint64_t offset) {
    if (windows_mapped_ >= windows_max_ && !let_one_go()) return false;
    do {
        window.memory = Mapping::window(file.get(), offset, kWindowBytes);
    } while (!window.memory && let_one_go());
    if (!window.memory) return false;
    window.moved = std::make_unique<Moved[]>(kWindowBytes / kPieceBytes);
    ++windows_mapped_;
    return true;
}

// Null: it has shared more files than are kept apart.
MappedProcesses::File* MappedProcesses::find_file(Process& process, uint64_t identity) {
    File* oldest = nullptr;
    for (File& file : process.files) {
        if (file.identity == identity) return &file;
        if (file.last_use + 1 < clock_ && (oldest == nullptr || file.last_use < oldest->last_use))
            oldest = &file;
    }
    if (process.files.size() < kFilesMax) {
        oldest = &process.files.emplace_back();
    } else if (lets_go_ && oldest != nullptr) {
        forget(*oldest);
    } else {
        return nullptr;
    }
    oldest->identity = identity;
    return oldest;
}

// That of `bytes` at `at` of the file, which lie in one. The file is opened only to map it and where it has
// grown.
MappedProcesses::Window* MappedProcesses::find_window(File& file, const ProcessSpan& span, uint64_t at,
                                                      uint64_t bytes) {
    if (at + bytes > kSharedFileBytesMax) return nullptr;
    const size_t index = at / kWindowBytes;
    if (index >= file.windows.size()) file.windows.resize(index + 1);
    Window& window = file.windows[index];
    if (window.failed) return nullptr;
    if (!window.memory || at + bytes > file.bytes) {
        const Fd opened = open_file(span, &file.bytes);
        if (!opened || (!window.memory && !map(window, opened, index * kWindowBytes))) {
            window.failed = !window.memory;
            return nullptr;
        }
        if (at + bytes > file.bytes) return nullptr;
    }
    window.last_use = clock_;
    return &window;
}

bool MappedProcesses::is_worth(Window& window, uint64_t offset, uint64_t bytes, bool write) {
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

std::byte* MappedProcesses::find_shared(const ProcessSpan& span, uint64_t offset, uint64_t* bytes, bool write,
                                        bool at_once) {
    const SharedPart& shared = span.shared;
    if (shared.identity == 0 || offset < shared.begin || offset > shared.end || *bytes > shared.end - offset)
        return nullptr;
    const uint64_t at = shared.file_offset + (offset - shared.begin), in_window = at % kWindowBytes;
    *bytes = std::min(*bytes, kWindowBytes - in_window);
    Process* const process = find(span);
    if (process == nullptr) return nullptr;
    ++clock_;
    File* const file = find_file(*process, shared.identity);
    if (file == nullptr) return nullptr;
    file->last_use = clock_;
    Window* const window = find_window(*file, span, at, *bytes);
    if (window == nullptr) return nullptr;
    return is_worth(*window, in_window, *bytes, write) || at_once ? window->memory.data() + in_window
                                                                  : nullptr;
}

}  // namespace longshore
