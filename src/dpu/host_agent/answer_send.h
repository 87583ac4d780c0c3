#pragma once

namespace longshore {

// From now on, what this process sends to a peer that is gone waits in vain instead of failing: an agent's
// network ends the process otherwise. Who is gone is noticed by reading.
void outlive_peers();

}  // namespace longshore
