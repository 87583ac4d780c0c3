#include "client.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.h"

namespace longshore::test {
namespace {
double seconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
void say(void* user, int level, const char* line) {
    const auto* const client = static_cast<RankClient*>(user);
    if (level == 1 && client->hear_info) client->hear_info(line);
    if (level != 0) return;
    if (client->hear) return client->hear(line);
    fprintf(stderr, "  [rank %u] %s\n", client->rank, line);
}
}  // namespace

RankClient::RankClient(SharedState* state, uint32_t r, const JobOptions& options)
    : shared(state), rank(r), size(options.ranks), options_(options) {
    exchange_.user = this;
    exchange_.rank = rank;
    exchange_.size = size;
    exchange_.start = [](void* user, const void* in, void* out, size_t bytes) {
        return static_cast<RankClient*>(user)->start_exchange(in, out, bytes);
    };
    exchange_.test = [](void* user) { return static_cast<RankClient*>(user)->test_exchange(); };
}

RankClient::~RankClient() {
    if (group) ls_group_free(group);
    ls_context_free(context);
}

int RankClient::start_exchange(const void* in, void* out, size_t bytes) {
    if (bytes > kSlotBytes) return LS_ERR_LIMIT;
    out_ = out;
    bytes_ = bytes;
    heard_max = std::max(heard_max, bytes * size);
    ++sequence_;
    memcpy(shared->slots[sequence_ % 2][rank], in, bytes);
    shared->arrived[rank].store(sequence_);
    return LS_OK;
}

int RankClient::test_exchange() {
    for (uint32_t r = 0; r < size; ++r) {
        if (shared->arrived[r].load() < sequence_) {
            sched_yield();
            return LS_IN_PROGRESS;
        }
    }
    for (uint32_t r = 0; r < size; ++r)
        memcpy(static_cast<std::byte*>(out_) + r * bytes_, shared->slots[sequence_ % 2][r], bytes_);
    if (tamper) tamper(static_cast<std::byte*>(out_), bytes_);
    return LS_OK;
}

void RankClient::barrier() {
    char in = 0, out[kRanksMax];
    start_exchange(&in, out, 1);
    while (test_exchange() == LS_IN_PROGRESS) {
    }
}

uint32_t RankClient::from_first_rank(uint32_t value) {
    uint32_t all[kRanksMax];
    start_exchange(&value, all, sizeof value);
    while (test_exchange() == LS_IN_PROGRESS) {
    }
    return all[0];
}

bool RankClient::attach() {
    if (options_.files_hard != 0 && rank == 0) {
        const rlimit files{options_.files_soft, options_.files_hard};
        setrlimit(RLIMIT_NOFILE, &files);
    }
    ls_options o{};
    o.service_count = options_.services;
    o.service_reads_max = 4;
    o.service_spin_us = 50;
    o.service_restarts_max = 16;
    o.service_path = options_.service_path.empty() ? LONGSHORED_PATH : options_.service_path.c_str();
    o.service_cores = "auto";
    o.nodes_count = options_.nodes;
    o.nodes_strided = options_.strided;
    o.network_always = options_.tcp;
    o.network = options_.tcp ? ls_options::LS_NETWORK_TCP : ls_options::LS_NETWORK_AUTO;
    o.wait_cooperative = options_.cooperative;
    o.wait_report_s = 10;
    o.limit_s = options_.limit_s;
    o.eager_bytes = 1024;
    o.chunk_bytes = 65536;
    o.memory_inaccessible = options_.inaccessible;
    o.memory_mode = options_.memory_mode;
    o.staging_bytes = options_.staging_bytes;
    o.host = host;
    o.log = say;
    o.log_user = this;
    int rc = ls_context_start(&o, &exchange_, &context);
    if (rc != LS_OK) return false;
    while ((rc = ls_context_test(context)) == LS_IN_PROGRESS) sched_yield();
    return rc == LS_OK;
}

bool RankClient::make_group() {
    int rc = ls_group_start(context, &exchange_, &group);
    if (rc != LS_OK) return false;
    while ((rc = ls_group_test(group)) == LS_IN_PROGRESS) sched_yield();
    return rc == LS_OK;
}

std::string RankClient::error() const {
    return context ? ls_context_error(context) : "no context";
}

int RankClient::wait(ls_operation* operation, uint64_t limit_s) {
    const double begin = seconds();
    for (;;) {
        int moved = 0;
        const int rc = ls_operation_test(operation, &moved);
        if (rc != LS_IN_PROGRESS) return rc;
        if (!moved) ls_sleep(context, 1000000);
        if (seconds() - begin > static_cast<double>(limit_s)) {
            char line[256];
            ls_operation_describe(operation, line, sizeof line);
            fprintf(stderr, "  [rank %u] timed out: %s\n", rank, line);
            return LS_ERR_LIMIT;
        }
    }
}

int RankClient::run(const ls_arguments& arguments) {
    ls_operation* operation = nullptr;
    ls_arguments forced = arguments;
    forced.algorithm = options_.algorithm;
    int rc = ls_operation_start(group, &forced, &operation);
    if (rc != LS_OK) return rc;
    rc = wait(operation);
    ls_operation_free(operation);
    return rc;
}

Job::Job(const JobOptions& options, const Body& body) {
    shared_ = static_cast<SharedState*>(
        mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    fflush(nullptr);
    for (uint32_t r = 0; r < options.ranks; ++r) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(120);
            int status = 99;
            {
                RankClient client(shared_, r, options);
                status = body(client);
            }
            fflush(nullptr);
            _exit(status);
        }
        pids_.push_back(pid);
    }
}

