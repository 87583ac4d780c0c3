// The other side of --offload mpmd and auto: one thread that goes through the cycles as its rank does, opens
// their files, and writes the pages that the rank sends. It has no options: its rank tells it all.
#include <mpi.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "../abort_job.h"
#include "file_writer.h"
#include "messages.h"
#include "pairing.h"
#include "patience.h"
#include "temporary.h"
#include "trial.h"

namespace bigsort {

namespace {

constexpr double kForeverS = 1e9;  // the launcher ends a peer whose rank has died

class Peer {
  public:
    Peer(MPI_Comm world, int rank, Temporary* temporary)
        : world_(world), rank_(rank), temporary_(temporary) {}

    // Returns early after an error, which the rank knows and says. Then receives are still open, and this has
    // to outlive them.
    void serve() {
        receive(&setup_, sizeof(setup_), kTagSetup);
        temporary_->set_rank(setup_.rank);
        struct stat folder;
        const int error = stat(setup_.folder, &folder) != 0 ? errno : S_ISDIR(folder.st_mode) ? 0 : ENOTDIR;
        send_credit(kTagReady, error);
        if (error != 0) return;
        layout_ = setup_.layout;
        slots_ = std::min(layout_.fan_in, std::max<std::uint64_t>(layout_.page_writes(), 1));
        ring_.resize(slots_ * layout_.page_values);
        receives_.assign(slots_, MPI_REQUEST_NULL);
        FileWriter writer(setup_.folder, layout_, setup_.files_max);
        try {
            run_cycles(writer);
        } catch (const FileError& failed) {
            send_credit(kTagCredit, failed.error(), failed.call(), failed.path());
        }
    }

  private:
    void receive(void* data, int bytes, int tag) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Irecv(data, bytes, MPI_BYTE, rank_, tag, world_, &request);
        wait_patiently(&request, kForeverS);
    }

    void send_credit(int tag, int error = 0, const std::string& call = "", const std::string& path = "") {
        Credit credit;
        credit.error = error;
        std::strncpy(credit.call, call.c_str(), sizeof(credit.call) - 1);
        std::strncpy(credit.file, path.c_str() + path.rfind('/') + 1, sizeof(credit.file) - 1);
        MPI_Send(&credit, sizeof(credit), MPI_BYTE, rank_, tag, world_);
    }

    void run_cycles(FileWriter& writer) {
        std::uint64_t first = 0;
        if (setup_.offload == Offload::kAuto) {
            const Trial trial = make_trial(layout_);
            for (const Stretch& stretch : trial.by_peer) run(writer, stretch);
            int goes_on = 0;
            receive(&goes_on, sizeof(goes_on), kTagDecision);
            if (!goes_on) return;
            first = trial.files();
        }
        for (int cycle = 0; cycle < layout_.cycles(); ++cycle) {
            run(writer, {cycle, first, layout_.files(cycle)});
            first = 0;
        }
    }

    // The slots take pages in turns. Receives are posted ahead, as far as the stretch goes.
    void run(FileWriter& writer, const Stretch& stretch) {
        if (stretch.begin == stretch.end) return;
        const std::uint64_t begin = layout_.first_page(stretch.cycle, stretch.begin);
        const std::uint64_t end = layout_.first_page(stretch.cycle, stretch.end);
        temporary_->name(file_path(setup_.folder, stretch.cycle, stretch.begin));
        writer.begin(stretch);
        std::uint64_t posted = begin;
        for (std::uint64_t page = begin; page < end; ++page) {
            for (; posted < end && posted < page + slots_; ++posted) post(posted);
            temporary_->name(
                file_path(setup_.folder, stretch.cycle, page / layout_.span_pages(stretch.cycle)));
            wait_patiently(&receives_[page % slots_], kForeverS);
            writer.write(&ring_[page % slots_ * layout_.page_values], layout_.values_between(page, page + 1));
            send_credit(kTagCredit);
        }
    }

    void post(std::uint64_t page) {
        MPI_Irecv(&ring_[page % slots_ * layout_.page_values], int(layout_.page_values), MPI_UINT64_T, rank_,
                  kTagPage, world_, &receives_[page % slots_]);
    }

    MPI_Comm world_;
    int rank_;
    Temporary* temporary_;
    Setup setup_;
    Layout layout_;
    std::uint64_t slots_ = 1;
    std::vector<Value> ring_;
    std::vector<MPI_Request> receives_;
};

int run(Temporary& temporary) {
    MPI_Comm world = MPI_COMM_WORLD;
    int me = 0;
    MPI_Comm_rank(world, &me);
    const std::vector<Role> roles = exchange_roles(world, Role::kPeer);
    int leader = 0;
    while (leader < int(roles.size()) && roles[std::size_t(leader)] == Role::kPeer) ++leader;
    if (leader == int(roles.size())) {
        if (me == 0)
            std::fprintf(stderr,
                         "bigsort_peer: writes for bigsort: mpirun -np N bigsort ... : -np N bigsort_peer\n");
        return 2;
    }
    MPI_Comm ranks;
    MPI_Comm_split(world, MPI_UNDEFINED, me, &ranks);
    Start start;
    MPI_Bcast(&start, sizeof(start), MPI_BYTE, leader, world);
    if (!start.go) return 0;
    std::optional<Peer> peer;
    if (needs_peers(start.offload, roles)) {
        const Pairing pairing = pair(world, roles, start.placement);
        if (!pairing.problem.empty()) return 0;
        const int rank = pairing.peer_of[std::size_t(me)];
        if (rank >= 0) peer.emplace(world, rank, &temporary).serve();
    }
    temporary.let_go();
    meet(world);  // does not return after an error: the rank ends the job
    return 0;
}

}  // namespace

}  // namespace bigsort

int main(int argc, char** argv) {
    bigsort::Temporary temporary("the peer of rank");
    abort_job_on_exceptions("bigsort_peer");
    MPI_Init(&argc, &argv);
    const int status = bigsort::run(temporary);
    MPI_Finalize();
    return status;
}
