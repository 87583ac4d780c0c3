// The three phases of the sort, and the check of its result. All are collective over `Job::ranks`, and throw
// FileError or std::runtime_error.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "layout.h"
#include "options.h"
#include "sink.h"
#include "temporary.h"
#include "trial.h"

namespace bigsort {

struct Job {
    Options options;
    MPI_Comm world = MPI_COMM_WORLD;  // ranks and peers
    MPI_Comm ranks = MPI_COMM_NULL;   // those that sort
    int rank = 0, ranks_count = 1;
    int peer = -1;  // in `world`; -1: none
    Temporary* temporary = nullptr;
    std::uint64_t values_count = 0;  // of all ranks
    std::string output;
    // Rank 0 shows how far it is: the phase, and the done part of it.
    std::function<void(int phase, double part)> progress;
};

// What phase 1 has left in `path` on this rank, and the tally of the values that this rank has read.
struct Bin {
    std::string path;
    std::uint64_t values = 0;
    Tally read;
};

Bin distribute(const Job& job);

struct LocalSort {
    Layout layout;
    std::string path;  // of the sorted values; empty where there are none
    double seconds = 0;
    bool offloaded = false;  // what --offload auto has chosen, else whether there was a peer
    longshore_pool_counters tasks = {};
    bool tried = false;
    double tried_rank_s = 0, tried_peer_s = 0;  // what all would take either way, as the trial has it
    std::vector<double> cycle_s;
};

LocalSort sort_locally(const Job& job, const Bin& bin);

// Writes the output. Returns the seconds that it took.
double join(const Job& job, const LocalSort& sorted);

// Reads the output again and compares with what was read. Returns what is wrong; empty: nothing. The same on
// all ranks.
std::string check(const Job& job, const Tally& expected);

}  // namespace bigsort
