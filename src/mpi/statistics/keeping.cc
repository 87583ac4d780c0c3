#include "mpi/statistics/keeping.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "fabric/shm/detached.h"
#include "mpi/job/attach.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"
#include "statistics/board.h"
#include "statistics/keeper.h"

extern char** environ;

namespace longshore::mpi {
namespace {

// Never destroyed: calls may be counted in atexit handlers.
Board* board = nullptr;
BoardSlot* own_slot = nullptr;

// Where the ranks of a machine find its board: a descriptor of the rank that has made it.
struct BoardPlace {
    int pid = 0, file = -1;
    std::array<uint8_t, 16> token{};
};

void copy_name(char* to, size_t bytes, const std::string& from) {
    if (from.size() < bytes) memcpy(to, from.c_str(), from.size() + 1);
}

// The names as rank 0 has them, on all ranks.
void share_names(std::string* stats, std::string* trace) {
    char names[2][sizeof BoardHead::stats_path] = {};
    copy_name(names[0], sizeof names[0], *stats);
    copy_name(names[1], sizeof names[1], *trace);
    PMPI_Bcast(names, sizeof names, MPI_CHAR, 0, shim().world);
    *stats = names[0];
    *trace = names[1];
}

Board make_board(int ranks, const std::string& stats, const std::string& trace) {
    Board made = Board::create(static_cast<uint32_t>(ranks));
    if (!made) return made;
    BoardHead& head = made.head();
    head.size = static_cast<uint32_t>(shim().size);
    head.wanted = shim().settings.offload;
    head.launched = shim().launched;
    copy_name(head.stats_path, sizeof head.stats_path, stats);
    copy_name(head.trace_path, sizeof head.trace_path, trace);
    gethostname(head.host, sizeof head.host - 1);
    if (!getcwd(head.folder, sizeof head.folder)) head.folder[0] = 0;
    head.launcher = static_cast<uint32_t>(getppid());
    strcpy(head.reach, "none");
    return made;
}

Board open_board(const BoardPlace& place) {
    const std::string path = "/proc/" + std::to_string(place.pid) + "/fd/" + std::to_string(place.file);
    Board opened = Board::open(Fd(open(path.c_str(), O_RDWR | O_CLOEXEC)));
    if (opened && opened.head().token != place.token) return {};
    return opened;
}

// This rank's figures and spans lie on the board from here on.
void move_to(Board&& whole, int place) {
    if (!whole || static_cast<uint32_t>(place) >= whole.size()) return;
    board = new Board(std::move(whole));
    own_slot = &board->slot(static_cast<uint32_t>(place));
    own_slot->pid = static_cast<uint32_t>(getpid());
    own_slot->rank = static_cast<uint32_t>(shim().rank);
    own_slot->started_ns = shim().started_ns;
    own_slot->origin_ns = trace_origin_ns();
    the_figures = &own_slot->figures;
    note_spans_at(&own_slot->spans);
    own_slot->state.store(RankState::kRunning, std::memory_order_release);
}

void start_keeper() {
    const std::string path = service_path();
    std::vector<char*> nothing = {nullptr};
    // The MPI's launcher reads what the ranks write there until the last of them, and the keeper, have closed
    // it.
    const int descriptors[] = {board->file().get(), STDERR_FILENO};
    static_assert(kKeeperBoardFd == kFirstDetachedFd && kKeeperErrorFd == kFirstDetachedFd + 1);
    const int problem = start_detached(path.c_str(), "keeper", nothing.data(), descriptors);
    if (problem != 0)
        say(LogLevel::kInfo, "the statistics of a job that is interrupted would be lost: " + path +
                                 " cannot be run (" + strerror(problem) + ")");
}

}  // namespace

void begin_keeping() {
    Shim& s = shim();
    std::string stats = s.stats_path, trace = s.trace_path;
    if (stats.empty() && trace.empty()) return;
    share_names(&stats, &trace);
    MPI_Comm here = MPI_COMM_NULL;
    if (PMPI_Comm_split_type(s.world, MPI_COMM_TYPE_SHARED, s.rank, MPI_INFO_NULL, &here) != MPI_SUCCESS)
        return;
    int rank = 0, size = 0;
    PMPI_Comm_rank(here, &rank);
    PMPI_Comm_size(here, &size);
    Board made;
    BoardPlace place;
    if (rank == 0) made = make_board(size, stats, trace);
    if (made) place = {getpid(), made.file().get(), made.head().token};
    PMPI_Bcast(&place, sizeof place, MPI_BYTE, 0, here);
    if (place.file >= 0) {
        move_to(rank == 0 ? std::move(made) : open_board(place), rank);
        PMPI_Barrier(here);  // the keeper looks who is there only once
        if (rank == 0 && board) start_keeper();
    }
    if (!board)
        say(LogLevel::kInfo,
            "rank " + std::to_string(s.rank) +
                " shares no memory for statistics: they would be lost if the job is interrupted");
    PMPI_Comm_free(&here);
}

void keep_job() {
    if (!board) return;
    const Shim& s = shim();
    own_slot->node = s.context ? ls_node(s.context) : 0;
    BoardHead& head = board->head();
    head.nodes = s.context ? ls_node_count(s.context) : 0;
    head.offload = s.on;
    head.place = s.place;
    if (s.context) copy_name(head.reach, sizeof head.reach, ls_memory_reach(s.context));
}

void end_keeping() {
    if (own_slot) own_slot->state.store(RankState::kFinalized, std::memory_order_release);
}

}  // namespace longshore::mpi
