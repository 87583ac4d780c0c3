// The supervisor's side of write-behind: it holds what the ranks' files need to be written (queues, rings,
// descriptors), starts the writer, starts it again when it is lost, and says when all is written. One thread,
// the supervisor's.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/shm/socket.h"
#include "io/control.h"

namespace longshore::io {

class Keeper {
  public:
    struct Node {
        uint16_t node = 0, rank_count = 1;
        uint32_t restarts_max = 0;
        uint64_t stuck_ns = 60'000'000'000;     // nothing has been written for so long: the disk is given up
        std::string program;                    // longshored
        std::function<void(const char*)> tell;  // a line for the user, as long as there are ranks
    };
    explicit Keeper(Node node);
    ~Keeper();

    // Readable when there is something to do; -1: it cannot be waited for.
    int fd() const { return epoll_.get(); }
    void turn();
    // A rank's connection, whose first packet was this.
    void open(Fd socket, pid_t pid, const OpenQueue& request, std::vector<Fd> descriptors);
    // Whether the child that ended was the writer.
    bool reap(pid_t pid, int status);
    // Bytes of records that wait to be written; 0 when none will be.
    uint64_t waiting() const;
    // When all ranks are gone: says what waits, and later what of it is done. False: it is over, because all
    // is written, or nothing has been for a long time. To be called again and again.
    bool finish();
    // Ends the writer.
    void stop();

  private:
    struct Client;
    bool make_board(uint64_t ring_bytes);
    bool start_writer();
    bool hand_to_writer(const Client& client);
    void drop_closed(Client& client) const;
    void turn_client(Client& client);
    void turn_writer();
    void hold(Client& client, HoldFile message, std::vector<Fd> descriptors);
    void tell_of_limit();
    void give_up(const std::string& why);
    void say(const std::string& line);
    void say_errors();
    bool watch(const Fd& fd, uint64_t number) const;

    const Node node_;
    Fd epoll_;
    Fd board_file_, errors_;  // errors_: stderr of the first rank that came
    Mapping mapping_;
    Board* board_ = nullptr;
    uint64_t ring_bytes_ = 0;
    std::map<uint32_t, std::unique_ptr<Client>> clients_;  // by local rank
    pid_t writer_ = 0;
    Fd control_;
    uint32_t restarts_ = 0;
    bool is_finishing_ = false, has_told_of_limit_ = false;
    uint64_t done_ = 0, progress_ns_ = 0;  // how much was written when it last moved, and when that was
    alignas(8) std::byte buffer_[4096];
};

}  // namespace longshore::io
