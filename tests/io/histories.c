/* Random histories of file operations, each made twice: on files that are written behind, and on files of a
 * plain file system. Every result, error and byte must be the same. histories FOLDER SEED COUNT [LENGTH] In
 * FOLDER/behind the names match, in FOLDER/plain they do not. A rank makes histories of its own. Where
 * streams and descriptors are mixed, streams are flushed after each operation, because what they keep in
 * their buffers is nobody's promise; other histories have streams alone, which are not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

enum { kNames = 3, kHandles = 4, kStreams = 2, kBytesMax = 40000, kSides = 2, kTold = 64, kBuffer = 6000 };

static int rank;
static const char* folder;
static uint64_t state;
static int handles[kHandles][kSides]; /* -1: none */
static FILE* streams[kStreams][kSides];
static char buffers[kStreams][kSides][kBuffer];
static int can_read[kStreams];
static int last_kinds[kStreams]; /* of a stream's last operation: 'r'ead, 'w'rite or another */
static char told[kTold][160];    /* the last operations */
static unsigned operations;
static unsigned char data[kBytesMax];

static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state * 0x2545F4914F6CDD1Du >> 11) % below;
}

static void name_of(char* path, int side, int name) {
    snprintf(path, 4096, "%s/%s/%d.%d", folder, side == 0 ? "behind" : "plain", rank, name);
}

static void differ(const char* what, long long behind, long long plain) {
    const unsigned first = operations > kTold ? operations - kTold : 0;
    for (unsigned i = first; i < operations; ++i) fprintf(stderr, "  %s\n", told[i % kTold]);
    fprintf(stderr, "rank %d: %s: behind %lld, plain %lld\n", rank, what, behind, plain);
    MPI_Abort(MPI_COMM_WORLD, 4);
    exit(4);
}

static void same(const char* what, const long long result[kSides], const int error[kSides]) {
    if (result[0] != result[1]) differ(what, result[0], result[1]);
    if (result[0] < 0 && error[0] != error[1]) differ("the error of the above", error[0], error[1]);
}

#define TELL(...) snprintf(told[operations++ % kTold], sizeof told[0], __VA_ARGS__)
/* Both sides, with `side` in the expression. */
#define BOTH(what, expression)                      \
    do {                                            \
        long long result[kSides];                   \
        int error[kSides];                          \
        for (int side = 0; side < kSides; ++side) { \
            errno = 0;                              \
            result[side] = (long long)(expression); \
            error[side] = errno;                    \
        }                                           \
        same(what, result, error);                  \
        last = result[0];                           \
    } while (0)
static long long last;

static void open_one(int h, int name) {
    static const int kAccess[] = {O_RDONLY, O_WRONLY, O_WRONLY, O_RDWR, O_RDWR};
    int flags = kAccess[draw(5)] | O_CLOEXEC;
    if (draw(4) != 0) flags |= O_CREAT;
    if (draw(3) == 0) flags |= O_TRUNC;
    if (draw(8) == 0) flags |= O_EXCL | O_CREAT;
    if (draw(8) == 0) flags |= O_APPEND;
    TELL("open handle %d name %d flags %o", h, name, flags);
    int fds[kSides];
    long long opened[kSides];
    int error[kSides];
    for (int side = 0; side < kSides; ++side) {
        char path[4096];
        name_of(path, side, name);
        errno = 0;
        fds[side] = open(path, flags, 0644);
        error[side] = errno;
        opened[side] = fds[side] < 0 ? -1 : 0;
    }
    same("open", opened, error);
    memcpy(handles[h], fds, sizeof fds);
}

static void close_one(int h) {
    TELL("close handle %d", h);
    BOTH("close", close(handles[h][side]));
    handles[h][0] = handles[h][1] = -1;
}

