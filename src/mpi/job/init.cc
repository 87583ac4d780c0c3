// MPI_Init and MPI_Finalize: the ranks agree on offload and on rank 0's settings, then the host library
// attaches.
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <vector>

#include "base/text.h"
#include "mpi/entry.h"
#include "mpi/job/agreement.h"
#include "mpi/job/attach.h"
#include "mpi/job/group.h"
#include "mpi/job/launcher.h"
#include "mpi/job/presence.h"
#include "mpi/job/write_behind.h"
#include "mpi/leaving.h"
#include "mpi/native/functions.h"
#include "mpi/requests/helper.h"
#include "mpi/requests/operation.h"
#include "mpi/statistics/keeping.h"
#include "mpi/statistics/log.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"
#include "mpi/tasks/pools.h"

extern char** environ;

namespace longshore::mpi {
namespace {

// Whether the program has called MPI_Session_init before MPI_Init. The ranks would have to agree before the
// MPI begins (agreement.h), all of them, but a session is begun by whoever likes.
bool began_with_session = false;

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
        wait_until_heard();
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    fprintf(stderr, "longshore: the job goes on with plain MPI\n");
    return false;
}

// Whether the MPI goes on where ranks die: Open MPI 5 under `mpirun --with-ft ulfm`. Service processes would
// wait for the dead, and an operation of theirs cannot be revoked.
bool survives_deaths() {
    const auto* const enabled = static_cast<const bool*>(dlsym(RTLD_DEFAULT, "ompi_ftmpi_enabled"));
    return enabled && *enabled;
}

// Rank 0's settings and table of rules, on all ranks. False if they are not usable: then nobody is offloaded.
bool share_settings() {
    Shim& s = shim();
    std::string settings, rules;
    if (s.rank == 0 && read_settings()) {
        if (s.settings.offload && survives_deaths()) {
            s.settings.offload = false;
            say(LogLevel::kWarn,
                "the MPI is to go on when ranks die, and offloaded calls would wait for those: the job runs "
                "with plain MPI");
        }
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

// The name of an output file, with %j, %h and %p replaced by the job's number, this host and this process.
std::string output_name(const std::string& name) {
    const std::string process = std::to_string(getpid());
    std::string job = process;
    for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})
        if (const char* text = getenv(variable); text && *text) {
            job = text;
            break;
        }
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return fill_in_name(name, job, host, process);
}

std::string own_directory() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void*>(&own_directory), &info) || !info.dli_fname) return "";
    std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/') + 1);
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

