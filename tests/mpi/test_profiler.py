"""A profiling tool (tool.c: MPI_X that calls PMPI_X) sees with Longshore what it sees without, wherever it stands, and
what it calls is offloaded."""

import json
import re
import shutil

import job

TOOL = job.BUILD / "tests" / "mpi" / job.FLAVOUR / "libmpi_tool.so"
# What a job may still leave to MPI where all is offloaded.
MAY_LEAVE = {"one rank", "intercommunicator", "communicator not seen", "argument"}
# How the tool gets into the process: the name of the program, what is preloaded without Longshore and with it.
WAYS = {"before": ("", [TOOL], [TOOL, job.SHIM]), "behind": ("", [TOOL], [job.SHIM, TOOL]),
        "linked": ("_tool", [], [job.SHIM])}
C_WAYS = {**WAYS, "part of the program": ("_with_tool", [], [job.SHIM])}


def seen(output):
    return {name: int(count) for name, count in re.findall(r"^tool: (\S+) (\d+)$", output, re.M)}


class Profiler(job.JobTest):
    def run_job(self, program, preload, ranks=2, **settings):
        stats = self.folder / "stats.json"
        stats.unlink(missing_ok=True)
        running = job.Job(self, ranks, [self.program(program), "1024"], preload=preload, LONGSHORE_STATS=stats,
                          **settings)
        self.assertEqual(running.wait(60), 0, running.describe())
        self.assertIn(": ok\n", running.output, running.describe())
        return running.output, json.loads(stats.read_text())["collectives"] if stats.exists() else {}

    def check_offloaded(self, collectives):
        self.assertGreater(sum(call["offloaded"] for call in collectives.values()), 0)
        left = set().union(*(call["reasons"] for call in collectives.values()))
        self.assertFalse(left - MAY_LEAVE, collectives)

    def test_c(self):
        for way, (suffix, without, preload) in C_WAYS.items():
            with self.subTest(way=way):
                program = "collectives" + suffix
                alone, _ = self.run_job(program, without)
                output, collectives = self.run_job(program, preload)
                self.check_offloaded(collectives)
                self.assertIn("MPI_Wait", seen(output))
                self.assertEqual(seen(output), seen(alone))
                calls = {name: count for name, count in seen(output).items() if name in collectives}
                self.assertEqual(calls, {name: call["calls"] for name, call in collectives.items()})

    # Which calls of a Fortran program reach a tool in C is the MPI's choice, and the shim does not change it: with
    # mpif.h MPICH's are MPI_ calls, Open MPI's PMPI_ ones.
    def test_fortran(self):
        if not self.program("fortran_mpifh").exists():
            self.skipTest("the Fortran programs are not built (no gfortran)")
        for way, (suffix, without, preload) in WAYS.items():
            with self.subTest(way=way):
                program = "fortran_mpifh" + suffix
                alone, _ = self.run_job(program, without)
                output, collectives = self.run_job(program, preload)
                self.assertEqual(seen(output), seen(alone))
                self.assertEqual("MPI_Bcast" in seen(output), job.FLAVOUR == "mpich")
                self.assertTrue(collectives)
                for name, call in collectives.items():
                    self.assertEqual(call["calls"], call["offloaded"], name)

    def test_offload_is_off(self):
        for way, (suffix, without, preload) in C_WAYS.items():
            with self.subTest(way=way):
                program = "collectives" + suffix
                alone, _ = self.run_job(program, without)
                output, collectives = self.run_job(program, preload, LONGSHORE_OFFLOAD="off")
                self.assertEqual(seen(output), seen(alone))
                self.assertTrue(collectives)
                for name, call in collectives.items():
                    self.assertEqual(call["reasons"], {"offload off": call["calls"]}, name)

    def test_the_shim_twice(self):
        twin = self.folder / "lib"
        shutil.copytree(job.SHIM.parent, twin)
        _, collectives = self.run_job("collectives", [job.SHIM, twin / job.SHIM.name])
        self.check_offloaded(collectives)
