"""hydro: known results, and the same bits whatever ranks, threads, ways and variants.

In the environment, each with LONGSHORE_INTERNAL_TEST_ before it: COMMAND, longshore, or "none"; LAUNCH, an mpirun and its
options; PROGRAM and PEER; libraries to preload: CORRUPT changes a message, OPEN_BUFFERS tells of memory that is freed while MPI
uses it.
"""

import json
import os
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

LONGSHORE, CORRUPT, OPEN_BUFFERS, HYDRO, PEER, LAUNCH = (os.environ[f"LONGSHORE_INTERNAL_TEST_{name}"] for name in (
    "COMMAND", "CORRUPT", "OPEN_BUFFERS", "PROGRAM", "PEER", "LAUNCH"))
MPIRUN = shlex.split(LAUNCH)
# A wave along the border between ranks, so that what they sum there is not zero. Few cycles: there are more processes than
# cores, and some MPIs' processes keep a core while they wait.
WAVE = ("--problem", "sedovflat", "--zones", "60x45", "--cycles", "16")


def launch(arguments, ranks=1, peers=0, peer_arguments=(), threads=1, prefix=(), before=(), before_peers=()):
    """before, before_peers: words before each program. threads: None, as the programs choose."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    words = [*prefix, *MPIRUN, "-np", str(ranks), *before, HYDRO, *arguments]
    if peers:
        words += [":", "-np", str(peers), *before_peers, PEER, *peer_arguments]
    return subprocess.run(words, env=environment, text=True, capture_output=True, timeout=250, check=False)


def run(arguments, **how):
    """The results of a run that must pass."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hydro.json"
        done = launch([*arguments, "--json", str(path)], **how)
        if done.returncode != 0 or "all checks passed" not in done.stdout:
            raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(path.read_text(encoding="utf-8"))