static void read_one(int h, int is_positioned) {
    static unsigned char got[kSides][kBytesMax];
    const size_t bytes = draw(kBytesMax);
    const off_t at = (off_t)draw(2 * kBytesMax);
    TELL("%s handle %d bytes %zu at %lld", is_positioned ? "pread" : "read", h, bytes, (long long)at);
    BOTH("read", is_positioned ? pread(handles[h][side], got[side], bytes, at)
                               : read(handles[h][side], got[side], bytes));
    if (last <= 0) return;
    for (long long i = 0; i < last; ++i)
        if (got[0][i] != got[1][i]) differ("a byte that was read", got[0][i], got[1][i]);
}

static void write_one(int h, int is_positioned, int in_parts) {
    const size_t bytes = draw(4) == 0 ? draw(kBytesMax) : draw(300);
    const off_t at = (off_t)draw(2 * kBytesMax);
    TELL("write handle %d bytes %zu positioned %d at %lld in parts %d", h, bytes, is_positioned,
         (long long)at, in_parts);
    for (size_t i = 0; i < bytes; i += 61) data[i] = (unsigned char)draw(256);
    const struct iovec parts[2] = {{data, bytes / 3}, {data + bytes / 3, bytes - bytes / 3}};
    if (in_parts && is_positioned)
        BOTH("pwritev", pwritev(handles[h][side], parts, 2, at));
    else if (in_parts)
        BOTH("writev", writev(handles[h][side], parts, 2));
    else if (is_positioned)
        BOTH("pwrite", pwrite(handles[h][side], data, bytes, at));
    else
        BOTH("write", write(handles[h][side], data, bytes));
}

static void write_in_child(int h) {
    const size_t bytes = draw(1000) + 1;
    TELL("a child writes handle %d bytes %zu", h, bytes);
    for (int side = 0; side < kSides; ++side) {
        const pid_t child = fork();
        if (child == 0) _exit(write(handles[h][side], data, bytes) == (ssize_t)bytes ? 0 : 1);
        int status = 0;
        if (waitpid(child, &status, 0) != child) differ("a child", side, errno);
    }
}

static long long size_by_name(int side, int name) {
    struct stat status;
    char path[4096];
    name_of(path, side, name);
    return stat(path, &status) == 0 ? (long long)status.st_size : -1;
}

static long long size_by_handle(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 ? (long long)status.st_size : -1;
}

static void with_names(int one, int other) {
    char from[kSides][4096], to[kSides][4096];
    for (int side = 0; side < kSides; ++side) {
        name_of(from[side], side, one);
        name_of(to[side], side, other);
    }
    const off_t length = (off_t)draw(kBytesMax);
    switch (draw(6)) {
        case 0:
            TELL("rename %d to %d", one, other);
            BOTH("rename", rename(from[side], to[side]));
            break;
        case 1:
            TELL("unlink %d", one);
            BOTH("unlink", unlink(from[side]));
            break;
        case 2:
            TELL("link %d to %d", one, other);
            BOTH("link", link(from[side], to[side]));
            break;
        case 3:
            TELL("truncate %d to %lld", one, (long long)length);
            BOTH("truncate", truncate(from[side], length));
            break;
        default:
            TELL("stat %d", one);
            BOTH("stat", size_by_name(side, one));
            break;
    }
}

