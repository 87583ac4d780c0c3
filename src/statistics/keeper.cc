#include "statistics/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "statistics/counts.h"
#include "statistics/json.h"
#include "statistics/summary.h"

namespace longshore::statistics {
namespace {

constexpr int kLookMs = 100;  // between looks, where the kernel does not tell of the end of a process

bool is_on(const BoardSlot& slot) {
    return slot.state.load(std::memory_order_acquire) != RankState::kAbsent;
}

// A rank of the machine, as long as it runs.
struct Watched {
    Fd process;
    pid_t pid = -1;
    bool gone = false;

    explicit Watched(const BoardSlot& slot) : pid(static_cast<pid_t>(slot.pid)) {
        process = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        gone = !is_on(slot) || (!process && kill(pid, 0) != 0 && errno == ESRCH);
    }
};

// Until all ranks are gone; when each was found gone, by slot.
std::vector<uint64_t> wait_for_ranks(const Board& board) {
    std::vector<Watched> ranks;
    for (uint32_t i = 0; i < board.size(); ++i) ranks.emplace_back(board.slot(i));
    std::vector<uint64_t> gone_ns(ranks.size(), now_ns());
    for (;;) {
        std::vector<pollfd> polled;
        std::vector<size_t> which;
        bool blind = false;
        for (size_t i = 0; i < ranks.size(); ++i) {
            if (ranks[i].gone) continue;
            blind = blind || !ranks[i].process;
            polled.push_back({ranks[i].process.get(), POLLIN, 0});
            which.push_back(i);
        }
        if (polled.empty()) return gone_ns;
        if (poll(polled.data(), polled.size(), blind ? kLookMs : -1) < 0 && errno != EINTR) return gone_ns;
        for (size_t k = 0; k < which.size(); ++k) {
            Watched& rank = ranks[which[k]];
            rank.gone = rank.process ? polled[k].revents != 0 : kill(rank.pid, 0) != 0 && errno == ESRCH;
            if (rank.gone) gone_ns[which[k]] = now_ns();
        }
    }
}

RankEnd end_of(const BoardSlot& slot, uint64_t gone_ns) {
    RankEnd end;
    end.rank = static_cast<int>(slot.rank);
    end.after_ns = gone_ns > slot.started_ns ? gone_ns - slot.started_ns : 0;
    end.inside = static_cast<uint16_t>(slot.figures.inside.load());
    const uint64_t since = slot.figures.inside_since_ns.load();
    if (end.inside != 0 && gone_ns > since) end.inside_ns = gone_ns - since;
    end.finalized = slot.state.load() == RankState::kFinalized;
    return end;
}

// The ranks' figures together. What service processes and ranks' memory have to tell is gone with them.
Summary summary_of(const Board& board, const uint64_t* gone_ns) {
    const BoardHead& head = board.head();
    Summary summary;
    summary.size = static_cast<int>(head.size);
    summary.nodes = head.nodes;
    summary.offload = head.offload != 0;
    summary.wanted = head.wanted != 0;
    summary.launched = head.launched;
    summary.place = head.place;
    summary.reach = head.reach;
    RankTime unknown;
    unknown.known = false;
    summary.ranks.assign(head.size, unknown);
    for (uint32_t i = 0; i < board.size(); ++i) {
        const BoardSlot& slot = board.slot(i);
        if (!is_on(slot) || slot.rank >= head.size) continue;
        const Figures& figures = slot.figures;
        add_up(&summary.counts, counts_of(figures));
        summary.ranks[slot.rank] = time_of(figures);
        add_up(&summary.others, others_of(figures));
        const std::vector<CommRow> comms = comms_of(figures);
        summary.comms.insert(summary.comms.end(), comms.begin(), comms.end());
        summary.packed += packing_of(figures);
        const size_t cells = std::min<size_t>(figures.at_once_count, kAtOnceCellsMax);
        summary.at_once.insert(summary.at_once.end(), figures.at_once, figures.at_once + cells);
        summary.ends.push_back(end_of(slot, gone_ns[i]));
        summary.wall_ns = std::max(summary.wall_ns, summary.ends.back().after_ns);
    }
    summary.comms = merged(summary.comms);
    summary.at_once = merged(std::move(summary.at_once));
    std::sort(summary.ends.begin(), summary.ends.end(),
              [](const RankEnd& a, const RankEnd& b) { return a.after_ns < b.after_ns; });
    return summary;
}

std::string trace_text(const Board& board) {
    std::string lines;
    uint64_t origin_ns = 0;
    for (uint32_t i = 0; i < board.size(); ++i) {
        const BoardSlot& slot = board.slot(i);
        if (!is_on(slot)) continue;
        origin_ns = slot.origin_ns;
        append_spans(&lines, {slot.origin_ns, slot.node, slot.rank}, slot.spans);
    }
    return trace_of(std::move(lines), origin_ns, false);
}

// The first machine's file has the name that was asked for, another's ends in the machine's name.
std::string own_name(const Board& board, const char* path, bool has_first) {
    return has_first ? path : std::string(path) + "." + board.head().host;
}

// What a launcher itself writes errors to, where several may write there: a terminal or a pipe. What ranks
// write goes through a pipe that Open MPI's mpirun no longer reads when it ends because of one of them.
Fd error_of(uint32_t launcher) {
    const std::string path = "/proc/" + std::to_string(launcher) + "/fd/2";
    Fd file(open(path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    const bool is_shared =
        file && fstat(file.get(), &status) == 0 && (S_ISFIFO(status.st_mode) || isatty(file.get()));
    return is_shared ? std::move(file) : Fd();
}

// Launchers that end a job do not always pass on what comes after its ranks: so a file has the text as well.
void say_what_is_known(const Board& board, const std::string& text) {
    const BoardHead& head = board.head();
    const std::string process = std::to_string(board.slot(0).pid);
    if (!isatty(STDERR_FILENO) && head.folder[0] != 0)
        write_file(std::string(head.folder) + "/longshore-stats-" + head.host + "-" + process + ".txt", text);
    // Last: a reader may take its time.
    fputs(text.c_str(), stderr);
}

bool has_rank_zero(const Board& board) {
    for (uint32_t i = 0; i < board.size(); ++i)
        if (is_on(board.slot(i)) && board.slot(i).rank == 0) return true;
    return false;
}

}  // namespace

bool is_interrupted(const Board& board) {
    bool any = false, all_finalized = true;
    for (uint32_t i = 0; i < board.size(); ++i) {
        const BoardSlot& slot = board.slot(i);
        if (!is_on(slot)) continue;
        any = true;
        const bool finalized = slot.state.load() == RankState::kFinalized;
        if (slot.rank == 0) return !finalized;
        all_finalized = all_finalized && finalized;
    }
    return any && !all_finalized;
}

void write_what_is_known(const Board& board, const uint64_t* gone_ns) {
    const BoardHead& head = board.head();
    const bool first = has_rank_zero(board);
    const std::string stats = head.stats_path;
    if (stats == "-") {
        say_what_is_known(board, summary_text(summary_of(board, gone_ns)));
    } else if (!stats.empty()) {
        const std::string name = own_name(board, head.stats_path, first);
        write_file(name, summary_json(summary_of(board, gone_ns)));
        fprintf(stderr, "longshore: the job ended without MPI_Finalize: what was known until then is in %s\n",
                name.c_str());
    }
    if (head.trace_path[0] == 0) return;
    const std::string name = own_name(board, head.trace_path, first);
    write_file(name, trace_text(board));
    fprintf(stderr, "longshore: the job ended without MPI_Finalize: its trace until then is in %s\n",
            name.c_str());
}

int run_keeper() {
    // The launcher's signals are for the ranks, whose end is waited for; nobody may listen any more.
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGQUIT, SIGUSR1, SIGUSR2})
        signal(number, SIG_IGN);
    if (setsid() < 0 && errno != EPERM) return 1;
    const Board board = Board::open(Fd(kKeeperBoardFd));
    if (!board) return 1;
    const Fd inherited(kKeeperErrorFd), launchers = error_of(board.head().launcher);
    dup2((launchers ? launchers : inherited).get(), STDERR_FILENO);
    const std::vector<uint64_t> gone_ns = wait_for_ranks(board);
    if (is_interrupted(board)) write_what_is_known(board, gone_ns.data());
    return 0;
}

}  // namespace longshore::statistics
