// What fft is told on its command line.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "../names.h"
#include "pencil.h"

enum class Mode { kNonblocking, kBlocking, kBoth };
enum class Precision { kDouble, kSingle };

struct Options {
    Size3 size = {64, 64, 64};
    std::array<int, 2> grid = {0, 0};
    int variables = 4;
    int open_max = 0;
    int repeats = 10;
    int work_factor = 1;
    Mode mode = Mode::kNonblocking;
    Precision precision = Precision::kDouble;
    std::uint64_t seed = 1;
    std::string json, trace;
    bool check_once = false;

    bool nonblocking() const { return mode != Mode::kBlocking; }
    bool blocking() const { return mode != Mode::kNonblocking; }
};

inline const std::map<std::string, Mode> kModes = {
    {"nonblocking", Mode::kNonblocking}, {"blocking", Mode::kBlocking}, {"both", Mode::kBoth}};
inline const std::map<std::string, Precision> kPrecisions = {{"double", Precision::kDouble},
                                                             {"single", Precision::kSingle}};

// Returns -1 to go on, else the exit status. `speak`: say what is wrong, or the help.
int parse(int argc, char** argv, bool speak, Options& options);
