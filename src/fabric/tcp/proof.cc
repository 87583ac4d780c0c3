#include "fabric/tcp/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"

namespace longshore {

Proof prove(const Token& key, ProofRole role, const SocketName& job,
            std::span<const std::byte, kHelloBytes> hello,
            std::span<const std::byte, kChallengeBytes> challenge) {
    std::array<std::byte, 1 + sizeof job.text + kHelloBytes + kChallengeBytesProved> said{};
    said[0] = static_cast<std::byte>(role);
    memcpy(said.data() + 1, job.text, sizeof job.text);
    memcpy(said.data() + 1 + sizeof job.text, hello.data(), hello.size());
    memcpy(said.data() + 1 + sizeof job.text + hello.size(), challenge.data(), kChallengeBytesProved);
    Proof proof;
    unsigned bytes = 0;
    const unsigned char* const made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                           reinterpret_cast<const unsigned char*>(said.data()), said.size(),
                                           reinterpret_cast<unsigned char*>(proof.data()), &bytes);
    LONGSHORE_CHECK(made != nullptr && bytes == proof.size());
    return proof;
}

bool same_proof(const Proof& a, const Proof& b) {
    return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool draw_nonce(Nonce* nonce) {
    return getrandom(nonce->data(), nonce->size(), 0) == static_cast<ssize_t>(nonce->size());
}

}  // namespace longshore
