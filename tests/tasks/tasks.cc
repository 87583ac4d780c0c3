// Tasks, as a program sees them: `tasks MODE [FOLDER]`. Every rank checks for itself; what is wrong is said,
// and the exit status is 1. Runs with task processes and, without Longshore, inline.
#include <dlfcn.h>
#include <longshore_mpi.h>
#include <longshore_task.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/tasks/task_api.h"
#include "tests/tasks/functions.h"

namespace {

int rank = 0, size = 1, wrong = 0;
longshore_pool* pool = nullptr;
bool is_inline = true;

void check(bool right, const char* what, const char* more = "") {
    if (right) return;
    ++wrong;
    fprintf(stderr, "rank %d: WRONG: %s %s\n", rank, what, more);
}
#define CHECK(condition) check(condition, #condition, longshore_task_error())

bool says(const char* part) {
    return strstr(longshore_task_error(), part) != nullptr;
}

longshore_task* submit(const char* function, const void* arguments, size_t bytes,
                       std::vector<longshore_buffer> buffers) {
    longshore_task* task = nullptr;
    const int result = longshore_submit(pool, function, arguments, bytes, buffers.data(),
                                        static_cast<int>(buffers.size()), &task);
    check(result == 0, function, longshore_task_error());
    return task;
}

int run(const char* function, const void* arguments, size_t bytes, std::vector<longshore_buffer> buffers) {
    longshore_task* task = submit(function, arguments, bytes, std::move(buffers));
    const int result = longshore_wait(&task);
    CHECK(task == nullptr);
    return result;
}

void open_pool(const char* plugin) {
    if (longshore_open_pool(plugin, &pool) != 0) {
        fprintf(stderr, "rank %d: %s\n", rank, longshore_task_error());
        MPI_Finalize();  // no rank has one; a launcher that ends the job at once would forward nothing of
                         // this
        exit(2);
    }
    longshore_pool_counters counters;
    longshore_get_pool_counters(pool, &counters);
    is_inline = counters.processes == 0;
}

// --- right results

void combine_at(unsigned char* in, unsigned char* inout, unsigned char* out, size_t bytes, uint64_t key) {
    for (size_t i = 0; i < bytes; ++i) {
        in[i] = static_cast<unsigned char>(i * 7 + key);
        inout[i] = static_cast<unsigned char>(i * 11 + key);
        out[i] = 0;
    }
    const int result =
        run("combine", &key, sizeof key,
            {{in, bytes, LONGSHORE_IN}, {inout, bytes, LONGSHORE_INOUT}, {out, bytes, LONGSHORE_OUT}});
    check(result == 0, "combine", longshore_task_error());
    for (size_t i = 0; i < bytes; ++i) {
        const auto a = static_cast<unsigned char>(i * 7 + key), b = static_cast<unsigned char>(i * 11 + key);
        if (in[i] == a && inout[i] == static_cast<unsigned char>(b + 1) && out[i] == combined(a, b, key + i))
            continue;
        check(false, "a byte of combine");
        return;
    }
}

void check_results() {
    static unsigned char fixed[3][100'000];
    uint64_t key = 1000 + static_cast<uint64_t>(rank);
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{4096}, size_t{65'535},
                               size_t{65'536}, size_t{100'000}, size_t{1} << 20, size_t{5'000'001}}) {
        // Blocks of their own, with an odd offset, and mixed with static memory and the stack.
        std::unique_ptr<unsigned char[]> blocks[3];
        for (auto& block : blocks) block.reset(new unsigned char[bytes + 3]);
        combine_at(blocks[0].get(), blocks[1].get(), blocks[2].get(), bytes, ++key);
        combine_at(blocks[0].get() + 3, blocks[1].get() + 1, blocks[2].get() + 2, bytes, ++key);
        if (bytes <= sizeof fixed[0]) {
            unsigned char stack[100'000];
            combine_at(fixed[0], fixed[1], fixed[2], bytes, ++key);
            combine_at(stack, blocks[1].get(), fixed[2], bytes, ++key);
        }
    }
    const size_t n = 100'000;
    std::vector<uint64_t> values(n, 5);
    CHECK(run("threads", nullptr, 0, {{values.data(), n * sizeof(uint64_t), LONGSHORE_INOUT}}) == 0);
    for (size_t i = 0; i < n; ++i) {
        if (values[i] != 5 + i) {
            check(false, "a value of threads");
            break;
        }
    }
}

// What is in the shared heap is not copied.
void check_copies() {
    const size_t bytes = size_t{1} << 20;
    std::unique_ptr<unsigned char[]> blocks[3];
    for (auto& block : blocks) block.reset(new unsigned char[bytes]);
    longshore_pool_counters before, after;
    longshore_get_pool_counters(pool, &before);
    combine_at(blocks[0].get(), blocks[1].get(), blocks[2].get(), bytes, 1);
    longshore_get_pool_counters(pool, &after);
    CHECK(after.tasks == before.tasks + 1);
    CHECK(after.bytes_copied == before.bytes_copied || getenv("TASKS_ARE_COPIED") != nullptr);
    CHECK(after.bytes_mapped + after.bytes_copied >= before.bytes_mapped + before.bytes_copied + 3 * bytes);
}

// Given once and changed in parts; tasks see what was said before they were submitted.
void check_kept() {
    static unsigned char fixed[100'000];
    std::vector<unsigned char> block(1 << 20), none(1 << 20), out(1 << 20);
    const uint64_t key = 5;
    const auto see = [&](unsigned char* data, size_t bytes, unsigned char value) {
        const int result = run("combine", &key, sizeof key,
                               {{data, bytes, LONGSHORE_KEPT},
                                {none.data(), bytes, LONGSHORE_INOUT},
                                {out.data(), bytes, LONGSHORE_OUT}});
        CHECK(result == 0);
        std::fill(none.begin(), none.end(), 0);
        bool right = true;
        for (size_t i = 0; i < bytes; ++i) right = right && out[i] == combined(value, 0, key + i);
        check(right, "a byte of a kept buffer");
    };
    struct {
        unsigned char* data;
        size_t bytes;
    } const all[] = {{fixed, sizeof fixed}, {block.data(), block.size()}};
    for (const auto& [data, bytes] : all) {
        std::fill_n(data, bytes, 3);
        longshore_task* task = nullptr;
        CHECK(longshore_keep(pool, data, bytes, &task) == 0 && task != nullptr);
        CHECK(longshore_wait(&task) == 0);
        longshore_pool_counters before, after;
        longshore_get_pool_counters(pool, &before);
        for (int i = 0; i < 5; ++i) see(data, bytes, 3);
        longshore_get_pool_counters(pool, &after);
        // Of the other two, which are mapped unless everything is copied: how often each byte is.
        const char* const copies = getenv("TASKS_ARE_COPIED");
        if (!is_inline)
            CHECK(after.bytes_copied - before.bytes_copied ==
                  5 * bytes * static_cast<size_t>(atoi(copies != nullptr ? copies : "0")));
        std::fill_n(data + 1000, 500, 4);
        MPI_Request request;
        CHECK(longshore_change(pool, data + 1000, 500, &task) == 0);
        CHECK(longshore_task_request(&task, &request) == 0);
        see(data + 1000, 500, 4);
        see(data, 1000, 3);
        CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        longshore_task* refused = nullptr;
        CHECK(longshore_keep(pool, data + 1, bytes - 1, &refused) == LONGSHORE_ERR_ARGUMENT &&
              says("overlaps"));
        CHECK(longshore_forget(pool, data + 1) == LONGSHORE_ERR_ARGUMENT);
        CHECK(longshore_forget(pool, data) == 0);
        CHECK(longshore_change(pool, data, 1, &refused) == LONGSHORE_ERR_ARGUMENT && refused == nullptr);
        const longshore_buffer buffer{data, bytes, LONGSHORE_KEPT};
        CHECK(longshore_submit(pool, "note", nullptr, 0, &buffer, 1, &refused) == LONGSHORE_ERR_ARGUMENT &&
              says("LONGSHORE_KEPT"));
    }
    longshore_task* task = nullptr;
    CHECK(longshore_keep(pool, nullptr, 1, &task) == LONGSHORE_ERR_ARGUMENT);
    CHECK(longshore_keep(pool, fixed, 0, &task) == LONGSHORE_ERR_ARGUMENT);
}

void check_order() {
    uint64_t first = 0;
    CHECK(run("count", nullptr, 0, {{&first, sizeof first, LONGSHORE_OUT}}) == 0);
    longshore_pool_counters counters;
    longshore_get_pool_counters(pool, &counters);
    if (counters.processes > 1) return;  // each has a state of its own
    std::vector<uint64_t> seen(50);
    std::vector<longshore_task*> tasks;
    for (uint64_t& one : seen)
        tasks.push_back(submit("count", nullptr, 0, {{&one, sizeof one, LONGSHORE_OUT}}));
    for (size_t i = tasks.size(); i-- > 0;) CHECK(longshore_wait(&tasks[i]) == 0);  // in any order
    for (size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == first + 1 + i);
}

// --- what is wrong is said

// A task that runs until the rank makes a file.
class Held {
  public:
    explicit Held(const std::string& path) : path_(path) {
        unlink(path.c_str());
        task = submit("wait_for_file", path.c_str(), path.size() + 1, {});
    }
    void release() const { fclose(fopen(path_.c_str(), "w")); }
    longshore_task* task = nullptr;

  private:
    std::string path_;
};

void check_arguments_that_make_no_sense() {
    longshore_task* task = nullptr;
    CHECK(longshore_submit(nullptr, "count", nullptr, 0, nullptr, 0, &task) == LONGSHORE_ERR_ARGUMENT);
    const char large[LONGSHORE_ARGUMENTS_BYTES_MAX + 1] = {};
    CHECK(longshore_submit(pool, "give", large, sizeof large, nullptr, 0, &task) == LONGSHORE_ERR_ARGUMENT);
    const longshore_buffer strange{&task, 8, static_cast<longshore_access>(4)},
        missing{nullptr, 8, LONGSHORE_IN};
    CHECK(longshore_submit(pool, "note", nullptr, 0, &strange, 1, &task) == LONGSHORE_ERR_ARGUMENT);
    CHECK(longshore_submit(pool, "note", nullptr, 0, &missing, 1, &task) == LONGSHORE_ERR_ARGUMENT);
    CHECK(longshore_submit(pool, "note", nullptr, 0, &missing, LONGSHORE_BUFFERS_MAX + 1, &task) ==
          LONGSHORE_ERR_ARGUMENT);
    longshore_pool* none = nullptr;
    CHECK(longshore_close_pool(&none) == LONGSHORE_ERR_ARGUMENT);
}

void check_unknown_function() {
    longshore_task* task = nullptr;
    CHECK(longshore_submit(pool, "no_such_function", nullptr, 0, nullptr, 0, &task) ==
          LONGSHORE_ERR_FUNCTION);
    CHECK(task == nullptr && says("no_such_function"));
}

// One that there is not, no plug-in, of another version, without a table, with too many functions.
void check_unknown_plugins() {
    longshore_pool* none = nullptr;
    CHECK(longshore_open_pool("no_such_plugin", &none) == LONGSHORE_ERR_PLUGIN && none == nullptr &&
          says("no_such_plugin"));
    CHECK(longshore_open_pool("./bad_1.so", &none) == LONGSHORE_ERR_PLUGIN);
    CHECK(longshore_open_pool("bad_plugin_1", &none) == LONGSHORE_ERR_PLUGIN && says("bad_plugin_1") &&
          says("version"));
    CHECK(longshore_open_pool("bad_plugin_2", &none) == LONGSHORE_ERR_PLUGIN && says("bad_plugin_2"));
    if (is_inline) return;
    CHECK(longshore_open_pool("bad_plugin_5", &none) == LONGSHORE_ERR_PLUGIN && says("functions"));
}

// A pool that cannot be opened: its function for that fails, or crashes.
void check_no_process() {
    longshore_pool* none = nullptr;
    CHECK(longshore_open_pool("bad_plugin_3", &none) == 9 && says("open returned 9"));
    if (is_inline) return;
    CHECK(longshore_open_pool("bad_plugin_4", &none) == LONGSHORE_ERR_NO_PROCESS && says("was lost"));
}

void check_functions_that_fail() {
    for (const int code : {0, 1, 77}) CHECK(run("give", &code, sizeof code, {}) == code);
    const int negative = -4;
    CHECK(run("give", &negative, sizeof negative, {}) == 4);
    CHECK(says("give"));
    if (is_inline) return;
    CHECK(run("throw", nullptr, 0, {}) == LONGSHORE_ERR_THROWN);
    CHECK(says("as asked"));
}

void check_waiting_twice() {
    longshore_task* task = nullptr;
    CHECK(longshore_wait(&task) == LONGSHORE_ERR_ARGUMENT);
    int done = 1;
    CHECK(longshore_test(&task, &done) == LONGSHORE_ERR_ARGUMENT && done == 0);
    if (is_inline) return;
    // A task that is kept and waited for twice.
    task = submit("give", &done, sizeof done, {});
    longshore_task* again = task;
    longshore_wait(&task);
    CHECK(longshore_wait(&again) == LONGSHORE_ERR_ARGUMENT && says("already"));
}

void check_buffer_that_ends_before_its_bytes() {
    if (is_inline) return;
    auto* const pages =
        static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(pages + 4096, 4096);
    CHECK(run("note", nullptr, 0, {{pages, 8192, LONGSHORE_INOUT}}) == LONGSHORE_ERR_MEMORY);
    CHECK(says("buffer 0") && says("8192"));
    munmap(pages, 4096);
}

// A program that was linked with an earlier liblongshore_task.a gets its tasks done, one of a later says why
// not.
void check_versions() {
    if (is_inline) return;
    auto* const get = reinterpret_cast<longshore_task_functions_getter*>(
        dlsym(RTLD_DEFAULT, LONGSHORE_TASK_FUNCTIONS_GETTER));
    const char* why = nullptr;
    CHECK(get != nullptr && get(1, &why) == pool->functions && why == nullptr);
    CHECK(get(LONGSHORE_TASK_API_VERSION + 1, &why) == nullptr && strstr(why, "another version") != nullptr);
}

// As many as there may be, one more, and all is right again.
void check_credits(const std::string& folder) {
    if (is_inline) return;
    longshore_pool_counters counters;
    longshore_get_pool_counters(pool, &counters);
    const size_t all = size_t{LONGSHORE_TASKS_MAX} * counters.processes;
    std::vector<Held> held;
    std::vector<uint64_t> words(counters.processes *
                                16'384);  // those of different processes do not share any
    std::vector<longshore_buffer> buffers;
    std::vector<longshore_task*> tasks;
    for (size_t i = 0; i < counters.processes; ++i) {
        held.emplace_back(folder + "/held." + std::to_string(rank) + "." + std::to_string(i));
        tasks.push_back(held.back().task);
        buffers.push_back({words.data() + i * 16'384, 16'384 * 8, LONGSHORE_INOUT});
    }
    while (tasks.size() < all)
        tasks.push_back(submit("note", nullptr, 0, {buffers[tasks.size() % buffers.size()]}));
    longshore_task* more = nullptr;
    CHECK(longshore_submit(pool, "note", nullptr, 0, buffers.data(), 1, &more) == LONGSHORE_ERR_FULL &&
          more == nullptr);
    int done = 1;
    CHECK(longshore_test(&tasks.back(), &done) == 0 && done == 0);
    for (const Held& one : held) one.release();
    for (longshore_task*& task : tasks) CHECK(longshore_wait(&task) == 0);
    for (size_t i = 0; i < held.size(); ++i) CHECK(words[i * 16'384] == LONGSHORE_TASKS_MAX - 1);
    CHECK(run("note", nullptr, 0, {buffers[0]}) == 0);
}

// The task that crashes is lost, those behind it run once, and the pool goes on.
void check_crash() {
    if (is_inline) return;
    std::vector<uint64_t> words(16'384);
    const longshore_buffer buffer{words.data(), words.size() * 8, LONGSHORE_INOUT};
    for (uint64_t round = 1; round <= 2; ++round) {
        longshore_task* lost = submit("crash", nullptr, 0, {buffer});
        longshore_task* behind[3];
        for (longshore_task*& task : behind) task = submit("note", nullptr, 0, {buffer});
        CHECK(longshore_wait(&lost) == LONGSHORE_ERR_LOST);
        CHECK(says("crash") && (says("signal 11") || says("on node") || says("on the DPU")));
        for (longshore_task*& task : behind) CHECK(longshore_wait(&task) == 0);
        CHECK(words[0] == 3 * round);
    }
}

void check_fork() {
    if (is_inline) return;
    const pid_t child = fork();
    if (child == 0) {
        longshore_task* task = nullptr;
        longshore_pool* other = nullptr;
        const bool refused =
            longshore_submit(pool, "count", nullptr, 0, nullptr, 0, &task) == LONGSHORE_ERR_ARGUMENT &&
            says("forked") && longshore_open_pool("task_plugin", &other) == LONGSHORE_ERR_ARGUMENT;
        _exit(refused ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// What open tasks write is this process's, whatever it forks meanwhile; a child has what was there before.
void check_fork_with_open_tasks(const std::string& folder) {
    if (is_inline) return;
    longshore_pool_counters counters;
    longshore_get_pool_counters(pool, &counters);
    constexpr size_t kWords = 16'384;
    std::vector<uint64_t> words(2 * kWords, 7);  // of which a task gets the half
    std::vector<Held> held;
    for (size_t i = 0; i < counters.processes; ++i)
        held.emplace_back(folder + "/forked." + std::to_string(rank) + "." + std::to_string(i));
    longshore_task* task = submit("note", nullptr, 0, {{words.data(), kWords * 8, LONGSHORE_INOUT}});
    const pid_t child = fork();
    if (child == 0) {
        const bool right = std::count(words.begin(), words.end(), 7) == static_cast<long>(words.size());
        std::fill(words.begin(), words.end(), 1000);
        _exit(right ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (const Held& one : held) one.release();
    for (Held& one : held) CHECK(longshore_wait(&one.task) == 0);
    CHECK(longshore_wait(&task) == 0);
    CHECK(words[0] == 8 && words[1] == 7 && words[2 * kWords - 1] == 7);
    // And what the fork has made private is a buffer as any other.
    CHECK(run("note", nullptr, 0, {{words.data() + kWords, kWords * 8, LONGSHORE_INOUT}}) == 0);
    CHECK(run("note", nullptr, 0, {{words.data(), words.size() * 8, LONGSHORE_INOUT}}) == 0);
    CHECK(words[0] == 9 && words[kWords] == 8);
}

// --- together with MPI

void check_requests() {
    const uint64_t key = 3;
    const size_t bytes = 200'000;
    std::vector<unsigned char> in(bytes, 1), inout(bytes, 2), out(bytes);
    std::vector<int> given(static_cast<size_t>(size) * 40'000, rank), got(given.size(), -1);
    MPI_Request requests[3];
    longshore_task* task = submit("combine", &key, sizeof key,
                                  {{in.data(), bytes, LONGSHORE_IN},
                                   {inout.data(), bytes, LONGSHORE_INOUT},
                                   {out.data(), bytes, LONGSHORE_OUT}});
    CHECK(longshore_task_request(&task, &requests[0]) == 0 && task == nullptr);
    MPI_Ialltoall(given.data(), 40'000, MPI_INT, got.data(), 40'000, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    for (int i = 0; i < 3; ++i) {
        int index = -1;
        MPI_Status status;
        CHECK(MPI_Waitany(3, requests, &index, &status) == MPI_SUCCESS && index >= 0 && index < 3);
        if (index != 0) continue;
        int elements = -1;
        MPI_Get_elements(&status, MPI_BYTE, &elements);
        CHECK(elements == 0);
    }
    for (size_t i = 0; i < bytes; ++i) {
        if (out[i] != combined(1, 2, key + i)) {
            check(false, "a byte of a task that was waited for by MPI_Waitany");
            break;
        }
    }
    for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] != static_cast<int>(i / 40'000)) {
            check(false, "a number of an alltoall beside a task");
            break;
        }
    }
    // Waitall, Test, and one alone.
    std::vector<longshore_task*> tasks(5);
    std::vector<MPI_Request> several(5);
    const int zero = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
        tasks[i] = submit("give", &zero, sizeof zero, {});
        CHECK(longshore_task_request(&tasks[i], &several[i]) == 0);
    }
    CHECK(MPI_Waitall(5, several.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    task = submit("give", &zero, sizeof zero, {});
    CHECK(longshore_task_request(&task, &requests[0]) == 0);
    for (int done = 0; !done;) CHECK(MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    // One that fails.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int code = 5;
    task = submit("give", &code, sizeof code, {});
    CHECK(longshore_task_request(&task, &requests[0]) == 0);
    CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// A rank that waits for a task lets a large message in, without which the task's end never comes.
void check_progress(const std::string& folder) {
    if (is_inline || size < 2) return;
    MPI_Barrier(MPI_COMM_WORLD);  // ranks may share a task process, which rank 1 is about to keep
    std::vector<char> message(size_t{4} << 20, static_cast<char>(rank));
    const std::string file = folder + "/sent";
    if (rank == 0) {
        MPI_Send(message.data(), static_cast<int>(message.size()), MPI_CHAR, 1, 7, MPI_COMM_WORLD);
        fclose(fopen(file.c_str(), "w"));
    } else if (rank == 1) {
        MPI_Request request;
        MPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
        CHECK(run("wait_for_file", file.c_str(), file.size() + 1, {}) == 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(message.front() == 0 && message.back() == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// While one runs on another node, so many behind it are on their way there, and no more; of large ones, one.
void check_ahead(const std::string& folder) {
    static uint64_t words[20];
    static std::atomic<uint64_t> large[2][(3 << 20) / sizeof(uint64_t)];
    const auto copied = [] {
        longshore_pool_counters counters;
        longshore_get_pool_counters(pool, &counters);
        return counters.bytes_copied;
    };
    const auto hold = [&](size_t bytes, size_t count, void* (*buffer)(size_t), uint64_t ahead) {
        const uint64_t before = copied();
        Held held(folder + "/held");
        std::vector<longshore_task*> tasks;
        for (size_t i = 0; i < count; ++i)
            tasks.push_back(submit("note", nullptr, 0, {{buffer(i), bytes, LONGSHORE_INOUT}}));
        while (copied() < before + ahead * bytes) usleep(1000);
        CHECK(copied() == before + ahead * bytes);
        held.release();
        CHECK(longshore_wait(&held.task) == 0);
        for (longshore_task*& task : tasks) CHECK(longshore_wait(&task) == 0);
    };
    hold(
        sizeof *words, std::size(words), [](size_t i) -> void* { return &words[i]; }, 7);
    hold(
        sizeof *large, std::size(large), [](size_t i) -> void* { return large[i]; }, 1);
    for (const uint64_t& word : words) CHECK(word == 1);
    for (const auto& block : large) CHECK(block[0] == 1 && block[1] == 0);
}

// A kept buffer of a rank whose task process may be killed: what a task that is not lost reads is never older
// than what was said last.
class KeptBesideKills {
  public:
    KeptBesideKills() { keep(); }
    void submit_round(uint64_t round) {
        if (lost_) keep();
        value_ = static_cast<unsigned char>(round);
        std::fill_n(kept_.begin(), kChanged, value_);
        std::fill(inout_.begin(), inout_.end(), 2);
        CHECK(longshore_change(pool, kept_.data(), kChanged, &change_) == 0);
        read_ = submit("combine", &round, sizeof round,
                       {{kept_.data(), kBytes, LONGSHORE_KEPT},
                        {inout_.data(), kBytes, LONGSHORE_INOUT},
                        {out_.data(), kBytes, LONGSHORE_OUT}});
    }
    void finish_round(uint64_t round) {
        const int changed = longshore_wait(&change_), result = longshore_wait(&read_);
        lost_ = changed != 0 || result != 0;
        check(
            (changed == 0 || changed == LONGSHORE_ERR_LOST) && (result == 0 || result == LONGSHORE_ERR_LOST),
            "a result of a task with a kept buffer", longshore_task_error());
        if (result != 0) return;
        check(changed == 0, "a kept buffer whose change was lost has been read");
        for (size_t at = 0; at < kBytes; at += 97)
            check(out_[at] == combined(at < kChanged ? value_ : 1, 2, round + at),
                  "a kept byte beside kills");
    }

  private:
    static constexpr size_t kBytes = 70'000, kChanged = 1000;
    void keep() {
        longshore_task* task = nullptr;
        CHECK(longshore_keep(pool, kept_.data(), kBytes, &task) == 0);
        const int result = longshore_wait(&task);
        CHECK(result == 0 || result == LONGSHORE_ERR_LOST);
    }
    std::vector<unsigned char> kept_ = std::vector<unsigned char>(kBytes, 1), inout_ = kept_, out_ = kept_;
    unsigned char value_ = 1;
    longshore_task *change_ = nullptr, *read_ = nullptr;
    bool lost_ = false;
};

// Until the file `stop` is there: tasks, some of which are lost when their process is killed. Every one that
// is not has run once; one that is, at most once.
void run_steadily(const std::string& folder) {
    std::vector<std::atomic<uint64_t>> words(16'384);
    const longshore_buffer buffer{words.data(), words.size() * 8, LONGSHORE_INOUT};
    const std::string stop = folder + "/stop", progress = folder + "/progress." + std::to_string(rank);
    uint64_t right = 0, lost = 0, rounds = 0;
    std::vector<unsigned char> in(70'000, 1), inout(70'000, 2), out(70'000);
    KeptBesideKills kept;
    for (int stopped = 0; !stopped; ++rounds) {
        longshore_task* tasks[9];
        const uint64_t key = rounds;
        std::fill(inout.begin(), inout.end(), 2);
        for (int i = 0; i < 8; ++i) tasks[i] = submit("note", nullptr, 0, {buffer});
        tasks[8] = submit("combine", &key, sizeof key,
                          {{in.data(), in.size(), LONGSHORE_IN},
                           {inout.data(), in.size(), LONGSHORE_INOUT},
                           {out.data(), in.size(), LONGSHORE_OUT}});
        kept.submit_round(rounds);
        std::vector<int> sent(static_cast<size_t>(size), rank), got(sent);
        MPI_Alltoall(sent.data(), 1, MPI_INT, got.data(), 1, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < 9; ++i) {
            const int result = longshore_wait(&tasks[i]);
            check(result == 0 || result == LONGSHORE_ERR_LOST,
                  "a result of a task whose process may be killed", longshore_task_error());
            if (i < 8) (result == 0 ? right : lost) += 1;
            if (i < 8 || result != 0) continue;
            for (size_t at = 0; at < out.size(); at += 997)
                check(out[at] == combined(1, 2, key + at), "a byte beside kills");
        }
        kept.finish_round(rounds);
        // Whoever reads it finds a whole number.
        const std::string draft = progress + ".new";
        FILE* file = fopen(draft.c_str(), "w");
        fprintf(file, "%lu\n", static_cast<unsigned long>(rounds + 1));
        fclose(file);
        rename(draft.c_str(), progress.c_str());
        stopped = access(stop.c_str(), F_OK) == 0;
        MPI_Bcast(&stopped, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    CHECK(words[0] >= right && words[0] <= right + lost);
    if (rank == 0)
        printf("%lu rounds, %lu tasks lost\n", static_cast<unsigned long>(rounds),
               static_cast<unsigned long>(lost));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const std::string mode = argc > 1 ? argv[1] : "all", folder = argc > 2 ? argv[2] : ".";
    if (mode == "none") return MPI_Finalize();
    open_pool("task_plugin");
    if (const char* expected = getenv("TASKS_ARE_INLINE")) CHECK(is_inline == (*expected == '1'));
    if (mode == "all") {
        check_results();
        check_copies();
        check_kept();
        check_order();
        check_arguments_that_make_no_sense();
        check_unknown_function();
        check_unknown_plugins();
        check_no_process();
        check_functions_that_fail();
        check_waiting_twice();
        check_buffer_that_ends_before_its_bytes();
        check_versions();
        check_credits(folder);
        check_fork();
        check_fork_with_open_tasks(folder);
        check_requests();
        check_progress(folder);
        check_crash();
        check_results();
    } else if (mode == "steady") {
        run_steadily(folder);
    } else if (mode == "hang") {      // one that never ends: rank 0 says so, and is released by a file
        MPI_Barrier(MPI_COMM_WORLD);  // all have opened the pool when rank 0 says so
        if (rank == 0) CHECK(run("wait_for_file", (folder + "/go").c_str(), folder.size() + 4, {}) == 0);
    } else if (mode == "ahead") {
        if (rank == 0) check_ahead(folder);
    } else if (mode == "print") {  // until what it prints has come by whatever way
        const int times = 2;
        if (rank == 0) CHECK(run("print", &times, sizeof times, {}) == 0);
        for (int over = 0; over == 0; usleep(1000)) {
            over = access((folder + "/go").c_str(), F_OK) == 0;
            MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    } else if (mode == "leave") {  // with pools and tasks open
        submit("note", nullptr, 0, {});
        MPI_Finalize();
        CHECK(longshore_close_pool(&pool) == (is_inline ? 0 : LONGSHORE_ERR_ARGUMENT));
        return wrong != 0;
    }
    CHECK(longshore_close_pool(&pool) == 0 && pool == nullptr);
    int all_wrong = 0;
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all_wrong == 0)
        printf("all checks passed, tasks ran %s\n", is_inline ? "inline" : "in task processes");
    MPI_Finalize();
    return all_wrong != 0;
}
