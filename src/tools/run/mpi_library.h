// Which MPI a program uses, and which shim core serves it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace longshore::tools {

// What Longshore has cores for, in words.
inline constexpr const char* kServedMpis = "Open MPI 4 and 5, MPICH 4 and 5, and the MPI-5 ABI";

struct MpiLibrary {
    std::string file;  // as programs name it: libmpi.so.40
    std::string name;  // Open MPI, MPICH, the MPI ABI, or "an MPI"
    std::string core;  // openmpi, mpich, abi, or "" if there is no core for it
};

// Nothing if a library of that name is no MPI.
std::optional<MpiLibrary> mpi_library(const std::string& file);

struct MpiUse {
    std::string program;  // the word of the command
    MpiLibrary library;
};

// The first of a command's words that is a program linked to an MPI, at whatever depth; launchers are passed
// over. Nothing if there is none: a script or an interpreter finds its MPI while it runs.
std::optional<MpiUse> find_mpi_use(const std::vector<std::string>& words);

// The library of the sanitizer that a word of a command is linked to, if that is a program, no launcher, and
// the library wants to be the first of the process: it has the allocator. Empty: there is none.
std::string sanitizer_of(const std::string& word);

// Of the launcher among the words of a command: where it stands, and whose it is ("openmpi", "mpich"; "": it
// does not say, as srun). Empty if there is none.
struct Launcher {
    size_t at = 0;
    std::string flavour;
};
std::optional<Launcher> find_launcher(const std::vector<std::string>& words);

// "liblongshore-<core>.so", and whether that is built.
std::string core_file(const std::string& core);
bool has_core(const std::string& core);
// That it is missing, and what to do about that.
std::string missing_core(const std::string& core);
std::string core_advice(const std::string& core);

}  // namespace longshore::tools
