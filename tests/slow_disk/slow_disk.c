/* A slow file system for tests and studies: a folder of another file system, seen through FUSE, whose calls
 * take time, fail as they are told to, and are counted. One mount is one client: a file that another client
 * touched last can cost a revalidation. Operations on a file handle run in several threads. --help says more.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { kOpen, kRead, kWrite, kClose, kUnlink, kStat, kCalls };
static const char* const kNames[kCalls] = {"open", "read", "write", "close", "unlink", "stat"};
static const char* const kClientAttribute =
    "user.slow_disk.client"; /* of a file below: who touched it last */
static const char* const kCountsAttribute =
    "user.slow_disk.counts"; /* of any file here: the counts, as JSON */
enum { kFailuresMax = 16, kNanosecondsPerSecond = 1000000000 };

/* Calls first..last of a kind fail, counted from 1. */
typedef struct failure {
    int call, error;
    unsigned long long first, last;
} failure;

/* What the command line says. */
static struct options {
    char backing[PATH_MAX];
    const char* client;
    long latency_us[kCalls];
    long revalidate_us;
    double bytes_per_second; /* of reads and writes together; 0: no limit */
    double burst_bytes;      /* so much goes at once before the rate holds */
    const char* hold;        /* writes wait while there is such a file; NULL: none do */
    long long space_bytes;   /* -1: as much as below */
    int read_only;
    int serial; /* one call waits at a time, as on a server with one thread */
    failure failures[kFailuresMax];
    int failures_count;
} options = {.client = "", .burst_bytes = 1 << 20, .space_bytes = -1};

static atomic_ullong counts[kCalls], bytes_read, bytes_written, revalidations, failures;
static atomic_int under_way;    /* calls that take their time now */
static atomic_llong bytes_kept; /* by this client, for --space */
static pthread_mutex_t server = PTHREAD_MUTEX_INITIALIZER, bucket = PTHREAD_MUTEX_INITIALIZER;

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (long long)kNanosecondsPerSecond + time.tv_nsec;
}

static void sleep_until(long long end_ns) {
    const struct timespec end = {end_ns / kNanosecondsPerSecond, end_ns % kNanosecondsPerSecond};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
    }
}

/* `hold`: a file; while there is one it takes longer. NULL: it does not. */
static void take_time(long us, const char* hold) {
    enum { kLookNs = 1000000 };
    static _Thread_local int precise;
    if (us <= 0 && !hold) return;
    if (!precise) {
        prctl(PR_SET_TIMERSLACK, 1);
        precise = 1;
    }
    if (options.serial) pthread_mutex_lock(&server);
    atomic_fetch_add(&under_way, 1);
    sleep_until(now_ns() + us * 1000ll);
    while (hold && access(hold, F_OK) == 0) sleep_until(now_ns() + kLookNs);
    atomic_fetch_sub(&under_way, 1);
    if (options.serial) pthread_mutex_unlock(&server);
}

/* Waits until so many bytes may pass. All threads draw on one account, which may be `burst_bytes` in advance.
 */
static void pass_bytes(size_t bytes) {
    static long long free_at_ns; /* when all that has passed would be through at the rate */
    if (options.bytes_per_second <= 0) return;
    pthread_mutex_lock(&bucket);
    const long long now = now_ns();
    if (free_at_ns < now) free_at_ns = now;
    free_at_ns += (long long)((double)bytes / options.bytes_per_second * kNanosecondsPerSecond);
    const long long end =
        free_at_ns - (long long)(options.burst_bytes / options.bytes_per_second * kNanosecondsPerSecond);
    pthread_mutex_unlock(&bucket);
    if (end > now) sleep_until(end);
}

/* Counts a call and lets it take its time. Returns 0, or the error that it is told to give. */
static int begin_call(int call) {
    const unsigned long long number = atomic_fetch_add(&counts[call], 1) + 1;
    take_time(options.latency_us[call], call == kWrite ? options.hold : NULL);
    for (int i = 0; i < options.failures_count; ++i) {
        const failure* one = &options.failures[i];
        if (one->call == call && number >= one->first && number <= one->last) {
            atomic_fetch_add(&failures, 1);
            return -one->error;
        }
    }
    return 0;
}

