// Ends the sleep of a stand-in when something arrives from its rank or the host's agent: a thread, which
// waits on one descriptor for all of them.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "fabric/shm/system.h"
#include "host/host.h"

namespace longshore {

class Watcher {
  public:
    Watcher(int fd, ls_context* context)
        : end_(eventfd(0, EFD_CLOEXEC)), thread_([this, fd, context] { watch(fd, context); }) {}
    // Before the context goes: the thread wakes who sleeps there.
    ~Watcher() {
        over_ = true;
        eventfd_write(end_.get(), 1);
        armed_.release();
        thread_.join();
    }
    void arm() {
        if (!waits_.exchange(true)) armed_.release();
    }

  private:
    void watch(int fd, ls_context* context) {
        for (;;) {
            armed_.acquire();
            if (over_) return;
            pollfd ready[] = {{fd, POLLIN, 0}, {end_.get(), POLLIN, 0}};
            poll(ready, 2, end_ ? -1 : 100);
            waits_ = false;
            if (!over_) ls_wake(context);
        }
    }
    std::counting_semaphore<2> armed_{0};
    std::atomic<bool> waits_{false}, over_{false};
    const Fd end_;
    std::thread thread_;
};

}  // namespace longshore
