"""Tests of the picture of a breakdown. Without matplotlib only what needs none."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["LONGSHORE_INTERNAL_TEST_BUILD"]) / "share/longshore/breakdown.py"
sys.path.insert(0, str(SCRIPT.parent))  # what it imports
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
spec = importlib.util.spec_from_file_location("breakdown", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def row(collective, size, **stages):
    medians = dict.fromkeys(script.STAGES, 0) | stages
    return {"type": "breakdown", "collective": collective, "bytes": size, "contender": "longshore", "ranks": 2,
            "stages_median_us": medians, "total_median_us": sum(medians.values())}


def draw(lines):
    """Returns the finished script and whether it left a picture."""
    with tempfile.TemporaryDirectory() as folder:
        results, picture = pathlib.Path(folder) / "results.jsonl", pathlib.Path(folder) / "picture.png"
        results.write_text("".join(json.dumps(one) + "\n" for one in lines))
        done = subprocess.run([sys.executable, SCRIPT, results, "-o", picture], capture_output=True, text=True)
        return done, picture.exists() and picture.read_bytes().startswith(b"\x89PNG")


class Breakdown(unittest.TestCase):
    def test_shares_fill_the_bar(self):
        parts = script.shares(row("bcast", 1, copy=30, ack=10))
        self.assertEqual(parts, [0, 0, 0, 75, 25, 0])
        self.assertEqual(script.shares(row("bcast", 1)), [0] * 6)

    def test_rows_know_their_mpi(self):
        with tempfile.NamedTemporaryFile("w") as file:
            for mpi in ("Open MPI v4, package: x", "MPICH Version: 4"):
                print(json.dumps({"type": "machine", "mpi": mpi}), json.dumps(row("bcast", 1)), sep="\n", file=file)
            file.flush()
            self.assertEqual([one["mpi"] for one in script.load(file.name)], ["Open MPI v4", "MPICH Version: 4"])

    def test_no_results(self):
        done, _ = draw([{"type": "machine", "mpi": ""}])
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds no results", done.stderr)

    def test_rows_that_the_mpi_served_are_not_drawn(self):
        done, _ = draw([row("bcast", 1) | {"offloaded": False, "stages_median_us": dict.fromkeys(script.STAGES)}])
        self.assertIn("holds no results", done.stderr)

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_a_picture(self):
        lines = [{"type": "machine", "mpi": "Some MPI"}]
        lines += [row(name, size, queue=1, copy=size / 1e3) for name in ("bcast", "alltoallv") for size in (4096, 1 << 20)]
        done, has_picture = draw(lines)
        self.assertEqual((done.returncode, done.stderr, has_picture), (0, "", True))
