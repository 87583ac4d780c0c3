#include "base/locality.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace longshore {

std::vector<uint16_t> share_ranks(std::span<const Seat> seats, uint32_t services) {
    std::vector<size_t> order(seats.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seats[a] < seats[b]; });
    std::vector<uint16_t> service(seats.size());
    for (size_t i = 0; i < order.size(); ++i)
        service[order[i]] = static_cast<uint16_t>(i * services / order.size());
    return service;
}

std::vector<int> choose_cpus(std::span<const Seat> ranks, uint32_t services,
                             std::span<const SpareCpu> spare) {
    const std::vector<uint16_t> service = share_ranks(ranks, services);
    std::set<Seat> used;
    for (const Seat& seat : ranks)
        if (seat.core != Seat::kAnywhere) used.insert(seat);
    std::vector<int> chosen(services, -1);
    std::vector<bool> gone(spare.size());
    for (uint32_t s = 0; s < services; ++s) {
        std::map<uint32_t, uint32_t> packages;
        for (size_t r = 0; r < ranks.size(); ++r)
            if (service[r] == s) ++packages[ranks[r].package];
        uint32_t home = Seat::kAnywhere, most = 0;
        for (const auto& [package, count] : packages)
            if (count > most) home = package, most = count;
        // Whether it is beside another, whether it is far, and its place: the least is best.
        std::tuple<bool, bool, size_t> best{true, true, spare.size()};
        for (size_t i = 0; i < spare.size(); ++i)
            if (!gone[i])
                best = std::min(best, {used.contains(spare[i].seat), spare[i].seat.package != home, i});
        const size_t i = std::get<2>(best);
        if (i == spare.size()) break;
        gone[i] = true;
        if (spare[i].seat.core != Seat::kAnywhere) used.insert(spare[i].seat);
        chosen[s] = spare[i].cpu;
    }
    return chosen;
}

}  // namespace longshore
