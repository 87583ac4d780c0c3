/* A program that writes checkpoints, for tests of write-behind: it knows nothing of Longshore. Each rank
 * writes files of a pattern that it can compute, and reads nothing back: the test does. checkpoint MODE
 * FOLDER [BYTES [ROUNDS]] Modes are the functions below. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int rank, size;
static const char* folder;
static size_t bytes = 1 << 20;
static int rounds = 3;

static void fail(const char* what) {
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

static void must(int good, const char* what) {
    if (!good) fail(what);
}

static void name_of(char* path, const char* what, int number) {
    snprintf(path, 4096, "%s/%s.%d.%d.ckpt", folder, what, rank, number);
}

/* The byte at `at` of file `number` of a rank: test_io.py knows it, too. */
static unsigned char byte_at(size_t at, int number) {
    return (unsigned char)((at * 31 + (at >> 8) * 7 + (size_t)rank * 101 + (size_t)number * 13) & 255);
}

static unsigned char* make_data(int number) {
    unsigned char* data = malloc(bytes);
    must(data != NULL, "malloc");
    for (size_t i = 0; i < bytes; ++i) data[i] = byte_at(i, number);
    return data;
}

/* By every kind of write, forwards and backwards. */
static void write_all_ways(int fd, const unsigned char* data) {
    const size_t part = bytes / 8;
    must(write(fd, data, part) == (ssize_t)part, "write");
    must(pwrite(fd, data + 7 * part, bytes - 7 * part, (off_t)(7 * part)) == (ssize_t)(bytes - 7 * part),
         "pwrite");
    struct iovec two[2] = {{(void*)(data + part), part / 2},
                           {(void*)(data + part + part / 2), part - part / 2}};
    must(writev(fd, two, 2) == (ssize_t)part, "writev");
    must(lseek(fd, 0, SEEK_CUR) == (off_t)(2 * part), "lseek");
    struct iovec more[2] = {{(void*)(data + 3 * part), part}, {(void*)(data + 4 * part), part}};
    must(pwritev(fd, more, 2, (off_t)(3 * part)) == (ssize_t)(2 * part), "pwritev");
    must(write(fd, data + 2 * part, part) == (ssize_t)part, "write");
    must(lseek(fd, 0, SEEK_END) == (off_t)bytes, "lseek to the end");
    must(lseek(fd, (off_t)(5 * part), SEEK_SET) == (off_t)(5 * part), "lseek");
    const int other = dup(fd);
    must(other >= 0 && write(other, data + 5 * part, part) == (ssize_t)part, "write to a dup");
    must(close(other) == 0, "close of a dup");
    must(write(fd, data + 6 * part, part) == (ssize_t)part, "write after a dup");
    struct stat status;
    must(fstat(fd, &status) == 0 && status.st_size == (off_t)bytes, "fstat");
}

static void checkpoints(void) {
    for (int i = 0; i < rounds; ++i) {
        char path[4096];
        unsigned char* data = make_data(i);
        name_of(path, "all", i);
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        must(fd >= 0, path);
        write_all_ways(fd, data);
        must(close(fd) == 0, "close");
        free(data);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) printf("all files are written and closed\n");
    fflush(stdout); /* a test looks for it before the program ends */
}

/* A stream of the C library on a descriptor's file, as NumPy writes arrays; returns where it ended. */
static long write_by_stream(int fd, const unsigned char* data, size_t part) {
    FILE* const stream = fdopen(dup(fd), "wb");
    must(stream != NULL && fileno(stream) != fd, "fdopen");
    must(fseek(stream, lseek(fd, 0, SEEK_CUR), SEEK_SET) == 0, "fseek");
    must(fwrite(data, 1, part, stream) == part, "fwrite");
    const long at = ftell(stream);
    must(fclose(stream) == 0, "fclose");
    return at;
}

