/* Assembler macros: a function that is one jump through a table of addresses, so that every argument arrives as it was
 * given whatever the function's type. `entry_index` is the place in the table; each entry counts it up. */

#if defined(__x86_64__)

#define FUNCTION_TYPE @function

.macro begin_entry name
    .text
    .p2align 4
    .globl \name
    .type \name, FUNCTION_TYPE
\name:
.Lstart_\name:
    endbr64
.endm

.macro jump_through table
    jmp *(\table + 8 * entry_index)(%rip)
.endm

#elif defined(__aarch64__)

#define FUNCTION_TYPE %function

.macro begin_entry name
    .text
    .p2align 4
    .globl \name
    .type \name, FUNCTION_TYPE
\name:
.Lstart_\name:
.endm

.macro jump_through table
    adrp x16, \table + 8 * entry_index
    ldr x16, [x16, #:lo12:\table + 8 * entry_index]
    br x16
.endm

#else
#error "there are trampolines for x86_64 and aarch64 only"
#endif
