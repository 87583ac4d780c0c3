"""Jobs of this machine's ranks whose DPU is of another architecture: the service side built for 64-bit Arm runs under
QEMU's user emulation, reached over TCP by loopback. What a rank and its agent tell the DPU, and what service processes
take out of the ranks' memory, crosses from one architecture to the other.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder; LONGSHORE_INTERNAL_TEST_AARCH64: that of the preset aarch64;
LONGSHORE_INTERNAL_TEST_AARCH64_ROOT: the root that its programs see ('make ucx-aarch64').
"""

import os
import shutil
import tempfile
import time
import unittest
from pathlib import Path

import test_dpu
from test_dpu import BUILD, MPIS, Service, job_users, run

ARM = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_AARCH64", BUILD / "aarch64")).resolve()
ROOT = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_AARCH64_ROOT", BUILD / "ucx-aarch64")).resolve()
EMULATOR = shutil.which("qemu-aarch64-static")
# To start, an emulated process translates all that it runs.
START_LIMIT_S = 60
test_dpu.LIMIT_S = 300


class ArmService(Service):
    """A standing service whose program is not of this machine: a script stands for it, in all its roles."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="longshore-test-arm-")  # pylint: disable=consider-using-with
        script = Path(self.folder.name) / "longshored"
        script.write_text(f"#!/bin/sh\nLONGSHORE_INTERNAL_PROGRAM={script} exec {EMULATOR} -L {ROOT} {ARM}/bin/longshored \"$@\"\n",
                          encoding="ascii")
        script.chmod(0o755)
        Path(self.folder.name).chmod(0o755)
        options = (*options, *job_users(script, ARM, ROOT))
        super().__init__(*options, longshored=script, limit_s=START_LIMIT_S)

    def __exit__(self, *what):
        super().__exit__(*what)
        self.folder.cleanup()


@unittest.skipUnless(EMULATOR and (ARM / "lib/longshore-ucx.so").exists(), "no emulator, or not built for Arm with UCX")
class TestDpuOfArm(test_dpu.Checks):
    def serve(self, dpu, mpi, ranks, name, *arguments, **settings):
        self.check(run(mpi, ranks, name, *arguments, LONGSHORE_DPU=dpu.address, LONGSHORE_LIMIT_S=START_LIMIT_S, **settings),
                   f"{name}: ok")

    def check_ends(self, dpu, jobs):
        """All that the jobs had there has ended, and none of it by a signal."""
        end = time.monotonic() + START_LIMIT_S
        while dpu.said().count("closed") < jobs and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(dpu.said().count("closed"), jobs, dpu.said())
        self.assertNotIn("failed", dpu.said())

    def test_every_collective(self):
        with ArmService() as dpu:
            for mpi in MPIS:
                for ranks in (2, 4) if mpi == "openmpi" else (2,):
                    with self.subTest(mpi=mpi, ranks=ranks):
                        self.serve(dpu, mpi, ranks, "collectives", 4096)
            self.check_ends(dpu, len(MPIS) + ("openmpi" in MPIS))

    def test_random_programs(self):
        with ArmService() as dpu:
            tries = ((1, 2, {}), (2, 4, {"LONGSHORE_SERVICE_COUNT": 2}), (3, 4, {"LONGSHORE_STAGING_BYTES": "256K"}))
            for seed, ranks, more in tries:
                with self.subTest(seed=seed, ranks=ranks, **more):
                    self.serve(dpu, MPIS[0], ranks, "stress", seed, 300, **more)
            self.check_ends(dpu, len(tries))

    def test_buffers_of_every_kind(self):
        with ArmService() as dpu:
            names = ("in_place", "rooted", "datatypes", "persistent", "communicators", "waits")
            for name in names:
                with self.subTest(program=name):
                    self.serve(dpu, MPIS[0], 2, name)
            self.check_ends(dpu, len(names))

    def test_the_service_says_what_it_did(self):
        """The counters of service processes have the same meaning on both sides."""
        with ArmService() as dpu:
            self.check_statistics(dpu, LONGSHORE_LIMIT_S=START_LIMIT_S)
