#include <stdexcept>

#include "dpu_bench/mover.h"

namespace longshore::dpu_bench {

std::unique_ptr<Mover> make_mover(MoverKind kind, const std::string& device) {
    if (const std::string reason = why_not_built(kind); !reason.empty()) throw std::runtime_error(reason);
    if (kind == MoverKind::kTcp) return make_tcp_mover(device);
#ifdef LONGSHORE_HAS_VERBS
    if (kind == MoverKind::kVerbs) return make_verbs_mover(device);
#endif
    return make_process_vm_mover();
}

}  // namespace longshore::dpu_bench
