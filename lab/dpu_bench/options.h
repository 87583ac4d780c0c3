// The options that the command and the program share. The command hands them on to the program it starts.
#pragma once

#include <string>
#include <vector>

#include "dpu_bench/mover.h"
#include "dpu_bench/plan.h"

namespace CLI {
class App;
}

namespace longshore::dpu_bench {

// What hosts do while the workers move data. Automatic: work where every rank has a core, else sleep, because
// computing hosts would sit on the cores that stand for those of the DPUs.
enum class Compute { kAuto, kWork, kSleep };

struct Options {
    std::vector<Pattern> patterns;
    std::vector<Assignment> assignments;
    std::vector<std::size_t> sizes;  // ascending
    int nodes = 2;
    int iterations = 1000, warmup = 10, runs = 4;
    double time_limit_s = 1;  // of one timed loop; 0: none
    Compute compute = Compute::kAuto;
    MoverKind mover = MoverKind::kProcessVm;
    std::string device;  // of verbs; "": the first active one
    bool allow_equal = false;
    std::string json;
};

const char* to_string(Compute compute);

// Adds them to a command line. After parsing, checks what the types cannot, sorts, and fills in what was left
// out; throws CLI::ValidationError.
void add_options(CLI::App* command, Options* options);
void finish_options(Options* options);

// The options as words of a command line.
std::vector<std::string> to_arguments(const Options& options);

// A line on stdout that begins so is not for the user, but "ROW ROWS WHAT" for the command, which shows it:
// the launcher forwards stderr apart from stdout, so only on one of them do progress and tables keep their
// order.
inline constexpr char kProgressMark[] = "@progress ";

}  // namespace longshore::dpu_bench
