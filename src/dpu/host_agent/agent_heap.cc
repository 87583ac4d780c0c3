#include "dpu/host_agent/agent_heap.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "dpu/transport/host_region.h"

namespace longshore {
namespace {

constexpr uint64_t kFirstMappedBytes = uint64_t{1} << 30;

uint64_t page_bytes() {
    static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

// Replaces so many pages, at once for whoever is about to use them.
bool map_at(uint64_t at, uint64_t bytes, int flags, int file, uint64_t offset) {
    return mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                flags | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file,
                static_cast<off_t>(offset)) != MAP_FAILED;
}

// Makes each page this process's own: the kernel copies it when it is written. What others write there
// meanwhile, on the same machine, is not undone.
void own_pages(uint64_t at, uint64_t bytes) {
    for (uint64_t page = at; page < at + bytes; page += page_bytes()) {
        std::atomic_ref<unsigned char> byte(*reinterpret_cast<unsigned char*>(page));
        for (unsigned char seen = byte.load(); !byte.compare_exchange_weak(seen, seen);) {
        }
    }
}

}  // namespace

bool AgentHeap::has(uint64_t offset, uint64_t bytes) const {
    uint64_t all = 0;
    return is_memory_file(file_.get(), 0, &all) && all <= kSharedFileBytesMax && offset <= all &&
           bytes <= all - offset;
}

// With room to grow; what was mapped before stays, because it is open.
std::span<std::byte> AgentHeap::find(uint64_t offset, uint64_t bytes) {
    const uint64_t end = offset + bytes;
    if (memories_.empty() || memories_.back().size() < end) {
        uint64_t room = memories_.empty() ? kFirstMappedBytes : 2 * memories_.back().size();
        while (room < end) room *= 2;
        Mapping memory = Mapping::shared(file_.get(), room);
        if (!memory) return {};
        madvise(memory.data(), room, MADV_DONTDUMP);
        memories_.push_back(std::move(memory));
    }
    return {memories_.back().data() + offset, bytes};
}

bool AgentHeap::may_open(const AgentOpen& request) const {
    return request.id != 0 && !openings_.contains(request.id) && request.bytes != 0 &&
           held_.behind() == HostMemory::Behind::kRank && has(request.offset, request.bytes);
}

bool AgentHeap::open(const AgentOpen& request, Keys* out, std::string* error) {
    const std::span<std::byte> memory = find(request.offset, request.bytes);
    if (memory.empty()) {
        *error = std::string("a rank's memory cannot be mapped: ") + strerror(errno);
        return false;
    }
    if (openings_.size() >= kAgentOpeningsMax) {
        *error = "too many pieces of a rank's memory are open to the network";
        return false;
    }
    UcxOpening* const opened = network_.open_memory(memory, &out->key, error);
    if (opened == nullptr) return false;
    if (out->key.size() > kHostKeyBytesMax) {
        network_.close_memory(opened);
        *error = "the network's keys are too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES)";
        return false;
    }
    openings_[request.id] = {opened, memory, request.offset};
    out->address = reinterpret_cast<uint64_t>(memory.data());
    // Without, the memory can be reached all the same.
    if (request.exports != 0) network_.export_memory(opened, &out->exported, error);
    return true;
}

bool AgentHeap::close(uint64_t id) {
    const auto found = openings_.find(id);
    if (found == openings_.end()) return false;
    if (found->second.opened != nullptr) network_.close_memory(found->second.opened);
    openings_.erase(found);
    return true;
}

void AgentHeap::close_all() {
    for (auto& [id, opening] : openings_)
        if (opening.opened != nullptr) network_.close_memory(std::exchange(opening.opened, nullptr));
}

// --- when the rank is done with it

// Over TCP what service processes still get or put is carried out here, by addresses that UCX does not check:
// there must be something, and what they get must not be what the rank's program writes from now on. Cards
// reach what is closed no longer.
bool AgentHeap::withdraw() {
    held_.withdraw();
    close_all();
    return held_.behind() != HostMemory::Behind::kCopy || copy_open();
}

// Pieces may overlap.
bool AgentHeap::copy_open() const {
    std::vector<Opening> all;
    for (const auto& [id, opening] : openings_) all.push_back(opening);
    std::sort(all.begin(), all.end(),
              [](const Opening& a, const Opening& b) { return a.memory.data() < b.memory.data(); });
    uint64_t copied = 0;  // up to there
    for (const Opening& o : all) {
        const auto at = reinterpret_cast<uint64_t>(o.memory.data());
        const uint64_t begin = std::max(at / page_bytes() * page_bytes(), copied);
        const uint64_t end = (at + o.memory.size() + page_bytes() - 1) / page_bytes() * page_bytes();
        if (begin >= end) continue;
        if (!map_at(begin, end - begin, 0, file_.get(), o.offset - at + begin)) return false;
        madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTDUMP);
        own_pages(begin, end - begin);
        copied = end;
    }
    return true;
}

// What others read of a rank that was killed is what it gave: nobody writes anything else there. Of one whose
// operations are over nobody reads, and what may still be put must not end up in its program's memory.
void AgentHeap::end() {
    held_.end();
    if (held_.behind() != HostMemory::Behind::kNothing) return;
    close_all();
    for (const Mapping& memory : memories_)
        map_at(reinterpret_cast<uint64_t>(memory.data()), memory.size(), MAP_ANONYMOUS, -1, 0);
}

}  // namespace longshore
