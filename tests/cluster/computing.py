#!/usr/bin/env python3
"""What allgather and broadcast through DPUs cost ranks that compute meanwhile: blocks that ranks of a host copy from each other
(docs/decisions/0040), with and without the hosts' agents, which copy for ranks that compute (0045), beside LONGSHORE_WAIT_COOPERATIVE=off, with which DPUs bring every block to every rank. Launches alternate.

    computing.py --rate 1gbit --launches 5

Ranks sleep instead of computing: there are two machines and their DPUs on one. For each collective and computing time: the
time of the whole, of the slowest rank's MPI_Wait, and which share of the communication was hidden, (C + A - T) / min(C, A)
with C the computing, A the communication alone and T both together; then what a rank that computes for so long costs the
others, which wait. Medians over launches of medians over rounds, in ms, and the ranges of the whole.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cluster  # noqa: E402
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import collectives  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
WAYS = {"ranks and agents copy": {"LONGSHORE_INTERNAL_AGENT_COPIES": 1}, "ranks copy": {"LONGSHORE_INTERNAL_AGENT_COPIES": 0},
        "DPUs bring all": {"LONGSHORE_WAIT_COOPERATIVE": "off"}}


def launch(nodes, options, settings, cases):
    """{(collective, computed, late): (whole, slowest wait, mean wait)} in ms."""
    chosen = {**nodes.settings, **collectives.DIRECT, "LD_PRELOAD": f"{BUILD}/lib/liblongshore.so", "LONGSHORE_STATS": os.devnull,
              "LONGSHORE_LIMIT_S": 20, **settings}
    words = ["env", *(f"{name}={value}" for name, value in chosen.items()), str(BUILD / "tests/mpi/openmpi/mpi_computing_openmpi"),
             str(options.bytes), str(options.rounds), *cases]
    done = subprocess.run(nodes.mpirun(words, options.ranks_per_node), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0 or "computing: ok" not in done.stdout:
        sys.exit(f"computing: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("case ")]
    return {(row[1], float(row[2]), float(row[3])): tuple(map(float, row[4:])) for row in rows}


def table(samples, computed, lates):
    """The rows, of each way's launches."""
    for collective in ("allgather", "bcast"):
        for way, launches in samples.items():
            alone = statistics.median(each[collective, 0, 0][0] for each in launches)
            print(f"{collective}, {way}: {alone:.1f} alone")
            for time in computed:
                wholes = [each[collective, time, time][0] for each in launches]
                waits = [each[collective, time, time][1] for each in launches]
                whole = statistics.median(wholes)
                print(f"  all compute {time:5.0f}: whole {whole:6.1f} ({min(wholes):.1f} to {max(wholes):.1f}), "
                      f"wait {statistics.median(waits):5.1f}, hidden {100 * (time + alone - whole) / min(time, alone):4.0f} %")
            for late in lates:
                costs = [each[collective, 0, late][1] for each in launches]
                means = [each[collective, 0, late][2] for each in launches]
                print(f"  one computes {late:4.0f}: the slowest other waits {statistics.median(costs):6.1f} ({min(costs):.1f} to "
                      f"{max(costs):.1f}), they on average {statistics.median(means):6.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ranks-per-node", type=int, default=4, metavar="N")
    parser.add_argument("--rate", help="of each link, as tc has it: 1gbit")
    parser.add_argument("--bytes", type=int, default=1 << 18, help="of a rank's block; a broadcast has as much as all of them (default: 256 KiB)")
    parser.add_argument("--rounds", type=int, default=5, help="of each case in a launch (default: 5)")
    parser.add_argument("--launches", type=int, default=5, help="of each way (default: 5)")
    parser.add_argument("--compute", default="20,50,200", metavar="MS,...", help="default: 20,50,200")
    options = parser.parse_args()
    if problem := cluster.missing():
        sys.exit(f"computing: {problem}")
    times = [float(value) for value in options.compute.split(",")]
    cases = ["0", *(f"{value:g}" for value in times), *(f"0:{value:g}" for value in times)]
    samples = {way: [] for way in WAYS}
    with cluster.Cluster(options.nodes, options.rate, offloads=True, dpus=True) as nodes:
        for _ in range(options.launches):
            for way, settings in WAYS.items():
                samples[way].append(launch(nodes, options, settings, cases))
    table(samples, times, times)


if __name__ == "__main__":
    main()
