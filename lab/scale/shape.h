// What is measured: a job of equal nodes, one collective, when ranks enter, and when the modelled nodes send.
#pragma once

#include "host/job_limits.h"

namespace longshore::scale {

// When ranks of a node enter an operation.
enum class Entry : uint8_t {
    kTogether,   // all at once
    kStaggered,  // one after the other, `stagger_rounds` apart, in the same order on every node
    kLast,       // all at once, when the modelled nodes have told all they have (with kEarly)
};

// When modelled service processes send.
enum class Pace : uint8_t {
    kInStep,  // with the real ones: what a real one sends to the node d places before its own, the modelled
              // one d places behind sends to it
    kEarly,  // they tell all at the beginning, one peer a round, in a random order, and acknowledge what they
             // are told `answer_rounds` later
};

struct Shape {
    uint32_t nodes = 8, ranks = 8, services = 1;  // ranks and services of each node
    uint32_t real_nodes = 1;                      // the first ones; all others are modelled
    Collective collective = Collective::kAlltoall;
    uint64_t block_bytes = 1024;  // of the largest block, where they differ
    Entry entry = Entry::kTogether;
    Pace pace = Pace::kInStep;
    uint32_t stagger_rounds = 1000;
    uint32_t read_rounds = 16;  // a read takes so many rounds
    uint32_t answer_rounds = 64;
    uint64_t seed = 1;
    bool equal = false;    // all blocks are of block_bytes, also of v-forms
    bool repeats = false;  // rows may be told again, as time passes and they are not acknowledged
    bool helps = true;     // service processes of a node take of each other's work
    // 0: as the job's supervisor would choose.
    uint32_t rows_max = 0, reads_queued_max = 0;
    uint64_t groups_bytes = 0;

    uint32_t size() const { return nodes * ranks; }
    bool valid() const {
        return nodes >= 2 && ranks >= 1 && services >= 1 && ranks % services == 0 &&
               ranks <= kRanksPerNodeMax && real_nodes >= 1 && real_nodes <= nodes && nodes <= 4096 &&
               block_bytes >= 64;
    }
    JobSize job() const {
        JobSize j;
        j.nodes = nodes;
        j.local_ranks = ranks;
        j.ranks = size();
        j.services = services;
        return j;
    }
    NodeLimits node_limits() const {
        NodeLimits l = node_limits_for(job());
        if (groups_bytes != 0) l.groups_bytes = groups_bytes;
        return l;
    }
    ServiceLimits service_limits() const {
        ServiceLimits l = service_limits_for(job());
        if (!helps) l.help_bytes = 0;
        if (rows_max != 0) l.rows_max = rows_max;
        if (reads_queued_max != 0) l.reads_queued_max = reads_queued_max;
        return l;
    }
};

}  // namespace longshore::scale
