"""Tests of the pictures of dpu-bench. Without matplotlib only what needs none."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["LONGSHORE_INTERNAL_TEST_BUILD"]) / "share/longshore/dpu_bench.py"
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def row(pattern, assignment, workers, size):
    return {"type": "row", "pattern": pattern, "assignment": assignment, "bytes": size, "hosts": 8, "nodes": 2,
            "workers": workers, "workers_per_node": workers / 2, "mover": "process_vm", "reference_mean_us": size / 1e3,
            "pure_comm_mean_us": size / 900 / workers, "efficiency_paper": 50 + workers, "efficiency_code": 40,
            "efficiency_median": 110}


def draw(rows, *words):
    """Returns the finished script and the names of the pictures that it left."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.jsonl"
        results.write_text("".join(json.dumps(one) + "\n" for one in rows))
        out = pathlib.Path(folder) / "pictures"
        done = subprocess.run([sys.executable, SCRIPT, results, "--output", out, *words], capture_output=True, text=True)
        pictures = {path.name for path in out.glob("*") if path.read_bytes().startswith(b"\x89PNG")}
        return done, pictures


class Pictures(unittest.TestCase):
    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_each_assignment_has_its_pictures(self):
        rows = [{"type": "machine"}] + [row(pattern, assignment, workers, size)
                                        for pattern in ("bcast", "allgather-multi") for assignment in ("cyclic", "block")
                                        for workers in (1, 2, 4) for size in (65536, 1 << 20)]
        kinds = ("efficiency-up-to-1wpn", "efficiency-from-1wpn", "efficiency-by-workers", "runtime")
        done, pictures = draw(rows, "--formula", "median")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertEqual(pictures, {f"{one}-{kind}.png" for one in ("cyclic", "block") for kind in kinds})

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_what_was_not_measured_is_not_drawn(self):
        _, pictures = draw([row("gather", "cyclic", 1, 4096)])
        self.assertEqual(pictures, {"cyclic-efficiency-up-to-1wpn.png", "cyclic-efficiency-by-workers.png",
                                    "cyclic-runtime.png"})

    def test_no_results(self):
        done, _ = draw([{"type": "machine"}])
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds no results", done.stderr)
