// Checks of what is installed: the MPIs, Longshore's own parts, the settings.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "base/settings.h"
#include "fabric/network.h"
#include "fabric/tcp/node_port.h"
#include "tools/doctor/doctor.h"
#include "tools/paths.h"
#include "tools/run/mpi_library.h"

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
        return "MPICH " + text.substr(start, text.find_first_of(" \n", start) - start);
    }
    return first.empty() ? "says nothing of its version" : first;
}

// The cores that programs of this MPI need: its own, and the common ABI's where it has that library.
std::vector<std::string> cores_for(const std::string& mpirun, const std::string& version) {
    std::vector<std::string> cores;
    if (version.starts_with("Open MPI")) cores.emplace_back("openmpi");
    if (version.starts_with("MPICH")) cores.emplace_back("mpich");
    const auto folder = std::filesystem::path(mpirun).parent_path().parent_path();
    if (is_file((folder / "lib" / "libmpi_abi.so.1").string())) cores.emplace_back("abi");
    return cores;
}

// An MPI, by its mpirun: the file, how to call it, and what it is called on the PATH or where it lies.
struct FoundMpi {
    std::string file, path, names;
};

// The same one may have several names. Some are not on the PATH: 'make mpis' puts them beside lib/.
std::vector<FoundMpi> find_mpis() {
    std::vector<FoundMpi> found;
    const auto add = [&](const std::string& path, const std::string& name) {
        std::error_code error;
        const std::string file = std::filesystem::canonical(path, error).string();
        if (error) return;
        for (FoundMpi& one : found) {
            if (one.file != file) continue;
            one.names += ", " + name;
            return;
        }
        found.push_back({file, path, name});
    };
    for (const char* name : {"mpirun", "mpirun.openmpi", "mpirun.mpich"}) add(find_program(name), name);
    for (const char* name : {"openmpi", "mpich"}) {
        const std::string path = root_folder() + "/mpi5/" + name + "/bin/mpirun";
        add(path, path);
    }
    return found;
}

Check check_mpi(const FoundMpi& mpi) {
    const std::string version = mpi_version(mpi.path);
    std::string served, advice;
    for (const std::string& core : cores_for(mpi.file, version)) {
        served += (served.empty() ? "" : ", ") + core_file(core) +
                  (has_core(core)    ? ""
                   : is_build_tree() ? " (not built)"
                                     : " (missing)");
        if (core == "abi") served += " for programs of mpicc_abi";
        if (advice.empty() && !has_core(core)) advice = core_advice(core);
    }
    if (served.empty()) {
        served = "no shim";
        advice = core_advice("");
    }
    const std::string text = fmt::format("{} ({}): {}", version, mpi.names, served);
    if (advice.empty()) return {"mpi", Verdict::kGood, text, ""};
    return {"mpi", Verdict::kWarn, text, "its programs run without offload; " + advice};
}

}  // namespace

void check_mpis(Checks* checks) {
    const std::vector<FoundMpi> found = find_mpis();
    for (const FoundMpi& mpi : found) checks->push_back(check_mpi(mpi));
    if (found.empty()) {
        checks->push_back({"mpi", Verdict::kFail, "no mpirun on your PATH",
                           "install Open MPI or MPICH (Debian: openmpi-bin, mpich), or load its module"});
    } else if (find_program("mpirun").empty()) {
        checks->push_back({"mpi", Verdict::kWarn, "there is no plain 'mpirun' on your PATH",
                           "name the one you want: longshore run mpirun.mpich ..."});
    }
}

