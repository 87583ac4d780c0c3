// The one TCP port of a node: whoever connects says first which service process it wants, and the connection
// is given to that one, unread beyond those words. So a node has one port however many service processes, and
// a service process that was started again is found where its former self was. Strangers are few at a time,
// and have as little time. One thread, that of the node's supervisor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/service_engine.h"
#include "fabric/network.h"

namespace longshore {

class NodePort {
  public:
    static constexpr size_t kStrangersMax = 64;
    static constexpr uint64_t kLimitNs = 2'000'000'000;  // for those words

    // Listens on all interfaces at the first free port of first..last (0: any) for `services` service
    // processes. Null: `error` says why.
    static std::unique_ptr<NodePort> open(uint16_t first, uint16_t last, uint16_t services,
                                          std::string* error);

    // What that service process needs to be reached, from now on and in place of its former self. Empty on
    // failure.
    PortShare share(ServiceId service);
    // Readable when there is something to do.
    int fd() const { return epoll_.get(); }
    // Takes who has connected, and gives away who has said where to.
    void turn();
    // Whether somebody waits whom no event may end: turn() is to be called within kTurnNs.
    bool busy() const { return !strangers_.empty() || full_; }
    static constexpr uint64_t kTurnNs = 10'000'000;
    // Since no service process wants to be reached (PortShare::close), unless others do (keep_open).
    bool is_closed() const { return !listener_; }
    void keep_open() { stays_ = true; }

    uint64_t refused() const { return refused_; }
    // Once, of the first that was refused, or had to wait for a descriptor; else empty.
    std::string take_problem();

  private:
    struct Stranger {
        Fd socket;
        uint64_t since_ns = 0;
        std::byte said[8];  // kPrefaceBytes
        size_t bytes = 0;
    };
    NodePort(Fd epoll, Fd listener, uint16_t port, uint16_t services)
        : epoll_(std::move(epoll)), listener_(std::move(listener)), port_(port), services_(services) {}
    void accept();
    bool advance(Stranger& stranger);
    bool refuse();
    void set_full(bool full);

    Fd epoll_, listener_;
    const uint16_t port_;
    std::vector<Fd> services_;         // where each takes its streams
    std::vector<Stranger> strangers_;  // oldest first
    uint64_t refused_ = 0;
    bool told_ = false, stays_ = false;
    bool full_ = false, told_full_ = false;  // there was no descriptor for the next: it is not waited for
    std::string problem_;
};

}  // namespace longshore
