"""study.py: its figures are those of its samples, its placements keep apart what they say, it says what is missing, and nothing is
left of one that is ended.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
LIMIT_S = 100  # on a machine that is busy with other things
sys.path.insert(0, str(FOLDER))
import study  # noqa: E402
import study_figures as figures  # noqa: E402
import study_nodes  # noqa: E402


def wait_for(condition, otherwise):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(otherwise())
        time.sleep(0.02)


def processes_of(session):
    """Command lines of all that run in a session, as that of a study and of what it has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            words = (process / "cmdline").read_text(encoding="utf-8").replace("\0", " ")
            if int(stat[3]) == session and words:  # one that has ended has no words
                found.append(words)
    return found


def launch(seconds, handed=(), checksum="1", **times):
    kernels = {}
    for kernel in figures.KERNELS:
        kernels[kernel] = {"handed_over": kernel in handed, "bytes_per_zone": 10.0, "slack_seconds": 0.0, "submit_seconds": 1e-6,
                           "wait_seconds": 2e-6, "run_seconds": 3e-6} | times
    return {"cycle_seconds": [seconds, seconds, 99 * seconds], "kernels": kernels, "copied_bytes_per_zone": 20.0, "checksum": checksum}


ROW = {"problem": "leblanc:160x360", "mode": "mpi", "placement": "slow", "cores": [[0], [1]], "ranks": 2, "threads": 1,
       "launches": {"none": [launch(1.0), launch(2.0), launch(4.0)],
                    "mpmd v1": [launch(1.5, figures.KERNELS), launch(3.6, figures.KERNELS), launch(4.0, figures.KERNELS, slack_seconds=5e-3)],
                    "mpmd v2": [launch(1.1, figures.KERNELS[:2])] * 3, "mpmd auto": [launch(1.0)] * 3}}
STUDY = {"machine": {"cores": 2, "sockets": 1, "processor": "a processor", "commit": "abc"}, "mpi": "openmpi", "slow": 3, "turns": 3,
         "cycles": 60, "missing": ["socket: not measurable here: one socket"], "results": [ROW]}


