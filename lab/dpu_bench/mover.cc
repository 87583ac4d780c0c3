#include "dpu_bench/mover.h"

namespace longshore::dpu_bench {

const char* to_string(MoverKind kind) {
    switch (kind) {
        case MoverKind::kProcessVm:
            return "process_vm";
        case MoverKind::kTcp:
            return "tcp";
        case MoverKind::kVerbs:
            return "verbs";
    }
    return "?";
}

std::string why_not_built(MoverKind kind) {
#ifndef LONGSHORE_HAS_VERBS
    if (kind == MoverKind::kVerbs)
        return "this build has no mover 'verbs': install libibverbs-dev ('make deps' does) and build again";
#endif
    return "";
}

}  // namespace longshore::dpu_bench
