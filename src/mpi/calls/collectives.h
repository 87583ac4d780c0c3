// The plans of the collectives, and what they share: who may be offloaded, and what a (buffer, count,
// datatype) means. A plan checks the arguments of a call of any form: kNone and the operation, or why MPI
// serves the call. While it may still refuse, nothing has been handed over, and MPI gets the call as it came.
#pragma once

#include "mpi/calls/integers.h"
#include "mpi/requests/operation.h"
#include "mpi/statistics/comm_names.h"
#include "mpi/statistics/log.h"
#include "mpi/statistics/stats.h"
#include "mpi/statistics/trace.h"

namespace longshore::mpi {

// alltoall or allgather.
Reason plan_uniform(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                    int64_t recvcount, MPI_Datatype recvtype, MPI_Comm comm, Operation** out);
Reason plan_bcast(Call call, void* buffer, int64_t count, MPI_Datatype datatype, int root, MPI_Comm comm,
                  Operation** out);
Reason plan_alltoallv(Call call, const void* sendbuf, Integers sendcounts, Integers sdispls,
                      MPI_Datatype sendtype, void* recvbuf, Integers recvcounts, Integers rdispls,
                      MPI_Datatype recvtype, MPI_Comm comm, Operation** out);
Reason plan_alltoallw(Call call, const void* sendbuf, Integers sendcounts, Integers sdispls,
                      const MPI_Datatype sendtypes[], void* recvbuf, Integers recvcounts, Integers rdispls,
                      const MPI_Datatype recvtypes[], MPI_Comm comm, Operation** out);
Reason plan_allgatherv(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype,
                       void* recvbuf, Integers recvcounts, Integers displs, MPI_Datatype recvtype,
                       MPI_Comm comm, Operation** out);
Reason plan_gather(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                   int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, Operation** out);
Reason plan_gatherv(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                    Integers recvcounts, Integers displs, MPI_Datatype recvtype, int root, MPI_Comm comm,
                    Operation** out);
Reason plan_scatter(Call call, const void* sendbuf, int64_t sendcount, MPI_Datatype sendtype, void* recvbuf,
                    int64_t recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, Operation** out);
Reason plan_scatterv(Call call, const void* sendbuf, Integers sendcounts, Integers displs,
                     MPI_Datatype sendtype, void* recvbuf, int64_t recvcount, MPI_Datatype recvtype, int root,
                     MPI_Comm comm, Operation** out);

// kNone and the group of `comm`, or why MPI serves the call.
Reason refusal(MPI_Comm comm, GroupRecord** group);

struct Block {
    const void* buffer = nullptr;
    uint64_t count = 0;
    size_t bytes = 0;
    Layout layout;
};

// False if MPI would report an error.
bool block_of(const void* buffer, int64_t count, MPI_Datatype type, Block* block);
// The blocks of all ranks together; false if that is more than there is memory.
bool whole_of(const Block& block, int size, size_t* bytes);

// Memory for the packed data of a side, which the arguments then name. Null if there is none: the data are
// lost.
std::byte* stage_packed_send(Operation* operation, size_t bytes);
std::byte* stage_packed_recv(Operation* operation, size_t bytes);

// `count` elements of one size, sent or received as they are, or packed.
void stage_send(Operation* operation, const Block& block, uint64_t count, size_t bytes);
void stage_recv(Operation* operation, const Block& block, uint64_t count, size_t bytes);
// `count` elements of the receive buffer, from `first` on, that are also sent.
void pack_in_place(Operation* operation, const Block& block, uint64_t first, uint64_t count);

// A call of the families that MPI serves: counted, and in the trace while it lasts. `bytes()` tells what it
// brings to this rank.
class HostCall {
  public:
    template <class Bytes>
    HostCall(Call call, MPI_Comm comm, Reason reason, Bytes bytes)
        : call_(call),
          comm_(times_are_wanted && reason != Reason::kArguments ? comm_index(comm) : CommIndex::kNone),
          begin_ns_(begin_of_call_ns()),
          inside_(function_of(call), begin_ns_) {
        log_left(call, comm, reason);
        count_host(call, comm_, reason, begin_ns_ && moves_bytes(reason) && stats_wanted() ? bytes() : 0);
    }
    ~HostCall() {
        if (!begin_ns_) return;
        const uint64_t end_ns = now_ns();
        if (stats_wanted()) count_time(call_, comm_, CallTime::kMpi, end_ns - begin_ns_);
        trace_span(SpanKind::kMpi, function_of(call_), begin_ns_, end_ns);
    }
    HostCall(const HostCall&) = delete;
    HostCall& operator=(const HostCall&) = delete;

  private:
    Call call_;
    CommIndex comm_;
    uint64_t begin_ns_;
    Inside inside_;
};

// The time that a nonblocking call takes to return.
class PostSpan {
  public:
    explicit PostSpan(Call call) : call_(call), begin_ns_(begin_of_call_ns()) {}
    ~PostSpan() {
        if (!begin_ns_) return;
        const uint64_t end_ns = now_ns();
        if (offloaded_ && stats_wanted()) count_time(call_, comm_, CallTime::kPosting, end_ns - begin_ns_);
        trace_span(SpanKind::kPost, function_of(call_), begin_ns_, end_ns);
    }
    PostSpan(const PostSpan&) = delete;
    PostSpan& operator=(const PostSpan&) = delete;
    void set_offloaded(CommIndex comm) {
        offloaded_ = true;
        comm_ = comm;
    }

  private:
    Call call_;
    uint64_t begin_ns_;
    bool offloaded_ = false;
    CommIndex comm_ = CommIndex::kNone;
};

}  // namespace longshore::mpi
