#include "dpu/card/hello.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/little_endian.h"
#include "base/settings.h"

namespace longshore {
namespace {

constexpr uint32_t kLimitMaxS = 3600;  // as of LONGSHORE_LIMIT_S

}  // namespace

HelloReader::State HelloReader::refuse(GateCause cause, std::string reason) {
    refusal_ = {cause, std::move(reason)};
    return State::kRefused;
}

HelloReader::State HelloReader::read(int socket) {
    while (true) {
        const ssize_t got = recv(socket, &bytes_[filled_], wanted_ - filled_, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::kPartial;
        if (got <= 0) return refuse(GateCause::kBroken, "it ended before it had said who it is");
        filled_ += static_cast<size_t>(got);
        if (filled_ < wanted_) continue;
        if (wanted_ > kSessionHeaderBytes) return check_body();
        if (const State state = check_header(); state == State::kRefused) return state;
        if (wanted_ == kSessionHeaderBytes) return check_body();  // an empty one
    }
}

HelloReader::State HelloReader::check_header() {
    Reader r({bytes_.data(), kSessionHeaderBytes});
    const auto length = r.get<uint32_t>();
    const auto kind = r.get<uint16_t>();
    const auto zero = r.get<uint16_t>();
    kind_ = SessionKind{kind};
    const bool is_known = kind_ == SessionKind::kHello || is_of_tasks() || kind_ == SessionKind::kCopier;
    if (!is_known || zero != 0)
        return refuse(GateCause::kStranger, "this is not a rank of a job with Longshore");
    if (length > kHelloBytesMax)
        return refuse(GateCause::kBroken, "a first message of " + std::to_string(length) + " bytes");
    wanted_ = kSessionHeaderBytes + length;
    return State::kPartial;
}

HelloReader::State HelloReader::check_body() {
    const std::span<const std::byte> body(&bytes_[kSessionHeaderBytes], wanted_ - kSessionHeaderBytes);
    if (kind_ == SessionKind::kCopier && decode(body, &copier_)) return State::kCopier;
    if (is_of_tasks() && decode(body, &tasks_)) {
        if (tasks_.limit_s >= 1 && tasks_.limit_s <= kLimitMaxS) return State::kTasks;
        return refuse(GateCause::kValue, "a carrier that waits for " + std::to_string(tasks_.limit_s) + " s");
    }
    if (kind_ == SessionKind::kHello && decode(body, &hello_)) {
        if (const auto refusal = check_values(hello_)) return refuse(refusal->cause, refusal->reason);
        return State::kWhole;
    }
    Reader r(body);
    const auto magic = r.get<uint32_t>();
    const auto version = r.get<uint16_t>();
    if (!r.ok() || magic != kSessionMagic)
        return refuse(GateCause::kStranger, "this is not a rank of a job with Longshore");
    if (version != kSessionVersion)
        return refuse(GateCause::kVersion, "the rank speaks version " + std::to_string(version) +
                                               " of the protocol, this service version " +
                                               std::to_string(kSessionVersion) +
                                               ": install the same Longshore on both");
    if (body.size() == kSessionQuestionBytes && kind_ == SessionKind::kHello) return State::kQuestion;
    if (const auto refusal = check_values(hello_);
        hello_.size != 0 && refusal && refusal->cause == GateCause::kRank)
        return refuse(refusal->cause, refusal->reason);
    return refuse(GateCause::kBroken, "the first message is not whole");
}

std::optional<GateRefusal> check_values(const SessionHello& hello) {
    if (hello.rank >= hello.size)
        return GateRefusal{GateCause::kRank, "there is no rank " + std::to_string(hello.rank) + " of " +
                                                 std::to_string(hello.size)};
    // Each stand-in keeps something of every rank.
    if (hello.size > kJobRanksMax)
        return GateRefusal{GateCause::kRank, "a job of " + std::to_string(hello.size) + " ranks; at most " +
                                                 std::to_string(kJobRanksMax) + " are served"};
    // As a setting it means that the ranks choose; they have chosen by now.
    if (hello.service_count == 0)
        return GateRefusal{GateCause::kValue, "a job needs a service process at least"};
    const std::pair<const char*, std::string> values[] = {
        {"LONGSHORE_SERVICE_COUNT", std::to_string(hello.service_count)},
        {"LONGSHORE_SERVICE_READS_MAX", std::to_string(hello.service_reads_max)},
        {"LONGSHORE_SERVICE_SPIN_US", std::to_string(hello.service_spin_us)},
        {"LONGSHORE_SERVICE_RESTARTS_MAX", std::to_string(hello.service_restarts_max)},
        {"LONGSHORE_LIMIT_S", std::to_string(hello.limit_s)},
        {"LONGSHORE_EAGER_BYTES", std::to_string(hello.eager_bytes)},
        {"LONGSHORE_CHUNK_BYTES", std::to_string(hello.chunk_bytes)},
        {"LONGSHORE_STAGING_BYTES", std::to_string(hello.staging_bytes)},
        {"LONGSHORE_SERVICE_CORES", hello.cores},
    };
    Settings settings;
    SettingError error;
    for (const auto& [name, value] : values) {
        if (!set_setting(name, value, &settings, &error))
            return GateRefusal{GateCause::kValue, error.message};
    }
    return std::nullopt;
}

}  // namespace longshore
