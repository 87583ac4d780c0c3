"""tddft: known results, the same bits with and without Longshore, and what is said of bad input.

In the environment, each with LONGSHORE_INTERNAL_TEST_ before it: COMMAND, longshore, or "none"; LAUNCH, an mpirun and its
options; PROGRAM; FLIP, a library to preload, that changes a number.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

LONGSHORE, FLIP, TDDFT, LAUNCH = (os.environ[f"LONGSHORE_INTERNAL_TEST_{name}"] for name in (
    "COMMAND", "FLIP", "PROGRAM", "LAUNCH"))
MPIRUN = shlex.split(LAUNCH)
# Few steps and points: there are more processes than cores, and some MPIs' processes keep a core while they wait.
SMALL = ("--steps", "20", "--repeats", "1")
FORCED = [word for call in ("allgather", "allgatherv", "alltoall") for word in ("--set", f"{call}_algorithm=direct")]


def launch(arguments, ranks=4, threads=1, prefix=(), **variables):
    """threads: None, as the program chooses, of ranks that may run on all cores."""
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    environment |= {key: value for key, value in variables.items() if key != "preload"}
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    program = ["env", f"LD_PRELOAD={variables['preload']}", TDDFT] if "preload" in variables else [TDDFT]
    if threads is None:
        program = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0)))), *program]
    return subprocess.run([*prefix, *MPIRUN, "-np", str(ranks), *program, *arguments], env=environment, text=True, capture_output=True,
                          timeout=250, check=False)


def run(arguments, **how):
    """The results of a run that must pass."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tddft.json"
        done = launch([*arguments, "--json", str(path)], **how)
        if done.returncode != 0 or "all checks passed" not in done.stdout:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(path.read_text(encoding="utf-8"))


