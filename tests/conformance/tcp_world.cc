#include "tcp_world.h"

namespace longshore::test {

std::vector<NamedWorld> worlds() {
    return {{"tcp", [] { return std::make_unique<TcpWorld>(false, false); }},
            {"tcp_inaccessible", [] { return std::make_unique<TcpWorld>(true, false); }},
            {"tcp_staging", [] { return std::make_unique<TcpWorld>(true, true); }},
            {"tcp_tls", [] { return std::make_unique<TcpWorld>(false, false, TcpWorld::kLimitNs, true); }}};
}

}  // namespace longshore::test
