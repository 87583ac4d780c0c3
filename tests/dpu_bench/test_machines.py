"""longshore dpu-bench with a host list, on two machines that are namespaces: the data move by TCP and are right.

LONGSHORE_INTERNAL_TEST_BUILD is the build folder.
"""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))
import cluster  # noqa: E402

SHORT = ["--patterns", "bcast,allgather-multi", "--assignments", "cyclic", "--sizes", "4K", "--iterations", "2", "--warmup", "1",
         "--runs", "1"]


def setUpModule():
    if problem := cluster.missing():
        raise unittest.SkipTest(problem)


class Machines(unittest.TestCase):
    def test_host_list(self):
        with cluster.Cluster(2, offloads=True) as machines:
            settings = {"plm_rsh_agent": str(machines.agent), "plm_rsh_no_tree_spawn": "1", "btl_tcp_if_include": "net0",
                        "oob_tcp_if_include": "net0", "mpi_yield_when_idle": "1"}
            results = machines.folder / "results.jsonl"
            done = subprocess.run(
                [*machines.head.enter_network(), cluster.BUILD / "bin/longshore", "dpu-bench", "--mpi", "openmpi", "--hosts", "4",
                 "--workers", "2", "--host-list", "node0,node1", "--json", results, *SHORT],
                env=os.environ | {f"OMPI_MCA_{name}": value for name, value in settings.items()}, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=200, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("6 on 2 nodes", done.stdout)
            rows = [row for row in map(json.loads, results.read_text().splitlines()) if row["type"] == "row"]
            self.assertEqual([(row["pattern"], row["mover"], row["nodes"]) for row in rows],
                             [("bcast", "tcp", 2), ("allgather-multi", "tcp", 2)])