static void with_handle(int h) {
    const int other = (int)draw(kHandles);
    const int whence = (int)draw(4);
    const off_t offset = (off_t)draw(2 * kBytesMax) - (whence == SEEK_SET ? 100 : kBytesMax / 2);
    switch (draw(20)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
        case 5:
        case 6:
            write_one(h, draw(2) != 0, draw(4) == 0);
            break;
        case 7:
            read_one(h, 0);
            break;
        case 8:
            read_one(h, 1);
            break;
        case 9:
        case 10:
            TELL("lseek handle %d to %lld whence %d", h, (long long)offset, whence);
            BOTH("lseek", lseek(handles[h][side], offset, whence));
            break;
        case 11:
            TELL("ftruncate handle %d to %lld", h, (long long)offset);
            BOTH("ftruncate", ftruncate(handles[h][side], offset));
            break;
        case 12:
        case 13:
            TELL("fstat handle %d", h);
            BOTH("fstat", size_by_handle(handles[h][side]));
            break;
        case 14:
            if (draw(20) == 0) {
                TELL("fsync handle %d", h);
                BOTH("fsync", fsync(handles[h][side]));
            }
            break;
        case 15:
            if (other == h) break;
            TELL("dup handle %d as %d", h, other);
            for (int side = 0; side < kSides; ++side) {
                if (handles[other][side] < 0)
                    handles[other][side] = dup(handles[h][side]);
                else if (dup2(handles[h][side], handles[other][side]) < 0)
                    differ("dup2", side, errno);
            }
            break;
        case 16:
            if (draw(30) == 0) write_in_child(h);
            break;
        case 17:
            if (draw(10) != 0) break;
            TELL("fcntl append of handle %d", h);
            BOTH("fcntl", fcntl(handles[h][side], F_SETFL, O_APPEND));
            break;
        default:
            close_one(h);
            break;
    }
}

static void close_stream(int n) {
    TELL("fclose stream %d", n);
    BOTH("fclose", fclose(streams[n][side]));
    streams[n][0] = streams[n][1] = NULL;
}

/* The C library reads, or not, from a stream that is not opened for reading, as its buffer happens to be. */
static int is_read(const char* mode) {
    return mode[0] == 'r' || strchr(mode, '+') != NULL;
}

static void open_stream(int n, int name) {
    static const char* const kModes[] = {"r",  "r+", "w",   "w",    "w+",  "w+", "wb",  "wb+", "w+be", "a",
                                         "a+", "wx", "w+x", "rb+e", "r+b", "q",  "w+q", "",    "wxe+"};
    const char* const mode = kModes[draw(sizeof kModes / sizeof *kModes)];
    const int buffering = (int)draw(4);
    const size_t room = 1 + draw(kBuffer);
    TELL("fopen stream %d name %d mode '%s' buffer %d of %zu", n, name, mode, buffering, room);
    char path[kSides][4096];
    for (int side = 0; side < kSides; ++side) name_of(path[side], side, name);
    BOTH("fopen", (streams[n][side] = fopen(path[side], mode)) != NULL ? 0 : -1);
    if (last < 0) return;
    /* Of the same size on both sides, so that they are flushed at the same time. */
    static const int kKinds[] = {_IOFBF, _IOFBF, _IOLBF, _IONBF};
    BOTH("setvbuf", setvbuf(streams[n][side], buffers[n][side], kKinds[buffering], room));
    last_kinds[n] = 0;
    can_read[n] = is_read(mode);
    BOTH("fwide", fwide(streams[n][side], 0));
    if (draw(12) != 0) return;
    /* No more than that: the C library never returns from fseek where letters are none of its code. */
    TELL("wide letters on stream %d", n);
    BOTH("fputws", fputws(L"wide letters", streams[n][side]) < 0 ? -1 : 0);
    close_stream(n);
}

/* A stream of another descriptor of a handle's file. */
static void adopt_handle(int n, int h) {
    static const char* const kModes[] = {"r", "w", "r+", "w+", "a", "wb", "rb", "x"};
    const char* const mode = kModes[draw(sizeof kModes / sizeof *kModes)];
    const size_t room = 1 + draw(kBuffer);
    TELL("fdopen stream %d handle %d mode '%s'", n, h, mode);
    int fds[kSides];
    for (int side = 0; side < kSides; ++side) fds[side] = dup(handles[h][side]);
    BOTH("fdopen", (streams[n][side] = fdopen(fds[side], mode)) != NULL ? 0 : -1);
    if (last < 0)
        for (int side = 0; side < kSides; ++side) close(fds[side]);
    else
        BOTH("setvbuf", setvbuf(streams[n][side], buffers[n][side], _IOFBF, room));
    last_kinds[n] = 0;
    can_read[n] = is_read(mode);
}

