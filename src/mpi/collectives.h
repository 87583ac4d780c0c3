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

// The operation unpacks with this layout when it completes.
bool keep_type(Operation* operation, const Layout& layout);

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
