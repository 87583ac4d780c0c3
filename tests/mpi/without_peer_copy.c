// Runs a command in which processes cannot read each other.      without_peer_copy COMMAND...
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "forbid_peer_copy.h"

int main(int argc, char** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: without_peer_copy COMMAND...\n");
        return 2;
    }
    if (forbid_peer_copy() != 0) {
        fprintf(stderr, "without_peer_copy: no seccomp filters here: %s\n", strerror(errno));
        return 77;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "without_peer_copy: %s: %s\n", argv[1], strerror(errno));
    return 127;
}
