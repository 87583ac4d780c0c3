// Runs tasks of a plug-in in this process, wherever they and their buffers have come from: from a queue of a
// rank of this node, or from another node. What a task says is checked here. One thread.
#pragma once

#include <string>

#include "tasks/control.h"
#include "tasks/kept.h"
#include "tasks/plugin.h"

namespace longshore::tasks {

class Executor {
  public:
    // What a rank that has opened the pool has here.
    struct Patron {
        uint64_t client = 0;
        void* state = nullptr;
        KeptCopies kept;
    };
    Plugin& plugin() { return plugin_; }

    // 0, or an error, with the reason: then it cannot be run.
    int check(const Submission& submission, std::string* error) const;
    // What has been checked. `views`: where its buffers are; those that are kept are looked up here. Returns
    // what the plug-in does, or an error of Longshore's.
    int run(Patron& patron, const Submission& submission, longshore_view* views, std::string* error);
    // The buffers of a task could not be had: what it was to keep is not kept any more.
    static void give_up(Patron& patron, const Submission& submission);

  private:
    static int keep(Patron& patron, const Submission& submission, const longshore_view* views,
                    std::string* error);

    Plugin plugin_;
};

}  // namespace longshore::tasks
