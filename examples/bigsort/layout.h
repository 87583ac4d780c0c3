// The cycles of the local sort: which pages are in which file. Both sides of an offload compute it, so that a
// page needs no description. Pure arithmetic, no MPI.
//
// The values of a rank are cut into pages. Cycle 0 sorts pages and merges `fan_in` of them into a file; each
// further cycle merges `fan_in` files of the one before. A cycle writes all pages in order, from 0 to pages()
// - 1, and a file holds consecutive pages; only the last page of all may be shorter than the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace bigsort {

struct Layout {
    std::uint64_t values = 0;
    std::uint64_t page_values = 1;
    std::uint64_t fan_in = 2;  // M = DRAM / PAGE

    std::uint64_t pages() const { return (values + page_values - 1) / page_values; }

    // ceil(log_M pages), at least 1 where there is a page to sort.
    int cycles() const {
        int cycles = pages() > 0 ? 1 : 0;
        for (std::uint64_t span = fan_in; span < pages(); span *= fan_in) ++cycles;
        return cycles;
    }

    // Pages in a file that `cycle` writes, the last file excepted; of the cycle before the first it is one
    // page.
    std::uint64_t span_pages(int cycle) const {
        std::uint64_t span = 1;
        for (int i = 0; i <= cycle && span < pages(); ++i) span *= fan_in;
        return span;
    }

    std::uint64_t files(int cycle) const { return (pages() + span_pages(cycle) - 1) / span_pages(cycle); }
    std::uint64_t first_page(int cycle, std::uint64_t file) const {
        return std::min(file * span_pages(cycle), pages());
    }
    std::uint64_t pages_of(int cycle, std::uint64_t file) const {
        return first_page(cycle, file + 1) - first_page(cycle, file);
    }
    // In pages [begin, end).
    std::uint64_t values_between(std::uint64_t begin, std::uint64_t end) const {
        return std::min(end * page_values, values) - std::min(begin * page_values, values);
    }
    std::uint64_t values_of(int cycle, std::uint64_t file) const {
        return values_between(first_page(cycle, file), first_page(cycle, file + 1));
    }
    std::uint64_t page_writes() const { return pages() * std::uint64_t(cycles()); }
    std::uint64_t files_of_all_cycles() const {
        std::uint64_t files_count = 0;
        for (int cycle = 0; cycle < cycles(); ++cycle) files_count += files(cycle);
        return files_count;
    }
};

// Files [begin, end) of one cycle, which one side writes one after the other.
struct Stretch {
    int cycle = 0;
    std::uint64_t begin = 0, end = 0;
};

inline std::string file_path(const std::string& folder, int cycle, std::uint64_t file) {
    return folder + "/cycle" + std::to_string(cycle) + "-" + std::to_string(file);
}

}  // namespace bigsort
