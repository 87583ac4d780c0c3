"""overlap.py: its figures are what docs/benchmarks.md says, and it runs. Measures nothing itself.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder. Where no cluster can be made only the figures are tried.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cluster  # noqa: E402
import overlap  # noqa: E402
import overlap_figures as figures  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
MISSING = cluster.missing() or ("" if cluster.CPUSETS.is_dir() else "no cgroup cpusets") or \
    ("" if (BUILD / "bin/fft_openmpi").exists() else "examples/fft is not built")


def launch(transform, computing=1.0, exchanging=2.0, moved=4e9, checksum="1"):
    seconds = {"transform": transform, "compute_alone": [computing] * len(transform), "exchanges_alone": [exchanging] * len(transform),
               "compute": [1.1 * computing] * len(transform), "in_mpi": [0.5] * len(transform)}
    return {"seconds": seconds, "bytes_between_nodes": moved, "checksum": checksum}


class TestFigures(unittest.TestCase):
    def test_hidden_share(self):
        self.assertEqual(figures.hidden_share(1, 2, 2), 1)  # as long as the longer of both
        self.assertEqual(figures.hidden_share(2, 1, 2), 1)
        self.assertEqual(figures.hidden_share(1, 2, 3), 0)  # one after the other
        self.assertEqual(figures.hidden_share(1, 2, 2.25), 0.75)
        self.assertEqual(figures.hidden_share(1, 2, 3.5), -0.5)  # harm
        # Issue 20's own example.
        self.assertAlmostEqual(figures.hidden_share(412, 1162, 1408), 0.40, delta=0.005)

    def test_share_of_the_possible_gain(self):
        self.assertEqual(figures.possible_share(8, 6, 5, 4), 2 / 3)
        self.assertEqual(figures.possible_share(8, 6, 3, 6), 1)
        self.assertEqual(figures.possible_share(8, 9, 4, 3), -0.25)
        self.assertIsNone(figures.possible_share(8, 6, 7.9, 4))  # nothing to gain

    def test_bound_beside_a_host_that_keeps_pages(self):
        self.assertEqual(figures.bound_beside_kept_pages(0.82, 1, 2, 3), 0.82)
        self.assertEqual(figures.bound_beside_kept_pages(0.5, 1, 2, 3), 0.75)  # (2 + 0.25) / 3

    def test_core_cost_needs_long_computing(self):
        self.assertEqual(figures.core_cost(5.0, 4.0, 2.0, 2e9), 0.5)
        self.assertIsNone(figures.core_cost(5.0, 3.9, 2.0, 2e9))
        # Two nodes, 4 GB between them: 2 GB each.
        self.assertEqual(figures.costs_of(launch([5.0, 4.0, 6.0], 4.0, 2.0), 2), [0.5, 0, 1.0])
        self.assertEqual(figures.costs_of(launch([5.0], 3.0, 2.0), 2), [])

    def test_bytes_that_cross(self):
        for collective, expected in (("alltoallv", 8), ("iallgatherv", 4), ("ibcast", 1)):  # 3 nodes x 2 ranks
            self.assertEqual(figures.bytes_of_node(collective, 1000, 3, 2), 1000 * expected)
        with self.assertRaises(ValueError):
            figures.bytes_of_node("scatter", 1, 2, 1)

    def test_rates(self):
        self.assertEqual(figures.link_bytes_per_second("2.5gbit"), 312.5e6)
        self.assertEqual(figures.link_bytes_per_second("100mbit"), 12.5e6)
        self.assertIsNone(figures.link_bytes_per_second(None))
        with self.assertRaises(ValueError):
            figures.link_bytes_per_second("fast")

    def test_work_bound(self):
        self.assertEqual(figures.work_bound(2, 1, 1.5), 3)
        self.assertEqual(figures.work_bound(2, 1, 4), 4)

    def test_geometric_mean(self):
        self.assertAlmostEqual(figures.geometric_mean([0.5, 2.0]), 1)
        self.assertAlmostEqual(figures.geometric_mean([1, 1, 8]), 2)

    def test_a_turn_is_judged_by_its_own_host(self):
        turns = [{"host": launch([3.0]), "host, kept pages": launch([2.5]), "longshore": launch([2.4])},
                 {"host": launch([6.0], 2.0, 4.0), "host, kept pages": launch([5.0]), "longshore": launch([4.2])}]
        judged = figures.judge(turns, "longshore")
        for key, expected in (("vs_host", [0.8, 0.7]), ("vs_kept", [0.96, 0.84]), ("hidden", [0.6, 0.9]),
                              ("kept_vs_host", [2.5 / 3, 5 / 6]), ("least", [2 / 3, 2 / 3]), ("possible", [0.6, 0.9]), ("kept_bound", [0.9, 0.9])):
            for value, wanted in zip(judged[key], expected, strict=True):
                self.assertAlmostEqual(value, wanted, msg=key)
        text = "\n".join(figures.fft_lines(turns, ["host", "host, kept pages", "longshore"]))
        self.assertIn("0.75 [0.70 .. 0.80]", text)
        self.assertIn("75 % [60 % .. 90 %]", text)

    def test_costs_beside_tcp(self):
        tcp = [{"bytes": 2e9, "seconds": 9, "user_s": 0.1, "system_s": 0.9, "cores_busy_s": 2}]
        text = figures.cost_lines([{"a": launch([5.0], 4.0, 2.0), "b": launch([5.0], 3.0, 2.0)}], ["a", "b"], tcp, 2)
        self.assertRegex(text[3], r"^a +0.50 \[0.50 .. 0.50\] +1.00$")  # s per GB, as plain TCP's
        self.assertRegex(text[4], r"^b +– +computing is too short$")

    def test_results_of_different_measurements_are_not_merged(self):
        options = dict.fromkeys(overlap.SAME, 1)
        result = {"options": options, "fft": {"names": ["host"], "turns": [1]}}
        more = {"options": dict(options), "fft": {"names": ["host"], "turns": [2, 3]}}
        self.assertEqual(overlap.merge([result, more])["fft"]["turns"], [1, 2, 3])
        with self.assertRaisesRegex(ValueError, "rate"):
            overlap.merge([result, {"options": options | {"rate": "5gbit"}}])

    def test_order_is_rotated_and_wrong_results_are_found(self):
        measurement = overlap.Measurement.__new__(overlap.Measurement)
        contenders, order = [overlap.Contender(name) for name in "abc"], []

        def take(one, checksum="1"):
            order.append(one.name)
            return launch([1.0], checksum=checksum)

        measurement.turns(contenders, 4, take)
        self.assertEqual("".join(order), "abcbcacababc")
        with self.assertRaisesRegex(RuntimeError, "differ"):
            measurement.turns(contenders, 1, lambda one: take(one, one.name))


@unittest.skipIf(MISSING, MISSING)
class TestTool(unittest.TestCase):
    def run_tool(self, *arguments):
        try:
            return subprocess.run([sys.executable, HERE / "overlap.py", *map(str, arguments)], capture_output=True, text=True,
                                  timeout=400, check=False)
        except subprocess.TimeoutExpired as error:
            self.fail(f"not in time:\n{(error.stderr or b'').decode()}")

    def test_all_of_it_briefly(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            done = self.run_tool("--rate", "1gbit", "--size", 32, "--variables", 2, "--pairs", 2, "--repeats", 2, "--cost-pairs", 1,
                                 "--cost-repeats", 2, "--what", "fft,cost,work,waited", "--work-collectives", "ialltoallv", "--work-sizes",
                                 "64K", "--waited-collectives", "alltoallv,bcast", "--waited-sizes", "64K", "--bench-samples", 2,
                                 "--time-limit", 1, "--also", "LONGSHORE_SERVICE_READS_MAX=32", "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            again = self.run_tool("--report", path)
            result = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(again.stdout, done.stdout)
        self.assertFalse(any(os.path.isabs(build) for build in result["options"]["build"]))  # it is kept in other trees
        self.assertIn("about", done.stderr)  # it says how long it will take
        names = ["host", "host, kept pages", "longshore", "longshore, LONGSHORE_SERVICE_READS_MAX=32"]
        for name in names:
            self.assertIn(f"\n{name}  ", done.stdout)
        self.assertEqual([sorted(turn) for turn in result["fft"]["turns"]], [sorted(names)] * 2)
        for turn in result["fft"]["turns"] + result["cost"]["turns"]:
            for run in turn.values():
                self.assertEqual(run["bytes_between_nodes"], 2 * 2 * 2 * 32**3 * 16 / 4)  # 2 ways, variables, nodes: a quarter each
                self.assertTrue(all(0 < value < overlap.LAUNCH_LIMIT_S for values in run["seconds"].values() for value in values))
        self.assertGreater(result["cost"]["tcp"][0]["user_s"] + result["cost"]["tcp"][0]["system_s"], 0)
        # The built-in table leaves a blocking alltoallv between such machines to the MPI.
        self.assertEqual([row["offloaded_share"] for row in result["waited"]["rows"]], [0, 1])
        self.assertRegex(done.stdout, r"geometric mean \d\.\d{3} of host's; worst \d")

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2 or not (BUILD / "bin/fft_mpich").exists(), "one core, or no MPICH")
    def test_a_core_to_spare_and_what_else_could_be_done_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            done = self.run_tool("--spare-core", "--mpi", "mpich", "--beside", "async,ranks", "--no-kept-pages", "--rate", "1gbit", "--size",
                                 32, "--variables", 2, "--pairs", 1, "--repeats", 1, "--what", "fft", "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            turn, = json.loads(path.read_text(encoding="utf-8"))["fft"]["turns"]
        self.assertEqual(list(turn), ["host", "host, progress thread", "host, ranks on all cores", "longshore"])
        self.assertIn("\n# machines at ", done.stdout)
        self.assertIn("of the possible gain", done.stdout)

    def test_plain_tcp_moves_what_it_says_at_the_rate_of_the_link(self):
        with cluster.Cluster(3, rate="100mbit", offloads=True) as nodes:
            before = nodes.link_bytes()
            count, addresses, jobs = 2_000_000, [node.address for node in nodes.nodes], []
            for node in nodes.nodes:
                peers = ",".join(address for address in addresses if address != node.address)
                jobs.append(subprocess.Popen([*node.enter(), sys.executable, HERE / "tcp_exchange.py", "--bind", node.address, "--peers",
                                              peers, "--bytes", str(count)], stdout=subprocess.PIPE, text=True))
            runs = [json.loads(job.communicate(timeout=cluster.BUSY_S * 2)[0]) for job in jobs]
            for name, (sent, received) in nodes.link_bytes().items():
                self.assertGreater(sent - before[name][0], 2 * count)
                self.assertGreater(received - before[name][1], 2 * count)
        for run in runs:
            self.assertEqual(run["bytes"], 2 * count)
            self.assertGreater(run["seconds"], 0.25)  # 4 MB at 12.5 MB/s take 0.32 s, less what the link may burst
            self.assertLess(run["user_s"] + run["system_s"], run["seconds"] + 0.1)

    def test_a_job_that_has_its_results_and_does_not_end_is_ended(self):
        for mpi in filter(lambda mpi: shutil.which(f"mpirun.{mpi}"), ("openmpi", "mpich")):
            with self.subTest(mpi=mpi), cluster.Cluster(2) as nodes, unittest.mock.patch("study_common.FINALIZE_LIMIT_S", 1):
                def processes():
                    return [pid for node in nodes.nodes for pid in node.processes()]

                # The ranks are there before the results are.
                start = time.monotonic()
                results, _ = overlap.results_of(nodes.mpirun(["sleep", "600"], 1, mpi=mpi), lambda: "there" if len(processes()) >= 2 else None)
                self.assertEqual(results, "there")
                self.assertLess(time.monotonic() - start, 300)
                end = time.monotonic() + cluster.BUSY_S
                while (left := processes()) and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertFalse([Path(f"/proc/{pid}/stat").read_text(encoding="ascii") for pid in left])

    def test_a_job_that_takes_too_long_is_said(self):
        with unittest.mock.patch("overlap.LAUNCH_LIMIT_S", 1), self.assertRaisesRegex(RuntimeError, "a launch failed: .*sleep.* after 1 seconds"):
            overlap.results_of(["sleep", "60"], lambda: None)

    def test_wrong_words_are_refused(self):
        for words, said in ((("--what", "fast"), "none of fft"), (("--set", "X"), "no NAME=VALUE"), (("--rate", "fast"), "no rate"),
                            (("--json", "/nonexistent/overlap.json"), "it cannot be written"),
                            (("--nodes", 1), "no link"), (("--beside", "ranks"), "without --spare-core"),
                            (("--spare-core", "--beside", "dpu"), "none of async, ranks"),
                            (("--spare-core", "--beside", "async"), "Open MPI has no such thread"), (("--spare-core", -1), "not a number")):
            done = self.run_tool(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
