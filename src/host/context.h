// What stands behind host.h's opaque types. The context owns everything of this rank: its attachment to the
// node, its engine, its groups and operations. One call at a time per context; the caller locks.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/giving_up.h"
#include "engine/rank_engine.h"
#include "fabric/shm/control.h"
#include "fabric/shm/doorbell.h"
#include "fabric/shm/node_copier.h"
#include "host/host.h"
#include "host/meeting.h"
#include "host/region_cache.h"
#include "host/start_service.h"

namespace longshore {

// The bytes of one operation as the caller's addresses; blocks count from the span's base.
struct Plan {
    const std::byte* send = nullptr;
    uint64_t send_bytes = 0;
    std::byte* recv = nullptr;
    uint64_t recv_bytes = 0;
    bool copy_send = false;  // small: goes into the arena, and the caller's buffer is free at once
    bool snapshot = false;   // in place: the receive buffer is the send buffer
    bool send_is_full = true, recv_is_full = true;  // no gaps between the blocks
    std::vector<BlockSpan> send_blocks, recv_blocks;
    std::vector<BlockSpan> copy_from;  // blocks of a packed copy, where they lie in `send`
};
// Whether a collective, an algorithm and a root of a group of `size` ranks are what they may be.
bool are_sound(const ls_arguments& arguments, uint32_t size);
// LS_OK or an error; nothing is registered yet. The arguments are sound.
int make_plan(const ls_arguments& arguments, uint32_t rank, uint32_t size, uint64_t eager_bytes, Plan* plan,
              OperationArguments* out);

// Packs blocks one after another: where they come from, and where they are in the copy. Returns its bytes.
uint64_t pack(std::vector<BlockSpan>* blocks, std::vector<BlockSpan>* from);
// What is sent, into as many bytes as the plan says.
void copy_out(const Plan& plan, std::byte* to);

// What a plan was made of. Programs repeat their calls: one with the same arguments needs no new plan.
class PlanKey {
  public:
    void remember(const ls_arguments& arguments, uint64_t group_id, uint32_t size, uint64_t eager_bytes);
    bool matches(const ls_arguments& arguments, uint64_t group_id, uint32_t size, uint64_t eager_bytes) const;
    void forget() { group_id_ = 0; }

  private:
    uint64_t group_id_ = 0;  // 0: nothing
    uint64_t eager_bytes_ = 0;
    ls_arguments arguments_{};
    std::vector<std::byte> numbers_;  // counts and displacements
};

}  // namespace longshore

struct ls_operation {
    enum class State : uint8_t { kFree, kWaiting, kPosted, kComplete };
    State state = State::kFree;
    ls_group* group = nullptr;
    longshore::OperationArguments arguments;
    longshore::Plan plan;
    std::vector<std::byte> data;             // of a stand-in: what is sent, if it came with the operation
    longshore::PlanKey key;                  // of the plan
    uint32_t arrays = longshore::kNoArrays;  // of the plan's blocks, kept in the node's memory
    bool prepared = false, ring_services = false, reported = false;
    longshore::RecordId record;
    int result = LS_IN_PROGRESS;
    uint32_t idle_looks = 0;       // that found nothing to do: each operation reads the clock now and then
    uint64_t waited_since_ns = 0;  // 0: the caller has not waited yet
    longshore::GivingUp giving_up;
    uint64_t copy_offset = 0, copy_bytes = 0;  // of the send blocks' copy in the arena
    longshore::Mapping snapshot;               // ... or outside it
    longshore::AcquiredSpan sent, received;    // while it is prepared
};

struct ls_group {
    enum class State : uint8_t { kLeaving, kPlacing, kJoining, kAgreeing, kReady, kFailed };
    State state = State::kLeaving;
    ls_context* context = nullptr;
    ls_exchange exchange{};
    std::vector<std::byte> out, in;
    uint64_t id = 0, sequence = 0;
    longshore::GroupSlot slot;
    uint32_t rank = 0, size = 0, told = 0;
    uint32_t nodes = 0, ranks_per_node = 0;                     // with members; the most members on one
    longshore::JoinResult result = longshore::JoinResult::kOk;  // of this rank's join
    bool answered = false, joined = false, several_nodes = false, dying = false;
    std::vector<longshore::Member> members;  // until all have joined; then they are in the node's memory
    std::deque<ls_operation*> waiting;       // started, not yet posted, in order
    uint32_t open = 0;
    uint64_t deadline_ns = 0;
};

namespace longshore {
class Role;
}

struct ls_context {
    ls_context();
    ~ls_context();

    enum class State : uint8_t {
        kIdentity,
        kStarting,
        kAddresses,
        kAttaching,
        kEntries,
        kTelling,
        kAgreeing,
        kExplaining,
        kReady,
        kFailed
    };
    State state = State::kIdentity;
    ls_options options{};
    ls_host host{};                // what options.host points to, if anything
    std::vector<std::byte> agent;  // and what host.agent does
    std::string service_path, service_cores, network_interfaces, dpu, error;
    ls_exchange exchange{};
    std::vector<std::byte> out, in;  // of the exchange in progress
    std::string problem;             // of this rank, until all know

