// The contender: the same collective by the host's MPI, on the same machine. A rank's processor carries the
// messages of an algorithm, and only while the rank is in a call of MPI. Short messages go at once; of long
// ones the receiver is told and reads them, from another node by the cards, on its own node with its core.
#pragma once

#include <functional>

#include "model/job.h"

namespace longshore::timed {

// In each round a rank sends and receives; the next one begins when all of it is done. Messages of one rank
// to another are told apart by their round.
struct Message {
    uint32_t peer = 0;
    uint64_t bytes = 0;
};
struct Round {
    std::vector<Message> sends, receives;
};

struct HostAlgorithm {
    const char* name;
    const char* meaning;
    // The last: what programs do between collectives that the product carries (step_loop.h).
    enum class Carries : uint8_t { kAlltoall, kAllgather, kBcast, kStep };
    Carries carries;
    bool (*possible)(const Job& job);  // with so many ranks
    uint32_t (*rounds)(const Job& job);
    // What a rank does in a round, into *out, which is empty. All that it receives there is of one size.
    void (*round)(const Job& job, uint32_t rank, uint32_t number, Round* out);
};

std::span<const HostAlgorithm> host_algorithms();
const HostAlgorithm* find_host_algorithm(const std::string& name);
// Whether it carries this collective, with any number of ranks.
bool fits(const HostAlgorithm& algorithm, Collective collective);

// About how many events that has, how many seconds of a core they take, and how many bytes of memory a run
// needs.
uint64_t host_events_expected(const Job& job, const HostAlgorithm& algorithm);
double host_seconds_expected(const Job& job, const HostAlgorithm& algorithm);
uint64_t host_memory_needed(const Job& job, const HostAlgorithm& algorithm);

Outcome simulate_host(const Job& job, const HostAlgorithm& algorithm, Watcher* watcher = nullptr);

}  // namespace longshore::timed
