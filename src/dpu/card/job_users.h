// The users that jobs run as: one number of a range for each job, so that the kernel keeps the processes of
// one job from signalling, tracing or mapping those of another.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace longshore {

struct UserRange {
    uint32_t first = 0, last = 0;  // both 0: there is none

    bool is_set() const { return first != 0; }
    bool operator==(const UserRange&) const = default;
};

// "70000-70999", or one number. Not root, and not the number that means "leave it as it is" (2^32 - 1).
std::optional<UserRange> read_user_range(std::string_view text);
std::string show(const UserRange& range);

// The lowest number of the range that is not `held`, and that no process of this machine has: a job may have
// outlived the service that started it, and its service processes end a little later than its stand-ins.
std::optional<uint32_t> free_user(const UserRange& range, const std::set<uint32_t>& held);

// This process, which is root's, becomes that user, in the group of the same number and no other. False: it
// is to end (errno says why).
bool become_user(uint32_t user);

}  // namespace longshore