static void begin_kind(int n, int kind) {
    if (last_kinds[n] != 0 && last_kinds[n] != kind)
        BOTH("fseek in between", fseek(streams[n][side], 0, SEEK_CUR));
    last_kinds[n] = kind;
}

static void read_stream(int n) {
    static char got[kSides][kBytesMax];
    const size_t bytes = draw(3) == 0 ? draw(kBytesMax) : draw(300);
    TELL("fread stream %d bytes %zu", n, bytes);
    begin_kind(n, 'r');
    BOTH("fread", fread(got[side], 1, bytes, streams[n][side]));
    for (long long i = 0; i < last; ++i)
        if (got[0][i] != got[1][i]) differ("a byte that was read by a stream", got[0][i], got[1][i]);
    BOTH("feof", feof(streams[n][side]) != 0);
}

static void write_stream(int n) {
    const size_t bytes = draw(4) == 0 ? draw(kBytesMax) : draw(300);
    const int how = (int)draw(4), value = (int)draw(1000000);
    TELL("write stream %d bytes %zu way %d", n, bytes, how);
    for (size_t i = 0; i < bytes; i += 61) data[i] = (unsigned char)draw(256);
    begin_kind(n, 'w');
    if (how == 0)
        BOTH("fprintf", fprintf(streams[n][side], "%d %s\n", value, "of a line"));
    else if (how == 1)
        BOTH("putc", putc(value & 255, streams[n][side]));
    else
        BOTH("fwrite", fwrite(data, 1, bytes, streams[n][side]));
    BOTH("ferror", ferror(streams[n][side]) != 0);
}

static void reopen_stream(int n, int name) {
    static const char* const kModes[] = {"r", "r+", "w", "w+", "a"};
    const char* const mode = kModes[draw(5)];
    const int by_name = draw(3) != 0;
    TELL("freopen stream %d name %d mode %s", n, by_name ? name : -1, mode);
    char path[kSides][4096];
    for (int side = 0; side < kSides; ++side) name_of(path[side], side, name);
    BOTH("freopen",
         (streams[n][side] = freopen(by_name ? path[side] : NULL, mode, streams[n][side])) != NULL ? 0 : -1);
    if (last == 0) BOTH("setvbuf", setvbuf(streams[n][side], buffers[n][side], _IOFBF, kBuffer));
    last_kinds[n] = 0;
    can_read[n] = is_read(mode);
}

static void seek_stream(int n) {
    const int whence = (int)draw(4);
    const long offset = (long)draw(2 * kBytesMax) - (whence == SEEK_SET ? 100 : kBytesMax / 2);
    TELL("fseek stream %d to %ld whence %d", n, offset, whence);
    BOTH("fseek", fseek(streams[n][side], offset, whence));
    if (last == 0) last_kinds[n] = 0;
}

static void with_descriptor_of(int n) {
    const off_t length = (off_t)draw(kBytesMax);
    const int what = (int)draw(4);
    TELL("fflush and %d on the descriptor of stream %d, length %lld", what, n, (long long)length);
    BOTH("fflush", fflush(streams[n][side]));
    if (what == 0) BOTH("fstat", size_by_handle(fileno(streams[n][side])));
    if (what == 1) BOTH("ftruncate", ftruncate(fileno(streams[n][side]), length));
    if (what == 2) BOTH("lseek", lseek(fileno(streams[n][side]), 0, SEEK_CUR));
    if (what == 3 && draw(20) == 0) BOTH("fsync", fsync(fileno(streams[n][side])));
}

