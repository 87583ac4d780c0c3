// The parallel transform: several variables in a pipeline, their exchanges open at the same time.
#pragma once

#include <fftw3.h>
#include <mpi.h>

#include <array>
#include <memory>
#include <vector>

#include "pencil.h"

// Where the time of one transform went on one rank, in seconds.
struct Times {
    double total = 0;
    double post = 0;  // in MPI_Ialltoallv
    double wait = 0;  // in MPI_Waitany
    double compute() const { return total - post - wait; }
};

enum class Direction { kForward, kBackward };
enum class Work { kFull, kExchangesOnly };  // exchanges only: same calls in the same order, nothing computed

struct FftwFree {
    void operator()(void* p) const { fftw_free(p); }
};
using Field = std::unique_ptr<Complex[], FftwFree>;

// Collective over the communicator it is made with. A forward transform takes each variable from the x pencil
// (physical space) to the z pencil (spectral space), a backward one back, scaled by 1 / points.
class Transform {
  public:
    Transform(MPI_Comm world, Size3 size, std::array<int, 2> grid, int variables, int open_max);
    ~Transform();
    Transform(const Transform&) = delete;
    Transform& operator=(const Transform&) = delete;

    Times run(Direction direction, Work work);

    const Pencil& physical() const { return pencils_[0]; }
    const Pencil& spectral() const { return pencils_[2]; }
    Complex* data(int variable) { return variables_[variable].data.get(); }
    const Complex* data(int variable) const { return variables_[variable].data.get(); }
    int variables() const { return int(variables_.size()); }
    Size3 size() const { return size_; }

  private:
    // One exchange between two pencils inside a row or column of the grid; counts and displacements in bytes.
    struct Exchange {
        MPI_Comm comm = MPI_COMM_NULL;
        int from = 0, to = 0;  // pencils
        std::vector<std::array<Range, 3>> outgoing, incoming;
        std::vector<int> send_counts, send_displacements, receive_counts, receive_displacements;
    };
    struct Variable {
        Field data, send, receive;
        int stage = 0;        // exchanges finished
        bool packed = false;  // ready to post its next exchange, but it is not its turn yet
    };

    Exchange make_exchange(MPI_Comm comm, int along, int from, int to) const;
    void transform_lines(Variable& variable, int pencil, Direction direction) const;
    void pack_blocks(Variable& variable, const Exchange& exchange) const;
    void unpack_blocks(Variable& variable, const Exchange& exchange) const;
    void post_in_order(int stage, const Exchange& exchange, Times& times);

    Size3 size_;
    std::array<int, 2> grid_{}, position_{};
    int open_max_;
    MPI_Comm cartesian_ = MPI_COMM_NULL;
    std::array<MPI_Comm, 2> lines_{};  // [0]: ranks that differ in the row index, [1]: in the column index
    std::array<Pencil, 3> pencils_;
    std::array<std::array<Exchange, 2>, 2> exchanges_;  // [direction][stage]
    std::array<std::array<fftw_plan, 3>, 2> plans_{};  // [direction][axis]; null where this rank has no lines
    std::vector<Variable> variables_;
    std::vector<MPI_Request> requests_;  // one per variable
    std::array<int, 2> next_to_post_{};  // per stage
    int open_ = 0;
};
