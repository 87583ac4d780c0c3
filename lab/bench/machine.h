// Which machine, MPI and commit the numbers belong to.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace longshore::bench {

struct Machine {
    std::string cpu, kernel, mpi, commit, date;
    int cores = 0;          // that the ranks of the first node may use together
    int cores_of_rank = 0;  // that rank 0 may use: fewer if the launcher binds ranks
    int ranks = 0, nodes = 0, ranks_here = 0;
    bool has_one_clock = false;  // one kernel runs all ranks, as on one node, or on namespaces of one machine
    // us until a process that sleeps on another core runs again once it is woken; 0: not measured (one core).
    double wake_median = 0, wake_p99 = 0;
};

Machine describe_machine();  // collective
void print(const Machine& machine);
nlohmann::json to_json(const Machine& machine);

}  // namespace longshore::bench
