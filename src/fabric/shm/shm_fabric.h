// The shared-memory fabric, a service process's end of it: messages to other service processes of this
// machine through rings in memfds, one ring per direction, made by the sender and handed over on the
// receiver's socket; bytes by NodeCopier, which is done when the post returns, so that its completion waits
// for the next poll. Owns its sockets, rings and doorbells. One thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/ring.h"
#include "fabric/import_table.h"
#include "fabric/importing_fabric.h"
#include "fabric/shm/doorbell.h"
#include "fabric/shm/node_copier.h"
#include "fabric/shm/socket.h"

namespace longshore {

// Where a node's service processes are reached; the same for all ranks and service processes of a job.
struct NodeAddress {
    SocketName name;
    Token token{};
    uint16_t services = 0;
    char host[64] = {};  // for the user
};

struct ShmFabricOptions {
    NodeMemory memory;
    ServiceAddress self;
    uint32_t incarnation = 1;
    std::vector<NodeAddress> nodes;     // by NodeId, this one included
    std::vector<Fd> doorbells;          // eventfds of this node's service processes
    uint64_t limit_ns = 5'000'000'000;  // a peer that nobody can connect to for so long is lost
    bool memory_inaccessible = false;
    uint64_t staging_bytes = 0;  // of this member; see has_staging()
    bool staging_only = false;   // nothing goes from one rank's memory into another's
};

class ShmFabric : public ImportingFabric {
  public:
    // Null on failure; `error` says why.
    static std::unique_ptr<ShmFabric> create(ShmFabricOptions options, std::string* error);
    ~ShmFabric() override;

    Post send(ServiceAddress to, std::span<const std::byte> message) override;
    Post copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
              uint64_t working_set = 0) override;
    Post read(ImportHandle from, uint64_t offset, const MemoryRef& to, uint64_t bytes, uint64_t id,
              const AlongPart* part = nullptr) override;
    Post write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) override;
    std::span<const std::byte> staging_descriptor() const override {
        return {staging_descriptor_, staging_ ? sizeof staging_descriptor_ : 0};
    }
    Post import_region(ServiceAddress owner, const RegionName& name, std::span<const std::byte> descriptor,
                       uint64_t id) override;
    void forget_region(ImportHandle region) override { imports_.forget(region); }
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns) override;
    void wake(const WakeSet& sleepers) override { doorbell_.ring(sleepers); }
    FabricCounters counters() const override;
    std::string take_problem() override;

    // A further descriptor that ends a poll's wait when it is readable; borrowed.
    bool watch(int fd);
    // For a fabric that reaches further, and moves bytes of this node's ranks too.
    NodeCopier& copier() { return copier_; }
    std::span<std::byte> staging() const { return {staging_.data(), staging_ ? staging_.size() : 0}; }

    struct Outgoing;
    struct Incoming;

    // Whether the staging memory that was asked for could be had. Without it everything goes directly.
    bool has_staging() const { return static_cast<bool>(staging_); }

  private:
    explicit ShmFabric(ShmFabricOptions options);
    bool start(std::string* error);
    // What an event of epoll_ is about, in the upper half of its data. Others' descriptors (watch()) say
    // nothing about connections.
    enum class Own : uint32_t { kOthers, kDoorbell, kListener, kOutgoing, kIncoming };
    bool watch(int fd, Own what, uint32_t which);
    Outgoing* find(ServiceAddress peer);
    void connect(ServiceAddress peer, Outgoing& out);
    void connection_refused(ServiceAddress peer, Outgoing& out);
    void turn_sockets();
    void take_events();
    void take_event(uint64_t data);
    void try_again(ServiceAddress peer, Outgoing& out);
    void turn_outgoing(ServiceAddress peer, Outgoing& out);
    void accept_incoming();
    bool turn_incoming(Incoming& in);
    bool greet(Incoming& in);
    size_t collect(std::span<FabricEvent> events);
    bool anything_to_read() const;
    bool turn_sockets_if(bool woken);
    bool block(uint64_t wait_ns);
    void refuse(const char* what);
    void complete(uint64_t id, MoveResult result);

    ShmFabricOptions options_;
    Doorbell doorbell_;
    Mapping staging_;
    std::byte staging_descriptor_[kProcessSpanBytes];
    NodeCopier copier_;
    FabricCounters counters_;
    Fd listener_, epoll_, bell_file_;
    Mapping bell_;
    std::vector<std::vector<Outgoing>> outgoing_;  // by node, service
    std::vector<std::unique_ptr<Incoming>> incoming_;
    size_t next_incoming_ = 0;
    uint32_t incoming_numbers_ = 0;
    // Peers that are being connected, or are tried again now and then. Of the others the system tells.
    std::vector<ServiceAddress> trying_;
    bool incoming_unsettled_ = false;  // some have not greeted, or have ended and are still read
    std::deque<FabricEvent> done_;
    ImportTable<ProcessSpan> imports_;
    std::unique_ptr<std::byte[]> messages_;  // what the last poll handed out
    uint32_t events_seen_ = 0;
    uint64_t next_turn_ns_ = 0;
    bool unsettled_ = false;  // some connection needs attention at every turn
    std::string problem_;
    bool told_refused_ = false, told_forbidden_ = false;
};

}  // namespace longshore
