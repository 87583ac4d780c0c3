#include "mpi/requests/operation.h"

#include <dlfcn.h>

#include <atomic>
#include <iterator>

#include "fabric/shm/system.h"
#include "mpi/calls/give_up.h"
#include "mpi/leaving.h"
#include "mpi/requests/at_once.h"
#include "mpi/requests/helper.h"
#include "mpi/requests/operation_data.h"
#include "mpi/requests/persistent.h"
#include "mpi/requests/request_table.h"
#include "mpi/requests/wait_errors.h"
#include "mpi/requests/waiter.h"
#include "mpi/statistics/comm_names.h"
#include "mpi/statistics/log.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"
#include "mpi/tasks/task_requests.h"

namespace longshore::mpi {
namespace {

constexpr size_t kRecycledMax = 64;
// Together, because a wait finds all of it cold. Never destroyed.
struct alignas(64) State {
    std::atomic<int> open_count = 0;
    std::atomic<int> request_count = 0;  // of ours that the program still holds
    std::vector<Operation*> open;
    RequestTable requests;
    std::vector<Operation*> recycled;
};
union Forever {
    State state;
    constexpr Forever() : state() {}
    ~Forever() {}
};
constinit Forever forever;
constinit State& all = forever.state;

// After the host library is through with it: the receive buffer gets its data, everything held is given back,
// but for the Operation itself, and what a persistent one needs again.
void complete(Operation* operation, int result) {
    operation->error = operation->lost != MPI_SUCCESS ? operation->lost : error_of(result);
    if (operation->error == MPI_SUCCESS) operation->error = unpack_last(*operation);
    {
        ContextLock lock;
        ls_operation_free(operation->host);
        operation->host = nullptr;
    }
    if (!operation->is_persistent()) free_data(operation);
}

void recycle(Operation* operation) {
    release(operation->group);
    ContextLock lock;
    if (all.recycled.size() < kRecycledMax)
        all.recycled.push_back(operation);
    else
        delete operation;
}

// --- the generalized request
int on_query(void* extra, MPI_Status* status) {
    auto* operation = static_cast<Operation*>(extra);
    // From here on is seen what the thread that completed it did before, whatever the MPI promises.
    static_cast<void>(is_open(*operation));
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    status->MPI_ERROR = operation->error;
    if (operation->error == MPI_SUCCESS || !tell_later(*operation, status)) return operation->error;
    status->MPI_ERROR = MPI_SUCCESS;
    return MPI_SUCCESS;
}

int on_free(void* extra) {
    auto* operation = static_cast<Operation*>(extra);
    remove_request(operation);
    recycle(operation);
    return MPI_SUCCESS;
}

int on_cancel(void*, int) {
    return MPI_SUCCESS;
}  // a collective cannot be cancelled: entry::cancel says so

// --- waits in code that we do not see
// Operations that turned out to be over in one look; the others' turn comes with the next.
struct Done {
    struct Item {
        Operation* operation;
        int result;
        bool is_told = false;  // to whoever waits for it
    };
    Item items[16];
    size_t count = 0, finished = 0;
};

Progress progress_locked(Done* done) {
    Progress progress;
    auto& list = all.open;
    for (size_t i = 0; i < list.size() && done->count < std::size(done->items);) {
        Operation* operation = list[i];
        int moved = 0;
        int rc = ls_operation_test(operation->host, &moved);
        progress.moved |= moved != 0;
        if (rc == LS_IN_PROGRESS) {
            ++i;
            continue;
        }
        done->items[done->count++] = {operation, rc};
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return progress;
}

void finish_next(Done* done) {
    Done::Item& item = done->items[done->finished];
    Operation* operation = item.operation;
    if (!item.is_told) {
        note_complete(*operation);
        if (!operation->call.is_blocking()) log_complete(*operation);
        complete(operation, item.result);
        item.is_told = true;
        const bool persistent = operation->is_persistent();
        const int tag = operation->tag;
        const MPI_Request request = operation->request;
        // From here on it is its waiter's, who may let it go or start it anew.
        std::atomic_ref<bool>(operation->open).store(false, std::memory_order_release);
        if (persistent)
            signal_persistent(tag);
        else
            PMPI_Grequest_complete(request);
    }
    all.open_count.fetch_sub(1, std::memory_order_release);
    ++done->finished;
}

// They are on no list any more: all are finished, even if the thread leaves in the midst of it.
Progress finish_done(Progress progress, Done* done) {
    run_to_the_end([&] {
        while (done->finished < done->count) finish_next(done);
    });
    progress.completed |= done->count != 0;
    return progress;
}

// Called by Open MPI's progress engine.
int on_native_progress() {
    if (all.open_count.load(std::memory_order_relaxed) == 0) return 0;
    const Uncancelled uncancelled;
    Done done;
    Progress progress;
    {
        ContextLock lock(ContextLock::TryOnly{});
        if (!lock.got()) return 0;
        progress = progress_locked(&done);
    }
    progress = finish_done(progress, &done);
    progress.completed |= progress_task_requests();
    return progress.completed ? 1 : 0;
}

// MPICH's own way: a generalized request with a poll function.
using GrequestPoll = int(void*, MPI_Status*);
using GrequestWait = int(int, void**, double, MPI_Status*);
using GrequestStartPolled = int (*)(MPI_Grequest_query_function*, MPI_Grequest_free_function*,
                                    MPI_Grequest_cancel_function*, GrequestPoll*, GrequestWait*, void*,
                                    MPI_Request*);
GrequestStartPolled start_polled = nullptr;
bool polled_always = false;  // in all of the MPI's calls that make progress

int on_native_poll(void*, MPI_Status*) {
    on_native_progress();
    return MPI_SUCCESS;
}

// One look, too: MPICH asks again until the request is complete, and makes progress of its own in between.
int on_native_wait(int, void**, double, MPI_Status*) {
    on_native_progress();
    return MPI_SUCCESS;
}

// MPICH's newer way: whenever it makes progress it calls a function, until that says that it is done.
using AsyncPoll = int(void* thing);
using AsyncStart = int (*)(AsyncPoll*, void* state, int stream);
constexpr int kNoStream = 0x3c000000;            // MPIX_STREAM_NULL
constexpr int kAsyncGoesOn = 0, kAsyncDone = 1;  // MPIX_ASYNC_NOPROGRESS, MPIX_ASYNC_DONE
std::atomic<bool> async_ends = false;

int on_native_async(void*) {
    if (async_ends.load(std::memory_order_relaxed)) return kAsyncDone;
    on_native_progress();
    return kAsyncGoesOn;
}

using ProgressCallback = int (*)();
using RegisterProgress = int (*)(ProgressCallback);

}  // namespace

void Operation::reset() {
    host = nullptr;
    group = nullptr;
    lane = nullptr;
    open = reported = given_up = active = false;
    error = lost = MPI_SUCCESS;
    tag = 0;
    table_bytes = 0;
    request = MPI_REQUEST_NULL;
    packed_first.clear();
    unpacked_last.clear();
    arguments = {};
    send_bytes.clear();
    recv_bytes.clear();
}

Operation* new_operation(GroupRecord* group, Call call) {
    Operation* operation = nullptr;
    {
        ContextLock lock;
        if (!all.recycled.empty()) {
            operation = all.recycled.back();
            all.recycled.pop_back();
        }
    }
    if (operation)
        operation->reset();
    else
        operation = new Operation;
    retain(group);
    operation->group = group;
    operation->call = call;
    operation->comm = comm_index(group->comm);
    operation->arguments.collective = call.collective();
    operation->arguments.blocking = call.is_blocking();
    return operation;
}

// The sequence number is taken here, in the communicator's order of calls: arguments are in order, nothing
// may go to MPI any more.
int start(Operation* operation) {
    if (operation->lost == MPI_SUCCESS) operation->lost = pack_first(*operation);
    if (operation->lost != MPI_SUCCESS && !operation->given_up) give_up_data(operation);
    tell_received(*operation);
    int rc;
    {
        ContextLock lock;
        ls_group* group = operation->lane ? operation->lane : operation->group->group;
        rc = ls_operation_start(group, &operation->arguments, &operation->host);
        if (rc >= 0)
            count_offloaded(operation->call, operation->comm, operation->bytes,
                            operation->arguments.algorithm);
    }
    if (rc >= 0) log_posted(operation);
    return rc;
}

void drop(Operation* operation) {
    free_data(operation);
    recycle(operation);
}

void add_open(Operation* operation) {
    {
        ContextLock lock;
        operation->open = true;
        all.open.push_back(operation);
        all.open_count.fetch_add(1, std::memory_order_relaxed);
    }
    if (!polled_always) help_if_behind();
}

void add_request(Operation* operation) {
    ContextLock lock;
    all.requests.insert(operation);
    all.request_count.fetch_add(1, std::memory_order_relaxed);
}

void remove_request(Operation* operation) {
    ContextLock lock;
    all.requests.erase(operation);
    all.request_count.fetch_sub(1, std::memory_order_relaxed);
}

namespace {

// An operation that is on no list, until it is complete: also if the thread leaves in the midst of it,
// because other ranks copy from its buffers and to them, which are the program's again afterwards.
void wait_for(Operation* operation) {
    run_to_the_end([operation] {
        Waiter waiter(false);
        for (;;) {
            int moved = 0, rc = LS_OK;
            {
                ContextLock lock;
                rc = ls_operation_test(operation->host, &moved);
            }
            if (rc != LS_IN_PROGRESS) return complete(operation, rc);
            Progress others = progress_open();
            waiter.step(moved != 0 || others.moved, operation);
        }
    });
}

// Has an operation until a request stands for it, or its call is over, however it ends.
class Owner {
  public:
    explicit Owner(Operation* operation) : operation_(operation) {}
    ~Owner() {
        if (!operation_) return;
        if (operation_->host) wait_for(operation_);
        drop(operation_);
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    void release() { operation_ = nullptr; }

  private:
    Operation* operation_;
};

// An error of which the communicator's error handler is to tell; MPI_SUCCESS: there is none.
int run_to_completion(Operation* operation) {
    const Uncancelled uncancelled;
    note_blocking_begin(operation->call);
    const uint64_t begin = begin_of_call_ns();
    const Inside inside(function_of(operation->call), begin);
    if (const int rc = start(operation); rc < 0) return error_of(rc);
    const uint64_t started = stats_now_ns();
    {
        const WaitNote note;
        wait_for(operation);
    }
    note_blocking_end(operation->call);
    log_complete(*operation);
    const uint64_t end = begin ? now_ns() : 0;
    if (started) {
        count_time(operation->call, operation->comm, CallTime::kPosting, started - begin);
        count_time(operation->call, operation->comm, CallTime::kWaiting, end - started);
    }
    if (begin) trace_span(SpanKind::kWait, function_of(operation->call), begin, end);
    return operation->error;
}

// Likewise. The request is null where there is an error.
int start_with_request(Operation* operation) {
    const Uncancelled uncancelled;
    hold_types(operation, &operation->unpacked_last);
    if (const int rc = start(operation); rc < 0) return error_of(rc);
    const int error = start_generalized(on_query, on_free, on_cancel, operation, &operation->request);
    if (error != MPI_SUCCESS) {
        // It has started although the MPI has no request for it: it is waited for here, and the program
        // learns why.
        operation->request = MPI_REQUEST_NULL;
        wait_for(operation);
        return operation->error != MPI_SUCCESS ? operation->error : error;
    }
    add_request(operation);
    note_started(operation);
    add_open(operation);
    return MPI_SUCCESS;
}

}  // namespace

int run_blocking(Operation* operation) {
    const Owner owner(operation);
    const int error = run_to_completion(operation);
    return error == MPI_SUCCESS ? error : raise_error(operation->call, operation->group, error);
}

int start_generalized(MPI_Grequest_query_function* query, MPI_Grequest_free_function* free,
                      MPI_Grequest_cancel_function* cancel, void* extra, MPI_Request* request) {
    return start_polled ? start_polled(query, free, cancel, on_native_poll, on_native_wait, extra, request)
                        : PMPI_Grequest_start(query, free, cancel, extra, request);
}

void count_open(int change) {
    all.open_count.fetch_add(change, std::memory_order_release);
}

int start_request(Operation* operation, MPI_Request* request) {
    Owner owner(operation);
    const int error = start_with_request(operation);
    *request = operation->request;
    if (error != MPI_SUCCESS) return raise_error(operation->call, operation->group, error);
    owner.release();
    return MPI_SUCCESS;
}

bool any_open() {
    return all.open_count.load(std::memory_order_acquire) != 0;
}

bool any_request() {
    return all.request_count.load(std::memory_order_relaxed) != 0;
}

Operation* find_operation(MPI_Request request) {
    if (request == MPI_REQUEST_NULL || all.request_count.load(std::memory_order_relaxed) == 0) return nullptr;
    ContextLock lock;
    return all.requests.find(request);
}

Progress progress_open() {
    if (!any_open()) return {};
    const Uncancelled uncancelled;
    Done done;
    Progress progress;
    {
        ContextLock lock;
        progress = progress_locked(&done);
    }
    if (done.count != 0) progress = finish_done(progress, &done);
    progress.completed |= progress_task_requests();
    return progress;
}

bool finish_open(uint32_t limit_s) {
    const uint64_t end = awake_ns() + uint64_t{limit_s} * 1'000'000'000;
    Waiter waiter(false);
    while (any_open() && awake_ns() < end) waiter.step(progress_open().moved, nullptr);
    return !any_open();
}

int error_of(int ls_error) {
    if (ls_error >= 0) return MPI_SUCCESS;
    return ls_error == LS_ERR_TRUNCATED ? MPI_ERR_TRUNCATE : MPI_ERR_OTHER;
}

int raise_error(Call call, GroupRecord* group, int error) {
    MPI_Comm comm = group->comm == MPI_COMM_NULL ? MPI_COMM_WORLD : group->comm;
    // The MPI will name the function by which its handler is called.
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (PMPI_Comm_get_errhandler(comm, &handler) == MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        const bool ends = handler == MPI_ERRORS_ARE_FATAL;
        if (ends && PMPI_Error_string(error, text, &length) == MPI_SUCCESS)
            say(LogLevel::kWarn, std::string(call_name(call)) + " on rank " + std::to_string(shim().rank) +
                                     " has failed: " + text);
        if (ends) wait_until_heard();
        if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
    }
    PMPI_Comm_call_errhandler(comm, error);
    return error;
}

void register_progress() {
    if (auto add = reinterpret_cast<RegisterProgress>(dlsym(RTLD_DEFAULT, "opal_progress_register")))
        polled_always = add(on_native_progress) == 0;
    // From MPICH 4.3 on. By the name that it has for tools, as its own header does not need to be there.
    if (auto begin = reinterpret_cast<AsyncStart>(dlsym(RTLD_DEFAULT, "PMPIX_Async_start")))
        polled_always = begin(on_native_async, nullptr, kNoStream) == MPI_SUCCESS;
    // With MPI_THREAD_MULTIPLE an older MPICH holds its lock while it polls a generalized request, and its
    // own functions (we unpack, complete) stop there on an assertion: waits that we do not see are then not
    // polled.
    if (polled_always || shim().multiple) return;
    // The MPI-5 ABI library has no PMPIX_ form.
    for (const char* name : {"PMPIX_Grequest_start", "MPIX_Grequest_start"})
        if (!start_polled) start_polled = reinterpret_cast<GrequestStartPolled>(dlsym(RTLD_DEFAULT, name));
}

void unregister_progress() {
    async_ends = true;
    if (auto remove = reinterpret_cast<RegisterProgress>(dlsym(RTLD_DEFAULT, "opal_progress_unregister")))
        remove(on_native_progress);
}

}  // namespace longshore::mpi
