"""The study's figures out of made-up samples, what its options refuse, and that nothing is left of one that is ended.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
LIMIT_S = 100  # on a machine that is busy with other things
sys.path.insert(0, str(FOLDER))
import study  # noqa: E402
import study_common  # noqa: E402, of examples, which study.py puts on the path
import study_figures as figures  # noqa: E402


def wait_for(condition, otherwise):
    """Returns what the condition gives."""
    end = time.monotonic() + LIMIT_S
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(otherwise)
        time.sleep(0.05)
    return result


def ranks_below(folder):
    """Processes of tddft that write their results there."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0]).startswith(b"tddft_") and any(word.startswith(os.fsencode(folder)) for word in words):
            found.append(int(process))
    return found


def launch(factor, messages=None):
    mpi = {"all": 10 * factor, "allgather": 5 * factor, "waitall": 2 * factor, "alltoall": factor, "allreduce": factor, "other": factor}
    one = {"runs": [{"mpi": mpi, "wall": 20 + 10 * factor, "computing": 18, "late": 2, "allgather_avoidable": [0.1 * factor, 0.3 * factor],
                     "exit_spread": [0.04 * factor], "checksum": "1"}], "allgathers": 2, "allgather_bytes": 1024}
    return one | ({"messages": messages} if messages else {})


def made_up():
    counts = {"received": 100, "late": 9, "parked": 6, "parked_ns": 6 * 50_000_000, "parked_longest_ns": 1, "handed_on": 3, "rescued": 2}
    turns = [{"host": launch(1.0), "host, best": launch(0.9), "longshore": launch(factor, counts)} for factor in (0.54, 0.45, 0.63)]
    return {"mpi": "openmpi", "nodes": 2, "ranks_per_node": 2, "rate": "1gbit", "base_s": 0.3,
            "tried": [{"allgather": "default", "allgather_s": 0.31}, {"allgather": "ring", "allgather_s": 0.3}], "late": turns, "on_time": turns[:1]}


