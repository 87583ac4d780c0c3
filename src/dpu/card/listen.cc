#include "dpu/card/listen.h"

#include <getopt.h>
#include <stdio.h>

#include <string>
#include <utility>
#include <vector>

#include "dpu/card/gate.h"
#include "dpu/card/stand_in_process.h"
#include "dpu/card/task_guard.h"
#include "fabric/shm/system.h"

namespace longshore {
namespace {

constexpr const char* kUsage =
    "Usage: longshored listen [--config FILE] [--address ADDRESS] [--port N] [--allow NETWORKS]\n"
    "                         [--job-users FIRST-LAST] [--check]\n"
    "\n"
    "The standing service of a DPU: takes the connections of ranks that have LONGSHORE_DPU, and serves each "
    "job by\n"
    "service processes here.\n"
    "\n"
    "  --config FILE      lines name = value, # begins a comment; --check shows all there are\n"
    "  --address ADDRESS  where to listen; default: at all addresses of this machine\n"
    "  --port N           default: 7521; 0: any that is free\n"
    "  --allow NETWORKS   from which ranks may come: 10.1.0.7/32, ...; must be set unless ADDRESS is one of "
    "loopback\n"
    "  --job-users FIRST-LAST  as root: run each job as one of these users, which nobody else has; else "
    "there "
    "is\n"
    "                     one job at a time\n"
    "  --check            print the configuration that holds, and end\n"
    "\n"
    "SIGHUP reads the file again, SIGUSR1 prints counters, SIGTERM ends the service, but no job.\n";

struct ListenOptions {
    std::string config_path;
    std::vector<std::pair<std::string, std::string>> values;  // they come before the file's
    bool check = false, help = false;
};

bool parse(int count, char** arguments, ListenOptions* options) {
    const option known[] = {{"config", required_argument, nullptr, 'c'},
                            {"address", required_argument, nullptr, 'a'},
                            {"port", required_argument, nullptr, 'p'},
                            {"allow", required_argument, nullptr, 'w'},
                            {"job-users", required_argument, nullptr, 'u'},
                            {"check", no_argument, nullptr, 'k'},
                            {"help", no_argument, nullptr, 'h'},
                            {nullptr, 0, nullptr, 0}};
    optind = 1;
    for (int letter; (letter = getopt_long(count, arguments, "h", known, nullptr)) != -1;) {
        switch (letter) {
            case 'c':
                options->config_path = optarg;
                break;
            case 'a':
                options->values.emplace_back("address", optarg);
                break;
            case 'p':
                options->values.emplace_back("port", optarg);
                break;
            case 'w':
                options->values.emplace_back("allow", optarg);
                break;
            case 'u':
                options->values.emplace_back("job_users", optarg);
                break;
            case 'k':
                options->check = true;
                break;
            case 'h':
                options->help = true;
                break;
            default:
                return false;
        }
    }
    if (optind < count) fprintf(stderr, "longshored listen: what is '%s'?\n", arguments[optind]);
    return optind >= count;
}

bool read_config(const ListenOptions& options, GateConfig* config, std::string* error) {
    GateConfig read;
    if (!options.config_path.empty() && !load_gate_config(options.config_path, &read, error)) return false;
    for (const auto& [name, value] : options.values) {
        if (set_gate_value(name, value, &read, error)) continue;
        *error = "--" + *error;
        return false;
    }
    if (!is_complete(read, error)) return false;
    *config = std::move(read);
    return true;
}

}  // namespace

int run_listen(int count, char** arguments) {
    ListenOptions options;
    if (!parse(count, arguments, &options)) {
        fprintf(stderr, "See 'longshored listen --help'.\n");
        return 2;
    }
    if (options.help) {
        fputs(kUsage, stdout);
        return 0;
    }
    GateConfig config;
    std::string error;
    if (!read_config(options, &config, &error)) {
        fprintf(stderr, "longshored listen: %s\n", error.c_str());
        return 2;
    }
    if (options.check) {
        fputs(show(config).c_str(), stdout);
        return 0;
    }
    const std::string program =
        own_program();  // read now: the file may be replaced while the service goes on
    Gate gate(
        std::move(config),
        [=](SessionStream stream, const SessionHello& hello, Fd door) {
            return exec_stand_in(std::move(stream), hello, std::move(door), program);
        },
        [=](GateConfig* again, std::string* wrong) { return read_config(options, again, wrong); },
        exec_task_guard);
    if (!gate.listen(&error)) {
        fprintf(stderr, "longshored listen: %s\n", error.c_str());
        return 1;
    }
    return gate.run();
}

}  // namespace longshore
