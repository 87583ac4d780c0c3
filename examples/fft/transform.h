// The parallel transform: several variables in a pipeline, their exchanges open at the same time; or one
// variable after the other by blocking exchanges.
#pragma once

#include <mpi.h>

#include <array>
#include <complex>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "fftw.h"
#include "pencil.h"
#include "trace.h"

// Where the time of one transform went on one rank, in seconds.
struct Times {
    double total = 0;
    double post = 0;   // in MPI_Ialltoallv
    double wait = 0;   // in MPI_Waitany
    double other = 0;  // in MPI_Testany, or in the blocking MPI_Alltoallv
    double communication() const { return post + wait + other; }
    double compute() const { return total - communication(); }
    Times& operator+=(const Times& more);
};

enum class Direction { kForward, kBackward };
enum class Way { kNonblocking, kBlocking };
// Exchanges only: the same exchanges in the same order on each communicator, nothing computed. Compute only:
// the same computing, packing and unpacking, no exchange; the fields are worth nothing afterwards.
enum class Work { kFull, kExchangesOnly, kComputeOnly };

template <typename Real>
struct FftwFree {
    void operator()(void* p) const { Fftw<Real>::free(p); }
};

// Collective over the communicator it is made with. A forward transform takes each variable from the x pencil
// (physical space) to the z pencil (spectral space), a backward one back, scaled by 1 / points. Real: float
// or double.
template <typename Real>
class Transform {
  public:
    using Complex = std::complex<Real>;

    // open_max: variables whose exchanges may be open at once. work_factor: how often each 1-D transform is
    // computed; all but one result of it are thrown away.
    Transform(MPI_Comm world, Size3 size, std::array<int, 2> grid, int variables, int open_max,
              int work_factor);
    ~Transform();
    Transform(const Transform&) = delete;
    Transform& operator=(const Transform&) = delete;

    Times run(Direction direction, Way way, Work work);
    // Told of the MPI calls of every run from now on, if it is not null; it must outlive them.
    void set_trace(Trace* trace) { trace_ = trace; }

    const Pencil& physical() const { return pencils_[0]; }
    const Pencil& spectral() const { return pencils_[2]; }
    Complex* data(int variable) { return variables_[variable].data.get(); }
    const Complex* data(int variable) const { return variables_[variable].data.get(); }
    int variables() const { return int(variables_.size()); }
    Size3 size() const { return size_; }
    // What this rank sends to ranks of other nodes in one transform there and back of all variables.
    // Collective.
    std::uint64_t bytes_to_other_nodes() const;

  private:
    using Field = std::unique_ptr<Complex[], FftwFree<Real>>;
    using Plan = typename Fftw<Real>::Plan;

    // One exchange between two pencils inside a row or column of the grid; counts and displacements in bytes.
    struct Exchange {
        MPI_Comm comm = MPI_COMM_NULL;
        int from = 0, to = 0;  // pencils
        std::vector<std::array<Range, 3>> outgoing, incoming;
        std::vector<int> send_counts, send_displacements, receive_counts, receive_displacements;
        // In a line of one rank everything stays: nobody calls the MPI for that.
        bool alone() const { return send_counts.size() == 1; }
    };
    struct Variable {
        Field data, send, receive;
        int stage = 0;        // exchanges finished
        bool packed = false;  // ready to post its next exchange, but it is not its turn yet
    };

    static Field allocate(std::size_t points);
    static int to_bytes(std::size_t points);
    Exchange make_exchange(MPI_Comm comm, int along, int from, int to) const;
    Plan make_plan(int pencil, Direction direction, Complex* to) const;
    void transform_lines(Variable& variable, int pencil, Direction direction) const;
    void pack_blocks(Variable& variable, const Exchange& exchange) const;
    void unpack_blocks(Variable& variable, const Exchange& exchange) const;
    void scale(Variable& variable) const;

    void run_pipeline(Direction direction, bool compute, Times& times);
    void run_one_by_one(Direction direction, Work work, Times& times);
    void post_in_order(int stage, const Exchange& exchange, Times& times);
    void take_completed(Times& times);
    void wait_for_one(Times& times);
    void arrived(int index);

    Size3 size_;
    std::array<int, 2> grid_{}, position_{};
    int open_max_, work_factor_;
    MPI_Comm cartesian_ = MPI_COMM_NULL;
    std::array<MPI_Comm, 2> lines_{};  // [0]: ranks that differ in the row index, [1]: in the column index
    std::array<Pencil, 3> pencils_;
    std::array<std::array<Exchange, 2>, 2> exchanges_;  // [direction][stage]
    std::array<std::array<Plan, 3>, 2> plans_{};  // [direction][axis]; null where this rank has no lines
    std::array<std::array<Plan, 3>, 2> scratch_plans_{};  // into scratch_; null where the work factor is 1
    Field scratch_;
    std::vector<Variable> variables_;
    std::vector<MPI_Request> requests_;     // one per variable
    std::array<std::set<int>, 2> arrived_;  // [stage]: variables whose exchange has completed
    std::array<int, 2> next_to_post_{};     // per stage
    int open_ = 0;
    Trace* trace_ = nullptr;
};

extern template class Transform<float>;
extern template class Transform<double>;
