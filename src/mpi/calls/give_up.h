// A rank that cannot stage its data takes part all the same.
#pragma once

#include "mpi/requests/operation.h"

namespace longshore::mpi {

// What a rank adds to the size of every block it sends or receives when its data are lost: no two ranks'
// blocks fit then, so nobody touches the memory, all who exchange something with it get an error, and nobody
// waits. A block that is sent is too large for a notification, too: the host library copies none of it.
constexpr uint64_t kLostSend = (64 << 10) + 2;
constexpr uint64_t kLostRecv = 1;

// Changes the arguments so, and says it to the user. Empty blocks stay empty.
void give_up_data(Operation* operation);

}  // namespace longshore::mpi
