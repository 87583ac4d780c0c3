// Starting the benchmark of one MPI: for `bench` and `tune`.
#pragma once

#include <string>
#include <vector>

namespace longshore::tools {

inline constexpr const char* kFlavours[] = {"openmpi", "mpich"};

std::string bench_program(const std::string& flavour);

// The first flavour whose benchmark and mpirun are there, of `wanted` or of all; "" after saying on behalf of
// `command` what is missing.
std::string choose_flavour(const std::string& wanted, const char* command);

// One rank for each core, at least 2.
unsigned default_ranks();

// mpirun and the benchmark, without its arguments.
std::vector<std::string> bench_command(const std::string& flavour, unsigned ranks);

}  // namespace longshore::tools
