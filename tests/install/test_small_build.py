"""The product alone: without src/dpu and lab/ it builds, and a job of each MPI runs; one that wants a DPU is told why not."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

FLAVOURS = os.environ["LONGSHORE_INTERNAL_TEST_FLAVOURS"].split()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LAUNCH = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"], "mpich": ["mpirun.mpich", "-np", "2"]}
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    enum { kInts = 50000 };
    int rank, right = 1;
    int* in = malloc(2 * kInts * sizeof *in);
    int* out = malloc(2 * kInts * sizeof *out);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2 * kInts; ++i) in[i] = 10 * rank + i / kInts;
    for (int round = 0; round < 10; ++round) {
        MPI_Request request;
        MPI_Ialltoall(in, kInts, MPI_INT, out, kInts, MPI_INT, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2 * kInts; ++i) right &= out[i] == 10 * (i / kInts) + rank;
    }
    if (right) printf("rank %d: right\n", rank);
    MPI_Finalize();
    return !right;
}
"""


class SmallBuild(unittest.TestCase):
    def run_(self, *words, expect=0, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_") and k != "LD_PRELOAD"}
        done = subprocess.run([*map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, env=kept | more,
                              check=False)
        self.assertEqual(done.returncode, expect, f"{words}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout + done.stderr

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-small-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        self.build = self.tree / "build"

    def copy_the_project(self):
        for name in ("CMakeLists.txt", "CMakePresets.json", "ARCHITECTURE.md", "README.md", "CHANGELOG.md", "LICENSE"):
            self.tree.mkdir(exist_ok=True)
            shutil.copy(SOURCE / name, self.tree / name)
        for name in ("cmake", "docs", "examples", "include", "packaging", "src"):
            shutil.copytree(SOURCE / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(self.tree / "src/dpu")

    def check_job(self, flavour, program):
        launch = [self.build / "bin/longshore", "run", "--stats", "-", *LAUNCH[flavour], program]
        said = self.run_(*launch)
        for rank in range(2):
            self.assertIn(f"rank {rank}: right", said)
        self.assertRegex(said, r"20 of 20 collective calls offloaded")
        said = self.run_(*launch, LONGSHORE_DPU="127.0.0.1")
        for rank in range(2):
            self.assertIn(f"rank {rank}: right", said)
        self.assertRegex(said, r"built without DPUs")
        self.assertRegex(said, r"0 of 20 collective calls offloaded")

    def test_product_alone(self):
        self.copy_the_project()
        self.run_("cmake", "-S", self.tree, "--preset", "release", "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -w", "-DCMAKE_C_FLAGS_RELEASE=-O0 -w",
                  "-DBUILD_TESTING=OFF", "-DLONGSHORE_DPU=OFF", "-DLONGSHORE_LAB=OFF", cwd=self.tree)
        cores = [f"longshore_{flavour}" for flavour in FLAVOURS]
        self.run_("cmake", "--build", self.build, "-j", "2", "--target", "longshore", "longshored", "longshore_stub", *cores)
        for flavour in FLAVOURS:
            with self.subTest(flavour=flavour):
                source, program = self.build / "small.c", self.build / f"small-{flavour}"
                source.write_text(PROGRAM)
                self.run_(f"mpicc.{flavour}", "-o", program, source)
                self.check_job(flavour, program)
        said = self.run_(self.build / "bin/longshore", "--help")
        self.assertNotIn("simulate", said)
        said = self.run_(self.build / "bin/longshore", "bench", expect=125)
        self.assertIn("longshore bench:", said)
