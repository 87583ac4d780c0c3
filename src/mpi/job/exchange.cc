#include "mpi/job/exchange.h"

#include <climits>

namespace longshore::mpi {

int CommExchange::start(void* user, const void* in, void* out, size_t bytes) {
    auto* exchange = static_cast<CommExchange*>(user);
    if (bytes > INT_MAX) return LS_ERR_LIMIT;
    exchange->in_ = in;
    exchange->out_ = out;
    exchange->bytes_ = static_cast<int>(bytes);
    exchange->state_ = LS_IN_PROGRESS;
    return LS_OK;
}

int CommExchange::test(void* user) {
    return static_cast<CommExchange*>(user)->state_;
}

void CommExchange::drive() {
    if (state_ != LS_IN_PROGRESS) return;
    int done = 0, rc = MPI_SUCCESS;
    if (request_ == MPI_REQUEST_NULL)
        rc = PMPI_Iallgather(in_, bytes_, MPI_BYTE, out_, bytes_, MPI_BYTE, comm, &request_);
    if (rc == MPI_SUCCESS) rc = PMPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS) end_job("cannot agree with the other members of a communicator");
    if (done) state_ = LS_OK;
}

CommExchange::CommExchange(MPI_Comm over) : comm(over) {
    int rank = 0, size = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    api.user = this;
    api.rank = static_cast<uint32_t>(rank);
    api.size = static_cast<uint32_t>(size);
    api.start = start;
    api.test = test;
}

}  // namespace longshore::mpi
