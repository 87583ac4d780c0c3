#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "dpu_bench/mover.h"
#include "dpu_bench/verbs_port.h"

namespace longshore::dpu_bench {
namespace {

constexpr int kInFlightMax = 64;     // transfers of this process
constexpr int kReadsAtOnceMax = 16;  // of a connection
constexpr int kPollsMax = 200;       // for a completion that is about to come; then the process sleeps
constexpr int kStallLimitMs = 60000;
constexpr std::size_t kPieceMax = std::size_t(1) << 30;

// What is not acknowledged within 4.096 us * 2^18, about a second, is sent again, so often; then the peer is
// gone. Soft-RoCE takes 7 for "for ever".
constexpr std::uint8_t kAckTimeout = 18, kRetries = 6;

// What open() hands out: this, then for each rank the number of the connection that waits for it.
struct Contact {
    ibv_gid gid;
    std::uint16_t lid;
    std::uint8_t mtu, unused;
};

[[noreturn]] void fail(const std::string& what, int code) {
    throw std::runtime_error(what + ": " + std::strerror(code));
}

std::string to_text(const ibv_gid& gid) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, gid.raw, text, sizeof text);
    return text;
}

class VerbsMover : public Mover {
  public:
    explicit VerbsMover(const std::string& device)
        : port_(open_port(device)),
          domain_(ibv_alloc_pd(port_.context.get())),
          channel_(ibv_create_comp_channel(port_.context.get())),
          completions_(ibv_create_cq(port_.context.get(), kInFlightMax, nullptr, channel_.get(), 0)) {
        if (!domain_ || !channel_ || !completions_) fail("cannot use the RDMA device " + port_.device, errno);
        ibv_device_attr attributes{};
        ibv_query_device(port_.context.get(), &attributes);
        reads_given_ = std::uint8_t(std::min(attributes.max_qp_rd_atom, kReadsAtOnceMax));
        reads_taken_ = std::uint8_t(std::min(attributes.max_qp_init_rd_atom, kReadsAtOnceMax));
        piece_max_ = std::min(kPieceMax, std::size_t(port_.attributes.max_msg_sz));
    }

    const char* name() const override { return to_string(MoverKind::kVerbs); }
    std::string description() const override {
        return std::string(name()) + ", " + port_.device + " port " + std::to_string(port_.number) + ", " +
               to_text(port_.gid);
    }
    bool one_machine_only() const override { return false; }

    std::vector<std::uint8_t> open(int rank, int ranks) override;
    void join(std::span<const std::uint8_t> contacts) override;
    RegionHandle expose(void* base, std::size_t bytes) override;

    void connect(std::span<const RegionHandle> handles) override {
        handles_.assign(handles.begin(), handles.end());
    }

    void read(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) override {
        move(peer, IBV_WR_RDMA_READ, remote_offset, local_offset, bytes);
    }

    void write(int peer, std::size_t remote_offset, std::size_t local_offset, std::size_t bytes) override {
        move(peer, IBV_WR_RDMA_WRITE, remote_offset, local_offset, bytes);
    }

    void wait_all() override {
        while (in_flight_ > 0) take_some();
        if (error_.empty()) return;
        const std::string error = std::exchange(error_, "");
        throw std::runtime_error(error);
    }

  private:
    Connection make_connection();
    void reach(int peer, const Contact& contact, std::uint32_t number);
    void move(int peer, ibv_wr_opcode opcode, std::size_t remote_offset, std::size_t local_offset,
              std::size_t bytes);
    bool post(int peer, ibv_wr_opcode opcode, std::uint64_t remote, char* local, std::size_t bytes);
    bool take();
    void take_some();
    void note_failure(const ibv_wc& completion);

    Port port_;
    Domain domain_;
    Channel channel_;
    Completions completions_;
    std::uint8_t reads_given_ = 0, reads_taken_ = 0;
    std::size_t piece_max_ = 0;

    int rank_ = 0;
    std::vector<Connection> connections_;  // by rank; none to itself
    Registration region_;
    std::vector<RegionHandle> handles_;
    int in_flight_ = 0;
    std::string error_;  // of the first transfer that failed since the last wait
};

