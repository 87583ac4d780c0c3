// Checks of what is installed: the MPIs, Longshore's own parts, the settings.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "base/settings.h"
#include "tools/doctor.h"
#include "tools/paths.h"

namespace longshore::tools {
namespace {

// "Open MPI 4.1.4" or "MPICH 4.0.2" from what an mpirun says of itself, or its first line.
std::string mpi_version(const std::string& mpirun) {
    const std::string text = capture({mpirun, "--version"}).text;
    const std::string first = text.substr(0, text.find('\n'));
    // "mpirun (Open MPI) 4.1.4", or (OpenRTE) when it is called by another name.
    if (const size_t start = first.find("(Open"); start != first.npos)
        return "Open MPI " + first.substr(first.rfind(' ') + 1);
    if (text.find("HYDRA") != text.npos) {
        const size_t start = text.find_first_of("0123456789", text.find("Version:"));
        return "MPICH (Hydra " + text.substr(start, text.find_first_of(" \n", start) - start) + ")";
    }
    return first.empty() ? "says nothing of its version" : first;
}

std::string join(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

}  // namespace

void check_mpis(Checks* checks) {
    std::vector<std::string> found;
    for (const char* name : {"mpirun.openmpi", "mpirun.mpich"}) {
        const std::string path = find_program(name);
        if (!path.empty()) found.push_back(fmt::format("{}: {}", name, mpi_version(path)));
    }
    const std::string plain = find_program("mpirun");
    if (!plain.empty()) found.push_back(fmt::format("mpirun: {}", mpi_version(plain)));
    if (found.empty()) {
        checks->push_back({"mpi", Verdict::kFail, "no mpirun on your PATH",
                           "install Open MPI or MPICH ('make deps' does both), or load its module"});
    } else if (plain.empty()) {
        checks->push_back(
            {"mpi", Verdict::kWarn, join(found), "there is no plain 'mpirun': name the one you want"});
    } else {
        checks->push_back({"mpi", Verdict::kOk, join(found), ""});
    }
}

void check_parts(Checks* checks) {
    const std::string folder = root_folder() + "/lib";
    const std::string stub = folder + "/liblongshore.so";
    const char* const kBuild = "build Longshore: 'make build'";
    if (!is_file(stub)) {
        checks->push_back({"shim", Verdict::kFail, stub + " is missing", kBuild});
        // The loader only complains about what it cannot preload; the program runs all the same.
    } else if (const Output ran = capture({"/bin/true"}, {"LD_PRELOAD=" + stub});
               ran.exit_code != 0 || !ran.text.empty()) {
        checks->push_back({"shim", Verdict::kFail, "does not load into /bin/true: " + ran.text.substr(0, 200),
                           "build Longshore again on this machine: 'make build'"});
    } else {
        std::vector<std::string> cores;
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with("liblongshore") && name.ends_with(".so") && name != "liblongshore.so") {
                cores.push_back(name);
            }
        }
        std::string without;
        for (const std::string flavour : {"openmpi", "mpich"}) {
            const bool served = is_file(folder + "/liblongshore-" + flavour + ".so");
            if (!served && !find_program("mpirun." + flavour).empty()) without = flavour;
        }
        if (cores.empty()) {
            checks->push_back({"shim", Verdict::kFail, "liblongshore.so is there, but for no MPI",
                               "install an MPI with its headers, then 'make build'"});
        } else if (!without.empty()) {
            checks->push_back({"shim", Verdict::kWarn,
                               "liblongshore.so with " + join(cores) + ", none for " + without,
                               "its programs run without offload; install its headers, then 'make build'"});
        } else {
            checks->push_back({"shim", Verdict::kOk, "liblongshore.so with " + join(cores), ""});
        }
    }
    const char* given = getenv("LONGSHORE_SERVICE_PATH");
    const bool named = given != nullptr && *given != 0;
    const std::string candidates[] = {named ? given : folder + "/longshored",
                                      root_folder() + "/bin/longshored"};
    for (const std::string& path : candidates) {
        if (!find_program(path).empty()) return checks->push_back({"longshored", Verdict::kOk, path, ""});
        if (named) break;
    }
    checks->push_back({"longshored", Verdict::kFail,
                       named ? std::string(given) + " is not an executable file" : "missing",
                       named ? "correct or unset LONGSHORE_SERVICE_PATH" : kBuild});
}

void check_settings(Checks* checks) {
    Settings settings;
    std::vector<SettingError> errors;
    if (parse_settings(environ, &settings, &errors)) {
        checks->push_back(
            {"settings", Verdict::kOk, settings == Settings{} ? "all at their defaults" : "valid", ""});
    }
    for (const SettingError& error : errors) {
        checks->push_back({"settings", Verdict::kFail, error.message, "correct or unset it"});
    }
}

}  // namespace longshore::tools
