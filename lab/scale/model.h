// The service processes of all nodes that are not real. Of each it keeps the rows that it was told and has
// not acknowledged, a bit each; what it says follows from the workload alone.
#pragma once

#include <deque>

#include "scale/frames.h"
#include "scale/workload.h"

namespace longshore::scale {

class Model {
  public:
    Model(const Shape& shape, const Workload& workload);

    // All enter an operation: with Pace::kEarly they begin to tell.
    void begin(uint64_t sequence);
    // A frame that a real service process has sent, to whomever. What is said because of it goes to `out`.
    void on_frame(const Frame& frame, uint64_t round, FrameQueue* out);
    // What modelled ones send by themselves in this round.
    void turn(uint64_t round, FrameQueue* out);
    bool has_told() const { return to_tell_.empty(); }
    bool done() const { return to_tell_.empty() && to_answer_.empty(); }
    // Rows of real ranks that have been told and not acknowledged.
    uint64_t rows_open() const { return rows_open_; }

  private:
    // Adds messages to frames from one service process to another, as many frames as it takes.
    class Sender;
    struct Pair {  // a modelled service process and a real one
        ServiceAddress modelled, real;
    };
    struct Answer {
        Pair pair;
        OperationId operation;
        uint64_t due;
    };

    bool is_modelled(NodeId node) const { return node.value >= shape_.real_nodes; }
    bool answers() const { return shape_.pace == Pace::kEarly || workload_.is_rooted(); }
    uint64_t* open_rows(const Pair& pair);
    void note_told(const Pair& pair, const Told& told, uint64_t round, Sender& to);
    void acknowledge(const Pair& pair, const OperationId& operation, uint32_t word, uint64_t sources,
                     Sender& to);
    void mirror(const Message& m, const Pair& pair, Sender& to);
    void tell_rows(Sender& to, const Pair& pair, const OperationId& operation, uint32_t source,
                   uint32_t span_first, uint32_t spans_max);
    void send_small(Sender& to, const Pair& pair, const OperationId& operation, uint32_t source,
                    uint32_t destination);
    void tell_all(const Pair& pair, FrameQueue* out);

    const Shape shape_;
    const Workload& workload_;
    OperationId operation_;
    uint32_t words_;  // of a bitmap of a node's ranks
    // Of each pair a bitmap of rows told and not acknowledged; in the second half, of those acknowledged by
    // the twin before they were told.
    std::vector<uint64_t> open_;
    uint64_t rows_open_ = 0;
    std::vector<Pair> to_tell_;  // the last one first
    std::deque<Answer> to_answer_;
    uint64_t random_;
};

}  // namespace longshore::scale