class Physics(unittest.TestCase):
    def test_dipole_swings_as_known(self):
        result = run(["--steps", "60", "--repeats", "1"], ranks=2)
        self.assertLess(result["norm_error"], 1e-6)
        self.assertLess(result["energy_drift"], 1e-4)
        for frequency in result["dipole"]["frequency"]:
            self.assertAlmostEqual(frequency, 1, delta=2e-3)

    def test_more_allgathers_follow_the_same_path(self):
        plain, corrected = (run([*SMALL, "--allgathers", count], ranks=2) for count in ("20", "62"))
        self.assertEqual(len(corrected["runs"][0]["allgather_avoidable"]), 62)
        last = [result["observed"][-1] for result in (plain, corrected)]
        self.assertNotEqual(plain["runs"][0]["checksum"], corrected["runs"][0]["checksum"])
        self.assertAlmostEqual(last[0]["energy"], last[1]["energy"], delta=1e-3)

    def test_threads_are_a_rank_s_part_of_the_cores(self):
        cores = len(os.sched_getaffinity(0))
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assertEqual(run([*SMALL, "--grid", f"1x{ranks}"], ranks=ranks, threads=None)["threads"], max(1, cores // ranks))

    def test_layouts_and_threads_agree(self):
        first = run(SMALL, ranks=1)["observed"][-1]
        for ranks, grid, threads in ((2, "1x2", 1), (2, "2x1", 2), (4, "2x2", 1), (4, "4x1", 1), (4, "1x4", 1)):
            with self.subTest(grid=grid):
                last = run([*SMALL, "--grid", grid], ranks=ranks, threads=threads)["observed"][-1]
                self.assertAlmostEqual(last["energy"], first["energy"], delta=1e-9)
                for mine, known in zip(last["dipole"], first["dipole"]):
                    self.assertAlmostEqual(mine, known, delta=1e-12)

    def test_molecule_keeps_norm_and_energy(self):
        result = run([*SMALL, "--problem", "molecule"])
        self.assertNotIn("dipole", result)


class Longshore(unittest.TestCase):
    @unittest.skipIf(LONGSHORE == "none", "no longshore")
    def test_longshore_changes_no_bit(self):
        for problem, nodes, gather in (("well", "2", "Allgather"), ("molecule", "0", "Allgatherv")):
            with self.subTest(problem=problem, nodes=nodes), tempfile.TemporaryDirectory() as folder:
                stats = Path(folder) / "stats.json"
                arguments = [*SMALL, "--problem", problem]
                prefix = [LONGSHORE, "run", "-q", "--nodes", nodes, "--service", "2", "--stats", str(stats), *FORCED]
                carried = run([*arguments, *(["--allgatherv"] if gather == "Allgatherv" else [])], prefix=prefix)
                self.assertEqual(carried["runs"][0]["checksum"], run(arguments)["runs"][0]["checksum"])
                calls = json.loads(stats.read_text(encoding="utf-8"))["collectives"]
                for call in (f"MPI_{gather}", "MPI_Alltoall"):
                    self.assertGreater(calls[call]["algorithms"]["direct"], 0)


class Late(unittest.TestCase):
    def test_late_ranks_and_sleep(self):
        arguments = ["--sleep", "--compute-ms", "1", "--allgather-block", "300K", "--late-base-ms", "20", "--late-chance", "0.5",
                     "--steps", "10", "--repeats", "2", "--ranks-per-node", "2"]
        result = run(arguments)
        self.assertEqual(result["allgather_bytes"], 300 * 1024)
        for one in result["runs"]:
            self.assertGreater(one["late"], 0)
            self.assertGreater(one["mpi"]["all"], 0)
            # The late sleep 3 ms at least, and nobody leaves before the last has entered.
            self.assertGreater(max(one["entry_spread"]), 0.0029)
            self.assertGreater(min(one["allgather_avoidable"]), 0)
            self.assertAlmostEqual(one["mpi"]["all"], sum(value for row, value in one["mpi"].items() if row != "all"), places=9)
            self.assertLessEqual(one["mpi"]["all"] + one["computing"] + one["late"], one["wall"] + 1e-9)

    @unittest.skipIf(LONGSHORE == "none", "no longshore")
    def test_who_is_late_is_named_by_the_wait(self):
        """Later than a wait keeps silent: it says for whom it waits, and nothing fails."""
        prefix = [LONGSHORE, "run", "-q", "--nodes", "2", "--set", "wait_report_s=1", "--set", "limit_s=1", *FORCED]
        arguments = ["--sleep", "--late-base-ms", "10000", "--late-chance", "0.5", "--steps", "3", "--repeats", "1", "--ranks-per-node", "1",
                     "--seed", "5", "--allgather-block", "200K"]
        for _ in range(5):  # the limit is so short that service processes which wait for a core are given up
            done = launch(arguments, ranks=2, prefix=prefix)
            if not re.search("has not answered|plain MPI", done.stderr):
                break
        self.assertEqual((done.returncode, "all checks passed" in done.stdout), (0, True), done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"MPI_Allgather on rank . still waits: .* waits for the block of rank")


class Checks(unittest.TestCase):
    def test_a_wrong_number_is_found(self):
        physics, sleep = ["--steps", "10", "--repeats", "2"], ["--steps", "20", "--repeats", "2", "--sleep", "--allgather-block", "900K"]
        for call, arguments in (("allgather", physics), ("allgather", sleep), ("alltoall", physics), ("alltoall", sleep), ("waitall", physics)):
            with self.subTest(call=call, arguments=arguments):
                done = launch([*arguments, "--grid", "2x2"], preload=FLIP, FLIP=call)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn("FAILED", done.stdout)


class Input(unittest.TestCase):
    def test_bad_input_is_said_before_the_start(self):
        for arguments, says in ((["--grid", "4x1", "--states", "2"], "4 ranks for 2 states"),
                                (["--grid", "4x1", "--states", "6"], "6 states cannot be shared evenly by 4 ranks"),
                                (["--grid", "1x4", "--size", "24x24x12"], "each needs 4 at least"),
                                (["--grid", "1x4", "--size", "24x24x22"], "22 planes cannot be shared evenly"),
                                (["--grid", "2x1"], "needs 2 ranks, there are 4"),
                                (["--size", "9x9x9", "--states", "3"], "cannot share 3 states"),
                                (["--size", "4"], "fewer than 8"),
                                (["--allgathers", "5"], "needs one to a hundred in each"),
                                (["--compute-ms", "5"], "needs --sleep"),
                                (["--dt", "0.5"], "too long"),
                                (["--grid", "2y2"], "no product")):
            with self.subTest(arguments=arguments):
                done = launch(arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertEqual(len(re.findall(re.escape(says), done.stderr)), 1, done.stderr)
                self.assertEqual(done.stdout, "")