static void streams(void) {
    for (int i = 0; i < rounds; ++i) {
        char path[4096];
        unsigned char* data = make_data(i);
        const size_t part = bytes / 4;
        name_of(path, "all", i);
        FILE* const stream = fopen(path, i % 2 == 0 ? "w" : "w+e");
        must(stream != NULL, path);
        must(fwrite("overwritten", 1, 11, stream) == 11 && fseek(stream, 0, SEEK_SET) == 0, "fseek");
        for (size_t at = 0; at < part; at += 997)
            must(fwrite(data + at, part - at < 997 ? part - at : 997, 1, stream) == 1, "fwrite");
        must(fflush(stream) == 0 && ftell(stream) == (long)part, "ftell");
        struct stat status;
        must(fstat(fileno(stream), &status) == 0 && status.st_size == (off_t)part, "fstat");
        for (size_t at = part; at < 2 * part; ++at) must(putc(data[at], stream) == data[at], "putc");
        must(fflush(stream) == 0 && !ferror(stream), "fflush");
        must(lseek(fileno(stream), 0, SEEK_CUR) == (off_t)(2 * part), "lseek");
        must(write_by_stream(fileno(stream), data + 2 * part, part) == (long)(3 * part), "ftell");
        must(fseek(stream, 0, SEEK_END) == 0 && ftell(stream) == (long)(3 * part), "fseek to the end");
        must(fwrite(data + 3 * part, 1, bytes - 3 * part, stream) == bytes - 3 * part, "fwrite");
        must(fclose(stream) == 0, "fclose");
        free(data);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Rank 0 ends with what is in the stream's buffer, and without MPI_Finalize. */
static void unclosed(void) {
    char path[4096];
    unsigned char* data = make_data(0);
    name_of(path, "unclosed", 0);
    FILE* const stream = fopen(path, "w");
    must(stream != NULL && fwrite(data, 1, bytes, stream) == bytes, "fwrite");
    must(rank == 0 || fclose(stream) == 0, "fclose");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) exit(3); /* a launcher ends the others then */
}

/* What a stream is told of a file that cannot be written. */
static void stream_error(void) {
    char path[4096];
    unsigned char* data = make_data(0);
    name_of(path, "error", 0);
    FILE* const stream = fopen(path, "w");
    must(stream != NULL, path);
    for (int i = 0; i < rounds; ++i) {
        if (fwrite(data, 1, bytes, stream) == bytes) continue;
        printf("rank %d: fwrite: %s, ferror %d\n", rank, strerror(errno), ferror(stream) != 0);
        break;
    }
    if (fsync(fileno(stream)) != 0) printf("rank %d: fsync: %s\n", rank, strerror(errno));
    if (fclose(stream) != 0) printf("rank %d: fclose: %s\n", rank, strerror(errno));
}

/* A disk that is mounted for reading alone says so where the file is opened. */
static void read_only(void) {
    char path[4096];
    name_of(path, "absent", 0);
    must(open(path, O_WRONLY | O_CREAT, 0644) < 0 && errno == EROFS, "open for a new file");
    must(fopen(path, "w") == NULL && errno == EROFS, "fopen for a new file");
    snprintf(path, sizeof path, "%s/present.ckpt", folder);
    must(open(path, O_RDWR) < 0 && errno == EROFS, "open");
    must(creat(path, 0644) < 0 && errno == EROFS, "creat");
    must(fopen(path, "r+") == NULL && errno == EROFS, "fopen");
    must(truncate(path, 0) != 0 && errno == EROFS, "truncate");
}

/* Relative names, from folders that the program goes to. */
static void moving(void) {
    unsigned char* const data = make_data(0);
    const int home = open(folder, O_RDONLY | O_DIRECTORY);
    must(home >= 0, folder);
    for (int i = 0; i < rounds; ++i) {
        char path[4096];
        must((i % 2 == 0 ? chdir(folder) : fchdir(home)) == 0, "chdir");
        snprintf(path, sizeof path, "moving.%d.%d.ckpt", rank, i);
        const int fd =
            i % 3 != 2 ? open(path, O_WRONLY | O_CREAT, 0644) : openat(home, path, O_WRONLY | O_CREAT, 0644);
        must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0, path);
        must(chdir("/proc") == 0, "chdir");
        must(open("moving.ckpt", O_RDONLY) < 0 && errno == ENOENT, "a file that is not there");
        struct stat status;
        must(fstatat(home, path, &status, 0) == 0 && status.st_size == (off_t)bytes, "fstatat");
    }
}

