// The rule that the last call of one collective, in one form, on one communicator fell under. Calls repeat
// their sizes, and all else that rules ask for is the same there. Any thread may ask: a program puts the
// collective calls on a communicator in an order, so no two of them are here at once.
#pragma once

#include <atomic>

#include "base/selection.h"

namespace longshore {

class RememberedRule {
  public:
    // The first rule of the table that holds for so many bytes, if that is known; else null.
    const SelectionRule* find(uint64_t bytes) const {
        if (bytes < first_.load(std::memory_order_relaxed) || bytes > last_.load(std::memory_order_relaxed))
            return nullptr;
        return rule_.load(std::memory_order_relaxed);
    }
    void remember(const RuleWithin& found) {
        rule_.store(found.rule, std::memory_order_relaxed);
        first_.store(found.bytes.first, std::memory_order_relaxed);
        last_.store(found.bytes.last, std::memory_order_relaxed);
    }

  private:
    std::atomic<const SelectionRule*> rule_ = nullptr;
    std::atomic<uint64_t> first_ = 1, last_ = 0;  // nothing is known
};

}  // namespace longshore
