#include "tools/pictures.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tools/paths.h"
#include "tools/tools.h"

namespace longshore::tools {

std::string find_python() {
    const std::string python = root_folder() + "/venv/bin/python";
    return find_program(python).empty() ? "python3" : python;
}

std::string script_path(const std::string& name) {
    return root_folder() + "/share/longshore/" + name;
}

int can_draw(const std::string& subcommand, const std::string& script) {
    if (!is_file(script)) {
        fmt::print(stderr, "longshore {}: {} is not there; {}\n", subcommand, script, missing_part_advice());
        return kNotReady;
    }
    if (capture({find_python(), "-c", "import matplotlib"}).exit_code == 0) return kOk;
    fmt::print(
        stderr,
        "longshore {}: pictures need matplotlib; install it for python3 ('make venv': beside a build)\n",
        subcommand);
    return kNotReady;
}

ResultsFile::ResultsFile(const std::string& wanted) : name_(wanted), is_temporary_(wanted.empty()) {
    if (!is_temporary_) return;
    name_ = (std::filesystem::temp_directory_path() / "longshore-bench-XXXXXX").string();
    if (const int file = mkstemp(name_.data()); file >= 0) close(file);
}

ResultsFile::~ResultsFile() {
    if (is_temporary_) unlink(name_.c_str());
}

}  // namespace longshore::tools
