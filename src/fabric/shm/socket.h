// Packets with descriptors over abstract AF_UNIX sockets between processes of one user: the control plane of
// the shared-memory fabric. Everything is nonblocking and close-on-exec. Abstract names leave no file behind.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/shm/system.h"

namespace longshore {

struct SocketName {
    char text[48] = {};  // without the leading zero byte; ends with one
};
using Token = std::array<uint8_t, 16>;

// A name nobody can guess, and a secret.
bool make_secret(SocketName* name, Token* token);
// Its 12 bytes that nobody can guess, and back. False: not such a name.
using NameBytes = std::array<uint8_t, 12>;
bool pack_name(const SocketName& name, NameBytes* bytes);
SocketName unpack_name(const NameBytes& bytes);
// Where service process `service` of the node whose supervisor listens at `name` listens itself.
SocketName service_socket_name(const SocketName& name, uint16_t service);

// Compares without telling by its time how much was right.
bool same_token(const Token& a, const Token& b);

// Empty on failure (errno says why).
Fd listen_at(const SocketName& name);
Fd connect_to(const SocketName& name);
Fd accept_from(const Fd& listener);
// How many a loop takes before it looks at anything else: strangers may connect without end.
constexpr int kAcceptedPerTurn = 16;
// The other end belongs to this process's user. `pid` may be null.
bool peer_is_same_user(const Fd& socket, pid_t* pid);

enum class Io : uint8_t { kOk, kAgain, kClosed };
Io send_packet(const Fd& socket, const void* bytes, size_t count, std::span<const int> descriptors = {});
// A packet larger than the buffer, or with more than 64 descriptors, closes the connection: kClosed, and
// errno is EMSGSIZE. Where this process has no room for a packet's descriptors, those are lost: kClosed and
// EMFILE, with the packet's bytes.
Io receive_packet(const Fd& socket, void* buffer, size_t capacity, size_t* count,
                  std::vector<Fd>* descriptors);

}  // namespace longshore
