#include "mpi/job/write_behind.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "fabric/shm/socket.h"
#include "io/control.h"
#include "io/preload/attach.h"
#include "mpi/shim.h"

namespace longshore::mpi {
namespace {

constexpr int kHighFd = 256;  // where a program is unlikely to close what it does not know

// Null: the library is not there.
template <class Function>
Function* find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

bool is_wanted() {
    return !shim().settings.write_behind.empty();
}

// The supervisor's answer, with the descriptors of the board and of this rank's ring. False, with the reason.
bool hear_answer(const Fd& socket, std::vector<Fd>* descriptors, std::string* error) {
    const uint64_t end = awake_ns() + shim().settings.limit_s * 1'000'000'000ull;
    alignas(8) std::byte buffer[sizeof(io::QueueOpened)];
    io::QueueOpened answer;
    size_t bytes = 0;
    Io got = Io::kAgain;
    while ((got = receive_packet(socket, buffer, sizeof buffer, &bytes, descriptors)) == Io::kAgain &&
           awake_ns() < end) {
        pollfd ready{socket.get(), POLLIN, 0};
        poll(&ready, 1, 100);
    }
    if (got != Io::kOk || bytes != sizeof answer) {
        *error = "the supervisor does not answer";
        return false;
    }
    memcpy(static_cast<void*>(&answer), buffer, sizeof answer);
    answer.text[sizeof answer.text - 1] = 0;
    *error = answer.text;
    return answer.ok != 0 && descriptors->size() == 2;
}

bool open_queue(std::string* error) {
    Shim& s = shim();
    auto* const attach = find<decltype(longshore_io_attach)>("longshore_io_attach");
    *error = "liblongshore-io.so is not preloaded; start the job by 'longshore run --write-behind'";
    if (attach == nullptr) return false;
    *error = "files are written behind on one node alone, and this job has several";
    if (ls_node_count(s.context) > 1) return false;
    ls_task_door door{};
    *error = "there is no supervisor on this host";
    if (ls_find_task_door(s.context, &door) != LS_OK) return false;
    SocketName name;
    memcpy(name.text, door.name, sizeof name.text);
    Fd socket = connect_to(name);
    *error = std::string("cannot reach the supervisor: ") + strerror(errno);
    if (!socket || !peer_is_same_user(socket, nullptr)) return false;
    io::OpenQueue request;
    std::copy(std::begin(door.token), std::end(door.token), request.token.begin());
    request.local_rank = door.local_rank;
    request.ring_bytes =
        (s.settings.write_behind_bytes_max + io::kRingUnit - 1) / io::kRingUnit * io::kRingUnit;
    request.has_stderr = fcntl(STDERR_FILENO, F_GETFD) >= 0 ? 1 : 0;
    const int errors = STDERR_FILENO;
    std::vector<Fd> descriptors;
    *error = "the supervisor is gone";
    if (send_packet(socket, &request, sizeof request, {&errors, request.has_stderr}) != Io::kOk ||
        !hear_answer(socket, &descriptors, error))
        return false;
    longshore_io_job job{};
    job.board = descriptors[0].get();
    job.ring = descriptors[1].get();
    job.socket = fcntl(socket.get(), F_DUPFD_CLOEXEC, kHighFd);
    if (job.socket < 0) job.socket = fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);
    job.ring_bytes = request.ring_bytes;
    job.local_rank = door.local_rank;
    job.local_count = door.local_count;
    job.rank = static_cast<uint32_t>(s.rank);
    job.patterns = s.settings.write_behind.c_str();
    const int result = attach(&job);
    if (result == 0) return true;
    *error = result == E2BIG
                 ? "there are more than " + std::to_string(io::kPatternsMax) + " patterns, or more than " +
                       std::to_string(io::kPatternLettersMax) + " letters of them"
                 : strerror(result);
    if (job.socket >= 0) close(job.socket);
    return false;
}

std::string why_not_behind;  // why the program writes its files itself

void refuse_write_behind(const std::string& why) {
    why_not_behind = why;
    if (shim().rank == 0)
        say(LogLevel::kWarn, "LONGSHORE_WRITE_BEHIND: the program writes its files itself: " + why);
}

const io::Board* find_board() {
    auto* const get_board = find<decltype(longshore_io_board)>("longshore_io_board");
    return get_board != nullptr ? static_cast<const io::Board*>(get_board()) : nullptr;
}

}  // namespace

// All ranks or none: one that writes and reads by itself would see the others' files before they are written.
void begin_write_behind() {
    if (!is_wanted()) return;
    std::string error;
    int all = open_queue(&error) ? 1 : 0;
    const bool own = all != 0;
    PMPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, shim().world);
    if (all != 0) return;
    end_write_behind();
    refuse_write_behind(own ? "another rank has no queue for what it writes" : error);
}

void say_no_write_behind(const std::string& why) {
    if (is_wanted()) refuse_write_behind(why);
}

void end_write_behind() {
    auto* const detach = find<decltype(longshore_io_detach)>("longshore_io_detach");
    if (is_wanted() && detach != nullptr) detach();
}

statistics::WriteBehindCounts count_write_behind() {
    statistics::WriteBehindCounts counts;
    counts.wanted = is_wanted();
    counts.refused = why_not_behind;
    const io::Board* const board = counts.wanted ? find_board() : nullptr;
    if (board == nullptr) return counts;
    counts.bound_bytes = board->ring_bytes.load();
    uint64_t passed[io::kReasonsCount] = {};
    for (uint32_t i = 0; i < board->queues_count.load(); ++i) {
        const io::Queue& queue = board->queues[i];
        counts.files += queue.opened.load();
        counts.bytes += queue.bytes.load();
        counts.waits += queue.drains.load();
        counts.waited_ns += queue.waited_ns.load();
        counts.waiting_bytes_max = std::max(counts.waiting_bytes_max, queue.waiting_bytes_max.load());
        for (uint32_t reason = 0; reason < io::kReasonsCount; ++reason)
            passed[reason] += queue.passed[reason].load();
    }
    for (uint32_t reason = 0; reason < io::kReasonsCount; ++reason) {
        if (passed[reason] != 0) counts.passed.emplace_back(io::kReasonTexts[reason], passed[reason]);
    }
    return counts;
}

void report_write_behind() {
    const io::Board* const board = find_board();
    if (!is_wanted() || !why_not_behind.empty() || shim().rank != 0 || board == nullptr) return;
    auto* const pattern = find<decltype(longshore_io_pattern)>("longshore_io_pattern");
    for (uint32_t i = 0; i < io::kPatternsMax && pattern(i) != nullptr; ++i) {
        if (board->matches[i].load() != 0) continue;
        const int error = board->refusals[i].load();
        say(LogLevel::kWarn, std::string("--write-behind ") + pattern(i) +
                                 (error == 0 ? " matched no file that was opened"
                                             : std::string(" matched only files that could not be opened: ") +
                                                   strerror(error)));
    }
    say(LogLevel::kInfo, files_text(count_write_behind()));
}

void drain_write_behind() {
    auto* const drain = find<decltype(longshore_io_drain)>("longshore_io_drain");
    if (is_wanted() && drain != nullptr) drain();
}

}  // namespace longshore::mpi
