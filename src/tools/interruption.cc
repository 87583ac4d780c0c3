#include "tools/interruption.h"

namespace longshore::tools {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

// Handlers of signals reach nothing else.
volatile sig_atomic_t came = 0;
volatile pid_t passed_to = 0;

void pass_on(int number, siginfo_t* info, void*) {
    came = number;
    const bool from_terminal = info->si_code == SI_KERNEL;
    if (passed_to > 0 && !from_terminal) kill(passed_to, number);
}

}  // namespace

ChildSignals::ChildSignals() {
    sigset_t ours;
    sigemptyset(&ours);
    for (const int number : kSignals) sigaddset(&ours, number);
    sigprocmask(SIG_BLOCK, &ours, &mask_before_);
    came = 0;
    passed_to = 0;
    for (size_t i = 0; i < kSignals.size(); ++i) {
        sigaction(kSignals[i], nullptr, &before_[i]);
        if (before_[i].sa_handler == SIG_IGN) continue;  // as below nohup
        struct sigaction action {};
        action.sa_sigaction = pass_on;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        sigaction(kSignals[i], &action, nullptr);
    }
}

ChildSignals::~ChildSignals() {
    restore();
}

void ChildSignals::restore() const {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

void ChildSignals::in_child() const {
    restore();
}

void ChildSignals::in_parent(pid_t child) {
    passed_to = child;
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

void ChildSignals::child_ended() {
    passed_to = 0;
}

bool ChildSignals::seen() const {
    return came != 0;
}

void ChildSignals::throw_if_interrupted() const {
    if (came != 0) throw Interrupted{came};
}

}  // namespace longshore::tools
