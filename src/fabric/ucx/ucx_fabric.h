// The fabric of service processes on several machines: what stays on a node goes by its ShmFabric, what does
// not by UCX. A network need not reach memory without help: a read asks the service process at the source,
// which sends or offers the bytes from where its ranks' memory is mapped (or from a copy), and this one says
// where they belong. So ranks need no progress, and the bytes cross the link once. Connections are made when
// first needed, and kept. One thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fabric/network.h"
#include "fabric/pending_reads.h"
#include "fabric/probe_times.h"
#include "fabric/ucx/packet.h"
#include "fabric/ucx/worker.h"

namespace longshore {

// A service process's end of the network. What is said goes from `talk` to the peer's `talk`; data leaves by
// `data`, and comes to the peer's `talk`, too. So there are three connections between two of them: one for
// what is said, and one for the data of each direction. On one that they share, as TCP has it, a request
// would wait behind data that is being sent, and so would the word that an offered piece may come: links in
// both directions would be idle in turn.
struct UcxEnd {
    std::unique_ptr<UcxWorker> talk, data;
    // By which others reach it.
    std::vector<std::byte> address;
    // False: it cannot be had; `error` says why.
    bool open(std::string* error);
};

class UcxFabric : public Fabric, private UcxWorker::Listener {
  public:
    static constexpr uint32_t kWindow = 16;  // frames sent to a peer that it has not looked at
    // Of what is read, in one message. A card moves what is offered without copies on the way; else large
    // pieces would only wait for each other, and one that is longer with its header than UCX's segments for
    // TCP (64 KiB) comes in two, which UCX puts together in memory of its own before anybody sees it.
    static constexpr uint64_t kOfferedBytesMax = 256 * 1024;
    static constexpr uint64_t kSentBytesMax = 60 * 1024;  // as much is quicker sent than offered

    // Null on failure; `error` says why.
    static std::unique_ptr<UcxFabric> create(NetworkOptions options, UcxEnd end,
                                             std::unique_ptr<ShmFabric> local, std::string* error);
    ~UcxFabric() override;

    Post send(ServiceAddress to, std::span<const std::byte> message) override;
    Post copy(const MemoryRef& from, const MemoryRef& to, uint64_t bytes, uint64_t id,
              uint64_t working_set = 0) override {
        return local_->copy(from, to, bytes, id, working_set);
    }
    Post read(ServiceAddress owner, const RegionName& region, uint64_t offset, const MemoryRef& to,
              uint64_t bytes, uint64_t id, const AlongPart* part = nullptr) override;
    Post write(std::span<const std::byte> from, const MemoryRef& to, uint64_t id) override {
        return local_->write(from, to, id);
    }
    size_t poll(std::span<FabricEvent> events, uint64_t wait_ns) override;
    void wake(const WakeSet& sleepers) override { local_->wake(sleepers); }
    FabricCounters counters() const override;
    std::string take_problem() override;

  private:
    struct Peer;
    struct Request;
    struct Taking;
    struct Lending;
    struct Frame {
        ServiceAddress from;
        std::vector<std::byte> bytes;
    };
    struct Arrived {  // a packet to be looked at when UCX's callbacks are over
        Packet packet;
        std::vector<std::byte> payload;
        UcxOffer offer = nullptr;
        uint64_t offered = 0;  // bytes
    };

    UcxFabric(NetworkOptions options, UcxEnd end, std::unique_ptr<ShmFabric> local);

    // UcxWorker::Listener
    void on_message(std::span<const std::byte> header, std::span<const std::byte> payload) override;
    void on_offer(std::span<const std::byte> header, uint64_t bytes, UcxOffer offer) override;
    void on_taken(uint64_t id, bool ok) override;
    void on_reached(uint64_t, bool) override {}
    void on_sent(uint64_t lent) override;
    void on_broken(UcxEndpoint* endpoint) override;

    // ucx_fabric.cc: events
    void turn();
    size_t collect(std::span<FabricEvent> events);
    void take(Arrived& arrived);
    void complete(uint64_t id, MoveResult result);

    // connections.cc: how they come and go
    Peer* find(ServiceAddress peer);
    UcxEndpoint* reach(UcxWorker& worker, const Peer& peer);
    void connect(Peer& peer);
    void disconnect(Peer& peer);
    void send_packet(Peer& peer, Packet packet, std::span<const std::byte> payload = {}, uint64_t lent = 0);
    Peer* sender_of(const Packet& packet);
    bool is_current(const Peer& peer, const Packet& packet) const;
    void greet(Peer& peer, const Packet& packet, std::span<const std::byte> address);
    void take_frame(Peer& peer, const Packet& packet, std::vector<std::byte> bytes);
    void break_off(Peer& peer, const char* why);
    void lose(Peer& peer);
    void look_at_peers(uint64_t now);
    static uint64_t asks_in(uint64_t ns);
    void refuse(const char* what);
    std::string name_of(const Peer& peer) const;

    // reads.cc
    void request(uint32_t read);
    void reissue(Peer& peer);
    void fail_reads(Peer& peer);
    PendingRead* find_read(const Peer& peer, uint64_t number);
    bool expects(Peer& peer, const PendingRead& read, uint64_t offset, uint64_t bytes);
    void take_data(Peer& peer, const Packet& packet, std::span<const std::byte> payload);
    void take_offer(Peer& peer, const Packet& packet, uint64_t bytes, UcxOffer offer);
    void note_received(PendingRead& read, uint64_t bytes);
    void end_read(PendingRead& read);
    void take_held(Peer& peer, const Packet& packet);
    void take_request(Peer& peer, const Packet& packet);
    void serve();
    bool serve(Peer& peer, Request& request);
    void drop_requests(Peer& peer);
    uint64_t lend(const Peer& peer, Request& request);
    void end_lending(const Request& request, bool said);
    void end_lent_piece(uint32_t lending);
    void say_what_held();
    uint32_t borrow_piece();
    MoveResult find_piece(const Request& request, uint64_t bytes, std::span<const std::byte>* piece,
                          uint64_t* lent, bool* is_open);

    NetworkOptions options_;
    std::unique_ptr<ShmFabric> local_;
    RegionSource source_;
    UcxEnd end_;
    FabricCounters counters_;
    std::vector<std::vector<Peer>> peers_;  // by node, service process
    std::deque<Arrived> arrived_;
    std::vector<UcxOffer> unwanted_;
    std::deque<Frame> frames_;       // to be handed out
    std::vector<Frame> handed_out_;  // by the last poll
    std::deque<FabricEvent> done_;
    PendingReads reads_;
    std::vector<Taking> takings_;
    std::vector<uint32_t> free_takings_;
    std::vector<std::unique_ptr<std::byte[]>> pieces_;  // for memory that is not mapped here
    std::vector<uint32_t> free_pieces_;
    std::vector<Lending> lendings_;
    std::vector<uint32_t> free_lendings_, over_lendings_;
    uint32_t pieces_sending_ = 0;
    uint32_t requests_ = 0;  // of all peers, not yet answered
    size_t next_served_ = 0;
    const ProbeTimes probes_;
    size_t next_asked_ = 0;  // the node with whose service processes the next look begins
    uint64_t turned_ns_ = 0, looked_ns_ = 0;
    bool watching_ = false;  // some peer is to be looked at now and then
    std::string problem_;
    bool told_refused_ = false;
};

}  // namespace longshore
