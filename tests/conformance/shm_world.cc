#include "shm_world.h"

namespace longshore::test {

NamedWorld shm_world() {
    return {"shm", [] { return std::make_unique<ShmWorld>(false, false); }};
}
NamedWorld shm_inaccessible_world() {
    return {"shm_inaccessible", [] { return std::make_unique<ShmWorld>(true, false); }};
}
NamedWorld shm_staging_world() {
    return {"shm_staging", [] { return std::make_unique<ShmWorld>(true, true); }};
}

}  // namespace longshore::test
