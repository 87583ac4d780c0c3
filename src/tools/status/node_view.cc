#include "tools/status/node_view.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "engine/mover.h"
#include "fabric/shm/control.h"

namespace longshore::tools {
namespace {

constexpr uint32_t kHoldersMax = 8;  // named per record

uint64_t get(const Atomic<uint64_t>& word) {
    return word.load(std::memory_order_relaxed);
}

// A group, with its arrays inside the memory: what others write into the entry later changes nothing here.
bool copy_group(const NodeMemory& memory, GroupSlot slot, GroupEntry* out) {
    if (slot.value >= memory.limits().groups_max) return false;
    const GroupEntry& entry = memory.group(slot);
    const uint64_t id = entry.id.load(std::memory_order_acquire);
    out->size = load_relaxed(&entry.size);
    out->local_count = load_relaxed(&entry.local_count);
    out->members_offset = load_relaxed(&entry.members_offset);
    out->locals_offset = load_relaxed(&entry.locals_offset);
    out->rings_offset = load_relaxed(&entry.rings_offset);
    out->readers_offset = 0;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (id == 0 || entry.id.load(std::memory_order_relaxed) != id) return false;
    out->id.store(id, std::memory_order_relaxed);
    const uint64_t entries = uint64_t{out->local_count} * memory.limits().operations_ahead_max;
    return out->local_count <= out->size &&
           memory.at_checked<const Member>(out->members_offset, out->size) != nullptr &&
           memory.at_checked<const uint32_t>(out->locals_offset, out->local_count) != nullptr &&
           memory.at_checked<Atomic<uint64_t>>(out->rings_offset, entries) != nullptr;
}

}  // namespace

Fd open_memory_file(int pid, const std::string& name, uint64_t* bytes) {
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
        std::error_code unreadable;
        if (!std::filesystem::read_symlink(entry.path(), unreadable)
                 .string()
                 .starts_with("/memfd:" + name + " "))
            continue;
        Fd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
        if (fd && is_memory_file(fd.get(), 0, bytes)) return fd;
    }
    return Fd();
}

std::unique_ptr<NodeView> NodeView::open(int supervisor) {
    uint64_t memory_bytes = 0, sight_bytes = 0;
    const Fd memory = open_memory_file(supervisor, "longshore-node", &memory_bytes);
    const Fd sight = open_memory_file(supervisor, "longshore-sight", &sight_bytes);
    if (!memory || !sight || sight_bytes < SightLayout::kTraceAt) return nullptr;
    Mapping memory_mapping = Mapping::copy_on_write(memory.get(), memory_bytes);
    Mapping sight_mapping = Mapping::copy_on_write(sight.get(), sight_bytes);
    if (!memory_mapping || !sight_mapping) return nullptr;
    auto view = look_at(memory_mapping.data(), memory_bytes, sight_mapping.data());
    if (!view) return nullptr;
    view->own_memory_ = std::move(memory_mapping);
    view->own_sight_ = std::move(sight_mapping);
    return view;
}

std::unique_ptr<NodeView> NodeView::look_at(std::byte* memory, uint64_t bytes, std::byte* sight) {
    if (bytes < sizeof(NodeHeader)) return nullptr;
    // The page becomes this process's own, and the header cannot change between its check and its use.
    auto& first = *reinterpret_cast<volatile std::byte*>(memory);
    first = std::byte{first};
    auto view = std::make_unique<NodeView>();
    if (!NodeMemory::open(memory, bytes, &view->memory_)) return nullptr;
    view->sight_ = sight;
    return view;
}

uint64_t NodeView::job() const {
    return SightLayout::job(sight_).job.load(std::memory_order_acquire);
}
uint32_t NodeView::job_size() const {
    return SightLayout::job(sight_).size.load(std::memory_order_relaxed);
}
uint32_t NodeView::wait_report_s() const {
    return SightLayout::job(sight_).wait_report_s.load(std::memory_order_relaxed);
}

std::vector<ServiceView> NodeView::services() const {
    std::vector<ServiceView> all;
    for (uint16_t s = 0; s < memory_.service_count(); ++s) {
        const ServiceSlot& slot = memory_.service(ServiceId{s});
        ServiceView& view = all.emplace_back();
        view.service = s;
        view.pid = slot.pid.load(std::memory_order_relaxed);
        view.incarnation = slot.incarnation.load(std::memory_order_relaxed);
        const uint32_t core = SightLayout::slot(sight_, ServiceId{s}).core.load(std::memory_order_relaxed);
        view.core = static_cast<int>(core) - 1;
        view.busy_ns = get(slot.busy_ns);
        view.copy_ns = get(slot.copy_ns);
        view.network_ns = get(slot.network_ns);
        view.idle_ns = get(slot.idle_ns);
        view.cpu_ns = get(slot.cpu_ns);
        view.sleeps = get(slot.sleeps);
        view.bytes_moved = get(slot.bytes_mapped) + get(slot.bytes_peer_copied) + get(slot.bytes_bounced);
        view.bytes_between_nodes = get(slot.bytes_between_nodes);
        view.taken = get(slot.taken);
    }
    return all;
}

