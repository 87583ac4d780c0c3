// A large-count form that this MPI lacks, of a call that it must serve: by the form with int, if all that it
// is given fits there. The program calls such a form only if it found ours by name (mpi4py does), and then
// relies on it.
#pragma once

#include <list>
#include <set>
#include <tuple>
#include <type_traits>
#include <vector>

#include "mpi/shim.h"

namespace longshore::mpi {

template <class Type>
constexpr bool kIsLargeArray =
    std::is_same_v<Type, const MPI_Count*> || std::is_same_v<Type, const MPI_Aint*>;

// Which arrays of counts and displacements MPI reads on this rank, of the (first, second) pair that a family
// has, and how long they are.
struct ArraysRead {
    bool first = false, second = false;
    int length = 0;
};

inline ArraysRead arrays_read(Family family, bool in_place, int root, MPI_Comm comm) {
    ArraysRead read;
    int inter = 0, rank = MPI_UNDEFINED;
    if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return read;
    if (inter)
        PMPI_Comm_remote_size(comm, &read.length);
    else
        PMPI_Comm_size(comm, &read.length);
    PMPI_Comm_rank(comm, &rank);
    switch (family) {
        case Family::kAlltoallv:
        case Family::kAlltoallw:
            read.first = !in_place;
            read.second = true;
            break;
        case Family::kGatherv:
        case Family::kScatterv:
            read.first = inter ? root == MPI_ROOT : root == rank;
            break;
        default:
            read.first = true;
    }
    return read;
}

// Applied to the arguments of a call one after the other.
class Narrow {
  public:
    // `keep`: MPI reads the arrays until the call is complete, and nobody will say when that is. So equal
    // ones are kept once, for ever; programs repeat theirs.
    Narrow(const ArraysRead& read, bool keep) : read_(read), keep_(keep) {}

    template <class Type>
    auto operator()(Type value) {
        if constexpr (kIsLargeArray<Type>) {
            const bool read = arrays_++ < 2 ? read_.first : read_.second;
            return read && value ? copy(value) : static_cast<const int*>(nullptr);
        } else if constexpr (std::is_same_v<Type, MPI_Count>) {
            return narrowed(value);
        } else {
            return value;
        }
    }
    bool fits() const { return fits_; }

  private:
    template <class Integer>
    int narrowed(Integer value) {
        fits_ = fits_ && value == static_cast<int>(value);
        return static_cast<int>(value);
    }
    template <class Integer>
    const int* copy(const Integer* values) {
        std::vector<int> copied;
        for (int i = 0; i < read_.length; ++i) copied.push_back(narrowed(values[i]));
        if (keep_) return kept(std::move(copied));
        held_.push_back(std::move(copied));
        return held_.back().data();
    }
    static const int* kept(std::vector<int>&& values) {
        static auto* all = new std::set<std::vector<int>>;
        ContextLock lock;
        return all->insert(std::move(values)).first->data();
    }

    ArraysRead read_;
    bool keep_, fits_ = true;
    int arrays_ = 0;
    std::list<std::vector<int>> held_;
};

}  // namespace longshore::mpi
