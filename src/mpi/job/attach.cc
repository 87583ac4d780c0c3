#include "mpi/job/attach.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "base/dpu_map.h"
#include "fabric/shm/cpu_mask.h"
#include "mpi/job/exchange.h"
#include "mpi/shim.h"

namespace longshore::mpi {
namespace {

// Making a page shared where it is costs about as much as so many copies of it by way of the system cost more
// than plain ones: never more than twice the better choice (docs/decisions/0011-shared-allocations.md).
constexpr uint32_t kAdoptAfter = 14;

void on_log(void*, int level, const char* line) {
    say(static_cast<LogLevel>(level), line);
}

std::string core_list(const CoreChoice& choice) {
    if (choice.kind == CoreChoice::Kind::kAuto) return "auto";
    if (choice.kind == CoreChoice::Kind::kNone) return "none";
    std::string list;
    for (uint32_t core : choice.cores) list += (list.empty() ? "" : ",") + std::to_string(core);
    return list;
}

ls_memory_mode memory_mode(MemoryMode mode) {
    switch (mode) {
        case MemoryMode::kAuto:
            return LS_MEMORY_AUTO;
        case MemoryMode::kDirect:
            return LS_MEMORY_DIRECT;
        case MemoryMode::kStaged:
            return LS_MEMORY_STAGING;
    }
    __builtin_unreachable();
}

ls_shared_memory shared_memory(const longshore_stub_api& stub, const longshore_heap& heap) {
    ls_shared_memory shared{};
    shared.file = heap.file;
    shared.identity = heap.identity;
    shared.base = heap.base;
    shared.bytes = heap.bytes;
    shared.allocate = [](size_t bytes) { return shim().stub->allocate(bytes, 1, 0); };
    shared.release = stub.release;
    shared.keep = stub.keep;
    shared.open_buffer = stub.open_buffer;
    shared.close_buffer = stub.close_buffer;
    shared.adopted_forks = stub.adopted_forks;
    return shared;
}

// What the host library is told, and the texts that it points to.
struct Options {
    std::string service, cores, dpu, dpu_problem;
    ls_options host{};
};

void share_memory(ls_options* options) {
    const Shim& s = shim();
    const MemoryAlias alias = s.settings.memory_alias;
    const longshore_heap* heap = alias == MemoryAlias::kOff ? nullptr : s.stub->share();
    if (heap) options->shared = shared_memory(*s.stub, *heap);
    if (const char* const why = heap ? s.stub->why_malloc_is_not_shared() : nullptr; why && s.rank == 0)
        say(LogLevel::kInfo, std::string("blocks of malloc are not shared with other ranks, since ") + why +
                                 ": they move by way of the system; what MPI_Alloc_mem gives is shared");
    if (heap && alias >= MemoryAlias::kAdopt) options->shared.adopt = s.stub->adopt;
    if (alias == MemoryAlias::kAdopt) options->shared.adopt_after = kAdoptAfter;
}

void find_own_dpu(Options* options) {
    const std::string& map = shim().settings.dpu;
    if (map.empty()) return;
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    if (!find_dpu(map, host, &options->dpu, &options->dpu_problem))
        options->host.dpu_problem = options->dpu_problem.c_str();
    options->host.dpu = options->dpu.c_str();
}

void fill(Options* out) {
    const Settings& settings = shim().settings;
    out->service = service_path();
    out->cores = core_list(settings.service_cores);
    ls_options& options = out->host;
    options.service_count = settings.service_count;
    options.service_reads_max = settings.service_reads_max;
    options.service_spin_us = settings.service_spin_us;
    options.service_restarts_max = settings.service_restarts_max;
    options.service_path = out->service.c_str();
    options.service_cores = out->cores.c_str();
    options.nodes_count = settings.nodes_count;
    options.nodes_strided = settings.nodes_placement == NodesPlacement::kStrided;
    const char* network = getenv("LONGSHORE_INTERNAL_NETWORK_ALWAYS");
    options.network_always = network != nullptr && *network == '1';
    if (const char* copies = getenv("LONGSHORE_INTERNAL_AGENT_COPIES"))
        options.agent_copies =
            *copies == '1' ? ls_options::LS_AGENT_COPIES_ALWAYS : ls_options::LS_AGENT_COPIES_NEVER;
    options.tasks_between_nodes = !settings.task_node.empty();
    options.wait_cooperative = settings.wait_cooperative;
    options.wait_report_s = settings.wait_report_s;
    options.limit_s = settings.limit_s;
    options.eager_bytes = settings.eager_bytes;
    options.chunk_bytes = settings.chunk_bytes;
    options.trace = !shim().trace_path.empty();
    options.memory_inaccessible = settings.memory_inaccessible;
    options.memory_mode = memory_mode(settings.memory_mode);
    options.staging_bytes = settings.staging_bytes;
    options.network = static_cast<decltype(options.network)>(settings.network);
    options.network_tls = settings.network_security == NetworkSecurity::kTls;
    options.network_port_first = settings.network_ports.first;
    options.network_port_last = settings.network_ports.last;
    options.network_interfaces = settings.network_interfaces.c_str();
    options.log = on_log;
    share_memory(&options);
    find_own_dpu(out);
}

// For how many more ranks there is room on this machine. One that is not bound knows nothing of that.
int room_for_ranks() {
    CpuMask mine;
    if (!mine.get(0) || mine.empty()) return 0;
    const int all = CpuMask::allowed().count();
    return mine.count() < all ? std::max(0, all / mine.count() - local_ranks()) : 0;
}

// All nodes have as many service processes as the one with most ranks needs. Hosts of a job on several nodes
// have one each.
void settle_service_count() {
    Shim& s = shim();
    if (s.settings.service_count != 0) return;
    int ranks = 1, room = 0;
    if (s.settings.dpu.empty() && s.settings.nodes_count == 0) {
        ranks = s.size;
        room = local_ranks() == s.size ? room_for_ranks() : 0;
        if (s.size > 2) PMPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_INT, MPI_MIN, s.world);
    } else if (!s.settings.dpu.empty()) {
        MPI_Comm node = MPI_COMM_NULL;
        PMPI_Comm_split_type(s.world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
        PMPI_Comm_size(node, &ranks);
        PMPI_Comm_free(&node);
        PMPI_Allreduce(MPI_IN_PLACE, &ranks, 1, MPI_INT, MPI_MAX, s.world);
    }
    s.settings.service_count = services_by_default(!s.settings.dpu.empty(), static_cast<uint32_t>(ranks),
                                                   static_cast<uint32_t>(room));
}

}  // namespace

int local_ranks() {
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
        if (const char* text = getenv(name); text && atoi(text) > 0) return atoi(text);
    return shim().size;
}

std::string service_path() {
    std::string service = absolute(shim().settings.service_path);
    if (!service.empty()) return service;
    std::string missing;
    for (const char* folder : {"../bin", "../../bin", "."}) {
        char real[PATH_MAX];
        if (!realpath((shim().directory + folder).c_str(), real)) continue;
        service = std::string(real) + "/longshored";
        if (access(service.c_str(), X_OK) == 0) return service;
        if (missing.empty()) missing = service;  // where it would be, so that this is what is said
    }
    return missing;
}

std::string absolute(const std::string& path) {
    char directory[PATH_MAX];
    if (path.empty() || path == "-" || path[0] == '/' || !getcwd(directory, sizeof directory)) return path;
    return std::string(directory) + "/" + path;
}

bool attach() {
    Shim& s = shim();
    settle_service_count();
    Options options;
    fill(&options);
    CommExchange exchange(s.world);
    int rc = fails_for_tests("context") ? static_cast<int>(LS_ERR_UNAVAILABLE)
                                        : ls_context_start(&options.host, &exchange.api, &s.context);
    // Nobody has been told yet. (Arguments are the same everywhere.)
    if (rc != LS_OK && rc != LS_IN_PROGRESS && rc != LS_ERR_ARGUMENT)
        end_job("has no memory to begin with Longshore");
    while (s.context && (rc == LS_OK || rc == LS_IN_PROGRESS)) {
        exchange.drive();
        rc = ls_context_test(s.context);
        if (rc != LS_IN_PROGRESS) break;
        sched_yield();
    }
    if (rc == LS_OK) return true;
    if (s.rank == 0)
        say(LogLevel::kWarn, std::string(s.context ? ls_context_error(s.context) : "out of memory") +
                                 "; the job runs with plain MPI");
    if (s.context) ls_context_free(s.context);
    s.context = nullptr;
    return false;
}

}  // namespace longshore::mpi
