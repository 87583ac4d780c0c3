// Where the parts of an installation lie, and starting other programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace longshore::tools {

// The folder that holds bin/, lib/ and share/: found from the running executable, so a moved tree still
// works.
std::string root_folder();

// The folder of that tree with the preloaded library and its parts.
std::string library_folder();

// Whether this program lies where it was built; else in an installation.
bool is_build_tree();

// What to do where a part is missing: "build it with 'make build'", or in an installation to install it
// again.
std::string missing_part_advice();

bool is_file(const std::string& path);

// The program as execvp would find it, or "" if it is not there.
std::string find_program(const std::string& name);

// Replaces this process. Comes back only when that fails: says why, and what to do, and returns the exit
// code.
int execute(const std::vector<std::string>& command);

// Starts a command, its stdout going to `output` unless that is -1, and runs `meanwhile` before it waits for
// the end; returns its exit code. A signal that asks this process to end is the command's to obey: then this
// throws Interrupted (tools/interruption.h).
int run_and_wait(const std::vector<std::string>& command, int output = -1,
                 const std::function<void()>& meanwhile = {});

struct Output {
    int exit_code = -1;  // -1: did not run, or died of a signal
    std::string text;    // stdout and stderr together
};

// Runs a short command to its end. `environment` is added to the current one ("NAME=VALUE").
Output capture(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});

}  // namespace longshore::tools
