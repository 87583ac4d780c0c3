#include "ucx_world.h"

#include "host_world.h"

namespace longshore::test {

std::vector<NamedWorld> worlds() {
    return {{"ucx", [] { return std::make_unique<UcxWorld>(false, false); }},
            {"ucx_inaccessible", [] { return std::make_unique<UcxWorld>(true, false); }},
            {"ucx_staging", [] { return std::make_unique<UcxWorld>(true, true); }},
            {"host", [] { return std::make_unique<HostWorld>(); }}};
}

}  // namespace longshore::test
