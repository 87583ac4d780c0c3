// In the place of dpu/rank/doctor.cc, where this Longshore was built without DPUs.
#include <unistd.h>

#include "base/settings.h"
#include "tools/doctor/doctor.h"

namespace longshore::tools {

void check_dpu(Checks* checks) {
    Settings settings;
    parse_settings(environ, &settings, nullptr);  // check_settings() tells what is wrong
    if (settings.dpu.empty()) return;
    checks->push_back(
        {"dpu", Verdict::kFail, "this Longshore was built without DPUs", "unset LONGSHORE_DPU"});
}

}  // namespace longshore::tools
