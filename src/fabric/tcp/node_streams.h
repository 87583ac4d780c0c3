// Streams between nodes that are of no service process (fabric/node_streams.h), by TCP.
#pragma once

#include "fabric/node_streams.h"

namespace longshore {

const NodeStreams& node_streams();

}  // namespace longshore
