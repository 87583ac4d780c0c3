"""Jobs whose collectives a DPU carries, where the DPU is this machine too: its standing service listens on loopback, and
nothing of the ranks' memory is reached but through the network. tests/cluster has the same between machines.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from collectives import DIRECT  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
MPIS = [mpi for mpi in ("openmpi", "mpich") if (BUILD / f"lib/liblongshore-{mpi}.so").exists()]
LIMIT_S = 120  # within which everything happens on a machine that is busy with other things
WHOLE = bool(os.environ.get("LONGSHORE_INTERNAL_TEST_ALL"))  # what 'make test-dpu' tries; else less
# Of what is the same with each MPI `make test` has one, `make test-all` the other, too (LONGSHORE_INTERNAL_TEST_MPI).
EACH_MPI = MPIS if WHOLE else [mpi for mpi in MPIS if mpi == os.environ.get("LONGSHORE_INTERNAL_TEST_MPI", MPIS[0])]


def job_users(*files):
    """Options with which jobs of the service run as users of their own, where root can start them and they can use the files."""
    if os.geteuid() != 0:
        return []
    open_to_all = all(os.stat(path).st_mode & 0o001 for file in files for path in (Path(file), *Path(file).parents))
    return ["--job-users", "70000-70999"] if open_to_all else []


class Service:
    """A standing service on loopback. Jobs run as users of their own where that can be, else one at a time."""

    def __init__(self, *options, longshored=BUILD / "bin/longshored", limit_s=LIMIT_S):
        # pylint: disable=consider-using-with
        self.log = tempfile.NamedTemporaryFile("w+", prefix="longshore-test-dpu-")
        # In the session of the ranks: here it shares their cores, which the kernel shares out by session first, and ranks
        # that spin keep those of another from any for seconds.
        self.process = subprocess.Popen([longshored, "listen", "--address", "127.0.0.1", "--port", "0", *options],
                                        stdout=self.log, stderr=self.log, process_group=0)
        limit = time.monotonic() + limit_s
        while not (found := re.search(r"listening at \S*:(\d+)", self.said())):
            if time.monotonic() > limit or self.process.poll() is not None:
                raise AssertionError(f"the service did not start: {self.said()}")
            time.sleep(0.02)
        self.address = f"127.0.0.1:{found[1]}"

    def said(self):
        return Path(self.log.name).read_text(encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()

    def stand_ins(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in children.split()]


def program(name, mpi):
    """One of tests/mpi, or an example by its path below the build folder."""
    return str(BUILD / (name if "/" in name else f"tests/mpi/{mpi}/mpi_{name}_{mpi}"))


def words(mpi, ranks, name, *arguments, **settings):
    start = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"],
             "mpich": ["mpirun.mpich"]}[mpi]
    chosen = {"LD_PRELOAD": f"{BUILD}/lib/liblongshore.so", "LONGSHORE_STATS": "-", **DIRECT, **settings}
    return [*start, "-np", str(ranks), "env", *(f"{key}={value}" for key, value in chosen.items()), program(name, mpi),
            *map(str, arguments)]


def run(*arguments, **settings):
    return subprocess.run(words(*arguments, **settings), capture_output=True, text=True, timeout=LIMIT_S, check=False)


class Endless(subprocess.Popen):
    """tests/mpi/steady.cc, until it is ended or an operation fails. what: perhaps allgathers, of which the ranks copy blocks
    themselves ("blocking": in calls that return when they are over; "computing": or the agent for them)."""

    def __init__(self, dpu, *what, mpi=MPIS[0] if MPIS else None, ranks=2, block=65536, **settings):
        # pylint: disable=consider-using-with
        self.folder = tempfile.TemporaryDirectory(prefix="longshore-test-dpu-")
        self.ranks = ranks
        super().__init__(words(mpi, ranks, "steady", self.folder.name, block, *what, LONGSHORE_DPU=dpu.address,
                               **settings),
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def steps(self):
        """That all ranks have made."""
        try:
            made = (Path(self.folder.name) / "progress").read_bytes()
        except OSError:
            made = b""
        return min(struct.unpack(f"={self.ranks}Q", made.ljust(8 * self.ranks, b"\0")))


def setUpModule():
    """A job that is killed leaves its summary in the folder in which it was started: one of its own."""
    # pylint: disable=consider-using-with
    folder = tempfile.TemporaryDirectory(prefix="longshore-test-dpu-", ignore_cleanup_errors=True)
    unittest.addModuleCleanup(folder.cleanup)
    unittest.addModuleCleanup(os.chdir, Path.cwd())
    os.chdir(folder.name)


class Checks(unittest.TestCase):
    def check(self, done, verdict):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(verdict, done.stdout, done.stderr)
        said = re.search(r"longshore: (\d+) of \d+ collective calls offloaded, [\d.]+ MB.*\n(?:longshore:   .*\n)*longshore: MB moved: services ([\d.]+), "
                         r"waiting ranks ([\d.]+),", done.stderr)
        self.assertIsNotNone(said, done.stderr)
        self.assertGreater(int(said[1]), 0, done.stderr)
        return float(said[2]), float(said[3])

    def check_statistics(self, dpu, reach="dpu", mpi=None, ranks=2, **settings):
        """All collectives; what the first service process has counted, and what was said."""
        with tempfile.NamedTemporaryFile() as file:
            done = run(mpi or MPIS[0], ranks, "collectives", 65536, LONGSHORE_DPU=dpu.address, LONGSHORE_STATS=file.name,
                       **settings)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("collectives: ok", done.stdout)
            stats = json.loads(Path(file.name).read_text(encoding="utf-8"))
            self.assertEqual(stats["memory"]["reach"], reach)
            self.assertEqual(len(stats["services"]), int(settings.get("LONGSHORE_SERVICE_COUNT", 1)))
            self.assertGreater(stats["services"][0]["copies"], 0)
            self.assertEqual(stats["services"][0]["bytes_peer_copied"], 0)
            return stats["services"][0], done.stderr

    @contextlib.contextmanager
    def job(self, dpu, *what, **settings):
        """Collectives without end, of one process group."""
        job = Endless(dpu, *what, **settings)
        try:
            yield job
        finally:
            end(job)
            job.folder.cleanup()

    def wait_for(self, condition, what):
        """Returns what the condition gives. `what` is a text, or a function that makes one."""
        limit = time.monotonic() + LIMIT_S
        while not (result := condition()):
            if time.monotonic() > limit:
                self.fail(f"not within {LIMIT_S} s: {what() if callable(what) else what}")
            time.sleep(0.02)
        return result

    def wait_for_steps(self, job, more=2):
        """Until the job has made so many more steps, each of them right."""
        wanted = job.steps() + more
        self.wait_for(lambda: job.steps() >= wanted or job.poll() is not None, "the job does not go on")
        self.assertIsNone(job.poll(), job.stdout.read() if job.poll() is not None else "")

    def wait_for_stand_ins(self, dpu, job, count=2):
        """Until they are there, and carry collectives."""
        self.wait_for_steps(job)
        self.assertEqual(len(dpu.stand_ins()), count)


@unittest.skipUnless((BUILD / "lib/longshore-ucx.so").exists(), "built without UCX")
class TestEachMpi(Checks):
    def test_every_collective(self):
        with Service(*job_users(BUILD)) as dpu:
            for mpi in EACH_MPI:
                for bytes_each in (1024, 65536):
                    with self.subTest(mpi=mpi, bytes=bytes_each):
                        self.check(run(mpi, 4 if mpi == "openmpi" else 2, "collectives", bytes_each, LONGSHORE_DPU=dpu.address),
                                   "collectives: ok")

    def test_ranks_of_a_host_copy_what_has_come_to_it_once(self):
        """All ranks are on one host here, so that no block comes to it at all."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in EACH_MPI:
                with self.subTest(mpi=mpi), tempfile.NamedTemporaryFile() as file:
                    done = run(mpi, 4 if mpi == "openmpi" else 2, "once", 262144, 3, LONGSHORE_DPU=dpu.address,
                               LONGSHORE_STATS=file.name)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("once: ok", done.stdout)
                    stats = json.loads(Path(file.name).read_text(encoding="utf-8"))
                    self.assertGreater(stats["read_by_rank"], 3 * 5 * 262144)
                    # Those for which a rank without a core comes too late are moved for it.
                    self.assertLess(stats["services"][0]["bytes_to_host"], stats["read_by_rank"])

    def test_ranks_that_compute_for_long_have_their_blocks_copied_by_the_agent(self):
        """Nothing comes to the host, as all ranks are on it: so what the DPU moves is what it must not."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in EACH_MPI:
                with self.subTest(mpi=mpi), tempfile.NamedTemporaryFile() as file:
                    done = run(mpi, 4 if mpi == "openmpi" else 2, "once", 262144, 3, "late", LONGSHORE_DPU=dpu.address,
                               LONGSHORE_STATS=file.name, LONGSHORE_INTERNAL_AGENT_COPIES=1)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("once: ok", done.stdout)
                    stats = json.loads(Path(file.name).read_text(encoding="utf-8"))
                    self.assertGreater(stats["memory"]["copied_by_agents"], 262144)
                    self.assertGreater(stats["memory"]["blocks_copied_by_agents"], 1)
                    self.assertLess(10 * stats["services"][0]["bytes_to_host"], stats["memory"]["copied_by_agents"])

    def test_ranks_that_only_test_have_their_blocks_moved_by_the_dpu(self):
        with Service(*job_users(BUILD)) as dpu:
            for mpi in EACH_MPI:
                by_services, by_ranks = self.check(run(mpi, 2, "once", 262144, 10, "test", LONGSHORE_DPU=dpu.address), "once: ok")
                self.assertGreater(by_services, by_ranks)

    @unittest.skipUnless((BUILD / "bin/tddft_openmpi").exists(), "tddft is not built")
    def test_an_application_computes_the_same_bits(self):
        """What its ranks receive decides what they give in the next step."""
        with Service(*job_users(BUILD)) as dpu, tempfile.NamedTemporaryFile() as file:
            for mpi in EACH_MPI:
                found = []
                for settings in ({"LONGSHORE_OFFLOAD": "off"}, {"LONGSHORE_DPU": dpu.address, "LONGSHORE_STATS": file.name}):
                    with self.subTest(mpi=mpi, settings=settings):
                        ranks, grid = (4, "2x2") if mpi == "openmpi" else (2, "2x1")
                        done = run(mpi, ranks, f"bin/tddft_{mpi}", "--grid", grid, "--steps", 5, "--repeats", 1, **settings)
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        found += re.findall("checksum: (.*)", done.stdout)
                self.assertEqual(len(set(found)), 1)
                self.assertEqual(len(found), 2)
                calls = json.loads(Path(file.name).read_text(encoding="utf-8"))["collectives"]
                for call in ("MPI_Allgather", "MPI_Alltoall"):
                    self.assertGreaterEqual(calls[call]["algorithms"].get("direct", 0), 5, calls)


@unittest.skipUnless((BUILD / "lib/longshore-ucx.so").exists(), "built without UCX")
class TestDpu(Checks):
    def test_copies_that_were_handed_over_are_counted(self):
        """In calls that block every block of another rank is copied by the rank that wants it, and none needs a reader: all are on
        one host."""
        with Service(*job_users(BUILD)) as dpu:
            for ranks, block in ((2, 8192), (4, 1 << 20)):  # of one chunk, and of several
                with self.subTest(ranks=ranks, block=block), tempfile.NamedTemporaryFile() as file:
                    done = run(MPIS[0], ranks, "once", block, 2, "allgather", LONGSHORE_DPU=dpu.address, LONGSHORE_STATS=file.name)
                    self.assertIn("once: ok", done.stdout, done.stderr)
                    stats = json.loads(Path(file.name).read_text(encoding="utf-8"))
                    self.assertEqual(stats["memory"]["blocks_copied_by_ranks"], 2 * 3 * ranks * (ranks - 1))
                    self.assertEqual(stats["memory"]["blocks_copied_by_agents"], 0)
                    self.assertEqual(stats["late"], {})

    def test_ranks_that_may_not_copy_have_all_moved_by_the_dpu(self):
        with Service(*job_users(BUILD)) as dpu:
            _, by_ranks = self.check(run(MPIS[0], 4, "once", 65536, 2, LONGSHORE_DPU=dpu.address,
                                         LONGSHORE_WAIT_COOPERATIVE="off"), "once: ok")
            self.assertEqual(by_ranks, 0)

    def test_ranks_that_compute_for_long_have_their_blocks_moved_by_the_dpu(self):
        with Service(*job_users(BUILD)) as dpu:
            by_services, _ = self.check(run(MPIS[0], 4, "once", 262144, 2, "late", LONGSHORE_DPU=dpu.address,
                                            LONGSHORE_INTERNAL_AGENT_COPIES=0), "once: ok")
            self.assertGreater(by_services, 0)

    def test_random_programs(self):
        with Service(*job_users(BUILD)) as dpu:
            for seed, more in ((1, {}), (2, {"LONGSHORE_SERVICE_COUNT": 2}), (3, {"LONGSHORE_STAGING_BYTES": "256K"})):
                with self.subTest(seed=seed, **more):
                    self.check(run(MPIS[0], 4, "stress", seed, 100, LONGSHORE_DPU=dpu.address, **more), "stress: ok")

    def test_programs_with_buffers_of_every_kind(self):
        """In place, with gaps, on the stack, datatypes that are packed, persistent requests, freed communicators."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi, names in ((MPIS[0], ("in_place", "rooted", "datatypes", "persistent", "communicators", "waits")),
                               (MPIS[-1], ("in_place", "datatypes", "persistent") if WHOLE else ("in_place",))):
                for name in names:
                    with self.subTest(mpi=mpi, program=name):
                        self.check(run(mpi, 2, name, LONGSHORE_DPU=dpu.address), f"{name}: ok")

    def test_any_number_of_calls_can_be_open(self):
        """More than a stand-in takes of a rank (kFarPostsMax in dpu/session/session.h)."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in MPIS:
                with self.subTest(mpi=mpi):
                    self.check(run(mpi, 2, "many_open", 6_000, LONGSHORE_DPU=dpu.address), "many_open: ok")

    def test_an_algorithm_that_a_dpu_cannot_do_is_said_and_not_counted(self):
        with Service(*job_users(BUILD)) as dpu, tempfile.NamedTemporaryFile() as file:
            done = run(MPIS[0], 2, "collectives", 65536, LONGSHORE_DPU=dpu.address, LONGSHORE_STATS=file.name,
                       LONGSHORE_BCAST_ALGORITHM="staged-hierarchical", LONGSHORE_ALLGATHER_ALGORITHM="staged-hierarchical")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("collectives: ok", done.stdout)
            self.assertEqual(done.stderr.count("staged-hierarchical cannot be done where service processes are on DPUs"), 1, done.stderr)
            calls = json.loads(Path(file.name).read_text(encoding="utf-8"))["collectives"]
            for name in ("MPI_Bcast", "MPI_Allgather"):
                self.assertNotIn("staged-hierarchical", calls[name]["algorithms"])
                self.assertGreater(calls[name]["algorithms"]["staged-flat"], 0)

    def test_there_is_a_service_process_for_every_eight_ranks(self):
        with Service(*job_users(BUILD)) as dpu, tempfile.NamedTemporaryFile() as file:
            for ranks, services in ((9, 2), (2, 1)):
                done = run(MPIS[0], ranks, "collectives", 16, LONGSHORE_DPU=dpu.address, LONGSHORE_STATS=file.name)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(json.loads(Path(file.name).read_text(encoding="utf-8"))["services"]), services)

    def test_the_statistics_say_how_memory_was_reached(self):
        with Service(*job_users(BUILD)) as dpu:
            self.check_statistics(dpu)

    def test_a_dpu_that_is_not_there_leaves_the_job_to_plain_mpi(self):
        with Service(*job_users(BUILD)) as dpu:
            gone = dpu.address
        for address, why in ((gone, "cannot be reached"), ("no.such.host.invalid", "cannot be reached"),
                             ("node7=127.0.0.1", "LONGSHORE_DPU")):
            with self.subTest(address=address):
                done = run(MPIS[0], 2, "collectives", 4096, LONGSHORE_DPU=address)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("collectives: ok", done.stdout)
                said = [line for line in done.stderr.split("\n") if "plain MPI" in line]
                self.assertEqual(len(said), 1, done.stderr)
                self.assertIn(why, said[0])

    def users_of(self, pids):
        return [int(re.search(r"^Uid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)[1])
                for pid in pids]

    @unittest.skipUnless(job_users(BUILD), "not root, or the build folder is closed to others: one job at a time")
    def test_all_processes_of_a_job_have_its_user(self):
        with Service(*job_users(BUILD)) as dpu, self.job(dpu) as job:
            self.wait_for_stand_ins(dpu, job)
            started = [*dpu.stand_ins(), *service_processes(dpu)]
            self.assertEqual(len(started), 3)
            users = self.users_of(started)
            self.assertEqual(len(set(users)), 1, users)
            self.assertIn(users[0], range(70000, 71000))
            self.assertIsNone(job.poll())

    @unittest.skipUnless(job_users(BUILD) and shutil.which("setpriv"), "not root, the build folder is closed to others, or no setpriv")
    def test_the_capabilities_of_its_unit_are_enough(self):
        unit = Path(__file__).parents[2] / "packaging/longshored.service"
        kept = re.search(r"^CapabilityBoundingSet=(.+)$", unit.read_text(encoding="ascii"), re.MULTILINE)[1].split()
        bounds = ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in kept)])
        with tempfile.TemporaryDirectory(prefix="longshore-test-dpu-") as folder:
            script = Path(folder) / "longshored"
            script.write_text(f"#!/bin/sh\nexec setpriv --no-new-privs --inh-caps=-all --bounding-set={bounds} "
                              f"{BUILD}/bin/longshored \"$@\"\n", encoding="ascii")
            script.chmod(0o755)
            with Service(*job_users(BUILD), longshored=script) as dpu:
                self.check(run(MPIS[0], 2, "collectives", 4096, LONGSHORE_DPU=dpu.address), "collectives: ok")
                self.assertNotIn("failed", dpu.said())
                # It ends the others of a job one of whose stand-ins was killed.
                with self.job(dpu) as job:
                    self.wait_for_stand_ins(dpu, job)
                    os.kill(dpu.stand_ins()[0], signal.SIGKILL)
                    self.ends_in_an_error(job)
                    self.wait_for(lambda: dpu.said().count("closed") == 2, dpu.said)
                self.assertIn("2 of their stand-ins failed", dpu.said())

    @unittest.skipUnless(job_users(BUILD), "not root, or the build folder is closed to others: one job at a time")
    def test_two_jobs_at_once_and_the_service_stays(self):
        with Service(*job_users(BUILD)) as dpu:
            jobs = [subprocess.Popen(words(MPIS[0], 2, "stress", seed, 100, LONGSHORE_DPU=dpu.address), text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) for seed in (5, 6)]
            for job in jobs:
                out, err = job.communicate(timeout=LIMIT_S)
                self.check(subprocess.CompletedProcess(job.args, job.returncode, out, err), "stress: ok")
            self.assertIsNone(dpu.process.poll())
            # What belonged to the jobs has gone with them.
            self.wait_for(lambda: not dpu.stand_ins(), "the end of the stand-ins")
            self.assertEqual(dpu.said().count("opened"), 2)
            self.wait_for(lambda: dpu.said().count("closed") == 2, dpu.said)
            self.assertNotIn("failed", dpu.said())

    def ends_in_an_error(self, job):
        try:
            said, _ = job.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.fail("the job hangs")
        self.assertNotEqual(job.returncode, 0)
        return said  # mpirun does not always hand on the last of it

    def test_a_child_that_outlives_its_rank_does_not_keep_the_stand_in(self):
        children = tempfile.TemporaryDirectory(prefix="longshore-test-dpu-")  # pylint: disable=consider-using-with
        self.addCleanup(children.cleanup)  # they end when it is gone
        script = ("from mpi4py import MPI; import numpy, os, time\n"
                  "a = numpy.zeros(1 << 16, dtype=numpy.int8); b = numpy.zeros_like(a); MPI.COMM_WORLD.Alltoall(a, b)\n"
                  "if os.fork() == 0:\n    null = os.open('/dev/null', os.O_RDWR)\n    for fd in range(3): os.dup2(null, fd)\n"
                  f"    os.setsid(); open(f'{children.name}/{{os.getpid()}}', 'w').close()\n"
                  f"    while os.path.exists({children.name!r}): time.sleep(0.05)\n"
                  "    os._exit(0)\n"
                  "MPI.COMM_WORLD.Alltoall(a, b); MPI.Finalize(); print('over', flush=True)")
        with Service(*job_users(BUILD)) as dpu:
            chosen = words(MPIS[0], 2, "late", LONGSHORE_DPU=dpu.address)[:-1]
            done = subprocess.run([*chosen, "/usr/bin/python3", "-c", script], capture_output=True, text=True, timeout=LIMIT_S,
                                  check=False)
            self.check(done, "over")
            self.wait_for(lambda: not dpu.stand_ins(), "the end of the stand-ins")
            left = self.wait_for(lambda: len(os.listdir(children.name)) == 2 and os.listdir(children.name), "the children")
            self.assertEqual([is_alive(int(pid)) for pid in left], [True, True])

    def test_a_stand_in_that_is_lost_ends_the_job_in_an_mpi_error(self):
        for what in ((), ("allgather",)):
            with self.subTest(what=what), Service(*job_users(BUILD)) as dpu, self.job(dpu, *what) as job:
                self.wait_for_stand_ins(dpu, job)
                os.kill(dpu.stand_ins()[0], signal.SIGKILL)
                self.assertRegex(self.ends_in_an_error(job), "has closed the connection|MPI_ERR_OTHER")

    def test_a_service_process_that_is_lost_is_started_again(self):
        with Service(*job_users(BUILD)) as dpu, self.job(dpu, "allgather") as job:
            self.wait_for_stand_ins(dpu, job)
            killed = set()
            for _ in range(3):
                started = self.wait_for(lambda: set(service_processes(dpu)) - killed, "it is not started again")
                self.assertEqual(len(started), 1)
                os.kill(*started, signal.SIGKILL)
                killed |= started
                self.wait_for_steps(job)

    def test_an_agent_that_is_lost_ends_the_job_in_an_mpi_error(self):
        with Service(*job_users(BUILD)) as dpu, self.job(dpu) as job:
            self.wait_for_stand_ins(dpu, job)
            started = agents(job.pid)
            self.assertEqual(len(started), 1)
            os.kill(started[0], signal.SIGKILL)
            self.ends_in_an_error(job)

    def test_ranks_of_a_host_need_no_agent_for_what_they_copy(self):
        # In calls that return when all is copied. Else what a rank without a core copies too late is moved for it, and
        # that needs the agent.
        with Service(*job_users(BUILD)) as dpu, self.job(dpu, "blocking") as job:
            self.wait_for_stand_ins(dpu, job)
            os.kill(*agents(job.pid), signal.SIGKILL)
            self.wait_for_steps(job, 5)

    def test_a_job_goes_on_when_the_standing_service_ends(self):
        with Service(*job_users(BUILD)) as dpu, self.job(dpu) as job:
            self.wait_for_stand_ins(dpu, job)
            dpu.process.terminate()
            dpu.process.wait()
            self.wait_for_steps(job, 5)

    def test_ranks_that_are_killed_leave_nothing(self):
        with Service(*job_users(BUILD)) as dpu, self.job(dpu) as job:
            self.wait_for_stand_ins(dpu, job)
            started = service_processes(dpu)
            self.assertTrue(started)
            end(job)
            self.wait_for(lambda: not dpu.stand_ins() and not any(map(is_alive, started)), "the end of what belonged to them")


def may_map_files():
    try:
        return any(os.open(f"/proc/self/map_files/{name}", os.O_RDONLY) for name in os.listdir("/proc/self/map_files")[:1])
    except OSError:
        return False


@unittest.skipUnless((BUILD / "tests/dpu/ucx-exports.so").exists(), "built without a UCX that exports memory")
@unittest.skipUnless(may_map_files(), "test equipment maps what others have, which this user may not")
class TestAliases(Checks):
    """Cards that bring bytes from host to host by themselves: test equipment takes their place (exported_memory.cc)."""

    @contextlib.contextmanager
    def service(self, part="ucx-exports", there=None):
        """Everything takes that part, and service processes perhaps another."""
        before = os.environ.get("LONGSHORE_INTERNAL_NETWORK")
        def take(name):
            os.environ["LONGSHORE_INTERNAL_NETWORK"] = str(BUILD / f"tests/dpu/{name}.so")
        try:
            take(there or part)
            with Service() as dpu:
                take(part)
                yield dpu
        finally:
            del os.environ["LONGSHORE_INTERNAL_NETWORK"]
            if before is not None:
                os.environ["LONGSHORE_INTERNAL_NETWORK"] = before

    def test_every_collective_goes_from_host_to_host(self):
        with self.service() as dpu:
            for mpi in EACH_MPI:
                for more in ({}, {"LONGSHORE_MEMORY_MODE": "direct"}, {"LONGSHORE_SERVICE_COUNT": 2}) if WHOLE or mpi == MPIS[0] \
                        else ({},):
                    with self.subTest(mpi=mpi, **more):
                        service, said = self.check_statistics(dpu, "dpu-alias", mpi, 4 if mpi == "openmpi" else 2, **more)
                        self.assertEqual(service["bytes_staged"], 0)
                        self.assertEqual(service["bytes_bounced"], 0)
                        self.assertNotIn("alias", said)

    def test_random_programs_and_buffers_of_every_kind(self):
        with self.service() as dpu:
            for seed in (1, 2) if WHOLE else (1,):
                with self.subTest(seed=seed):
                    self.check(run(MPIS[0], 4, "stress", seed, 100, LONGSHORE_DPU=dpu.address), "stress: ok")
            names = ("in_place", "datatypes", "communicators", "rooted", "persistent")
            for name in names if WHOLE else names[:3]:
                with self.subTest(program=name):
                    self.check(run(MPIS[0], 2, name, LONGSHORE_DPU=dpu.address), f"{name}: ok")

    def test_where_no_alias_can_be_made_all_is_staged(self):
        for there, why in (("ucx-imports-none", "UCX 1.*makes none"), ("ucx-imports-abort", "UCX does not come back")):
            with self.subTest(there=there), self.service(there=there) as dpu:
                service, said = self.check_statistics(dpu, LONGSHORE_LOG="info")
                self.assertGreater(service["bytes_staged"], 0)
                self.assertEqual(service["bytes_bounced"], 0)
                self.assertRegex(said, f"no alias on its DPU: {why}")

    def test_staging_that_is_asked_for_is_had(self):
        with self.service() as dpu:
            service, said = self.check_statistics(dpu, LONGSHORE_MEMORY_MODE="staging", LONGSHORE_LOG="info")
            self.assertGreater(service["bytes_staged"], 0)
            self.assertNotIn("alias", said)

    def test_a_host_that_cannot_export_says_why(self):
        before = os.environ.get("LONGSHORE_INTERNAL_NETWORK")
        with Service() as dpu:
            self.assertIsNone(before)
            _, said = self.check_statistics(dpu, LONGSHORE_LOG="info")
            self.assertRegex(said, r"no alias on its DPU: .*UCX \d.* exports no memory")

    def test_aliases_that_are_asked_for_in_vain_leave_the_job_to_plain_mpi(self):
        with self.service(there="ucx-imports-none") as dpu:
            done = run(MPIS[0], 2, "late", LONGSHORE_DPU=dpu.address, LONGSHORE_MEMORY_MODE="direct")
            self.assertEqual(done.returncode, 0, done.stderr)
            said = [line for line in done.stderr.split("\n") if "plain MPI" in line]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertIn("LONGSHORE_MEMORY_MODE=direct: memory of node 0 has no alias on its DPU", said[0])

    def test_pieces_without_an_alias_come_through_a_service_process(self):
        """What was tried could be exported and taken; what ranks have cannot."""
        for parts in ({"there": "ucx-imports-probe"}, {"part": "ucx-exports-probe", "there": "ucx-exports"}):
            with self.subTest(**parts), self.service(**parts) as dpu:
                service, said = self.check_statistics(dpu, "dpu-alias")
                self.assertEqual(service["bytes_staged"], 0)
                self.assertGreater(service["bytes_bounced"], 0)
                self.assertEqual(said.count("has no alias"), 1, said)

    def test_a_service_process_that_is_lost_is_started_again(self):
        with self.service() as dpu, self.job(dpu) as job:
            self.wait_for_stand_ins(dpu, job)
            killed = service_processes(dpu)
            self.assertEqual(len(killed), 1)
            os.kill(killed[0], signal.SIGKILL)
            self.wait_for(lambda: len(set(service_processes(dpu)) - set(killed)) == 1, dpu.said)
            self.wait_for_steps(job)


def end(job):
    """All of it; mpirun's ranks have process groups of their own."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if folder.name.isdigit() and session_of(int(folder.name)) == job.pid and int(folder.name) not in agents(job.pid):
                os.kill(int(folder.name), signal.SIGKILL)
    if not job.stdout.closed:
        job.communicate()


def is_alive(pid):
    try:
        return not re.search(r"^State:\s+Z", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return False


def longshoreds(role):
    """{pid: the whole status} of longshored processes in a role."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            line = (folder / "cmdline").read_bytes().split(b"\0")
            if line[0] == b"longshored:" and line[1] == role:
                found[int(folder.name)] = (folder / "status").read_text(encoding="ascii")
        except (OSError, IndexError):
            continue
    return found


def session_of(pid):
    """None when it has ended: processes of other tests come and go while this one looks through /proc."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[3])
    except OSError:
        return None


def service_processes(dpu):
    """A supervisor stays in the session of the stand-in that started it, and so do its service processes."""
    sessions = {session_of(pid) for pid in dpu.stand_ins()} - {None}
    return [pid for pid in longshoreds(b"sp") if session_of(pid) in sessions]


def agents(session):
    return [pid for pid in longshoreds(b"agent") if session_of(pid) == session]
