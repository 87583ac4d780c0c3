#include "service/scheduling_class.h"

#include <sched.h>

namespace longshore {

bool SchedulingClass::change_this_process(bool raised) {
    const sched_param none{};
    return sched_setscheduler(0, raised ? SCHED_OTHER : SCHED_IDLE, &none) == 0;
}

void SchedulingClass::become(bool raised, uint64_t now_ns) {
    if (raised == raised_) return;
    if (change_(raised)) {
        raised_ = raised;
        raised_at_ns_ = now_ns;
    } else {
        only_idle_ = false;
    }
}

}  // namespace longshore
