// longshore-device: what a machine and the network between two can do. It needs no MPI and no other library,
// so that it runs on a DPU as well; 'longshore device' starts it.
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "device/exporting.h"
#include "device/memory.h"
#include "device/network.h"
#include "device/registration.h"
#include "device/report.h"
#include "device/service.h"
#include "device/signals.h"

namespace longshore::device {
namespace {

constexpr int kOk = 0, kFailed = 1, kUsage = 2;
constexpr const char* kTests[] = {"memcpy",  "process",  "stream",  "signals",
                                  "service", "register", "network", "ucx"};

constexpr const char* kHelp =
    R"(Usage: longshore device [--to HOST:PORT] [--only TESTS] [--quick] [--json FILE]
       longshore device --listen [ADDRESS:]PORT
       longshore device compare A.json B.json [-o PICTURE]
       longshore device draw FILE.json -o PICTURE
       longshore device machine FILE.json [--dpu DPU.json] [--host-dpu HD.json] [-o MACHINE.toml]

Measures what this machine can do, and the network to another one.

  memcpy    what one core copies, 64 B to 1 GB
  process   the same out of another process's memory, as service processes read
  stream    STREAM's four loops over 10 and 100 million doubles, by threads
  signals   a word from core to core; waking a process that sleeps
  service   what a service process does for each message and block, without the bytes
  register  making memory known to an RDMA card and exporting it to a DPU, where there are such
  network   TCP to the far end: latency, bandwidth each way and both, small messages
  ucx       UCX to the far end: messages, reads and writes of its memory

