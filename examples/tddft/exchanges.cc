#include "exchanges.h"

#include <time.h>

#include <algorithm>
#include <numeric>

namespace {

// Adds the time of its life to a sum.
class Timed {
  public:
    explicit Timed(double& sum) : sum_(sum), start_(seconds_now()) {}
    ~Timed() { sum_ += seconds_now() - start_; }

  private:
    double& sum_;
    double start_;
};

}  // namespace

double seconds_now() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

Exchanges::Exchanges(const Layout& layout, bool by_vector) : layout_(layout), by_vector_(by_vector) {
    const int dims[2] = {layout.state_ranks, layout.domain_ranks}, periodic[2] = {0, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periodic, 0, &grid_);
    int rank = 0;
    MPI_Comm_rank(grid_, &rank);
    MPI_Cart_coords(grid_, rank, 2, at_.data());
    const int over_states[2] = {1, 0}, over_planes[2] = {0, 1};
    MPI_Cart_sub(grid_, over_states, &same_planes_);
    MPI_Cart_sub(grid_, over_planes, &same_states_);
    MPI_Cart_shift(same_states_, 0, 1, &below_, &above_);
    requests_.resize(std::size_t(layout.local_states()) * 4, MPI_REQUEST_NULL);
}

Exchanges::~Exchanges() {
    MPI_Comm_free(&same_states_);
    MPI_Comm_free(&same_planes_);
    MPI_Comm_free(&grid_);
}

void Exchanges::begin() {
    times_ = {};
    entries_.clear();
    exits_.clear();
}

void Exchanges::halo(Complex* psi) {
    const std::size_t plane = layout_.plane_points(), planes = std::size_t(layout_.local_planes());
    const std::size_t edge = kHalo * plane, stride = (planes + 2 * kHalo) * plane;
    if (layout_.domain_ranks == 1) {
        for (int state = 0; state < layout_.local_states(); ++state, psi += stride) {
            std::copy_n(psi + planes * plane, edge, psi);
            std::copy_n(psi + edge, edge, psi + edge + planes * plane);
        }
        return;
    }
    {
        const Timed timed(times_.other);
        MPI_Request* request = requests_.data();
        const int count = int(2 * edge);  // numbers, two of each value
        for (int state = 0; state < layout_.local_states(); ++state, psi += stride) {
            // Two neighbours may be one rank: the tag says in which direction the planes go.
            const int up = 2 * state, down = up + 1;
            MPI_Irecv(psi, count, MPI_DOUBLE, below_, up, same_states_, request++);
            MPI_Irecv(psi + edge + planes * plane, count, MPI_DOUBLE, above_, down, same_states_, request++);
            MPI_Isend(psi + planes * plane, count, MPI_DOUBLE, above_, up, same_states_, request++);
            MPI_Isend(psi + edge, count, MPI_DOUBLE, below_, down, same_states_, request++);
        }
    }
    const Timed timed(times_.waitall);
    MPI_Waitall(int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
}

void Exchanges::allgather(const double* mine, double* all, std::size_t count) {
    if (by_vector_) {
        counts_.assign(std::size_t(layout_.state_ranks * layout_.domain_ranks), int(count));
        places_.resize(counts_.size());
        std::exclusive_scan(counts_.begin(), counts_.end(), places_.begin(), 0);
    }
    const double entry = seconds_now();
    if (by_vector_) {
        MPI_Allgatherv(mine, int(count), MPI_DOUBLE, all, counts_.data(), places_.data(), MPI_DOUBLE,
                       MPI_COMM_WORLD);
    } else {
        MPI_Allgather(mine, int(count), MPI_DOUBLE, all, int(count), MPI_DOUBLE, MPI_COMM_WORLD);
    }
    const double exit = seconds_now();
    times_.allgather += exit - entry;
    entries_.push_back(entry);
    exits_.push_back(exit);
}

void Exchanges::alltoall(const Complex* from, Complex* to, std::size_t count) {
    const Timed timed(times_.alltoall);
    MPI_Alltoall(from, int(2 * count), MPI_DOUBLE, to, int(2 * count), MPI_DOUBLE, same_planes_);
}

void Exchanges::sum(std::vector<double>& values) {
    const Timed timed(times_.allreduce);
    MPI_Allreduce(MPI_IN_PLACE, values.data(), int(values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
