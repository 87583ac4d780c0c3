#include "tools/paths.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/library_folders.h"
#include "tools/interruption.h"
#include "tools/tools.h"

namespace longshore::tools {
namespace {

constexpr size_t kCaptureBytesMax = 1 << 20;

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> list;
    for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
    list.push_back(nullptr);
    return list;
}

}  // namespace

std::string root_folder() {
    std::error_code error;
    const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
    const auto folder = executable.parent_path();  // bin, or libexec/longshore
    return (folder.filename() == "bin" ? folder : folder.parent_path()).parent_path().string();
}

std::string library_folder() {
    const std::string root = root_folder() + "/";
    for (const char* folder : kLibraryFolders)
        if (is_file(root + folder + "/liblongshore.so")) return root + folder;
    return root + "lib";
}

bool is_build_tree() {
    return is_file(root_folder() + "/CMakeCache.txt");
}

std::string missing_part_advice() {
    return is_build_tree() ? "build it with 'make build'" : "install Longshore again, all of it";
}

bool is_file(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
}

std::string find_program(const std::string& name) {
    if (name.find('/') != name.npos) return is_file(name) && access(name.c_str(), X_OK) == 0 ? name : "";
    const char* path = getenv("PATH");
    std::string rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
    while (true) {
        const size_t colon = rest.find(':');
        const std::string folder = rest.substr(0, colon);
        const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
        if (is_file(candidate) && access(candidate.c_str(), X_OK) == 0) return candidate;
        if (colon == rest.npos) return "";
        rest.erase(0, colon + 1);
    }
}

int execute(const std::vector<std::string>& command) {
    fflush(nullptr);
    execvp(command[0].c_str(), pointers(command).data());
    const int failure = errno;
    if (failure == ENOENT && !is_file(command[0])) {
        const char* where = command[0].find('/') == std::string::npos ? "on your PATH" : "there";
        fmt::print(stderr, "longshore: {}: not found; check its spelling and that it is {}\n", command[0],
                   where);
        return kNotFound;
    }
    // ENOENT for a file that exists: its interpreter (#! line or loader) is missing.
    const char* reason = failure == ENOENT ? "its interpreter is missing" : strerror(failure);
    std::error_code error;
    const char* advice = failure != EACCES ? ""
                         : std::filesystem::is_directory(command[0], error)
                             ? "; it is a folder"
                             : "; it must be a program with execute permission (chmod +x)";
    fmt::print(stderr, "longshore: {}: cannot be executed: {}{}\n", command[0], reason, advice);
    return kNotExecutable;
}

int run_and_wait(const std::vector<std::string>& command, int output,
                 const std::function<void()>& meanwhile) {
    fflush(nullptr);
    ChildSignals signals;
    const pid_t child = fork();
    if (child == 0) {
        signals.in_child();
        if (output >= 0) dup2(output, STDOUT_FILENO);
        _exit(execute(command));
    }
    signals.in_parent(child);
    if (output >= 0) close(output);
    if (meanwhile) meanwhile();
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    signals.child_ended();
    signals.throw_if_interrupted();
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

Output capture(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return {};
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(nothing, 0);
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
        execvp(command[0].c_str(), pointers(command).data());
        _exit(kNotFound);
    }
    close(ends[1]);
    Output output;
    if (child > 0) {
        char bytes[4096];
        ssize_t count = 0;
        while ((count = read(ends[0], bytes, sizeof bytes)) > 0 || (count < 0 && errno == EINTR)) {
            if (count > 0 && output.text.size() < kCaptureBytesMax) output.text.append(bytes, count);
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
    }
    close(ends[0]);
    return output;
}

}  // namespace longshore::tools
