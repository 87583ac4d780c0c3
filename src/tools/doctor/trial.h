// What the checks of longshore doctor try with.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

namespace longshore::tools {

// "" if there is no such file.
inline std::string first_line_of(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// Runs `work` in a child process and returns its exit code: 0, or the errno it failed with; -1 if it died.
template <typename Work>
int in_child(Work work) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) _exit(work());
    if (child < 0) return errno;
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace longshore::tools
