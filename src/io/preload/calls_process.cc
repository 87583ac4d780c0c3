// Calls after which this program is another, has a child that shares its files, or is gone: all is written
// before.
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/preload/behind.h"
#include "io/preload/next.h"
#include "io/preload/shown.h"
#include "io/preload/streams.h"

using namespace longshore::io;

namespace {

constexpr int kLostStatus = 74;  // EX_IOERR: something was not written, and the program does not know

// A program that is started may read what was written, and has descriptors that are not closed for it.
void begin_program() {
    if (!is_rank()) return;
    const int error = errno;
    const Guard guard;
    drain_all();
    let_go_all(Reason::kForked, true);
    errno = error;
}

// This process becomes another program: nobody could tell it later.
void become_program() {
    if (!is_rank()) return;
    const int error = errno;
    const Guard guard;
    let_go_all(Reason::kForked, false);
    finish();
    errno = error;
}

int end_process(int status) {
    if (is_rank()) {
        const Guard guard;
        finish();
    }
    return lost_files() != 0 && status == 0 ? kLostStatus : status;
}

// After all that the program has to do at its end, because it was registered first.
void at_exit(int status, void*) {
    flush_streams();
    if (end_process(status) == status) return;
    fflush(nullptr);
    NEXT(_exit)(kLostStatus);
}

__attribute__((constructor)) void register_exit() {
    on_exit(at_exit, nullptr);
}

// The arguments of execl and its kin, up to the null.
struct Arguments {
    static constexpr size_t kMax = 4096;
    char* words[kMax];
    bool take(const char* first, va_list more) {
        words[0] = const_cast<char*>(first);
        for (size_t i = 0; words[i] != nullptr;) {
            if (++i == kMax) {
                errno = E2BIG;
                return false;
            }
            words[i] = va_arg(more, char*);
        }
        return true;
    }
};

}  // namespace

SHOWN int execve(const char* path, char* const words[], char* const variables[]) __THROW {
    become_program();
    return NEXT(execve)(path, words, variables);
}
SHOWN int execv(const char* path, char* const words[]) __THROW {
    become_program();
    return NEXT(execv)(path, words);
}
SHOWN int execvp(const char* file, char* const words[]) __THROW {
    become_program();
    return NEXT(execvp)(file, words);
}
SHOWN int execvpe(const char* file, char* const words[], char* const variables[]) __THROW {
    become_program();
    return NEXT(execvpe)(file, words, variables);
}
SHOWN int fexecve(int fd, char* const words[], char* const variables[]) __THROW {
    become_program();
    return NEXT(fexecve)(fd, words, variables);
}
SHOWN int execveat(int fd, const char* path, char* const words[], char* const variables[],
                   int flags) __THROW {
    become_program();
    return NEXT(execveat)(fd, path, words, variables, flags);
}
SHOWN int execl(const char* path, const char* first, ...) __THROW {
    va_list more;
    va_start(more, first);
    Arguments arguments;
    const bool fits = arguments.take(first, more);
    va_end(more);
    return fits ? execv(path, arguments.words) : -1;
}
SHOWN int execlp(const char* file, const char* first, ...) __THROW {
    va_list more;
    va_start(more, first);
    Arguments arguments;
    const bool fits = arguments.take(first, more);
    va_end(more);
    return fits ? execvp(file, arguments.words) : -1;
}
SHOWN int execle(const char* path, const char* first, ...) __THROW {
    va_list more;
    va_start(more, first);
    Arguments arguments;
    const bool fits = arguments.take(first, more);
    char* const* const variables = va_arg(more, char* const*);
    va_end(more);
    return fits ? execve(path, arguments.words, variables) : -1;
}

SHOWN int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                      const posix_spawnattr_t* attributes, char* const words[], char* const variables[]) {
    begin_program();
    return NEXT(posix_spawn)(pid, path, actions, attributes, words, variables);
}
SHOWN int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attributes, char* const words[], char* const variables[]) {
    begin_program();
    return NEXT(posix_spawnp)(pid, file, actions, attributes, words, variables);
}
SHOWN int system(const char* command) {
    begin_program();
    return NEXT(system)(command);
}
SHOWN FILE* popen(const char* command, const char* mode) {
    begin_program();
    return NEXT(popen)(command, mode);
}

// vfork returns twice, so that nothing may be on the stack of a function around it: what is to be done before
// it is done, and then it is jumped to. What its child does to descriptors this library leaves alone.
extern "C" __attribute__((visibility("hidden"), used)) const void* longshore_io_before_vfork() {
    begin_program();
    return reinterpret_cast<const void*>(NEXT(vfork));
}
#if defined(__x86_64__)
asm(".text\n.globl vfork\n.type vfork,@function\nvfork:\n"
    "  sub $8, %rsp\n  call longshore_io_before_vfork\n  add $8, %rsp\n  jmp *%rax\n"
    ".size vfork, .-vfork\n");
#elif defined(__aarch64__)
asm(".text\n.globl vfork\n.type vfork,%function\nvfork:\n"
    "  stp x29, x30, [sp, #-16]!\n  bl longshore_io_before_vfork\n  ldp x29, x30, [sp], #16\n  mov x16, x0\n "
    " br x16\n"
    ".size vfork, .-vfork\n");
#else
#error "no vfork for this machine"
#endif

SHOWN void _exit(int status) {
    NEXT(_exit)(end_process(status));
    __builtin_unreachable();
}
SHOWN void _Exit(int status) __THROW {
    NEXT(_exit)(end_process(status));
    __builtin_unreachable();
}
SHOWN void quick_exit(int status) __THROW {
    NEXT(quick_exit)(end_process(status));
    __builtin_unreachable();
}
SHOWN void abort(void) __THROW {
    end_process(1);
    NEXT(abort)();
    __builtin_unreachable();
}
