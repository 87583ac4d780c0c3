// A pool as the rank that has opened it sees it: submits tasks by way of the queues that it shares with its
// task processes, and finds out what has become of them. Knows no MPI: its owner says how the program's other
// communication goes on while it waits. Any thread; a pool has a lock of its own, which is not held while it
// waits.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/shm/socket.h"
#include "tasks/control.h"
#include "tasks/kept.h"
#include "tasks/task_api.h"

namespace longshore::tasks {

class Client;

// What the program holds.
struct RankTask : longshore_task {
    Client* pool = nullptr;
    uint32_t share = 0;   // which of the pool's queues
    uint64_t number = 0;  // in that queue
    uint32_t function = 0;
    bool is_open = false, is_over = false;
    RankTask* also = nullptr;  // the same for the next process: over when all are
    int result = 0;
    char text[kTextBytes] = {};
    int places[LONGSHORE_BUFFERS_MAX] =
        {};  // of its buffers among those open in the shared heap; -1: not there
    uint32_t places_count = 0;
};

class Client : public longshore_pool {
  public:
    struct Options {
        SocketName door;  // of the supervisor
        OpenPool request;
        int heap_file = -1, stderr_file = -1;  // the program's; -1: none
        uint32_t limit_s = 5, report_s = 30;
        bool may_spin = true;
        // Null, or before the process reaches a buffer in the shared heap, and after (memory/heap.h).
        int (*open_buffer)(const void* base, size_t bytes, int anywhere) = nullptr;
        void (*close_buffer)(int place) = nullptr;
        // Lets MPI and open collectives go on; called now and then by whoever waits.
        std::function<void()> progress;
        std::function<void(const std::string&)> report;
    };
    // 0, or an error of longshore_task.h with its reason. Waits for at most some times limit_s.
    static int open(Options options, const longshore_task_functions* functions, std::unique_ptr<Client>* out,
                    std::string* error);
    // Takes leave without a word.
    ~Client();

    int submit(const char* function, const void* arguments, size_t arguments_bytes,
               std::span<const longshore_buffer> buffers, RankTask** task, std::string* error);
    // As longshore_keep and longshore_change (`is_change`): a task for each process, of which `task` is the
    // first.
    int keep(const void* data, size_t bytes, bool is_change, RankTask** task, std::string* error);
    // Waits.
    int forget(const void* data, std::string* error);
    // True: it is over, and its result stands in it until it is freed.
    bool test(RankTask& task);
    void wait(RankTask& task);
    // Its result, with the reason if it is an error; the task is gone. LONGSHORE_ERR_ARGUMENT: it is none.
    int take(RankTask& task, std::string* error);
    // Waits for open tasks; `limit_s` 0: as long as it takes. Returns how many are still open then.
    uint32_t close(uint32_t limit_s);
    void counters(longshore_pool_counters* out) const;
    const std::string& name() const { return name_; }
    bool is_of_this_process() const;

  private:
    struct Share;
    explicit Client(Options options);
    int attach(std::string* error);
    int hear_answer(std::string* error);
    int find(const char* function) const;
    bool find_place(const longshore_buffer& buffer, BufferPlace* out, int* open_place) const;
    void close_places(int* places, size_t count) const;
    RankTask* new_task();
    int check_room(Share& share, const char* function, std::string* error);
    RankTask* enqueue(uint32_t share_index, uint32_t function, const void* arguments, size_t arguments_bytes,
                      std::span<const int> open_places);
    int tell_of_kept(uint32_t what, const KeptPart& part, const void* data, uint64_t bytes, RankTask** task,
                     std::string* error);
    bool test_one(RankTask& task);
    void wait_one(RankTask& task);
    void collect(Share& share);
    bool has_lost(Share& share);
    void report(const RankTask& task, uint64_t waited_ns);
    std::string name_of(const RankTask& task) const;

    Options options_;
    std::string name_;
    pid_t pid_ = 0;
    Fd socket_;
    PluginTable table_;
    uint64_t heap_base_ = 0, heap_end_ = 0;
    std::vector<std::unique_ptr<Share>> shares_;
    uint32_t next_share_ = 0;
    KeptRanges kept_;
    uint32_t looks_ = 0;               // in which nothing was found
    bool supervisor_is_gone_ = false;  // and with it its task processes
    mutable std::mutex mutex_;
    std::deque<std::unique_ptr<RankTask>> tasks_;  // all that were ever made
    std::deque<RankTask*> free_;                   // the one that was freed first is used first
};

}  // namespace longshore::tasks