class TestHydro(unittest.TestCase):
    def test_waves_are_where_they_are_known_to_be(self):
        for arguments, contact, shock in ((("--problem", "leblanc", "--zones", "8x360"), 3 + 6 * 0.62184, 3 + 6 * 0.82912),
                                          (("--problem", "sedovflat", "--zones", "8x90"), None, 1.0139),
                                          (("--problem", "sedov"), None, 0.8414),
                                          # A point crossed its zone's centre in one step.
                                          (("--problem", "sedov", "--zones", "24x24"), None, 1.1521)):
            with self.subTest(arguments=arguments):
                result = run(arguments)
                self.assertLess(result["energy"]["drift"], 1e-11)
                self.assertGreater(result["energy"]["kinetic"], 0.01 * result["energy"]["internal"])
                self.assertAlmostEqual(result["shock"]["known"], shock, delta=2e-4)
                self.assertEqual(result["contact"] is None, contact is None)
                if contact:
                    self.assertAlmostEqual(result["contact"]["known"], contact, delta=2e-4)

    def test_ranks_and_threads_change_no_bit(self):
        first = run(WAVE)
        for ranks, threads, more in ((1, 3, ("--chunk", "64")), (2, 2, ("--chunk", "7")), (4, 1, ())):
            with self.subTest(ranks=ranks, threads=threads):
                result = run([*WAVE, *more], ranks=ranks, threads=threads)
                self.assertEqual((result["ranks"], result["threads"]), (ranks, threads))
                self.assertEqual(result["checksum"], first["checksum"])

    def test_threads_are_a_process_s_part_of_the_cores(self):
        """Of processes that may all run on all cores, and of one that is bound; what OMP_NUM_THREADS says comes first."""
        all_cores = sorted(os.sched_getaffinity(0))
        for cores in (all_cores, all_cores[:1]):
            unbound = ["taskset", "-c", ",".join(map(str, cores))]
            for ranks, peers in ((1, 0), (2, 0), (1, 1)):
                with self.subTest(cores=cores, ranks=ranks, peers=peers):
                    result = run([*WAVE, "--offload", "mpmd" if peers else "none"], ranks=ranks, peers=peers, threads=None, before=unbound,
                                 before_peers=unbound)
                    count = ranks + peers
                    self.assertEqual(result["threads"], max(1, len(cores) // count))
                    self.assertEqual(result["threads_reason"], f"{len(cores)} core{'s'[:len(cores) - 1]} for {count} process{'es' if count > 1 else ''}")
        result = run(WAVE, threads=3)
        self.assertEqual((result["threads"], result["threads_reason"]), (3, "OMP_NUM_THREADS"))

    def test_ways_and_variants_change_no_bit(self):
        first = run(WAVE)["checksum"]
        ranks = 2  # their peers sum over a border
        for way, variant, handed in (("inline", "v1", 3), ("mpmd", "v1", 3), ("mpmd", "v2", 2), ("auto", "v1", None)):
            with self.subTest(way=way, variant=variant):
                result = run([*WAVE, "--offload", way, "--variant", variant], ranks=ranks, peers=0 if way == "inline" else ranks)
                self.assertEqual(result["checksum"], first)
                if handed:
                    self.assertEqual([kernel["handed_over"] for kernel in result["kernels"].values()].count(True), handed)
                    self.assertEqual(result["copied_bytes_per_zone"] > 0, way == "mpmd")

    def test_tasks_change_no_bit(self):
        first = run(WAVE)["checksum"]
        inline = run([*WAVE, "--offload", "tasks"])
        self.assertEqual((inline["checksum"], inline["processes_beside"]), (first, 0))
        if LONGSHORE == "none":
            self.skipTest("no longshore: tasks ran inline alone")
        for way, variant in (("tasks", "v1"), ("tasks", "v2"), ("auto", "v1")):
            with self.subTest(way=way, variant=variant):
                result = run([*WAVE, "--offload", way, "--variant", variant], ranks=2, prefix=[LONGSHORE, "run", "-q"])
                self.assertEqual((result["checksum"], result["processes_beside"]), (first, 1))

    @unittest.skipIf(LONGSHORE == "none", "no longshore")
    def test_tasks_copy_no_large_buffer(self):
        mesh = ("--problem", "sedovflat", "--zones", "240x270", "--cycles", "6")
        result = run([*mesh, "--offload", "tasks"], ranks=2, prefix=[LONGSHORE, "run", "-q"])
        self.assertEqual(result["checksum"], run(mesh)["checksum"])
        self.assertEqual(result["processes_beside"], 1)
        handed = sum(kernel["bytes_per_zone"] for kernel in result["kernels"].values())
        self.assertLess(result["copied_bytes_per_zone"], handed / 50)  # stamps, and what lies at borders

    def test_auto_hands_nothing_to_a_slow_peer(self):
        result = run(["--problem", "sedov", "--cycles", "60", "--offload", "auto"], peers=1, peer_arguments=["--slow", "1000"])
        self.assertFalse(any(kernel["handed_over"] for kernel in result["kernels"].values()))
        self.assertIn("handed over: nothing", result["reasons"])

    def test_one_wrong_bit_shows(self):
        good = run(WAVE, ranks=2)["checksum"]
        done = launch(WAVE, ranks=2, before=["env", f"LD_PRELOAD={CORRUPT}"])
        self.assertIn("checksum: ", done.stdout)
        self.assertNotIn(good, done.stdout)

    def test_memory_outlives_open_operations(self):
        """Where a rank ends the job, its peer has yet to send what it computes, and to get more."""
        done = launch([*WAVE, "--offload", "mpmd"], ranks=2, peers=2,
                      before=["env", "HYDRO_CORRUPT_BY=1e30", f"LD_PRELOAD={CORRUPT}:{OPEN_BUFFERS}"],
                      before_peers=["env", f"LD_PRELOAD={OPEN_BUFFERS}"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the step became", done.stderr)
        self.assertNotIn("open_buffers", done.stdout + done.stderr)

    def test_wrong_command_lines(self):
        for arguments, how, said in ((["--problem", "none"], {}, "--problem"), (["--zones", "8x0"], {}, "8x0"), (["--zones", "90000x90000"], {}, "use more ranks"),
                                     (["--cycles", "1"], {"peers": 1}, "--offload"), (["--zones", "1x1"], {"ranks": 2}, "more ranks than zones"),
                                     (["--offload", "mpmd"], {"peers": 2}, "as many peers as ranks"),
                                     (["--offload", "mpmd"], {"peers": 1, "peer_arguments": ["--slow", "0"]}, "--slow")):
            with self.subTest(arguments=arguments, how=how):
                done = launch(arguments, **how)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stdout + done.stderr, f"exit code {done.returncode}")

    def test_help(self):
        done = launch(["--help"])
        self.assertEqual(done.returncode, 0)
        self.assertIn("leblancx4", done.stdout)