Connection VerbsMover::make_connection() {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = completions_.get();
    wanted.cap = {.max_send_wr = kInFlightMax,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    Connection connection(ibv_create_qp(domain_.get(), &wanted));
    if (!connection) fail("cannot make a connection on the RDMA device " + port_.device, errno);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = port_.number;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    const int code = ibv_modify_qp(connection.get(), &attributes,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (code != 0) fail("cannot prepare a connection on the RDMA device " + port_.device, code);
    return connection;
}

std::vector<std::uint8_t> VerbsMover::open(int rank, int ranks) {
    rank_ = rank;
    const Contact contact = {port_.gid, port_.attributes.lid, std::uint8_t(port_.attributes.active_mtu), 0};
    std::vector<std::uint8_t> bytes(sizeof contact + std::size_t(ranks) * sizeof(std::uint32_t));
    std::memcpy(bytes.data(), &contact, sizeof contact);
    connections_.resize(std::size_t(ranks));
    for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        Connection& connection = connections_[std::size_t(peer)];
        connection = make_connection();
        const std::uint32_t number = connection->qp_num;
        std::memcpy(bytes.data() + sizeof contact + std::size_t(peer) * sizeof number, &number,
                    sizeof number);
    }
    return bytes;
}

void VerbsMover::join(std::span<const std::uint8_t> contacts) {
    const std::size_t ranks = connections_.size(), each = contacts.size() / ranks;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (int(peer) == rank_) continue;
        Contact contact;
        std::uint32_t number = 0;
        const std::uint8_t* bytes = contacts.data() + peer * each;
        std::memcpy(&contact, bytes, sizeof contact);
        std::memcpy(&number, bytes + sizeof contact + std::size_t(rank_) * sizeof number, sizeof number);
        reach(int(peer), contact, number);
    }
}

