// The plug-in of the tests: functions that compute, wait, fail, and crash.
#include <longshore_plugin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/tasks/functions.h"

namespace {

struct State {
    uint64_t calls = 0;
};

State& state_of(const longshore_call* call) {
    return *static_cast<State*>(call->state);
}

// out[i] = combine(in[i], inout[i]); inout[i] + 1. All three of as many bytes.
int combine(const longshore_call* call) {
    if (call->buffers_count != 3 || call->arguments_bytes != sizeof(uint64_t)) return 1;
    const auto* in = static_cast<const unsigned char*>(call->buffers[0].data);
    auto* inout = static_cast<unsigned char*>(call->buffers[1].data);
    auto* out = static_cast<unsigned char*>(call->buffers[2].data);
    uint64_t key = 0;
    memcpy(&key, call->arguments, sizeof key);
    if (call->buffers[1].bytes != call->buffers[0].bytes || call->buffers[2].bytes != call->buffers[0].bytes)
        return 2;
    for (size_t i = 0; i < call->buffers[0].bytes; ++i) {
        out[i] = combined(in[i], inout[i], key + i);
        ++inout[i];
    }
    return 0;
}

// How often the rank has called any function of its state in this process.
int count(const longshore_call* call) {
    *static_cast<uint64_t*>(call->buffers[0].data) = ++state_of(call).calls;
    return 0;
}

// Adds one to the word in the buffer: for tasks that must run once.
int note(const longshore_call* call) {
    static_cast<std::atomic<uint64_t>*>(call->buffers[0].data)->fetch_add(1);
    return 0;
}

// Until there is a file of that name.
int wait_for_file(const longshore_call* call) {
    while (access(static_cast<const char*>(call->arguments), F_OK) != 0) usleep(1000);
    return 0;
}

int give(const longshore_call* call) {
    return *static_cast<const int*>(call->arguments);
}

int print(const longshore_call* call) {
    const int times = *static_cast<const int*>(call->arguments);
    for (int i = 0; i < times; ++i) printf("line %d\n", i);
    fprintf(stderr, "an error, without an end");
    return 0;
}

int throw_it(const longshore_call*) {
    throw std::runtime_error("as asked");
}

int crash(const longshore_call*) {
    raise(SIGSEGV);
    return 0;
}

int add_with_threads(const longshore_call* call) {
    auto* values = static_cast<uint64_t*>(call->buffers[0].data);
    const size_t half = call->buffers[0].bytes / sizeof *values / 2;
    const auto add = [values](size_t from, size_t to) {
        for (size_t i = from; i < to; ++i) values[i] += i;
    };
    std::thread other(add, 0, half);
    add(half, 2 * half);
    other.join();
    return 0;
}

// A process that loads it ends if there is a file of the name that the environment says, which is gone then:
// so its successor does not.
__attribute__((constructor)) void end_once() {
    const char* const file = getenv("LONGSHORE_TASK_TEST_END_ONCE");
    if (file != nullptr && unlink(file) == 0) raise(SIGKILL);
}

int open(void** state) {
    *state = new State;
    return 0;
}

void close(void* state) {
    delete static_cast<State*>(state);
}

const longshore_function functions[] = {
    {"combine", combine}, {"count", count},    {"note", note},   {"wait_for_file", wait_for_file},
    {"give", give},       {"throw", throw_it}, {"crash", crash}, {"threads", add_with_threads},
    {"print", print}};

}  // namespace

LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, sizeof functions / sizeof *functions, functions, open, close};