/* Says why no file can be written there, by a descriptor and by a stream. */
static void refused(void) {
    char path[4096];
    name_of(path, "refused", 0);
    must(open(path, O_WRONLY | O_CREAT, 0644) < 0, "open must fail");
    printf("rank %d: open: %s\n", rank, strerror(errno));
    must(fopen(path, "w") == NULL, "fopen must fail");
    printf("rank %d: fopen: %s\n", rank, strerror(errno));
}

/* Not for ever: the test may be gone. */
static void wait_for_file(const char* path) {
    enum { kLooks = 200000 };
    const struct timespec pause = {0, 2000000};
    for (int looks = 0; access(path, F_OK) != 0; ++looks) {
        must(looks < kLooks, path);
        nanosleep(&pause, NULL);
    }
}

/* Opens files, writes them when the test has held up the disk, and ends when it says so. */
static void held(void) {
    char path[4096];
    const char *const begin = getenv("CHECKPOINT_BEGIN"), *const end = getenv("CHECKPOINT_END");
    must(begin != NULL && end != NULL, "the environment");
    unsigned char* data = make_data(0);
    name_of(path, "held", 0);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0, path);
    wait_for_file(begin);
    must(write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0, "write");
    wait_for_file(end);
}

/* Calls that write-behind does not do by itself: each writes the middle third of a file whose other thirds
 * are written before and after it. `part` is a file of that third, which is none of those that are written
 * behind. */
struct third {
    const unsigned char* data;
    size_t bytes;
    char part[4096];
    int part_fd;
};

static void by_sendfile(int fd, const struct third* third) {
    off_t at = 0;
    must(sendfile(fd, third->part_fd, &at, third->bytes) == (ssize_t)third->bytes, "sendfile");
}

static void by_copy_file_range(int fd, const struct third* third) {
    off_t at = 0;
    must(copy_file_range(third->part_fd, &at, fd, NULL, third->bytes, 0) == (ssize_t)third->bytes,
         "copy_file_range");
}

static void by_splice(int fd, const struct third* third) {
    int ends[2];
    must(pipe(ends) == 0 && write(ends[1], third->data, third->bytes) == (ssize_t)third->bytes, "pipe");
    must(splice(ends[0], NULL, fd, NULL, third->bytes, 0) == (ssize_t)third->bytes, "splice");
    must(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
}

static void by_dprintf(int fd, const struct third* third) {
    for (size_t i = 0; i < third->bytes; ++i) must(dprintf(fd, "%c", third->data[i]) == 1, "dprintf");
}

static void write_third(int fd, const struct third* third) {
    must(write(fd, third->data, third->bytes) == (ssize_t)third->bytes, "write");
}

static void under_fcntl(int fd, const struct third* third) {
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    must(fcntl(fd, F_SETLKW, &all) == 0, "fcntl");
    write_third(fd, third);
}

static void under_lockf(int fd, const struct third* third) {
    must(lockf(fd, F_LOCK, 0) == 0, "lockf");
    write_third(fd, third);
}

static void under_flock(int fd, const struct third* third) {
    must(flock(fd, LOCK_EX) == 0, "flock");
    write_third(fd, third);
}

/* To this process itself, as to any other. */
static void by_sendmsg(int fd, const struct third* third) {
    int ends[2], got = -1;
    char byte = 1;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && sendmsg(ends[0], &message, 0) == 1, "sendmsg");
    must(recvmsg(ends[1], &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL, "recvmsg");
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    write_third(got, third);
    must(close(got) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0, "close");
}

static void by_proc(int fd, const struct third* third) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const off_t at = lseek(fd, 0, SEEK_CUR);
    const int other = open(path, O_WRONLY);
    must(other >= 0 && pwrite(other, third->data, third->bytes, at) == (ssize_t)third->bytes, "pwrite");
    must(close(other) == 0 && lseek(fd, 0, SEEK_END) == at + (off_t)third->bytes, "the size");
}