/* This client touches a file. If another one did before, what this one knows of it is checked first. */
static void touch(int file) {
    char last[256];
    const ssize_t bytes = fgetxattr(file, kClientAttribute, last, sizeof(last) - 1);
    if (bytes >= 0 && (size_t)bytes == strlen(options.client) &&
        memcmp(last, options.client, (size_t)bytes) == 0)
        return;
    if (bytes >= 0) {
        atomic_fetch_add(&revalidations, 1);
        take_time(options.revalidate_us, NULL);
    }
    fsetxattr(file, kClientAttribute, options.client, strlen(options.client), 0);
}

static int below(const char* path, char* full) {
    return snprintf(full, PATH_MAX, "%s%s", options.backing, path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int result(int status) {
    return status < 0 ? -errno : 0;
}

/* In each function below that has a path. */
#define FULL_PATH(path)  \
    char full[PATH_MAX]; \
    if (below(path, full) != 0) return -ENAMETOOLONG

static int slow_getattr(const char* path, struct stat* about, struct fuse_file_info* info) {
    FULL_PATH(path);
    const int error = begin_call(kStat);
    if (error) return error;
    return info ? result(fstat((int)info->fh, about)) : result(lstat(full, about));
}

static int slow_mkdir(const char* path, mode_t mode) {
    FULL_PATH(path);
    return result(mkdir(full, mode));
}

static int slow_rmdir(const char* path) {
    FULL_PATH(path);
    return result(rmdir(full));
}

static int slow_unlink(const char* path) {
    FULL_PATH(path);
    const int error = begin_call(kUnlink);
    if (error) return error;
    struct stat about;
    const int known = lstat(full, &about);
    const int status = unlink(full);
    if (status == 0 && known == 0) atomic_fetch_sub(&bytes_kept, about.st_size);
    return result(status);
}

static int slow_rename(const char* from, const char* to, unsigned flags) {
    char full_to[PATH_MAX];
    FULL_PATH(from);
    if (flags) return -EINVAL;
    if (below(to, full_to) != 0) return -ENAMETOOLONG;
    return result(rename(full, full_to));
}

static int slow_truncate(const char* path, off_t size, struct fuse_file_info* info) {
    FULL_PATH(path);
    struct stat about;
    if (lstat(full, &about) == 0) atomic_fetch_add(&bytes_kept, size - about.st_size);
    return info ? result(ftruncate((int)info->fh, size)) : result(truncate(full, size));
}

static int slow_chmod(const char* path, mode_t mode, struct fuse_file_info* info) {
    (void)info;
    FULL_PATH(path);
    return result(chmod(full, mode));
}

static int slow_chown(const char* path, uid_t user, gid_t group, struct fuse_file_info* info) {
    (void)info;
    FULL_PATH(path);
    return result(lchown(full, user, group));
}

static int slow_utimens(const char* path, const struct timespec times[2], struct fuse_file_info* info) {
    (void)info;
    FULL_PATH(path);
    return result(utimensat(AT_FDCWD, full, times, AT_SYMLINK_NOFOLLOW));
}

static int open_below(const char* path, int flags, mode_t mode, struct fuse_file_info* info) {
    FULL_PATH(path);
    const int error = begin_call(kOpen);
    if (error) return error;
    struct stat about;
    const long long before = (flags & O_TRUNC) && lstat(full, &about) == 0 ? about.st_size : 0;
    /* The kernel may read what it writes only a part of. */
    if ((flags & O_ACCMODE) == O_WRONLY) flags = (flags & ~O_ACCMODE) | O_RDWR;
    const int file = open(full, (flags & ~O_APPEND) | O_CLOEXEC, mode);
    if (file < 0) return -errno;
    atomic_fetch_sub(&bytes_kept, before);
    touch(file);
    info->fh = (uint64_t)file;
    return 0;
}

static int slow_create(const char* path, mode_t mode, struct fuse_file_info* info) {
    return open_below(path, info->flags | O_CREAT, mode, info);
}

static int slow_open(const char* path, struct fuse_file_info* info) {
    return open_below(path, info->flags, 0, info);
}

static int slow_read(const char* path, char* data, size_t bytes, off_t offset, struct fuse_file_info* info) {
    (void)path;
    const int error = begin_call(kRead);
    if (error) return error;
    pass_bytes(bytes);
    const ssize_t got = pread((int)info->fh, data, bytes, offset);
    if (got < 0) return -errno;
    atomic_fetch_add(&bytes_read, (unsigned long long)got);
    return (int)got;
}

/* Returns 0 if there is room for what a file grows by. */
static int keep_bytes(int file, off_t end) {
    struct stat about;
    if (options.space_bytes < 0 || fstat(file, &about) != 0 || end <= about.st_size) return 0;
    const long long growth = end - about.st_size;
    if (atomic_fetch_add(&bytes_kept, growth) + growth <= options.space_bytes) return 0;
    atomic_fetch_sub(&bytes_kept, growth);
    return -ENOSPC;
}

static int slow_write(const char* path, const char* data, size_t bytes, off_t offset,
                      struct fuse_file_info* info) {
    (void)path;
    const int error = begin_call(kWrite);
    if (error) return error;
    pass_bytes(bytes);
    const int full_disk = keep_bytes((int)info->fh, offset + (off_t)bytes);
    if (full_disk) return full_disk;
    const ssize_t written = pwrite((int)info->fh, data, bytes, offset);
    if (written < 0) return -errno;
    atomic_fetch_add(&bytes_written, (unsigned long long)written);
    return (int)written;
}

/* The kernel calls this in close(). */
static int slow_flush(const char* path, struct fuse_file_info* info) {
    (void)path;
    (void)info;
    return begin_call(kClose);
}

static int slow_release(const char* path, struct fuse_file_info* info) {
    (void)path;
    close((int)info->fh);
    return 0;
}

static int slow_fsync(const char* path, int data_alone, struct fuse_file_info* info) {
    (void)path;
    return result(data_alone ? fdatasync((int)info->fh) : fsync((int)info->fh));
}

static int slow_statfs(const char* path, struct statvfs* about) {
    FULL_PATH(path);
    if (statvfs(full, about) != 0) return -errno;
    if (options.space_bytes >= 0) {
        const long long free = options.space_bytes - atomic_load(&bytes_kept);
        about->f_blocks = (fsblkcnt_t)options.space_bytes / about->f_frsize;
        about->f_bfree = about->f_bavail = free > 0 ? (fsblkcnt_t)free / about->f_frsize : 0;
    }
    return 0;
}

static int slow_readdir(const char* path, void* buffer, fuse_fill_dir_t fill, off_t offset,
                        struct fuse_file_info* info, enum fuse_readdir_flags flags) {
    (void)offset;
    (void)info;
    (void)flags;
    FULL_PATH(path);
    DIR* folder = opendir(full);
    if (!folder) return -errno;
    for (const struct dirent* entry; (entry = readdir(folder));) fill(buffer, entry->d_name, NULL, 0, 0);
    closedir(folder);
    return 0;
}

static int write_counts(char* text, size_t bytes) {
    int used = snprintf(text, bytes, "{");
    for (int i = 0; i < kCalls; ++i)
        used +=
            snprintf(text + used, bytes - (size_t)used, "\"%s\": %llu, ", kNames[i], atomic_load(&counts[i]));
    return used + snprintf(text + used, bytes - (size_t)used,
                           "\"bytes_read\": %llu, \"bytes_written\": %llu, \"revalidations\": %llu, "
                           "\"failures\": %llu, \"under_way\": %d}",
                           atomic_load(&bytes_read), atomic_load(&bytes_written), atomic_load(&revalidations),
                           atomic_load(&failures), atomic_load(&under_way));
}

static int slow_getxattr(const char* path, const char* name, char* value, size_t bytes) {
    (void)path;
    if (strcmp(name, kCountsAttribute) != 0) return -ENODATA;
    char text[1024];
    const int used = write_counts(text, sizeof(text));
    if (bytes == 0) return used;
    if (bytes < (size_t)used) return -ERANGE;
    memcpy(value, text, (size_t)used);
    return used;
}

/* What the kernel may keep: a file's pages as long as its time of change is the same when it is opened
 * (auto_cache), and nothing of names and attributes, which other clients change. */
static void* slow_init(struct fuse_conn_info* connection, struct fuse_config* config) {
    (void)connection;
    config->use_ino = 1;
    config->auto_cache = 1;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = config->ac_attr_timeout = 0;
    config->ac_attr_timeout_set = 1;
    config->nullpath_ok = 0;
    return NULL;
}

static const struct fuse_operations operations = {
    .getattr = slow_getattr,
    .mkdir = slow_mkdir,
    .rmdir = slow_rmdir,
    .unlink = slow_unlink,
    .rename = slow_rename,
    .truncate = slow_truncate,
    .chmod = slow_chmod,
    .chown = slow_chown,
    .utimens = slow_utimens,
    .create = slow_create,
    .open = slow_open,
    .read = slow_read,
    .write = slow_write,
    .flush = slow_flush,
    .release = slow_release,
    .fsync = slow_fsync,
    .statfs = slow_statfs,
    .readdir = slow_readdir,
    .getxattr = slow_getxattr,
    .init = slow_init,
};

static const char kHelp[] =
    "Usage: slow_disk [OPTIONS] --backing FOLDER --mount FOLDER\n"
    "Shows a folder of another file system at --mount, and takes time for it. Runs until it is unmounted\n"
    "(fusermount3 -u FOLDER) or ended by SIGTERM or SIGINT. Needs /dev/fuse.\n\n"
    "  --latency CALL=US    what a call takes, in microseconds; CALL: open, read, write, close, unlink, "
    "stat\n"
    "  --rate BYTES         bytes a second that are read and written together\n"
    "  --burst BYTES        bytes that pass at once before the rate holds (default 1048576)\n"
    "  --serial             one call takes its time after the other; else all at once\n"
    "  --hold FILE          writes do not end while there is a file of that name (of another file system)\n"
    "  --client NAME        who this mount is (default: the path of the mount)\n"
    "  --revalidate US      what it takes to open a file that another client has opened last\n"
    "  --space BYTES        room for what is written here; then ENOSPC\n"
    "  --fail CALL@N=ERROR  the N-th call fails; N-M: those; N-: all from then on; ERROR: ENOSPC, EIO, "
    "EDQUOT, ENOENT, EROFS\n"
    "  --read-only          mounted so: opening for writing fails\n"
    "  --counts FILE        at the end, write how many calls and bytes there were, as JSON\n"
    "  --nfs                each call takes time: open 400, read 200, write 200, close 200 us\n"
    "  --lustre             many at once, with a rate: open 200, close 100 us, 400 MB/s\n\n"
    "The counts so far, and how many calls take their time now, are an extended attribute of any file here:\n"
    "  getfattr --only-values -n user.slow_disk.counts FOLDER\n"
    "Who touched a file last is kept in an extended attribute of the file below, which its file system must "
    "have.\n";

static _Noreturn void fail(const char* what, const char* word) {
    fprintf(stderr, "slow_disk: %s: %s (--help)\n", what, word);
    exit(2);
}

static int call_of(const char* name, size_t bytes) {
    for (int i = 0; i < kCalls; ++i)
        if (strlen(kNames[i]) == bytes && strncmp(kNames[i], name, bytes) == 0) return i;
    return -1;
}

static double number_of(const char* text) {
    char* end;
    const double number = strtod(text, &end);
    if (end == text || *end || number < 0) fail("not a number", text);
    return number;
}

static void parse_latency(const char* word) {
    const char* equals = strchr(word, '=');
    const int call = equals ? call_of(word, (size_t)(equals - word)) : -1;
    if (call < 0) fail("--latency wants CALL=US", word);
    options.latency_us[call] = (long)number_of(equals + 1);
}

static void parse_failure(const char* word) {
    static const struct {
        const char* name;
        int number;
    } kErrors[] = {
        {"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"ENOENT", ENOENT}, {"EROFS", EROFS}};
    const char *at = strchr(word, '@'), *equals = strchr(word, '=');
    if (options.failures_count == kFailuresMax) fail("too many --fail", word);
    if (!at || !equals || equals < at) fail("--fail wants CALL@N=ERROR", word);
    failure* one = &options.failures[options.failures_count++];
    char* end;
    one->call = call_of(word, (size_t)(at - word));
    one->first = strtoull(at + 1, &end, 10);
    one->last = one->first;
    if (*end == '-') one->last = end + 1 == equals ? ULLONG_MAX : strtoull(end + 1, &end, 10);
    for (size_t i = 0; i < sizeof(kErrors) / sizeof(kErrors[0]); ++i)
        if (strcmp(kErrors[i].name, equals + 1) == 0) one->error = kErrors[i].number;
    if (one->call < 0 || one->first == 0 || one->last < one->first || one->error == 0)
        fail("--fail wants CALL@N=ERROR", word);
}

static void take_character(int nfs) {
    options.latency_us[kOpen] = nfs ? 400 : 200;
    options.latency_us[kClose] = nfs ? 200 : 100;
    options.latency_us[kRead] = options.latency_us[kWrite] = nfs ? 200 : 0;
    options.bytes_per_second = nfs ? 0 : 400e6;
}

static const char *mount_point, *counts_path;
static FILE* counts_file;

/* Returns 1 if `next` was the option's value. */
static int parse_option(const char* name, const char* next) {
    if (strcmp(name, "--help") == 0) {
        fputs(kHelp, stdout);
        exit(0);
    }
    if (strcmp(name, "--serial") == 0) return options.serial = 1, 0;
    if (strcmp(name, "--read-only") == 0) return options.read_only = 1, 0;
    if (strcmp(name, "--nfs") == 0 || strcmp(name, "--lustre") == 0) return take_character(name[2] == 'n'), 0;
    if (!next) fail("an option that is unknown or lacks its value", name);
    if (strcmp(name, "--backing") == 0) {
        if (!realpath(next, options.backing)) fail("--backing is no folder", next);
    } else if (strcmp(name, "--mount") == 0) {
        mount_point = next;
    } else if (strcmp(name, "--counts") == 0) {
        counts_path = next;
        counts_file = fopen(next, "w");
        if (!counts_file) fail("--counts cannot be written", next);
    } else if (strcmp(name, "--hold") == 0) {
        options.hold = next;
    } else if (strcmp(name, "--client") == 0) {
        options.client = next;
    } else if (strcmp(name, "--latency") == 0) {
        parse_latency(next);
    } else if (strcmp(name, "--revalidate") == 0) {
        options.revalidate_us = (long)number_of(next);
    } else if (strcmp(name, "--rate") == 0) {
        options.bytes_per_second = number_of(next);
    } else if (strcmp(name, "--burst") == 0) {
        options.burst_bytes = number_of(next);
    } else if (strcmp(name, "--space") == 0) {
        options.space_bytes = (long long)number_of(next);
    } else if (strcmp(name, "--fail") == 0) {
        parse_failure(next);
    } else {
        fail("unknown option", name);
    }
    return 1;
}

int main(int count, char** words) {
    for (int i = 1; i < count; ++i) i += parse_option(words[i], i + 1 < count ? words[i + 1] : NULL);
    if (!options.backing[0] || !mount_point) fail("give", "--backing FOLDER --mount FOLDER");
    if (!options.client[0]) options.client = mount_point;
    if (options.revalidate_us > 0 && setxattr(options.backing, kClientAttribute, "", 0, 0) != 0)
        fail("--revalidate needs a file system with extended attributes below", options.backing);
    umask(0);
    /* Each thread of the kernel's calls may wait, so there must be enough of them. */
    char* arguments[] = {words[0],
                         "-f",
                         "-o",
                         "fsname=slow_disk,subtype=slow_disk,default_permissions,max_idle_threads=64",
                         (char*)mount_point,
                         options.read_only ? "-r" : NULL,
                         NULL};
    const int status = fuse_main(options.read_only ? 6 : 5, arguments, &operations, NULL);
    char text[1024];
    write_counts(text, sizeof(text));
    if (counts_file && (fprintf(counts_file, "%s\n", text) < 0 || fclose(counts_file) != 0))
        fail("cannot write", counts_path);
    return status;
}
