// ExploredAtomic<T>: std::atomic's interface for src/base/atomic.h under LONGSHORE_EXPLORE. Before each
// access another participant may run (tests/explorer/explorer.h). The memory is sequentially consistent here,
// whatever order is asked for: what weaker orders allow is for TSan and for reading the code.
#pragma once

#include <atomic>

void explorer_yield();

namespace longshore {

template <class T>
class ExploredAtomic {
  public:
    ExploredAtomic() = default;
    ExploredAtomic(T v) : value_(v) {}
    T load(std::memory_order = std::memory_order_seq_cst) const {
        explorer_yield();
        return value_;
    }
    void store(T v, std::memory_order = std::memory_order_seq_cst) {
        explorer_yield();
        value_ = v;
    }
    T exchange(T v, std::memory_order = std::memory_order_seq_cst) {
        explorer_yield();
        const T old = value_;
        value_ = v;
        return old;
    }
    T fetch_add(T v, std::memory_order = std::memory_order_seq_cst) {
        explorer_yield();
        const T old = value_;
        value_ = static_cast<T>(value_ + v);
        return old;
    }
    T fetch_sub(T v, std::memory_order = std::memory_order_seq_cst) {
        return fetch_add(static_cast<T>(0 - v));
    }
    T fetch_or(T v, std::memory_order = std::memory_order_seq_cst) {
        explorer_yield();
        const T old = value_;
        value_ |= v;
        return old;
    }
    T fetch_and(T v, std::memory_order = std::memory_order_seq_cst) {
        explorer_yield();
        const T old = value_;
        value_ &= v;
        return old;
    }
    bool compare_exchange_strong(T& expected, T v, std::memory_order = std::memory_order_seq_cst,
                                 std::memory_order = std::memory_order_seq_cst) {
        explorer_yield();
        if (value_ == expected) {
            value_ = v;
            return true;
        }
        expected = value_;
        return false;
    }
    // What it holds, without letting anybody run: for the judge.
    T peek() const { return value_; }

  private:
    T value_{};
};

}  // namespace longshore
