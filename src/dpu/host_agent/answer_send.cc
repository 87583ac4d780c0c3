// How the network's library sends, where this is an agent: a peer that is gone is no error of the send.
//
// Without a card that reads memory by itself, UCX lets the agent answer each get and put, and ends the whole
// process if an answer cannot be sent because its service process has just been killed. Then all ranks of the
// machine would lose their memory to one lost service process, although the next one is being started. Told
// that there is no room just now, UCX goes on, and finds the end of that connection where it reads from it,
// which it takes well.
#include "dpu/host_agent/answer_send.h"

#include <errno.h>
#include <sys/socket.h>

namespace longshore {
namespace {
bool outlives_peers = false;
}  // namespace

void outlive_peers() {
    outlives_peers = true;
}
}  // namespace longshore

// In place of the C library's, for the libraries that this program opens, too (CMakeLists.txt exports it).
extern "C" ssize_t send(int socket, const void* bytes, size_t count, int flags) {
    const ssize_t sent = sendto(socket, bytes, count, flags, nullptr, 0);
    if (sent < 0 && longshore::outlives_peers && (errno == EPIPE || errno == ECONNRESET)) errno = EAGAIN;
    return sent;
}
