"""longshore dpu-bench with one MPI: a short run of everything, what it refuses, and that wrong data stop it.

LONGSHORE_INTERNAL_TEST_BUILD is the build folder, LONGSHORE_INTERNAL_TEST_FLAVOUR the MPI.
"""

import contextlib
import json
import os
import pathlib
import pty
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["LONGSHORE_INTERNAL_TEST_BUILD"])
FLAVOUR = os.environ["LONGSHORE_INTERNAL_TEST_FLAVOUR"]
PROGRAM = BUILD / "bin" / f"longshore-dpu-bench-{FLAVOUR}"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_") and k != "LD_PRELOAD"}
SHORT = ["--patterns", "bcast", "--assignments", "cyclic", "--sizes", "1000", "--iterations", "2", "--warmup", "1",
         "--runs", "1"]


def run(*words):
    return subprocess.run([str(word) for word in words], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=200)


def command(*words):
    return run(BUILD / "bin" / "longshore", "dpu-bench", "--mpi", FLAVOUR, *words)


def program(ranks, *words):
    launch = [shutil.which(f"mpirun.{FLAVOUR}") or "mpirun", "-np", ranks]
    if FLAVOUR == "openmpi":
        launch += ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return run(*launch, PROGRAM, *words)


class Quick(unittest.TestCase):
    def test_every_pattern_is_measured_and_the_formulas_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            results.write_text("from before")
            done = command("--quick", "--json", results)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            # Each number of workers is a job of its own; the first keeps what was there.
            self.assertEqual({path.name for path in results.parent.iterdir()}, {"results.jsonl", "results.jsonl.old"})
            self.assertEqual((results.parent / "results.jsonl.old").read_text(), "from before")
            objects = [json.loads(line) for line in results.read_text().splitlines()]
            summary = command("--from", results, "--formula", "code")
        self.assertEqual([one["type"] for one in objects].count("machine"), 1)
        rows = [one for one in objects if one["type"] == "row"]
        found = {(row["pattern"], row["assignment"], row["workers"], row["bytes"]) for row in rows}
        wanted = {(pattern, assignment, workers, size)
                  for pattern in ("bcast", "gather", "allgather-leader", "allgather-multi")
                  for assignment in ("cyclic", "block") if (pattern, assignment) != ("allgather-multi", "block")
                  for workers in (1, 2) for size in (65536, 262144)}
        self.assertEqual(found, wanted)
        self.assertEqual(len(rows), len(wanted))
        for row in rows:
            self.check_row(row)
        for text in (done.stdout, summary.stdout):
            self.assertEqual(text.count("# offload efficiency in %"), 7, text)

    def check_row(self, row):
        self.assertEqual((row["hosts"], row["nodes"], row["runs"]), (4, 2, 1))
        self.assertEqual(row["workers_per_node"], row["workers"] / 2)
        times = [row[name][0] for name in ("reference_us", "pure_comm_us", "compute_us", "reference_loop_us", "total_us")]
        reference, comm, compute, reference_loop, total = times
        self.assertGreater(min(times), 0)
        self.assertGreaterEqual(compute, reference * 0.999)
        self.assertGreaterEqual(total, max(comm, compute) * 0.999)
        self.assertAlmostEqual(row["efficiency_paper"], 100 * reference / max(comm, compute), places=3)
        self.assertAlmostEqual(row["efficiency_code"], min(100, 100 * reference_loop / total), places=3)


class Terminal(unittest.TestCase):
    def test_progress_is_shown_on_a_terminal_and_kept_out_of_the_tables(self):
        terminal, end = pty.openpty()
        words = [BUILD / "bin" / "longshore", "dpu-bench", "--mpi", FLAVOUR, "--hosts", 2, "--nodes", 1, "--workers", 1]
        done = subprocess.run([str(word) for word in words + SHORT], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=end, text=True, timeout=200)
        os.close(end)
        shown = b""
        with contextlib.suppress(OSError):  # how the other end of a terminal says that it was closed
            while more := os.read(terminal, 4096):
                shown += more
        os.close(terminal)
        self.assertEqual(done.returncode, 0, shown)
        self.assertIn(b"launch 1 of 1, row 1 of 1: bcast cyclic 1000", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
        self.assertIn("# bcast, cyclic: 2 hosts, 1 worker", done.stdout)
        self.assertNotIn("progress", done.stdout)
        lines = done.stdout.splitlines()
        rows = lines[lines.index(next(line for line in lines if "pure comm" in line)):]
        self.assertEqual([line for line in rows if len(line) > 80], [])


class Refusals(unittest.TestCase):
    def check_rule(self, done):
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("at most half of all ranks", done.stderr)
        self.assertIn("fewer than the hosts", done.stderr)
        self.assertEqual(done.stderr.count("at most half"), 1, done.stderr)

    def test_too_many_workers(self):
        self.check_rule(command("--hosts", 4, "--workers", "1,5"))
        self.check_rule(command("--hosts", 4, "--wpn", 2))
        self.check_rule(program(4, "--workers", 3, *SHORT))

    def test_as_many_workers_as_hosts_only_when_allowed(self):
        self.check_rule(program(4, "--workers", 2, *SHORT))
        done = program(4, "--workers", 2, "--allow-equal", *SHORT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_mistakes(self):
        for words in (["--assignments", "block", "--patterns", "allgather-multi"], ["--nodes", 9, "--hosts", 8],
                      ["--sizes", "0"], ["--patterns", "alltoall"], ["--workers", 1, "--wpn", 1],
                      ["--mover", "shm"], ["--quick", "--device", "rxe0"]):
            self.assertEqual(command(*words).returncode, 2, words)
        self.assertEqual(command("--from", "/no/such/file").returncode, 1)


class Verbs(unittest.TestCase):
    def test_without_a_device_it_is_refused_once_and_said_what_to_do(self):
        if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("there is an RDMA device here")
        done = command("--quick", "--mover", "verbs")
        self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
        self.assertRegex(done.stderr, "there is no RDMA device here .*--mover process_vm|install libibverbs-dev")
        self.assertEqual(done.stderr.count("longshore dpu-bench: there is no"), 1 - done.stderr.count("libibverbs-dev"))


class WrongData(unittest.TestCase):
    def test_one_wrong_byte_stops_the_run_before_anything_is_timed(self):
        done = program(3, "--workers", 1, "--nodes", 1, *SHORT, "--spoil-byte", 1007)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("wrong data, staged: rank 1: block of rank 0, byte 7 of 1000", done.stderr)
        self.assertNotIn("reference", done.stdout)
