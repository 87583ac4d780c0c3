// Operations of a rank on a node: posted in the order of their groups, worked on while the caller waits,
// completed. Operations are kept when they are over and taken again: programs repeat their calls, and a plan
// is made once.
#pragma once

#include <memory>
#include <vector>

#include "host/context.h"

namespace longshore {

// What an operation's role knows of its buffers.
class RankBuffers {
  public:
    // Fills in where the operation's buffers are, having copied what must be copied. False: there is no room
    // for that now.
    virtual bool prepare(ls_operation& operation) = 0;
    // The operation is over, or was never posted; it is prepared.
    virtual void let_go(ls_operation& operation) = 0;
    // It ends in an error although others may still be about to move its blocks: they are not to touch the
    // caller's buffers any more. False: some are about to write there; ask again.
    virtual bool give_up(ls_operation& operation) = 0;

  protected:
    ~RankBuffers() = default;
};

class NodeOperations {
  public:
    NodeOperations(ls_context& context, RankBuffers& buffers) : c_(context), buffers_(buffers) {}

    // One that is free until begin(): with the plan of an earlier call that was the same (then *planned is
    // true), or with none.
    ls_operation& take(const ls_group& group, const ls_arguments& arguments, uint64_t eager_bytes,
                       bool* planned);
    ls_operation& take_unplanned();
    // The one that was taken last is planned: it is its group's next, and is posted as soon as it can be.
    void begin(ls_group& group, ls_operation& operation, bool ring_services);
    int test(ls_operation& operation, int* moved);
    // False: its record stays for a while, and its group with it.
    bool free(ls_operation* operation);
    // Completes what is complete and posts what waits.
    void advance();

  private:
    struct HeldCopy {
        RecordId record;
        uint64_t generation, offset, bytes;
        bool several_nodes;
    };
    ls_operation& add(bool next);
    void forget_plan(ls_operation& operation);
    bool try_post(ls_operation& operation);
    void post_waiting();
    void reap();
    bool work(ls_operation& operation);
    void complete(ls_operation& operation);
    void let_go(ls_operation& operation);
    void give_up(ls_operation& operation, uint64_t now);
    void look_around(uint64_t now);
    void free_retired_copies();
    void free_given_up();

    ls_context& c_;
    RankBuffers& buffers_;
    uint64_t next_look_ns_ = 0;
    std::vector<std::unique_ptr<ls_operation>> operations_;
    std::vector<ls_operation*> free_, given_up_;
    std::vector<HeldCopy>
        held_copies_;  // of records that are retired, or will be, only when their generation is over
};

// Points the operation's arguments to the blocks of its plan.
void set_blocks(ls_operation& operation);
// One line for the user: what the operation waits for.
void describe_wait(const ls_context& context, const ls_operation& operation, char* line, size_t bytes);
// Says that once, when the operation has been waited for as long as the settings say.
void report_wait(ls_context& context, ls_operation& operation, uint64_t now);
// For good: a service process that the operation needs has been gone for too long and has no successor.
bool is_service_lost(const ls_context& context, ls_operation& operation, uint64_t now);
uint64_t limit_ns(const ls_context& context);
// How the operation ended, LS_OK or an error. What ended for want of a service process says so to the user,
// once.
int result_of(ls_context& context, const ls_operation& operation);
void say_service_lost(ls_context& context);

}  // namespace longshore
