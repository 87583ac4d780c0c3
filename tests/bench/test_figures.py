"""No figure of `longshore bench` is one that cannot be. The benchmark runs with rows
that Longshore serves and rows that the MPI serves, in each of its modes; a time that nobody took is "–" or null.
"""

import json
import math
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

LONGSHORE = Path(os.environ["LONGSHORE_INTERNAL_TEST_BUILD"]) / "bin/longshore"
MPI = os.environ["LONGSHORE_INTERNAL_TEST_FLAVOUR"]
BRIEF = ["--samples", "2", "--iterations", "3", "--warmup", "1", "--time-limit", "1", "--progress", "none", "--sizes", "1000,300K"]
SERVED_BY_MPI = {"LONGSHORE_ALLTOALLV_ALGORITHM": "mpi"}
PERCENT_MAX = {"overlap_percent": 100, "service_share": 1.5, "offloaded_share_of_calls": 1}


def numbers(value, path=""):
    """All numbers of an object, each with the keys that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def impossible(rows, text, limit_us):
    """What cannot be in the rows or the printed table: (where, what). `limit_us`: what the whole run took."""
    found = []
    for row in rows:
        for path, value in numbers(row):
            key = path.rsplit(".", 1)[-1]
            largest = PERCENT_MAX.get(key, limit_us if "_us" in path else math.inf)
            if not math.isfinite(value) or not 0 <= value <= largest:
                found.append((f"{row.get('type')} {row.get('collective')} {row.get('contender')} {path}", value))
        found += [(f"{row.get('collective')} {key}", "empty") for key, value in row.items() if value == [] and key.endswith("_us")]
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        for word in line.split():
            if re.fullmatch(r"-[\d.]+\w*|[-+]?(nan|inf)\w*", word, re.IGNORECASE):
                found.append((line, word))
            elif re.fullmatch(r"[\d.]+", word) and float(word) > limit_us:
                found.append((line, word))
    return found


class TestImpossible(unittest.TestCase):
    """The test's own eyes."""

    def test_it_finds_what_cannot_be(self):
        for value in (-0.1, math.nan, math.inf, 2e9):
            self.assertTrue(impossible([{"type": "row", "t_sp_us": [1.0, value]}], "", 1e6))
        self.assertTrue(impossible([{"overlap_percent": 101}], "", 1e6))
        self.assertTrue(impossible([{"type": "row", "t_sp_us": []}], "", 1e6))
        for word in ("-2310012030.82", "2310012030.82", "nan", "-inf", "-1.50x"):
            self.assertTrue(impossible([], f"  64K longshore 1.00 {word}", 1e6))
        self.assertFalse(impossible([{"t_sp_us": None, "pure_us": [0.5], "compute_us": [1]}], " 64K longshore  0.5 – 1.2x 99.0", 1e6))


class TestFigures(unittest.TestCase):
    def run_bench(self, *arguments):
        """(rows of JSON, text), both free of what cannot be."""
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results.jsonl"
            start = time.monotonic()
            done = subprocess.run([LONGSHORE, "bench", "--mpi", MPI, "-n", "2", "--", *BRIEF, "--json", results, *arguments],
                                  capture_output=True, text=True, timeout=250, check=False, env=os.environ | SERVED_BY_MPI)
            limit_us = 1e6 * (time.monotonic() - start)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        rows = [row for row in rows if row["type"] != "machine"]
        self.assertEqual(impossible(rows, done.stdout, limit_us), [], done.stdout)
        return rows, done.stdout

    def of(self, rows, collective, smallest=0):
        """Longshore's. Of 1000 bytes the MPI serves all, by the built-in table of rules."""
        found = [row for row in rows if (row["collective"], row["contender"]) == (collective, "longshore")
                 and row["bytes"] >= smallest]
        self.assertTrue(found, f"no row of {collective} by Longshore")
        return found

    def test_rows(self):
        for compute in ("sleep", "work"):
            with self.subTest(compute=compute):
                rows, text = self.run_bench("--collectives", "ialltoallv,alltoallv,ibcast,bcast", "--compute", compute,
                                            "--contenders", "host,longshore,mpi,copy-limit")
                for row in self.of(rows, "ialltoallv"):
                    self.assertEqual((row["offloaded_share_of_calls"], row["t_sp_us"], row["t_sp_seen_us"]), (0, None, None))
                    self.assertGreater(row["overall_us"][0], 0)
                for row in self.of(rows, "ibcast", smallest=300 << 10):
                    self.assertEqual(row["offloaded_share_of_calls"], 1)
                    self.assertGreater(min(row["t_sp_us"]), 0)
                self.assertRegex(text, r"longshore .* – .* by MPI")

    def test_breakdown(self):
        rows, text = self.run_bench("--collectives", "ialltoallv,ibcast", "--breakdown")
        for row in self.of(rows, "ialltoallv"):
            self.assertFalse(row["offloaded"])
            self.assertEqual(set(row["stages_median_us"].values()), {None})
            self.assertGreater(row["total_median_us"], 0)
        for row in self.of(rows, "ibcast", smallest=300 << 10):
            self.assertTrue(row["offloaded"])
            self.assertGreater(sum(row["stages_median_us"].values()), 0)
        self.assertRegex(text, r"longshore +[\d.]+  left to MPI\n")
        lines = [line for line in text.splitlines() if " longshore " in line or "hand-over" in line]
        self.assertEqual([line for line in lines if len(line) > 80], [])

    def test_other_modes(self):
        for mode, collectives in (("--first-use", "ialltoallv,ibcast"), ("--late=2", "ialltoallv,ibcast"), ("--imbalance", "allgather")):
            with self.subTest(mode=mode):
                rows, _ = self.run_bench(mode, "--collectives", collectives)
                self.assertTrue(rows)
