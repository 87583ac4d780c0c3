// A job without MPI: processes forked by the test, whose allgather goes through shared memory. Each runs a
// body as one rank; the job passes if every body returns 0.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "host/host.h"

namespace longshore::test {

constexpr uint32_t kRanksMax = 16;
constexpr size_t kSlotBytes = 64 * 1024;

struct SharedState {
    std::atomic<uint32_t> arrived[kRanksMax];
    std::atomic<uint32_t> flags[16];  // for tests
    std::byte slots[2][kRanksMax][kSlotBytes];
};

struct JobOptions {
    uint32_t ranks = 4, nodes = 0, services = 1;
    bool strided = false, cooperative = true, inaccessible = false;
    bool tcp = false;       // between emulated nodes
    uint32_t limit_s = 30;  // a machine that is busy with other things starts slowly
    std::string service_path;
    uint64_t files_soft = 0,
             files_hard = 0;  // limits of open files for the first rank and what it starts; 0: as they are
    ls_memory_mode memory_mode = LS_MEMORY_AUTO;
    uint64_t staging_bytes = 0;
    ls_algorithm algorithm = LS_DIRECT;  // of all that is run()
};

class RankClient {
  public:
    RankClient(SharedState* shared, uint32_t rank, const JobOptions& options);
    ~RankClient();
    bool attach();  // false: see error()
    bool make_group();
    std::string error() const;
    int run(const ls_arguments& arguments);  // start, wait, free: its result
    int wait(ls_operation* operation, uint64_t limit_s = 30);
    void barrier();
    // What rank 0 says, on all ranks. Collective.
    uint32_t from_first_rank(uint32_t value);
    const JobOptions& options() const { return options_; }

    SharedState* shared;
    uint32_t rank, size;
    ls_context* context = nullptr;
    ls_group* group = nullptr;
    const ls_host* host = nullptr;  // of the options
    // What this rank hears of what all have given, each so many bytes, may be made another thing.
    std::function<void(std::byte* all, size_t bytes)> tamper;
    // Gets what the user is told; unless it is set that goes to stderr.
    std::function<void(const char* line)> hear;
    std::function<void(const char* line)> hear_info;  // likewise what is said with --log info; else nobody
    size_t heard_max = 0;  // bytes that this rank has heard of all others in one exchange, at most

  private:
    int start_exchange(const void* in, void* out, size_t bytes);
    int test_exchange();
    JobOptions options_;
    ls_exchange exchange_{};
    uint32_t sequence_ = 0;
    void* out_ = nullptr;
    size_t bytes_ = 0;
};

class Job {
  public:
    using Body = std::function<int(RankClient&)>;
    Job(const JobOptions& options, const Body& body);
    ~Job();
    // The exit status of each rank (128 + signal); all are 0 if it went well.
    std::vector<int> wait();
    bool passed();
    SharedState& shared() { return *shared_; }
    pid_t rank_pid(uint32_t rank) const { return pids_[rank]; }

  private:
    SharedState* shared_;
    std::vector<pid_t> pids_;
};

// Processes of this session whose command line starts with "longshored:" and that are of the given role (""
// for any).
std::vector<pid_t> find_services(const std::string& role);
// The name under which a process listens for its peers ("longshore-...", of abstract sockets); "": none.
std::string name_of_listener(pid_t pid);
// Waits until `is_so`, for as long as a machine that is busy with other things may need. False: it did not
// come to be.
bool wait_until(const std::function<bool()>& is_so);
bool wait_until_gone();  // until there are no such processes any more
// As /proc/PID/stat has it: 'S' sleeps, 'T' is stopped. 0: there is no such process.
char state_of(pid_t pid);

}  // namespace longshore::test
