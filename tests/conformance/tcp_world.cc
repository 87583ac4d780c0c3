#include "tcp_world.h"

namespace longshore::test {

NamedWorld tcp_world() {
    return {"tcp", [] { return std::make_unique<TcpWorld>(false, false); }};
}
NamedWorld tcp_inaccessible_world() {
    return {"tcp_inaccessible", [] { return std::make_unique<TcpWorld>(true, false); }};
}
NamedWorld tcp_staging_world() {
    return {"tcp_staging", [] { return std::make_unique<TcpWorld>(true, true); }};
}
NamedWorld tcp_tls_world() {
    return {"tcp_tls", [] { return std::make_unique<TcpWorld>(false, false, TcpWorld::kLimitNs, true); }};
}

}  // namespace longshore::test
