// longshore run: sets the environment and becomes the command. Starts nothing that stays.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/settings.h"
#include "tools/paths.h"
#include "tools/run/launch.h"
#include "tools/run/mpi_library.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr const char* kRunFooter = R"(Examples:
  longshore run mpirun -np 8 ./program
  longshore run --service 2 --stats - -- mpirun -np 8 ./program --its-own-option
  longshore run --nodes 2 --trace trace.json mpirun -np 4 ./program
  longshore run --set chunk_bytes=128K mpirun -np 8 ./program
  longshore run --write-behind '/scratch/run7/*.ckpt' mpirun -np 8 ./program

One line on stderr says which MPI the command uses and which shim serves it.

To other hosts Open MPI hands on only what it is told to: where its mpirun is given hosts, -x LD_PRELOAD and
-x for each LONGSHORE_ variable are added to its arguments. MPICH hands on the whole environment.

Exit code: that of COMMAND; 125 a bad option or setting, a launcher of another MPI, or a shim that is not there;
126 COMMAND cannot be executed; 127 COMMAND not found.)";

struct RunOptions {
    LaunchOptions launch;
    bool quiet = false, force = false;
};

// A launcher of one MPI starts a program of another as so many jobs of one rank. Returns kOk, or what to exit
// with, after saying so.
int check_launcher(const std::optional<Launcher>& launcher, const Words& words, bool force) {
    const auto use = launcher && !launcher->flavour.empty() ? find_mpi_use(words) : std::nullopt;
    const std::string program = use ? use->library.core : "";
    if ((program != "openmpi" && program != "mpich") || program == launcher->flavour) return kOk;
    fmt::print(
        stderr,
        "longshore: {} is the launcher of {}, but {} uses {}: each rank would be a job of its own; {}\n",
        words[launcher->at], launcher->flavour == "openmpi" ? "Open MPI" : "MPICH", use->program,
        use->library.name,
        force ? "started all the same, because of --force"
              : fmt::format("use mpirun.{} or the like, or --force", program));
    return force ? kOk : kNotReady;
}

// Open MPI's launcher hands on to other hosts only what it is told to.
Words with_environment(const Words& words, const std::optional<Launcher>& launcher) {
    if (!launcher || launcher->flavour != "openmpi") return words;
    const auto is_one_of = [](const std::string& word, std::initializer_list<const char*> list) {
        return std::any_of(list.begin(), list.end(), [&](const char* one) { return word == one; });
    };
    bool other_hosts = false;
    for (const std::string& word : words)
        other_hosts |= is_one_of(word, {"--hostfile", "-hostfile", "--machinefile", "-machinefile",
                                        "--default-hostfile", "--host", "-host", "-H"});
    if (!other_hosts) return words;
    Words out(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(launcher->at) + 1);
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry, name = text.substr(0, text.find('='));
        if (name != "LD_PRELOAD" && !name.starts_with("LONGSHORE_")) continue;
        bool given = false;
        for (size_t i = 0; i + 1 < words.size(); ++i)
            given |= words[i] == "-x" && (words[i + 1] == name || words[i + 1].starts_with(name + "="));
        if (!given) out.insert(out.end(), {"-x", name});
    }
    out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(launcher->at) + 1, words.end());
    return out;
}

// Programs with a sanitizer start only where its library is the first of their process. It is preloaded for
// them alone: launchers would be looked at, too.
Words with_sanitizers(const Words& words, bool quiet) {
    const char* const preload = getenv("LD_PRELOAD");
    Words out;
    bool has_program = false;  // of each part between colons the first
    for (const std::string& word : words) {
        if (word == ":") has_program = false;
        const std::string library = has_program ? "" : sanitizer_of(word);
        if (!library.empty() && std::string(preload).find(library) == std::string::npos) {
            const std::string file = library.substr(library.rfind('/') + 1);
            if (!quiet)
                fmt::print(stderr, "longshore: {} has a sanitizer ({}), which is loaded first\n", word, file);
            out.insert(out.end(), {"env", "LD_PRELOAD=" + library + ":" + preload});
            has_program = true;
        }
        out.push_back(word);
    }
    return out;
}

