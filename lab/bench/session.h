// What all parts of the benchmark share in one launch: the ranks, the contenders, the preloaded library's
// hooks.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/clock.h"
#include "bench/collectives.h"
#include "bench/machine.h"
#include "bench/options.h"
#include "longshore.h"

namespace longshore::bench {

// The functions of longshore.h, where the preloaded library has them.
class Hooks {
  public:
    Hooks();  // looks them up; after MPI_Init
    bool present() const { return get_counters_ != nullptr; }
    bool offload_on() const;
    longshore_counters counters() const;  // all zero without the library
    // False where it cannot be set.
    bool set_cooperative(bool on) const;
    // "": as the settings say. False where the collective has no such algorithm.
    bool set_algorithm(const Collective& collective, const char* name) const;

    // Whether the library keeps times; false where it cannot.
    bool set_breakdown(bool on) const;
    longshore_times times() const;  // of the last operation; all zero without the library

  private:
    decltype(&longshore_get_counters) get_counters_ = nullptr;
    decltype(&longshore_set) set_ = nullptr;
    decltype(&longshore_get_times) get_times_ = nullptr;
};

struct Contender {
    const char* name;
    const Calls* calls;
    bool is_longshore;
    const char* algorithm = nullptr;  // to be forced, "" for none; null: no call reaches the library
    bool is_limit = false;            // copy_limit.h; makes no calls
};

struct Session {
    const Options& options;
    int rank = 0, ranks = 1;
    Hooks hooks;
    std::vector<Contender> contenders;
    bool cooperative_can_change = false;
    bool crowded = false;  // more ranks than cores
    std::string note;      // why a contender that was asked for is missing

    bool root() const { return rank == 0; }
    // Those that the collective has.
    std::vector<Contender> contenders_for(const Collective& collective) const;
    // To be called on all ranks before a contender's calls.
    void use(const Contender& contender, const Collective& collective) const;
    // Collective, past the preloaded library. With more ranks than cores, one that waits in the MPI's own
    // barrier may keep its core from those who are to enter it, and what was measured then is the scheduler:
    // this one yields.
    void barrier() const;
};

// Collective. Asks the library on every rank: the answer is the same on all.
Session make_session(const Options& options, const Machine& machine);

// Collective helpers over MPI_COMM_WORLD, past the preloaded library.
std::vector<double> max_over_ranks(const std::vector<double>& mine);  // result on rank 0
std::vector<double> mean_over_ranks(const std::vector<double>& mine);
double sum_over_ranks(double mine);  // result on rank 0
double from_root(double value);
bool any_rank(bool mine);

// Collective: prints the first rank's message, if any rank has one, and returns whether any has.
bool report_failure(const Session& session, const char* message);

}  // namespace longshore::bench
