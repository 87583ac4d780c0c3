// MPI_Init and MPI_Finalize: the ranks agree on offload and on rank 0's settings, then the host library
// attaches.
#include <dlfcn.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <vector>

#include "base/dpu_map.h"
#include "base/prng.h"
#include "mpi/entry.h"
#include "mpi/job/agreement.h"
#include "mpi/job/exchange.h"
#include "mpi/job/group.h"
#include "mpi/requests/helper.h"
#include "mpi/requests/operation.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"

extern char** environ;

namespace longshore::mpi {

// Before any other object of this library.
__attribute__((init_priority(101))) ForeverShim the_shim;

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void drive_native() {
    int flag = 0;
    if (shim().world == MPI_COMM_NULL) return;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, shim().world, &flag, MPI_STATUS_IGNORE);
}

void say(LogLevel level, const std::string& line) {
    if (level > shim().settings.log) return;
    fprintf(stderr, "longshore: %s\n", line.c_str());
}

void end_job(const char* why) {
    fprintf(
        stderr,
        "longshore: rank %d %s; the job ends here, because other ranks would wait for this one for ever\n",
        shim().rank, why);
    usleep(200'000);  // a launcher that kills the job at once forwards nothing more of it
    PMPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

bool fails_for_tests(const char* what) {
    const char* const failure = getenv("LONGSHORE_INTERNAL_FAIL");
    return failure && failure == std::string(what) + ":" + std::to_string(shim().rank);
}

namespace {

constexpr char kPresentKey[] = "longshore";
constexpr int kDecisionTag = 32'000;  // below MPI's smallest MPI_TAG_UB (32767)
constexpr uint64_t kDecisionLimitNs = 300'000'000'000;

// Making a page shared where it is costs about as much as so many copies of it by way of the system cost more
// than plain ones: never more than twice the better choice (docs/decisions/0011-shared-allocations.md).
constexpr uint32_t kAdoptAfter = 14;

enum Decision : int { kEveryRank = 1, kSomeRanks = 2, kOtherBuilds = 3 };

void say_mixed() {
    say(LogLevel::kWarn, "some ranks of this job run without Longshore: plain MPI for all");
}

// What ranks exchange from here on, settings first, is understood by the same build alone. The key and the
// decision are what every build must understand.
std::string own_build() {
    if (const char* other = getenv("LONGSHORE_INTERNAL_BUILD")) return other;
    char text[64];
    snprintf(text, sizeof text, "%s-%08x", LONGSHORE_VERSION,
             static_cast<uint32_t>(mix64(ls_layout() ^ sizeof(Settings)) >> 32));
    return text;
}

// What a rank puts under kPresentKey: BUILD@HOST.
std::string own_presence() {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    return own_build() + "@" + host;
}

void say_other_build(int rank, const std::string& presence) {
    const size_t at = presence.find('@');
    const std::string host = at == presence.npos ? "" : " (" + presence.substr(at + 1) + ")";
    say(LogLevel::kWarn, "rank " + std::to_string(rank) + host + " runs another build of Longshore, " +
                             presence.substr(0, at) + ", than rank 0, " + own_build() +
                             ": plain MPI for all; put the same one on all nodes");
}

// Rank 0 asks the key space who is there and tells those; they are all still in MPI_Init, so on
// MPI_COMM_WORLD a receive from rank 0 matches nothing else, and nothing is sent to a rank without the shim.
bool tell_decision(KeySpace& space) {
    const std::string own = own_build();
    std::vector<int> present;
    int other = 0;  // the first rank of another build; 0: none
    std::string presence, other_presence;
    for (int r = 1; r < shim().size; ++r) {
        if (!space.get(static_cast<uint32_t>(r), kPresentKey, &presence)) continue;
        present.push_back(r);
        if (other != 0 || presence.substr(0, presence.find('@')) == own) continue;
        other = r;
        other_presence = presence;
    }
    int decision = static_cast<int>(present.size()) < shim().size - 1 ? kSomeRanks
                   : other != 0                                       ? kOtherBuilds
                                                                      : kEveryRank;
    for (int r : present) PMPI_Send(&decision, 1, MPI_INT, r, kDecisionTag, MPI_COMM_WORLD);
    if (decision == kSomeRanks) say_mixed();
    if (decision == kOtherBuilds) say_other_build(other, other_presence);
    return decision == kEveryRank;
}

bool hear_decision(KeySpace& space) {
    std::string presence;
    if (!space.get(0, kPresentKey, &presence)) {
        // Rank 0 cannot say it; the first rank after a row of ranks without the shim does.
        const auto before = static_cast<uint32_t>(shim().rank) - 1;
        if (before == 0 || !space.get(before, kPresentKey, &presence)) say_mixed();
        return false;
    }
    // Rank 0 is there and will answer: what we have put it finds. A limit is for launchers that do not keep
    // to that.
    int decision = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    PMPI_Irecv(&decision, 1, MPI_INT, 0, kDecisionTag, MPI_COMM_WORLD, &request);
    const uint64_t end = now_ns() + kDecisionLimitNs;
    for (int done = 0; !done;) {
        if (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || (!done && now_ns() > end))
            end_job(
                "has not heard from rank 0 whether Longshore carries this job (LONGSHORE_OFFLOAD=off does "
                "without)");
        if (done) break;
        sched_yield();
    }
    return decision == kEveryRank;
}

// What rank 0's environment says, the file that it names included. False, after saying why, if it is not
// usable.
bool read_settings() {
    Shim& s = shim();
    std::vector<SettingError> errors;
    bool usable = parse_settings(environ, &s.settings, &errors);
    for (const SettingError& error : errors) fprintf(stderr, "longshore: %s\n", error.message.c_str());
    std::string error;
    s.selection = built_in_selection();
    if (!s.settings.algorithms_path.empty() &&
        !load_selection(s.settings.algorithms_path, &s.selection, &error)) {
        fprintf(stderr, "longshore: LONGSHORE_ALGORITHMS_FILE: %s\n", error.c_str());
        usable = false;
    }
    if (usable) return true;
    if (s.settings.strict) {
        fprintf(stderr, "longshore: LONGSHORE_STRICT is on, so the job ends here\n");
        usleep(200'000);  // a launcher that kills the job at once forwards nothing more of it
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    fprintf(stderr, "longshore: the job goes on with plain MPI\n");
    return false;
}

// Rank 0's settings and table of rules, on all ranks. False if they are not usable: then nobody is offloaded.
bool share_settings() {
    Shim& s = shim();
    std::string settings, rules;
    if (s.rank == 0 && read_settings()) {
        settings = encode_settings(s.settings);
        rules = format_selection(s.selection);
    }
    int lengths[2] = {static_cast<int>(settings.size()), static_cast<int>(rules.size())};
    if (s.size > 1) PMPI_Bcast(lengths, 2, MPI_INT, 0, s.world);
    if (lengths[0] == 0 || lengths[1] == 0) return false;
    std::string text = settings + rules;
    text.resize(static_cast<size_t>(lengths[0]) + static_cast<size_t>(lengths[1]));
    if (s.size > 1) PMPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, s.world);
    const auto whole = std::string_view(text);
    if (!decode_settings(whole.substr(0, static_cast<size_t>(lengths[0])), &s.settings, nullptr) ||
        !parse_selection(whole.substr(static_cast<size_t>(lengths[0])), &s.selection, nullptr))
        return false;
    s.forced = s.settings.forced_algorithms;
    return true;
}

std::string own_directory() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void*>(&own_directory), &info) || !info.dli_fname) return "";
    std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/') + 1);
}

// The application may change its directory before MPI_Finalize, and a service process starts in another.
std::string absolute(const std::string& path) {
    char directory[PATH_MAX];
    if (path.empty() || path == "-" || path[0] == '/' || !getcwd(directory, sizeof directory)) return path;
    return std::string(directory) + "/" + path;
}

// This rank's neighbours on its machine, by what the launcher says: only a hint for how to wait.
int local_ranks() {
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
        if (const char* text = getenv(name); text && atoi(text) > 0) return atoi(text);
    return shim().size;
}

bool more_busy_than_cores() {
    Shim& s = shim();
    const auto cores = sysconf(_SC_NPROCESSORS_ONLN);
    long busy = local_ranks();
    const uint32_t nodes = ls_node_count(s.context);
    if (!s.settings.wait_cooperative || nodes > 1)
        busy += s.settings.service_count * (s.settings.nodes_count > 0 ? s.settings.nodes_count : 1);
    return busy > cores;
}

// Whether ranks that wait in the MPI keep the cores that others need: Open MPI's give them away where its
// launcher knows that there are more ranks than cores.
bool keeps_cores() {
#ifdef OPEN_MPI
    return false;
#else
    return local_ranks() > sysconf(_SC_NPROCESSORS_ONLN);
#endif
}

// For tests: what a rank would say is what the variable says.
uint64_t told(const char* variable, uint64_t found) {
    const char* const text = getenv(variable);
    return text != nullptr ? strtoull(text, nullptr, 10) : found;
}

// What the table of rules asks of the job. Collective: nodes may see different things, but must choose alike.
// So it is crowded if any machine is, has spare cores if all nodes have, and is as fast as its slowest link;
// one that is not known makes the rate unknown.
SelectionPoint agreed_place() {
    ls_surroundings mine{};
    ls_look_around(shim().context, &mine);
    uint64_t least[] = {!keeps_cores(), told("LONGSHORE_INTERNAL_SPARE", mine.spare_cores != 0),
                        told("LONGSHORE_INTERNAL_LINK_MBPS", mine.link_mbps),
                        static_cast<uint64_t>(mine.joined_by)};
    PMPI_Allreduce(MPI_IN_PLACE, least, std::size(least), MPI_UINT64_T, MPI_MIN, shim().world);
    SelectionPoint place;
    place.crowded = least[0] == 0;
    place.spare = least[1];
    place.network = least[3];
    const uint64_t said = shim().settings.link_rate.mbps;
    if (place.network != kNetworkNone) place.rate = said != 0 ? said : least[2];
    return place;
}
static_assert(ls_surroundings::LS_JOINED_BY_NONE == kNetworkNone &&
              ls_surroundings::LS_JOINED_BY_TCP == kNetworkTcp &&
              ls_surroundings::LS_JOINED_BY_UCX == kNetworkUcx);

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
    return shared;
}

