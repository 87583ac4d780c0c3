/* The symbols of the preloaded stub: one jump through a table each, MPI_X through longshore_calls and PMPI_X through
 * longshore_entries. A place in a table starts at its function's own "lazy" tail, which fills the tables on the first
 * MPI call of the process and then begins the function again. */
#include "mpi/native/trampolines.h"

#if defined(__x86_64__)

.macro lazy_tail name
    endbr64
    leaq .Lstart_\name(%rip), %rax
    jmp longshore_lazy
.endm

/* Its frame is described, so that a debugger, and what unwinds the stack, see through it. */
.macro define_lazy
    .text
    .type longshore_lazy, @function
longshore_lazy:
    .cfi_startproc
    pushq %rax
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9 /* seven words: the stack is aligned for the call */
    .cfi_adjust_cfa_offset 56
    call longshore_resolve
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rax
    .cfi_adjust_cfa_offset -56
    jmp *%rax
    .cfi_endproc
    .size longshore_lazy, . - longshore_lazy
.endm

#else

.macro lazy_tail name
    adr x17, .Lstart_\name
    b longshore_lazy
.endm

.macro define_lazy
    .text
    .type longshore_lazy, %function
longshore_lazy:
    .cfi_startproc
    stp x29, x30, [sp, #-96]!
    .cfi_def_cfa_offset 96
    .cfi_offset 29, -96
    .cfi_offset 30, -88
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x17, [sp, #80]
    bl longshore_resolve
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x17, [sp, #80]
    ldp x29, x30, [sp], #96
    .cfi_restore 30
    .cfi_restore 29
    .cfi_def_cfa_offset 0
    br x17
    .cfi_endproc
    .size longshore_lazy, . - longshore_lazy
.endm

#endif

.macro begin_table table
    .section .data.rel.local, "aw"
    .p2align 3
    .globl \table
    .hidden \table
\table:
    .set entry_index, 0
.endm

.macro define_entry name, table
    begin_entry \name
    jump_through \table
.Llazy_\name:
    lazy_tail \name
    .size \name, . - \name
    .section .data.rel.local, "aw"
    .quad .Llazy_\name
    .set entry_index, entry_index + 1
.endm

    .hidden longshore_resolve
    begin_table longshore_calls
#define LONGSHORE_ENTRY(name) define_entry name, longshore_calls
#include "mpi/entry_points.inc"
#undef LONGSHORE_ENTRY
    begin_table longshore_entries
#define LONGSHORE_ENTRY(name) define_entry P##name, longshore_entries
#include "mpi/entry_points.inc"
#undef LONGSHORE_ENTRY
    define_lazy

    .section .note.GNU-stack, "", @progbits