static void by_aio(int fd, const struct third* third) {
    const off_t at = lseek(fd, 0, SEEK_CUR);
    struct aiocb request = {
        .aio_fildes = fd, .aio_buf = (void*)third->data, .aio_nbytes = third->bytes, .aio_offset = at};
    const struct aiocb* const list[] = {&request};
    must(aio_write(&request) == 0, "aio_write");
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    must(aio_return(&request) == (ssize_t)third->bytes && lseek(fd, 0, SEEK_END) == at + (off_t)third->bytes,
         "aio_return");
}

/* A program that writes to the descriptor. */
static void by_spawned(int fd, const struct third* third) {
    char* const words[] = {(char*)"cat", (char*)third->part, NULL};
    extern char** environ;
    posix_spawn_file_actions_t actions;
    must(posix_spawn_file_actions_init(&actions) == 0 &&
             posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO) == 0,
         "posix_spawn_file_actions_adddup2");
    pid_t child = 0;
    int status = 1;
    must(posix_spawn(&child, "/bin/cat", &actions, NULL, words, environ) == 0, "posix_spawn");
    must(waitpid(child, &status, 0) == child && status == 0, "a spawned program");
    posix_spawn_file_actions_destroy(&actions);
}

static void by_vforked(int fd, const struct third* third) {
    char* const words[] = {(char*)"cat", (char*)third->part, NULL};
    int status = 1;
    const pid_t child = vfork();
    if (child == 0) {
        dup2(fd, STDOUT_FILENO);
        execv("/bin/cat", words);
        _exit(127);
    }
    must(waitpid(child, &status, 0) == child && status == 0, "a program after vfork");
}

/* The forms of calls that programs are linked to that were built for large files. These go behind. */
static void by_64(int fd, const struct third* third) {
    const off64_t at = lseek64(fd, 0, SEEK_CUR);
    const size_t half = third->bytes / 2;
    struct iovec rest = {(void*)(third->data + half), third->bytes - half};
    struct stat64 status;
    must(pwrite64(fd, third->data, half, at) == (ssize_t)half, "pwrite64");
    must(pwritev64(fd, &rest, 1, at + (off64_t)half) == (ssize_t)rest.iov_len, "pwritev64");
    must(ftruncate64(fd, at + (off64_t)third->bytes) == 0, "ftruncate64");
    must(fstat64(fd, &status) == 0 && status.st_size == at + (off64_t)third->bytes, "fstat64");
    must(lseek64(fd, 0, SEEK_END) == status.st_size, "lseek64");
}

static void make_third(struct third* third, const unsigned char* data, int number) {
    third->bytes = bytes / 3;
    third->data = data + third->bytes;
    snprintf(third->part, sizeof third->part, "%s/part.%d.%d", folder, rank, number);
    third->part_fd = open(third->part, O_RDWR | O_CREAT | O_TRUNC, 0644);
    must(third->part_fd >= 0 && write(third->part_fd, third->data, third->bytes) == (ssize_t)third->bytes,
         third->part);
}

