"""Fortran programs by each of the three bindings: right results, and every collective call offloaded."""

import json
import re
import unittest

import job

BINDINGS = ("mpifh", "module", "f08")


def called(output):
    """By collective, the calls that tests/mpi/fortran/collectives.F90 says each rank made."""
    return {name: int(count) for name, count in re.findall(r"^called: (\S+) (\d+)$", output, re.M)}


@unittest.skipUnless((job.BUILD / "tests" / "mpi" / job.FLAVOUR / f"mpi_fortran_f08_{job.FLAVOUR}").exists(),
                     "the Fortran programs are not built (no gfortran)")
class Fortran(job.JobTest):
    def check(self, ranks, nodes):
        for binding in BINDINGS:
            with self.subTest(binding=binding):
                stats = self.folder / f"{binding}.json"
                running = job.Job(self, ranks, [self.program(f"fortran_{binding}")], nodes=nodes, LONGSHORE_STATS=stats)
                self.assertEqual(running.wait(60), 0, running.describe())
                self.assertIn("fortran: ok\n", running.output)
                expected = {name: ranks * count for name, count in called(running.output).items()}
                self.assertEqual(len(expected), 18, running.output)
                counted = json.loads(stats.read_text())["collectives"]
                self.assertEqual({name: call["calls"] for name, call in counted.items()}, expected)
                self.assertEqual({name: call["offloaded"] for name, call in counted.items()}, expected)
        self.check_nothing_left()

    def test_2_ranks(self):
        self.check(2, 0)

    def test_2_ranks_on_2_nodes(self):
        self.check(2, 2)

    def test_4_ranks(self):
        if job.FLAVOUR == "mpich":
            self.skipTest("MPICH with more ranks than cores is slow")
        self.check(4, 0)

    def test_4_ranks_on_2_nodes(self):
        if job.FLAVOUR == "mpich":
            self.skipTest("MPICH with more ranks than cores is slow")
        self.check(4, 2)
