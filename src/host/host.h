/* host.h: the library in the application's process. A C API on an explicit context: no globals, nothing blocks
 * (ls_sleep alone waits, for as long as it is told). The MPI shim is its first client; tests/host has one that is no
 * MPI program.
 *
 * Collective steps (context, group) need the caller's allgather; they are started, then tested until they are over,
 * on all members. Everything else is local. One context may be used from several threads, one call at a time per
 * context (the caller locks).
 *
 * Returns: LS_OK, LS_IN_PROGRESS, or a negative LS_ERR_*. A text for the user: ls_context_error(). */
#ifndef LONGSHORE_HOST_H
#define LONGSHORE_HOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LS_OK = 0,
    LS_IN_PROGRESS = 1,
    LS_ERR_UNAVAILABLE = -1,  /* this job or group cannot be offloaded; all members are told the same */
    LS_ERR_MEMORY = -2,       /* a buffer could not be read or written */
    LS_ERR_TRUNCATED = -3,    /* a block was larger than its place */
    LS_ERR_SERVICE = -4,      /* a service process that this needs is gone */
    LS_ERR_ARGUMENT = -5,
    LS_ERR_LIMIT = -6         /* something did not answer in time */
};

typedef struct ls_context ls_context;
typedef struct ls_group ls_group;
typedef struct ls_operation ls_operation;

/* A nonblocking allgather over the members of what is being made (job or group), given by the caller. */
typedef struct ls_exchange {
    void* user;
    uint32_t rank, size;
    /* Everybody gives `bytes` at `in`, everybody gets size * bytes at `out`. Buffers stay valid until it is over.
     * Returns LS_OK, or negative. One at a time. */
    int (*start)(void* user, const void* in, void* out, size_t bytes);
    int (*test)(void* user); /* LS_OK when it is over, LS_IN_PROGRESS, or negative */
} ls_exchange;

/* How service processes move blocks: from one rank's memory into another's, or all of them through staging memory of
 * their own. Auto: directly where they can reach the ranks' memory; on a DPU, where all can make aliases of it. */
typedef enum ls_memory_mode { LS_MEMORY_AUTO, LS_MEMORY_DIRECT, LS_MEMORY_STAGING } ls_memory_mode;

/* Memory of the caller's that other processes of the node may map: one memfd, sealed against shrinking, mapped as a
 * whole. Blocks in it are moved without the help of the system. */
typedef struct ls_shared_memory {
    int file;
    uint64_t identity; /* its inode number; 0: there is none */
    void* base;
    size_t bytes;
    /* Null, or what makes a part of other memory shared where it is, in the same file: the bytes from *begin to *end of
     * it, *offset in the file. 0: not possible. Nobody writes to it meanwhile, and it stays so until a fork. */
    int (*adopt)(const void* base, size_t bytes, uint64_t* begin, uint64_t* end, uint64_t* offset);
    uint32_t adopt_after; /* once others have moved so many times its bytes */
    /* All null, or blocks of that memory, of any thread; allocate gives null if there is no room. */
    void* (*allocate)(size_t bytes);
    void (*release)(void* block);
    /* From then on what is freed is not given back to the system (memory/heap.h). */
    void (*keep)(void);
    /* All null, where nothing is ever taken out of that memory; or what is asked before others reach a buffer in it
     * (memory/heap.h): a fork makes blocks private that are not in use so. */
    int (*open_buffer)(const void* base, size_t bytes, int anywhere);
    void (*close_buffer)(int place);
    uint32_t (*adopted_forks)(void);
} ls_shared_memory;

/* The caller is a stand-in on a DPU (src/dpu): the rank, and its memory, are on another machine. */
typedef struct ls_host {
    uint64_t machine; /* the same for the ranks of a machine, and for no others */
    const void* agent; /* by which the network reaches the agent there; of the machine's first rank */
    size_t agent_bytes;
    const void* probe; /* memory that the agent has exported, to try whether it can have an alias; likewise */
    size_t probe_bytes;
    const char* no_probe; /* why there is none; may be null */
} ls_host;

/* Equal on all ranks (the caller has seen to it), but for `shared` and `host`. Zero-initialise, then set; see
 * src/base/settings.h for meanings. */