/* One file for each way, and what the system says of flags that are left to the program. */
static void others(void) {
    static const struct {
        void (*write)(int, const struct third*);
        int flags;
    } kWays[] = {{by_sendfile, 0},      {by_copy_file_range, 0}, {by_splice, 0},
                 {by_dprintf, 0},       {under_fcntl, 0},        {under_lockf, 0},
                 {under_flock, 0},      {by_sendmsg, 0},         {by_proc, 0},
                 {by_aio, 0},           {by_spawned, 0},         {by_vforked, 0},
                 {write_third, O_SYNC}, {write_third, O_DSYNC},  {by_64, O_LARGEFILE}};
    for (size_t i = 0; i < sizeof kWays / sizeof *kWays; ++i) {
        char path[4096];
        struct third third;
        unsigned char* const data = make_data((int)i);
        name_of(path, "way", (int)i);
        make_third(&third, data, (int)i);
        const int fd = open64(path, O_WRONLY | O_CREAT | O_TRUNC | kWays[i].flags, 0644);
        must(fd >= 0 && write(fd, data, third.bytes) == (ssize_t)third.bytes, path);
        kWays[i].write(fd, &third);
        const size_t rest = bytes - 2 * third.bytes;
        must(write(fd, third.data + third.bytes, rest) == (ssize_t)rest, path);
        must(close(fd) == 0 && close(third.part_fd) == 0 && unlink(third.part) == 0, "close");
        free(data);
    }
}

/* How many files of a kind can be opened until there are no descriptors left; they stay open if `fds` is
 * given. */
static int open_all(const char* what, int* fds, int most) {
    int count = 0, opened[1024];
    if (fds == NULL) fds = opened;
    for (; count < most; ++count) {
        char path[4096] = "/dev/null";
        if (what != NULL) name_of(path, what, count);
        fds[count] = open(path, O_WRONLY | O_CREAT, 0644);
        if (fds[count] < 0) break;
    }
    must(count == most || errno == EMFILE, "open");
    for (int i = 0; fds == opened && i < count; ++i) must(close(fds[i]) == 0, "close");
    return count;
}

/* With a limit of descriptors the program has as many as without write-behind, also while those that it has
 * closed wait for the disk. */
static void few_descriptors(void) {
    enum { kSpare = 12, kFiles = 1024 };
    unsigned char* data = make_data(0);
    const int next = open("/dev/null", O_RDONLY);
    struct rlimit before;
    must(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0, "getrlimit");
    const struct rlimit limit = {(rlim_t)next + kSpare, before.rlim_max};
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    int fds[kFiles];
    const int room = open_all(NULL, NULL, kFiles);
    errno = 0;
    must(room > 0 && room < kFiles, "the limit");
    for (int turn = 0; turn < rounds; ++turn) {
        must(open_all("few", fds, kFiles) == room, "as many as of others");
        for (int i = 0; i < room; ++i) {
            must(write(fds[i], data, bytes) == (ssize_t)bytes, "write");
            must(close(fds[i]) == 0, "close");
        }
        must(turn % 2 != 0 || open_all(NULL, NULL, kFiles) == room, "as many others as before");
    }
    printf("rank %d: %d files\n", rank, room);
    must(setrlimit(RLIMIT_NOFILE, &before) == 0, "setrlimit"); /* the MPI needs them, too */
}

/* Many files that stay open, `rounds` of them, are written in turns. */
static void many_open(void) {
    unsigned char* data = make_data(0);
    int* fds = malloc((size_t)rounds * sizeof *fds);
    must(fds != NULL && open_all("many", fds, rounds) == rounds, "open");
    MPI_Barrier(MPI_COMM_WORLD);
    enum { kParts = 3 };
    for (size_t part = 0; part < kParts; ++part) {
        const size_t from = bytes * part / kParts, to = bytes * (part + 1) / kParts;
        for (int i = 0; i < rounds; ++i)
            must(write(fds[i], data + from, to - from) == (ssize_t)(to - from), "write");
    }
    for (int i = 0; i < rounds; ++i) must(close(fds[i]) == 0, "close");
}

