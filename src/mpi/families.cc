#include "mpi/families.h"

#include "mpi/collectives.h"

namespace longshore::mpi {
namespace {

// The forms of a family, given the type of its blocking function. `plan` takes the same arguments
// (collectives.h), `native` is the MPI's own function of that form.
template <class Blocking>
struct Forms;

template <class... Arguments>
struct Forms<int(Arguments...)> {
    template <Family family, auto plan, auto native>
    static int blocking(Arguments... arguments) {
        constexpr Call kCall{family, Form::kBlocking};
        Operation* operation = nullptr;
        const Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) return run_blocking(operation);
        HostCall host(kCall, reason);
        return native(arguments...);
    }

    template <Family family, auto plan, auto native>
    static int nonblocking(Arguments... arguments, MPI_Request* request) {
        constexpr Call kCall{family, Form::kNonblocking};
        PostSpan span(kCall);
        Operation* operation = nullptr;
        const Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) return start_request(operation, request);
        HostCall host(kCall, reason);
        return native(arguments..., request);
    }
};

template <class Function>
const void* address(Function* function) {
    return reinterpret_cast<const void*>(function);
}

}  // namespace

void fill_families(const void* entries[LONGSHORE_ENTRY_COUNT]) {
#define FAMILY(Name, name, plan)                                                                      \
    {                                                                                                 \
        using Of = Forms<decltype(PMPI_##Name)>;                                                      \
        constexpr Family kFamily = Family::k##Name;                                                   \
        entries[LONGSHORE_INDEX_MPI_##Name] = address(Of::blocking<kFamily, plan, PMPI_##Name>);      \
        entries[LONGSHORE_INDEX_MPI_I##name] = address(Of::nonblocking<kFamily, plan, PMPI_I##name>); \
    }
    FAMILY(Alltoall, alltoall, plan_uniform)
    FAMILY(Alltoallv, alltoallv, plan_alltoallv)
    FAMILY(Alltoallw, alltoallw, plan_alltoallw)
    FAMILY(Allgather, allgather, plan_uniform)
    FAMILY(Allgatherv, allgatherv, plan_allgatherv)
    FAMILY(Bcast, bcast, plan_bcast)
    FAMILY(Gather, gather, plan_gather)
    FAMILY(Gatherv, gatherv, plan_gatherv)
    FAMILY(Scatter, scatter, plan_scatter)
    FAMILY(Scatterv, scatterv, plan_scatterv)
#undef FAMILY
}

}  // namespace longshore::mpi