  --to HOST:PORT        the far end, where 'longshore device --listen' runs
  --listen [ADDR:]PORT  be the far end, for one near end: it moves bytes for whoever connects first
  --only TESTS          some of the above, with commas (default: all; network and ucx with --to alone)
  --quick               some seconds: it shows that all works
  --repeats N           samples of each row (default: 10, of the network 7)
  --json FILE           write all samples
  -h, --help            show this help

Means are of all samples, beside the least and the largest. Nothing else should run meanwhile.
Exit code: 0 done, 1 something could not be measured or a result was wrong, 2 bad option.)";

int usage_error(const std::string& what) {
    fprintf(stderr, "longshore-device: %s\nSee 'longshore device --help'.\n", what.c_str());
    return kUsage;
}

struct Options {
    std::set<std::string> only;
    std::string to, listen, json;
    Effort effort;
};

// kOk, or an exit code; negative: done, all is well.
int read_options(int argc, char** argv, Options* options) {
    const option known[] = {
        {"to", required_argument, nullptr, 't'},      {"listen", required_argument, nullptr, 'l'},
        {"only", required_argument, nullptr, 'o'},    {"quick", no_argument, nullptr, 'q'},
        {"repeats", required_argument, nullptr, 'r'}, {"json", required_argument, nullptr, 'j'},
        {"help", no_argument, nullptr, 'h'},          {}};
    int repeats = 0;
    opterr = 0;
    for (int c = 0; (c = getopt_long(argc, argv, ":h", known, nullptr)) != -1;) {
        const std::string value = optarg != nullptr ? optarg : "";
        if (c == 'h') {
            puts(kHelp);
            return -1;
        } else if (c == 't') {
            options->to = value;
        } else if (c == 'l') {
            options->listen = value.find(':') == value.npos ? ":" + value : value;
        } else if (c == 'q') {
            options->effort.quick = true;
        } else if (c == 'j') {
            options->json = value;
        } else if (c == 'r') {
            char* end = nullptr;
            repeats = static_cast<int>(strtol(value.c_str(), &end, 10));
            if (*end != 0 || repeats < 1 || repeats > 1000)
                return usage_error("--repeats " + value + ": 1 to 1000");
        } else if (c == 'o') {
            for (size_t at = 0; at <= value.size();) {
                const size_t end = std::min(value.find(',', at), value.size());
                options->only.insert(value.substr(at, end - at));
                at = end + 1;
            }
        } else {
            return usage_error(c == ':' ? std::string(argv[optind - 1]) + " needs a value"
                                        : "unknown option " + std::string(argv[optind - 1]));
        }
    }
    if (optind < argc) return usage_error(std::string("unknown argument ") + argv[optind]);
    for (const std::string& test : options->only) {
        bool is_known = false;
        for (const char* one : kTests) is_known |= test == one;
        if (!is_known)
            return usage_error("--only " + test +
                               ": memcpy, process, stream, signals, service, register, network or ucx");
    }
    for (const char* test : {"network", "ucx"})
        if (options->only.contains(test) && options->to.empty())
            return usage_error(std::string("--only ") + test + ": --to HOST:PORT says where the far end is");
    if (!options->listen.empty() &&
        (!options->to.empty() || !options->only.empty() || !options->json.empty()))
        return usage_error("--listen: the far end only answers");
    if (options->effort.quick) options->effort.memory_repeats = options->effort.network_repeats = 2;
    if (repeats != 0) options->effort.memory_repeats = options->effort.network_repeats = repeats;
    return kOk;
}

int be_far_end(const std::string& where) {
    NetworkAddress here;
    if (!read_address(where, &here)) return usage_error("--listen: [ADDRESS:]PORT is expected");
    const std::string problem = listen_for_one(here);
    if (!problem.empty()) fprintf(stderr, "longshore-device: %s\n", problem.c_str());
    return problem.empty() ? kOk : kFailed;
}

int measure(const Options& options) {
    NetworkAddress far;
    if (!options.to.empty() && !read_address(options.to, &far))
        return usage_error("--to: HOST:PORT is expected");
    // Before anything is measured: it would be lost.
    if (!options.json.empty()) {
        std::string why;
        if (!can_write_output_file(options.json, &why))
            return usage_error("--json " + options.json + ": " + why);
    }
    const MachineFacts machine = look_at_machine();
    print_machine(machine);
    std::vector<Row> rows;
    std::vector<std::string> remarks, left_out;
    const Report report = [&](Row row) {
        print_row(row, rows.empty() ? "" : rows.back().test);
        rows.push_back(std::move(row));
    };
    const Tell remark = [&](const std::string& what) {
        printf("# %s\n", what.c_str());
        remarks.push_back(what);
    };
    const Tell leave_out = [&](const std::string& what) {
        fprintf(stderr, "longshore-device: left out: %s\n", what.c_str());
        left_out.push_back(what);
    };
    const bool shows = isatty(STDERR_FILENO) != 0;
    const auto is_wanted = [&](const char* test) {
        return options.only.empty() || options.only.contains(test);
    };
    const auto wants = [&](const char* test) {
        const bool wanted = is_wanted(test);
        if (wanted && shows) fprintf(stderr, "\r\x1b[Kmeasuring: %s\r", test);
        return wanted;
    };
    int code = kOk;
    if (wants("memcpy")) measure_memcpy(machine, options.effort, report, leave_out);
    if (wants("process")) measure_process_copy(machine, options.effort, report, leave_out);
    if (wants("stream") && !measure_stream(machine, options.effort, report, leave_out)) {
        fprintf(stderr, "longshore-device: stream: a result is wrong: this machine cannot be trusted\n");
        code = kFailed;
    }
    if (wants("signals")) measure_signals(machine, options.effort, report, leave_out);
    if (wants("service")) measure_service(machine, options.effort, report, leave_out);
    if (wants("register")) {
        measure_registration(options.effort, report, leave_out);
        measure_exporting(options.effort, report, leave_out);
    }
    const Wanted wanted{is_wanted("network"), is_wanted("ucx")};
    if (!options.to.empty() && (wanted.tcp || wanted.ucx)) {
        if (shows) fprintf(stderr, "\r\x1b[Kmeasuring: network\r");
        const std::string problem = measure_network(far, wanted, options.effort, report, remark, leave_out);
        if (!problem.empty()) {
            fprintf(stderr, "longshore-device: network: %s\n", problem.c_str());
            code = kFailed;
        }
    }
    if (shows) fprintf(stderr, "\r\x1b[K");
    if (options.json.empty()) return code;
    const std::string problem = write_json(options.json, machine, rows, remarks, left_out);
    if (!problem.empty()) fprintf(stderr, "longshore-device: %s\n", problem.c_str());
    return problem.empty() ? code : kFailed;
}

int run(int argc, char** argv) {
    Options options;
    if (const int code = read_options(argc, argv, &options); code != kOk) return code < 0 ? kOk : code;
    return options.listen.empty() ? measure(options) : be_far_end(options.listen);
}

}  // namespace
}  // namespace longshore::device

int main(int argc, char** argv) {
    return longshore::device::run(argc, argv);
}
