// The Wait and Test family. With none of our operations open each is one look and PMPI_. Otherwise: work on
// what is open, let the MPI test, until it is content; our requests complete in MPI's eyes as soon as they do
// in ours.
#include <vector>

#include "mpi/core_api.h"
#include "mpi/entry.h"
#include "mpi/native/callers.h"
#include "mpi/native/functions.h"
#include "mpi/requests/at_once.h"
#include "mpi/requests/operation.h"
#include "mpi/requests/persistent.h"
#include "mpi/requests/waiter.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"

namespace longshore::mpi {
namespace {

// `attempt(&done)` is the PMPI_Test of what is waited for.
template <class Attempt>
int wait_for(bool native, Function function, Operation* first, Attempt attempt) {
    const uint64_t begin = begin_of_call_ns();
    const Inside inside(function, begin);
    const WaitNote note;
    // Read now: a request that completes takes its operation with it.
    const Call call = first ? first->call : Call{};
    const CommIndex comm = first ? first->comm : CommIndex::kNone;
    Waiter waiter(native);
    int done = 0, rc = MPI_SUCCESS;
    for (uint32_t round = 0;; ++round) {
        Progress progress = progress_open();
        // While our own blocks move and nothing became complete, MPI's answer is known, or can wait a little.
        if (native || progress.completed || !progress.moved || round % 16 == 0) {
            rc = attempt(&done);
            if (done || rc != MPI_SUCCESS) break;
        }
        waiter.step(progress.moved, first && is_open(*first) ? first : nullptr);
    }
    if (!begin) return rc;
    const uint64_t end = now_ns();
    if (first && stats_wanted()) count_time(call, comm, CallTime::kWaiting, end - begin);
    trace_span(SpanKind::kWait, function, begin, end);
    return rc;
}

// With statistics: the first of ours among the requests, to whose call the wait for several is counted.
Operation* first_counted(int count, const MPI_Request requests[]) {
    for (int i = 0; i < count && stats_wanted(); ++i)
        if (Operation* ours = find_operation(requests[i])) return ours;
    return nullptr;
}

bool any_native(int count, const MPI_Request requests[]) {
    for (int i = 0; i < count; ++i)
        if (requests[i] != MPI_REQUEST_NULL && !find_operation(requests[i])) return true;
    return false;
}

// Until none of ours among the requests is open. Not by PMPI_Testall: that looks at every request each time.
void wait_for_ours(int count, const MPI_Request requests[]) {
    const WaitNote note;
    Waiter waiter(false);
    for (int i = 0; i < count; ++i) {
        Operation* operation = find_operation(requests[i]);
        if (!operation || !is_open(*operation)) continue;
        const uint64_t begin = stats_now_ns();
        while (is_open(*operation)) waiter.step(progress_open().moved, operation);
        if (begin) count_time(operation->call, operation->comm, CallTime::kWaiting, now_ns() - begin);
    }
}

// MPICH 4.0.2 looks at requests by 64 at a time. If the last of them are all messages, and statuses are
// ignored, its MPI_Testall takes all others for messages too, and stops on an assertion; MPI_Waitall does
// not.
int test_all(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    constexpr int kSafeMax = 64;
    if (count <= kSafeMax || statuses != MPI_STATUSES_IGNORE || !any_request())
        return PMPI_Testall(count, requests, flag, statuses);
    std::vector<MPI_Status> own(static_cast<size_t>(count));
    return PMPI_Testall(count, requests, flag, own.data());
}

// The MPI's own requests among them, in one call of the MPI. MPICH finishes requests of MPI-IO only by
// polling them, in the order of the array and one by one; any other order, as a loop of MPI_Testall has,
// differs from rank to rank and confuses the collectives that they are made of. Our operations go on
// meanwhile by their service processes. `places`: where each stands in `requests`.
int wait_for_natives(int count, MPI_Request requests[], std::vector<int>* places,
                     std::vector<MPI_Status>* statuses) {
    std::vector<MPI_Request> natives;
    for (int i = 0; i < count; ++i)
        if (requests[i] != MPI_REQUEST_NULL && !find_operation(requests[i])) {
            places->push_back(i);
            natives.push_back(requests[i]);
        }
    statuses->resize(natives.size());
    const int rc = PMPI_Waitall(static_cast<int>(natives.size()), natives.data(), statuses->data());
    for (size_t i = 0; i < natives.size(); ++i) requests[(*places)[i]] = natives[i];
    return rc;
}

// What MPI_Waitall says where some of the MPI's own requests have failed: ours are not waited for.
int unfinished(int rc, int count, const std::vector<int>& places,
               const std::vector<MPI_Status>& native_statuses, MPI_Status statuses[]) {
    if (statuses == MPI_STATUSES_IGNORE) return rc;
    for (int i = 0; i < count; ++i) statuses[i].MPI_ERROR = MPI_ERR_PENDING;
    for (size_t i = 0; i < places.size(); ++i) statuses[places[i]] = native_statuses[i];
    return rc;
}

MPI_Status* nth(MPI_Status statuses[], int i) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

// MPICH 4.0.2 leaves parts of the status as they were.
int look_at(MPI_Request request, int* done, MPI_Status* status) {
    if (status != MPI_STATUS_IGNORE) *status = MPI_Status{};
    return PMPI_Request_get_status(request, done, status);
}

int refuse_request(int error) {
    PMPI_Comm_call_errhandler(MPI_COMM_WORLD, error);
    return error;
}

}  // namespace

namespace entry {

int start(MPI_Request* request) {
    Operation* ours = find_operation(*request);
    return ours && ours->is_persistent() ? start_persistent(ours) : PMPI_Start(request);
}

int startall(int count, MPI_Request requests[]) {
    if (!any_persistent()) return PMPI_Startall(count, requests);
    for (int i = 0; i < count; ++i)
        if (const int error = start(&requests[i]); error != MPI_SUCCESS) return error;
    return MPI_SUCCESS;
}

int wait(MPI_Request* request, MPI_Status* status) {
    if (!any_open()) {
        const MpiWaitNote note(kFunctionWait);
        return PMPI_Wait(request, status);
    }
    note_waits(1, request);
    Operation* ours = find_operation(*request);
    return wait_for(!ours, kFunctionWait, ours, [&](int* done) -> int {
        if (ours && is_open(*ours)) return MPI_SUCCESS;
        return PMPI_Test(request, done, status);
    });
}

int waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (!any_open()) {
        const MpiWaitNote note(kFunctionWaitall);
        return PMPI_Waitall(count, requests, statuses);
    }
    note_waits(count, requests);
    const bool natives_first = mpi_has_communicators() && any_native(count, requests);
    std::vector<int> places;
    std::vector<MPI_Status> native_statuses;
    if (natives_first) {
        const int rc = wait_for_natives(count, requests, &places, &native_statuses);
        if (rc != MPI_SUCCESS) return unfinished(rc, count, places, native_statuses, statuses);
    }
    const uint64_t begin = begin_of_call_ns();
    {
        const Inside inside(kFunctionWaitall, begin);
        wait_for_ours(count, requests);
    }
    if (trace_wanted()) trace_span(SpanKind::kWait, kFunctionWaitall, begin, now_ns());
    if (natives_first) {
        const int rc = PMPI_Waitall(count, requests, statuses);
        for (size_t i = 0; i < places.size() && statuses != MPI_STATUSES_IGNORE; ++i)
            statuses[places[i]] = native_statuses[i];
        return rc;
    }
    if (!any_open()) return PMPI_Waitall(count, requests, statuses);
    return wait_for(true, kFunctionWaitall, nullptr,
                    [&](int* done) { return test_all(count, requests, done, statuses); });
}

int waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
    if (!any_open()) {
        const MpiWaitNote note(kFunctionWaitany);
        return PMPI_Waitany(count, requests, index, status);
    }
    note_waits(count, requests);
    return wait_for(any_native(count, requests), kFunctionWaitany, first_counted(count, requests),
                    [&](int* done) { return PMPI_Testany(count, requests, index, done, status); });
}

int waitsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
    if (!any_open()) {
        const MpiWaitNote note(kFunctionWaitsome);
        return PMPI_Waitsome(incount, requests, outcount, indices, statuses);
    }
    note_waits(incount, requests);
    return wait_for(any_native(incount, requests), kFunctionWaitsome, first_counted(incount, requests),
                    [&](int* done) {
                        int rc = PMPI_Testsome(incount, requests, outcount, indices, statuses);
                        *done = *outcount != 0;  // MPI_UNDEFINED too: nothing active
                        return rc;
                    });
}

int test(MPI_Request* request, int* flag, MPI_Status* status) {
    const TestNote note(kFunctionTest, 1, request);
    progress_open();
    return PMPI_Test(request, flag, status);
}

int testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    const TestNote note(kFunctionTestall, count, requests);
    progress_open();
    return test_all(count, requests, flag, statuses);
}

int testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
    const TestNote note(kFunctionTestany, count, requests);
    progress_open();
    return PMPI_Testany(count, requests, index, flag, status);
}

int testsome(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
    const TestNote note(kFunctionTestsome, incount, requests);
    progress_open();
    return PMPI_Testsome(incount, requests, outcount, indices, statuses);
}

int request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
    const TestNote note(kFunctionGetStatus, 1, &request);
    progress_open();
    return PMPI_Request_get_status(request, flag, status);
}

