// Check of this host's DPU, where LONGSHORE_DPU names one: whether its service would take ranks from here.
#include "tools/doctor/doctor.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "base/dpu_map.h"
#include "base/settings.h"
#include "dpu/session/stream.h"
#include "dpu/transport/probe.h"
#include "tools/paths.h"

namespace longshore::tools {
namespace {

// Until the socket is ready or the time is over.
void wait_until(uint64_t end_ns, int fd, short events) {
    const uint64_t now = now_ns();
    pollfd ready{fd, events, 0};
    if (now < end_ns) poll(&ready, 1, static_cast<int>((end_ns - now) / 1'000'000 + 1));
}

// Empty: it would take ranks; else why not. `stranger`: what is there is no service of this version.
std::string ask(const std::string& address, uint32_t limit_s, bool* stranger) {
    const uint64_t end = now_ns() + limit_s * 1'000'000'000ull;
    const char* reason = nullptr;
    Fd socket = start_connecting(address.c_str(), &reason);
    if (!socket) return reason;
    int result = 0;
    while ((result = connect_result(socket)) == 0 && now_ns() < end) wait_until(end, socket.get(), POLLOUT);
    if (result == 0) return fmt::format("no connection within {} s (LONGSHORE_LIMIT_S)", limit_s);
    if (result < 0) return strerror(-result);
    SessionStream stream(std::move(socket), limit_s);
    const std::vector<std::byte> hello = encode(SessionHello{});
    stream.send(SessionKind::kHello, std::span(hello).first(kSessionQuestionBytes));
    SessionKind kind{};
    std::span<const std::byte> body;
    bool heard = false;
    while (!(heard = stream.receive(&kind, &body, kHelloBytesMax)) && stream.open() && now_ns() < end)
        wait_until(end, stream.fd(), POLLIN);
    SessionWelcome welcome;
    if (heard && kind == SessionKind::kWelcome && decode(body, &welcome))
        return welcome.ok ? "" : welcome.reason.empty() ? "no reason is given" : welcome.reason;
    *stranger = heard || !stream.open();
    return *stranger ? "what listens there is no longshored of this version"
                     : fmt::format("no answer within {} s (LONGSHORE_LIMIT_S)", limit_s);
}

// How service processes there would reach memory of this host. False: not as it is asked for.
bool try_reach(MemoryMode mode, std::string* found) {
    const char* const staged = "bytes go through memory of its service processes: ";
    if (mode == MemoryMode::kStaged) {
        *found = std::string(staged) + "LONGSHORE_MEMORY_MODE=staging";
        return true;
    }
    std::string error;
    const NetworkPart* const part =
        load_network(find_network(NetworkKind::kUcx, root_folder() + "/bin/"), &error);
    const std::unique_ptr<MemoryAgent> agent = part != nullptr ? part->open_agent(true, &error) : nullptr;
    Mapping page;
    if (agent && !make_export_probe(*agent, &page, &error).empty()) {
        *found = fmt::format(
            "{} exports memory here: where all DPUs of a job can make aliases of it, which is found out when "
            "it starts, cards move bytes from host to host, else they go through memory of its service "
            "processes",
            part->library());
        return true;
    }
    *found = staged + error;
    return mode == MemoryMode::kAuto;
}

}  // namespace

void check_dpu(Checks* checks) {
    Settings settings;
    parse_settings(environ, &settings, nullptr);  // check_settings() tells what is wrong
    if (settings.dpu.empty()) return;
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    std::string address, error;
    if (!find_dpu(settings.dpu, host, &address, &error))
        return checks->push_back({"dpu", Verdict::kFail, error, "correct or unset LONGSHORE_DPU"});
    bool stranger = false;
    const std::string problem = ask(address, settings.limit_s, &stranger);
    if (problem.empty()) {
        std::string reach;
        const bool ok = try_reach(settings.memory_mode, &reach);
        return checks->push_back({"dpu", ok ? Verdict::kGood : Verdict::kFail,
                                  fmt::format("{} answers, and takes ranks of {}; {}", address, host, reach),
                                  ok ? "" : "LONGSHORE_MEMORY_MODE=auto: direct cannot be had"});
    }
    checks->push_back(
        {"dpu", Verdict::kFail, fmt::format("{}: {}", address, problem),
         stranger ? "install the same Longshore on the DPU as here"
                  : "there 'longshored listen' must run, allow this host, and be let through by firewalls: "
                    "see its log"});
}

}  // namespace longshore::tools
