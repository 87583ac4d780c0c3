#include "mpi/calls/give_up.h"

#include <atomic>

#include "mpi/calls/integers.h"

namespace longshore::mpi {
namespace {

void give_up_blocks(ls_vector* vector, int size, uint64_t lost_bytes, ByteVector* own) {
    if (!vector->counts) return;
    std::vector<int64_t> counts;
    const Integers given(vector->counts, vector->is_64bit != 0);
    for (int i = 0; i < size; ++i) {
        const int64_t bytes = given[i] * static_cast<int64_t>(vector->element_bytes);
        counts.push_back(bytes == 0 ? 0 : bytes + static_cast<int64_t>(lost_bytes));
    }
    own->counts = std::move(counts);
    own->displacements.assign(static_cast<size_t>(size), 0);
    *vector = own->vector();
}

void say_once(const Operation& operation) {
    static std::atomic<bool> said{false};
    if (said.exchange(true)) return;
    const char* why =
        operation.lost == MPI_ERR_NO_MEM ? ": no memory to pack its data in" : ": cannot pack its data";
    say(LogLevel::kWarn,
        std::string(call_name(operation.call)) + " on rank " + std::to_string(shim().rank) + why +
            "; the call fails, also on the ranks that exchange data with this one (said once)");
}

}  // namespace

void give_up_data(Operation* operation) {
    static std::byte nowhere;
    say_once(*operation);
    operation->given_up = true;
    const GroupRecord& group = *operation->group;
    ls_arguments& a = operation->arguments;
    a.in_place = 0;
    a.send = a.recv = &nowhere;
    if (a.send_block_bytes > 0) a.send_block_bytes += kLostSend;
    if (a.recv_block_bytes > 0) a.recv_block_bytes += kLostRecv;
    const bool is_root = static_cast<int>(a.root) == group.rank;
    if (a.collective == LS_BCAST && is_root) a.recv_block_bytes = a.send_block_bytes;  // its one block
    give_up_blocks(&a.send_vector, group.size, kLostSend, &operation->send_bytes);
    give_up_blocks(&a.recv_vector, group.size, kLostRecv, &operation->recv_bytes);
}

}  // namespace longshore::mpi
