#include "io/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "fabric/descriptors.h"
#include "fabric/shm/socket.h"
#include "io/control.h"
#include "io/rings.h"

namespace longshore::io {
namespace {

constexpr uint64_t kSleepNs = 1'000'000'000;           // after which a queue is looked at in any case
constexpr uint64_t kTakenStep = 4 << 20;               // bytes of a ring whose memory is taken at a time
constexpr uint64_t kTakenShare = 8;                    // of the free memory; more is taken as it is needed
constexpr auto kFileLimit = std::chrono::seconds(10);  // by which a descriptor that is on its way has come

// A rank's queue. Its thread does all but hold(), which the main thread does.
class RankWriter {
  public:
    RankWriter(Board& board, Queue& queue, const Fd& supervisor, uint32_t local_rank)
        : board_(board), queue_(queue), supervisor_(supervisor), local_rank_(local_rank) {}
    bool map(const Fd& file) { return ring_.map(file.get(), board_.ring_bytes.load()); }
    void hold(uint64_t number, Fd file);
    void run(bool takes_memory);

  private:
    void take_memory();
    bool is_sound(const Record& record, uint64_t position) const;
    int carry_out(const Record& record, const std::byte* data);
    int find(uint64_t number);
    int close_file(uint64_t number);
    void say_written(uint64_t number) const;

