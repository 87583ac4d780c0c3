// A rank whose operations are carried by a DPU. A stand-in there (src/dpu) does what this library otherwise
// does in the rank's own process; what is left here is to ask for it, to make the exchanges that it needs,
// and to have the buffers where the network can reach them. Everything arrives by one connection; who waits
// sleeps on it.
#pragma once

#include "host/agent_client.h"
#include "host/context.h"
#include "host/far_exchange.h"
#include "session/session.h"
#include "session/stream.h"

namespace longshore {

struct FarGroup : ls_group {
    uint32_t far_id = 0;
    FarExchange steps;
};

// A piece of the shared memory that the network can reach.
struct FarRegion {
    uint64_t begin = 0, end = 0;  // addresses of this process
    uint64_t last_use = 0;
    uint32_t pins = 0, opened = 0;  // opened: the agent's number for it
    bool used = false;
};

struct FarOperation : ls_operation {
    uint32_t far_id = 0;
    uint32_t regions[2] = {};        // of what is sent and received; 0: none
    std::byte* bounces[2] = {};      // where the caller's buffers are not shared memory
    std::vector<BlockSpan> scatter;  // blocks of a packed bounce of the receive buffer, where they belong
};

class Far {
  public:
    explicit Far(ls_context& context) : c_(context) {}
    ~Far();
    // The first exchange is under way when this returns LS_OK.
    int start();
    int test();

    int start_group(const ls_exchange& exchange, ls_group** out);
    int fd() const { return stream_.fd(); }
    int test_group(ls_group& group);
    void free_group(ls_group* group);

    int start_operation(ls_group& group, const ls_arguments& arguments, ls_operation** out);
    int test_operation(ls_operation& operation);
    void free_operation(ls_operation* operation);
    void describe(const ls_operation& operation, char* line, size_t bytes);

    // This ends the stand-in. Only closing would not, where a forked child still has the connection.
    void leave();
    // What has arrived, and what waits to be sent.
    void turn();
    void sleep(uint64_t timeout_ns);
    uint32_t services(ls_service_stats* out, uint32_t max);
    void rank_bytes(ls_collective_bytes out[LS_COLLECTIVE_COUNT]) const;

  private:
    enum class State : uint8_t { kIdentity, kAgent, kAgents, kConnecting, kSession, kReady, kFailed };
    struct Identity;
    struct AgentPlace;

    int step();
    int fail(const std::string& reason);
    void place_ranks();
    int connect();
    void say_hello();
    void look_at_patience(const FarExchange& steps);
    void hear(SessionKind kind, std::span<const std::byte> body);
    void hear_ready(const SessionReady& ready);
    void lose(const std::string& why);
    void say_lost();
    FarExchange* steps_of(uint32_t id);

    bool is_shared(const void* base, uint64_t bytes) const;
    // Where the span is for the network. False: the agent cannot open it.
    bool pin(const void* base, uint64_t bytes, uint32_t* region, uint64_t* offset);
    uint32_t make_room();
    void unpin(uint32_t region);
    void place_sent(FarOperation& op, SessionPost* post);
    void place_received(FarOperation& op, SessionPost* post);
    // The buffer itself; null: memory to bounce it. Where there is neither, what is wanted there fails.
    void place(FarOperation& op, int side, const void* base, uint64_t bytes, SessionPost* post);
    void finish(FarOperation& op, int result);

    ls_context& c_;
    State state_ = State::kIdentity;
    uint64_t machine_ = 0, deadline_ns_ = 0;
    uint32_t machine_first_ = 0;  // rank
    bool leads_ = false;          // this is that rank
    uint64_t job_ = 0;
    Token token_{};
    std::vector<std::byte> agent_address_;
    ExportProbe probe_;
    std::string no_probe_;
    AgentClient agent_;
    Fd connecting_;
    SessionStream stream_;
    bool welcomed_ = false, lost_ = false, said_lost_ = false, stats_there_ = false;
    std::string why_lost_;
    FarExchange steps_;
    std::vector<FarRegion> regions_{1};
    uint64_t clock_ = 0;
    uint32_t next_group_ = 0;
    std::vector<std::unique_ptr<FarOperation>> operations_;
    std::vector<FarOperation*> free_;
    uint64_t bytes_moved_[LS_COLLECTIVE_COUNT] = {};
    std::vector<ls_service_stats> stats_;
};

}  // namespace longshore
