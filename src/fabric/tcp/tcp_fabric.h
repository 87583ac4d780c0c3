// The fabric of service processes on several machines that TCP connects: what stays on a node goes by its
// ShmFabric. Two service processes have two streams: one for what they say to each other, one for the bytes
// of blocks, so that a word does not wait behind data. A read asks the service process at the source, which
// sends the bytes from where its rank's memory is mapped, and they are received where the destination's is:
// the kernel keeps the link busy from and into its buffers while both service processes wait for a core.
// Streams are made when first needed, and kept. One thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fabric/network.h"
#include "fabric/region_source.h"
#include "fabric/tcp/connections.h"
#include "fabric/tcp/receiving.h"
#include "fabric/tcp/serving.h"
#include "fabric/tcp/talk.h"

namespace longshore {

// A service process's end of the network, from before it knows its peers.
struct TcpEnd {
    PortShare share;
    std::vector<TcpAddress> own;
    std::vector<std::byte> address;  // by which others reach it
    // False: it cannot be had; `error` says why.
    bool open(const NetworkSettings& settings, PortShare of_port, std::string* error);
};

class TcpFabric : public Fabric, private Connections::Owner {
  public:
    // Null on failure; `error` says why.
    static std::unique_ptr<TcpFabric> create(NetworkOptions options, TcpEnd end,
                                             std::unique_ptr<ShmFabric> local, std::string* error);
    ~TcpFabric() override;

    Post send(ServiceAddress to, std::span<const std::byte> message) override;
    Post copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
              uint64_t working_set = 0) override {
        return local_->copy(from, to, bytes, id, working_set);
    }
    Post read(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
              uint64_t bytes, uint64_t id, const AlongPart* part = nullptr) override;
    bool sends_along() const override { return !options_.staging_only; }
    void send_along(ServiceAddress to, const BlockName& block, const RegionName& region, uint64_t offset,
                    uint64_t bytes) override;
    Post write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) override {
        return local_->write(from, to, id);
    }
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns) override;
    void wake(const WakeSet& sleepers) override { local_->wake(sleepers); }
    FabricCounters counters() const override;
    std::string take_problem() override;

  private:
    struct Peer;
    struct Frame {
        ServiceAddress from;
        std::vector<std::byte> bytes;
    };

    TcpFabric(NetworkOptions options, TcpEnd end, std::unique_ptr<ShmFabric> local, Fd epoll);

    // Connections::Owner
    void take_stream(uint32_t peer, StreamKind kind, Stream stream) override;
    void on_connected(uint32_t peer, bool speaks_first) override;
    void on_closed(uint32_t peer) override;
    void on_successor(uint32_t peer) override;
    void on_lost(uint32_t peer) override;
    void on_failing(uint32_t peer, const char* why) override;

    bool turn();
    void take_events();
    void mark(Peer& peer);
    size_t collect(std::span<FabricEvent> events);
    void complete(uint64_t id, MoveResult result);

    Peer* find(ServiceAddress peer);
    bool is_connected(const Peer& peer) const;
    bool is_lost(const Peer& peer) const;
    void close(Peer& peer);
    void drop_old_blocks();
    void look_for_answers();

    // data.cc: what is said, and the bytes of blocks
    void say(Peer& peer, const Talk& talk);
    void flush_talk(Peer& peer);
    bool hear(Peer& peer);
    const char* take_talk(Peer& peer, const Talk& talk);
    void request(uint32_t read);
    void ask_for_all(Peer& peer);
    void fail_reads(Peer& peer);
    bool receive(Peer& peer);
    bool serve(Peer& peer);
    void tell_used(Peer& peer);

    NetworkOptions options_;
    std::unique_ptr<ShmFabric> local_;
    TcpEnd end_;
    Fd epoll_;
    std::unique_ptr<Connections> connections_;
    RegionSource source_;
    FabricCounters counters_;
    std::deque<Peer> peers_;              // by number
    std::vector<Peer*> marked_, turned_;  // peers that have something to be done; those of this turn
    std::vector<Peer*> ageing_;           // peers from which blocks come ahead
    std::deque<Frame> frames_;            // to be handed out
    std::vector<Frame> handed_out_;       // by the last poll
    std::deque<FabricEvent> done_;
    TcpReads reads_;
    uint64_t turned_ns_ = 0, silence_ns_ = 0, next_look_ns_ = 0;
    size_t next_looked_at_ = 0;  // a peer
};

}  // namespace longshore