    Board& board_;
    Queue& queue_;
    const Fd& supervisor_;
    const uint32_t local_rank_;
    Ring ring_;
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::map<uint64_t, Fd> files_;      // by number
    std::set<uint64_t> closed_before_;  // numbers: the program has closed them, and they have not come
};

// A program that writes nothing to a file closes it before it has come here.
void RankWriter::hold(uint64_t number, Fd file) {
    {
        const std::lock_guard lock(mutex_);
        if (closed_before_.erase(number) == 0) {
            files_[number] = std::move(file);
            return arrived_.notify_all();
        }
    }
    file.reset();
    say_written(number);
}

void RankWriter::say_written(uint64_t number) const {
    FileWritten message;
    message.local_rank = local_rank_;
    message.number = number;
    while (send_packet(supervisor_, &message, sizeof message) == Io::kAgain) {
        pollfd ready{supervisor_.get(), POLLOUT, 0};
        poll(&ready, 1, -1);
    }
}

// Else the program would wait until the system has cleared it, as long as for all the rest of its first
// checkpoint. What is there already stays as it is.
void RankWriter::take_memory() {
    const uint64_t bytes = board_.ring_bytes.load();
    for (uint64_t at = 0; at < bytes && queue_.submitted.load() == queue_.done.load(); at += kTakenStep) {
        const uint64_t step = bytes - at < kTakenStep ? bytes - at : kTakenStep;
        if (!ring_.take_memory(at, step)) return;
    }
}

// -1: it has not come.
int RankWriter::find(uint64_t number) {
    std::unique_lock lock(mutex_);
    const auto has = [&] { return files_.contains(number); };
    return arrived_.wait_for(lock, kFileLimit, has) ? files_.at(number).get() : -1;
}

// Some file systems tell only now what could not be written.
int RankWriter::close_file(uint64_t number) {
    Fd file;
    {
        const std::lock_guard lock(mutex_);
        const auto at = files_.find(number);
        if (at == files_.end()) {
            closed_before_.insert(number);  // or a former writer has closed it
            return 0;
        }
        file = std::move(at->second);
        files_.erase(at);
    }
    const int error = close(file.release()) != 0 && errno != EINTR ? errno : 0;
    say_written(number);
    return error;
}

int write_all(int fd, const std::byte* data, uint64_t bytes, int64_t offset) {
    while (bytes != 0) {
        const ssize_t written = pwrite(fd, data, bytes, offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        data += written;
        offset += written;
        bytes -= static_cast<uint64_t>(written);
    }
    return 0;
}

// Returns 0 or an errno.
int RankWriter::carry_out(const Record& record, const std::byte* data) {
    if (record.kind == static_cast<uint32_t>(RecordKind::kClose)) return close_file(record.number);
    const int fd = find(record.number);
    if (fd < 0) return EBADF;
    if (record.kind == static_cast<uint32_t>(RecordKind::kWrite))
        return write_all(fd, data, record.bytes, record.offset);
    int result = 0;
    while ((result = ftruncate(fd, record.offset)) != 0 && errno == EINTR) {
    }
    return result != 0 ? errno : 0;
}

bool RankWriter::is_sound(const Record& record, uint64_t position) const {
    const uint64_t waiting = queue_.submitted.load(std::memory_order_acquire) - position;
    return record.kind >= static_cast<uint32_t>(RecordKind::kWrite) &&
           record.kind <= static_cast<uint32_t>(RecordKind::kClose) && record.slot < kFilesMax &&
           record.bytes <= kDataBytesMax && waiting <= board_.ring_bytes.load() &&
           sizeof record + padded(record.bytes) <= waiting;
}

// `done` moves when a record has been carried out: a successor repeats at most one, which by its absolute
// offset does no harm.
void RankWriter::run(bool takes_memory) {
    if (takes_memory) take_memory();
    for (;;) {
        const uint64_t position = queue_.done.load(std::memory_order_relaxed);
        if (queue_.submitted.load(std::memory_order_acquire) == position) {
            const uint32_t seen = queue_.kicks.load(std::memory_order_seq_cst);
            queue_.writer_sleeps.store(1, std::memory_order_seq_cst);
            // Who submits looks at the flag after that.
            if (queue_.submitted.load(std::memory_order_seq_cst) == position)
                sleep_on(queue_.kicks, seen, kSleepNs);
            queue_.writer_sleeps.store(0, std::memory_order_relaxed);
            continue;
        }
        Record record;  // the rank may write to its own meanwhile
        memcpy(static_cast<void*>(&record), ring_.at(position), sizeof record);
        // A rank that has gone wild has spoilt its queue: nobody can say what belongs where.
        if (!is_sound(record, position)) {
            queue_.is_spoilt.store(1, std::memory_order_seq_cst);
            return wake(board_.events);
        }
        const int error = carry_out(record, ring_.at(position) + sizeof record);
        Slot& slot = queue_.slots[record.slot];
        int32_t none = 0;
        if (error != 0 && slot.number.load() == record.number)
            slot.error.compare_exchange_strong(none, error);
        queue_.done.store(position + sizeof record + padded(record.bytes), std::memory_order_seq_cst);
        if (board_.sleepers.load(std::memory_order_seq_cst) != 0) wake(board_.events);
    }
}

class Writer {
  public:
    Writer() : socket_(kServiceControlFd) {}
    int run();

  private:
    Io receive(size_t* bytes, std::vector<Fd>* descriptors);
    bool start();
    bool hear(size_t bytes, std::vector<Fd> descriptors);
    RankWriter& rank(uint32_t local_rank);

    Fd socket_;
    Mapping mapping_;
    Board* board_ = nullptr;
    bool takes_memory_ = false;  // for the rings, before it is needed
    std::vector<std::unique_ptr<RankWriter>> ranks_;
    alignas(8) std::byte buffer_[4096];
};

Io Writer::receive(size_t* bytes, std::vector<Fd>* descriptors) {
    Io io = Io::kAgain;
    while ((io = receive_packet(socket_, buffer_, sizeof buffer_, bytes, descriptors)) == Io::kAgain) {
        pollfd ready{socket_.get(), POLLIN, 0};
        poll(&ready, 1, -1);
    }
    return io;
}

template <class Message>
bool take(const std::byte* buffer, size_t bytes, Message* out) {
    if (bytes != sizeof *out) return false;
    const Message blank;
    memcpy(static_cast<void*>(out), buffer, sizeof *out);
    return memcmp(out, &blank, sizeof(ControlHeader)) == 0;
}

// What programs could have without others being swapped out. 0: not known.
uint64_t free_memory_bytes() {
    FILE* const file = fopen("/proc/meminfo", "re");
    if (file == nullptr) return 0;
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, file) != nullptr && sscanf(line, "MemAvailable: %llu", &kib) != 1) {
    }
    fclose(file);
    return uint64_t{kib} * 1024;
}

bool Writer::start() {
    std::vector<Fd> descriptors;
    size_t bytes = 0;
    StartWriter message;
    if (receive(&bytes, &descriptors) != Io::kOk || !take(buffer_, bytes, &message) ||
        descriptors.size() != 1)
        return false;
    const uint64_t board = board_bytes(message.queues);
    if (!is_memory_file(descriptors[0].get(), board, nullptr)) return false;
    mapping_ = Mapping::shared(descriptors[0].get(), board);
    if (!mapping_) return false;
    board_ = reinterpret_cast<Board*>(mapping_.data());
    ranks_.resize(message.queues);
    takes_memory_ = message.queues * message.ring_bytes <= free_memory_bytes() / kTakenShare;
    return true;
}

RankWriter& Writer::rank(uint32_t local_rank) {
    auto& one = ranks_[local_rank];
    if (one == nullptr)
        one = std::make_unique<RankWriter>(*board_, board_->queues[local_rank], socket_, local_rank);
    return *one;
}

// False: nothing that the supervisor would say.
bool Writer::hear(size_t bytes, std::vector<Fd> descriptors) {
    HoldFile file;
    ServeQueue queue;
    if (descriptors.size() != 1) return false;
    if (take(buffer_, bytes, &queue) && queue.local_rank < ranks_.size()) {
        RankWriter& one = rank(queue.local_rank);
        if (!one.map(descriptors[0])) return false;
        const bool takes = takes_memory_;
        std::thread([&one, takes] { one.run(takes); }).detach();
        return true;
    }
    if (bytes != sizeof file) return false;
    memcpy(static_cast<void*>(&file), buffer_, sizeof file);
    if (file.magic != HoldFile::kMagic || file.local_rank >= ranks_.size()) return false;
    rank(file.local_rank).hold(file.number, std::move(descriptors[0]));
    return true;
}

int Writer::run() {
    prctl(PR_SET_NAME, "longshore-write");
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    if (!start()) return 1;
    for (;;) {
        std::vector<Fd> descriptors;
        size_t bytes = 0;
        if (receive(&bytes, &descriptors) != Io::kOk || !hear(bytes, std::move(descriptors))) {
            // Threads may be at work: nothing that they use is taken down.
            _exit(1);
        }
    }
}

}  // namespace

int run_writer() {
    return (new Writer)->run();
}

}  // namespace longshore::io
