#!/usr/bin/env python3
"""The cluster of cluster.py itself, and what becomes of a job whose ranks are on several machines.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder. Exit code 77, with the reason, where no cluster can be made.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cluster  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
MPIS = [mpi for mpi in ("openmpi", "mpich") if (BUILD / f"lib/liblongshore-{mpi}.so").exists()]
SKIPPED = 77
MIB = 1 << 20


def launch(nodes, words, per_node=1, **how):
    done = subprocess.run(nodes.mpirun(words, per_node, **how), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class TestCluster(unittest.TestCase):
    def test_nodes_share_nothing_but_the_network_and_files(self):
        with cluster.Cluster(2) as nodes:
            script = "touch /dev/shm/$(hostname); echo $(hostname) $(ls /dev/shm) $(ls /proc | grep -c '^[0-9]')"
            lines = launch(nodes, ["sh", "-c", script]).stdout.split("\n")
            seen = {line.split()[0]: line.split()[1:] for line in lines if line}
            self.assertEqual(set(seen), {"node0", "node1"})
            for name, (*files, processes) in seen.items():
                self.assertEqual([file for file in files if file.startswith("node")], [name])
                self.assertLess(int(processes), 20)

    def test_ranks_are_contiguous_or_strided(self):
        script = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK$PMI_RANK $(hostname)"]
        with cluster.Cluster(2) as nodes:
            for strided, expected in ((False, ["node0", "node0", "node1", "node1"]),
                                      (True, ["node0", "node1", "node0", "node1"])):
                for mpi in MPIS:
                    lines = sorted(launch(nodes, script, per_node=2, strided=strided, mpi=mpi).stdout.split("\n"))
                    self.assertEqual([line.split()[1] for line in lines if line], expected)

    def test_links_are_held_to_their_rate_and_counted(self):
        with cluster.Cluster(2, rate="1gbit") as nodes, tempfile.NamedTemporaryFile() as results:
            before = nodes.link_bytes()
            launch(nodes, [str(BUILD / "bin/longshore-bench-openmpi"), "--collectives", "allgather", "--sizes", "1M",
                           "--samples", "1", "--iterations", "3", "--progress", "none", "--json", results.name],
                   per_node=1)
            rows = [json.loads(line) for line in Path(results.name).read_text(encoding="utf-8").splitlines()]
            row = next(row for row in rows if row["type"] == "row")
            # A block each way: 8.4 ms at 1 Gb/s.
            self.assertGreater(row["pure_median_us"], 8.0e3)
            for name, (sent, received) in nodes.link_bytes().items():
                self.assertGreater(sent - before[name][0], 4 * MIB)
                self.assertGreater(received - before[name][1], 4 * MIB)

    def test_a_job_on_several_machines_runs_with_plain_mpi_and_says_so_once(self):
        with cluster.Cluster(2) as nodes:
            for mpi in MPIS:
                program = BUILD / f"tests/mpi/{mpi}/mpi_communicators_{mpi}"
                done = launch(nodes, ["env", f"LD_PRELOAD={BUILD}/lib/liblongshore.so", str(program), "64"], mpi=mpi)
                said = [line for line in done.stderr.splitlines() if line.startswith("longshore:")]
                self.assertEqual(len(said), 1, done.stderr)
                self.assertIn("plain MPI", said[0])

    def test_nothing_is_left(self):
        with cluster.Cluster(2) as nodes:
            folder, holders = nodes.folder, [machine.holder.pid for machine in nodes.machines]
        self.assertFalse(folder.exists())
        for pid in holders:
            self.assertFalse(Path(f"/proc/{pid}").exists())

    def test_machines_end_with_a_program_that_is_killed(self):
        script = ("import cluster, time\n"
                  "with cluster.Cluster(1) as nodes:\n"
                  "    print(*[machine.pid for machine in nodes.machines], nodes.folder, flush=True)\n"
                  "    time.sleep(60)")
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                              cwd=Path(__file__).resolve().parent) as program:
            *pids, folder = program.stdout.readline().split()
            program.kill()
        end = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse([pid for pid in pids if Path(f"/proc/{pid}").exists()])
        shutil.rmtree(folder)


if __name__ == "__main__":
    if problem := cluster.missing():
        print(f"SKIP: no cluster can be made here: {problem}")
        sys.exit(SKIPPED)
    unittest.main()