/* The folder goes while a file in it is written. */
static void lost_folder(void) {
    char path[4096], inside[8192];
    unsigned char* data = make_data(0);
    name_of(path, "folder", 0);
    snprintf(inside, sizeof inside, "%s/a.ckpt", path);
    must(mkdir(path, 0755) == 0, "mkdir");
    const int fd = open(inside, O_RDWR | O_CREAT, 0644);
    must(fd >= 0 && write(fd, data, bytes / 2) == (ssize_t)(bytes / 2), "write");
    must(unlink(inside) == 0 && rmdir(path) == 0, "rmdir");
    must(write(fd, data, bytes / 2) == (ssize_t)(bytes / 2), "write to a file without a name");
    struct stat status;
    must(fstat(fd, &status) == 0 && status.st_size == (off_t)(bytes / 2 * 2), "fstat");
    must(close(fd) == 0, "close");
    must(open(inside, O_WRONLY | O_CREAT, 0644) < 0 && errno == ENOENT, "no folder");
    must(fopen(inside, "w") == NULL && errno == ENOENT, "no folder, by a stream");
    name_of(path, "after", 0);
    FILE* const stream = fopen(path, "w");
    must(stream != NULL && fwrite(data, 1, bytes, stream) == bytes && fclose(stream) == 0, "fwrite");
}

/* Another rank reads what the first has written: in the middle, and after its close. */
static void shared(void) {
    char path[4096];
    unsigned char* data = make_data(0);
    unsigned char* got = malloc(bytes);
    snprintf(path, sizeof path, "%s/shared.0.0.ckpt", folder);
    int fd = -1;
    for (int half = 0; half < 2; ++half) {
        const size_t part = bytes / 2;
        if (rank == 0) {
            if (fd < 0) fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
            must(fd >= 0 && write(fd, data + (size_t)half * part, part) == (ssize_t)part, "write");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != 0) {
            struct stat status;
            must(stat(path, &status) == 0 && status.st_size == (off_t)((size_t)(half + 1) * part),
                 "stat by another rank");
            static int reader = -1; /* open since the first half */
            if (reader < 0) reader = open(path, O_RDONLY);
            must(reader >= 0 && pread(reader, got, part, (off_t)((size_t)half * part)) == (ssize_t)part,
                 "pread");
            for (size_t i = 0; i < part; ++i) {
                const size_t at = (size_t)half * part + i;
                const unsigned char wanted = (unsigned char)((at * 31 + (at >> 8) * 7) & 255);
                if (got[i] != wanted) {
                    errno = 0;
                    fail("another byte than was written");
                }
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) must(close(fd) == 0, "close");
    MPI_Barrier(MPI_COMM_WORLD);
    /* All write to one file, each its own part. */
    fd = open(path, O_RDWR);
    const size_t part = bytes / (size_t)size;
    must(fd >= 0 && pwrite(fd, data, part, (off_t)((size_t)rank * part)) == (ssize_t)part,
         "pwrite to a shared file");
    MPI_Barrier(MPI_COMM_WORLD);
    const int next = (rank + 1) % size;
    must(pread(fd, got, part, (off_t)((size_t)next * part)) == (ssize_t)part, "pread of a neighbour's");
    const int before = rank;
    rank = next;
    for (size_t i = 0; i < part; ++i)
        if (got[i] != byte_at(i, 0)) {
            errno = 0;
            fail("another byte than the neighbour wrote");
        }
    rank = before;
    MPI_Barrier(MPI_COMM_WORLD);
    must(close(fd) == 0, "close");
}

/* Children, other programs, and names that change. */
static void family(void) {
    char path[4096], other[4096], command[8300];
    unsigned char* data = make_data(0);
    name_of(path, "family", 0);
    name_of(other, "renamed", 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0 && write(fd, data, bytes / 4) == (ssize_t)(bytes / 4), "write");
    const pid_t child = fork();
    if (child == 0) _exit(write(fd, data + bytes / 4, bytes / 4) == (ssize_t)(bytes / 4) ? 0 : 1);
    int status = 0;
    must(waitpid(child, &status, 0) == child && status == 0, "a child writes on");
    must(write(fd, data + bytes / 2, bytes - bytes / 2) == (ssize_t)(bytes - bytes / 2),
         "write after the child");
    must(close(fd) == 0, "close");
    fd = open(path, O_RDWR | O_CLOEXEC);
    must(fd >= 0 && pwrite(fd, data, 1, 0) == 1, "pwrite");
    snprintf(command, sizeof command, "test $(wc -c <'%s') -eq %zu", path, bytes);
    must(pwrite(fd, data, bytes, 0) == (ssize_t)bytes && system(command) == 0, "a program sees all");
    must(rename(path, other) == 0, "rename");
    must(ftruncate(fd, (off_t)bytes + 7) == 0 && ftruncate(fd, (off_t)bytes) == 0, "ftruncate");
    unsigned char* map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(map != MAP_FAILED && memcmp(map, data, bytes) == 0, "mmap");
    map[0] ^= 255;
    const unsigned char first = data[0] ^ 255;
    unsigned char got = 0;
    must(pread(fd, &got, 1, 0) == 1 && got == first, "pread");
    map[0] ^= 255;
    must(pwrite(fd, data, 1, 0) == 1 && map[0] == data[0], "a mapping sees what is written");
    must(close(fd) == 0, "close");
    must(access(path, F_OK) != 0 && errno == ENOENT, "the old name");
    /* At its end a file of which all is to be seen by who only has the name. */
    name_of(path, "linked", 0);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0, "write");
    name_of(other, "link", 0);
    must(link(path, other) == 0 && unlink(path) == 0, "link");
}

/* What is told of a file that cannot be written. Prints what it was told, and by which call. */
static void error(void) {
    char path[4096];
    unsigned char* data = make_data(0);
    name_of(path, "error", 0);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0, path);
    for (int i = 0; i < rounds; ++i) {
        if (write(fd, data, bytes) == (ssize_t)bytes) continue;
        printf("rank %d: write: %s\n", rank, strerror(errno));
        fflush(stdout);
        break;
    }
    if (fsync(fd) != 0) printf("rank %d: fsync: %s\n", rank, strerror(errno));
    if (close(fd) != 0) printf("rank %d: close: %s\n", rank, strerror(errno));
}

