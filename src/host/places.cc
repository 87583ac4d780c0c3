#include "host/places.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/locality.h"
#include "base/prng.h"
#include "host/job_exchange.h"

namespace longshore {
namespace {

constexpr uint32_t kNodesMax = 65535;

uint64_t hash_text(uint64_t hash, const char* path, bool is_link) {
    char text[256] = {};
    ssize_t got = -1;
    if (is_link) {
        got = readlink(path, text, sizeof text);
    } else if (const Fd fd(open(path, O_RDONLY | O_CLOEXEC)); fd) {
        got = read(fd.get(), text, sizeof text);
    }
    for (ssize_t i = 0; i < got; ++i) hash = mix64(hash ^ static_cast<unsigned char>(text[i]));
    return mix64(hash + 1);
}

// By rank, numbered in the order of their first ranks. Processes that cannot see each other are on two, be
// they in containers of one.
std::vector<uint32_t> machines_of_ranks(const ls_context& c) {
    std::map<uint64_t, uint32_t> numbers;
    std::vector<uint32_t> machines;
    for (uint32_t r = 0; r < c.size; ++r)
        machines.push_back(
            numbers.try_emplace(received<Identity>(c, r).machine, static_cast<uint32_t>(numbers.size()))
                .first->second);
    return machines;
}

// What else of the job is where this rank is: emulated nodes, or those of the hosts that a DPU serves.
void share_computer(ls_context& c) {
    const uint64_t here = received<Identity>(c, c.rank).computer;
    c.machine_ranks = c.services_before = 0;
    for (uint32_t r = 0; r < c.size; ++r) {
        if (received<Identity>(c, r).computer != here) continue;
        ++c.machine_ranks;
        if (c.places[r].local == 0 && c.places[r].node < c.node) c.services_before += c.options.service_count;
    }
}

}  // namespace

uint64_t computer_identity() {
    uint64_t hash = hash_text(1, "/proc/sys/kernel/random/boot_id", false);
    for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net", "/proc/self/ns/user"})
        hash = hash_text(hash, space, true);
    return mix64(hash ^ geteuid());
}

// Of one DPU that serves two hosts each is a machine of its own.
uint64_t machine_identity(const ls_options& options) {
    const uint64_t computer = computer_identity();
    return options.host != nullptr ? mix64(computer ^ mix64(options.host->machine + 1)) : computer;
}

std::string place_ranks(ls_context& c) {
    const std::vector<uint32_t> machines = machines_of_ranks(c);
    const uint32_t machine_count = *std::max_element(machines.begin(), machines.end()) + 1;
    const bool hosts = c.options.host != nullptr;
    const uint32_t emulated = hosts ? 1 : std::max(1u, std::min(c.options.nodes_count, c.size));
    if (machine_count > kNodesMax) return "there are more than 65535 machines";
    if (machine_count > 1 && emulated > 1)
        log_line(c, c.rank == 0 ? 0 : 2,
                 "LONGSHORE_NODES_COUNT is for one machine: the nodes are the machines");
    c.network = hosts || machine_count > 1 || (emulated > 1 && c.options.network_always != 0);
    c.node_count = machine_count > 1 ? machine_count : emulated;
    c.places.resize(c.size);
    std::vector<uint32_t> counts(c.node_count);
    std::vector<std::vector<Seat>> seats(c.node_count);  // by local rank
    for (uint32_t r = 0; r < c.size; ++r) {
        const Identity who = received<Identity>(c, r);
        if (who.ok == 0) return "rank " + std::to_string(r) + " has no memory for it";
        const uint64_t node = machine_count > 1         ? machines[r]
                              : c.options.nodes_strided ? r % c.node_count
                                                        : uint64_t{r} * c.node_count / c.size;
        c.places[r].node = static_cast<uint16_t>(node);
        c.places[r].local = static_cast<uint16_t>(counts[node]++);
        seats[node].push_back(who.seat);
    }
    for (const uint32_t count : counts) {
        if (count > kRanksPerNodeMax) return "there are more than 512 ranks on a node";
    }
    std::vector<std::vector<uint16_t>> services;
    for (const auto& node : seats) services.push_back(share_ranks(node, c.options.service_count));
    for (Place& place : c.places) place.service = services[place.node][place.local];
    c.node = c.places[c.rank].node;
    c.local = c.places[c.rank].local;
    c.local_count = counts[c.node];
    share_computer(c);
    const uint32_t next = (c.local + 1) % c.local_count;
    for (uint32_t r = 0; r < c.size; ++r) {
        if (c.places[r].node != c.node || c.places[r].local != next) continue;
        const Identity neighbour = received<Identity>(c, r);
        c.neighbour_pid = neighbour.pid;
        c.neighbour_probe = neighbour.probe_address;
        c.neighbour_value = neighbour.probe_value;
    }
    return "";
}

}  // namespace longshore