    std::vector<longshore::Place> places;         // by world rank
    std::unique_ptr<longshore::Meeting> meeting;  // while ranks attach
    std::vector<std::byte> own_entry;             // of the address book: this node's, while ranks attach
    std::vector<std::vector<std::byte>> book;     // packets of it that this node's supervisor must hear
    uint64_t job_name = 0;                        // the same on all ranks of the job, and on none of another
    bool network = false;                         // nodes reach each other over a network only
    ls_surroundings surroundings{};
    // Of a job on DPUs: what was asked for, whether ranks' memory has aliases there, and on a node's leader
    // what tells whether it can have.
    ls_memory_mode far_mode = LS_MEMORY_AUTO;
    bool aliases = false;
    longshore::ExportProbe probe;
    std::string no_probe;
    uint32_t rank = 0, size = 0, node = 0, node_count = 1, local = 0, local_count = 1;
    uint32_t neighbour_pid = 0;
    uint64_t neighbour_probe = 0, neighbour_value = 0, probe_value = 0;
    longshore::ServiceStarter starter;
    uint64_t deadline_ns = 0;
    uint32_t packets_told = 0;  // of the book
    uint32_t machine_ranks = 1,
             services_before = 0;  // of this machine: ranks; service processes of nodes before
    bool asked = false, answered = false;
    bool failed_in_turn = false;  // `problem` is there because another rank has one

    longshore::SocketName supervisor_name;  // and its token, once this rank has attached
    longshore::Token supervisor_token{};
    longshore::Fd control, memory_file;
    longshore::Mapping mapping, sight, engine_block, alive;  // alive: its first byte is 0 in a forked child
    longshore::NodeMemory memory;
    std::unique_ptr<longshore::Doorbell> doorbell;
    std::unique_ptr<longshore::NodeCopier> copier;
    std::unique_ptr<longshore::RankEngine> engine;
    longshore::RegionCache regions;
    longshore::WakeSet wake;
    bool cooperative = true;
    bool breakdown = false;
    ls_times last_times{};
    uint32_t waits = 0;  // begun and not ended

    uint64_t next_group = 1;
    std::vector<ls_group*> groups;
    // Groups that the supervisor still counts this rank in and that it has not been told to leave, because
    // the socket was full. Each holds a place of the node's table: never more than NodeLimits::groups_max.
    std::vector<uint64_t> leaves;
    uint32_t waiting_count = 0;  // operations that are started and not yet posted

    uint32_t events_seen = 0;
    struct Life {
        uint32_t gone = 0;  // the newest incarnation known to be gone
        uint64_t gone_since_ns = 0;
        uint64_t unlocked_since_ns = 0;  // the next one has let go of its lock, and may not be over yet
    };
    std::vector<Life> lives;  // by service process
    bool service_gone = false, said_why = false;
    bool may_be_read = false;  // by any process of this user, where Yama would forbid it

    std::vector<ls_trace_event> trace;  // a ring
    uint64_t trace_written = 0, trace_taken = 0;
    std::vector<uint64_t> service_trace_taken;

    std::unique_ptr<longshore::Role>
        role;  // what this process is; the last member: it uses the others when it goes
};

namespace longshore {

// No block goes directly from rank to rank.
bool stages_everything(const ls_options& options);
// Equal for processes that can reach each other's memory and sockets.
uint64_t machine_identity(const ls_options& options);
void log_line(const ls_context& context, int level, const char* line);
bool is_forked(const ls_context& context);
// Where Yama restricts who may read a process's memory, this lets any process of this user, until the context
// goes. Nobody in particular can be named: peers and service processes have no ancestor in common but the
// first process.
void let_others_read(ls_context& context);
// Sends what the engine wants woken.
void flush_wake(ls_context& context);
// Claims of incarnations that the kernel says are gone are set free; whether all service processes are there.
void look_at_lives(ls_context& context, uint64_t now);
// For observers: who this rank is, and since when it waits for what (now and then, while it waits).
void show_rank(ls_context& context);
void show_wait(ls_context& context, const ls_operation& operation, uint64_t now);
// With the breakdown switched on: hands out what was noted of a record whose operation is over.
void take_times(ls_context& context, RecordId record);
// Takes what the supervisor has said: lines for the user, and answers to groups that join, of any thread.
// Then sends it the leaves that it has not been told.
void talk_to_supervisor(ls_context& context);
// Says that this process goes, before the connection's end does: by a word that no full socket refuses.
void note_leaving(const ls_context& context);
// Sends what the socket takes now; returns whether no leave is left.
bool tell_leaves(ls_context& context);
// Takes one packet from the supervisor; lines for the user are logged on the way. kAgain: none.
Io receive_control(ls_context& context, void* buffer, size_t capacity, size_t* bytes,
                   std::vector<Fd>* descriptors);
void attach_to_memory(ls_context& context, const AttachAnswer& answer, std::vector<Fd> descriptors);
// One step of the ranks' coming together on their nodes; NodeRole::test_job.
int test_attaching(ls_context& context);
// Groups that were freed, and of which no record is left: that of a stable send outlives its operation.
void drop_dying_groups(ls_context& context);
// Runs `body`, in which only memory may run out; nothing is thrown beyond it.
template <class Body>
int guarded(const Body& body) noexcept {
    try {
        return body();
    } catch (...) {
        return LS_ERR_UNAVAILABLE;
    }
}

}  // namespace longshore
