// longshored: started by the first rank of a node (supervisor) or of a machine whose service processes are on
// a DPU (agent), and by itself (sp). Not by hand.
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "service/agent.h"
#include "service/service_process.h"
#include "service/supervisor.h"

int main(int argc, char** argv) {
    prctl(PR_SET_NAME, "longshored");
    if (argc >= 2 && strcmp(argv[1], "supervisor") == 0) return longshore::run_supervisor();
    if (argc >= 2 && strcmp(argv[1], "agent") == 0) return longshore::run_agent();
    if (argc >= 2 && strcmp(argv[1], "sp") == 0) return longshore::run_service_process();
    fprintf(stderr,
            "longshored serves the collectives of MPI programs. It is started by the program itself: "
            "see 'longshore run --help'.\n");
    return 2;
}