/* The same, of a program that closes and never asks. */
static void unasked(void) {
    char path[4096];
    unsigned char* data = make_data(0);
    name_of(path, "unasked", 0);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes, "write");
    if (close(fd) != 0) printf("rank %d: close: %s\n", rank, strerror(errno));
}

static void limited(void) {
    const struct rlimit limit = {bytes / 2, bytes / 2};
    signal(SIGXFSZ, SIG_IGN);
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    error();
}

/* Writes, and is killed before it could tell anybody. */
static void killed(void) {
    checkpoints();
    char path[4096];
    unsigned char* data = make_data(9);
    name_of(path, "killed", 9);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && close(fd) == 0, "write");
    MPI_Barrier(MPI_COMM_WORLD);
    kill(getpid(), SIGKILL);
}

/* Ends without MPI_Finalize, each rank in another way. */
static void left(void) {
    char path[4096];
    unsigned char* data = make_data(0);
    name_of(path, "left", 0);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes, "write");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_Abort(MPI_COMM_WORLD, 5);
    if (rank == 1) _exit(0);
    execl("/bin/true", "true", (char*)NULL);
}

/* Until the test says so: what it does meanwhile it may do late. Of so many files in all, as a disk ends. */
enum { kSteadyFiles = 200 };
static void steady(void) {
    char path[4096], stop[4096];
    unsigned char* data = make_data(0);
    int number = 0;
    snprintf(stop, sizeof stop, "%s/stop", folder);
    for (;; ++number) {
        name_of(path, "steady", number);
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        must(fd >= 0, path);
        for (size_t at = 0; at < bytes;) {
            const size_t part = bytes - at < 10007 ? bytes - at : 10007;
            must(write(fd, data + at, part) == (ssize_t)part, "write");
            at += part;
        }
        must(close(fd) == 0, "close");
        if (number + 1 == kSteadyFiles) wait_for_file(stop);
        int ends = access(stop, F_OK) == 0;
        MPI_Bcast(&ends, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (ends) break;
    }
    printf("rank %d wrote %d files\n", rank, number + 1);
}

/* Threads of a rank, each a file of its own. */
static void* write_one(void* argument) {
    const int number = (int)(intptr_t)argument;
    char path[4096];
    unsigned char* data = make_data(number);
    name_of(path, "thread", number);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0, path);
    for (size_t at = 0; at < bytes; at += 4096) {
        const size_t part = bytes - at < 4096 ? bytes - at : 4096;
        must(write(fd, data + at, part) == (ssize_t)part, "write");
    }
    must(close(fd) == 0, "close");
    free(data);
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; ++i)
        must(pthread_create(&all[i], NULL, write_one, (void*)(intptr_t)i) == 0, "pthread_create");
    for (int i = 0; i < 4; ++i) pthread_join(all[i], NULL);
}

