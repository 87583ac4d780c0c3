// Which MPI to use, for the subcommands that start an MPI program of Longshore's own.
#pragma once

#include <string>
#include <vector>

namespace longshore::tools {

inline constexpr const char* kFlavours[] = {"openmpi", "mpich"};

// The benchmark of collectives: for `bench` and `tune`.
inline constexpr const char* kBenchProgram = "longshore-bench";

// The program of that flavour, as `name`-openmpi beside this command.
std::string flavoured_program(const std::string& name, const std::string& flavour);

// The wanted flavour, or all, as far as both the program and an mpirun are there. Says what is missing only
// where the list is empty.
std::vector<std::string> ready_flavours(const std::string& subcommand, const std::string& program,
                                        const std::string& wanted);

// The wanted flavour, or the first, that has both the program and an mpirun; "" if there is none, and
// `subcommand` has said why.
std::string choose_flavour(const std::string& subcommand, const std::string& program,
                           const std::string& wanted);

// One rank for each core, at least 2.
unsigned default_ranks();

// mpirun of that flavour with what it needs here: more ranks than cores, none bound, also as root.
// mpirun_words: without the number of ranks.
std::vector<std::string> mpirun_words(const std::string& flavour);
std::vector<std::string> mpirun_command(const std::string& flavour, unsigned ranks);

}  // namespace longshore::tools
