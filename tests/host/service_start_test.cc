// A service process that cannot start: its user is told why, once.
#include <gtest/gtest.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>

#include "client.h"
#include "fabric/shm/system.h"

namespace longshore::test {
namespace {

// Takes a name that becomes free as its process ends.
Fd take_name(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name.data(), name.size());
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    Fd taken;
    wait_until([&] {
        Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0) taken = std::move(fd);
        return bool(taken);
    });
    return taken;
}

size_t count_of(const std::string& what, const std::string& text) {
    size_t count = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
    return count;
}

constexpr uint32_t kAttached = 0, kGo = 1;  // flags of SharedState

// The rank hears of its service process until that is given up, and then finishes alone.
int hear_of_service(RankClient& c) {
    const auto heard = std::make_shared<std::string>();  // to the end of `c`
    c.hear = [heard](const char* line) { *heard += std::string(line) + "\n"; };
    const std::string& said = *heard;
    if (!c.attach() || !c.make_group()) return 1;
    c.shared->flags[kAttached].store(1);
    while (c.shared->flags[kGo].load() == 0) usleep(1000);
    bool has_group = true;
    wait_until([&] {
        ls_group_free(c.group);  // who makes one hears of its supervisor
        has_group = c.make_group();
        return !has_group || said.find("not tried again") != said.npos;
    });
    if (!has_group) return 2;
    uint8_t byte = 7;
    ls_arguments a{};
    a.collective = LS_BCAST;
    a.recv = &byte;
    a.recv_block_bytes = 1;
    if (c.run(a) != LS_OK) return 2;
    const bool once = count_of("Address already in use", said) == 1 &&
                      count_of("could not start", said) == 2 && count_of("was lost", said) == 1 &&
                      count_of("was lost (signal 9)", said) == 1 && count_of("\n", said) == 3;
    if (!once) fprintf(stderr, "the user was told:\n%s", said.c_str());
    return once ? 0 : 3;
}

TEST(ServiceStart, WhyItFailsIsToldOnce) {
    JobOptions options;
    options.ranks = 1;
    Job job(options, hear_of_service);
    while (job.shared().flags[kAttached].load() == 0) usleep(1000);
    std::vector<pid_t> supervisors, services;  // those of the test before may still be ending
    ASSERT_TRUE(wait_until([&] {
        supervisors = find_services("supervisor"), services = find_services("sp");
        return supervisors.size() == 1 && services.size() == 1;
    }));
    std::string name;
    ASSERT_TRUE(wait_until([&] { return !(name = name_of_listener(services[0])).empty(); }));
    // Its successor is not started before somebody else has its name.
    kill(supervisors[0], SIGSTOP);
    EXPECT_TRUE(wait_until([&] { return state_of(supervisors[0]) == 'T'; }));
    kill(services[0], SIGKILL);
    const Fd taken = take_name(name);
    kill(supervisors[0], SIGCONT);
    EXPECT_TRUE(taken);
    job.shared().flags[kGo].store(1);
    EXPECT_TRUE(job.passed());
    EXPECT_TRUE(wait_until_gone());
}

}  // namespace
}  // namespace longshore::test
