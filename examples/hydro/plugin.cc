// The kernels as functions of a plug-in: what a task process loads.
#include <longshore_plugin.h>
#include <sched.h>

#include <ctime>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels.h"

namespace {

struct State {
    double slow = 1;
    std::vector<View> views;
};

std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

template <KernelId kKernel>
int run(const longshore_call* call) {
    auto& state = *static_cast<State*>(call->state);
    state.views.clear();
    for (std::size_t i = 0; i < call->buffers_count; ++i)
        state.views.push_back({call->buffers[i].data, call->buffers[i].bytes});
    const std::int64_t begin = now_ns();
    const int error = kKernelTable[kKernel].run(call->arguments, call->arguments_bytes, state.views.data(),
                                                int(state.views.size()));
    if (error != 0 || state.slow <= 1) return error;
    for (const std::int64_t end = begin + std::int64_t(double(now_ns() - begin) * state.slow);
         now_ns() < end;)
        sched_yield();  // slow cores do not keep each other waiting, where they share one here
    static_cast<Stamp*>(state.views.back().data)->ended_ns = now_ns();
    return 0;
}

int set_up(const longshore_call* call) {
    if (call->arguments_bytes != sizeof(SetUpArguments)) return kBadCall;
    const auto& given = *static_cast<const SetUpArguments*>(call->arguments);
    static_cast<State*>(call->state)->slow = given.slow;
#ifdef _OPENMP
    omp_set_num_threads(given.threads);
#endif
    return 0;
}

int open(void** state) {
    *state = new State;
    return 0;
}

void close(void* state) {
    delete static_cast<State*>(state);
}

constexpr longshore_function kFunctions[] = {
    {"lengths", run<kLengths>}, {"masses", run<kMasses>}, {"energy", run<kEnergy>}, {"set_up", set_up}};

}  // namespace

LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 4, kFunctions, open, close};
