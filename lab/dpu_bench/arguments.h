// The command line of one launch of the benchmark: the options that it shares with the command, and its own.
#pragma once

#include <optional>

#include "dpu_bench/options.h"

namespace longshore::dpu_bench {

struct Arguments {
    Options options;
    int workers = 0;
    bool append = false, progress = false;
    std::optional<std::size_t> spoilt_byte;
};

// Returns -1 to go on, else the exit status. Only the first process of a job prints help and errors.
int parse(int argc, char** argv, Arguments* arguments);

}  // namespace longshore::dpu_bench
