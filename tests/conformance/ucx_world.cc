#include "ucx_world.h"

#include "host_world.h"

namespace longshore::test {

NamedWorld ucx_world() {
    return {"ucx", [] { return std::make_unique<UcxWorld>(false, false); }};
}
NamedWorld ucx_inaccessible_world() {
    return {"ucx_inaccessible", [] { return std::make_unique<UcxWorld>(true, false); }};
}
NamedWorld ucx_staging_world() {
    return {"ucx_staging", [] { return std::make_unique<UcxWorld>(true, true); }};
}

NamedWorld host_world() {
    return {"host", [] { return std::make_unique<HostWorld>(); }};
}

}  // namespace longshore::test