typedef struct ls_options {
    uint32_t service_count, service_reads_max, service_spin_us, service_restarts_max;
    const char* service_path;  /* of longshored */
    const char* service_cores; /* "auto", "none" or a list */
    uint32_t nodes_count;      /* emulated nodes; 0: as the machines are */
    int nodes_strided;
    int network_always; /* between emulated nodes, too (for tests) */
    /* Of a host whose work a DPU does, for ranks that compute: where a core is spare, or as a test says. */
    enum { LS_AGENT_COPIES_AUTO, LS_AGENT_COPIES_NEVER, LS_AGENT_COPIES_ALWAYS } agent_copies;
    int tasks_between_nodes; /* nodes take tasks of each other */
    int wait_cooperative;
    uint32_t wait_report_s, limit_s;
    uint64_t eager_bytes, chunk_bytes;
    int trace; /* keep trace events */
    int memory_inaccessible;
    ls_memory_mode memory_mode;
    /* Between machines. */
    enum { LS_NETWORK_AUTO, LS_NETWORK_TCP, LS_NETWORK_UCX } network;
    int network_tls;                                 /* TCP: not 0: what crosses the network is encrypted */
    uint16_t network_port_first, network_port_last; /* TCP: where service processes listen; 0: anywhere */
    const char* network_interfaces;                  /* TCP: "eth0,ib0"; null or empty: all */
    uint64_t staging_bytes; /* of each service process; 0: none, so that everything goes directly */
    ls_shared_memory shared;
    const ls_host* host; /* null: the caller is the rank itself; else copied */
    const char* dpu;     /* where a DPU carries this rank's operations, HOST[:PORT]; null: none does, on any host */
    const char* dpu_problem; /* not null: why nobody knows that of this host */
    /* One line for the user; level 0 warn, 1 info, 2 debug, 3 trace. May be null. */
    void (*log)(void* user, int level, const char* line);
    void* log_user;
} ls_options;

/* --- the job. After LS_OK from ls_context_test every rank may make groups; after an error none may, on any rank. */
int ls_context_start(const ls_options* options, const ls_exchange* exchange, ls_context** out);
int ls_context_test(ls_context* context);
const char* ls_context_error(const ls_context* context);
/* Of what ranks and nodes tell each other. All ranks of a job must have the same: see to it before ls_context_start. */
uint64_t ls_layout(void);
/* Detaches. No operation may be open, on any rank: a node's services go when its last rank has gone, and others may
 * still wait for what they have to say. So meet first (a barrier of the caller's). Local. */
void ls_context_free(ls_context* context);

/* --- groups. `exchange` is over the members; it is needed until ls_group_test is over. */
int ls_group_start(ls_context* context, const ls_exchange* exchange, ls_group** out);
int ls_group_test(ls_group* group);
/* Local. Open operations of the group finish first: the group goes when they have. */
void ls_group_free(ls_group* group);

/* On how many nodes the group has members, and the largest number of them on one; equal on all members. After LS_OK
 * from ls_group_test. */
void ls_group_shape(const ls_group* group, uint32_t* nodes, uint32_t* ranks_per_node);

/* --- operations: all members start the same ones in the same order on a group. */
typedef enum ls_collective {
    LS_ALLTOALL,
    LS_ALLTOALLV,
    LS_ALLGATHER,
    LS_ALLGATHERV,
    LS_BCAST,
    LS_GATHER,
    LS_GATHERV,
    LS_SCATTER,
    LS_SCATTERV
} ls_collective;
enum { LS_COLLECTIVE_COUNT = 9 };

/* How an operation's data move; the same on all ranks. Staged: through memory of the service processes. Staged
 * hierarchical (allgather family, bcast): into shared memory of each node, from which its ranks copy; LS_ERR_ARGUMENT where
 * a DPU does the rank's work, because it shares none with them. */
typedef enum ls_algorithm { LS_DIRECT, LS_STAGED, LS_STAGED_HIERARCHICAL } ls_algorithm;

/* Counts and displacements in elements of the given size, as MPI has them, read through these, not copied before the
 * call: 32-bit or 64-bit integers. Negative displacements are legal. */
typedef struct ls_vector {
    const void* counts;
    const void* displacements;
    int is_64bit;
    size_t element_bytes;
} ls_vector;

