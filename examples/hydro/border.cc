#include "border.h"

template <typename Value>
Border<Value>::Border(const Mesh& mesh, MPI_Comm comm, int tag) : mesh_(mesh), comm_(comm), tag_(tag) {
    std::size_t count = 0;
    for (const Neighbour& one : mesh.neighbours) count += one.corners.size();
    sent_.resize(count);
    requests_.reserve(2 * mesh.neighbours.size());
}

template <typename Value>
void Border<Value>::begin(Value* corners) {
    constexpr int kDoubles = sizeof(Value) / sizeof(double);
    for (const Neighbour& one : mesh_.neighbours)
        MPI_Irecv(corners + mesh_.corners + one.ghost_begin, one.ghost_count * kDoubles, MPI_DOUBLE, one.rank,
                  tag_, comm_, &requests_.emplace_back());
    Value* next = sent_.data();
    for (const Neighbour& one : mesh_.neighbours) {
        Value* const first = next;
        for (const std::int32_t corner : one.corners) *next++ = corners[corner];
        MPI_Isend(first, int(one.corners.size()) * kDoubles, MPI_DOUBLE, one.rank, tag_, comm_,
                  &requests_.emplace_back());
    }
}

template <typename Value>
void Border<Value>::finish() {
    MPI_Waitall(int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
}

template class Border<double>;
template class Border<Vec>;
