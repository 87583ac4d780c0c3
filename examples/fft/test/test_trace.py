"""fft --trace: complete for each rank, by a clock that others share, and in step with Longshore's own trace.

LONGSHORE_INTERNAL_TEST_LAUNCH: the words before the options of fft; LONGSHORE_INTERNAL_TEST_COMMAND: longshore.
"""

import json
import os
import shlex
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

LONGSHORE = os.environ["LONGSHORE_INTERNAL_TEST_COMMAND"]
LAUNCH = shlex.split(os.environ["LONGSHORE_INTERNAL_TEST_LAUNCH"])
VARIABLES, REPEATS = 3, 2
ROUNDING_US = 0.01


class TestTrace(unittest.TestCase):
    def run_fft(self, *prefix):
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("trace.json", "fft.json", "longshore.json")]
            before = time.monotonic_ns() / 1e3
            words = [word if word != "LONGSHORE_TRACE" else str(files[2]) for word in prefix]
            subprocess.run([*words, *LAUNCH, "--size", "24", "--variables", str(VARIABLES), "--repeats", str(REPEATS),
                            "--mode", "both", "--check", "once", "--trace", str(files[0]), "--json", str(files[1])],
                           check=True, capture_output=True)
            after = time.monotonic_ns() / 1e3
            trace, result, *more = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
        self.assertEqual(trace["otherData"], {"clock": "CLOCK_MONOTONIC", "origin_ns": 0})
        events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertTrue(all(before < event["ts"] and event["ts"] + event["dur"] < after for event in events))
        self.check_lanes(events, result)
        return events, more

    def check_lanes(self, events, result):
        self.assertEqual({event["tid"] for event in events}, set(range(result["ranks"])))
        largest = {"MPI_Ialltoallv": [], "MPI_Alltoallv": []}
        for repeat in range(2 * REPEATS):  # nonblocking and blocking in turns
            call = "MPI_Ialltoallv" if repeat % 2 == 0 else "MPI_Alltoallv"
            for rank in range(result["ranks"]):
                lane = [event for event in events if (event["tid"], event["args"]["repeat"]) == (rank, repeat)]
                for one, next_one in zip(lane, lane[1:]):  # whole: computing or in a call at any time
                    self.assertAlmostEqual(one["ts"] + one["dur"], next_one["ts"], delta=ROUNDING_US)
                self.assertEqual(sum(event["name"] == call for event in lane), 2 * VARIABLES)  # two ranks: one of two is alone in its line
                self.assertTrue(all((event["cat"] == "compute") == (event["name"] == "computing") for event in lane))
                length = lane[-1]["ts"] + lane[-1]["dur"] - lane[0]["ts"]
                largest[call].append(length)
        for call, seconds in (("MPI_Ialltoallv", result["seconds"]), ("MPI_Alltoallv", result["blocking"]["seconds"])):
            self.assertEqual(len(largest[call]), REPEATS * result["ranks"])
            self.assertGreaterEqual(max(largest[call]) * 1e-6, max(seconds["transform"]["largest_of_ranks"]))

    def test_by_the_mpi_alone(self):
        self.run_fft()

    def test_reads_between_nodes_are_seen_as_long_as_they_last(self):
        _, (moved,) = self.run_fft(LONGSHORE, "run", "-q", "--nodes", "2", "--trace", "LONGSHORE_TRACE", "--")
        reads = [event for event in moved["traceEvents"] if event["ph"] == "X" and event["name"] == "read"]
        started, whole = ([event["args"]["bytes"] for event in reads if event["cat"] == kind] for kind in ("move", "read"))
        self.assertTrue(whole)
        self.assertEqual(sum(whole), sum(started))

    def test_with_longshore(self):
        events, (moved,) = self.run_fft(LONGSHORE, "run", "-q", "--trace", "LONGSHORE_TRACE", "--")
        shift = moved["otherData"]["origin_ns"] / 1e3
        self.assertEqual(moved["otherData"]["clock"], "CLOCK_MONOTONIC")
        posts = [(event["tid"], event["ts"], event["ts"] + event["dur"]) for event in events
                 if event["name"] == "MPI_Ialltoallv"]
        seen = [(event["tid"], event["ts"] + shift, event["ts"] + shift + event["dur"]) for event in moved["traceEvents"]
                if event["ph"] == "X" and (event["cat"], event["name"]) == ("post", "MPI_Ialltoallv")]
        self.assertEqual(len(posts), 2 * 2 * VARIABLES * REPEATS)
        for rank, begin, end in posts:
            within = [one for one in seen if one[0] == rank and begin - 1 <= one[1] and one[2] <= end + 1]
            self.assertEqual(len(within), 1, f"rank {rank}, {begin} to {end} us")
