// Whose turn it is. What there is to move (chunks between ranks of the node, blocks of other nodes) is served
// by operation. Operations of about one size are a class. The class that has had least of this service
// process comes next, by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), so that a huge
// operation gets no more than a small one that has just begun. In a class the operation that began first is
// served until it is over: were they served side by side, all would be over at the end only, and a program
// that computes with each result would have nothing to do until then.
//
// Keeps: for each operation that takes turns its size, class and place; for each class what it has had.
// Promises: an operation comes after the earlier ones of its class and group.
// Asks: nothing of other parts. Operations are named by their numbers in the table of operations.
#pragma once

#include "base/types.h"
#include "engine/service/pool.h"

namespace longshore {

// However few bytes a move has, it costs about as much as so many.
constexpr uint64_t kMoveCostBytes = 4096;

class Turns {
  public:
    void carve(Carver& c, uint32_t operations_max);
    // A new operation, without turns so far.
    void opened(uint32_t operation, const OperationId& id);
    // Another of our ranks takes part, and receives so many bytes.
    void join(uint32_t operation, uint64_t bytes);
    // It has no turns any more.
    void leave(uint32_t operation);
    // It has been served.
    void charge(uint32_t operation, uint64_t bytes);

    // Whose turn it is: classes in their order, `tried` holds a bit for each that has been returned. kNone:
    // none is left. Then the operations of the class.
    uint32_t next_class(uint32_t* tried) const;
    uint32_t first_of(uint32_t its_class) const { return classes_[its_class].first; }
    uint32_t after(uint32_t operation) const { return entries_[operation].next; }

    static constexpr uint32_t kClasses = 16;

  private:
    struct Entry {
        uint32_t next = kNone;  // in its class
        bool sorted = false;    // it is in a class
        uint32_t its_class = 0;
        OperationId id;
        uint64_t bytes = 0;  // that our ranks receive in it
    };
    struct Class {
        uint32_t first = kNone;  // operations in the order in which they are served
        uint64_t served = 0;     // bytes that all of it have had, counted from the level at which it came
    };
    void sort_in(uint32_t operation);
    void unsort(uint32_t operation);

    Entry* entries_ = nullptr;
    Class classes_[kClasses];
    uint64_t level_ = 0;  // what the class that was served last had had before
};

}  // namespace longshore
