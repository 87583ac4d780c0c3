#include "mpi/tasks/task_requests.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "mpi/requests/operation.h"
#include "mpi/shim.h"
#include "tasks/client.h"

namespace longshore::mpi {
namespace {

using tasks::RankTask;

struct TaskRequest {
    RankTask* task = nullptr;
    MPI_Request request = MPI_REQUEST_NULL;
    int error = MPI_SUCCESS;
};

// Never destroyed, as what operation.cc has.
struct Open {
    std::atomic<int> count = 0;
    std::mutex mutex;
    std::vector<TaskRequest*> requests;
};
Open& all() {
    static auto* const open = new Open;
    return *open;
}

int on_query(void* extra, MPI_Status* status) {
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    status->MPI_ERROR = static_cast<TaskRequest*>(extra)->error;
    return status->MPI_ERROR;
}

int on_free(void* extra) {
    delete static_cast<TaskRequest*>(extra);
    return MPI_SUCCESS;
}

int on_cancel(void*, int) {
    return MPI_SUCCESS;
}

void finish(TaskRequest& done) {
    std::string why;
    if (done.task->pool->take(*done.task, &why) != 0) {
        say(LogLevel::kWarn, "rank " + std::to_string(shim().rank) + ": " + why);
        done.error = MPI_ERR_OTHER;
    }
    PMPI_Grequest_complete(done.request);  // from here on it is its waiter's, who may let it go
    all().count.fetch_sub(1);
    count_open(-1);
}

}  // namespace

int make_task_request(longshore_task** task, void* request) {
    auto* const ours = static_cast<RankTask*>(*task);
    if (!ours->pool->is_of_this_process() || !shim().on) return LONGSHORE_ERR_ARGUMENT;
    auto made = std::make_unique<TaskRequest>();
    made->task = ours;
    if (start_generalized(on_query, on_free, on_cancel, made.get(), &made->request) != MPI_SUCCESS)
        return LONGSHORE_ERR_MEMORY;
    *static_cast<MPI_Request*>(request) = made->request;
    *task = nullptr;
    const std::lock_guard lock(all().mutex);
    all().requests.push_back(made.release());
    all().count.fetch_add(1);
    count_open(1);
    return 0;
}

bool progress_task_requests() {
    if (all().count.load(std::memory_order_relaxed) == 0) return false;
    std::vector<TaskRequest*> done;
    {
        const std::unique_lock lock(all().mutex, std::try_to_lock);
        if (!lock.owns_lock()) return false;
        std::erase_if(all().requests, [&](TaskRequest* one) {
            if (!one->task->pool->test(*one->task)) return false;
            done.push_back(one);
            return true;
        });
    }
    for (TaskRequest* one : done) finish(*one);
    return !done.empty();
}

void finish_task_requests(const tasks::Client& pool) {
    const auto has_any = [&pool] {
        const std::lock_guard lock(all().mutex);
        return std::any_of(all().requests.begin(), all().requests.end(),
                           [&](const TaskRequest* one) { return one->task->pool == &pool; });
    };
    while (has_any()) progress_task_requests();
}

}  // namespace longshore::mpi
