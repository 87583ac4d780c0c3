#include "io/preload/behind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "io/preload/attach.h"
#include "io/preload/next.h"

namespace longshore::io {

Atomic<uint16_t> owners[kDescriptorsMax];
Atomic<uint32_t> is_on;

namespace {

constexpr uint64_t kLookNs = 100'000'000;  // how often a wait looks whether the supervisor is there
constexpr int kHoldLimitMs = 10'000;       // for the supervisor to take a descriptor
constexpr uint32_t kClosingMax = 128;      // descriptors that the program has closed and the system has not
constexpr uint32_t kSpins = 200;           // looks before a wait sleeps

// Where descriptors and files lead to. Changed with the lock alone.
struct State {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pid_t pid = 0;
    int socket = -1;
    uint32_t local_rank = 0, rank = 0;
    Board* board = nullptr;
    Queue* queue = nullptr;
    char* ring = nullptr;  // mapped twice, one behind the other
    uint64_t ring_bytes = 0, data_bytes_max = 0;
    uint64_t files_count = 0;  // so far: their numbers
    uint32_t lost = 0;
    int descriptors_end = 0;    // no descriptor from here on has an owner
    bool takes_memory = false;  // for tests: files in memory, too
    bool knows_directory = false;
    char directory[4096] = {};
    struct {
        int fd;
        uint32_t slot;
    } closing[kClosingMax] = {};
    uint32_t closing_count = 0;
    File files[kFilesMax];
    Patterns patterns;
};
constinit State s;

long futex(Atomic<uint32_t>& word, int what, uint32_t value, const timespec* timeout) {
    return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), what, value, timeout, nullptr, 0);
}

uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

Slot& slot_of(const File& file) {
    return s.queue->slots[file.slot];
}

bool has_identity(const Slot& slot, Identity file) {
    return slot.number.load() != 0 && slot.inode.load() == file.inode && slot.device.load() == file.device;
}

// --- the queue

bool is_lost(const Queue& queue) {
    return s.board->is_lost.load(std::memory_order_relaxed) != 0 ||
           queue.is_spoilt.load(std::memory_order_relaxed) != 0;
}

