// Signals that ask the command to end while a program that it started still runs.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>

namespace longshore::tools {

// Thrown for such a signal once the program has ended, so that what the command made is removed on the way
// out. main() returns 128 and the signal.
struct Interrupted {
    int signal = 0;
};

// From before fork() until the child has ended, SIGINT, SIGTERM and SIGHUP do not end this process, but are
// passed on to the child; not so Ctrl-C, which the terminal sends to both. One at a time.
class ChildSignals {
  public:
    ChildSignals();
    ~ChildSignals();
    ChildSignals(const ChildSignals&) = delete;
    ChildSignals& operator=(const ChildSignals&) = delete;

    void in_child() const;        // signals are there what they were before
    void in_parent(pid_t child);  // after fork(), also where it failed
    void child_ended();           // its number may be another process's from here on
    bool seen() const;            // whether one has come
    void throw_if_interrupted() const;

  private:
    void restore() const;
    std::array<struct sigaction, 3> before_{};
    sigset_t mask_before_{};
};

}  // namespace longshore::tools
