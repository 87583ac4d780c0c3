#include "dpu_bench/ranks.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cmath>

namespace longshore::dpu_bench {
namespace {

// More ranks of this machine than cores that they may use together.
bool crowded_here(MPI_Comm machine) {
    cpu_set_t mine, together;
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    MPI_Allreduce(&mine, &together, int(sizeof mine), MPI_BYTE, MPI_BOR, machine);
    int ranks = 0;
    MPI_Comm_size(machine, &ranks);
    return ranks > CPU_COUNT(&together);
}

}  // namespace

double now_us() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) * 1e6 + double(time.tv_nsec) / 1e3;
}

void sleep_us(double us) {
    if (!(us > 0)) return;
    timespec length{};
    length.tv_sec = time_t(us / 1e6);
    length.tv_nsec = long(std::fmod(us, 1e6) * 1e3);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) != 0) {
    }
}

Barrier::Barrier(MPI_Comm comm, bool sleeping) : comm_(comm) {
    if (!sleeping) return;
    int rank = 0, ranks = 0, unit = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Win_allocate_shared(rank == 0 ? MPI_Aint(sizeof *shared_) : 0, 1, MPI_INFO_NULL, comm, &shared_,
                            &window_);
    MPI_Aint size = 0;
    MPI_Win_shared_query(window_, 0, &size, &unit, &shared_);
    if (rank == 0) {
        pthread_barrierattr_t attributes;
        pthread_barrierattr_init(&attributes);
        pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(shared_, &attributes, unsigned(ranks));
        pthread_barrierattr_destroy(&attributes);
    }
    MPI_Barrier(comm);
}

Barrier::~Barrier() {
    if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

void Barrier::pass() const {
    if (shared_ != nullptr)
        pthread_barrier_wait(shared_);
    else
        MPI_Barrier(comm_);
}

Ranks::Ranks(int workers) {
    prctl(PR_SET_TIMERSLACK, 1);  // sleeps end on time, not up to 50 us later
    MPI_Comm_dup(MPI_COMM_WORLD, &all_);
    int ranks = 0;
    MPI_Comm_size(all_, &ranks);
    MPI_Comm_rank(all_, &rank_);
    shape_ = {ranks - workers, workers};
    MPI_Comm_split(all_, is_worker(), rank_, &kind_);

    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    int here = 0;
    MPI_Comm_size(machine, &here);
    one_machine_ = here == ranks;
    const int mine = crowded_here(machine);
    int anywhere = 0;
    MPI_Allreduce(&mine, &anywhere, 1, MPI_INT, MPI_MAX, all_);
    crowded_ = anywhere != 0;
    MPI_Comm_free(&machine);
    all_meet_ = std::make_unique<Barrier>(all_, crowded_ && one_machine_);
    kind_meets_ = std::make_unique<Barrier>(kind_, crowded_ && one_machine_);
}

Ranks::~Ranks() {
    kind_meets_.reset();
    all_meet_.reset();
    MPI_Comm_free(&kind_);
    MPI_Comm_free(&all_);
}

std::vector<std::uint8_t> Ranks::exchange(const std::vector<std::uint8_t>& mine) const {
    std::vector<std::uint8_t> all(mine.size() * std::size_t(shape_.ranks()));
    meet();
    MPI_Allgather(mine.data(), int(mine.size()), MPI_BYTE, all.data(), int(mine.size()), MPI_BYTE, all_);
    return all;
}

std::vector<RegionHandle> Ranks::exchange(const RegionHandle& mine) const {
    std::vector<std::uint64_t> addresses(std::size_t(shape_.ranks())), keys(addresses.size());
    meet();
    MPI_Allgather(&mine.address, 1, MPI_UINT64_T, addresses.data(), 1, MPI_UINT64_T, all_);
    MPI_Allgather(&mine.key, 1, MPI_UINT64_T, keys.data(), 1, MPI_UINT64_T, all_);
    std::vector<RegionHandle> handles;
    for (std::size_t i = 0; i < keys.size(); ++i) handles.push_back({addresses[i], keys[i]});
    return handles;
}

std::vector<double> Ranks::max_of(const std::vector<double>& mine) const {
    std::vector<double> most(mine.size());
    meet();
    MPI_Reduce(mine.data(), most.data(), int(mine.size()), MPI_DOUBLE, MPI_MAX, 0, all_);
    return most;
}

double Ranks::from_root(double value) const {
    meet();
    MPI_Bcast(&value, 1, MPI_DOUBLE, 0, all_);
    return value;
}

bool Ranks::any_failure(const std::optional<std::string>& mine) const {
    const int failed = mine ? rank_ : shape_.ranks();
    int first = 0;
    meet();
    MPI_Allreduce(&failed, &first, 1, MPI_INT, MPI_MIN, all_);
    if (first == rank_) fmt::print(stderr, "longshore dpu-bench: {}\n", *mine);
    return first < shape_.ranks();
}

}  // namespace longshore::dpu_bench
