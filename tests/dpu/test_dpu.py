#!/usr/bin/env python3
"""Jobs whose collectives a DPU carries, where the DPU is this machine too: its standing service listens on loopback, and
nothing of the ranks' memory is reached but through the network. tests/cluster has the same between machines.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
MPIS = [mpi for mpi in ("openmpi", "mpich") if (BUILD / f"lib/liblongshore-{mpi}.so").exists()]
COLLECTIVES = ("ALLTOALL", "ALLTOALLV", "ALLGATHER", "ALLGATHERV", "BCAST", "GATHER", "GATHERV", "SCATTER", "SCATTERV")
FORCED = {f"LONGSHORE_{name}_ALGORITHM": "direct" for name in COLLECTIVES}
LIMIT_S = 120


class Service:
    """A standing service on loopback."""

    def __init__(self, *options):
        # pylint: disable=consider-using-with
        self.log = tempfile.NamedTemporaryFile("w+", prefix="longshore-test-dpu-")
        self.process = subprocess.Popen([BUILD / "bin/longshored", "listen", "--address", "127.0.0.1", "--port", "0", *options],
                                        stdout=self.log, stderr=self.log)
        end = time.monotonic() + 10
        while not (found := re.search(r"listening at \S*:(\d+)", self.said())):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"the service did not start: {self.said()}")
            time.sleep(0.02)
        self.address = f"127.0.0.1:{found[1]}"

    def said(self):
        return Path(self.log.name).read_text(encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def stand_ins(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in children.split()]


def program(name, mpi):
    return str(BUILD / f"tests/mpi/{mpi}/mpi_{name}_{mpi}")


def words(mpi, ranks, name, *arguments, **settings):
    start = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"],
             "mpich": ["mpirun.mpich"]}[mpi]
    chosen = {"LD_PRELOAD": f"{BUILD}/lib/liblongshore.so", "LONGSHORE_STATS": "-", **FORCED, **settings}
    return [*start, "-np", str(ranks), "env", *(f"{key}={value}" for key, value in chosen.items()), program(name, mpi),
            *map(str, arguments)]


def run(*arguments, **settings):
    return subprocess.run(words(*arguments, **settings), capture_output=True, text=True, timeout=LIMIT_S, check=False)


@unittest.skipUnless((BUILD / "lib/longshore-ucx.so").exists(), "built without UCX")
class TestDpu(unittest.TestCase):
    def check(self, done, verdict):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(verdict, done.stdout, done.stderr)
        said = re.search(r"longshore: (\d+) of \d+ collective calls offloaded, [\d.]+ MB \(moved by service processes ([\d.]+), "
                         r"by waiting ranks ([\d.]+)\)", done.stderr)
        self.assertIsNotNone(said, done.stderr)
        self.assertGreater(int(said[1]), 0, done.stderr)
        # What moves is moved by the DPU alone.
        self.assertEqual(float(said[3]), 0, done.stderr)

    def test_every_collective(self):
        with Service() as dpu:
            for mpi in MPIS:
                for bytes_each in (1024, 65536):
                    with self.subTest(mpi=mpi, bytes=bytes_each):
                        self.check(run(mpi, 4 if mpi == "openmpi" else 2, "collectives", bytes_each, LONGSHORE_DPU=dpu.address),
                                   "collectives: ok")

    def test_random_programs(self):
        with Service() as dpu:
            for mpi in MPIS:
                for seed, more in ((1, {}), (2, {"LONGSHORE_SERVICE_COUNT": 2}), (3, {"LONGSHORE_STAGING_BYTES": "256K"})):
                    with self.subTest(mpi=mpi, seed=seed, **more):
                        self.check(run(mpi, 4 if mpi == "openmpi" else 2, "stress", seed, 300, LONGSHORE_DPU=dpu.address, **more),
                                   "stress: ok")


if __name__ == "__main__":
    unittest.main(verbosity=2)