// Collective. All ranks return the same.
bool attach() {
    Shim& s = shim();
    const Settings& settings = s.settings;
    // longshored is in bin/ beside this library's lib/, or beside the library itself.
    std::string service = absolute(settings.service_path);
    if (service.empty()) {
        service = s.directory + "../bin/longshored";
        if (access(service.c_str(), X_OK) != 0) service = s.directory + "longshored";
    }
    const std::string cores = core_list(settings.service_cores);
    ls_options options{};
    options.service_count = settings.service_count;
    options.service_reads_max = settings.service_reads_max;
    options.service_spin_us = settings.service_spin_us;
    options.service_restarts_max = settings.service_restarts_max;
    options.service_path = service.c_str();
    options.service_cores = cores.c_str();
    options.nodes_count = settings.nodes_count;
    options.nodes_strided = settings.nodes_placement == NodesPlacement::kStrided;
    const char* network = getenv("LONGSHORE_INTERNAL_NETWORK_ALWAYS");
    options.network_always = network != nullptr && *network == '1';
    options.wait_cooperative = settings.wait_cooperative;
    options.wait_report_s = settings.wait_report_s;
    options.limit_s = settings.limit_s;
    options.eager_bytes = settings.eager_bytes;
    options.chunk_bytes = settings.chunk_bytes;
    options.trace = !s.trace_path.empty();
    options.memory_inaccessible = settings.memory_inaccessible;
    options.memory_mode = memory_mode(settings.memory_mode);
    options.staging_bytes = settings.staging_bytes;
    options.network = static_cast<decltype(options.network)>(settings.network);
    options.network_tls = settings.network_security == NetworkSecurity::kTls;
    options.network_port_first = settings.network_ports.first;
    options.network_port_last = settings.network_ports.last;
    options.network_interfaces = settings.network_interfaces.c_str();
    const longshore_heap* heap = settings.memory_alias == MemoryAlias::kOff ? nullptr : s.stub->share();
    if (heap) options.shared = shared_memory(*s.stub, *heap);
    if (heap && settings.memory_alias >= MemoryAlias::kAdopt) options.shared.adopt = s.stub->adopt;
    if (settings.memory_alias == MemoryAlias::kAdopt) options.shared.adopt_after = kAdoptAfter;
    options.log = on_log;
    std::string dpu, problem;
    if (!settings.dpu.empty()) {
        char host[256] = {};
        gethostname(host, sizeof host - 1);
        if (!find_dpu(settings.dpu, host, &dpu, &problem)) options.dpu_problem = problem.c_str();
        options.dpu = dpu.c_str();
    }

    CommExchange exchange(s.world);
    int rc = fails_for_tests("context") ? static_cast<int>(LS_ERR_UNAVAILABLE)
                                        : ls_context_start(&options, &exchange.api, &s.context);
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

void own_duplicate(MPI_Comm of, MPI_Comm* out) {
    PMPI_Comm_dup(of, out);
    PMPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
}

void start(KeySpace* space) {
    Shim& s = shim();
    PMPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &s.size);
    s.started = true;
    s.pid = getpid();
    s.directory = absolute(own_directory());
    // A job that another has started is left to MPI: cores and service processes are the first one's.
    MPI_Comm parent = MPI_COMM_NULL;
    if (PMPI_Comm_get_parent(&parent) != MPI_SUCCESS || parent != MPI_COMM_NULL) return;
    if (s.size > 1) {
        if (!space) {
            if (s.rank == 0)
                say(LogLevel::kWarn,
                    "the ranks cannot agree through this launcher, which must speak PMIx to Open MPI, or "
                    "PMI-1 to MPICH as MPICH's own mpiexec does: plain MPI");
            return;
        }
        if (!(s.rank == 0 ? tell_decision(*space) : hear_decision(*space))) return;
    }
    s.agreed = true;
    own_duplicate(MPI_COMM_WORLD, &s.world);
    own_duplicate(MPI_COMM_SELF, &s.self);
    if (!share_settings()) return;
    s.stats_path = s.rank == 0 ? absolute(s.settings.stats_path) : s.settings.stats_path;
    s.trace_path = s.rank == 0 ? absolute(s.settings.trace_path) : s.settings.trace_path;
    trace_begin();
    if (s.size == 1 || !s.settings.offload) return;
    if (create_group_keyval(&s.keyval) != MPI_SUCCESS) end_job("cannot mark communicators");
    if (!attach()) return;
    s.oversubscribed = more_busy_than_cores();
    s.place = agreed_place();
    s.on = true;
    make_group(MPI_COMM_WORLD);
    make_group(MPI_COMM_SELF);
    register_progress();
}

