#include "explorer.h"

#include "base/check.h"

void explorer_yield() {
    if (longshore::explorer::Explorer::current != nullptr) longshore::explorer::Explorer::current->yield();
}

namespace longshore::explorer {
namespace {
constexpr size_t kStackBytes = 64 * 1024;
}

Explorer* Explorer::current = nullptr;

// The next branch: as recorded, or the first of its options.
uint32_t Explorer::decide(uint32_t options) {
    if (options == 1) return 0;
    if (depth_ == taken_.size()) {
        taken_.push_back(0);
        among_.push_back(static_cast<uint8_t>(options));
    }
    LONGSHORE_CHECK(among_[depth_] == options);
    return taken_[depth_++];
}

void Explorer::enter(uint32_t index) {
    Explorer& self = *current;
    self.scenario_->participants[index]();
    self.coroutines_[index].over = true;
    swapcontext(&self.coroutines_[index].context, &self.main_);
}

void Explorer::yield() {
    swapcontext(&coroutines_[running_].context, &main_);
}

void Explorer::block_until(const std::function<bool()>& condition) {
    coroutines_[running_].condition = &condition;
    yield();
    coroutines_[running_].condition = nullptr;
}

bool Explorer::choose() {
    return decide(2) == 1;
}

void Explorer::run(const Scenario& s) {
    current = nullptr;  // setting up is not explored
    s.set_up();
    current = this;
    depth_ = 0;
    const size_t n = s.participants.size();
    coroutines_.resize(n);
    for (uint32_t i = 0; i < n; ++i) {
        Coroutine& c = coroutines_[i];
        if (!c.stack) c.stack = std::make_unique<char[]>(kStackBytes);
        c.over = false;
        c.condition = nullptr;
        getcontext(&c.context);
        c.context.uc_stack.ss_sp = c.stack.get();
        c.context.uc_stack.ss_size = kStackBytes;
        c.context.uc_link = &main_;
        makecontext(&c.context, reinterpret_cast<void (*)()>(&Explorer::enter), 1, i);
    }
    for (;;) {
        uint32_t ready[8], count = 0;
        for (uint32_t i = 0; i < n; ++i) {
            Coroutine& c = coroutines_[i];
            if (!c.over && (c.condition == nullptr || (*c.condition)())) ready[count++] = i;
        }
        if (count == 0) break;
        running_ = ready[decide(count)];
        swapcontext(&main_, &coroutines_[running_].context);
    }
    current = nullptr;
}

Explorer::Outcome Explorer::explore(const Scenario& s, uint64_t schedules_max) {
    Outcome out;
    scenario_ = &s;
    taken_.clear();
    among_.clear();
    for (;;) {
        run(s);
        ++out.schedules;
        out.wrong = s.judge();
        for (const Coroutine& c : coroutines_)
            if (!c.over && out.wrong.empty()) out.wrong = "a participant sleeps for ever";
        if (!out.wrong.empty()) {
            out.schedule = taken_;
            return out;
        }
        LONGSHORE_CHECK(out.schedules < schedules_max);
        while (!taken_.empty() && taken_.back() + 1 == among_.back()) {
            taken_.pop_back();
            among_.pop_back();
        }
        if (taken_.empty()) return out;
        ++taken_.back();
    }
}

}  // namespace longshore::explorer
