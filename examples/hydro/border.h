// Values of corners at the borders between ranks: each rank sends those of its own corners and receives those
// of its ghost corners. Begun and finished apart, so that there can be computing in between.
#pragma once

#include <mpi.h>

#include <vector>

#include "mesh.h"

template <typename Value>  // double or Vec
class Border {
  public:
    Border(const Mesh& mesh, MPI_Comm comm, int tag);
    // `corners`: local values, then room for the ghosts'; may not be touched at ghosts until finish()
    // returns.
    void begin(Value* corners);
    void finish();
    std::size_t bytes_sent() const { return sent_.size() * sizeof(Value); }

  private:
    const Mesh& mesh_;
    const MPI_Comm comm_;
    const int tag_;
    std::vector<Value> sent_;
    std::vector<MPI_Request> requests_;
};

extern template class Border<double>;
extern template class Border<Vec>;

// Sums of all corners' values at the points of the border, in the order in which every rank adds them.
template <typename Value>
void sum_border_points(const Mesh& mesh, const Value* corners, Value* points) {
    for (const std::int32_t point : mesh.border_points) {
        Value sum{};
        for (std::int32_t i = mesh.point_corner[std::size_t(point)];
             i < mesh.point_corner[std::size_t(point) + 1]; ++i)
            sum = sum + corners[mesh.point_corners[std::size_t(i)]];
        points[point] = sum;
    }
}
