#include "mpi/requests/persistent.h"

#include <atomic>
#include <vector>

#include "mpi/calls/collectives.h"
#include "mpi/leaving.h"
#include "mpi/requests/at_once.h"

namespace longshore::mpi {
namespace {

std::atomic<int> open_requests = 0;

void forget(Operation* operation) {
    give_own_tag(operation->tag);
    {
        ContextLock lock;
        // At MPI_Finalize the groups may be gone already.
        if (std::erase(operation->group->lanes, operation->lane) != 0) ls_group_free(operation->lane);
    }
    drop(operation);
}

// Forgets an operation whose initialization ends, however that is, unless a request stands for it.
class Forgetting {
  public:
    explicit Forgetting(Operation* operation) : operation_(operation) {}
    ~Forgetting() {
        if (operation_) forget(operation_);
    }
    Forgetting(const Forgetting&) = delete;
    Forgetting& operator=(const Forgetting&) = delete;
    void release() { operation_ = nullptr; }

  private:
    Operation* operation_;
};

}  // namespace

Reason give_lane(Operation* operation) {
    const Uncancelled uncancelled;
    Forgetting forgetting(operation);
    give_lane(operation->group, &operation->lane);
    if (!operation->lane) return Reason::kNoGroup;
    forgetting.release();
    return Reason::kNone;
}

int make_persistent(Operation* operation, MPI_Request* request) {
    Forgetting forgetting(operation);
    hold_types(operation, &operation->packed_first);
    hold_types(operation, &operation->unpacked_last);
    operation->tag = take_own_tag();
    if (PMPI_Recv_init(nullptr, 0, MPI_BYTE, 0, operation->tag, shim().self, &operation->request) !=
        MPI_SUCCESS)
        return raise_error(operation->call, operation->group, MPI_ERR_OTHER);
    forgetting.release();
    *request = operation->request;
    add_request(operation);
    open_requests.fetch_add(1, std::memory_order_relaxed);
    return MPI_SUCCESS;
}

namespace {

int start_uncancelled(Operation* operation) {
    const Uncancelled uncancelled;
    if (const int error = PMPI_Start(&operation->request); error != MPI_SUCCESS) return error;
    operation->error = MPI_SUCCESS;
    operation->reported = false;
    if (const int rc = start(operation); rc < 0) {
        signal_persistent(operation->tag);
        PMPI_Wait(&operation->request, MPI_STATUS_IGNORE);
        return error_of(rc);
    }
    operation->active = true;
    note_started(operation);
    add_open(operation);
    return MPI_SUCCESS;
}

}  // namespace

int start_persistent(Operation* operation) {
    PostSpan span(operation->call);
    const int error = operation->open ? MPI_ERR_REQUEST : start_uncancelled(operation);
    if (error != MPI_SUCCESS) return raise_error(operation->call, operation->group, error);
    span.set_offloaded(operation->comm);
    return MPI_SUCCESS;
}

int free_persistent(Operation* operation, MPI_Request* request) {
    if (operation->open) return raise_error(operation->call, operation->group, MPI_ERR_REQUEST);
    // Before the MPI gives the handle to somebody else.
    remove_request(operation);
    open_requests.fetch_sub(1, std::memory_order_relaxed);
    forget(operation);
    return PMPI_Request_free(request);
}

void signal_persistent(int tag) {
    PMPI_Send(nullptr, 0, MPI_BYTE, 0, tag, shim().self);
}

bool any_persistent() {
    return open_requests.load(std::memory_order_relaxed) != 0;
}

}  // namespace longshore::mpi