/* MPI-IO: all ranks one file, together and each on its own. */
static void mpi_io(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/mpi_io.ckpt", folder);
    unsigned char* data = make_data(0);
    MPI_File file;
    must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
             MPI_SUCCESS,
         "MPI_File_open");
    const MPI_Offset at = (MPI_Offset)rank * (MPI_Offset)bytes, end = (MPI_Offset)size * (MPI_Offset)bytes;
    must(MPI_File_write_at_all(file, at, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS,
         "MPI_File_write_at_all");
    must(MPI_File_write_at(file, end + at, data, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS,
         "MPI_File_write_at");
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    unsigned char* got = malloc(bytes);
    const int next = (rank + 1) % size, before = rank;
    must(MPI_File_read_at(file, end + (MPI_Offset)next * (MPI_Offset)bytes, got, (int)bytes, MPI_BYTE,
                          MPI_STATUS_IGNORE) == MPI_SUCCESS,
         "MPI_File_read_at");
    rank = next;
    for (size_t i = 0; i < bytes; ++i)
        if (got[i] != byte_at(i, 0)) {
            errno = 0;
            fail("another byte than the neighbour wrote");
        }
    rank = before;
    must(MPI_File_close(&file) == MPI_SUCCESS, "MPI_File_close");
}

int main(int argc, char** argv) {
    static const struct {
        const char* name;
        void (*run)(void);
    } kModes[] = {{"checkpoints", checkpoints},
                  {"shared", shared},
                  {"family", family},
                  {"error", error},
                  {"unasked", unasked},
                  {"limited", limited},
                  {"killed", killed},
                  {"left", left},
                  {"steady", steady},
                  {"threads", threads},
                  {"mpi_io", mpi_io},
                  {"streams", streams},
                  {"unclosed", unclosed},
                  {"stream_error", stream_error},
                  {"lost_folder", lost_folder},
                  {"read_only", read_only},
                  {"few_descriptors", few_descriptors},
                  {"many_open", many_open},
                  {"refused", refused},
                  {"moving", moving},
                  {"others", others},
                  {"held", held}};
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) return 2;
    folder = argv[2];
    if (argc > 3) bytes = strtoull(argv[3], NULL, 10);
    if (argc > 4) rounds = atoi(argv[4]);
    for (size_t i = 0; i < sizeof kModes / sizeof *kModes; ++i)
        if (strcmp(argv[1], kModes[i].name) == 0) kModes[i].run();
    MPI_Finalize();
    return 0;
}