Job::~Job() {
    wait();
    munmap(shared_, sizeof(SharedState));
}

std::vector<int> Job::wait() {
    std::vector<int> out;
    for (pid_t& pid : pids_) {
        int status = 0;
        if (pid <= 0 || waitpid(pid, &status, 0) != pid) continue;
        pid = 0;
        out.push_back(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    }
    return out;
}

bool Job::passed() {
    bool ok = true;
    uint32_t rank = 0;
    for (const int status : wait()) {
        if (status != 0) fprintf(stderr, "  rank %u ended with %d\n", rank, status);
        ok &= status == 0;
        ++rank;
    }
    return ok;
}

std::vector<pid_t> find_services(const std::string& role) {
    std::vector<pid_t> out;
    DIR* proc = opendir("/proc");
    while (const dirent* entry = readdir(proc)) {
        const pid_t pid = atoi(entry->d_name);
        if (pid <= 0) continue;
        const std::string text = read_proc(std::string("/proc/") + entry->d_name + "/cmdline");
        const std::string begin = std::string("longshored:") + '\0' + role;
        // Those of other jobs of this machine are none of ours: a service process stays in its job's session.
        if (text.compare(0, begin.size(), begin) == 0 && getsid(pid) == getsid(0)) out.push_back(pid);
    }
    closedir(proc);
    return out;
}

std::string name_of_listener(pid_t pid) {
    std::ifstream table("/proc/net/unix");
    std::string all;
    std::error_code error;  // it may end meanwhile
    for (const auto& fd :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
        all += std::filesystem::read_symlink(fd, error).string() + "\n";
    }
    for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        std::string word, inode, name;
        for (int i = 0; i < 6; ++i) words >> word;
        words >> inode >> name;
        if (name.starts_with("@longshore-") && all.find("socket:[" + inode + "]\n") != all.npos)
            return name.substr(1);
    }
    return "";
}

bool wait_until(const std::function<bool()>& is_so) {
    constexpr double kBusyS = 60;
    for (const double begin = seconds(); !is_so();) {
        if (seconds() - begin > kBusyS) return false;
        usleep(1000);
    }
    return true;
}

bool wait_until_gone() {
    return wait_until([] { return find_services("").empty(); });
}

char state_of(pid_t pid) {
    const std::string stat = read_proc("/proc/" + std::to_string(pid) + "/stat");
    const size_t name_end = stat.rfind(") ");
    return name_end == stat.npos ? 0 : stat[name_end + 2];
}

}  // namespace longshore::test