void check_parts(Checks* checks) {
    const std::string folder = library_folder();
    const std::string stub = folder + "/liblongshore.so";
    const std::string kBuild = missing_part_advice();
    if (!is_file(stub)) {
        checks->push_back({"shim", Verdict::kFail, stub + " is missing", kBuild});
    } else if (stub.find_first_of(" :") != stub.npos) {
        checks->push_back({"shim", Verdict::kFail,
                           stub + ": LD_PRELOAD cannot hold a path with a space or a colon",
                           "move the folder"});
        // The loader only complains about what it cannot preload; the program runs all the same.
    } else if (const Output ran = capture({"/bin/true"}, {"LD_PRELOAD=" + stub});
               ran.exit_code != 0 || !ran.text.empty()) {
        checks->push_back({"shim", Verdict::kFail, "does not load into /bin/true: " + ran.text.substr(0, 200),
                           "build Longshore again on this machine: 'make build'"});
    } else {
        std::string cores;
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with("liblongshore") && name.ends_with(".so") && name != "liblongshore.so") {
                cores += (cores.empty() ? "" : ", ") + name;
            }
        }
        if (cores.empty()) {
            checks->push_back({"shim", Verdict::kFail, "liblongshore.so is there, but for no MPI",
                               "install an MPI with its headers, then 'make build'"});
        } else {
            checks->push_back({"shim", Verdict::kGood, "liblongshore.so with " + cores, ""});
        }
    }
    const char* given = getenv("LONGSHORE_SERVICE_PATH");
    const bool named = given != nullptr && *given != 0;
    const std::string candidates[] = {named ? given : folder + "/longshored",
                                      root_folder() + "/bin/longshored"};
    for (const std::string& path : candidates) {
        if (!find_program(path).empty()) return checks->push_back({"longshored", Verdict::kGood, path, ""});
        if (named) break;
    }
    checks->push_back({"longshored", Verdict::kFail,
                       named ? std::string(given) + " is not an executable file" : "missing",
                       named ? "correct or unset LONGSHORE_SERVICE_PATH" : kBuild});
}

void check_network(Checks* checks) {
    const auto warn = [&](const std::string& found, const char* advice) {
        checks->push_back({"network", Verdict::kWarn, found, advice});
    };
    Settings settings;
    parse_settings(environ, &settings, nullptr);
    const bool rdma = has_rdma_device();
    const bool ucx =
        settings.network == NetworkCarrier::kUcx || (settings.network == NetworkCarrier::kAuto && rdma);
    const std::string file =
        find_network(ucx ? NetworkKind::kUcx : NetworkKind::kTcp, root_folder() + "/bin/");
    if (file.empty())
        return warn(
            ucx ? "there is RDMA, but Longshore was built without UCX"
                : "built without OpenSSL: a job on several machines runs with plain MPI",
            ucx ? "install UCX with its headers (Debian: libucx-dev), or configure with LONGSHORE_UCX_ROOT, "
                  "and build; until then TCP is used (LONGSHORE_NETWORK=tcp)"
                : "install OpenSSL 3 with its headers (Debian: libssl-dev), and build");
    std::string error;
    const NetworkPart* part = load_network(file, &error);
    if (part == nullptr) return warn(error, "build Longshore again on this machine: 'make build'");
    NetworkSettings network_settings;
    network_settings.port_first = settings.network_ports.first;
    network_settings.port_last = settings.network_ports.last;
    settings.network_interfaces.copy(network_settings.interfaces, sizeof network_settings.interfaces - 1);
    const std::unique_ptr<NodePort> port =
        ucx ? nullptr : NodePort::open(network_settings.port_first, network_settings.port_last, 1, &error);
    const std::unique_ptr<Network> network =
        ucx || port ? part->open(network_settings, port ? port->share(ServiceId{0}) : PortShare{}, &error)
                    : nullptr;
    if (!network)
        return warn(std::string(part->library()) + ": " + error,
                    ucx ? "see LONGSHORE_UCX_TLS and ucx_info -d"
                        : "see LONGSHORE_NETWORK_PORTS and LONGSHORE_NETWORK_INTERFACES");
    checks->push_back({"network", Verdict::kGood,
                       std::string(part->library()) +
                           " between machines: the data goes from service process to service "
                           "process, and needs no progress by the ranks",
                       ""});
}

void check_settings(Checks* checks) {
    Settings settings;
    std::vector<SettingError> errors;
    if (parse_settings(environ, &settings, &errors)) {
        checks->push_back(
            {"settings", Verdict::kGood, settings == Settings{} ? "all at their defaults" : "valid", ""});
    }
    for (const SettingError& error : errors) {
        checks->push_back({"settings", Verdict::kFail, error.message, "correct or unset it"});
    }
}

}  // namespace longshore::tools
