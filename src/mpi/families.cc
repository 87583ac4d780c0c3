#include "mpi/families.h"

#include <tuple>

#include "mpi/arriving.h"
#include "mpi/collectives.h"
#include "mpi/functions.h"
#include "mpi/persistent.h"

namespace longshore::mpi {
namespace {

// --- a large-count form that this MPI lacks, of a call that it must serve: by the form with int, if all that
// it is given fits there
template <class Type>
constexpr bool kIsArray = std::is_same_v<Type, const MPI_Count*> || std::is_same_v<Type, const MPI_Aint*>;

template <class Type>
bool fits(Type value) {
    if constexpr (std::is_same_v<Type, MPI_Count>) return value == static_cast<int>(value);
    return !kIsArray<Type>;  // which cannot be copied for as long as the call is open
}

template <class Type>
auto narrow(Type value) {
    if constexpr (std::is_same_v<Type, MPI_Count>)
        return static_cast<int>(value);
    else if constexpr (kIsArray<Type>)
        return static_cast<const int*>(nullptr);
    else
        return value;
}

int refuse(MPI_Comm comm) {
    PMPI_Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

// The forms of a family, given the type of its blocking function. `plan` takes the same arguments
// (collectives.h), and so does `arriving` (arriving.h); `native`, of number `index`, is the MPI's own
// function of that form, and `other` what takes its place where the MPI lacks it.
template <class Blocking>
struct Forms;

template <class... Arguments>
struct Forms<int(Arguments...)> {
    template <Family family, auto plan, auto arriving, int index, auto native, auto other = native>
    static int blocking(Arguments... arguments) {
        constexpr Call kCall{family, Form::kBlocking};
        Operation* operation = nullptr;
        const Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) return run_blocking(operation);
        HostCall host(kCall, reason, [&] { return arriving(arguments...); });
        if (native_has(index)) return native(arguments...);
        return (fits(arguments) && ...) ? other(narrow(arguments)...) : refuse(comm_of(arguments...));
    }

    template <Family family, auto plan, auto arriving, int index, auto native, auto other = native>
    static int nonblocking(Arguments... arguments, MPI_Request* request) {
        constexpr Call kCall{family, Form::kNonblocking};
        PostSpan span(kCall);
        Operation* operation = nullptr;
        const Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) return start_request(operation, request);
        HostCall host(kCall, reason, [&] { return arriving(arguments...); });
        if (native_has(index)) return native(arguments..., request);
        return (fits(arguments) && ...) ? other(narrow(arguments)..., request)
                                        : refuse(comm_of(arguments...));
    }

    template <Family family, auto plan, auto arriving, int index, auto native, auto other = native>
    static int persistent(Arguments... arguments, MPI_Info info, MPI_Request* request) {
        constexpr Call kCall{family, Form::kPersistent};
        Operation* operation = nullptr;
        const Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) return make_persistent(operation, request);
        HostCall host(kCall, reason, [&] { return arriving(arguments...); });
        if (native_has(index)) return native(arguments..., info, request);
        return (fits(arguments) && ...) ? other(narrow(arguments)..., info, request)
                                        : refuse(comm_of(arguments...));
    }

    static MPI_Comm comm_of(Arguments... arguments) {
        return std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
    }
};

template <class Function>
const void* address(Function* function) {
    return reinterpret_cast<const void*>(function);
}

}  // namespace

void fill_families(const void* entries[LONGSHORE_ENTRY_COUNT]) {
#define ENTRY(form, Function, other)      \
    entries[LONGSHORE_INDEX_##Function] = \
        address(Of::form<kFamily, kPlan, kArriving, LONGSHORE_INDEX_##Function, P##Function, other>);
#define FAMILY(Name, name, arguments)                                  \
    {                                                                  \
        constexpr Family kFamily = Family::k##Name;                    \
        constexpr auto kPlan = plan_##arguments;                       \
        constexpr auto kArriving = arriving_##arguments;               \
        {                                                              \
            using Of = Forms<decltype(PMPI_##Name)>;                   \
            ENTRY(blocking, MPI_##Name, PMPI_##Name)                   \
            ENTRY(nonblocking, MPI_I##name, PMPI_I##name)              \
            ENTRY(persistent, MPI_##Name##_init, PMPIX_##Name##_init)  \
            ENTRY(persistent, MPIX_##Name##_init, PMPI_##Name##_init)  \
        }                                                              \
        {                                                              \
            using Of = Forms<decltype(PMPI_##Name##_c)>;               \
            ENTRY(blocking, MPI_##Name##_c, PMPI_##Name)               \
            ENTRY(nonblocking, MPI_I##name##_c, PMPI_I##name)          \
            ENTRY(persistent, MPI_##Name##_init_c, PMPI_##Name##_init) \
        }                                                              \
    }
    FAMILY(Alltoall, alltoall, uniform)
    FAMILY(Alltoallv, alltoallv, alltoallv)
    FAMILY(Alltoallw, alltoallw, alltoallw)
    FAMILY(Allgather, allgather, uniform)
    FAMILY(Allgatherv, allgatherv, allgatherv)
    FAMILY(Bcast, bcast, bcast)
    FAMILY(Gather, gather, gather)
    FAMILY(Gatherv, gatherv, gatherv)
    FAMILY(Scatter, scatter, scatter)
    FAMILY(Scatterv, scatterv, scatterv)
#undef FAMILY
#undef ENTRY
}

}  // namespace longshore::mpi
