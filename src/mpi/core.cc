// The one symbol that a shim core exports: the table of its functions, in the order of entry_points.inc.
#include <unwind.h>

#include <cstring>

#include "mpi/calls/families.h"
#include "mpi/calls/other_calls.h"
#include "mpi/calls/select.h"
#include "mpi/core_api.h"
#include "mpi/entry.h"
#include "mpi/job/agreement.h"
#include "mpi/native/callers.h"
#include "mpi/native/functions.h"
#include "mpi/native/native.h"
#include "mpi/shim.h"
#include "mpi/statistics/stats.h"
#include "mpi/tasks/pools.h"

namespace longshore::mpi {
namespace {

// By the header itself, so that a core under another's name is found out.
#if defined(MPI_ABI_VERSION)
constexpr const char* kFlavour = "abi";
#elif defined(OPEN_MPI)
constexpr const char* kFlavour = "openmpi";
#elif defined(MPICH_VERSION)
constexpr const char* kFlavour = "mpich";
#else
#error "an mpi.h of an unknown MPI"
#endif

template <class Function>
const void* address(Function* function) {
    return reinterpret_cast<const void*>(function);
}

struct Table {
    const void* entries[LONGSHORE_ENTRY_COUNT] = {};

    Table() {
#define LONGSHORE_MAKES_COMM(Name, name)  \
    entries[LONGSHORE_INDEX_MPI_##Name] = \
        address(&ForProgram<PMPI_##Name, entry::name, makes_communicator_for_mpi>::call);
#define LONGSHORE_WAIT(Name, name) \
    entries[LONGSHORE_INDEX_MPI_##Name] = address(&ForProgram<PMPI_##Name, told::name, is_mpi_code>::call);
        entries[LONGSHORE_INDEX_MPI_Init] = address(entry::init);
        entries[LONGSHORE_INDEX_MPI_Init_thread] = address(entry::init_thread);
        entries[LONGSHORE_INDEX_MPI_Session_init] = address(entry::session_init);
        entries[LONGSHORE_INDEX_MPI_Finalize] = address(entry::finalize);
        entries[LONGSHORE_INDEX_MPI_Abort] = address(entry::abort);
        LONGSHORE_MAKES_COMM(Comm_dup, comm_dup)
        LONGSHORE_MAKES_COMM(Comm_dup_with_info, comm_dup_with_info)
        LONGSHORE_MAKES_COMM(Comm_split, comm_split)
        LONGSHORE_MAKES_COMM(Comm_split_type, comm_split_type)
        LONGSHORE_MAKES_COMM(Comm_create, comm_create)
        LONGSHORE_MAKES_COMM(Comm_create_group, comm_create_group)
        entries[LONGSHORE_INDEX_MPI_Comm_set_name] = address(entry::comm_set_name);
        LONGSHORE_MAKES_COMM(Cart_create, cart_create)
        LONGSHORE_MAKES_COMM(Cart_sub, cart_sub)
        LONGSHORE_MAKES_COMM(Graph_create, graph_create)
        LONGSHORE_MAKES_COMM(Dist_graph_create, dist_graph_create)
        LONGSHORE_MAKES_COMM(Dist_graph_create_adjacent, dist_graph_create_adjacent)
        fill_families(entries);
        entries[LONGSHORE_INDEX_MPI_Start] = address(entry::start);
        entries[LONGSHORE_INDEX_MPI_Startall] = address(entry::startall);
        LONGSHORE_WAIT(Wait, wait)
        LONGSHORE_WAIT(Waitall, waitall)
        LONGSHORE_WAIT(Waitany, waitany)
        LONGSHORE_WAIT(Waitsome, waitsome)
        LONGSHORE_WAIT(Test, test)
        LONGSHORE_WAIT(Testall, testall)
        LONGSHORE_WAIT(Testany, testany)
        LONGSHORE_WAIT(Testsome, testsome)
        LONGSHORE_WAIT(Request_get_status, request_get_status)
        LONGSHORE_WAIT(Request_get_status_all, request_get_status_all)
        LONGSHORE_WAIT(Request_get_status_any, request_get_status_any)
        LONGSHORE_WAIT(Request_get_status_some, request_get_status_some)
        entries[LONGSHORE_INDEX_MPI_Request_free] = address(entry::request_free);
        entries[LONGSHORE_INDEX_MPI_Cancel] = address(entry::cancel);
        entries[LONGSHORE_INDEX_MPI_Alloc_mem] = address(entry::alloc_mem);
        entries[LONGSHORE_INDEX_MPI_Free_mem] = address(entry::free_mem);
        fill_other_calls(entries);
#undef LONGSHORE_MAKES_COMM
#undef LONGSHORE_WAIT
    }
};

int get_counters(longshore_counters* out) {
    if (!out) return -1;
    *out = longshore_counters{};
    if (!shim().on) return -1;
    *out = counters();
    return 0;
}

int set(const char* name, const char* value) {
    if (!shim().on || !name || !value) return -1;
    const bool breakdown = strcmp(name, "breakdown") == 0;
    if (!breakdown && strcmp(name, "cooperative") != 0) return force_algorithm(name, value) ? 0 : -1;
    const bool on = strcmp(value, "on") == 0;
    if (!on && strcmp(value, "off") != 0) return -1;
    ContextLock lock;
    if (breakdown) return ls_set_breakdown(shim().context, on) == LS_OK ? 0 : -1;
    ls_set_cooperative(shim().context, on);
    return 0;
}

int get_times(longshore_times* out) {
    if (!out) return -1;
    *out = longshore_times{};
    if (!shim().on) return -1;
    ls_times times{};
    {
        ContextLock lock;
        ls_last_times(shim().context, &times);
    }
    *out = {times.published_ns, times.first_copy_ns,      times.landed_ns,
            times.read_ns,      times.copies_by_ranks_ns, times.copies_by_services_ns};
    return 0;
}

// A program may have an unwinder of its own (-static-libgcc), which asks ours about the core's frames. Ours
// knows the registers of this processor only from its first use on, and stops the process if it is asked
// before.
void prepare_unwinder() {
    _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_NORMAL_STOP; }, nullptr);
}

}  // namespace
}  // namespace longshore::mpi

extern "C" __attribute__((visibility("default"))) const longshore_core_api* longshore_core_open(
    const longshore_stub_api* stub) {
    if (stub->version != LONGSHORE_CORE_VERSION || stub->entry_count != LONGSHORE_ENTRY_COUNT) return nullptr;
    longshore::mpi::prepare_unwinder();
    longshore::mpi::set_natives(stub->natives);
    longshore::mpi::set_mpi_code(stub->natives[LONGSHORE_INDEX_MPI_Init]);
    longshore::mpi::shim().stub = stub;
    static const longshore::mpi::Table table;
    static const longshore_core_api api = {LONGSHORE_CORE_VERSION,
                                           LONGSHORE_ENTRY_COUNT,
                                           table.entries,
                                           longshore::mpi::get_counters,
                                           longshore::mpi::set,
                                           longshore::mpi::get_times,
                                           longshore::mpi::get_task_functions,
                                           longshore::mpi::kFlavour,
                                           longshore::mpi::before_pmix_commit};
    return &api;
}
