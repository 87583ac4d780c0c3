"""job_costs.py: it starts programs in turns, and kills a service process; all results are checked. Measures nothing itself.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder; LONGSHORE_INTERNAL_TEST_FLAVOUR: the MPI.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import job_costs  # noqa: E402

BUILD, MPI = os.environ["LONGSHORE_INTERNAL_TEST_BUILD"], os.environ["LONGSHORE_INTERNAL_TEST_FLAVOUR"]


class TestJobCosts(unittest.TestCase):
    def run_tool(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            done = subprocess.run([sys.executable, job_costs.__file__, *words, "--build", BUILD, "--mpi", MPI, "--json", str(path)],
                                  capture_output=True, text=True, timeout=500, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(path.read_text(encoding="utf-8"))["turns"], done.stdout

    def test_a_program_is_started_with_and_without(self):
        turns, said = self.run_tool("start", "--turns", "2")
        self.assertEqual([sorted(turn) for turn in turns], [["host", "longshore"]] * 2)
        self.assertTrue(all(0.01 < seconds < job_costs.LIMIT_S for turn in turns for seconds in turn.values()))
        self.assertIn("longer by:", said)

    def test_a_service_process_is_killed_and_the_results_are_right(self):
        turns, said = self.run_tool("kill", "--turns", "1", "--size", "64")
        self.assertEqual(turns[0]["alive"]["checksum"], turns[0]["killed"]["checksum"])
        self.assertIn("all results right", said)

    def test_what_is_said(self):
        machine = {"cpu": "x", "cores": 2, "kernel": "6", "mpi": "m", "commit": "c", "date": "d"}
        turns = [{"host": host, "longshore": longshore} for host, longshore in ((0.5, 0.53), (0.6, 0.62), (0.7, 0.8))]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            job_costs.report({"what": "start", "machine": machine, "turns": turns})
        self.assertIn("longer by:                   30 [20 .. 100]", said.getvalue())

    def test_a_build_that_is_not_there(self):
        done = subprocess.run([sys.executable, job_costs.__file__, "start", "--build", "/nowhere"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("job_costs: ", done.stderr)
