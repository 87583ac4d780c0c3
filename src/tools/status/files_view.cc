#include "tools/status/files_view.h"

#include <algorithm>

#include "io/layout.h"
#include "tools/status/node_view.h"

namespace longshore::tools {
namespace {

constexpr uint32_t kRanksMax = 65536;

FilesView view_of(const io::Queue& queue, uint32_t local, uint64_t bound_bytes, bool is_lost) {
    FilesView view;
    view.local = local;
    view.pid = queue.pid.load();
    view.files = queue.opened.load();
    view.bytes = queue.bytes.load();
    view.bound_bytes = bound_bytes;
    // In this order: what is done was submitted before.
    const uint64_t done = queue.done.load(std::memory_order_acquire);
    const uint64_t submitted = queue.submitted.load(std::memory_order_acquire);
    view.waiting_bytes = submitted > done ? std::min(submitted - done, bound_bytes) : 0;
    const uint64_t since = queue.since_ns.load(), now = now_ns();
    if (view.waiting_bytes != 0 && since < now) view.since_ns = now - since;
    for (const auto& count : queue.passed) view.passed += count.load();
    view.waited_s = static_cast<double>(queue.waited_ns.load()) * 1e-9;
    view.is_lost = is_lost || queue.is_spoilt.load() != 0;
    return view;
}

}  // namespace

std::vector<FilesView> find_files(int supervisor) {
    std::vector<FilesView> found;
    uint64_t bytes = 0;
    const Fd file = open_memory_file(supervisor, "longshore-io", &bytes);
    if (!file || bytes < sizeof(io::Board)) return found;
    const Mapping mapping = Mapping::copy_on_write(file.get(), bytes);
    if (!mapping) return found;
    const auto& board = *reinterpret_cast<const io::Board*>(mapping.data());
    const uint32_t count = board.queues_count.load();
    if (count > kRanksMax || io::board_bytes(count) > bytes) return found;
    for (uint32_t i = 0; i < count; ++i) {
        if (board.queues[i].pid.load() == 0) continue;
        found.push_back(view_of(board.queues[i], i, board.ring_bytes.load(), board.is_lost.load() != 0));
    }
    return found;
}

}  // namespace longshore::tools
