// Starting this program anew in another role (a service process, a task process), with a socket to it.
#pragma once

#include <sys/types.h>

#include "fabric/shm/cpu_mask.h"
#include "fabric/shm/system.h"

namespace longshore {

struct Child {
    pid_t pid = -1;
    Fd control;  // this end; the child's is kServiceControlFd
};

// pid -1: it cannot be had (errno). The child ends when this process does, blocks no signal, and is bound to
// `cpus` unless they are empty. If the program cannot be run, the child says so in a ProblemReport of kind
// kCannotStart.
Child start_child(const char* path, char* const arguments[], char* const environment[],
                  const CpuMask& cpus = {});

}  // namespace longshore
