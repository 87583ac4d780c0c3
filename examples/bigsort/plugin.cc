// The plug-in of --offload tasks: what a peer does, without a process of the program's own. A function
// returns 0 or an errno; after an error all further ones return it, too, and "failure" says which call on
// which file it was.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "file_writer.h"
#include "longshore_plugin.h"
#include "task_calls.h"

namespace bigsort {

namespace {

struct State {
    Layout layout;
    std::unique_ptr<FileWriter> writer;
    Credit failure;
};

int open_state(void** state) {
    *state = new (std::nothrow) State;
    return *state ? 0 : ENOMEM;
}

void close_state(void* state) {
    delete static_cast<State*>(state);
}

// Runs `work` unless something has failed before.
template <typename Work>
int guarded(const longshore_call* call, Work work) {
    State& state = *static_cast<State*>(call->state);
    if (state.failure.error != 0) return state.failure.error;
    try {
        work(state);
    } catch (const FileError& failed) {
        state.failure.error = failed.error();
        std::strncpy(state.failure.call, failed.call().c_str(), sizeof(state.failure.call) - 1);
        std::strncpy(state.failure.file, failed.path().c_str() + failed.path().rfind('/') + 1,
                     sizeof(state.failure.file) - 1);
    }
    return state.failure.error;
}

// A process that took the place of one that died has not been set up, and files that were open are lost.
FileWriter& writer_of(State& state) {
    if (!state.writer) throw FileError("go on with", "files of a process that died", ESTALE);
    return *state.writer;
}

template <typename Arguments>
const Arguments& arguments_of(const longshore_call* call) {
    return *static_cast<const Arguments*>(call->arguments);
}

int setup(const longshore_call* call) {
    return guarded(call, [&](State& state) {
        const Setup& given = arguments_of<Setup>(call);
        struct stat folder;
        if (stat(given.folder, &folder) != 0) throw FileError("use", given.folder, errno);
        state.layout = given.layout;
        state.writer = std::make_unique<FileWriter>(given.folder, given.layout, given.files_max);
    });
}

int begin(const longshore_call* call) {
    return guarded(call, [&](State& state) { writer_of(state).begin(arguments_of<Stretch>(call)); });
}

int write_pages(const longshore_call* call) {
    return guarded(call, [&](State& state) {
        const Value* values = static_cast<const Value*>(call->buffers[0].data);
        for (std::uint64_t left = arguments_of<PagesTask>(call).values; left > 0;) {
            const std::uint64_t now = std::min(left, state.layout.page_values);
            writer_of(state).write(values, now);
            values += now;
            left -= now;
        }
    });
}

int failure(const longshore_call* call) {
    std::memcpy(call->buffers[0].data, &static_cast<State*>(call->state)->failure, sizeof(Credit));
    return 0;
}

const longshore_function kFunctions[] = {
    {kTaskSetup, setup}, {kTaskBegin, begin}, {kTaskWrite, write_pages}, {kTaskFailure, failure}};

}  // namespace

}  // namespace bigsort

LONGSHORE_PLUGIN = {LONGSHORE_PLUGIN_VERSION, 4, bigsort::kFunctions, bigsort::open_state,
                    bigsort::close_state};