typedef struct ls_arguments {
    ls_collective collective;
    ls_algorithm algorithm;
    const void* send;
    void* recv;
    int in_place;             /* MPI_IN_PLACE: no send buffer; LS_SCATTER(V): no receive buffer, at the root only */
    uint32_t root;            /* LS_BCAST (its buffer is recv on every rank), LS_GATHER(V), LS_SCATTER(V) */
    size_t send_block_bytes;  /* per block, or of the one block that a rank sends */
    size_t recv_block_bytes;  /* per block, or of the one block that a rank receives */
    ls_vector send_vector, recv_vector; /* v-collectives, where there is a block per rank */
    int blocking; /* the caller is about to wait: no doorbell where no service process is needed */
} ls_arguments;

/* Makes the operation next in the group's order. Copies what it needs of `arguments`, so counts may go afterwards. */
int ls_operation_start(ls_group* group, const ls_arguments* arguments, ls_operation** out);
/* Moves at most a chunk itself (unless cooperative wait is off), then looks. LS_OK: complete, and the buffers are the
 * caller's again. `moved`, if not null: whether this call got anything done (then call again soon). */
int ls_operation_test(ls_operation* operation, int* moved);
/* How many started operations wait for older ones to end; peers may wait for them. */
uint32_t ls_waiting(const ls_context* context);
/* Takes note of what is over and posts what waited for that; moves nothing. For a caller that tests nothing now. */
void ls_advance(ls_context* context);
/* After LS_OK or an error from test. */
void ls_operation_free(ls_operation* operation);

/* Packed data: memory of this context that peers read fastest. Null if there is no room (use malloc). */
void* ls_allocate(ls_context* context, size_t bytes);
void ls_release(ls_context* context, void* memory, size_t bytes);

/* Waits until something may have changed for this rank, at most timeout_ns. */
void ls_sleep(ls_context* context, uint64_t timeout_ns);
/* The same for one of several threads, which keeps nobody out of the context meanwhile. What ls_sleeper_begin fills in
 * is looked at by ls_sleeper_sleep alone, which uses no context; whatever happened since the one or the last sleep
 * ends the next at once. Where several threads of a rank sleep, one may be woken by its time only. */
typedef struct ls_sleeper {
    void* rank; /* where its doorbell is, or null */
    int fd;     /* of a DPU, or -1 */
    uint32_t seen;
} ls_sleeper;
void ls_sleeper_begin(const ls_context* context, ls_sleeper* sleeper);
void ls_sleeper_sleep(ls_sleeper* sleeper, uint64_t timeout_ns);
/* Where this rank's supervisor listens for whoever wants task processes (src/tasks). After LS_OK from ls_context_test;
 * LS_ERR_UNAVAILABLE where a DPU does the rank's work: there is no supervisor on this host. */
typedef struct ls_task_door {
    char name[48];
    uint8_t token[16];
    uint32_t local_rank, local_count;
} ls_task_door;
int ls_find_task_door(const ls_context* context, ls_task_door* out);
/* The same of a rank whose work a DPU does, for tasks that go there: the agent of its machine listens. */
int ls_find_far_task_door(const ls_context* context, ls_task_door* out);
/* Ends the wait of another thread in ls_sleep, or its next one. */
void ls_wake(ls_context* context);
/* Around a wait in which ls_operation_test is called again and again for everything that is open: service processes
 * without a core of their own then leave this rank's blocks on its node to it. May be nested; no effect without
 * cooperative wait. */
void ls_begin_wait(ls_context* context);
void ls_end_wait(ls_context* context);
/* One line naming what `operation` is waiting for, for the user. */
void ls_operation_describe(const ls_operation* operation, char* line, size_t bytes);

void ls_set_cooperative(ls_context* context, int on);

/* --- sight */
typedef struct ls_collective_bytes {
    uint64_t by_service, by_rank; /* that came to this rank's buffers, by who moved them */
    uint64_t landed;              /* that service processes put into its shared memory, for all ranks of the node */
} ls_collective_bytes;
/* What came to this rank so far, by collective (index ls_collective). */
void ls_rank_bytes(const ls_context* context, ls_collective_bytes out[LS_COLLECTIVE_COUNT]);

/* Bytes that this rank has moved itself: where it reaches both ends, by way of the system, and through a chunk of its
 * own; and those that the agent of its machine has copied for it, which by_service of ls_collective_bytes has, too. */
