// Containers of the engine's service side. Everything lies in one block that the driver gives: a Carver hands
// out its parts, a Pool hands out the items of one part and takes them back, a List threads items of an array
// together. Nothing is allocated later, and what was never used was never touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace longshore {

constexpr uint32_t kNone = UINT32_MAX;

// A list threaded through an array of T by T::next. First in, first out.
struct List {
    uint32_t head = kNone, tail = kNone, count = 0;
};
template <class T>
void push_back(T* items, List* list, uint32_t i) {
    items[i].next = kNone;
    if (list->tail == kNone) {
        list->head = i;
    } else {
        items[list->tail].next = i;
    }
    list->tail = i;
    ++list->count;
}
template <class T>
uint32_t pop_front(T* items, List* list) {
    const uint32_t i = list->head;
    if (i == kNone) return kNone;
    list->head = items[i].next;
    if (list->head == kNone) list->tail = kNone;
    --list->count;
    return i;
}

// Items handed out and taken back. The last one given back is the next one taken, so a pool costs as much
// memory as its busiest moment needed.
template <class T>
struct Pool {
    T* items = nullptr;
    List free;
    uint32_t made = 0, max = 0;
    // kNone: all are in use.
    uint32_t take() {
        uint32_t i = free.head;
        if (i != kNone) {
            free.head = items[i].next;
            if (free.head == kNone) free.tail = kNone;
            --free.count;
        } else if (made < max) {
            i = made++;
        } else {
            return kNone;
        }
        new (&items[i]) T;
        return i;
    }
    void give(uint32_t i) {
        items[i].next = free.head;
        free.head = i;
        if (free.tail == kNone) free.tail = i;
        ++free.count;
    }
    uint32_t in_use() const { return made - free.count; }
    uint32_t room() const { return max - in_use(); }
    T& operator[](uint32_t i) const { return items[i]; }
};

// Hands out parts of one block, each at the beginning of a cache line; with a null base it only counts.
class Carver {
  public:
    explicit Carver(std::byte* base) : base_(base) {}
    // Not initialised; null when counting.
    template <class T>
    T* take(uint64_t count) {
        used_ = (used_ + 63) & ~uint64_t{63};
        T* at = base_ != nullptr ? reinterpret_cast<T*>(base_ + used_) : nullptr;
        used_ += count * sizeof(T);
        return at;
    }
    template <class T>
    T* filled(uint64_t count, const T& value) {
        T* at = take<T>(count);
        for (uint64_t i = 0; at != nullptr && i < count; ++i) new (&at[i]) T(value);
        return at;
    }
    template <class T>
    void pool(Pool<T>* p, uint32_t max) {
        p->items = take<T>(max);
        p->max = max;
    }
    uint64_t used() const { return (used_ + 63) & ~uint64_t{63}; }

  private:
    std::byte* base_;
    uint64_t used_ = 0;
};

// Heads of hash chains; a power of two of them.
struct Buckets {
    uint32_t* heads = nullptr;
    uint32_t count = 0;
    void carve(Carver& c, uint32_t at_least) {
        for (count = 1; count < at_least;) count *= 2;
        heads = c.filled<uint32_t>(count, kNone);
    }
    uint32_t& of(uint64_t hash) const { return heads[hash & (count - 1)]; }
};

inline bool test_bit(const uint64_t* bits, uint32_t i) {
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}
inline void set_bit(uint64_t* bits, uint32_t i) {
    bits[i / 64] |= uint64_t{1} << (i % 64);
}
inline void clear_bit(uint64_t* bits, uint32_t i) {
    bits[i / 64] &= ~(uint64_t{1} << (i % 64));
}
// The first bit of `count` that is set, from `from` on; `count` if there is none.
inline uint32_t next_bit(const uint64_t* bits, uint32_t count, uint32_t from) {
    while (from < count) {
        const uint64_t rest = bits[from / 64] >> (from % 64);
        if (rest != 0) return from + static_cast<uint32_t>(__builtin_ctzll(rest));
        from = (from | 63) + 1;
    }
    return count;
}

}  // namespace longshore
