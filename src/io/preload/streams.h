// Streams of the C library (FILE) on files that are written behind.
#pragma once

namespace longshore::io {

// Hands on what they have in their buffers, as the C library does at the end, and says what could not be.
// Without a Guard.
void flush_streams();

}  // namespace longshore::io
