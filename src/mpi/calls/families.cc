#include "mpi/calls/families.h"

#include <tuple>

#include "mpi/calls/arriving.h"
#include "mpi/calls/collectives.h"
#include "mpi/native/callers.h"
#include "mpi/native/functions.h"
#include "mpi/native/narrow.h"
#include "mpi/requests/persistent.h"

namespace longshore::mpi {
namespace {

int refuse(MPI_Comm comm) {
    PMPI_Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

// Whether the MPI serves the call whatever its other arguments are, and nobody wants to know how long it
// takes. Then it is counted: without a plan, such a call costs a third less.
// What the MPI itself calls on communicators of its own is not counted at all.
bool is_left_at_once(Call call, MPI_Comm comm, const void* return_address) {
    if (times_are_wanted && !mpi_has_communicators()) return false;
    GroupRecord* group = nullptr;
    const Reason reason = refusal(comm, &group);
    if (reason == Reason::kNone) return false;
    if (reason == Reason::kUnseen && is_mpi_code(return_address)) return true;
    if (times_are_wanted) return false;
    log_left(call, comm, reason);
    count_host(call, CommIndex::kNone, reason, 0);
    return true;
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
        if (native_has(index) &&
            is_left_at_once(kCall, communicator(arguments...), __builtin_return_address(0)))
            return native(arguments...);
        Operation* operation = nullptr;
        const Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) return run_blocking(operation);
        HostCall host(kCall, communicator(arguments...), reason, [&] { return arriving(arguments...); });
        if (native_has(index)) return native(arguments...);
        return narrow<family, other>(false, arguments...);
    }

    template <Family family, auto plan, auto arriving, int index, auto native, auto other = native>
    static int nonblocking(Arguments... arguments, MPI_Request* request) {
        constexpr Call kCall{family, Form::kNonblocking};
        if (native_has(index) &&
            is_left_at_once(kCall, communicator(arguments...), __builtin_return_address(0)))
            return native(arguments..., request);
        PostSpan span(kCall);
        Operation* operation = nullptr;
        const Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) {
            span.set_offloaded(operation->comm);
            return start_request(operation, request);
        }
        HostCall host(kCall, communicator(arguments...), reason, [&] { return arriving(arguments...); });
        if (native_has(index)) return native(arguments..., request);
        return narrow<family, other>(true, arguments..., request);
    }

    template <Family family, auto plan, auto arriving, int index, auto native, auto other = native>
    static int persistent(Arguments... arguments, MPI_Info info, MPI_Request* request) {
        constexpr Call kCall{family, Form::kPersistent};
        Operation* operation = nullptr;
        Reason reason = plan(kCall, arguments..., &operation);
        if (reason == Reason::kNone) reason = give_lane(operation);
        if (reason == Reason::kNone) return make_persistent(operation, request);
        HostCall host(kCall, communicator(arguments...), reason, [&] { return arriving(arguments...); });
        if (native_has(index)) return native(arguments..., info, request);
        return narrow<family, other>(true, arguments..., info, request);
    }

  private:
    // The last of the family's arguments.
    static MPI_Comm communicator(Arguments... arguments) {
        return std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
    }

    // What takes the place of a form that the MPI lacks; `more` follows the family's arguments.
    template <Family family, auto other, class... More>
    static int narrow(bool keep, Arguments... arguments, More... more) {
        const auto all = std::tie(arguments...);
        const MPI_Comm comm = communicator(arguments...);
        int root = 0;
        if constexpr (std::is_same_v<std::tuple_element_t<sizeof...(Arguments) - 2, std::tuple<Arguments...>>,
                                     int>)
            root = std::get<sizeof...(Arguments) - 2>(all);
        const bool in_place = std::get<0>(all) == MPI_IN_PLACE;
        Narrow narrowed(arrays_read(family, in_place, root, comm), keep);
        const std::tuple as_int{narrowed(arguments)...};  // braces: one after the other
        if (!narrowed.fits()) return refuse(comm);
        return std::apply([&](auto... each) -> int { return other(each..., more...); }, as_int);
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
#define LONGSHORE_FAMILY(Name, name, arguments)                        \
    {                                                                  \
        constexpr Family kFamily = Family::k##Name;                    \
        constexpr auto kPlan = plan_##arguments;                       \
        constexpr auto kArriving = arriving_##arguments;               \
        {                                                              \
            using Of = Forms<decltype(PMPI_##Name)>;                   \
            ENTRY(blocking, MPI_##Name, PMPI_##Name)                   \
            ENTRY(nonblocking, MPI_I##name, PMPI_I##name)              \
            ENTRY(persistent, MPI_##Name##_init, PMPI_##Name##_init)   \
            ENTRY(persistent, MPIX_##Name##_init, PMPI_##Name##_init)  \
        }                                                              \
        {                                                              \
            using Of = Forms<decltype(PMPI_##Name##_c)>;               \
            ENTRY(blocking, MPI_##Name##_c, PMPI_##Name)               \
            ENTRY(nonblocking, MPI_I##name##_c, PMPI_I##name)          \
            ENTRY(persistent, MPI_##Name##_init_c, PMPI_##Name##_init) \
        }                                                              \
    }
#include "mpi/native/families.inc"
#undef LONGSHORE_FAMILY
#undef ENTRY
}

}  // namespace longshore::mpi