// Which MPI the command uses, as far as one can see before it runs, and whether its calls will be carried.
void tell_mpi(const Words& words, bool quiet) {
    Settings settings;
    std::vector<SettingError> errors;
    if (!parse_settings(environ, &settings, &errors) || !settings.offload) return;
    const auto use = find_mpi_use(words);
    if (use && !has_core(use->library.core)) {
        const std::string missing =
            use->library.core.empty() ? "there is no shim for it" : missing_core(use->library.core);
        fmt::print(stderr, "longshore: {} uses {} ({}) and {}, so it runs with plain MPI; {}\n", use->program,
                   use->library.name, use->library.file, missing, core_advice(use->library.core));
        // So that the preloaded library does not say it once more.
        setenv("LONGSHORE_INTERNAL_MISSING_CORE",
               use->library.core.empty() ? "none" : use->library.core.c_str(), 1);
    } else if (quiet) {
        return;
    } else if (use) {
        fmt::print(stderr, "longshore: {} uses {} ({}): shim {}\n", use->program, use->library.name,
                   use->library.file, core_file(use->library.core));
    } else if (!find_program(words.front()).empty()) {
        fmt::print(stderr,
                   "longshore: no word of the command is a program linked to an MPI; it is said when one is "
                   "found at run time\n");
        setenv("LONGSHORE_INTERNAL_SAY_MPI", "1", 1);
    }
}

int run(const Words& words, const RunOptions& options) {
    if (words.empty()) {
        fmt::print(stderr,
                   "longshore run: no COMMAND given\nFor example: longshore run mpirun -np 4 ./program\n");
        return kNotReady;
    }
    if (export_settings(options.launch) != kOk) return kNotReady;
    if (const int code = export_shim(); code != kOk) return code;
    const auto launcher = find_launcher(words);
    if (const int code = check_launcher(launcher, words, options.force); code != kOk) return code;
    tell_mpi(words, options.quiet);
    return execute(with_sanitizers(with_environment(words, launcher), options.quiet));
}

}  // namespace

void add_run(CLI::App& app, const Words* words, int* exit_code) {
    const auto options = std::make_shared<RunOptions>();
    CLI::App* command =
        app.add_subcommand("run", "Run a program, usually mpirun, with its collectives offloaded");
    set_usage(command, "longshore run [OPTIONS] [--] COMMAND [ARGUMENTS]");
    command->footer(kRunFooter);
    command->add_flag("-q,--quiet", options->quiet, "do not say which MPI the command uses");
    command->add_flag("--force", options->force, "start it although the launcher is that of another MPI");
    add_launch_options(command, &options->launch);
    command->callback([=] { *exit_code = run(*words, *options); });
}

namespace {

// In quotes of the shell, as all of it is data.
std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char letter : text) out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return out + "'";
}

int print_environment(const LaunchOptions& options) {
    if (const int code = export_settings(options); code != kOk) return code;
    if (const int code = export_shim(); code != kOk) return code;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry, name = text.substr(0, text.find('='));
        if (name == "LD_PRELOAD" || name.starts_with("LONGSHORE_"))
            fmt::print("export {}={}\n", name, quoted(text.substr(name.size() + 1)));
    }
    // Last, because an eval without quotes makes one line of all.
    for (const SettingInfo& info : setting_table())
        if (info.of_each_process && getenv(info.name) != nullptr)
            fmt::print("# {}: each process reads its own; export it to the ranks of all nodes\n", info.name);
    return kOk;
}

}  // namespace

void add_env(CLI::App& app, const Words*, int* exit_code) {
    const auto options = std::make_shared<LaunchOptions>();
    CLI::App* command = app.add_subcommand("env", "Print what 'run' would set, for a batch script");
    set_usage(command, "longshore env [OPTIONS]");
    command->footer(R"help(Examples:
  eval "$(longshore env --stats stats-%j.json)"
  srun ./program

Exit code: 0; 2 bad option or setting; 125 the shim is missing.)help");
    add_launch_options(command, options.get());
    command->callback([=] { *exit_code = print_environment(*options); });
}

}  // namespace longshore::tools