bool is_served(const Queue& queue) {
    if (is_lost(queue)) return false;
    char byte;
    const ssize_t got = recv(s.socket, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

// Until so much of a queue has been carried out. False: it will not be.
bool wait_done(Queue& queue, uint64_t position) {
    const auto is_done = [&] { return queue.done.load(std::memory_order_seq_cst) >= position; };
    if (is_done()) return true;
    const int error = errno;
    const uint64_t begin = now_ns();
    bool served = true;
    for (uint32_t looks = 0; !is_done() && served; ++looks) {
        if (looks < kSpins) {
            cpu_relax();
            continue;
        }
        const uint32_t seen = s.board->events.load(std::memory_order_seq_cst);
        s.board->sleepers.fetch_add(1, std::memory_order_seq_cst);
        const timespec timeout{0, kLookNs};
        if (!is_done()) futex(s.board->events, FUTEX_WAIT, seen, &timeout);
        s.board->sleepers.fetch_sub(1, std::memory_order_seq_cst);
        served = is_served(queue);
    }
    s.queue->drains.fetch_add(1, std::memory_order_relaxed);
    s.queue->waited_ns.fetch_add(now_ns() - begin, std::memory_order_relaxed);
    errno = error;
    return is_done();
}

// Waits for room. 0, or EIO: there is no writer.
int submit(File& file, RecordKind kind, int64_t offset, const void* data, uint64_t bytes) {
    Queue& queue = *s.queue;
    const uint64_t begin = queue.submitted.load(std::memory_order_relaxed);
    const uint64_t end = begin + sizeof(Record) + padded(bytes);
    if (end > s.ring_bytes && !wait_done(queue, end - s.ring_bytes)) return EIO;
    const uint64_t done = queue.done.load(std::memory_order_relaxed);
    if (done == begin) queue.since_ns.store(now_ns(), std::memory_order_relaxed);
    if (end - done > queue.waiting_bytes_max.load(std::memory_order_relaxed))
        queue.waiting_bytes_max.store(end - done, std::memory_order_relaxed);
    char* const at = s.ring + begin % s.ring_bytes;
    Record record;
    record.kind = static_cast<uint32_t>(kind);
    record.slot = file.slot;
    record.number = file.number;
    record.offset = offset;
    record.bytes = bytes;
    memcpy(at, &record, sizeof record);
    if (bytes != 0) memcpy(at + sizeof record, data, bytes);
    slot_of(file).last.store(end, std::memory_order_seq_cst);
    queue.submitted.store(end, std::memory_order_seq_cst);
    // The writer sets its flag before it looks at the count.
    if (queue.writer_sleeps.load(std::memory_order_seq_cst) != 0) {
        queue.kicks.fetch_add(1, std::memory_order_seq_cst);
        futex(queue.kicks, FUTEX_WAKE, 1, nullptr);
    }
    return 0;
}

bool is_written(const Slot& slot) {
    return slot.last.load() <= s.queue->done.load(std::memory_order_seq_cst);
}

// --- slots

bool is_closing(uint32_t slot) {
    for (uint32_t i = 0; i < s.closing_count; ++i) {
        if (s.closing[i].slot == slot) return true;
    }
    return false;
}

// An unused one; kFilesMax: there is none.
uint32_t find_slot() {
    for (uint32_t i = 0; i < kFilesMax; ++i) {
        const Slot& slot = s.queue->slots[i];
        if (slot.number.load() == 0) return i;
        if (slot.is_open.load() == 0 && slot.error.load() == 0 && is_written(slot) && !is_closing(i))
            return i;
    }
    return kFilesMax;
}

// The end of a long path says more than its beginning.
void set_name(Slot& slot, const char* path) {
    char whole[8192];
    const char* const folder = path[0] != '/' && s.knows_directory ? s.directory : "";
    snprintf(whole, sizeof whole, "%s%s%s", folder, folder[0] != 0 ? "/" : "", path);
    const size_t length = strlen(whole);
    snprintf(slot.name, sizeof slot.name, "%s",
             length < kNameBytes ? whole : whole + length - kNameBytes + 1);
}

// An error of a file that the program has closed since goes on to that which opens it again.
int32_t take_old_error(Identity id, uint32_t except) {
    int32_t error = 0;
    for (uint32_t i = 0; i < s.queue->slots_used.load(); ++i) {
        Slot& slot = s.queue->slots[i];
        if (i == except || !has_identity(slot, id) || slot.is_open.load() != 0 || slot.error.load() == 0)
            continue;
        if (!is_written(slot)) continue;
        const int32_t found = slot.error.exchange(0);
        if (error == 0) error = found;
    }
    return error;
}

void count(Reason reason) {
    s.queue->passed[static_cast<uint32_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

// Null: there is no slot.
File* open_file(int fd, const char* path, Identity id) {
    close_written(false);
    const uint32_t index = find_slot();
    if (index == kFilesMax) return nullptr;
    Slot& slot = s.queue->slots[index];
    File& file = s.files[index];
    file = File();
    file.slot = index;
    file.descriptors = 1;
    file.number = ++s.files_count;
    slot.number.store(0);
    slot.is_shared.store(0);
    slot.device.store(id.device);
    slot.inode.store(id.inode);
    slot.last.store(0);
    slot.is_open.store(1);
    set_name(slot, path);
    slot.number.store(file.number, std::memory_order_seq_cst);
    if (s.queue->slots_used.load() <= index) s.queue->slots_used.store(index + 1, std::memory_order_seq_cst);
    owners[fd].store(static_cast<uint16_t>(index + 1));
    if (fd >= s.descriptors_end) s.descriptors_end = fd + 1;
    return &file;
}

// Whether anybody else has that file open; they write it themselves from now on, and what they had submitted
// is written.
bool share(Identity id, const File* except) {
    bool is_shared = false;
    for (uint32_t r = 0; r < s.board->queues_count.load(); ++r) {
        Queue& queue = s.board->queues[r];
        const uint32_t used = queue.slots_used.load(std::memory_order_seq_cst);
        for (uint32_t i = 0; i < used; ++i) {
            Slot& slot = queue.slots[i];
            if ((&queue == s.queue && except != nullptr && i == except->slot) || !has_identity(slot, id))
                continue;
            if (slot.is_open.load(std::memory_order_seq_cst) != 0) {
                is_shared = true;
                if (&queue == s.queue && s.files[i].is_behind) let_go(s.files[i], Reason::kShared);
                slot.is_shared.store(1, std::memory_order_seq_cst);
            }
            wait_done(queue, queue.submitted.load(std::memory_order_seq_cst));
        }
    }
    return is_shared;
}

// The supervisor takes the descriptor for the writer. 0 or an errno.
int hand_over(const File& file, int fd) {
    HoldFile message;
    message.slot = file.slot;
    message.number = file.number;
    iovec part{&message, sizeof message};
    msghdr header{};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    if (NEXT(sendmsg)(s.socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof message) return EAGAIN;
    for (const uint64_t end = now_ns() + kHoldLimitMs * 1'000'000ull; now_ns() < end;) {
        HoldFile answer;
        const ssize_t got = recv(s.socket, &answer, sizeof answer, MSG_DONTWAIT);
        if (got == sizeof answer && answer.number == file.number) return answer.error;
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return EPIPE;
        pollfd ready{s.socket, POLLIN, 0};
        if (got < 0) poll(&ready, 1, 100);
    }
    return ETIMEDOUT;
}

bool is_in_memory(int fd) {
    static uint64_t known_device;  // of the last answer
    static bool answer, knows;
    struct stat status;
    if (s.takes_memory || NEXT(fstat)(fd, &status) != 0) return false;
    if (knows && known_device == status.st_dev) return answer;
    struct statfs system;
    if (fstatfs(fd, &system) != 0) return false;
    const auto type = static_cast<uint64_t>(system.f_type);
    answer = type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
    known_device = status.st_dev;
    knows = true;
    return answer;
}

bool is_limited() {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// Why a file that has been opened in that way is not written behind. False: nothing speaks against it.
bool speaks_against(int fd, int flags, Opener opener, Reason* reason) {
    const auto is = [&](bool fact, Reason why) {
        if (fact) *reason = why;
        return fact;
    };
    return is((flags & O_APPEND) != 0, Reason::kAppend) ||
           is((flags & (O_DIRECT | O_SYNC | O_DSYNC)) != 0, Reason::kDirect) ||
           is(is_in_memory(fd), Reason::kInMemory) || is(is_limited(), Reason::kLimited) ||
           is((flags & O_ACCMODE) == O_RDWR && !sees_mappings(), Reason::kUnseen) ||
           is(opener != Opener::kCall, Reason::kStdio);
}

// Whoever waits for the system's own close waits for what the writer does to the file.
void close_now(int fd) {
    owners[fd].store(0);
    NEXT(close)(fd);
}

}  // namespace

Guard::Guard() {
    sigset_t all;
    sigfillset(&all);
    // Those that a mistake of the program itself raises.
    for (const int one : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, one);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    pthread_mutex_lock(&s.mutex);
}

Guard::~Guard() {
    pthread_mutex_unlock(&s.mutex);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool is_rank() {
    return is_on.load(std::memory_order_relaxed) != 0 && getpid() == s.pid;
}

bool is_own_descriptor(int fd) {
    return fd >= 0 && fd == s.socket && is_on.load(std::memory_order_relaxed) != 0 && getpid() == s.pid;
}

void see_working_directory() {
    s.knows_directory = getcwd(s.directory, sizeof s.directory) != nullptr;
    s.patterns.enter(s.knows_directory ? s.directory : nullptr);
}

int pattern_of(int folder, const char* path) {
    if (path[0] == '/') return s.patterns.find_in("", path);
    if (folder != AT_FDCWD) {
        char link[64], base[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        const ssize_t length = readlink(link, base, sizeof base - 1);
        if (length <= 0) return -1;
        base[length] = 0;
        return s.patterns.find_in(base, path);
    }
    if (!s.knows_directory) see_working_directory();
    return s.knows_directory ? s.patterns.find_in(s.directory, path) : -1;
}

bool may_match(int folder, const char* path) {
    return s.patterns.may_match(path, folder == AT_FDCWD) &&
           (path[0] != '/' || s.patterns.find_in("", path) >= 0);
}

File* file_of(int fd, bool* is_closed) {
    *is_closed = false;
    const uint16_t owner = owners[fd].load(std::memory_order_relaxed);
    if (owner == 0 || !is_rank()) return nullptr;
    *is_closed = (owner & kClosing) != 0;
    File& file = s.files[(owner & ~kClosing) - 1];
    return !*is_closed && file.is_behind ? &file : nullptr;
}

void settle(Identity id) {
    for (uint32_t r = 0; r < s.board->queues_count.load(); ++r) {
        Queue& queue = s.board->queues[r];
        const uint64_t submitted = queue.submitted.load(std::memory_order_seq_cst);
        if (submitted == queue.done.load(std::memory_order_seq_cst)) continue;
        const uint32_t used = queue.slots_used.load(std::memory_order_seq_cst);
        for (uint32_t i = 0; i < used; ++i) {
            Slot& slot = queue.slots[i];
            const uint64_t last = slot.last.load(std::memory_order_seq_cst);
            if (has_identity(slot, id)) wait_done(queue, last);
        }
    }
}

void settle_path(int folder, const char* path, int flags) {
    bool waits = false;
    for (uint32_t r = 0; r < s.board->queues_count.load(); ++r) {
        const Queue& queue = s.board->queues[r];
        waits = waits ||
                queue.submitted.load(std::memory_order_seq_cst) != queue.done.load(std::memory_order_seq_cst);
    }
    if (!waits) return;
    const int error = errno;
    struct stat status;
    if (NEXT(fstatat)(folder, path, &status, flags) == 0) settle({status.st_dev, status.st_ino});
    errno = error;
}

void share_path(const char* path) {
    const int error = errno;
    struct stat status;
    if (NEXT(stat)(path, &status) == 0) share({status.st_dev, status.st_ino}, nullptr);
    errno = error;
}

// By the writer, unless it cannot have it. If the answer is late, it may have it all the same.
static void begin_behind(File& file, int fd) {
    const int error = hand_over(file, fd);
    file.is_behind = error == 0;
    if (error == 0) return;
    count(Reason::kNoRoom);
    if (error == ETIMEDOUT) submit(file, RecordKind::kClose, 0, nullptr, 0);
}

void take(int fd, const char* path, int flags, Opener opener, int pattern) {
    const int error = errno;
    struct stat status;
    if (fd >= kDescriptorsMax || (flags & O_PATH) != 0 || NEXT(fstat)(fd, &status) != 0 ||
        !S_ISREG(status.st_mode)) {
        errno = error;
        return;
    }
    s.board->matches[pattern].fetch_add(1, std::memory_order_relaxed);
    const Identity id{status.st_dev, status.st_ino};
    File* const file = open_file(fd, path, id);
    const bool is_shared = share(id, file);
    const int access = flags & O_ACCMODE;
    Reason reason = Reason::kNoRoom;
    if (file != nullptr && access != O_RDONLY) {
        if (is_shared)
            count(Reason::kShared);
        else if (speaks_against(fd, flags, opener, &reason))
            count(reason);
        else
            begin_behind(*file, fd);
    } else if (access != O_RDONLY) {
        count(Reason::kNoRoom);
    }
    if (file != nullptr && file->is_behind) {
        // What another rank has written meanwhile is written: it does so itself.
        if (NEXT(fstat)(fd, &status) == 0) file->size = status.st_size;
        const int32_t old = take_old_error(id, file->slot);
        if (old != 0) slot_of(*file).error.store(old);
        s.queue->opened.fetch_add(1, std::memory_order_relaxed);
    }
    errno = error;
}

void note_refusal(int pattern, int flags) {
    if ((flags & O_ACCMODE) != O_RDONLY) s.board->refusals[pattern].store(errno, std::memory_order_relaxed);
}

uint64_t number_of(int fd) {
    const uint16_t owner = fd >= 0 && fd < kDescriptorsMax ? owners[fd].load() : 0;
    return owner == 0 || (owner & kClosing) != 0 || !is_rank() ? 0 : s.files[owner - 1].number;
}

void add_descriptor(int fd, int as) {
    if (fd == as) return;
    forget_descriptor(as);
    const uint16_t owner = fd < kDescriptorsMax ? owners[fd].load() : 0;
    if (owner == 0 || (owner & kClosing) != 0) return;
    File& file = s.files[owner - 1];
    if (as >= kDescriptorsMax) return let_go(file, Reason::kNoRoom);
    owners[as].store(owner);
    if (as >= s.descriptors_end) s.descriptors_end = as + 1;
    ++file.descriptors;
}

// Of the last descriptor.
static int end_file(File& file) {
    int error = 0;
    if (file.is_behind) error = submit(file, RecordKind::kClose, 0, nullptr, 0);
    file.is_behind = false;
    slot_of(file).is_open.store(0, std::memory_order_seq_cst);
    return error;
}

void forget_descriptor(int fd) {
    if (fd < 0 || fd >= kDescriptorsMax) return;
    const uint16_t owner = owners[fd].exchange(0);
    if (owner == 0) return;
    if ((owner & kClosing) != 0) {
        for (uint32_t i = 0; i < s.closing_count; ++i) {
            if (s.closing[i].fd != fd) continue;
            s.closing[i] = s.closing[--s.closing_count];
            break;
        }
        return;
    }
    File& file = s.files[owner - 1];
    if (--file.descriptors == 0) end_file(file);
}

// --- writing

bool may_write_behind(File& file, int* error) {
    Slot& slot = slot_of(file);
    *error = 0;
    if (s.closing_count != 0) close_written(false);
    if (slot.error.load(std::memory_order_relaxed) != 0 || is_lost(*s.queue)) {
        *error = drain(file);
        let_go(file, Reason::kError);
        return false;
    }
    if (slot.is_shared.load(std::memory_order_seq_cst) == 0) return true;
    let_go(file, Reason::kShared);
    *error = slot.error.exchange(0);
    return false;
}

int write_behind(File& file, const void* data, size_t bytes, int64_t offset) {
    const char* at = static_cast<const char*>(data);
    for (size_t left = bytes; left != 0;) {
        const size_t part = left < s.data_bytes_max ? left : s.data_bytes_max;
        const int error = submit(file, RecordKind::kWrite, offset, at, part);
        if (error != 0) return error;
        at += part;
        offset += static_cast<int64_t>(part);
        left -= part;
    }
    if (file.size < offset) file.size = offset;
    s.queue->bytes.fetch_add(bytes, std::memory_order_relaxed);
    // Whoever opened it meanwhile may have looked before.
    if (slot_of(file).is_shared.load(std::memory_order_seq_cst) != 0) let_go(file, Reason::kShared);
    return 0;
}

int truncate_behind(File& file, int64_t length) {
    const int error = submit(file, RecordKind::kTruncate, length, nullptr, 0);
    if (error == 0) file.size = length;
    if (slot_of(file).is_shared.load(std::memory_order_seq_cst) != 0) let_go(file, Reason::kShared);
    return error;
}

int drain(File& file) {
    Slot& slot = slot_of(file);
    const bool is_done = wait_done(*s.queue, slot.last.load());
    int error = slot.error.exchange(0);
    if (error == 0 && !is_done) error = EIO;
    if (error != 0) let_go(file, Reason::kError);
    // That it was lost has been told.
    if (!is_done) slot.error.store(0);
    return error;
}

// When nothing waits the system knows better: others may have written.
int64_t size_of(File& file, int fd) {
    struct stat status;
    if (is_written(slot_of(file)) && NEXT(fstat)(fd, &status) == 0) file.size = status.st_size;
    return file.size;
}

void set_system_offset(const File& file, int fd) {
    NEXT(lseek)(fd, file.offset, SEEK_SET);
}

void let_go(File& file, Reason reason) {
    if (!file.is_behind) return;
    Slot& slot = slot_of(file);
    int32_t none = 0;
    if (!wait_done(*s.queue, slot.last.load())) slot.error.compare_exchange_strong(none, EIO);
    for (int fd = 0; fd < s.descriptors_end; ++fd) {
        if (owners[fd].load() != file.slot + 1) continue;
        set_system_offset(file, fd);
        break;  // the others have the same
    }
    submit(file, RecordKind::kClose, 0, nullptr, 0);
    file.is_behind = false;
    count(reason);
}

void let_go_all(Reason reason, bool inherited_only) {
    for (int fd = 0; fd < s.descriptors_end; ++fd) {
        const uint16_t owner = owners[fd].load();
        if (owner == 0 || (owner & kClosing) != 0 || !s.files[owner - 1].is_behind) continue;
        if (inherited_only && (NEXT(fcntl)(fd, F_GETFD) & FD_CLOEXEC) != 0) continue;
        let_go(s.files[owner - 1], reason);
    }
}

void drain_all() {
    wait_done(*s.queue, s.queue->submitted.load());
    close_written(true);
}

// How many descriptors may wait to be closed: where the program may have few they are not to be missed.
static uint32_t closing_max() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 >= kClosingMax) return kClosingMax;
    return static_cast<uint32_t>(limit.rlim_cur / 4);
}

bool close_behind(File& file, int fd, int* error) {
    Slot& slot = slot_of(file);
    const uint32_t index = file.slot, closing_end = closing_max();
    *error = 0;
    if (file.descriptors > 1) return false;
    // The description lives on in the writer, and its lock would.
    if (file.is_locked) NEXT(flock)(fd, LOCK_UN);
    close_written(s.closing_count >= closing_end);
    // What is known to be lost is told now, or in strict jobs whatever is.
    if (s.patterns.is_strict() || slot.error.load() != 0 || is_lost(*s.queue)) {
        *error = drain(file);
        if (!file.is_behind) return false;
    }
    file.descriptors = 0;
    const int refused = end_file(file);
    if (*error == 0) *error = refused;
    if (refused != 0 || s.closing_count >= closing_end) {
        close_now(fd);
        return true;
    }
    owners[fd].store(static_cast<uint16_t>(kClosing | (index + 1)));
    s.closing[s.closing_count++] = {fd, index};
    if (s.patterns.is_strict()) {
        wait_done(*s.queue, slot.last.load());
        if (*error == 0) *error = slot.error.exchange(0);
        close_written(false);
    }
    return true;
}

void close_written(bool must) {
    const int error = errno;
    for (uint32_t i = 0; i < s.closing_count;) {
        const Slot& slot = s.queue->slots[s.closing[i].slot];
        if (must) wait_done(*s.queue, slot.last.load());
        if (!must && !is_written(slot)) {
            ++i;
            continue;
        }
        const int fd = s.closing[i].fd;
        s.closing[i] = s.closing[--s.closing_count];
        close_now(fd);
    }
    errno = error;
}

uint32_t lost_files() {
    return s.lost != 0 && getpid() == s.pid ? s.lost : 0;
}

static void say_lost_file(const Slot& slot, int error) {
    ++s.lost;
    char line[kNameBytes + 256];
    const int length =
        snprintf(line, sizeof line, "longshore: rank %u: %s: not all of it could be written: %s\n", s.rank,
                 slot.name, strerror(error));
    if (NEXT(write)(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) return;
}

void say_lost(int fd, int error) {
    const uint16_t owner = owners[fd].load();
    if (owner != 0 && (owner & kClosing) == 0) say_lost_file(slot_of(s.files[owner - 1]), error);
}

uint32_t finish() {
    drain_all();
    for (uint32_t i = 0; i < s.queue->slots_used.load(); ++i) {
        Slot& slot = s.queue->slots[i];
        if (slot.number.load() == 0) continue;
        int error = slot.error.exchange(0);
        if (error == 0 && !is_written(slot)) error = EIO;
        if (error != 0) say_lost_file(slot, error);
    }
    return s.lost;
}

// --- what the shim core calls

namespace {

// Other threads stop while one forks, so that the child finds nothing half done; and it shares offsets.
sigset_t mask_around_fork;

void before_fork() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask_around_fork);
    pthread_mutex_lock(&s.mutex);
    if (!is_rank()) return;
    drain_all();
    let_go_all(Reason::kForked, false);
}

void after_fork() {
    const sigset_t before = mask_around_fork;
    pthread_mutex_unlock(&s.mutex);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Writes its files itself.
void after_fork_in_child() {
    is_on.store(0);
    for (int fd = 0; fd < s.descriptors_end; ++fd) owners[fd].store(0);
    if (s.socket >= 0) NEXT(close)(s.socket);
    s.socket = -1;
    after_fork();
}

char* map_ring(int file, uint64_t bytes) {
    void* const room =
        mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return nullptr;
    char* const base = static_cast<char*>(room);
    for (char* half : {base, base + bytes}) {
        if (mmap(half, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) ==
            MAP_FAILED) {
            munmap(room, 2 * bytes);
            return nullptr;
        }
    }
    madvise(room, 2 * bytes, MADV_DONTFORK);
    madvise(room, 2 * bytes, MADV_DONTDUMP);
    return base;
}

}  // namespace
}  // namespace longshore::io

#define SHOWN extern "C" __attribute__((visibility("default")))
using namespace longshore::io;

SHOWN int longshore_io_attach(const longshore_io_job* job) {
    const Guard guard;
    if (s.board != nullptr || is_on.load() != 0) return EBUSY;
    if (!s.patterns.set(job->patterns)) return E2BIG;
    const uint64_t bytes = board_bytes(job->local_count);
    void* const board =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, job->board, 0);
    if (board == MAP_FAILED) return errno;
    s.ring = map_ring(job->ring, job->ring_bytes);
    if (s.ring == nullptr) return errno;
    s.board = static_cast<Board*>(board);
    s.queue = &s.board->queues[job->local_rank];
    s.ring_bytes = job->ring_bytes;
    s.data_bytes_max = kDataBytesMax < s.ring_bytes / 8 ? kDataBytesMax : s.ring_bytes / 8;
    s.socket = job->socket;
    s.local_rank = job->local_rank;
    s.rank = job->rank;
    s.pid = getpid();
    const char* const memory = getenv("LONGSHORE_INTERNAL_IO_MEMORY");
    s.takes_memory = memory != nullptr && *memory != 0;
    if (pthread_atfork(before_fork, after_fork, after_fork_in_child) != 0) return ENOMEM;
    see_working_directory();
    is_on.store(1);
    return 0;
}

SHOWN uint32_t longshore_io_detach(void) {
    if (!is_rank()) return 0;
    const Guard guard;
    drain_all();
    let_go_all(Reason::kFinalized, false);
    const uint32_t lost = finish();
    for (int fd = 0; fd < s.descriptors_end; ++fd) owners[fd].store(0);
    for (uint32_t i = 0; i < s.queue->slots_used.load(); ++i) s.queue->slots[i].is_open.store(0);
    is_on.store(0);
    NEXT(close)(s.socket);
    s.socket = -1;
    return lost;
}

SHOWN void longshore_io_drain(void) {
    if (!is_rank()) return;
    const Guard guard;
    finish();
}

SHOWN const void* longshore_io_board(void) {
    return s.board;
}

SHOWN const char* longshore_io_pattern(uint32_t index) {
    return s.patterns.at(index);
}
