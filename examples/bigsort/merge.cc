#include "merge.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "file_writer.h"

namespace bigsort {

bool Run::refill() {
    const std::size_t values = std::min<std::uint64_t>(left_in_file, buffer_values);
    if (values == 0) return false;
    read_all(file, path, buffer, values * sizeof(Value));
    left_in_file -= values;
    next = buffer;
    end = buffer + values;
    return true;
}

Merger::Merger(std::vector<Run>& runs)
    : runs_(runs), heads_(std::bit_ceil(std::max<std::size_t>(runs.size(), 2))), losers_(heads_.size()) {
    for (std::size_t i = 0; i < heads_.size(); ++i) load(i);
    losers_[0] = play(1);
}

// The winner among the leaves below `node`. The leaves are behind the inner nodes.
std::size_t Merger::play(std::size_t node) {
    if (node >= heads_.size()) return node - heads_.size();
    const std::size_t left = play(2 * node), right = play(2 * node + 1);
    const bool right_wins = heads_[right].before(heads_[left]);
    losers_[node] = right_wins ? left : right;
    return right_wins ? right : left;
}

void Merger::load(std::size_t run) {
    Head& head = heads_[run];
    if (run < runs_.size() && (runs_[run].next != runs_[run].end || runs_[run].refill())) {
        head = {*runs_[run].next++, false};
        return;
    }
    head = {std::numeric_limits<Value>::max(), true};
}

void Merger::take(Value* values, std::size_t values_count) {
    std::size_t winner = losers_[0];
    for (std::size_t i = 0; i < values_count; ++i) {
        values[i] = heads_[winner].value;
        Run& run = runs_[winner];
        if (run.next != run.end)
            heads_[winner].value = *run.next++;
        else
            load(winner);
        for (std::size_t node = (winner + heads_.size()) / 2; node > 0; node /= 2)
            if (heads_[losers_[node]].before(heads_[winner])) std::swap(losers_[node], winner);
    }
    losers_[0] = winner;
}

}  // namespace bigsort
