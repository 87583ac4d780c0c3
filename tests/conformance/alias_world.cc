#include "host_world.h"

namespace longshore::test {

std::vector<NamedWorld> worlds() {
    return {{"host_alias", [] { return std::make_unique<HostWorld>(HostWorld::kAgentLimitNs, true); }}};
}

}  // namespace longshore::test
