#include "tools/command.h"

int main(int argc, char** argv) {
    using namespace longshore::tools;
    // In the order of 'longshore --help'.
    constexpr Subcommand subcommands[] = {
        {"run", add_run, true},     {"assess", add_assess, true}, {"env", add_env},
        {"doctor", add_doctor},     {"config", add_config},       {"completion", add_completion},
        {"status", add_status},     {"bench", nullptr},           {"tune", add_tune},
        {"dpu-bench", nullptr},     {"device", nullptr},          {"simulate", nullptr},
        {"timeline", add_timeline},
    };
    return run_command(subcommands, argc, argv);
}
