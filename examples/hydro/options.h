// What hydro is told on its command line.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "../names.h"
#include "problems.h"

enum class Way { kNone, kInline, kMpmd, kTasks, kAuto };
inline const std::map<std::string, Way> kWays = {{"none", Way::kNone},
                                                 {"inline", Way::kInline},
                                                 {"mpmd", Way::kMpmd},
                                                 {"tasks", Way::kTasks},
                                                 {"auto", Way::kAuto}};
inline const std::map<std::string, int> kVariants = {{"v1", 1}, {"v2", 2}};

struct Options {
    Problem problem;
    std::int64_t cycles_max = 0;  // 0: to the end time
    int warm_up = 5;
    Way way = Way::kNone;
    int variant = 1;
    double slow = 1;
    bool keep = false;
    std::string json;
    bool progress = true;
};

// Returns -1 to go on, else the exit status. `speak`: say what is wrong, or the help.
int parse(int argc, char** argv, bool speak, Options& options);
// The same of the process beside a rank.
int parse_peer(int argc, char** argv, bool speak, double& slow);