typedef struct ls_moved_bytes {
    uint64_t mapped, peer_copied, bounced, by_agent;
    uint64_t blocks_by_rank, blocks_by_agent; /* of a rank whose work a DPU does: copied from ranks of its machine */
} ls_moved_bytes;
ls_moved_bytes ls_rank_moved(const ls_context* context);

/* Notifications from other nodes that reached a service process, of one collective: how many, how many before a rank
 * that they could serve had entered, and what became of those. */
typedef struct ls_late_counts {
    uint64_t received, late, handed_on, rescued, parked, parked_ns, parked_longest_ns;
    uint64_t readers; /* blocks of the allgather family for which it named the one rank of several that reads them */
} ls_late_counts;

typedef struct ls_service_stats {
    uint32_t node, service, incarnation, core; /* core: UINT32_MAX if it has none of its own */
    /* Of busy_ns: copy_ns in copies on the node, network_ns in what is said to and comes from other service processes,
     * their blocks' bytes among it. sleeps: each ends by a wake-up, which takes a core from whoever has it. */
    uint64_t busy_ns, copy_ns, network_ns, idle_ns, cpu_ns, sleeps, copies, reads, messages_sent, messages_refused, stale_messages,
        notifications_resent, bytes_mapped, bytes_peer_copied, bytes_bounced, bytes_between_nodes,
        bytes_staged, bytes_relayed,
        taken, /* of copies and reads: for ranks of another service process of the node that had too much to do */
        bytes_to_host; /* on a DPU: into the ranks' memory on its host */
    ls_late_counts late[LS_COLLECTIVE_COUNT]; /* by collective (index ls_collective) */
} ls_service_stats;
/* The service processes of this rank's node; returns how many there are, fills at most `max`. Call it on the lowest
 * rank of a node (ls_is_node_leader). */
uint32_t ls_services(const ls_context* context, ls_service_stats* out, uint32_t max);
int ls_is_node_leader(const ls_context* context);
uint32_t ls_node(const ls_context* context);
/* How service processes reach the ranks' memory, the same on all ranks: "direct" (mapped, or by way of the system),
 * "staged" (through staging memory of theirs), "dpu" (from another machine, with keys of the network, and through
 * staging memory), or "dpu-alias" (from another machine, whose memory has aliases there). */
const char* ls_memory_reach(const ls_context* context);
uint32_t ls_node_count(const ls_context* context);

/* What this rank knows of its job's service processes. Ranks may know different things: to choose by it they agree
 * first. After LS_OK from ls_context_test. */
typedef struct ls_surroundings {
    enum { LS_JOINED_BY_NONE, LS_JOINED_BY_TCP, LS_JOINED_BY_UCX } joined_by; /* none: they share one machine */
    int spare_cores;    /* not 0: each of this rank's node has a core that no rank needs */
    uint32_t link_mbps; /* of the interface on which others reach them; 0: not known */
} ls_surroundings;
void ls_look_around(const ls_context* context, ls_surroundings* out);

typedef struct ls_trace_event {
    uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
    uint32_t lane;             /* UINT32_MAX: this rank; else service process of this node */
    uint32_t kind;             /* 0 move, 1 read from another node is started, 2 all of that read's time */
    uint64_t value;            /* bytes */
} ls_trace_event;
/* Takes out up to `max` trace events of this rank (and, on the node's leader, of its service processes). */
uint32_t ls_trace_take(ls_context* context, ls_trace_event* out, uint32_t max);

/* When the blocks of one of this rank's operations moved, by CLOCK_MONOTONIC; 0: none did, or not on this node. */
typedef struct ls_times {
    uint64_t published_ns, first_copy_ns, landed_ns, read_ns;
    uint64_t copies_by_ranks_ns, copies_by_services_ns; /* of the blocks that came in, all together */
} ls_times;
/* Whether that is kept, on all ranks of the node. No operation should be open. LS_ERR_UNAVAILABLE where the job has
 * several nodes: blocks that cross leave no times. */
int ls_set_breakdown(ls_context* context, int on);
/* Of the operation that was last found complete since then. */
void ls_last_times(const ls_context* context, ls_times* out);

#ifdef __cplusplus
}
#endif
#endif
