// What the first rank of a node tells the supervisor that it starts, by the options of the job.
#pragma once

#include "host/context.h"

namespace longshore {

SupervisorParameters parameters_of(const ls_context& context);

}  // namespace longshore
