// The fabric of service processes on a DPU. Their node's records lie in the DPU's memory, but not the buffers
// of the ranks: those are on the host, where its agent has opened them to the network. What is between such a
// buffer and staging memory of a member is a get or a put, and so is what is read of another node's ranks:
// from their host, past its DPU. Where buffers of the own host have aliases, a get brings bytes there from
// any host's by the cards alone; else nothing goes from rank to rank. All else is the business of the fabric
// behind this one. One thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dpu/transport/host_region.h"
#include "fabric/import_table.h"
#include "fabric/importing_fabric.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/ucx/worker.h"

namespace longshore {

struct HostOptions {
    NodeMemory memory;
    NodeId node;
    // By node: where the network reaches its host's agent.
    std::vector<std::vector<std::byte>> agents;
    bool aliases = false;  // bytes may go from one rank's memory into another's
    // An agent with which nothing has come to its end for so long is lost.
    uint64_t limit_ns = 5'000'000'000;
};

class HostFabric : public ImportingFabric, private UcxWorker::Listener {
  public:
    // `inner`: between members; it ends in `local`, which has the staging memory and lives as long. Null on
    // failure; `error` says why.
    static std::unique_ptr<HostFabric> create(HostOptions options, std::unique_ptr<Fabric> inner,
                                              ShmFabric* local, std::string* error);
    ~HostFabric() override;

    Post send(ServiceAddress to, std::span<const std::byte> message) override {
        return inner_->send(to, message);
    }
    Post copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
              uint64_t working_set = 0) override;
    Post read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
              const AlongPart* part = nullptr) override;
    Post write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) override;
    std::span<const std::byte> staging_descriptor() const override { return local_->staging_descriptor(); }
    Post import_region(ServiceAddress owner, const RegionName& name, std::span<const std::byte> descriptor,
                       uint64_t id) override;
    void forget_region(ImportHandle region) override { imports_.forget(region); }
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns) override;
    void wake(const WakeSet& sleepers) override { inner_->wake(sleepers); }
    FabricCounters counters() const override;
    std::string take_problem() override;

  private:
    struct Key {
        UcxKey* key = nullptr;
        uint32_t used = 0;  // by moves under way
    };
    struct Agent {
        UcxEndpoint* endpoint = nullptr;
        bool lost = false, broken = false, failed = false, told = false;
        uint32_t moving = 0;
        uint64_t progress_ns = 0;  // when a move began with none under way, or the last one ended
        std::map<std::vector<std::byte>, Key> keys;
    };
    struct Alias {
        UcxAlias* alias = nullptr;  // null: it cannot be made
        uint32_t used = 0;          // by moves under way
    };
    // The way of bytes from host to host where there is no alias: through memory of this process.
    struct Bounce {
        HostRegion to;
        uint64_t address = 0;
        std::vector<std::byte> bytes;
        bool fetched = false;
    };
    struct Move {
        uint64_t id = 0;
        uint16_t node = 0;
        Key* key = nullptr;
        Alias* alias = nullptr;
        std::unique_ptr<Bounce> bounce;
    };
    // Of another node: memory of a rank on its host, or what the service process there has itself (a rank's
    // arena, staging memory), which the inner fabric reads by its name.
    struct Import {
        bool on_host = false;
        HostRegion region;
        ServiceAddress owner;
        RegionName name;
    };
    // Where bytes are: here, or on a host.
    struct Place {
        bool ok = false, here = false;
        std::span<std::byte> bytes;
        HostRegion region;
        uint64_t address = 0;
        LocalRank rank;
        RegionId id;
        uint32_t generation = 0;
    };

    HostFabric(HostOptions options, std::unique_ptr<Fabric> inner, ShmFabric* local,
               std::unique_ptr<UcxWorker> worker);
    // UcxWorker::Listener
    void on_message(std::span<const std::byte>, std::span<const std::byte>) override {}
    void on_offer(std::span<const std::byte>, uint64_t, UcxOffer) override {}
    void on_taken(uint64_t, bool) override {}
    void on_sent(uint64_t) override {}
    void on_reached(uint64_t move, bool ok) override;
    void on_broken(UcxEndpoint* endpoint) override;

    Place find(const MemoryRef& ref, uint64_t bytes);
    Agent* reach(NodeId node);
    Key* find_key(Agent& agent, const std::vector<std::byte>& key);
    // Null: there is none.
    Alias* find_alias(const Place& place);
    // The move to be filled in; null: the host cannot be reached, and the move has failed.
    Move* begin(const HostRegion& region, uint64_t id, uint64_t* at);
    void get(const HostRegion& region, uint64_t address, std::span<std::byte> to, uint64_t id);
    void put(const HostRegion& region, std::span<const std::byte> from, uint64_t address, uint64_t id,
             std::unique_ptr<Bounce> bounce = nullptr);
    void get_to_host(const HostRegion& region, uint64_t address, const Place& to, uint64_t bytes,
                     uint64_t id);
    void complain(Agent& agent);
    void lose(Agent& agent);
    void look_at_agents(uint64_t now);
    void turn();
    size_t collect(std::span<FabricEvent> events);
    Post end(uint64_t id, MoveResult result);

    HostOptions options_;
    std::unique_ptr<Fabric> inner_;
    ShmFabric* local_;
    std::unique_ptr<UcxWorker> worker_;
    std::vector<Agent> agents_;
    ImportTable<Import> imports_;
    // By rank, region and its generation: an alias is of memory as it was opened once.
    std::map<std::tuple<uint16_t, uint32_t, uint32_t>, Alias> aliases_;
    std::vector<Move> moves_;
    std::vector<uint64_t> free_moves_;
    std::deque<std::pair<uint64_t, std::unique_ptr<Bounce>>> half_way_;  // with the id of the move
    std::deque<FabricEvent> done_;
    uint64_t refused_ = 0, bytes_bounced_ = 0, bytes_to_host_ = 0;
    bool told_of_alias_ = false;
    std::string problem_;
};

}  // namespace longshore
