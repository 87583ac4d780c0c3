"""The placements "another node" and "DPU" of study.py: two nodes, which are namespaces of this machine (tests/cluster), with a
rank each. What a rank hands over is computed on the other node's spare core (`node`, with links that are held), or on its
node's DPU, which is a machine of its own with that core (`dpu`, with links that are not)."""

import os
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / "tests/cluster"))
NODES = 2
PLACEMENTS = ("node", "dpu")


def cluster_placement(cores_there):
    """Which cores of these each node's ranks have, and which the processes beside them; RuntimeError: there are too few."""
    import cluster

    return cluster.Placement(NODES, cores_there, 1)


def cores():
    """(of the ranks, of the processes beside them), by node."""
    plan = cluster_placement(sorted(os.sched_getaffinity(0)))
    return plan.ranks, plan.services


def missing(options, placement):
    """A line that says why this cannot be measured here; empty: it can."""
    import cluster

    if problem := cluster.missing():
        return f"{placement}: not measurable here: {problem}"
    if placement == "dpu" and not cluster.CPUSETS.is_dir():
        return "dpu: not measurable here: there are no control groups of cores (cpuset)"
    try:
        cores()
    except RuntimeError as error:
        return f"{placement}: not measurable here: {error}"
    if "mpi" not in options.modes:
        return f"{placement}: measured with one thread a rank alone (--modes mpi)"
    if options.mpi == "mpich" and len({core for one in cores() for node in one for core in node}) < 2 * NODES:
        return f"{placement}: not measured with MPICH, whose processes spin: there is no core for each"
    return ""


def rows(options, placement):
    """Without their launches."""
    of_ranks, beside = ([sorted({core for node in one for core in node})] for one in cores())
    return [{"problem": problem, "mode": "mpi", "placement": placement, "cores": of_ranks + beside, "ranks": NODES, "threads": 1}
            for problem in options.problems]


class Nodes:
    """The nodes, while a row is measured. Use it in a with statement."""

    def __init__(self, build, options, placement):
        import cluster

        self.build, self.mpi, self.on_dpus = build, options.mpi, placement == "dpu"
        if self.on_dpus:
            config = cluster.DPU_CONFIG + f"task_folders = {build / 'bin'}\n"
            self.cluster = cluster.Cluster(NODES, offloads=True, dpus=True, dpu_config=config, spare_cores=1)
        else:
            self.cluster = cluster.Cluster(NODES, options.rate, offloads=True, spare_cores=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def tasks_settings(self):
        """Of Longshore, for a program whose tasks are run beside it."""
        where = {"LONGSHORE_TASK_NODE": "dpu", **self.cluster.settings} if self.on_dpus else {"LONGSHORE_TASK_NODE": "next"}
        return [f"{name}={value}" for name, value in {"LD_PRELOAD": f"{self.build}/lib/liblongshore.so", **where}.items()]

    def words(self, way, program, peer):
        """What starts the job: one of `program` on each node, and of `peer` one for each on its DPU, or on the node after it."""
        always = ["env", "OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=passive"]
        if way == "tasks":
            # --keep: peers are given once what never changes, too.
            always += self.tasks_settings()
            program = [*program, "--keep"]
        job = [(node, [*always, *program]) for node in range(NODES)]
        if way == "mpmd":
            for node in range(NODES):
                beside = (node + 1) % NODES
                spare = ",".join(map(str, self.cluster.placement.services[node if self.on_dpus else beside]))
                job.append((NODES + node if self.on_dpus else beside, [*always, "taskset", "-c", spare, peer]))
        return self.cluster.mpirun_of(job, self.mpi)
