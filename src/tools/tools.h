// The longshore command. Each add_ function adds one subcommand, whose callback leaves its exit code in
// *exit_code; a subcommand that starts another program replaces this process and does not come back.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace longshore::tools {

// Exit codes, the same for every subcommand. 125 to 127 are those of env(1) and timeout(1).
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;           // what was asked could not be done, or a check failed
inline constexpr int kUsage = 2;            // a bad command line or setting
inline constexpr int kNotReady = 125;       // nothing was started: a part of Longshore or an MPI is missing
inline constexpr int kNotExecutable = 126;  // the command is there but cannot be executed
inline constexpr int kNotFound = 127;       // the command is not there

// The command that follows the options, where one does: see split_words() in command.cc.
using Words = std::vector<std::string>;
void add_run(CLI::App& app, const Words* words, int* exit_code);
void add_assess(CLI::App& app, const Words* words, int* exit_code);
void add_env(CLI::App& app, const Words* words, int* exit_code);
void add_doctor(CLI::App& app, const Words* words, int* exit_code);
void add_completion(CLI::App& app, const Words* words, int* exit_code);
void add_config(CLI::App& app, const Words* words, int* exit_code);
void add_tune(CLI::App& app, const Words* words, int* exit_code);
void add_timeline(CLI::App& app, const Words* words, int* exit_code);
void add_status(CLI::App& app, const Words* words, int* exit_code);

}  // namespace longshore::tools
