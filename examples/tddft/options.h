// The command line.
#pragma once

#include <string>

#include "layout.h"
#include "physics.h"

struct Options {
    Layout layout;
    Physics physics;
    Pace pace;
    int steps = 40, allgathers = 0 /* in all steps; 0: one in each */, repeats = 3;
    bool allgatherv = false;
    std::string json;
    bool progress = true;
};

// Returns -1 to go on, else the exit status. Only a rank that speaks prints.
int parse(int argc, char** argv, bool speak, Options& options);
const char* name_of(Problem problem);
