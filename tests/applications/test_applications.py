"""Real programs, unmodified, without and with Longshore: the results are the same, and what they say of themselves is
that they are right. All are Debian's binaries or plain programs over Debian's libraries, which Debian builds with its
default MPI, Open MPI. How much was offloaded is looked up in the statistics.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from collectives import DIRECT  # noqa: E402

BUILD = pathlib.Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 180
ALIAS = os.environ.get("LONGSHORE_INTERNAL_TEST_ALIAS")  # a choice of LONGSHORE_MEMORY_ALIAS to force
OFFLOADED_BYTES_MIN = 0.95  # of the families' bytes on intracommunicators


def mpirun(ranks):
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return ["mpirun.openmpi", *as_root, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
            "-np", str(ranks)]


class Applications(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.stats = self.folder / "stats.json"
        self.seconds = {}

    def need(self, program, package):
        found = shutil.which(program)
        if not found:
            self.skipTest(f"no {program}: install Debian's package {package}")
        return found

    def run_one(self, how, ranks, words, inputs=(), **more):
        """What one job printed in a folder of its own, and that folder. `how`: "host", "longshore" (everything is
        offloaded) or "table" (small blocks are left to the MPI)."""
        folder = self.folder / how
        folder.mkdir()
        for source, name in inputs:
            shutil.copy(source, folder / name)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_") and k != "LD_PRELOAD"}
        command = [*mpirun(ranks), *map(str, words)]
        if how == "longshore":
            more = more | DIRECT
        if how != "host":
            more = more | ({"LONGSHORE_MEMORY_ALIAS": ALIAS} if ALIAS else {})
            command = [str(BUILD / "bin" / "longshore"), "run", "--stats", str(self.stats), "--", *command]
        begin = time.monotonic()
        done = subprocess.run(command, cwd=folder, env=kept | {"OMP_NUM_THREADS": "1"} | more, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S)
        self.seconds[how] = time.monotonic() - begin
        self.assertEqual(done.returncode, 0, " ".join(command) + "\n" + (done.stdout + done.stderr)[-4000:])
        return done.stdout, folder

    def run_all(self, *arguments, **more):
        """Without Longshore, by its table, and all of it offloaded; the statistics are those of the last."""
        host, by_table = (self.run_one(how, *arguments, **more) for how in ("host", "table"))
        self.check_small()
        done = host, by_table, self.run_one("longshore", *arguments, **more)
        print(f"    {self.seconds['host']:.1f} s without, {self.seconds['table']:.1f} s with Longshore, "
              f"{self.seconds['longshore']:.1f} s with all of it offloaded", flush=True)
        return done

    def check_small(self):
        with open(self.stats, encoding="utf-8") as file:
            rows = json.load(file)["collectives"].values()
        small, offloaded = sum(row["reasons"].get("small", 0) for row in rows), sum(row["offloaded"] for row in rows)
        print(f"    by the table: {offloaded} calls offloaded, {small} small", flush=True)
        self.assertGreater(small + offloaded, 0)

    def check_offloaded(self, *, calls_min):
        with open(self.stats, encoding="utf-8") as file:
            rows = json.load(file)["collectives"]
        for name, row in rows.items():
            if row["calls"]:
                print(f"    {name}: {row['offloaded']} of {row['calls']} calls, {row['bytes']} bytes, "
                      f"{row['bytes_host']} bytes left to MPI {row['reasons'] or ''}", flush=True)
        offloaded = sum(row["offloaded"] for row in rows.values())
        moved, left = (sum(row[key] for row in rows.values()) for key in ("bytes", "bytes_host"))
        self.assertGreaterEqual(offloaded, calls_min)
        self.assertGreater(moved, 0)
        self.assertGreaterEqual(moved / (moved + left), OFFLOADED_BYTES_MIN)
        self.assertFalse([name for name, row in rows.items() if "small" in row["reasons"]])
        return rows

    def test_hpcc(self):
        hpcc = self.need("hpcc", "hpcc")
        for _, folder in self.run_all(4, [hpcc], [(HERE / "hpccinf.txt", "hpccinf.txt")]):
            self.assertIn("\nSuccess=1\n", (folder / "hpccoutf.txt").read_text())
        self.check_offloaded(calls_min=100)

    def test_cp2k(self):
        cp2k = self.need("cp2k.psmp", "cp2k")
        outputs = [output for output, _ in self.run_all(2, [cp2k, "water.inp"], [(HERE / "water.inp", "water.inp")],
                                                         CP2K_DATA_DIR="/usr/share/cp2k")]
        energies = [re.findall(r"ENERGY\| Total FORCE_EVAL.*?(-?\d+\.\d+)", output) for output in outputs]
        self.assertEqual(len(energies[0]), 3, outputs[0][-2000:])
        for with_longshore in energies[1:]:
            self.assertEqual(energies[0], with_longshore)
        for output in outputs:
            self.assertIn("PROGRAM ENDED AT", output)
        self.check_offloaded(calls_min=1000)

    def test_cp2k_in_real_time(self):
        """Time-dependent density-functional theory: the energies of all steps, to the last digit."""
        cp2k = self.need("cp2k.psmp", "cp2k")
        outputs = [output for output, _ in self.run_all(2, [cp2k, "water_rtp.inp"], [(HERE / "water_rtp.inp", "water_rtp.inp")],
                                                         CP2K_DATA_DIR="/usr/share/cp2k")]
        energies = [re.findall(r"Total energy: +(-?\d+\.\d+)", output) for output in outputs]
        self.assertGreater(len(energies[0]), 8, outputs[0][-2000:])
        self.assertGreater(len(set(energies[0])), 4)
        for with_longshore in energies[1:]:
            self.assertEqual(energies[0], with_longshore)
        for output in outputs:
            self.assertIn("PROGRAM ENDED AT", output)
        self.check_offloaded(calls_min=100)

    def test_mpi4py(self):
        python = "/usr/bin/python3"  # Debian's, which has Debian's modules
        if subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode != 0:
            self.skipTest("install Debian's packages python3-mpi4py and python3-numpy")
        for output, _ in self.run_all(4, [python, HERE / "numpy_exchange.py"]):
            self.assertIn("numpy exchange: ok", output)
        self.check_offloaded(calls_min=100)

    def test_fftw(self):
        program = BUILD / "tests" / "applications" / "fftw_transforms"
        if not program.exists():
            self.skipTest("install Debian's package libfftw3-mpi-dev and build again")
        outputs = [output for output, _ in self.run_all(4, [program])]
        self.assertIn("fftw transforms: ok", outputs[1])
        for with_longshore in outputs[1:]:
            self.assertEqual(outputs[0], with_longshore)
        rows = self.check_offloaded(calls_min=10)
        self.assertTrue(rows["MPI_Alltoall"]["offloaded"] and rows["MPI_Alltoallv"]["offloaded"], rows)
