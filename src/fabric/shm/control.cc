#include "fabric/shm/control.h"

#include <fcntl.h>

namespace longshore {
namespace {
struct flock lock_on(ServiceId service, uint32_t incarnation) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(life_lock_byte(service, incarnation));
    lock.l_len = 1;
    return lock;
}
}  // namespace

bool take_life_lock(int memory_file, ServiceId service, uint32_t incarnation) {
    struct flock lock = lock_on(service, incarnation);
    return fcntl(memory_file, F_SETLK, &lock) == 0;
}

bool has_life_lock(int memory_file, ServiceId service, uint32_t incarnation) {
    struct flock lock = lock_on(service, incarnation);
    return fcntl(memory_file, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace longshore
