// The control plane of one node: what ranks and service processes say to the node's supervisor, and it to
// them. Small packets on AF_UNIX SOCK_SEQPACKET sockets; both ends are the same build of this project on the
// same machine, so structs travel as they are. Everything is checked by its receiver.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/node_memory.h"
#include "engine/service_engine.h"
#include "fabric/network_settings.h"
#include "fabric/shm/shm_fabric.h"

namespace longshore {

constexpr uint32_t kControlMagic = 0x4c534343;  // changes with the layout of what follows
constexpr size_t kControlBytesMax = 48 * 1024;
constexpr size_t kReasonBytes = 256;
constexpr size_t kDpuNameBytes = 272;  // HOST:PORT

// A descriptor (dpu/transport/host_region.h) of memory of an agent's own, opened and exported like that of
// ranks: who can make an alias of it can of theirs. Empty: there is none.
struct ExportProbe {
    uint32_t bytes = 0;
    std::byte descriptor[kDescriptorBytesMax] = {};
    std::span<const std::byte> get() const {
        return {descriptor, std::min<size_t>(bytes, sizeof descriptor)};
    }
    bool set(std::span<const std::byte> from) {
        if (from.size() > sizeof descriptor) return false;
        bytes = static_cast<uint32_t>(from.size());
        std::copy(from.begin(), from.end(), descriptor);
        return true;
    }
};

enum class ControlKind : uint32_t {
    kAttach = 1,  // rank: who it is; answer kAttached with descriptors
    kAttached,
    kAddressBook,  // rank 0 of the node; a piece of it (fabric/address_book.h). Passed on to service
                   // processes
    kGroupJoin,  // a piece of a group's members: Member[count] follow. Answer to the last piece: kGroupJoined
    kGroupJoined,
    kGroupLeave,
    kProblem,       // from the supervisor or a service process: a line for the user
    kStartService,  // supervisor to its service process, with descriptors
    kPlace,         // supervisor to its service process: where to run
    kWorker,        // service process of a job on several nodes: by which the network reaches it
    kOpenPool,      // rank, on a connection of its own: task processes are wanted (tasks/control.h)
    kCannotStart,   // from a service process: a ProblemReport that says why it ends
    kOpenQueue,     // rank, on a connection of its own: its files are to be written behind (io/control.h)
    kQueueOpened,
    kStartWriter,  // supervisor to its writer of files
    kServeQueue,
    kFileWritten,
};

struct ControlHeader {
    uint32_t magic = kControlMagic;
    ControlKind kind = ControlKind::kAttach;
};

struct AttachRequest {
    ControlHeader header{kControlMagic, ControlKind::kAttach};
    Token token{};
    uint32_t local_rank = 0;
    uint32_t pid = 0;
    // The supervisor reads this word of the rank's memory, to find out whether service processes will be able
    // to.
    uint64_t probe_address = 0, probe_value = 0;
};
struct AttachAnswer {
    ControlHeader header{kControlMagic, ControlKind::kAttached};
    uint32_t ok = 0;
    int32_t probe_error = 0;  // errno of the probe; 0: it may be read
    uint64_t memory_bytes = 0, sight_bytes = 0;
    uint32_t services = 0;  // eventfds that follow the two memfds (node's memory, sight)
};

// `count` entries follow, from that of node `first` on: the bytes of each (16 bits), and the entry.
struct AddressBookPiece {
    ControlHeader header{kControlMagic, ControlKind::kAddressBook};
    uint32_t total = 0, first = 0, count = 0;
    uint32_t aliases = 0;  // not 0: on all nodes service processes have aliases of their ranks' memory
};

struct GroupJoinPiece {
    ControlHeader header{kControlMagic, ControlKind::kGroupJoin};
    uint64_t id = 0;
    uint32_t size = 0, first = 0, count = 0, unused = 0;  // no hole: all of it is sent
};
constexpr uint32_t kMembersPerPiece = 4096;
// How a rank's join of a group ended. Ranks tell it each other as it is.
enum class JoinResult : uint32_t {
    kOk,
    kTableFull,   // as many groups are open on the node as its table has room for
    kMemoryFull,  // the node's memory for groups has no room for one of that size
    kUnsound,     // its members are none that the node can serve
    kNoAnswer,    // the supervisor did not answer in time
    kGone,        // there is no supervisor any more
};
struct GroupJoinAnswer {
    ControlHeader header{kControlMagic, ControlKind::kGroupJoined};
    uint64_t id = 0;
    JoinResult result = JoinResult::kOk;
    uint32_t slot = 0;
};
struct GroupLeaveRequest {
    ControlHeader header{kControlMagic, ControlKind::kGroupLeave};
    uint64_t id = 0;
};

struct ProblemReport {
    ControlHeader header{kControlMagic, ControlKind::kProblem};
    char text[kReasonBytes] = {};
};

// What a service process must know. The same for every incarnation but for its number.
struct ServiceParameters {
    NodeLimits node_limits;
    ServiceLimits service_limits;
    uint16_t node = 0, node_count = 1, rank_count = 1, service_count = 1;
    uint32_t machine_ranks = 1;  // ranks of the job on this machine, all emulated nodes together
    uint32_t spin_us = 1000, restarts_max = 16, limit_s = 5;
    uint32_t services_before = 0;  // of this machine's nodes before this one
    uint8_t memory_inaccessible = 0, trace = 0;
    uint8_t takes_tasks = 0;  // of the job's other nodes
    uint8_t network = 0;      // nodes reach each other over a network only
    uint8_t host_agents =
        0;  // ranks are on other machines: each node's entry of the address book has its agent
    NetworkSettings network_settings;
    ExportProbe probe;  // of this node's, if it is to be tried whether there can be aliases
    char cores[1024] = "auto";
};

struct StartService {
    ControlHeader header{kControlMagic, ControlKind::kStartService};
    ServiceParameters parameters;
    uint16_t service = 0, incarnation = 1;
    uint32_t supervisor_pid = 0;
    uint64_t memory_bytes = 0, sight_bytes = 0;
    uint16_t port = 0;  // of the node, for streams between machines; 0: there is none
};

// The address follows.
struct WorkerReport {
    ControlHeader header{kControlMagic, ControlKind::kWorker};
    uint32_t bytes = 0;
    uint32_t aliases = 0;            // not 0: it can make them
    char reason[kReasonBytes] = {};  // why not
};

struct PlaceService {
    ControlHeader header{kControlMagic, ControlKind::kPlace};
    int32_t core = -1;      // to be pinned to; -1: not bound
    uint8_t may_spin = 0;   // there is a core that nobody else needs
    uint8_t only_idle = 0;  // take only time that nobody else wants
    uint8_t crowded = 0;    // the machine has more ranks than cores
};

// --- starting longshored, as a supervisor or an agent (agent_control.h): the starter writes its parameters
// into descriptor 3, and reads the answer from descriptor 4.
struct SupervisorParameters {
    ControlHeader header;
    ServiceParameters service;
    // Where the network reaches the agent of the ranks' machine, if there is one.
    uint32_t agent_bytes = 0;
    std::byte agent[kAddressBytesMax] = {};
};
struct ServiceReady {
    ControlHeader header{kControlMagic, ControlKind::kAttached};
    uint32_t ok = 0;
    SocketName name;
    Token token{};
    char reason[kReasonBytes] = {};  // why not; if it is: why there can be no aliases
    ExportProbe probe;               // of an agent that exports memory
    uint32_t aliases = 0;            // not 0: all service processes of the node can make them
    uint32_t address_bytes = 0;  // follow: of a supervisor its node's entry of the address book; where the
                                 // network reaches the agent
};
constexpr int kParameterFd = 3, kReadyFd = 4;
constexpr int kServiceControlFd = 3;

// An exclusive POSIX lock on this byte of the node's memfd is held by a service process as long as it runs:
// whether an incarnation is gone is the kernel's word.
constexpr uint64_t life_lock_byte(ServiceId service, uint32_t incarnation) {
    return uint64_t{service.value} * (kIncarnationMax + 1u) + incarnation;
}
// The caller's lock (false: somebody has it), and whether anybody else holds one.
bool take_life_lock(int memory_file, ServiceId service, uint32_t incarnation);
bool has_life_lock(int memory_file, ServiceId service, uint32_t incarnation);

// --- sight: a second memfd per node, for observers only. Large but sparse: memory is taken where it is
// written.
struct TraceEntry {
    Atomic<uint64_t> begin_ns, end_ns, kind, value;
};
// Bytes copied by the service process itself, a read from another node as it is started, and all of its time.
enum : uint64_t { kTraceCopy = 0, kTraceRead = 1, kTraceUnderWay = 2 };
constexpr uint32_t kTraceEntries = 1u << 16;  // per service process; the oldest are overwritten
struct alignas(64) SightSlot {
    Atomic<uint32_t> core;  // + 1; 0: none of its own
    Atomic<uint64_t> trace_written;
};
// Why a service process cannot go on with what it was to do; for ranks whose operations fail because of it.
struct alignas(64) SightProblem {
    Atomic<uint32_t> count;  // of problems so far; the text is the last one's
    char text[kReasonBytes - sizeof(uint32_t)];
};
// But for the last ones written by every rank of the node alike when it attaches.
struct alignas(64) SightJob {
    Atomic<uint64_t> job;  // the same on all nodes of a job; 0: no rank has attached yet
    Atomic<uint32_t> size, wait_report_s;
    Atomic<uint32_t> breakdown;  // not 0: SightTimes are kept
    // Not 0: each service process of the node has a core that no rank needs. By the supervisor, before the
    // last rank of the node has attached.
    Atomic<uint32_t> spare_cores;
    // By the node's first rank, before the last rank of the job has attached: ls_surroundings has them.
    Atomic<uint32_t> joined_by, link_mbps;
};
// The node's entry of the address book: by the supervisor, before any rank attaches.
struct alignas(64) SightEntry {
    Atomic<uint32_t> bytes;
};
constexpr uint32_t kSightEntryBytesMax = 40 * 1024;
// A rank of the node: who it is in the job, and since when it waits for which of its records.
struct SightWait {
    Atomic<uint64_t> generation;  // of the record; written last, cleared first
    Atomic<uint64_t> started_ns;
};
// When the blocks of an operation moved (sight_times.h), by CLOCK_MONOTONIC; 0: not yet. Of the record's
// present use: its rank clears them when it has taken them.
struct alignas(64) SightTimes {
    Atomic<uint64_t> published_ns;
    Atomic<uint64_t> first_copy_ns;  // the first chunk that came in or went out began to move
    Atomic<uint64_t> landed_ns;      // the last that came in had
    Atomic<uint64_t> read_ns;        // the last that went out had
    Atomic<uint64_t> copies_by_ranks_ns, copies_by_services_ns;  // of those that came in, together
};
constexpr uint32_t kTimedRecordsMax = 256;  // records in use at once beyond that go without
struct SightRank {
    alignas(64) Atomic<uint32_t> rank;  // + 1; 0: has not attached
    alignas(64) SightWait waits[kRecordsMax];
    SightTimes times[kTimedRecordsMax];
};
struct SightLayout {
    static constexpr uint64_t kJobAt = 2048, kProblemsAt = 4096;
    static constexpr uint64_t kRanksAt = kProblemsAt + kServicesPerNodeMax * sizeof(SightProblem);
    static constexpr uint64_t kEntryAt = kRanksAt + kRanksPerNodeMax * sizeof(SightRank);
    static constexpr uint64_t kTraceAt = kEntryAt + sizeof(SightEntry) + kSightEntryBytesMax;
    static constexpr uint64_t total_bytes(uint32_t services, bool trace) {
        return kTraceAt + (trace ? uint64_t{services} * kTraceEntries * sizeof(TraceEntry) : 0);
    }
    static SightSlot& slot(std::byte* base, ServiceId s) {
        return reinterpret_cast<SightSlot*>(base)[s.value];
    }
    static SightProblem& problem(std::byte* base, ServiceId s) {
        return reinterpret_cast<SightProblem*>(base + kProblemsAt)[s.value];
    }
    static SightJob& job(std::byte* base) { return *reinterpret_cast<SightJob*>(base + kJobAt); }
    static SightEntry& entry(std::byte* base) { return *reinterpret_cast<SightEntry*>(base + kEntryAt); }
    // As many bytes as SightEntry says, at most kSightEntryBytesMax.
    static std::span<std::byte> entry_bytes(std::byte* base) {
        return {base + kEntryAt + sizeof(SightEntry),
                std::min(entry(base).bytes.load(std::memory_order_acquire), kSightEntryBytesMax)};
    }
    static SightRank& rank(std::byte* base, LocalRank r) {
        return reinterpret_cast<SightRank*>(base + kRanksAt)[r.value];
    }
    static SightTimes* times(std::byte* base, LocalRank r, RecordId id) {
        return id.value < kTimedRecordsMax ? &rank(base, r).times[id.value] : nullptr;
    }
    static TraceEntry* trace(std::byte* base, ServiceId s) {
        return reinterpret_cast<TraceEntry*>(base + kTraceAt) + uint64_t{s.value} * kTraceEntries;
    }
};
static_assert(kServicesPerNodeMax * sizeof(SightSlot) <= SightLayout::kJobAt);

}  // namespace longshore
