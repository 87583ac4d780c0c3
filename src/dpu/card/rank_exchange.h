// An exchange that a stand-in's rank makes with the others on its behalf.
#pragma once

#include <cstring>

#include "dpu/session/stream.h"
#include "host/host.h"

namespace longshore {

struct RankExchange {
    SessionStream* stream = nullptr;
    uint64_t id = 0;
    uint32_t size = 0;
    void* out = nullptr;
    size_t bytes = 0;
    int state = LS_OK;

    static int start(void* user, const void* in, void* out, size_t bytes) {
        auto& self = *static_cast<RankExchange*>(user);
        self.out = out;
        self.bytes = bytes;
        self.state = LS_IN_PROGRESS;
        SessionExchange give;
        give.id = self.id;
        const auto* first = static_cast<const std::byte*>(in);
        give.bytes.assign(first, first + bytes);
        self.stream->send(SessionKind::kExchange, give);
        return LS_OK;
    }
    static int test(void* user) { return static_cast<RankExchange*>(user)->state; }
    void take(const SessionExchange& all) {
        if (state != LS_IN_PROGRESS) return;
        state = all.ok && all.bytes.size() == bytes * size ? LS_OK : LS_ERR_UNAVAILABLE;
        if (state == LS_OK) memcpy(out, all.bytes.data(), all.bytes.size());
    }
    ls_exchange api(uint32_t rank) { return {this, rank, size, &start, &test}; }
};

}  // namespace longshore
