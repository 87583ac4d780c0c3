// What a rank submits to the plug-in with --offload tasks. Tasks of a rank run one after the other, as they
// were submitted.
#pragma once

#include "messages.h"

namespace bigsort {

constexpr const char* kPluginName = "bigsort_plugin";
constexpr const char* kTaskSetup = "setup";      // arguments: Setup
constexpr const char* kTaskBegin = "begin";      // arguments: Stretch
constexpr const char* kTaskWrite = "write";      // arguments: PagesTask; one buffer, the pages
constexpr const char* kTaskFailure = "failure";  // one buffer, which takes a Credit that says what has failed

// Pages that follow each other in the stretch and in the buffer; only the last may be shorter than the
// others.
struct PagesTask {
    std::uint64_t values = 0;
};

}  // namespace bigsort
