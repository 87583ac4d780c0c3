// The counts or the displacements of a call.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace longshore::mpi {

// The program's array: of int, or in the large-count forms of MPI_Count or MPI_Aint. Not copied.
class Integers {
  public:
    Integers() = default;
    Integers(const void* values, bool is_64bit) : values_(values), is_64bit_(is_64bit) {}
    template <class Integer>
    Integers(const Integer* values) : Integers(values, sizeof(Integer) == sizeof(int64_t)) {
        static_assert(std::is_signed_v<Integer> &&
                      (sizeof(Integer) == sizeof(int32_t) || sizeof(Integer) == sizeof(int64_t)));
    }

    bool given() const { return values_ != nullptr; }
    int64_t operator[](int i) const { return is_64bit_ ? at<int64_t>(i) : at<int32_t>(i); }
    const void* data() const { return values_; }
    bool is_64bit() const { return is_64bit_; }

  private:
    // By bytes: the program's type of that size may be another.
    template <class Integer>
    Integer at(int i) const {
        Integer value;
        memcpy(&value, static_cast<const char*>(values_) + static_cast<size_t>(i) * sizeof value,
               sizeof value);
        return value;
    }

    const void* values_ = nullptr;
    bool is_64bit_ = false;
};

}  // namespace longshore::mpi
