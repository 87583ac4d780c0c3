#include "mpi/requests/wait_errors.h"

#include <vector>

#include "mpi/entry.h"
#include "mpi/requests/operation.h"
#include "mpi/requests/persistent.h"

namespace longshore::mpi {
namespace {

constexpr int kMark = -0x4C53;  // in MPI_SOURCE, where no MPI has it; MPI_TAG is then the failure's number

// The failures that the MPI meets while this thread is in one call of the family.
class Failures {
  public:
    // `statuses`: of the call, `count` of them.
    Failures(int count, MPI_Status* statuses)
        : current_(current()), outer_(current_), count_(count), statuses_(statuses) {
        current_ = this;
    }
    ~Failures() {
        leave();
        // Where an exception leaves the call the program may look at the statuses all the same.
        if (!is_told_) set_errors();
        for (const Failure& failure : list_) release(failure.group);
    }
    Failures(const Failures&) = delete;
    Failures& operator=(const Failures&) = delete;

    static Failures* innermost() { return current(); }

    void add(const Operation& operation, MPI_Status* status) {
        status->MPI_SOURCE = kMark;
        status->MPI_TAG = static_cast<int>(list_.size());
        retain(operation.group);
        list_.push_back({operation.call, operation.group, operation.error});
    }

    // The MPI has just completed `request`: if it is a persistent one of ours, so has its operation.
    void complete(MPI_Request request, MPI_Status* status) {
        Operation* operation = any_persistent() ? find_operation(request) : nullptr;
        if (!operation || !operation->active || operation->open) return;
        operation->active = false;
        look(*operation, status);
    }
    // Of one that may be complete: what its status says.
    void look(MPI_Request request, MPI_Status* status) {
        Operation* operation = any_persistent() ? find_operation(request) : nullptr;
        if (operation && operation->active && !operation->open) look(*operation, status);
    }

    // Each takes the MPI's answer and gives the program's. At most one request was completed:
    int tell(int rc) {
        leave();
        is_told_ = true;
        if (list_.empty()) return rc;
        if (statuses_) unmark(statuses_);
        const int error = raise_first();
        return rc == MPI_SUCCESS ? error : rc;
    }
    // Several may have been, `count` with a status.
    int tell_several(int rc, int count) {
        leave();
        is_told_ = true;
        if (list_.empty()) return rc;
        count_ = count;
        for (int i = 0; statuses_ && rc == MPI_SUCCESS && i < count; ++i)
            statuses_[i].MPI_ERROR = MPI_SUCCESS;
        set_errors();
        raise_first();
        return MPI_ERR_IN_STATUS;
    }
    // The requests stay, and the call that completes them will tell. `count` have a status.
    int keep(int rc, int count) {
        leave();
        is_told_ = true;
        count_ = count;
        set_errors();
        return rc;
    }

  private:
    struct Failure {
        Call call;
        GroupRecord* group;
        int error;
    };

    void leave() { current_ = outer_; }

    void set_errors() {
        for (int i = 0; statuses_ && !list_.empty() && i < count_; ++i)
            if (const Failure* failure = unmark(&statuses_[i])) statuses_[i].MPI_ERROR = failure->error;
    }

    // As of a nonblocking operation.
    void look(const Operation& operation, MPI_Status* status) {
        MPI_Status nowhere;
        if (!status) status = &nowhere;
        status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
        if (operation.error != MPI_SUCCESS) add(operation, status);
    }

    const Failure* unmark(MPI_Status* status) const {
        if (status->MPI_SOURCE != kMark || status->MPI_TAG < 0 ||
            static_cast<size_t>(status->MPI_TAG) >= list_.size())
            return nullptr;
        const Failure* failure = &list_[static_cast<size_t>(status->MPI_TAG)];
        status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
        return failure;
    }

    // A handler is called once per call, as by the MPIs; it gets the error of the request, not
    // MPI_ERR_IN_STATUS (MPI 4.0, 9.3).
    int raise_first() const { return raise_error(list_[0].call, list_[0].group, list_[0].error); }

