#include "device/far_end.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "device/machine.h"
#include "device/ucx.h"

namespace longshore::device {
namespace {

bool carry_out(Connection& connection, const Request& request, std::vector<char>& out,
               std::vector<char>& in) {
    const uint64_t bytes = request.bytes;
    uint64_t word = request.count;
    switch (request.pattern) {
        case Pattern::kEcho:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.receive(in.data(), bytes) || !connection.send(in.data(), bytes)) return false;
            }
            return true;
        case Pattern::kEchoPolled:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.receive_polling(in.data(), bytes) || !connection.send(in.data(), bytes))
                    return false;
            }
            return true;
        case Pattern::kToFar:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.receive(in.data(), bytes)) return false;
            }
            return connection.send(&word, sizeof word);
        case Pattern::kFromFar:
            for (uint64_t i = 0; i < request.count; ++i) {
                if (!connection.send(out.data(), bytes)) return false;
            }
            return connection.receive(&word, sizeof word);
        default:
            return connection.exchange(bytes * request.count, bytes, out.data(), in.data());
    }
}

}  // namespace

std::string serve(Connection& connection) {
    std::vector<char> out, in;
    for (Request request; connection.receive(&request, sizeof request);) {
        // Where both ends are on one machine and look all the time, each needs a core of its own.
        std::optional<OnOwnCore> core;
        if (request.pattern == Pattern::kEchoPolled || request.pattern == Pattern::kUcx)
            core.emplace(OnOwnCore::Which::kLast);
        Answer answer;
        answer.reply = judge(request);
        std::optional<Ucx> ucx;
        if (answer.reply == Reply::kYes && request.pattern == Pattern::kUcx && !ucx.emplace().open().empty())
            answer.reply = Reply::kNoUcx;
        if (!connection.send(&answer, sizeof answer)) return "the near end has gone";
        if (answer.reply == Reply::kNoUcx) continue;
        if (answer.reply == Reply::kVersion)
            return "what has connected is not this version of longshore-device";
        if (answer.reply != Reply::kYes) return "it was asked for what it does not do";
        if (request.pattern == Pattern::kEnd) return "";
        bool alive = true;
        if (ucx.has_value()) {
            alive = ucx->serve(connection, request.bytes);
        } else {
            out.resize(std::max<size_t>(out.size(), request.bytes));
            in.resize(out.size());
            alive = carry_out(connection, request, out, in);
        }
        if (!alive) break;
    }
    return "the near end has gone, or was silent for 30 s";
}

}  // namespace longshore::device
