"""beside_model.py: it counts right, and it runs. What it finds is judged by nobody here: other work shares the cores.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import beside_model  # noqa: E402
import cluster  # noqa: E402


def row(model_us, model_overlap=100, who="longshore"):
    return {"shape": "2x2", "call": "ibcast", "bytes": 131072, "who": who, "measured_us": [900, 1000, 1500], "measured_overlap": 95,
            "model_us": model_us, "model_overlap": model_overlap}


class TestReport(unittest.TestCase):
    def test_rows_within_the_limits_are_counted(self):
        lines = list(beside_model.report([row(1140), row(1160, 84), row(860, 106, "host")]))
        self.assertIn("| 2x2 | ibcast | 128 | longshore | 0.9 | 1.0 | 1.1 | +14 % | 95 | 100 |", lines)
        self.assertIn("Of 3 rows 2 are within 15 %, and what is hidden within 10 points in 1.", lines[-1])


@unittest.skipIf(cluster.missing() or not (cluster.BUILD / "bin/longshore-bench-openmpi").exists(), "no machines can be made, or no benchmark is built")
class TestRun(unittest.TestCase):
    def test_every_row_is_measured_and_modelled(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "beside.json"
            words = [sys.executable, HERE / "beside_model.py", "--shapes", "2x1", "--sizes", "64K", "--samples", "2", "--json", path]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
            self.assertEqual([(one["call"], one["who"]) for one in rows], [("ialltoallv", "longshore"), ("ialltoallv", "host"), ("iallgatherv", "longshore"),
                                                                           ("ibcast", "longshore"), ("ibcast", "host")])
            for one in rows:
                self.assertEqual(one["bytes"], 65536)
                self.assertGreater(min(one["measured_us"]), 0)
            again = subprocess.run([sys.executable, HERE / "beside_model.py", "--report", path], capture_output=True, text=True, check=False)
            self.assertEqual(again.stdout, done.stdout)
