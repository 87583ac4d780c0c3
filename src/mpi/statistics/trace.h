// What this rank did when (LONGSHORE_TRACE), gathered at MPI_Finalize into one Chrome trace of the job.
#pragma once

#include <cstdint>

#include "mpi/shim.h"
#include "statistics/spans.h"

namespace longshore::mpi {

// After the agreement: fixes the job's origin of time. Collective over shim().world if a trace is wanted.
void trace_begin();
uint64_t trace_origin_ns();
// From here on spans are noted there, where the keeper finds them. Before the first call of the program.
void note_spans_at(SpanList* place);
// Cheap when no trace is wanted.
void trace_span(SpanKind kind, Function function, uint64_t begin_ns, uint64_t end_ns);
// Of a test. Programs may make millions of them: a short one is left out, and one soon after another is part
// of the same span.
void trace_test(Function function, uint64_t begin_ns, uint64_t end_ns);
bool trace_wanted();
// Collective over shim().world; the context is still there. Rank 0 writes the file.
void write_trace();

}  // namespace longshore::mpi