static void with_stream(int n) {
    switch (draw(15)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
            write_stream(n);
            break;
        case 5:
        case 6:
            if (can_read[n]) read_stream(n);
            break;
        case 7:
        case 8:
            seek_stream(n);
            break;
        case 9:
            TELL("ftell stream %d", n);
            BOTH("ftell", ftell(streams[n][side]));
            break;
        case 10:
        case 11:
            with_descriptor_of(n);
            break;
        case 12:
            if (draw(5) == 0) reopen_stream(n, (int)draw(kNames));
            break;
        default:
            return close_stream(n);
    }
    if (streams[n][0] != NULL) clearerr(streams[n][0]), clearerr(streams[n][1]);
}

static void compare_files(int name) {
    char path[kSides][4096];
    static unsigned char got[kSides][1 << 20];
    ssize_t bytes[kSides];
    for (int side = 0; side < kSides; ++side) {
        name_of(path[side], side, name);
        const int fd = open(path[side], O_RDONLY);
        bytes[side] = fd < 0 ? -1 : read(fd, got[side], sizeof got[0]);
        if (fd >= 0) close(fd);
    }
    if (bytes[0] != bytes[1]) differ("the size at the end", bytes[0], bytes[1]);
    for (ssize_t i = 0; i < bytes[0]; ++i)
        if (got[0][i] != got[1][i]) differ("a byte at the end", got[0][i], got[1][i]);
    for (int side = 0; side < kSides; ++side) unlink(path[side]);
}

static void flush_streams(void) {
    for (int n = 0; n < kStreams; ++n)
        if (streams[n][0] != NULL) BOTH("fflush", fflush(streams[n][side]));
}

static void do_one(int has_handles, int has_one_stream) {
    const int h = (int)draw(kHandles), n = has_one_stream ? 0 : (int)draw(kStreams);
    if (draw(10) == 0) {
        flush_streams();
        with_names((int)draw(kNames), (int)draw(kNames));
    } else if (!has_handles || draw(3) == 0) {
        if (streams[n][0] != NULL)
            with_stream(n);
        else if (has_handles && handles[h][0] >= 0 && draw(2) != 0)
            adopt_handle(n, h);
        else
            open_stream(n, (int)draw(kNames));
    } else if (handles[h][0] < 0)
        open_one(h, (int)draw(kNames));
    else
        with_handle(h);
}

static void run_one(uint64_t seed, int length) {
    state = seed * 0x9E3779B97F4A7C15u + (uint64_t)rank + 1;
    operations = 0;
    TELL("history %llu of rank %d", (unsigned long long)seed, rank);
    memset(handles, 255, sizeof handles);
    const int has_handles = draw(3) != 0, is_flushed = has_handles;
    for (int i = 0; i < length; ++i) {
        do_one(has_handles, !is_flushed);
        if (is_flushed) flush_streams();
    }
    /* Some histories end with what is open, others before. */
    const int compares_first = draw(2) != 0;
    flush_streams();
    for (int name = 0; compares_first && name < kNames; ++name)
        BOTH("the size before the end", size_by_name(side, name));
    for (int n = 0; n < kStreams; ++n)
        if (streams[n][0] != NULL) close_stream(n);
    for (int h = 0; h < kHandles; ++h)
        if (handles[h][0] >= 0) close_one(h);
    for (int name = 0; name < kNames; ++name) compare_files(name);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4) return 2;
    folder = argv[1];
    const uint64_t seed = strtoull(argv[2], NULL, 10), count = strtoull(argv[3], NULL, 10);
    const int length = argc > 4 ? atoi(argv[4]) : 40;
    if (rank == 0)
        printf("histories %llu to %llu of %d operations\n", (unsigned long long)seed,
               (unsigned long long)(seed + count - 1), length),
            fflush(stdout);
    for (uint64_t i = 0; i < count; ++i) {
        run_one(seed + i, length);
        if (rank == 0 && ((i + 1) % 20 == 0 || i + 1 == count))
            printf("%llu of %llu done\n", (unsigned long long)(i + 1), (unsigned long long)count),
                fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
