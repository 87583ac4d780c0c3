// What the subcommands share: usage lines and suggestions, the options of `run` and `bench` that become
// settings, and the environment of a started program.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/settings.h"

namespace longshore::tools {

struct LaunchOptions {
    std::string service, nodes, placement, stats, trace, log, algorithms;
    std::vector<std::string> settings;      // NAME=VALUE
    std::vector<std::string> write_behind;  // patterns
};

// The usage line of a command's help.
void set_usage(CLI::App* command, const std::string& usage);

void add_launch_options(CLI::App* command, LaunchOptions* options);
// One of them, which others have as well: --set NAME=VALUE, any number of times.
void add_set_option(CLI::App* command, std::vector<std::string>* settings);

// Exports the options as settings and checks all settings of the environment. Returns kOk, or says what is
// wrong and returns kUsage.
int export_settings(const LaunchOptions& options);

// The table of rules that the settings name, over `selection`. False, after saying what is wrong in the file.
bool load_algorithms(const Settings& settings, Selection* selection);

// Ranks may run in another folder than this command.
std::string absolute(const std::string& path);

// Whether a file can be written there, by the option that names it: or says why not.
bool can_write(const char* option, const std::string& path);

// Puts the shim into LD_PRELOAD, and the library that writes behind where that is wanted. Returns kOk, or
// says what is wrong and returns kNotReady.
int export_shim();

// "; did you mean NEAREST?" or "".
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace longshore::tools
