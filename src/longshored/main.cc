// longshored: started by the first rank of a node (supervisor) or of a machine whose service processes are on
// a DPU (agent), or that wants statistics or a trace (keeper), and by itself (sp, task, carrier, guest,
// writer, stand-in, task-guard); by hand, or by the system, only where it is the standing service of a DPU
// (listen).
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "io/writer.h"
#include "service/service_process.h"
#include "service/supervisor.h"
#include "statistics/keeper.h"
#include "tasks/carrier.h"
#include "tasks/guest_process.h"
#include "tasks/task_process.h"
#ifdef LONGSHORE_DPU
#include "dpu/card/listen.h"
#include "dpu/card/stand_in_process.h"
#include "dpu/card/task_guard.h"
#include "dpu/host_agent/agent.h"
#include "dpu/host_agent/dpu_stream.h"
#endif

namespace {

#ifdef LONGSHORE_DPU
constexpr longshore::tasks::ConnectToDpu kToDpu = longshore::tasks::connect_to_dpu;
#else
constexpr longshore::tasks::ConnectToDpu kToDpu = nullptr;
#endif

}  // namespace

int main(int argc, char** argv) {
    prctl(PR_SET_NAME, "longshored");
    if (argc >= 2 && strcmp(argv[1], "supervisor") == 0) return longshore::run_supervisor();
    if (argc >= 2 && strcmp(argv[1], "sp") == 0) return longshore::run_service_process();
    if (argc >= 2 && strcmp(argv[1], "task") == 0) return longshore::tasks::run_task_process();
    if (argc >= 2 && strcmp(argv[1], "carrier") == 0) return longshore::tasks::run_carrier(kToDpu);
    if (argc >= 2 && strcmp(argv[1], "guest") == 0) return longshore::tasks::run_guest_process();
    if (argc >= 2 && strcmp(argv[1], "keeper") == 0) return longshore::statistics::run_keeper();
    if (argc >= 2 && strcmp(argv[1], "writer") == 0) return longshore::io::run_writer();
#ifdef LONGSHORE_DPU
    if (argc >= 2 && strcmp(argv[1], "agent") == 0) return longshore::run_agent();
    if (argc >= 3 && strcmp(argv[1], "stand-in") == 0) return longshore::run_stand_in_process(argv[2]);
    if (argc >= 2 && strcmp(argv[1], "task-guard") == 0)
        return longshore::run_task_guard({argv + 2, static_cast<size_t>(argc - 2)});
    if (argc >= 2 && strcmp(argv[1], "listen") == 0) {
        argv[1] = argv[0];  // as it is named in messages about options
        return longshore::run_listen(argc - 1, argv + 1);
    }
#endif
    fprintf(stderr,
            "longshored serves the collectives of MPI programs. It is started by the program itself: "
            "see 'longshore run --help'. For a DPU see 'longshored listen --help'.\n");
    return 2;
}