class TestStudy(unittest.TestCase):
    def test_ratios_are_to_the_best_host_of_the_same_turn(self):
        self.assertEqual(figures.best_host(made_up()["late"], "all"), "host, best")
        for found, known in zip(figures.ratios(made_up()["late"], "avoidable"), (0.6, 0.5, 0.7)):
            self.assertAlmostEqual(found, known)

    def test_report_has_the_table_and_the_messages(self):
        text = "\n".join(figures.report(made_up()))
        self.assertRegex(text, r"MPI_Allgather +5\.000 \(5\.000-5\.000\) +4\.500 .* 2\.700 \(2\.250-3\.150\) +126\.38 +82\.74")
        self.assertRegex(text, r"avoidable time of an allgather, to the best host +0\.60 \(0\.50-0\.70\), goal 0\.65; nobody late 0\.60")
        self.assertIn("better in 3 of 3", text)
        self.assertIn("200; 9.0 %".replace("200", "300"), text)
        self.assertIn("6.0 % no local rank", text)
        self.assertIn("waited 50 ms on average", text)
        self.assertIn("by 15 to 50 % of 300 ms", text)

    def test_report_of_dpus_says_what_came_to_a_host_and_whether_a_bit_differs(self):
        def through(to_host, physics):
            return {"allgathers": 2, "allgather_bytes": 1000, "to_host": to_host, "by_ranks": 6000, "messages": {}, "runs": [{"checksum": "1"}],
                    "physics": physics}

        launches = {"host": {"allgathers": 2, "allgather_bytes": 1000, "runs": [{"checksum": "1"}], "physics": "0a"}, "once": through([8000, 8400], "0a")}
        text = "\n".join(figures.report_dpus({"mpi": "openmpi", "nodes": 2, "ranks_per_node": 4, "dpus": launches}))
        self.assertRegex(text, r"once +0\.004 +1\.050 +0\.003 +0a")
        self.assertIn("the same to the last bit", text)
        self.assertNotIn("reader", text)  # of a file without these counts
        launches["once"] |= {"blocks": {"ranks": 95, "agents": 1}, "messages": {"received": 16, "readers": 16}}
        text = "\n".join(figures.report_dpus({"mpi": "openmpi", "nodes": 2, "ranks_per_node": 4, "dpus": launches}))
        self.assertIn("in an allgather 8.0 readers were named; blocks that ranks of a host copied from each other: 47.5, that agents copied: 0.5", text)
        launches["once"]["physics"] = "0b"
        self.assertIn("NOT THE SAME", "\n".join(figures.report_dpus({"mpi": "openmpi", "nodes": 2, "ranks_per_node": 4, "dpus": launches})))

    def test_results_that_differ_are_said(self):
        for kind in ("late", "on_time"):
            samples = made_up()
            self.assertIn("the same to the last bit", figures.report(samples)[-1])
            samples[kind][-1]["host, best"]["runs"][0]["checksum"] = "2"
            self.assertFalse(figures.is_same(samples))
            self.assertIn("NOT THE SAME", figures.report(samples)[-1])

    def test_a_job_that_has_its_results_and_does_not_end_is_ended(self):
        limit, study_common.FINALIZE_LIMIT_S = study_common.FINALIZE_LIMIT_S, 0.2
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results"
            try:
                done = study_common.run_job(["sh", "-c", 'echo said; echo >"$0"; exec sleep 600', results], 5 * LIMIT_S, is_over=results.exists)
            finally:
                study_common.FINALIZE_LIMIT_S = limit
        self.assertEqual((done.returncode, done.stdout), (0, "said\n"))
        with self.assertRaises(subprocess.TimeoutExpired):
            study_common.run_job(["sleep", "60"], 0.1, is_over=lambda: False)
        self.assertEqual(study_common.run_job(["sh", "-c", "exit 3"], LIMIT_S, is_over=lambda: True).returncode, 3)

    def test_a_signal_while_a_job_is_started_ends_the_job(self):
        script = "\n".join((
            "import signal, subprocess, study_common",
            "start = subprocess.Popen",
            "def started(*words, **more):",
            "    job = start(*words, **more)",
            "    print(job.pid, flush=True)",
            "    signal.raise_signal(signal.SIGTERM)",
            "    return job",
            "subprocess.Popen = started",
            "study_common.end_by_signals()",
            "study_common.run_job(['sleep', '60'], 60)"))
        done = subprocess.run([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": str(Path(study_common.__file__).parent)},
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (128 + signal.SIGTERM, ""))
        self.assertFalse(Path(f"/proc/{int(done.stdout)}").exists(), "the job goes on")

    def test_every_algorithm_is_tried(self):
        for mpi, (allgather, alltoall, _, first, second) in study.ALGORITHMS.items():
            tries = study.tries_of(mpi)
            self.assertEqual({settings[allgather] for *_, settings in tries}, {str(value) for value in first.values()})
            self.assertEqual({settings[alltoall] for *_, settings in tries}, {str(value) for value in second.values()})

    def test_calls_of_one_rank_count_as_carried_and_others_do_not(self):
        alone = {"algorithms": {"mpi": 20}, "reasons": {"one rank": 20}}
        self.assertTrue(study.is_carried({"algorithms": {"direct": 8}, "reasons": {}}, "direct"))
        self.assertTrue(study.is_carried(alone, "direct"))
        self.assertTrue(study.is_carried({"algorithms": {"mpi": 8}, "reasons": {"rule": 8}}, "mpi"))
        self.assertFalse(study.is_carried({"algorithms": {"direct": 7, "mpi": 1}, "reasons": {"rule": 1}}, "direct"))
        self.assertFalse(study.is_carried({"algorithms": {"staged": 8}, "reasons": {}}, "direct"))
        self.assertFalse(study.is_carried({}, "direct"))

    def test_what_the_options_refuse(self):
        for words, says in ((["--pairs", "0"], "a turn of each kind"), (["--allgathers", "3"], "one to a hundred"), (["--set", "x"], "NAME=VALUE"),
                            (["--json", "/nonexistent/study.json"], "it cannot be written"), (["--picture", "/"], "it cannot be written")):
            done = subprocess.run([sys.executable, FOLDER / "study.py", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)

    def test_a_study_that_is_ended_leaves_no_folder_and_no_process(self):
        import cluster  # of tests/cluster, which study.py puts on the path
        program = BUILD / "bin/tddft_openmpi"
        if problem := cluster.missing() or ("" if program.exists() else f"no {program}"):
            self.skipTest(problem)
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number), tempfile.TemporaryDirectory(dir="/tmp", prefix="study-") as folder:
                words = [sys.executable, FOLDER / "study.py", "--build", BUILD, "--quiet", "--tries", "1000", "--compute-ms", "50", "--block", "4K"]
                with subprocess.Popen(words, env=os.environ | {"TMPDIR": folder}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
                    started = wait_for(lambda: ranks_below(folder) or job.poll() is not None, "no rank has started")
                    job.send_signal(number)
                    said = job.communicate(timeout=LIMIT_S)[0]
                self.assertIsInstance(started, list, said)
                self.assertEqual(job.returncode, 128 + number, said)
                self.assertNotIn("Traceback", said)
                wait_for(lambda: not ranks_below(folder), "ranks go on")
                self.assertEqual(os.listdir(folder), [])

    def test_picture(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib: 'make venv' installs it")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "study.png"
            figures.draw([made_up(), made_up()], str(path))
            self.assertGreater(path.stat().st_size, 10000)
