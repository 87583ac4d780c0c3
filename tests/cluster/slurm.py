"""Slurm on a cluster of namespaces: a controller on its head node, a daemon on each node, nothing of the machine's own.

    with cluster.Cluster(2) as nodes, slurm.Slurm(nodes) as batch:
        subprocess.run([*batch.enter(), "srun", "--mpi=pmix", "-N", "2", "--ntasks-per-node=2", "hostname"])
"""

import os
import shutil
import subprocess
import time

START_LIMIT_S = 100  # on a machine that is busy with other things


def missing():
    """What keeps Slurm from being started here; empty: nothing."""
    for tool in ("slurmctld", "slurmd", "srun", "salloc"):
        if shutil.which(tool) is None:
            return f"{tool} is missing (Debian: slurmctld, slurmd, slurm-client)"
    return ""


class Slurm:
    """In a with statement, within that of the cluster. Who may do what is not asked (auth/none), and nothing is bound."""

    def __init__(self, nodes):
        self.nodes, self.folder, self.daemons = nodes, nodes.folder / "slurm", []
        for name in ("state", *(f"{kind}-{node.name}" for kind in ("spool", "tmp") for node in nodes.nodes)):
            (self.folder / name).mkdir(parents=True)
        cores = len(os.sched_getaffinity(0))
        self.config = self.folder / "slurm.conf"
        self.config.write_text("\n".join([
            "ClusterName=test", f"SlurmctldHost={nodes.head.name}({nodes.head.address})",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/none", "CredType=cred/none",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool-%n", f"TmpFS={self.folder}/tmp-%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/linear", "ReturnToService=2",
            *(f"NodeName={node.name} NodeAddr={node.address} CPUs={cores} State=UNKNOWN" for node in nodes.nodes),
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP", ""]))
        # Else slurmd looks for a mount that a namespace does not have, although nothing here needs control groups.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        try:
            self._start(nodes.head, "slurmctld", "-D", "-f", str(self.config))
            for node in nodes.nodes:
                self._start(node, "slurmd", "-D", "-f", str(self.config), "-N", node.name)
            self._wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def enter(self):
        """The words before a command that is to run on the head node and to know this Slurm."""
        return [*self.nodes.head.enter_network(), "env", f"SLURM_CONF={self.config}"]

    def _start(self, machine, *words):
        with open(self.folder / f"{machine.name}.log", "w", encoding="utf-8") as log:
            self.daemons.append(subprocess.Popen([*machine.enter(), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _wait(self):
        end = time.monotonic() + START_LIMIT_S
        states = []
        while time.monotonic() < end and all(daemon.poll() is None for daemon in self.daemons):
            states = subprocess.run([*self.enter(), "sinfo", "-h", "-N", "-o", "%t"], capture_output=True, text=True,
                                    check=False).stdout.split()
            if states == ["idle"] * len(self.nodes.nodes):
                return
            time.sleep(0.1)
        logs = "\n".join(path.read_text(encoding="utf-8")[-2000:] for path in sorted(self.folder.glob("*.log")))
        raise RuntimeError(f"Slurm's nodes are not ready: {' '.join(states)}\n{logs}")

    def close(self):
        """What they have started ends with the cluster's namespaces."""
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