class TestStudy(unittest.TestCase):
    def test_a_contender_is_compared_with_the_plain_run_of_its_turn(self):
        self.assertAlmostEqual(figures.relative_percent(ROW["launches"], "mpmd v1"), 50)  # of 50, 80 and 0
        low, high = figures.spread_percent(ROW["launches"], "mpmd v1")
        self.assertAlmostEqual(low, 0)
        self.assertAlmostEqual(high, 80)

    def test_the_whole_run_counts_the_trials(self):
        plain = [launch(1.0) | {"all_cycles_seconds": 100.0, "trial_cycles": 0, "trial_seconds": 0.0}] * 3
        tried = [launch(1.0) | {"all_cycles_seconds": seconds, "trial_cycles": 30, "trial_seconds": 0.5} for seconds in (101, 102, 110)]
        row = ROW | {"launches": {"none": plain, "tasks auto": tried}}
        self.assertEqual([round(one, 6) for one in figures.whole_run(row["launches"], "tasks auto")], [2, 1, 10, 30, 500])
        self.assertIsNone(figures.whole_run(ROW["launches"], "mpmd auto"))  # as older runs, which did not say
        lines = figures.report(STUDY | {"results": [row]})
        self.assertIn("  tasks auto: the whole run +2.0% (+1.0 to +10.0); 30 cycles of trials took +500.0 ms", lines)

    def test_bytes_are_of_what_was_handed_over(self):
        self.assertEqual(figures.bytes_handed(ROW["launches"]["mpmd v1"][0]), 30)
        self.assertEqual(figures.bytes_handed(ROW["launches"]["mpmd v2"][0]), 20)
        self.assertEqual(figures.bytes_handed(ROW["launches"]["mpmd auto"][0]), 0)

    def test_the_text_has_the_paper_beside_and_says_what_is_missing(self):
        lines = figures.report(STUDY)
        row = next(line for line in lines if line.startswith("  mpmd v1") and "%" in line)
        self.assertIn("+50.0%", row)
        self.assertTrue(row.endswith("+82"))
        self.assertEqual(lines[-1], "socket: not measurable here: one socket")
        self.assertFalse(any("energy" in line and line.startswith("  mpmd v2") for line in lines))

    def test_runs_are_joined_if_they_belong_together(self):
        later = STUDY | {"machine": STUDY["machine"] | {"commit": "def", "date": "2026-11-28T08:00:00+00:00"}}
        whole = figures.joined([STUDY, later])
        self.assertEqual(len(whole["results"]), 2)
        self.assertEqual(whole["missing"], STUDY["missing"])
        with self.assertRaisesRegex(ValueError, "slow"):
            figures.joined([STUDY, STUDY | {"slow": 2}])

    def test_another_node_is_a_row_with_its_rate(self):
        node = STUDY | {"rate": "1gbit", "results": [ROW | {"placement": "node"}]}
        whole = figures.joined([STUDY, node])  # as older runs, which knew of no rate
        self.assertTrue(any("links held to 1gbit" in line for line in figures.report(whole)))
        with self.assertRaisesRegex(ValueError, "rate"):
            figures.joined([node, node | {"rate": "2gbit"}])

    def job_of_nodes(self, way, on_dpus):
        """Of each process of a job on machines in namespaces: (its machine, its words)."""

        class Played:
            placement = study_nodes.cluster_placement([0, 1])
            settings = {"LONGSHORE_DPU": "@map"}

            @staticmethod
            def mpirun_of(job, mpi):
                return job

        nodes = object.__new__(study_nodes.Nodes)
        nodes.build, nodes.mpi, nodes.cluster, nodes.on_dpus = Path("/build"), "openmpi", Played, on_dpus
        return nodes.words(way, ["hydro"], "peer")

    def test_on_another_node_each_rank_has_its_peer_on_the_next_one(self):
        job = self.job_of_nodes("mpmd", on_dpus=False)
        self.assertEqual([(node, words[-1]) for node, words in job], [(0, "hydro"), (1, "hydro"), (1, "peer"), (0, "peer")])
        self.assertEqual(job[2][1][-4:], ["taskset", "-c", "1", "peer"])
        job = self.job_of_nodes("tasks", on_dpus=False)
        self.assertEqual([node for node, _ in job], [0, 1])
        self.assertIn("LONGSHORE_TASK_NODE=next", job[0][1])
        self.assertEqual(job[0][1][-2:], ["hydro", "--keep"])

    def test_on_a_dpu_each_rank_has_what_computes_for_it_on_its_own(self):
        job = self.job_of_nodes("mpmd", on_dpus=True)
        self.assertEqual([(machine, words[-1]) for machine, words in job], [(0, "hydro"), (1, "hydro"), (2, "peer"), (3, "peer")])
        for _, words in self.job_of_nodes("tasks", on_dpus=True):
            self.assertIn("LONGSHORE_TASK_NODE=dpu", words)
            self.assertIn("LONGSHORE_DPU=@map", words)

    def test_the_paper_s_dpu_stands_beside_a_dpu(self):
        lines = figures.report(STUDY | {"results": [ROW | {"placement": "dpu"}]})
        self.assertTrue(any(line.endswith("+82") for line in lines))
        self.assertTrue(any(line.startswith("dpu: two nodes and their DPUs") for line in lines))

    def test_mpich_is_not_measured_where_there_is_no_core_for_each(self):
        options = study.parse(["--mpi", "mpich", "--placements", "node"])
        why = study_nodes.missing(options, "node")
        self.assertTrue(why == "" if len(os.sched_getaffinity(0)) >= 4 else why.startswith("node: not"), why)

    def test_placements(self):
        self.assertEqual(study.place("spare", [[0, 1, 2, 3]]), ([0, 1], [2, 3]))
        self.assertEqual(study.place("own", [[0, 1]]), ([0, 1], [0, 1]))
        self.assertEqual(study.place("socket", [[0, 1], [2, 3]]), ([0, 1], [2, 3]))
        self.assertIn("one socket", study.place("socket", [[0, 1]]))
        self.assertIn("one core", study.place("spare", [[0]]))

    def test_each_process_is_bound_to_its_share(self):
        words, share = study.Study.bound([0, 1, 2, 3], 2, 2)
        self.assertEqual(share, 2)
        with tempfile.TemporaryDirectory() as folder:
            taskset = Path(folder) / "taskset"
            taskset.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
            taskset.chmod(0o755)
            for me, cores in (("2", "0,1"), ("3", "2,3")):
                environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "OMPI_COMM_WORLD_RANK": me}
                out = study.subprocess.run([*words, "program"], env=environment, capture_output=True, text=True, check=True).stdout
                self.assertEqual(out.split(), ["-c", cores, "program"])

    def test_ranks_share_cores_where_there_are_fewer(self):
        words, share = study.Study.bound([7], 2, 0)
        self.assertEqual((share, words[2].count(" 7")), (1, 2))

    def test_wrong_options_are_refused(self):
        for wrong in (["--problems", "leblanc"], ["--turns", "0"], ["--cycles", "5", "--warm-up", "5"], ["--placements", "moon"],
                      ["--json", "/nonexistent/study.json"], ["--picture", "/"]):
            with self.subTest(wrong=wrong), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                study.parse(wrong)

    def test_a_study_that_is_ended_leaves_no_folder_and_no_process(self):
        programs = [BUILD / "bin" / name for name in ("hydro_openmpi", "hydro_peer_openmpi", "longshore", "longshored")]
        if lacking := [str(program) for program in programs if not program.exists()]:
            self.skipTest(f"no {', '.join(lacking)}")
        # Turns of launches until one is met in which somebody computes for the ranks: they end with the wave, after some 800 cycles. (With
        # 16x16 zones after 250, of 25 ms together, and who waited for a core met none in 100 s.)
        words = [sys.executable, FOLDER / "study.py", "--build", BUILD, "--quiet", "--problems", "sedovflat:96x96", "--placements", "own",
                 "--modes", "mpi", "--variants", "v1", "--turns", "1000", "--cycles", "4000"]
        for number, (way, beside) in itertools.product((signal.SIGTERM, signal.SIGINT),
                                                       (("mpmd", f"{BUILD}/bin/hydro_peer_openmpi "), ("tasks", "longshored: task "))):
            with self.subTest(number=number, way=way), tempfile.TemporaryDirectory(prefix="study-") as folder:
                with subprocess.Popen([*words, "--ways", way], env=os.environ | {"TMPDIR": folder}, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, start_new_session=True) as job:
                    try:
                        wait_for(lambda: job.poll() is not None or any(process.startswith(beside) for process in processes_of(job.pid)),
                                 lambda: f"nobody computes for the ranks: {processes_of(job.pid)}")
                        job.send_signal(number)
                        said = job.communicate(timeout=LIMIT_S)[0]
                    finally:
                        job.kill()
                self.assertEqual(job.returncode, 128 + number, said)
                self.assertNotIn("Traceback", said)
                wait_for(lambda: not processes_of(job.pid), lambda: f"processes go on: {processes_of(job.pid)}")
                self.assertEqual(os.listdir(folder), [])

    def test_that_nothing_can_be_drawn_is_said_before_measuring(self):
        with unittest.mock.patch("importlib.util.find_spec", return_value=None), contextlib.redirect_stderr(io.StringIO()) as said, \
                self.assertRaises(SystemExit):
            study.parse(["--picture", "study.png"])
        self.assertIn("make venv", said.getvalue())

    def test_a_report_is_printed_and_drawn(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib ('make venv')")
        with tempfile.TemporaryDirectory() as folder:
            source, picture = Path(folder) / "study.json", Path(folder) / "study.png"
            source.write_text(json.dumps(STUDY), encoding="utf-8")
            sys.argv = ["study.py", "--report", str(source), "--picture", str(picture)]
            with contextlib.redirect_stdout(io.StringIO()) as out:
                study.main()
            self.assertIn("mpmd v2", out.getvalue())
            self.assertGreater(picture.stat().st_size, 10000)
