#include "dpu/card/plugin_folders.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>

namespace longshore {
namespace {

// Whether root alone says what is there. In a folder with the sticky bit others may make files, but not take
// away root's.
bool is_of_root_alone(const std::string& path, const struct stat& status, bool may_be_sticky,
                      std::string* error) {
    char what[64];
    const bool is_sticky = may_be_sticky && S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if (status.st_uid == 0 && ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || is_sticky)) return true;
    snprintf(what, sizeof what, "user %u, mode %04o", status.st_uid, status.st_mode & 07777);
    *error = path + " on the DPU is not root's alone (" + what + "): no plug-in is loaded from there";
    return false;
}

// The folder and all above it.
bool is_trusted_folder(const std::string& folder, std::string* error) {
    std::string path = folder;
    for (bool is_first = true;; is_first = false) {
        struct stat status {};
        if (lstat(path.c_str(), &status) != 0) {
            *error = path + " on the DPU: " + strerror(errno);
            return false;
        }
        if (!is_of_root_alone(path, status, !is_first, error)) return false;
        if (path == "/") return true;
        path.resize(std::max<size_t>(path.rfind('/'), 1));
    }
}

}  // namespace

std::string find_trusted_plugin(const std::vector<std::string>& folders, const std::string& name,
                                std::string* error) {
    if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos) {
        *error = "a plug-in on a DPU is found by the name of its file";
        return "";
    }
    for (const std::string& listed : folders) {
        char whole[PATH_MAX];
        // Without links, so that what is looked at is what is opened.
        if (realpath(listed.c_str(), whole) == nullptr) continue;
        const std::string folder = whole, path = (folder == "/" ? "" : folder) + "/" + name;
        struct stat status {};
        if (lstat(path.c_str(), &status) != 0) continue;
        if (!S_ISREG(status.st_mode)) {
            *error = path + " on the DPU is no file, but a link or something else: no plug-in is loaded so";
            return "";
        }
        if (!is_trusted_folder(folder, error) || !is_of_root_alone(path, status, false, error)) return "";
        return path;
    }
    std::string list;
    for (const std::string& folder : folders) list += (list.empty() ? "" : ", ") + folder;
    *error = "the DPU has no " + name + " in its folders of plug-ins (task_folders = " + list + ")";
    return "";
}

std::vector<std::string> harmless_variables(const std::vector<std::string>& variables) {
    // OMP_TOOL_LIBRARIES and others of the kind name files.
    static constexpr std::string_view kKnown[] = {
        "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES",       "OMP_SCHEDULE",          "OMP_DYNAMIC",
        "OMP_WAIT_POLICY", "OMP_STACKSIZE", "OMP_THREAD_LIMIT", "OMP_MAX_ACTIVE_LEVELS",
    };
    std::vector<std::string> found;
    for (const std::string& variable : variables) {
        const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
        if (name.size() < variable.size() &&
            std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown))
            found.push_back(variable);
    }
    return found;
}

}  // namespace longshore
