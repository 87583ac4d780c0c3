"""What the engine and a turn of the fabric cost, in instructions that valgrind counts: the same on a machine that is
busy with other things. What the engine costs in time `make scale` says.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder. Skipped where there is no valgrind.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
SCALE, BENCH = BUILD / "bin/longshore-scale", BUILD / "bin/longshore-engine-bench"
CONNECTIONS = BUILD / "bin/tcp_connections_test"
LIMIT_S = 250
# What a service process calls of its engine, as longshore-scale times it.
ENGINE = ("next(*", "on_frame(*", "finish_copy(*", "finish_read(*")
# With more nodes it is a little less each, as what is done once for an operation is shared out among more. One empty loop over all
# nodes in each turn is 9 % in what is compared here.
GROWTH_MAX = 1.02


def instructions(*words, functions=(), **environment):
    """Of a program; of some functions alone, with what they call."""
    counted = ["--collect-atstart=no", *(f"--toggle-collect={function}" for function in functions)] if functions else []
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *counted, *map(str, words)],
                          env=os.environ | environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def of_a_service(collective, nodes, ranks, services):
    """Of one operation with blocks of 64 KiB: for each block that the ranks of a service process get from other nodes, and for each
    service process of another node."""
    words = ["--collectives", collective, "--sizes", "64K", "--nodes", nodes, "--ranks", ranks, "--services", services,
             "--operations", 1]
    operations = 2  # one more than is asked for
    each = instructions(SCALE, *words, functions=[f"longshore::ServiceEngine::{name}" for name in ENGINE]) / operations / services
    return each / ((nodes - 1) * ranks * ranks / services), each / ((nodes - 1) * services)


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is missing (Debian: valgrind)")
class Instructions(unittest.TestCase):
    def check(self, what, found, most):
        print(f"{what}: {found:.4g}", file=sys.stderr)
        self.assertGreater(found, most / 5, f"{what}: they are not counted any more, or this is to be less")
        self.assertLessEqual(found, most, what)

    def test_a_block_does_not_cost_more_with_more_nodes(self):
        for collective in ("alltoall", "alltoallv", "allgatherv"):
            with self.subTest(collective=collective):
                few, many = (of_a_service(collective, nodes, 8, 1)[0] for nodes in (16, 128))
                self.check(f"{collective}, a block of 128 nodes by one of 16", many / few, GROWTH_MAX)

    def test_a_peer_does_not_cost_more_with_more_peers(self):
        few, many = (of_a_service("alltoall", nodes, 4, 4)[1] for nodes in (32, 256))
        self.check("a peer of 1,020 by one of 124", many / few, GROWTH_MAX)

    def test_what_is_done_for_each(self):
        """A third more than when this was written. The goals are 200 ns a block, 2 us a peer."""
        self.check("a block, 64 nodes of 8 ranks", of_a_service("alltoall", 64, 8, 1)[0], 4600)
        self.check("a peer, 256 nodes of 1 rank", of_a_service("alltoall", 256, 1, 1)[1], 12400)
        self.check("a peer of the root of a broadcast, 256 nodes of 32 ranks", of_a_service("bcast", 256, 32, 1)[1], 10200)

    def test_a_transfer(self):
        """One by the ranks of a node, and one between two nodes, from notification to acknowledgement."""
        few, many = (instructions(BENCH, laps) for laps in (2, 6))
        of_a_lap = 16 * 16
        self.check("a transfer of each kind", (many - few) / (4 * of_a_lap), 9100)

    @unittest.skipUnless(CONNECTIONS.exists(), "no network by TCP, or no GoogleTest")
    def test_a_turn_does_not_cost_more_with_more_peers(self):
        """Of a service process whose neighbour refuses it. To look at each peer would cost eight times as much."""
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 10_000:
            self.skipTest("the limit of open files is too low for a job of many nodes")
        few, many = (instructions(CONNECTIONS, "--gtest_filter=Turns.*", functions=["longshore::TcpFabric::poll(*"],
                                  LONGSHORE_INTERNAL_TEST_NODES=str(nodes)) for nodes in (2, 2000))
        self.check("a turn with 1,999 peers by one with one", many / few, 2)
