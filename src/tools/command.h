// The command line of longshore, and of each program that is one of its subcommands (other_programs.h).
#pragma once

#include <span>

#include "tools/tools.h"

namespace longshore::tools {

struct Subcommand {
    const char* name;
    // Null: it is a program of its own.
    void (*add)(CLI::App& app, const Words* words, int* exit_code);
    bool starts_command = false;  // what follows its options is a command, with options of its own
};

// Parses the arguments and does what they ask for; returns the exit code. The program of a subcommand is
// started as this one was, with the subcommand's name first.
int run_command(std::span<const Subcommand> subcommands, int argc, char** argv);

// What lets bash complete the arguments of the subcommands that this program has itself.
void print_completions(const CLI::App& app);

}  // namespace longshore::tools