// A rank that is done may not leave yet: its service process goes with the node's last rank, and may still
// have to acknowledge what others have sent. MPI_Finalize is collective, so all come here. Asleep, because
// those who are not done need the cores.
void wait_for_all() {
    MPI_Request everybody = MPI_REQUEST_NULL;
    if (PMPI_Ibarrier(shim().world, &everybody) != MPI_SUCCESS) return;
    const timespec pause{0, 50'000};
    for (int done = 0; PMPI_Test(&everybody, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
        nanosleep(&pause, nullptr);
}

void stop() {
    Shim& s = shim();
    const bool clean = !s.on || finish_open(s.settings.limit_s);
    stop_helper();
    if (s.on) wait_for_all();
    if (s.agreed) {
        // What the job's end is for; before the context goes, which has the figures.
        write_stats();
        write_trace();
    }
    if (s.on) {
        unregister_progress();
        s.on = false;
        free_all_groups();
        // Deleted before the keyval goes: MPI_COMM_WORLD is never freed by the program.
        PMPI_Comm_delete_attr(MPI_COMM_WORLD, s.keyval);
        PMPI_Comm_delete_attr(MPI_COMM_SELF, s.keyval);
        if (clean) ls_context_free(s.context);
        s.context = nullptr;
    }
    if (s.world != MPI_COMM_NULL) PMPI_Comm_free(&s.world);
    if (s.self != MPI_COMM_NULL) PMPI_Comm_free(&s.self);
    s.started = false;
}

// Both forms of MPI_Init: `native` calls PMPI and gives the thread level.
template <class Native>
int init_around(Native native) {
    int initialized = 0;
    PMPI_Initialized(&initialized);
    std::unique_ptr<KeySpace> space;
    if (!initialized) {
        space = open_key_space();
        if (space && !space->put(kPresentKey, own_presence())) space = nullptr;
    }
    int provided = MPI_THREAD_SINGLE;
    int rc = native(&provided);
    if (rc != MPI_SUCCESS || initialized) return rc;
    shim().multiple = shim().guarded = provided == MPI_THREAD_MULTIPLE;
    start(space && space->published(kPresentKey) ? space.get() : nullptr);
    if (!shim().on) shim().stub->share_no_more();
    return rc;
}

}  // namespace

namespace entry {

int init(int* argc, char*** argv) {
    return init_around([&](int* level) {
        const int rc = PMPI_Init(argc, argv);
        // Settings of both MPIs give more than MPI_THREAD_SINGLE to who has not asked for it.
        if (rc == MPI_SUCCESS) PMPI_Query_thread(level);
        return rc;
    });
}

int init_thread(int* argc, char*** argv, int required, int* provided) {
    return init_around([&](int* level) {
        int rc = PMPI_Init_thread(argc, argv, required, provided);
        if (rc == MPI_SUCCESS) *level = *provided;
        return rc;
    });
}

int finalize() {
    if (shim().started && shim().pid == getpid()) stop();
    return PMPI_Finalize();
}

}  // namespace entry
}  // namespace longshore::mpi