    // A thread's own only where there can be several: finding it costs a call.
    static Failures*& current() { return shim().multiple ? of_thread : of_process; }
    static inline constinit thread_local Failures* of_thread = nullptr;
    static inline constinit Failures* of_process = nullptr;
    Failures*& current_;
    Failures* outer_;
    int count_;
    MPI_Status* statuses_;
    bool is_told_ = false;
    std::vector<Failure> list_;
};

}  // namespace

bool tell_later(const Operation& operation, MPI_Status* status) {
    Failures* failures = Failures::innermost();
    if (failures) failures->add(operation, status);
    return failures != nullptr;
}

namespace told {
namespace {

// Null where the program wants no status.
MPI_Status* one(MPI_Status* status) {
    return status == MPI_STATUS_IGNORE ? nullptr : status;
}
MPI_Status* nth(MPI_Status statuses[], int i) {
    return statuses == MPI_STATUSES_IGNORE ? nullptr : &statuses[i];
}

// What MPI_Request_get_status says of one of ours, without asking the MPI.
int look_at_persistent(Operation& operation, int* flag, MPI_Status* status) {
    progress_open();
    *flag = !is_open(operation);
    if (!*flag) drive_native();
    if (!*flag || !status) return MPI_SUCCESS;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = operation.active ? MPI_UNDEFINED : MPI_ANY_SOURCE;
    status->MPI_TAG = operation.active ? MPI_UNDEFINED : MPI_ANY_TAG;
    status->MPI_ERROR = operation.active ? operation.error : MPI_SUCCESS;
    return MPI_SUCCESS;
}

// Whether the call has completed what it says it has, though some of it failed.
bool has_answer(int rc) {
    int error = rc;
    if (rc != MPI_SUCCESS) PMPI_Error_class(rc, &error);
    return error == MPI_SUCCESS || error == MPI_ERR_IN_STATUS;
}

// Of a call for all requests: one that failed may have left others pending.
void complete_all(Failures* failures, int rc, int count, const MPI_Request requests[],
                  MPI_Status statuses[]) {
    if (!any_persistent() || !has_answer(rc)) return;
    for (int i = 0; i < count; ++i) {
        MPI_Status* status = nth(statuses, i);
        if (rc == MPI_SUCCESS || (status && status->MPI_ERROR != MPI_ERR_PENDING))
            failures->complete(requests[i], status);
    }
}

void complete_some(Failures* failures, int rc, int count, const int indices[], const MPI_Request requests[],
                   MPI_Status statuses[]) {
    if (!any_persistent() || !has_answer(rc) || count == MPI_UNDEFINED) return;
    for (int i = 0; i < count; ++i) failures->complete(requests[indices[i]], nth(statuses, i));
}

}  // namespace

int wait(MPI_Request* request, MPI_Status* status) {
    if (!any_request()) return entry::wait(request, status);
    Failures failures(1, one(status));
    const int rc = entry::wait(request, status);
    if (rc == MPI_SUCCESS) failures.complete(*request, one(status));
    return failures.tell(rc);
}

int waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (!any_request()) return entry::waitall(count, requests, statuses);
    Failures failures(count, nth(statuses, 0));
    const int rc = entry::waitall(count, requests, statuses);
    complete_all(&failures, rc, count, requests, statuses);
    return failures.tell_several(rc, count);
}

int waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
    if (!any_request()) return entry::waitany(count, requests, index, status);
    Failures failures(1, one(status));
    const int rc = entry::waitany(count, requests, index, status);
    if (rc == MPI_SUCCESS && *index != MPI_UNDEFINED) failures.complete(requests[*index], one(status));
    return failures.tell(rc);
}

int waitsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
    if (!any_request()) return entry::waitsome(incount, requests, outcount, indices, statuses);
    Failures failures(incount, nth(statuses, 0));
    const int rc = entry::waitsome(incount, requests, outcount, indices, statuses);
    complete_some(&failures, rc, *outcount, indices, requests, statuses);
    return failures.tell_several(rc, *outcount);
}

int test(MPI_Request* request, int* flag, MPI_Status* status) {
    if (!any_request()) return entry::test(request, flag, status);
    Failures failures(1, one(status));
    const int rc = entry::test(request, flag, status);
    if (rc == MPI_SUCCESS && *flag) failures.complete(*request, one(status));
    return failures.tell(rc);
}

int testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    if (!any_request()) return entry::testall(count, requests, flag, statuses);
    Failures failures(count, nth(statuses, 0));
    const int rc = entry::testall(count, requests, flag, statuses);
    if (*flag || rc != MPI_SUCCESS) complete_all(&failures, rc, count, requests, statuses);
    return failures.tell_several(rc, count);
}

int testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
    if (!any_request()) return entry::testany(count, requests, index, flag, status);
    Failures failures(1, one(status));
    const int rc = entry::testany(count, requests, index, flag, status);
    if (rc == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED)
        failures.complete(requests[*index], one(status));
    return failures.tell(rc);
}

int testsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
    if (!any_request()) return entry::testsome(incount, requests, outcount, indices, statuses);
    Failures failures(incount, nth(statuses, 0));
    const int rc = entry::testsome(incount, requests, outcount, indices, statuses);
    complete_some(&failures, rc, *outcount, indices, requests, statuses);
    return failures.tell_several(rc, *outcount);
}

int request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
    if (!any_request()) return entry::request_get_status(request, flag, status);
    // MPICH 5 takes a persistent receive that it has looked at for inactive: later calls would not name it.
    if (Operation* operation = any_persistent() ? find_operation(request) : nullptr;
        operation && operation->is_persistent())
        return look_at_persistent(*operation, flag, one(status));
    Failures failures(1, one(status));
    const int rc = entry::request_get_status(request, flag, status);
    if (rc == MPI_SUCCESS && *flag) failures.look(request, one(status));
    return failures.keep(rc, 1);
}

int request_get_status_all(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    if (!any_request()) return entry::request_get_status_all(count, requests, flag, statuses);
    Failures failures(count, nth(statuses, 0));
    const int rc = entry::request_get_status_all(count, requests, flag, statuses);
    for (int i = 0; rc == MPI_SUCCESS && *flag && i < count; ++i)
        failures.look(requests[i], nth(statuses, i));
    return failures.keep(rc, rc == MPI_SUCCESS && *flag ? count : 0);
}

int request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag,
                           MPI_Status* status) {
    if (!any_request()) return entry::request_get_status_any(count, requests, index, flag, status);
    Failures failures(1, one(status));
    const int rc = entry::request_get_status_any(count, requests, index, flag, status);
    const bool some = rc == MPI_SUCCESS && *flag && *index != MPI_UNDEFINED;
    if (some) failures.look(requests[*index], one(status));
    return failures.keep(rc, some);
}

int request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[],
                            MPI_Status statuses[]) {
    if (!any_request()) return entry::request_get_status_some(incount, requests, outcount, indices, statuses);
    Failures failures(incount, nth(statuses, 0));
    const int rc = entry::request_get_status_some(incount, requests, outcount, indices, statuses);
    const int count = rc == MPI_SUCCESS && *outcount != MPI_UNDEFINED ? *outcount : 0;
    for (int i = 0; i < count; ++i) failures.look(requests[indices[i]], nth(statuses, i));
    return failures.keep(rc, count);
}

}  // namespace told
}  // namespace longshore::mpi