// Both directions count packets from the number of the connection that sends them.
void VerbsMover::reach(int peer, const Contact& contact, std::uint32_t number) {
    ibv_qp* connection = connections_[std::size_t(peer)].get();
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = std::min(port_.attributes.active_mtu, ibv_mtu(contact.mtu));
    attributes.dest_qp_num = attributes.rq_psn = number;
    attributes.max_dest_rd_atomic = reads_given_;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.port_num = port_.number;
    attributes.ah_attr.dlid = contact.lid;
    if (port_.needs_global_address()) {
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.grh.dgid = contact.gid;
        attributes.ah_attr.grh.sgid_index = std::uint8_t(port_.gid_index);
        attributes.ah_attr.grh.hop_limit = 64;
    }
    int code = ibv_modify_qp(connection, &attributes,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (code == 0) {
        attributes.qp_state = IBV_QPS_RTS;
        attributes.sq_psn = connection->qp_num;
        attributes.timeout = kAckTimeout;
        attributes.retry_cnt = kRetries;
        attributes.rnr_retry = kRetries;
        attributes.max_rd_atomic = reads_taken_;
        code = ibv_modify_qp(connection, &attributes,
                             IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    if (code != 0)
        fail("cannot reach rank " + std::to_string(peer) + " at " + to_text(contact.gid) + " from port " +
                 std::to_string(port_.number) + " of " + port_.device +
                 " (are both in one network? --device chooses)",
             code);
}

RegionHandle VerbsMover::expose(void* base, std::size_t bytes) {
    region_.reset();
    region_.reset(ibv_reg_mr(domain_.get(), base, bytes,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
    if (!region_)
        fail("cannot register " + std::to_string(bytes) + " bytes with " + port_.device +
                 " (it locks them in memory: is 'ulimit -l' large enough?)",
             errno);
    return {reinterpret_cast<std::uint64_t>(base), region_->rkey};
}

// In pieces of what the device takes at once.
void VerbsMover::move(int peer, ibv_wr_opcode opcode, std::size_t remote_offset, std::size_t local_offset,
                      std::size_t bytes) {
    if (!error_.empty()) return;
    if (local_offset > region_->length || bytes > region_->length - local_offset) {
        error_ = "a transfer leaves this process's region";
        return;
    }
    char* local = static_cast<char*>(region_->addr) + local_offset;
    std::uint64_t remote = handles_.at(std::size_t(peer)).address + remote_offset;
    if (peer == rank_) {
        char* own = static_cast<char*>(region_->addr) + remote_offset;
        opcode == IBV_WR_RDMA_READ ? std::memmove(local, own, bytes) : std::memmove(own, local, bytes);
        return;
    }
    while (bytes > 0) {
        const std::size_t piece = std::min(bytes, piece_max_);
        while (in_flight_ == kInFlightMax) take_some();
        if (!error_.empty() || !post(peer, opcode, remote, local, piece)) return;
        remote += piece;
        local += piece;
        bytes -= piece;
    }
}

bool VerbsMover::post(int peer, ibv_wr_opcode opcode, std::uint64_t remote, char* local, std::size_t bytes) {
    ibv_sge here = {reinterpret_cast<std::uint64_t>(local), std::uint32_t(bytes), region_->lkey};
    ibv_send_wr request{}, *refused = nullptr;
    request.wr_id = std::uint64_t(peer) << 1 | (opcode == IBV_WR_RDMA_WRITE);
    request.sg_list = &here;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = std::uint32_t(handles_[std::size_t(peer)].key);
    const int code = ibv_post_send(connections_[std::size_t(peer)].get(), &request, &refused);
    if (code != 0)
        error_ = "cannot start a transfer to rank " + std::to_string(peer) + ": " + std::strerror(code);
    else
        ++in_flight_;
    return code == 0;
}

// Takes the completions that are there. False: there are none.
bool VerbsMover::take() {
    ibv_wc finished[16];
    const int count = ibv_poll_cq(completions_.get(), int(std::size(finished)), finished);
    if (count < 0)
        throw std::runtime_error("the RDMA device " + port_.device +
                                 " has failed; the kernel's log may say why");
    for (const ibv_wc& one : std::span(finished, std::size_t(count)))
        if (one.status != IBV_WC_SUCCESS) note_failure(one);
    in_flight_ -= count;
    return count > 0;
}

// Returns when at least one was taken. An event may be an old one, of a completion that was taken before it
// was waited for.
void VerbsMover::take_some() {
    for (;;) {
        for (int i = 0; i < kPollsMax; ++i)
            if (take()) return;
        if (const int code = ibv_req_notify_cq(completions_.get(), 0); code != 0)
            fail("the RDMA device " + port_.device + " tells no completions", code);
        if (take()) return;
        pollfd event = {channel_->fd, POLLIN, 0};
        const int ready = poll(&event, 1, kStallLimitMs);
        if (ready == 0)
            throw std::runtime_error("no transfer was completed in " + std::to_string(kStallLimitMs / 1000) +
                                     " s, and none failed; ibv_rc_pingpong tells whether the RDMA device " +
                                     port_.device + " works at all");
        if (ready < 0 && errno == EINTR) continue;
        ibv_cq* whose = nullptr;
        void* context = nullptr;
        if (ready < 0 || ibv_get_cq_event(channel_.get(), &whose, &context) != 0)
            fail("cannot wait for the RDMA device " + port_.device, errno);
        ibv_ack_cq_events(whose, 1);
    }
}

// What stood behind it on the same connection is flushed, and only the cause is told.
void VerbsMover::note_failure(const ibv_wc& completion) {
    if (!error_.empty()) return;
    error_ = std::string("cannot ") + ((completion.wr_id & 1) != 0 ? "write" : "read") +
             " the memory of rank " + std::to_string(completion.wr_id >> 1) + ": " +
             ibv_wc_status_str(completion.status);
    if (completion.status == IBV_WC_RETRY_EXC_ERR)
        error_ += "; has its process ended, or the network between the machines failed?";
    if (completion.status == IBV_WC_REM_ACCESS_ERR)
        error_ += "; the transfer leaves what that rank has registered";
    if (completion.status == IBV_WC_WR_FLUSH_ERR) error_ += "; an earlier transfer to it has failed";
}

}  // namespace

std::unique_ptr<Mover> make_verbs_mover(const std::string& device) {
    return std::make_unique<VerbsMover>(device);
}

}  // namespace longshore::dpu_bench
