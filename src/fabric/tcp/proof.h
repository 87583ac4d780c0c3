// How the two ends of a new stream prove to each other that they are of the same job: each answers the
// other's nonce with an HMAC-SHA256 (by OpenSSL) whose key is the token of the node that accepts. It covers
// the whole hello and challenge: the job, both ends' places and incarnations, and the kind of the stream. A
// role is part of it, so that no answer can be sent back as one's own.
#pragma once

#include "fabric/shm/socket.h"
#include "fabric/tcp/wire.h"

namespace longshore {

enum class ProofRole : uint8_t { kConnects = 'c', kAccepts = 'a' };

// `job`: what names the job and the accepting node (NodeAddress::name). `challenge`: as encoded; its proof is
// not looked at.
Proof prove(const Token& key, ProofRole role, const SocketName& job,
            std::span<const std::byte, kHelloBytes> hello,
            std::span<const std::byte, kChallengeBytes> challenge);
// Takes as long whatever differs.
bool same_proof(const Proof& a, const Proof& b);
// False: the system has no random bytes.
bool draw_nonce(Nonce* nonce);

}  // namespace longshore
