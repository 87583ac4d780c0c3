#include "mpi/wait_errors.h"

#include <vector>

#include "mpi/entry.h"
#include "mpi/operation.h"

namespace longshore::mpi {
namespace {

constexpr int kMark = -0x4C53;  // in MPI_SOURCE, where no MPI has it; MPI_TAG is then the failure's number

// The failures that the MPI meets while this thread is in one call of the family.
class Failures {
  public:
    Failures() : current_(current()), outer_(current_) { current_ = this; }
    ~Failures() {
        leave();
        for (const Failure& failure : list_) release(failure.group);
    }
    Failures(const Failures&) = delete;
    Failures& operator=(const Failures&) = delete;

    static Failures* innermost() { return current(); }

    void add(GroupRecord* group, int error, MPI_Status* status) {
        status->MPI_SOURCE = kMark;
        status->MPI_TAG = static_cast<int>(list_.size());
        retain(group);
        list_.push_back({group, error});
    }

    // Each takes the MPI's answer and gives the program's. At most one request was completed:
    int tell(int rc, MPI_Status* status) {
        leave();
        if (list_.empty()) return rc;
        if (status != MPI_STATUS_IGNORE) unmark(status);
        const int error = raise_first();
        return rc == MPI_SUCCESS ? error : rc;
    }
    // Several may have been, `count` with a status.
    int tell_several(int rc, int count, MPI_Status statuses[]) {
        leave();
        if (list_.empty()) return rc;
        for (int i = 0; statuses != MPI_STATUSES_IGNORE && i < count; ++i) {
            if (rc == MPI_SUCCESS) statuses[i].MPI_ERROR = MPI_SUCCESS;
            if (const Failure* failure = unmark(&statuses[i])) statuses[i].MPI_ERROR = failure->error;
        }
        raise_first();
        return MPI_ERR_IN_STATUS;
    }
    // The request stays, and the call that completes it will tell.
    int keep(int rc, MPI_Status* status) {
        leave();
        if (list_.empty() || status == MPI_STATUS_IGNORE) return rc;
        if (const Failure* failure = unmark(status)) status->MPI_ERROR = failure->error;
        return rc;
    }

  private:
    struct Failure {
        GroupRecord* group;
        int error;
    };

    void leave() { current_ = outer_; }

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
    int raise_first() const { return raise_error(list_[0].group, list_[0].error); }

    // A thread's own only where there can be several: finding it costs a call.
    static Failures*& current() { return shim().multiple ? of_thread : of_process; }
    static inline constinit thread_local Failures* of_thread = nullptr;
    static inline constinit Failures* of_process = nullptr;
    Failures*& current_;
    Failures* outer_;
    std::vector<Failure> list_;
};

}  // namespace

bool tell_later(GroupRecord* group, int error, MPI_Status* status) {
    Failures* failures = Failures::innermost();
    if (failures) failures->add(group, error, status);
    return failures != nullptr;
}

namespace told {

int wait(MPI_Request* request, MPI_Status* status) {
    if (!any_request()) return entry::wait(request, status);
    Failures failures;
    return failures.tell(entry::wait(request, status), status);
}

int waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (!any_request()) return entry::waitall(count, requests, statuses);
    Failures failures;
    return failures.tell_several(entry::waitall(count, requests, statuses), count, statuses);
}

int waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
    if (!any_request()) return entry::waitany(count, requests, index, status);
    Failures failures;
    return failures.tell(entry::waitany(count, requests, index, status), status);
}

int waitsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
    if (!any_request()) return entry::waitsome(incount, requests, outcount, indices, statuses);
    Failures failures;
    const int rc = entry::waitsome(incount, requests, outcount, indices, statuses);
    return failures.tell_several(rc, *outcount, statuses);
}

int test(MPI_Request* request, int* flag, MPI_Status* status) {
    if (!any_request()) return entry::test(request, flag, status);
    Failures failures;
    return failures.tell(entry::test(request, flag, status), status);
}

int testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    if (!any_request()) return entry::testall(count, requests, flag, statuses);
    Failures failures;
    return failures.tell_several(entry::testall(count, requests, flag, statuses), count, statuses);
}

int testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
    if (!any_request()) return entry::testany(count, requests, index, flag, status);
    Failures failures;
    return failures.tell(entry::testany(count, requests, index, flag, status), status);
}

int testsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
    if (!any_request()) return entry::testsome(incount, requests, outcount, indices, statuses);
    Failures failures;
    const int rc = entry::testsome(incount, requests, outcount, indices, statuses);
    return failures.tell_several(rc, *outcount, statuses);
}

int request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
    if (!any_request()) return entry::request_get_status(request, flag, status);
    Failures failures;
    return failures.keep(entry::request_get_status(request, flag, status), status);
}

}  // namespace told
}  // namespace longshore::mpi
