// What the plans of all collectives share: who may be offloaded, and what a (buffer, count, datatype) means.
#pragma once

#include "mpi/operation.h"
#include "mpi/stats.h"
#include "mpi/trace.h"

namespace longshore::mpi {

// kNone and the group of `comm`, or why MPI serves the call.
Reason refusal(MPI_Comm comm, GroupRecord** group);

struct Block {
    const void* buffer = nullptr;
    uint64_t count = 0;
    size_t bytes = 0;
    Layout layout;
};

// False if MPI would report an error.
bool block_of(const void* buffer, int count, MPI_Datatype type, Block* block);

// The send side packed, into memory of its own. `write` fills it and says whether that worked.
template <class Write>
void stage_packed_send(Operation* operation, size_t bytes, Write write) {
    if (!operation->send.allocate(bytes)) {
        operation->lost = MPI_ERR_NO_MEM;
    } else if (!write(operation->send.memory)) {
        operation->lost = MPI_ERR_OTHER;
    }
    operation->arguments.send = operation->send.memory;
}

// The receive side likewise: the operation unpacks with this layout when it completes.
void stage_packed_recv(Operation* operation, const Layout& layout, size_t bytes);

// `count` elements of one size, sent or received as they are, or packed.
void stage_send(Operation* operation, const Block& block, uint64_t count, size_t bytes);
void stage_recv(Operation* operation, const Block& block, uint64_t count, size_t bytes);
// `count` elements of the receive buffer, from `first` on, that are also sent.
void pack_in_place(Operation* operation, const Block& block, uint64_t first, uint64_t count);
// The blocks of all ranks together; false if that is more than there is memory.
bool whole_of(const Block& block, int size, size_t* bytes);

// What a rank adds to the size of every block it sends or receives when its data are lost: no two ranks'
// blocks fit then, so nobody touches the memory, all who exchange something with it get an error, and nobody
// waits. A block that is sent is too large for a notification, too: the host library copies none of it.
constexpr uint64_t kLostSend = (64 << 10) + 2;
constexpr uint64_t kLostRecv = 1;
// For the blocks of one size; and says so to the user.
void give_up_data(Operation* operation);

// A call of the families that MPI serves: counted, and in the trace while it lasts.
class HostCall {
  public:
    HostCall(Call call, Reason reason) : call_(call), begin_ns_(trace_wanted() ? now_ns() : 0) {
        count_host(call, reason);
    }
    ~HostCall() {
        if (begin_ns_) trace_span("mpi", call_name(call_), begin_ns_, now_ns());
    }
    HostCall(const HostCall&) = delete;
    HostCall& operator=(const HostCall&) = delete;

  private:
    Call call_;
    uint64_t begin_ns_;
};

// The time that a nonblocking call takes to return.
class PostSpan {
  public:
    explicit PostSpan(Call call) : call_(call), begin_ns_(trace_wanted() ? now_ns() : 0) {}
    ~PostSpan() {
        if (begin_ns_) trace_span("post", call_name(call_), begin_ns_, now_ns());
    }
    PostSpan(const PostSpan&) = delete;
    PostSpan& operator=(const PostSpan&) = delete;

  private:
    Call call_;
    uint64_t begin_ns_;
};

}  // namespace longshore::mpi
