#include "host_world.h"

namespace longshore::test {

NamedWorld host_alias_world() {
    return {"host_alias", [] { return std::make_unique<HostWorld>(HostWorld::kAgentLimitNs, true); }};
}

}  // namespace longshore::test
