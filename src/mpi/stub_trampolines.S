/* The MPI_ symbols of the preloaded stub: one jump through a table each, so that every argument arrives as it was
 * given whatever the function's type. An entry of the table starts at its own "lazy" tail, which resolves the whole
 * table on the first MPI call of the process and then jumps again. */

#if defined(__x86_64__)

.macro define_entry name
    .text
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    endbr64
    jmp *(longshore_entries + 8 * entry_index)(%rip)
.Llazy_\name:
    endbr64
    movl $entry_index, %eax
    jmp longshore_lazy
    .size \name, . - \name
    .section .data.rel.local, "aw", @progbits
    .quad .Llazy_\name
    .set entry_index, entry_index + 1
.endm

.macro define_lazy
    .text
    .type longshore_lazy, @function
longshore_lazy:
    pushq %rax
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9 /* seven words: the stack is aligned for the call */
    call longshore_resolve
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rax
    leaq longshore_entries(%rip), %r11
    jmp *(%r11, %rax, 8)
    .size longshore_lazy, . - longshore_lazy
.endm

#elif defined(__aarch64__)

.macro define_entry name
    .text
    .p2align 4
    .globl \name
    .type \name, %function
\name:
    adrp x16, longshore_entries + 8 * entry_index
    ldr x16, [x16, #:lo12:longshore_entries + 8 * entry_index]
    br x16
.Llazy_\name:
    mov x17, #entry_index
    b longshore_lazy
    .size \name, . - \name
    .section .data.rel.local, "aw", %progbits
    .quad .Llazy_\name
    .set entry_index, entry_index + 1
.endm

.macro define_lazy
    .text
    .type longshore_lazy, %function
longshore_lazy:
    stp x29, x30, [sp, #-96]!
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
    adrp x16, longshore_entries
    add x16, x16, #:lo12:longshore_entries
    ldr x16, [x16, x17, lsl #3]
    br x16
    .size longshore_lazy, . - longshore_lazy
.endm

#else
#error "the stub has trampolines for x86_64 and aarch64 only"
#endif

    .section .data.rel.local, "aw", @progbits
    .p2align 3
    .globl longshore_entries
    .hidden longshore_entries
longshore_entries:
    .set entry_index, 0

    .hidden longshore_resolve
#define LONGSHORE_ENTRY(name) define_entry name
#include "mpi/entry_points.inc"
    define_lazy

    .section .note.GNU-stack, "", @progbits
