"""picture.py: its figures are those of the runs that it is given, and runs that do not belong together are refused."""

import contextlib
import copy
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

spec = importlib.util.spec_from_file_location("picture", Path(__file__).resolve().parents[1] / "picture.py")
picture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(picture)


def seconds(*transforms):
    return {"transform": {"largest_of_ranks": list(transforms)}}


HOST = {"size": [8, 8, 8], "grid": [2, 1], "ranks": 2, "variables": 4, "open_max": 4, "precision": "double", "work_factor": 1,
        "checksum": "1", "seconds": seconds(0.9, 1.0, 9.0), "blocking": {"seconds": seconds(2.0)},
        "seconds_in_mpi": {"communication": 0.4, "MPI_Waitany": 0.3, "MPI_Ialltoallv": 0.1, "other": 0}}
LONGSHORE = HOST | {"seconds": seconds(0.8), "seconds_in_mpi": {name: 0.1 for name in HOST["seconds_in_mpi"]}}


class TestPicture(unittest.TestCase):
    def test_bars_are_medians_and_gains_are_of_the_other_bar(self):
        pair = picture.Pair(HOST, LONGSHORE)
        self.assertEqual(pair.bars, {"MPI_Ialltoallv": 1000, "Longshore": 800, "MPI_Alltoallv": 2000})
        self.assertAlmostEqual(pair.gain("MPI_Ialltoallv"), 20)
        self.assertAlmostEqual(pair.gain("MPI_Alltoallv"), 60)
        self.assertLess(picture.Pair(LONGSHORE, HOST).gain("MPI_Ialltoallv"), 0)

    def test_rows_are_printed_and_nothing_is_divided_by_zero(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            picture.print_pair(picture.Pair(HOST, LONGSHORE, "here"))
        lines = [line.split() for line in out.getvalue().splitlines()]
        self.assertIn(["communication", "400.0", "100.0", "+75", "%"], lines)
        self.assertIn(["other", "0.0", "100.0", "-"], lines)

    def test_runs_of_different_transforms_are_refused(self):
        for key in picture.SAME:
            other = copy.deepcopy(LONGSHORE) | {key: "other"}
            with self.assertRaisesRegex(ValueError, key):
                picture.Pair(HOST, other)

    def test_a_picture_is_drawn(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib ('make venv')")
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder) / name) for name in ("host.json", "longshore.json")]
            for path, run in zip(files, (HOST, LONGSHORE)):
                Path(path).write_text(json.dumps(run), encoding="utf-8")
            drawn = str(Path(folder) / "fft.png")
            sys.argv = ["picture.py", *files, *files, "--labels", "a", "b", "-o", drawn]
            with contextlib.redirect_stdout(io.StringIO()):
                picture.main()
            self.assertGreater(os.path.getsize(drawn), 10000)