// What the table of rules asks of the job. Collective: nodes may see different things, but must choose alike.
// So it is crowded if any machine is, has spare cores if all nodes have, and is as fast as its slowest link;
// one that is not known makes the rate unknown.
SelectionPoint agreed_place() {
    ls_surroundings mine{};
    ls_look_around(shim().context, &mine);
    uint64_t least[] = {!keeps_cores(), for_tests("LONGSHORE_INTERNAL_SPARE", mine.spare_cores != 0),
                        for_tests("LONGSHORE_INTERNAL_LINK_MBPS", mine.link_mbps),
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

void own_duplicate(MPI_Comm of, MPI_Comm* out) {
    PMPI_Comm_dup(of, out);
    PMPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN);
}

void begin_offload() {
    Shim& s = shim();
    if (s.size == 1 || !s.settings.offload) return;
    if (create_group_keyval(&s.keyval) != MPI_SUCCESS) end_job("cannot mark communicators");
    if (!attach()) return;
    s.oversubscribed = more_busy_than_cores();
    s.place = agreed_place();
    s.on = true;
    log_begin();
    make_group(MPI_COMM_WORLD);
    make_group(MPI_COMM_SELF);
    register_progress();
}

// 'longshore run' refuses the launcher of another MPI only where it can see which one the program uses: not
// behind a script or an interpreter.
void look_for_foreign_launcher() {
    Shim& s = shim();
    const Launcher launcher = find_launcher();
    if (s.size != 1 || launcher.processes < 2) return;
    s.launched = launcher.processes;
    if (!launcher.is_first) return;
    const std::string processes = std::to_string(launcher.processes);
    say(LogLevel::kWarn, "the launcher has started " + processes + " processes (" + launcher.variable + "=" +
                             processes +
                             "), but each is a job of one rank: it seems to be the launcher of another MPI; "
                             "use the one that belongs to the program's");
}

void start(KeySpace* space) {
    Shim& s = shim();
    PMPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &s.size);
    s.started = true;
    s.started_ns = now_ns();
    s.pid = getpid();
    s.directory = absolute(own_directory());
    // A job that another has started is left to MPI: cores and service processes are the first one's.
    MPI_Comm parent = MPI_COMM_NULL;
    if (PMPI_Comm_get_parent(&parent) != MPI_SUCCESS || parent != MPI_COMM_NULL) return;
    look_for_foreign_launcher();
    if (s.size > 1) {
        if (began_with_session) return;
        if (!space) {
            if (s.rank == 0)
                say(LogLevel::kWarn,
                    "the ranks cannot agree through this launcher, which must speak PMIx to Open MPI, or "
                    "PMI-1 to MPICH as MPICH's own mpiexec does: plain MPI");
            return;
        }
        if (!all_are_present(*space)) return;
    }
    s.agreed = true;
    own_duplicate(MPI_COMM_WORLD, &s.world);
    own_duplicate(MPI_COMM_SELF, &s.self);
    if (!share_settings()) {
        s.settings = {};  // of what rank 0 has read the others know nothing, and some of it is done by all
        return;
    }
    const auto output = [&](const std::string& name) {
        return s.rank == 0 ? absolute(output_name(name)) : name;
    };
    s.stats_path = output(s.settings.stats_path);
    s.trace_path = output(s.settings.trace_path);
    trace_begin();
    times_are_wanted = stats_wanted() || trace_wanted();
    begin_keeping();
    begin_offload();
    s.on ? begin_write_behind()
         : say_no_write_behind(s.size == 1 ? "the job has one rank" : "the job runs with plain MPI");
    keep_job();
    if (!s.on) log_begin();
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

// Where ranks may be dead, what the living know is left to the keeper, which waits for nobody.
bool all_can_be_asked() {
    return !survives_deaths() || PMPI_Barrier(shim().world) == MPI_SUCCESS;
}

void stop() {
    Shim& s = shim();
    if (s.on) close_pools(s.settings.limit_s);
    const bool clean = !s.on || finish_open(s.settings.limit_s);
    stop_helper();
    if (s.on) end_write_behind();
    if (s.on) wait_for_all();
    if (s.on) report_write_behind();
    if (s.agreed && all_can_be_asked()) {
        // What the job's end is for; before the context goes, which has the figures.
        log_end();
        write_stats();
        write_trace();
        end_keeping();
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
    const Uncancelled uncancelled;
    int initialized = 0;
    PMPI_Initialized(&initialized);
    std::unique_ptr<KeySpace> space;
    if (!initialized && !began_with_session) {
        space = open_key_space();
        if (space && !put_presence(*space)) space = nullptr;
    }
    int provided = MPI_THREAD_SINGLE;
    int rc = native(&provided);
    if (rc != MPI_SUCCESS || initialized) return rc;
    shim().multiple = shim().guarded = provided == MPI_THREAD_MULTIPLE;
    start(space && is_presence_published(*space) ? space.get() : nullptr);
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

int session_init(MPI_Info info, MPI_Errhandler handler, void* session) {
    int initialized = 0;
    PMPI_Initialized(&initialized);
    if (!initialized && !began_with_session) {
        began_with_session = true;
        const Launcher launcher = find_launcher();
        if (launcher.processes == 0 || launcher.is_first)
            say(LogLevel::kWarn,
                "MPI_Session_init is called before MPI_Init: Longshore carries jobs that begin with MPI_Init "
                "or "
                "MPI_Init_thread; this one runs with plain MPI, and without statistics");
    }
    return longshore_native_session_init(info, handler, session);
}

int finalize() {
    const Uncancelled uncancelled;
    if (shim().started && shim().pid == getpid()) stop();
    return PMPI_Finalize();
}

int abort(MPI_Comm comm, int code) {
    if (shim().on && shim().pid == getpid()) drain_write_behind();
    return PMPI_Abort(comm, code);
}

}  // namespace entry
}  // namespace longshore::mpi