std::vector<RankView> NodeView::ranks() const {
    std::vector<RankView> all;
    for (uint16_t r = 0; r < memory_.rank_count(); ++r) {
        const RankSlot& slot = memory_.rank(LocalRank{r});
        RankView& view = all.emplace_back();
        view.local = r;
        view.pid = slot.pid.load(std::memory_order_relaxed);
        view.service = load_relaxed(&slot.service);
        view.attached = slot.attached.load(std::memory_order_relaxed) != 0;
        const uint32_t rank = SightLayout::rank(sight_, LocalRank{r}).rank.load(std::memory_order_acquire);
        if (rank != 0) view.rank = rank - 1;
        for (uint32_t i = 0; i < kCollectives; ++i) {
            view.bytes_by_service += get(slot.bytes_by_service[i]);
            view.bytes_by_rank += get(slot.bytes_by_rank[i]);
        }
        for (const auto& word : slot.active)
            view.open += static_cast<uint32_t>(__builtin_popcountll(get(word)));
    }
    return all;
}

std::vector<uint32_t> NodeView::holders_of(const OperationRecord& record, uint64_t generation) const {
    std::vector<uint32_t> holders;
    const uint32_t count = record.chunk_count.load(std::memory_order_relaxed);
    if (count > memory_.limits().claims_bytes / sizeof(ChunkWord)) return holders;
    const auto* words =
        memory_.at_checked<Atomic<ChunkWord>>(record.claims_offset.load(std::memory_order_relaxed), count);
    for (uint32_t i = 0; words != nullptr && i < count && holders.size() < kHoldersMax; ++i) {
        const ChunkWord word = words[i].load(std::memory_order_relaxed);
        if (chunk_state(word) != ChunkState::kClaimed || chunk_generation(word) != generation) continue;
        const uint32_t worker = chunk_worker(word).index;
        if (std::find(holders.begin(), holders.end(), worker) == holders.end()) holders.push_back(worker);
    }
    return holders;
}

std::optional<OpenRecord> NodeView::read_record(LocalRank local, RecordId id) const {
    const OperationRecord& record = memory_.record(local, id);
    OpenRecord found{local, id, {}, 0, {}, {}};
    GroupEntry group;
    if (!look(record, &found.look) || !copy_group(memory_, found.look.group, &group) ||
        static_cast<uint32_t>(found.look.collective) >= kCollectives || found.look.size != group.size ||
        found.look.rank.value >= group.size || found.look.root.value >= group.size)
        return std::nullopt;
    found.group = group.id.load(std::memory_order_relaxed);
    const SightWait& wait = SightLayout::rank(sight_, local).waits[id.value];
    const uint64_t generation = wait.generation.load(std::memory_order_acquire);
    const uint64_t started = get(wait.started_ns);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (generation == found.look.generation && wait.generation.load(std::memory_order_relaxed) == generation)
        found.started_ns = started;
    found.holders = holders_of(record, found.look.generation);
    if (!still_open(found)) return std::nullopt;
    return found;
}

std::vector<OpenRecord> NodeView::open_records() const {
    std::vector<OpenRecord> all;
    const uint32_t records = memory_.limits().records_max;
    for (uint16_t r = 0; r < memory_.rank_count(); ++r) {
        const RankSlot& slot = memory_.rank(LocalRank{r});
        for (uint32_t word = 0; word * 64 < records; ++word) {
            for (uint64_t bits = slot.active[word].load(std::memory_order_acquire); bits != 0;
                 bits &= bits - 1) {
                const uint32_t id = word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
                if (id >= records) break;
                if (auto found = read_record(LocalRank{r}, RecordId{id})) all.push_back(std::move(*found));
            }
        }
    }
    return all;
}

bool NodeView::still_open(const OpenRecord& record) const {
    return memory_.record(record.local, record.record).generation.load(std::memory_order_acquire) ==
           record.look.generation;
}

std::vector<MemberView> NodeView::members(uint64_t id, uint64_t sequence) const {
    std::vector<MemberView> all;
    const GroupSlot slot = memory_.find_group(GroupId{id});
    GroupEntry group;
    if (id == 0 || !copy_group(memory_, slot, &group) || group.id.load(std::memory_order_relaxed) != id)
        return all;
    const Member* members = memory_.members(group);
    const uint32_t* locals = memory_.locals(group);
    for (uint32_t i = 0; i < group.local_count; ++i) {
        const uint32_t rank = load_relaxed(&locals[i]);
        if (rank >= group.size) return {};
        const uint32_t local = load_relaxed(&members[rank].local.value);
        if (local >= memory_.rank_count()) return {};
        RecordId ignored;
        all.push_back({rank, local, entered(memory_, group, i, sequence, &ignored) != Entered::kNotYet});
    }
    if (memory_.group(slot).id.load(std::memory_order_acquire) != id) return {};
    return all;
}

}  // namespace longshore::tools
