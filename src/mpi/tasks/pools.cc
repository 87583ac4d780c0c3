#include "mpi/tasks/pools.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "mpi/tasks/task_requests.h"
#include "tasks/client.h"

extern char** environ;

namespace longshore::mpi {
namespace {

using tasks::Client;
using tasks::RankTask;

// Never destroyed: a program may close its pools late.
struct Pools {
    std::mutex mutex;
    std::vector<std::unique_ptr<Client>> open;
};
Pools& pools() {
    static auto* const all = new Pools;
    return *all;
}

// What a task process inherits of the program's environment: what threads, numerical libraries and the search
// for libraries go by.
bool goes_along(const char* variable) {
    static constexpr const char* kBeginnings[] = {"LD_LIBRARY_PATH=",
                                                  "PATH=",
                                                  "HOME=",
                                                  "USER=",
                                                  "TMPDIR=",
                                                  "LANG=",
                                                  "LC_",
                                                  "OMP_",
                                                  "GOMP_",
                                                  "KMP_",
                                                  "OPENBLAS_",
                                                  "MKL_",
                                                  "BLIS_",
                                                  "LONGSHORE_TASK_"};
    return std::any_of(std::begin(kBeginnings), std::end(kBeginnings), [&](const char* beginning) {
        return strncmp(variable, beginning, strlen(beginning)) == 0;
    });
}

// False: there is no room for all of it.
bool fill_environment(tasks::OpenPool* request) {
    size_t at = 0;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        if (!goes_along(*variable)) continue;
        const size_t bytes = strlen(*variable) + 1;
        if (bytes > sizeof request->environment - at) return false;
        memcpy(request->environment + at, *variable, bytes);
        at += bytes;
    }
    request->environment_bytes = static_cast<uint32_t>(at);
    return true;
}

// What OpenMP would use.
uint32_t threads_of_program() {
    const char* const text = getenv("OMP_NUM_THREADS");
    const int threads = text != nullptr ? atoi(text) : 1;
    return threads > 0 ? static_cast<uint32_t>(threads) : 1;
}

// The heap's file, unless the program has closed it and has another under its number.
int own_heap(tasks::SharedHeap* out) {
    const longshore_heap* const heap = shim().stub->heap();
    struct stat status {};
    if (heap == nullptr || heap->file < 0 || fstat(heap->file, &status) != 0 ||
        status.st_ino != heap->identity)
        return -1;
    *out = {reinterpret_cast<uint64_t>(heap->base), heap->bytes};
    return heap->file;
}

bool fill(const char* plugin, Client::Options* options, std::string* error) {
    ls_task_door door{};
    const auto fail = [&](const char* why) {
        *error = std::string(plugin) + ": " + why;
        return false;
    };
    {
        ContextLock lock;
        const bool is_far = !shim().settings.dpu.empty();
        if ((is_far ? ls_find_far_task_door : ls_find_task_door)(shim().context, &door) != LS_OK)
            return fail("there is no supervisor of task processes");
    }
    memcpy(options->door.text, door.name, sizeof options->door.text);
    tasks::OpenPool& request = options->request;
    std::copy(std::begin(door.token), std::end(door.token), request.token.begin());
    request.local_rank = door.local_rank;
    const Settings& settings = shim().settings;
    request.processes = settings.task_processes;
    request.threads = threads_of_program();
    snprintf(request.cores, sizeof request.cores, "%s", settings.task_cores.text.c_str());
    snprintf(request.node, sizeof request.node, "%s", settings.task_node.c_str());
    if (longshore_find_plugin(plugin, request.plugin, sizeof request.plugin) != 0)
        return fail("the path of the plug-in is too long");
    if (getcwd(request.directory, sizeof request.directory) == nullptr)
        return fail("the working directory is gone");
    if (!fill_environment(&request))
        return fail("the environment is too large (OMP_*, LD_LIBRARY_PATH and others go along)");
    options->heap_file = own_heap(&request.heap);
    options->stderr_file = fcntl(STDERR_FILENO, F_GETFD) >= 0 ? STDERR_FILENO : -1;
    options->limit_s = settings.limit_s;
    options->report_s = settings.wait_report_s;
    options->may_spin = !shim().oversubscribed;
    options->open_buffer = shim().stub->open_buffer;
    options->close_buffer = shim().stub->close_buffer;
    options->progress = [] {
        progress_open();
        drive_native();
    };
    options->report = [](const std::string& line) {
        say(LogLevel::kWarn, "rank " + std::to_string(shim().rank) + ": " + line);
    };
    return true;
}

void set_error(char* error, const std::string& text) {
    snprintf(error, LONGSHORE_TASK_ERROR_BYTES, "%s", text.c_str());
}

// Runs `body`, in which memory may run out, and gives the reason of an error. What comes out of the program's
// own code, by way of the MPI's progress, passes.
template <class Body>
int guarded(char* error, const Body& body) {
    std::string why;
    int result = LONGSHORE_ERR_MEMORY;
    try {
        result = body(&why);
    } catch (const std::bad_alloc&) {
        why = "out of memory";
    }
    if (result != 0) set_error(error, why);
    return result;
}

int not_here(std::string* error) {
    *error = "a forked child has no pools: they are its parent's";
    return LONGSHORE_ERR_ARGUMENT;
}

const longshore_task_functions& the_functions();

int open_pool(const char* plugin, longshore_pool** out, char* error) {
    return guarded(error, [&](std::string* why) -> int {
        if (getpid() != shim().pid) return not_here(why);
        Client::Options options;
        if (!fill(plugin, &options, why)) return LONGSHORE_ERR_NO_PROCESS;
        std::unique_ptr<Client> client;
        const int result = Client::open(std::move(options), &the_functions(), &client, why);
        if (result != 0) return result;
        *out = client.get();
        const std::lock_guard lock(pools().mutex);
        pools().open.push_back(std::move(client));
        return 0;
    });
}

// Takes it off the list; null: it is not there (MPI_Finalize has closed it).
std::unique_ptr<Client> take_pool(longshore_pool* pool) {
    const std::lock_guard lock(pools().mutex);
    const auto at = std::find_if(pools().open.begin(), pools().open.end(),
                                 [&](const auto& one) { return one.get() == pool; });
    if (at == pools().open.end()) return nullptr;
    std::unique_ptr<Client> client = std::move(*at);
    pools().open.erase(at);
    return client;
}

int close_pool(longshore_pool* pool, char* error) {
    return guarded(error, [&](std::string* why) -> int {
        if (getpid() != shim().pid) return not_here(why);
        const std::unique_ptr<Client> client = take_pool(pool);
        if (client == nullptr) {
            *why = "longshore_close_pool: MPI_Finalize has closed this pool already";
            return LONGSHORE_ERR_ARGUMENT;
        }
        client->close(0);
        finish_task_requests(*client);
        return 0;
    });
}

int submit(longshore_pool* pool, const char* function, const void* arguments, size_t arguments_bytes,
           const longshore_buffer* buffers, int buffers_count, longshore_task** out, char* error) {
    auto* const client = static_cast<Client*>(pool);
    RankTask* task = nullptr;
    const int result = guarded(error, [&](std::string* why) -> int {
        if (!client->is_of_this_process()) return not_here(why);
        return client->submit(function, arguments, arguments_bytes,
                              {buffers, static_cast<size_t>(buffers_count)}, &task, why);
    });
    *out = task;
    return result;
}

int keep_or_change(longshore_pool* pool, const void* data, size_t bytes, bool is_change, longshore_task** out,
                   char* error) {
    auto* const client = static_cast<Client*>(pool);
    RankTask* task = nullptr;
    const int result = guarded(error, [&](std::string* why) -> int {
        if (!client->is_of_this_process()) return not_here(why);
        return client->keep(data, bytes, is_change, &task, why);
    });
    *out = task;
    return result;
}

int keep(longshore_pool* pool, const void* data, size_t bytes, longshore_task** out, char* error) {
    return keep_or_change(pool, data, bytes, false, out, error);
}

int change(longshore_pool* pool, const void* data, size_t bytes, longshore_task** out, char* error) {
    return keep_or_change(pool, data, bytes, true, out, error);
}

int forget(longshore_pool* pool, const void* data, char* error) {
    auto* const client = static_cast<Client*>(pool);
    return guarded(error, [&](std::string* why) -> int {
        if (!client->is_of_this_process()) return not_here(why);
        return client->forget(data, why);
    });
}

int take(RankTask& task, char* error) {
    return guarded(error, [&](std::string* why) { return task.pool->take(task, why); });
}

int test(longshore_task* task, int* done, char* error) {
    auto& tested = *static_cast<RankTask*>(task);
    if (!tested.pool->is_of_this_process()) return guarded(error, not_here);
    *done = tested.pool->test(tested) ? 1 : 0;
    if (*done != 0) return take(tested, error);
    progress_open();
    return 0;
}

int wait(longshore_task* task, char* error) {
    auto& waited = *static_cast<RankTask*>(task);
    if (!waited.pool->is_of_this_process()) return guarded(error, not_here);
    waited.pool->wait(waited);
    return take(waited, error);
}

void counters(const longshore_pool* pool, longshore_pool_counters* out) {
    static_cast<const Client*>(pool)->counters(out);
}

const longshore_task_functions& the_functions() {
    static const longshore_task_functions functions = {
        LONGSHORE_TASK_API_VERSION, open_pool, close_pool, submit, test, wait, counters,
        make_task_request,          keep,      change,     forget,
    };
    return functions;
}

}  // namespace

