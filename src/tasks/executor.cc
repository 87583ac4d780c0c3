#include "tasks/executor.h"

#include <string.h>

namespace longshore::tasks {
namespace {

constexpr const char* kNonsense = "what the program says of it makes no sense";
constexpr const char* kCopyLost =
    "the copy of a kept buffer was lost with an earlier task process, or could not be made; keep it again";

KeptPart part_of(const Submission& submission) {
    KeptPart part;
    memcpy(&part, submission.arguments, sizeof part);
    return part;
}

// What longshore_keep, _change and _forget have submitted.
bool is_of_kept(const Submission& submission) {
    return submission.function == kKeep || submission.function == kForget;
}

bool makes_sense(const Submission& submission) {
    if (submission.arguments_bytes != sizeof(KeptPart) ||
        submission.buffers_count != (submission.function == kForget ? 0u : 1u))
        return false;
    if (submission.function == kForget) return true;
    const KeptPart part = part_of(submission);
    const BufferPlace& buffer = submission.buffers[0];
    return buffer.bytes != 0 && buffer.access == LONGSHORE_IN &&
           (part.is_whole == 0 || (part.offset == 0 && buffer.bytes == part.bytes));
}

}  // namespace

int Executor::check(const Submission& submission, std::string* error) const {
    const bool is_possible = submission.buffers_count <= LONGSHORE_BUFFERS_MAX &&
                             submission.arguments_bytes <= LONGSHORE_ARGUMENTS_BYTES_MAX &&
                             (is_of_kept(submission) ? makes_sense(submission)
                                                     : submission.function < plugin_.table().functions_count);
    if (is_possible) return 0;
    *error = kNonsense;
    return LONGSHORE_ERR_ARGUMENT;
}

void Executor::give_up(Patron& patron, const Submission& submission) {
    if (submission.function == kKeep) patron.kept.forget(part_of(submission).number);
}

int Executor::keep(Patron& patron, const Submission& submission, const longshore_view* views,
                   std::string* error) {
    const KeptPart part = part_of(submission);
    if (submission.function == kForget) {
        patron.kept.forget(part.number);
        return 0;
    }
    const uint64_t bytes = submission.buffers[0].bytes;
    std::byte* const copy = part.is_whole != 0 ? patron.kept.make(part.number, bytes)
                                               : patron.kept.find(part.number, part.offset, bytes);
    if (copy != nullptr) {
        memcpy(copy, views[0].data, bytes);
        return 0;
    }
    *error = part.is_whole != 0 ? "there is no memory for " + std::to_string(bytes) + " bytes to be kept"
                                : kCopyLost;
    return part.is_whole != 0 ? LONGSHORE_ERR_MEMORY : LONGSHORE_ERR_LOST;
}

int Executor::run(Patron& patron, const Submission& submission, longshore_view* views, std::string* error) {
    if (is_of_kept(submission)) return keep(patron, submission, views, error);
    for (uint32_t i = 0; i < submission.buffers_count; ++i) {
        const BufferPlace& buffer = submission.buffers[i];
        if (buffer.access != LONGSHORE_KEPT) continue;
        views[i].data = patron.kept.find(buffer.address, buffer.offset, buffer.bytes);
        if (views[i].data != nullptr) continue;
        *error = kCopyLost;
        return LONGSHORE_ERR_LOST;
    }
    const longshore_call call{submission.arguments, submission.arguments_bytes, views,
                              submission.buffers_count, patron.state};
    return plugin_.run(submission.function, call, error);
}

}  // namespace longshore::tasks
