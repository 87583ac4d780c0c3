"""The placement "another node" of study.py: two nodes, which are namespaces of this machine (tests/cluster), with a rank and a
spare core each. What a rank hands over is computed on the other node's spare core."""

import os
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / "tests/cluster"))
NODES = 2


def cluster_placement(cores_there):
    """Which cores of these each node's ranks have, and which the processes beside them; RuntimeError: there are too few."""
    import cluster

    return cluster.Placement(NODES, cores_there, 1)


def cores():
    """(of the ranks, of the processes beside them), by node."""
    plan = cluster_placement(sorted(os.sched_getaffinity(0)))
    return plan.ranks, plan.services


def missing(options):
    """A line that says why this cannot be measured here; empty: it can."""
    import cluster

    if problem := cluster.missing():
        return f"node: not measurable here: {problem}"
    try:
        cores()
    except RuntimeError as error:
        return f"node: not measurable here: {error}"
    if "mpi" not in options.modes:
        return "node: measured with one thread a rank alone (--modes mpi)"
    if options.mpi == "mpich" and len({core for one in cores() for node in one for core in node}) < 2 * NODES:
        return "node: not measured with MPICH, whose processes spin: there is no core for each"
    return ""


def rows(options):
    """Without their launches."""
    of_ranks, beside = ([sorted({core for node in one for core in node})] for one in cores())
    return [{"problem": problem, "mode": "mpi", "placement": "node", "cores": of_ranks + beside, "ranks": NODES, "threads": 1}
            for problem in options.problems]


class Nodes:
    """The nodes, while a row is measured. Use it in a with statement."""

    def __init__(self, build, options):
        import cluster

        self.build, self.mpi = build, options.mpi
        self.cluster = cluster.Cluster(NODES, options.rate, offloads=True, spare_cores=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def words(self, way, program, peer):
        """What starts the job: one of `program` on each node, and of `peer` one for each on the node after it."""
        always = ["env", "OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=passive"]
        if way == "tasks":
            # --keep: peers are given once what never changes, too.
            always += [f"LD_PRELOAD={self.build}/lib/liblongshore.so", "LONGSHORE_TASK_NODE=next"]
            program = [*program, "--keep"]
        job = [(node, [*always, *program]) for node in range(NODES)]
        if way == "mpmd":
            for node in range(NODES):
                beside = (node + 1) % NODES
                spare = ",".join(map(str, self.cluster.placement.services[beside]))
                job.append((beside, [*always, "taskset", "-c", spare, peer]))
        return self.cluster.mpirun_of(job, self.mpi)
