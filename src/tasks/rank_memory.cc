#include "tasks/rank_memory.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>

#include "fabric/shm/region.h"

namespace longshore::tasks {
namespace {

constexpr uint64_t kPieceBytes = 64 * 1024;  // of the heap, whose pages are made present at once
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14: before, pages fault in one by one

std::string cannot(const char* what, size_t buffer, const BufferPlace& place, const char* why) {
    return "buffer " + std::to_string(buffer) + ", of " + std::to_string(place.bytes) + " bytes, cannot be " +
           what + ": " + why;
}

// Between this process and the rank, by process_vm_readv or _writev, which move less than 2 GiB at a time.
// Null, or what is wrong.
template <class Call>
const char* transfer(Call call, uint32_t pid, void* data, const BufferPlace& buffer) {
    constexpr uint64_t kAtOnce = uint64_t{1} << 30;
    for (uint64_t at = 0; at < buffer.bytes;) {
        const uint64_t bytes = std::min(kAtOnce, buffer.bytes - at);
        const iovec here{static_cast<std::byte*>(data) + at, bytes};
        const iovec there{reinterpret_cast<void*>(buffer.address + at), bytes};
        const ssize_t moved = call(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
        if (moved < 0) return strerror(errno);
        if (moved == 0) return "the program's memory ends within it";
        at += static_cast<uint64_t>(moved);
    }
    return nullptr;
}

bool make_room(uint64_t bytes, Mapping* copies) {
    if (*copies && bytes <= copies->size()) return true;
    copies->reset();
    *copies = Mapping::accounted(std::max<uint64_t>(room_of_copy(bytes), 64 * 1024), false);
    return static_cast<bool>(*copies);
}

}  // namespace

// The mapping is as long as the heap may become, so that it is never moved; where there is no room for that,
// buffers are copied.
RankMemory::RankMemory(uint32_t pid, uint64_t start_time, const SharedHeap& heap, Fd file)
    : pid_(pid), start_time_(start_time), file_(std::move(file)) {
    if (!file_ || heap.bytes_max > kSharedFileBytesMax || !is_memory_file(file_.get(), 0, &file_bytes_))
        return;
    heap_ = Mapping::window(file_.get(), 0, heap.bytes_max);
}

bool RankMemory::is_there() const {
    return process_start_time(pid_) == start_time_;
}

// A page that is touched first costs a fault; many at once cost less.
void RankMemory::populate(uint64_t offset, uint64_t bytes) {
    const uint64_t last = (offset + bytes - 1) / kPieceBytes;
    if (last >= populated_.size()) populated_.resize(last + 1);
    for (uint64_t piece = offset / kPieceBytes; piece <= last; ++piece) {
        if (populated_[piece]) continue;
        uint64_t end = piece;
        for (; end <= last && !populated_[end]; ++end) populated_[end] = true;
        const uint64_t from = piece * kPieceBytes, to = std::min(end * kPieceBytes, file_bytes_);
        madvise(heap_.data() + from, to - from, kPopulateWrite);
        piece = end;
    }
}

std::byte* RankMemory::find_mapped(const BufferPlace& buffer) {
    if (buffer.is_shared == 0 || !heap_ || buffer.offset > heap_.size() ||
        buffer.bytes > heap_.size() - buffer.offset)
        return nullptr;
    const uint64_t end = buffer.offset + buffer.bytes;
    if (end > file_bytes_ && (!is_memory_file(file_.get(), 0, &file_bytes_) || end > file_bytes_))
        return nullptr;
    populate(buffer.offset, buffer.bytes);
    return heap_.data() + buffer.offset;
}

bool RankMemory::open(std::span<const BufferPlace> buffers, longshore_view* views, Mapping* copies,
                      Bytes* bytes, std::string* error) {
    uint64_t copied = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
        const BufferPlace& buffer = buffers[i];
        views[i] = {nullptr, buffer.bytes};
        if (buffer.bytes == 0 || buffer.access == LONGSHORE_KEPT) continue;
        views[i].data = find_mapped(buffer);
        if (views[i].data != nullptr) {
            bytes->mapped += buffer.bytes;
        } else if (buffer.bytes > kSharedFileBytesMax ||
                   (copied += room_of_copy(buffer.bytes)) > kSharedFileBytesMax) {
            *error = cannot("copied", i, buffer, "it is too large");
            return false;
        }
    }
    if (copied == 0) return true;
    if (!make_room(copied, copies)) {
        *error = "there is no memory for " + std::to_string(copied) + " bytes of copies of buffers";
        return false;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
        const BufferPlace& buffer = buffers[i];
        if (buffer.bytes == 0 || buffer.access == LONGSHORE_KEPT || views[i].data != nullptr) continue;
        views[i].data = copies->data() + at;
        at += room_of_copy(buffer.bytes);
        // What is only written is read, too: a function that writes parts of it leaves the others as they
        // were.
        if (const char* why = transfer(process_vm_readv, pid_, views[i].data, buffer)) {
            *error = cannot("read", i, buffer, why);
            return false;
        }
        bytes->copied += buffer.bytes;
    }
    return true;
}

bool RankMemory::close(std::span<const BufferPlace> buffers, const longshore_view* views,
                       const Mapping& copies, Bytes* bytes, std::string* error) {
    const auto* const first = copies.data();
    for (size_t i = 0; i < buffers.size(); ++i) {
        const BufferPlace& buffer = buffers[i];
        const auto* const data = static_cast<const std::byte*>(views[i].data);
        if (buffer.bytes == 0 || (buffer.access & LONGSHORE_OUT) == 0 || !copies || data < first ||
            data >= first + copies.size())
            continue;
        // Its pid may be another's by now.
        const char* const why =
            is_there() ? transfer(process_vm_writev, pid_, views[i].data, buffer) : "the rank is gone";
        if (why != nullptr) {
            *error = cannot("written", i, buffer, why);
            return false;
        }
        bytes->copied += buffer.bytes;
    }
    return true;
}

}  // namespace longshore::tasks
