// How the examples read their command lines: every rank does, and one of them speaks.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>

// Returns -1 to go on, else the exit status. `complete` makes of the words that were read what the program
// wants, and throws CLI::ValidationError where it cannot.
template <typename Complete>
int read_command_line(CLI::App& app, int argc, char** argv, bool speak, Complete complete) {
    try {
        app.parse(argc, argv);
        complete();
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        const int status = app.exit(error, out, err);
        if (speak) fmt::print("{}", out.str());
        if (speak) fmt::print(stderr, "{}", err.str());
        return status == 0 ? 0 : 2;
    }
    return -1;
}
