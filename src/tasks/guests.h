// The task processes of a node that ranks of other nodes have tasks for, as its supervisor keeps them: one
// for each stream that a carrier (carrier.h) has opened, started when that has said what for (frames.h:
// kOpen), and gone when the stream is. Waits for nobody. One thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/node_streams.h"
#include "tasks/frames.h"
#include "tasks/pools.h"

namespace longshore::tasks {

class TaskGuests {
  public:
    struct Node {
        uint16_t node = 0;
        std::string program;  // longshored
        // As TaskPools::Node has them.
        std::function<std::vector<TaskPlace>(const char* cores, uint32_t processes, uint32_t threads,
                                             std::string* error)>
            place;
        std::function<void(const char*)> tell;
        // Looks at what is to be started, and may change it; an error of longshore_open_pool, with the
        // reason: it is not started. May be null: everything is.
        std::function<int32_t(OpenFrame*, std::string* error)> admit;
    };
    explicit TaskGuests(Node node);
    ~TaskGuests();

    // From now on carriers are let in.
    void open(std::unique_ptr<StreamDoor> door);
    // Readable when there is something to do; -1: it cannot be waited for.
    int fd() const { return epoll_.get(); }
    void turn();
    // Whether the child that ended was one of these.
    bool reap(pid_t pid, int status);
    // Nobody has a stream here.
    bool is_idle() const { return arrivals_.empty() && guests_.empty(); }
    void stop();

  private:
    // A stream of which not all has been heard that a process is started for.
    struct Arrival {
        Fd stream;
        NodeId from;
        std::vector<std::byte> said;
        size_t bytes = 0;
        FrameHeader header;
    };
    // The stream is held here, too: what the process has said last reaches its carrier however it ends.
    struct Guest {
        pid_t pid = 0;  // 0: it has ended, or could not be started
        std::string name;
        Fd control, stream;
        bool is_useless = false;  // its carrier is gone, and it is ended
        // What the plug-in prints, which nobody but the supervisor can bring to the user.
        Fd output;
        std::string line;
        uint32_t lines = 0;
    };
    static constexpr uint32_t kLinesMax = 1000;  // of a process; what it prints beyond that is not shown
    void hear_output(Guest& guest) const;
    void show_line(Guest& guest) const;
    bool hear(Arrival& arrival);
    bool look_at(Guest& guest) const;
    void start(Arrival& arrival, OpenFrame& frame);
    bool start_process(Arrival& arrival, const OpenFrame& frame, std::string* error);

    const Node node_;
    Fd epoll_;
    std::unique_ptr<StreamDoor> door_;
    std::vector<Arrival> arrivals_;
    std::vector<Guest> guests_;
};

}  // namespace longshore::tasks
