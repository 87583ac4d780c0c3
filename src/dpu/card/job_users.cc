#include "dpu/card/job_users.h"

#include <dirent.h>
#include <grp.h>
#include <unistd.h>

#include <cctype>
#include <memory>
#include <sstream>

#include "base/file.h"
#include "base/text.h"

namespace longshore {
namespace {

// Real, effective, saved and file system user of a process; nothing when it has ended.
void add_users_of(const std::string& pid, std::set<uint32_t>* users) {
    std::istringstream lines(read_proc("/proc/" + pid + "/status"));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("Uid:")) continue;
        std::istringstream numbers(line.substr(4));
        for (uint32_t user; numbers >> user;) users->insert(user);
        return;
    }
}

std::set<uint32_t> users_with_processes() {
    std::set<uint32_t> users;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
    if (!folder) return users;
    while (const dirent* entry = readdir(folder.get()))
        if (isdigit(static_cast<unsigned char>(entry->d_name[0]))) add_users_of(entry->d_name, &users);
    return users;
}

}  // namespace

std::optional<UserRange> read_user_range(std::string_view text) {
    const size_t dash = text.find('-');
    const std::optional<uint64_t> first = read_number(text.substr(0, dash));
    const std::optional<uint64_t> last = dash == text.npos ? first : read_number(text.substr(dash + 1));
    if (!first || !last || *first == 0 || *first > *last || *last >= UINT32_MAX) return std::nullopt;
    return UserRange{static_cast<uint32_t>(*first), static_cast<uint32_t>(*last)};
}

std::string show(const UserRange& range) {
    return range.is_set() ? std::to_string(range.first) + "-" + std::to_string(range.last) : "";
}

std::optional<uint32_t> free_user(const UserRange& range, const std::set<uint32_t>& held) {
    const std::set<uint32_t> there = users_with_processes();
    for (uint64_t user = range.first; user <= range.last; ++user) {
        const auto one = static_cast<uint32_t>(user);
        if (!held.contains(one) && !there.contains(one)) return one;
    }
    return std::nullopt;
}

bool become_user(uint32_t user) {
    return setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

}  // namespace longshore
