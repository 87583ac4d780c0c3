// Runs 2 or 3 participants in every order of their atomic accesses: depth first over schedules, each replayed
// from the start. Participants are coroutines (ucontext) on one thread.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace longshore::explorer {

class Explorer {
  public:
    struct Outcome {
        uint64_t schedules = 0;
        std::string wrong;              // empty: no schedule broke the judge's rule
        std::vector<uint8_t> schedule;  // the one that did
    };
    struct Scenario {
        std::function<void()> set_up;
        std::vector<std::function<void()>> participants;
        std::function<std::string()> judge;  // after all are over, or blocked for good
    };
    Outcome explore(const Scenario& scenario, uint64_t schedules_max);

    // Called by participants, through the atomics.
    void yield();
    // Blocks until condition() holds; it must read with peek().
    void block_until(const std::function<bool()>& condition);
    // The participant's process is gone, at any one of the points where this is called or not.
    bool choose();
    static Explorer* current;

  private:
    struct Coroutine {
        ucontext_t context;
        std::unique_ptr<char[]> stack;
        bool over = false;
        const std::function<bool()>* condition = nullptr;
    };
    uint32_t decide(uint32_t options);
    static void enter(uint32_t index);
    void run(const Scenario& scenario);

    const Scenario* scenario_ = nullptr;
    std::vector<Coroutine> coroutines_;
    ucontext_t main_;
    uint32_t running_ = 0;
    std::vector<uint8_t> taken_, among_;
    size_t depth_ = 0;
};

}  // namespace longshore::explorer
