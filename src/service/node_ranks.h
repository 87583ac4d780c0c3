// The ranks of a node as its supervisor hears them: each connection says which rank it is, local rank 0 then
// what the nodes of the job are, and all which groups they join and leave. Everything that a rank says is
// checked here; whoever does not keep to the protocol is disconnected. A rank may compute for long and read
// nothing: an answer that its socket does not take waits here, and nothing more is heard of it until the
// answer is sent, so that no rank has more than one. One thread.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/address_book.h"
#include "fabric/shm/control.h"
#include "io/control.h"
#include "service/group_table.h"
#include "tasks/control.h"

namespace longshore {

class NodeRanks {
  public:
    // What a rank is given when it attaches. Descriptors: of the node's memory, of sight, eventfds.
    struct Given {
        Token token{};
        uint64_t memory_bytes = 0, sight_bytes = 0;
        std::vector<int> descriptors;
    };
    struct Events {
        std::function<void()> all_attached;  // before the last of them hears that it has
        std::function<void()> book_grows;
        // A rank that has attached has opened a pool of task processes on a connection that it made for that.
        std::function<void(Fd socket, pid_t pid, const tasks::OpenPool& request, std::vector<Fd> descriptors)>
            pool_opened;
        // What a rank held that is gone can be moved by others, who are woken.
        std::function<void(const WakeSet& wake)> claims_freed = {};
        // Likewise, a queue of what it writes to files.
        std::function<void(Fd socket, pid_t pid, const io::OpenQueue& request, std::vector<Fd> descriptors)>
            queue_opened = {};
    };
    NodeRanks(const ServiceParameters& parameters, const NodeMemory& memory, GroupTable* groups,
              AddressBook* book, Given given, Events events);
    ~NodeRanks();

    // A connection, of another user perhaps: then it is closed.
    void add(Fd socket);
    // Readable when there is something to do; -1: it cannot be waited for.
    int fd() const { return epoll_.get(); }
    // Hears those connections on which something has come, and forgets those whose rank has gone.
    void turn();

    size_t connections() const { return clients_.size(); }
    // Some have not said which rank they are, and are not waited for long.
    bool has_nameless() const { return !nameless_.empty(); }
    // Groups are wanted for which there will be room soon: turn() again after a short while.
    bool has_asking() const;
    uint32_t attached_ever() const { return attached_ever_; }
    uint32_t attached_now() const { return attached_now_; }
    // A stand-in of a DPU has gone without a word: nobody enters for its rank any more, nor tells it.
    bool has_lost() const { return has_lost_; }
    std::vector<pid_t> processes() const;  // by local rank; 0: it is not there
    // A line for the user goes to local rank 0, once that has attached and reads. Of more than kLinesMax that
    // wait for it, it is told how many they are.
    static constexpr size_t kLinesMax = 64;
    void tell_leader(const char* text);

  private:
    struct Client;
    bool attach(Client& client, const AttachRequest& request);
    bool join_group(Client& client, const GroupJoinPiece& piece, size_t bytes);
    bool leave_group(Client& client, const GroupLeaveRequest& request);
    bool handle(Client& client, size_t bytes, std::vector<Fd> descriptors);
    template <class Request, class Take>
    void hand_over(Client& client, size_t bytes, std::vector<Fd> descriptors, const Take& take);
    bool turn_client(Client& client);
    void forget(Client& client);
    template <class Answer>
    void reply(Client& client, const Answer& answer, std::span<const int> descriptors = {});
    void answer_join(Client& client, bool may_ask_again);
    void answer_waiting_joins();
    Client* leader() const;
    void send_lines();
    void arm(Client& client) const;

    const ServiceParameters& p_;
    NodeMemory memory_;
    GroupTable& groups_;
    AddressBook& book_;
    Given given_;
    Events events_;
    bool watch(const Fd& fd, uint64_t number) const;
    void hear(uint64_t number, bool is_over);
    void end(uint64_t number);
    void look_at_nameless();

    Fd epoll_;
    std::map<uint64_t, std::unique_ptr<Client>> clients_;  // by number; their events have it
    std::vector<uint64_t> nameless_;
    bool leader_came_ = false;       // local rank 0 has attached, and may have gone since
    std::deque<std::string> lines_;  // for it
    uint32_t lines_left_out_ = 0;    // after those
    bool has_lost_ = false;
    uint64_t numbers_ = 0;
    uint32_t attached_ever_ = 0, attached_now_ = 0;
    alignas(8) std::byte buffer_[kControlBytesMax];
};

}  // namespace longshore
