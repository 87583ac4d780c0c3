#include "model/machine_path.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "tools/paths.h"

namespace longshore::tools {
namespace {

std::string machines_folder() {
    return root_folder() + "/share/longshore/machines";
}

}  // namespace

std::string known_machines() {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(machines_folder(), none))
        if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
    std::sort(names.begin(), names.end());
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    return all.empty() ? "none, as " + machines_folder() + " is not there" : all;
}

std::string machine_path(const std::string& name) {
    return is_file(name) ? name : machines_folder() + "/" + name + ".toml";
}

}  // namespace longshore::tools
