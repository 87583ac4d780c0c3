/* PMPI_X of every entry, hidden: whoever links this calls the MPI's own function by that name, though the preloaded stub
 * shows a PMPI_X to everybody else. native.h says who fills the table. */
#include "mpi/native/trampolines.h"

.macro define_entry name
    .hidden \name
    begin_entry \name
    jump_through longshore_natives
    .size \name, . - \name
    .set entry_index, entry_index + 1
.endm

    .hidden longshore_natives
    .set entry_index, 0
#define LONGSHORE_ENTRY(name) define_entry P##name
#include "mpi/entry_points.inc"

    .section .note.GNU-stack, "", @progbits
