// In place of a carrier to a DPU, for fuzz_agent: what it does with its pool stands in the plug-in's name.
// Without sanitizers, so that it starts quickly.
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tasks/control.h"

namespace {

using namespace longshore;
using namespace longshore::tasks;

template <class Message>
void say(const Message& message) {
    ::send(kServiceControlFd, static_cast<const void*>(&message), sizeof message, MSG_NOSIGNAL);
}

// The next packet, descriptors apart, which end here. 0: there are no more.
size_t hear(std::vector<std::byte>* packet) {
    for (;;) {
        const ssize_t got = recv(kServiceControlFd, packet->data(), packet->size(), 0);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            usleep(100);
            continue;
        }
        return got > 0 ? static_cast<size_t>(got) : 0;
    }
}

// What makes no sense, but for the last.
void go_wild() {
    static PluginLoaded loaded;
    loaded.table.functions_count = UINT32_MAX;
    memset(loaded.table.names, 'x', sizeof loaded.table.names);
    memset(loaded.text, 'x', sizeof loaded.text);
    RankServed served;
    served.client = UINT64_MAX;
    memset(served.text, 'x', sizeof served.text);
    LeaveRank left;
    left.header.kind = TaskMessage::kLeft;
    say(left);
    say(served);
    say('x');
    say(loaded);
}

}  // namespace

int main() {
    std::vector<std::byte> packet(kControlBytesMax);
    static StartTasks start;
    const size_t bytes = hear(&packet);
    if (!take_packet(packet.data(), bytes, &start)) return 1;
    const std::string plugin = start.plugin;
    const auto does = [&](const char* what) { return plugin.find(what) != plugin.npos; };
    if (does("ends")) return 7;
    static PluginLoaded loaded;
    loaded.table.functions_count = 2;
    loaded.error = does("refuses") ? 3 : 0;
    if (loaded.error != 0) strcpy(loaded.text, "as asked");
    if (does("wild"))
        go_wild();
    else if (!does("silent"))
        say(loaded);
    for (size_t count = 0; (count = hear(&packet)) != 0;) {
        ServeRank serve;
        LeaveRank leave;
        if (take_packet(packet.data(), count, &serve) && !does("silent")) {
            RankServed served;
            served.client = serve.client;
            say(served);
            if (does("wild")) say(served);
        } else if (take_packet(packet.data(), count, &leave) && !does("leaves_nobody")) {
            leave.header.kind = TaskMessage::kLeft;
            say(leave);
        }
    }
    return 0;
}
