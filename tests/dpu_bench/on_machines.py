#!/usr/bin/env python3
"""Runs longshore dpu-bench on so many machines that are namespaces of this one, whose links have one rate (needs root):

    on_machines.py 8 --rate 100mbit -- --hosts 64 --workers 1,2,4,8 --allow-equal --json results.jsonl

Hosts lie on the machines in blocks, and workers beside them. All of them share this machine's cores: it shows how the work grows, and
what the links decide, not how a DPU would do. Open MPI starts the processes. Exit code: that of dpu-bench; 77 this cannot be here.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))
import cluster  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", type=int)
    parser.add_argument("--rate", help="of their links, as 100mbit")
    parser.add_argument("options", nargs="+", help="of dpu-bench, behind --; --json has to be one of them")
    return parser.parse_args()


def main():
    options = arguments()
    missing = cluster.missing() or (None if shutil.which("mpirun.openmpi") else "no Open MPI")
    if missing:
        print(f"on_machines.py: SKIP: {missing}")
        return 77
    with cluster.Cluster(options.machines, rate=options.rate, offloads=True) as machines:
        settings = {"plm_rsh_agent": str(machines.agent), "plm_rsh_no_tree_spawn": "1", "btl_tcp_if_include": "net0",
                    "oob_tcp_if_include": "net0", "mpi_yield_when_idle": "1"}
        names = ",".join(f"node{number}" for number in range(options.machines))
        command = [*machines.head.enter_network(), cluster.BUILD / "bin/longshore", "dpu-bench", "--mpi", "openmpi", "--host-list", names,
                   *options.options]
        return subprocess.run(command, env=os.environ | {f"OMPI_MCA_{name}": value for name, value in settings.items()},
                              stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