const longshore_task_functions* get_task_functions(uint32_t version, const char** why) {
    if (version == 0 || version > LONGSHORE_TASK_API_VERSION) {
        *why = "its liblongshore_task.a is of another version than the Longshore that it runs under";
        return nullptr;
    }
    if (!shim().on) {
        *why = shim().started ? "the job runs with plain MPI, or has one rank"
                              : "MPI_Init has not been called, or MPI_Finalize has";
        return nullptr;
    }
    if (!shim().settings.dpu.empty() && shim().settings.task_node.empty()) {
        *why = "with LONGSHORE_DPU they go to task processes with LONGSHORE_TASK_NODE=dpu alone";
        return nullptr;
    }
    return &the_functions();
}

void close_pools(uint32_t limit_s) {
    std::vector<std::unique_ptr<Client>> left;
    {
        const std::lock_guard lock(pools().mutex);
        left = std::move(pools().open);
        pools().open.clear();
    }
    for (auto& client : left) {
        const uint32_t open = client->close(limit_s);
        if (open != 0)
            say(LogLevel::kWarn, "rank " + std::to_string(shim().rank) + ": " + std::to_string(open) +
                                     " tasks of " + client->name() +
                                     " are not over at MPI_Finalize, and are given up");
        // The program may still look at its tasks.
        static_cast<void>(client.release());
    }
}

}  // namespace longshore::mpi