// MPI 4.1's forms for several requests; where the MPI lacks them, by the one for one.
int request_get_status_all(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    const TestNote note(kFunctionGetStatusAll, count, requests);
    progress_open();
    if (native_has(LONGSHORE_INDEX_MPI_Request_get_status_all))
        return PMPI_Request_get_status_all(count, requests, flag, statuses);
    *flag = 1;
    for (int i = 0; i < count && *flag; ++i) {
        if (int rc = look_at(requests[i], flag, nth(statuses, i)); rc != MPI_SUCCESS) return rc;
    }
    return MPI_SUCCESS;
}

int request_get_status_any(int count, const MPI_Request requests[], int* index, int* flag,
                           MPI_Status* status) {
    const TestNote note(kFunctionGetStatusAny, count, requests);
    progress_open();
    if (native_has(LONGSHORE_INDEX_MPI_Request_get_status_any))
        return PMPI_Request_get_status_any(count, requests, index, flag, status);
    bool any = false;
    for (int i = 0; i < count; ++i) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        any = true;
        int rc = look_at(requests[i], flag, status);
        *index = i;
        if (rc != MPI_SUCCESS || *flag) return rc;
    }
    *index = MPI_UNDEFINED;
    *flag = 0;
    return any ? MPI_SUCCESS : PMPI_Request_get_status(MPI_REQUEST_NULL, flag, status);
}

int request_get_status_some(int incount, const MPI_Request requests[], int* outcount, int indices[],
                            MPI_Status statuses[]) {
    const TestNote note(kFunctionGetStatusSome, incount, requests);
    progress_open();
    if (native_has(LONGSHORE_INDEX_MPI_Request_get_status_some))
        return PMPI_Request_get_status_some(incount, requests, outcount, indices, statuses);
    bool any = false;
    *outcount = 0;
    for (int i = 0; i < incount; ++i) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        any = true;
        int done = 0;
        if (int rc = look_at(requests[i], &done, nth(statuses, *outcount)); rc != MPI_SUCCESS) return rc;
        if (done) indices[(*outcount)++] = i;
    }
    if (!any) *outcount = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

// A collective's request can be neither freed nor cancelled while it is active (MPI 4.0, 6.12 and 6.13).
int request_free(MPI_Request* request) {
    Operation* ours = find_operation(*request);
    if (ours && ours->is_persistent()) return free_persistent(ours, request);
    return ours ? refuse_request(MPI_ERR_REQUEST) : PMPI_Request_free(request);
}

int cancel(MPI_Request* request) {
    if (find_operation(*request)) return refuse_request(MPI_ERR_REQUEST);
    return PMPI_Cancel(request);
}

}  // namespace entry
}  // namespace longshore::mpi
