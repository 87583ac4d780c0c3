// Beginnings and ends of programs, and children in the midst of calls.      life HOW
#include <spawn.h>
#include <sys/wait.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.h"

extern char** environ;

namespace {

constexpr int kBytes = 150'000;  // several chunks

int rank, size;

struct Exchange {
    std::vector<unsigned char> send, recv;
    MPI_Request request = MPI_REQUEST_NULL;

    explicit Exchange(int tag)
        : send(static_cast<size_t>(size) * kBytes), recv(send.size(), 0xEE), tag_(tag) {
        for (int r = 0; r < size; ++r) fill(&send[static_cast<size_t>(r) * kBytes], kBytes, rank, r, tag);
    }
    void start() {
        MPI_Ialltoall(send.data(), kBytes, MPI_BYTE, recv.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD, &request);
    }
    void finish() {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int r = 0; r < size; ++r)
            CHECK(is_filled(&recv[static_cast<size_t>(r) * kBytes], kBytes, r, rank, tag_));
    }

  private:
    int tag_;
};

// More calls than a rank can have posted on a communicator.
struct Many {
    std::vector<Exchange> exchanges;

    explicit Many(int tag) {
        for (int i = 0; i < 12; ++i) exchanges.emplace_back(tag + i);
    }
    void start() {
        for (Exchange& exchange : exchanges) exchange.start();
    }
    void finish() {
        for (Exchange& exchange : exchanges) exchange.finish();
    }
};

void one_call(int tag) {
    Exchange exchange(tag);
    exchange.start();
    exchange.finish();
}

void join(pid_t child, int expected) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

std::string output_of(const char* command) {
    FILE* pipe = popen(command, "r");
    CHECK(pipe);
    char line[256] = "";
    CHECK(fgets(line, sizeof line, pipe));
    CHECK(pclose(pipe) == 0);
    return line;
}

// Each kind of child while calls are open: it must leave the job's service alone.
void children() {
    Many exchanges(7);
    if (rank % 2 == 0) exchanges.start();
    CHECK(system("exit 3") == 3 << 8);
    CHECK(output_of("echo in a shell") == "in a shell\n");
    char shell[] = "sh", option[] = "-c", command[] = "exit 5";
    char* const words[] = {shell, option, command, nullptr};
    pid_t child = fork();
    if (child == 0) {
        execvp(shell, words);
        _exit(1);
    }
    join(child, 5);
    CHECK(posix_spawnp(&child, shell, nullptr, nullptr, words, environ) == 0);
    join(child, 5);
    // One that is a copy of the program: it looks at what MPI allows it to, and ends with all the exit
    // handlers.
    child = fork();
    if (child == 0) {
        int initialized = 0, finalized = 1;
        MPI_Initialized(&initialized);
        MPI_Finalized(&finalized);
        exit(initialized && !finalized ? 6 : 1);
    }
    join(child, 6);
    if (rank % 2 != 0) exchanges.start();
    exchanges.finish();
    one_call(8);
}

// A copy of the program that outlives it, without a program of its own.
void leave_a_child(const char* seconds) {
    const pid_t child = fork();
    if (child != 0) return join(child, 0);  // a launcher kills what is still of the rank's process group
    fclose(stdin);
    for (int fd = 0; fd < 3; ++fd) close(fd);  // the launcher waits for these
    if (setsid() >= 0 && fork() == 0) sleep(static_cast<unsigned>(atoi(seconds)));
    _exit(0);
}

// The test looks at service processes before they go, and makes the file then.
void wait_until_seen(const char* file) {
    for (int i = 0; access(file, F_OK) != 0; ++i) {
        CHECK(i < 60'000);
        usleep(1000);
    }
}

}  // namespace

PROGRAM(life) {
    const std::string how = argc > 1 ? argv[1] : "";
    if (how == "never") return puts("life: ok") < 0;  // calls no MPI function at all
    int flag = -1, provided = -1;
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag == 0);
    CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && flag == 0);
    if (how == "serialized")
        MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    else
        MPI_Init(&argc, &argv);
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag == 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    one_call(1);
    Many open(2);
    if (how == "exit") {  // in the midst of a call, without MPI_Finalize
        if (rank != size - 1) open.start();
        exit(0);
    } else if (how == "abort") {
        if (rank == size - 1) {
            usleep(50'000);
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
        open.start();
        open.finish();
    } else if (how == "twice") {  // an error, with and without Longshore
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        if (MPI_Init(&argc, &argv) != MPI_SUCCESS) one_call(3);
    } else if (how == "pending") {  // likewise: a call that all have entered and nobody has waited for
        open.start();
    } else if (how == "never entered") {
        if (rank != size - 1) open.start();
    } else if (how == "children") {
        children();
    } else if (how == "leaves a child") {
        leave_a_child(argv[2]);
        one_call(4);
        wait_until_seen(argv[3]);
    } else if (how == "leaves a child and exits") {
        leave_a_child(argv[2]);
        MPI_Barrier(MPI_COMM_WORLD);
        wait_until_seen(argv[3]);
        _exit(0);
    } else if (how == "attribute") {  // callbacks of MPI_COMM_SELF run in MPI_Finalize, and may still use MPI
        int keyval = 0;
        static bool called = false;
        MPI_Comm_create_keyval(
            MPI_COMM_NULL_COPY_FN,
            [](MPI_Comm, int, void*, void*) -> int {
                one_call(5);
                called = true;
                return MPI_SUCCESS;
            },
            &keyval, nullptr);
        MPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
        MPI_Finalize();
        if (!called) return 1;
        MPI_Finalized(&flag);
        if (rank == 0) puts("life: ok");
        return !flag;
    }
    MPI_Finalize();
    CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && flag == 1);
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag == 1);
    if (rank == 0) puts("life: ok");
    return 0;
}
