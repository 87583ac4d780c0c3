// The shared-memory fabric's world: members in the test's process, ranks in processes forked by it. A rank's
// memory is shared with the test only so that the test can look; the fabric reaches it through the rank's
// process.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/described_fabric.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric_world.h"

namespace longshore::test {

class ShmWorld : public FabricWorld {
  public:
    static constexpr uint64_t kLimitNs = 200'000'000;
    ShmWorld(bool inaccessible, bool staging_only)
        : inaccessible_(inaccessible), staging_only_(staging_only) {
        NodeLimits limits;
        limits.ranks_max = kRanks;
        limits.services_max = kServices;
        limits.arena_bytes = kRegionBytes;
        limits.claims_bytes = 1 << 16;
        limits.groups_bytes = 1 << 16;
        nodes_.resize(kNodes);
        for (NodeAddress& node : nodes_) {
            make_secret(&node.name, &node.token);
            node.services = kServices;
        }
        for (uint16_t n = 0; n < kNodes; ++n) {
            const uint64_t bytes = NodeLayout::of(limits).total_bytes;
            files_[n] = make_memory_file("test-node", bytes);
            mappings_[n] = Mapping::shared(files_[n].get(), bytes);
            memories_[n] =
                NodeMemory::create(mappings_[n].data(), limits, NodeId{n}, kNodes, kRanks, kServices);
            for (uint16_t r = 0; r < kRanks; ++r) start_rank(n, r);
        }
        for (uint16_t n = 0; n < kNodes; ++n) {
            for (Fd& bell : bells_[n]) bell = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
            for (uint16_t s = 0; s < kServices; ++s) start({NodeId{n}, ServiceId{s}}, 1);
        }
    }
    // A life of a member, its first or a further one when the one before has gone.
    void start(ServiceAddress m, uint32_t incarnation) {
        ShmFabricOptions options;
        options.memory = memories_[m.node.value];
        options.self = m;
        options.incarnation = incarnation;
        options.nodes = nodes_;
        for (const Fd& bell : bells_[m.node.value]) options.doorbells.emplace_back(dup(bell.get()));
        options.limit_ns = kLimitNs * slowness();
        options.memory_inaccessible = inaccessible_;
        options.staging_bytes = kStagingBytes;
        options.staging_only = staging_only_;
        std::string error;
        fabrics_[m.node.value][m.service.value] = ShmFabric::create(std::move(options), &error);
        EXPECT_TRUE(fabrics_[m.node.value][m.service.value]) << error;
        incarnations_[m.node.value][m.service.value] = incarnation;
    }
    ~ShmWorld() override {
        for (const auto& node : pids_) {
            for (const pid_t pid : node) {
                kill(pid, SIGKILL);
                waitpid(pid, nullptr, 0);
            }
        }
        for (const auto& node : regions_) {
            for (std::byte* region : node) munmap(region, kRegionBytes);
        }
    }
    // Reads between nodes are by descriptors, unless a world has taken the fabric for a network of its own.
    Fabric& fabric(ServiceAddress m) override {
        auto& described = described_[m.node.value][m.service.value];
        if (!described) {
            DescribedOptions options;
            options.memory = memories_[m.node.value];
            options.self = m;
            options.incarnation = incarnations_[m.node.value][m.service.value];
            described = std::make_unique<DescribedFabric>(options, take_fabric(m));
        }
        return *described;
    }
    NodeMemory memory(NodeId node) override { return memories_[node.value]; }
    std::byte* bytes(NodeId node, LocalRank rank) override { return regions_[node.value][rank.value]; }
    // The rank's region can be mapped by others from now on; so far it only could be copied from and to.
    void share(NodeId node, LocalRank rank) {
        RegionEntry& entry = memories_[node.value].region(rank, kUserRegion);
        struct stat status {};
        ASSERT_EQ(fstat(region_files_[node.value][rank.value].get(), &status), 0);
        ProcessSpan shared = span(node.value, rank.value);
        shared.shared = {static_cast<uint32_t>(region_files_[node.value][rank.value].get()), status.st_ino, 0,
                         kRegionBytes, 0};
        withdraw_region(entry);
        publish_region(entry, shared);
    }
    // Its pages go back to the system; others take their place, of zeros.
    void give_back(NodeId node, LocalRank rank) {
        ASSERT_EQ(fallocate(region_files_[node.value][rank.value].get(),
                            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kRegionBytes),
                  0);
    }
    bool staging_only() const override { return staging_only_; }
    void lose(ServiceAddress m) override { described_[m.node.value][m.service.value].reset(); }
    bool reads_need_turns() const override { return true; }
    const std::vector<NodeAddress>& nodes() const { return nodes_; }
    // Whoever starts from now on takes the token of that node for another than its service processes have.
    void mistake_token(NodeId node) { nodes_[node.value].token[0] ^= 1; }
    std::unique_ptr<ShmFabric> take_fabric(ServiceAddress m) {
        return std::move(fabrics_[m.node.value][m.service.value]);
    }

    std::optional<Moved> moved(ServiceAddress m) override {
        const FabricCounters c = fabric(m).counters();
        return Moved{!inaccessible_, c.bytes_mapped, c.bytes_peer_copied + c.bytes_bounced};
    }

  private:
    ProcessSpan span(uint16_t n, uint16_t r) const {
        const auto pid = static_cast<uint32_t>(pids_[n][r]);
        return {pid, process_start_time(pid), reinterpret_cast<uint64_t>(regions_[n][r]), kRegionBytes};
    }
    void start_rank(uint16_t n, uint16_t r) {
        region_files_[n][r] = make_memory_file("test-region", kRegionBytes);
        void* region =
            mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED, region_files_[n][r].get(), 0);
        regions_[n][r] = static_cast<std::byte*>(region);
        pids_[n][r] = fork();
        if (pids_[n][r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) pause();
        }
        publish_region(memories_[n].region(LocalRank{r}, kUserRegion), span(n, r));
        // The arena is in use from the start; as in the host library it gets its descriptor for those who
        // must not look into the node's memory.
        const auto pid = static_cast<uint32_t>(pids_[n][r]);
        RegionEntry& arena = memories_[n].region(LocalRank{r}, kArenaRegion);
        arena.descriptor_bytes = kProcessSpanBytes;
        encode_span({pid, process_start_time(pid),
                     reinterpret_cast<uint64_t>(memories_[n].arena(LocalRank{r})), kRegionBytes},
                    reinterpret_cast<std::byte*>(arena.descriptor));
    }
    const bool inaccessible_, staging_only_;
    std::vector<NodeAddress> nodes_;
    Fd files_[kNodes], region_files_[kNodes][kRanks], bells_[kNodes][kServices];
    Mapping mappings_[kNodes];
    NodeMemory memories_[kNodes];
    pid_t pids_[kNodes][kRanks] = {};
    std::byte* regions_[kNodes][kRanks] = {};
    uint32_t incarnations_[kNodes][kServices] = {};
    std::unique_ptr<ShmFabric> fabrics_[kNodes][kServices];
    std::unique_ptr<DescribedFabric> described_[kNodes][kServices];
};

}  // namespace longshore::test
