// Sorted runs and their merge into one, by a tree of losers (Knuth, The Art of Computer Programming
// 3, 5.4.1).
#pragma once

#include <string>
#include <vector>

#include "values.h"

namespace bigsort {

// A sorted run of which a part is in memory. Where it has a file, `buffer` takes the next part.
struct Run {
    const Value* next = nullptr;
    const Value* end = nullptr;
    int file = -1;
    std::string path;
    std::uint64_t left_in_file = 0;
    Value* buffer = nullptr;
    std::size_t buffer_values = 0;

    // Returns false at the end of the run. Throws FileError.
    bool refill();
};

// Borrows the runs until it is destroyed.
class Merger {
  public:
    explicit Merger(std::vector<Run>& runs);
    // The next values in ascending order. The caller asks for no more than there are.
    void take(Value* values, std::size_t values_count);

  private:
    struct Head {
        Value value = 0;
        bool over = true;
        bool before(const Head& other) const {
            return value < other.value || (value == other.value && !over && other.over);
        }
    };
    std::size_t play(std::size_t node);
    void load(std::size_t run);

    std::vector<Run>& runs_;
    std::vector<Head> heads_;          // a power of two of them; those beyond the runs are over
    std::vector<std::size_t> losers_;  // of each inner node; losers_[0] is the winner of all
};

}  // namespace bigsort
