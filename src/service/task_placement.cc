#include "service/task_placement.h"

#include <algorithm>
#include <string_view>

#include "fabric/shm/cpu_mask.h"

namespace longshore {
namespace {

using Cpus = std::vector<int>;

template <class Condition>
Cpus those(const NodeCpus& node, Condition condition) {
    Cpus found;
    for (const NodeCpus::Cpu& cpu : node.all) {
        if (condition(cpu)) found.push_back(cpu.number);
    }
    return found;
}

// An equal number for each process, and not more than it has threads; with fewer CPUs than processes, one
// after the other has the next.
std::vector<tasks::TaskPlace> deal(const Cpus& cpus, uint32_t processes, uint32_t threads, bool are_alone) {
    std::vector<tasks::TaskPlace> places(processes);
    const size_t each = std::min<size_t>(cpus.size() / processes, threads);
    for (size_t i = 0; i < places.size() && !cpus.empty(); ++i) {
        if (each == 0) {
            places[i].cpus = {cpus[i % cpus.size()]};
            continue;
        }
        const auto first = cpus.begin() + static_cast<std::ptrdiff_t>(i * each);
        places[i].cpus.assign(first, first + static_cast<std::ptrdiff_t>(each));
        places[i].may_spin = are_alone;
    }
    return places;
}

Cpus of_other_sockets(const NodeCpus& node) {
    return those(node, [&](const NodeCpus::Cpu& cpu) {
        return !std::any_of(node.all.begin(), node.all.end(), [&](const NodeCpus::Cpu& other) {
            return other.of_rank && other.seat.package == cpu.seat.package;
        });
    });
}

}  // namespace

std::vector<tasks::TaskPlace> place_tasks(const NodeCpus& node, const char* cores, uint32_t processes,
                                          uint32_t threads, std::string* error) {
    const std::string_view wanted = cores;
    const auto fail = [&](const char* why) {
        *error = std::string("LONGSHORE_TASK_CORES=") + cores + ": " + why;
        return std::vector<tasks::TaskPlace>{};
    };
    const bool bound = node.ranks_are_bound;
    if (wanted == "none") return deal({}, processes, threads, false);
    if (wanted == "ranks")
        return deal(bound ? those(node, [](const auto& cpu) { return cpu.of_rank; }) : Cpus{}, processes,
                    threads, false);
    if (wanted == "other-socket") {
        if (!bound) return fail("ranks are bound to no socket (bind them, or list the cores)");
        const Cpus cpus = of_other_sockets(node);
        if (cpus.empty()) return fail("there is no other socket: ranks run on each of this node's");
        return deal(cpus, processes, threads, true);
    }
    if (wanted != "auto") {
        Cpus cpus;
        for (const int cpu : parse_cpu_list(cores)) {
            if (std::any_of(node.all.begin(), node.all.end(),
                            [&](const auto& one) { return one.number == cpu; }))
                cpus.push_back(cpu);
        }
        if (cpus.empty()) return fail("this job may use none of these cores on this node");
        const bool alone =
            bound && std::none_of(node.all.begin(), node.all.end(), [&](const auto& one) {
                return (one.of_rank || one.of_service) && std::count(cpus.begin(), cpus.end(), one.number);
            });
        return deal(cpus, processes, threads, alone);
    }
    if (!bound) return deal({}, processes, threads, false);
    const Cpus free = those(node, [](const auto& cpu) { return !cpu.of_rank && !cpu.of_service; });
    if (!free.empty()) return deal(free, processes, threads, free.size() >= processes);
    // A core that is shared with a service process, which then does not spin.
    return deal(those(node, [](const auto& cpu) { return !cpu.of_rank; }), processes, threads, false);
}

}  // namespace longshore
