"""Jobs that a DPU carries, by reliable connections. Host and DPU are the same guest, so that what crosses from one to the
other does so on one device, in loopback; what a rank's memory is reached by is the device alone all the same.
"""

import contextlib
import json
import os
import re
import shutil
import time
from pathlib import Path

from guest_test import BUILD, JOB_BY_RC, LIMIT_S, PATH_MTU, GuestTest

MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "self,vader",
          "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"]
ROOTED = {f"LONGSHORE_{name}_ALGORITHM": "direct" for name in ("GATHER", "GATHERV", "SCATTER", "SCATTERV")}
KIB = 1 << 10
WHOLE = bool(os.environ.get("LONGSHORE_INTERNAL_TEST_ALL"))  # else the jobs that differ most
SHARED = re.compile("allgather|bcast")  # in names of calls, in lower case
QUIET_S = 1.5  # nothing is sent for so long: nothing is under way


def text_of(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


class TestDpu(GuestTest):
    def setUp(self):
        if not (BUILD / "tests/mpi/openmpi/mpi_stopped_openmpi").exists() or not (BUILD / "lib/longshore-ucx.so").exists():
            self.skipTest("no Open MPI, or no UCX")

    @contextlib.contextmanager
    def service(self, **settings):
        """A standing service in the guest: its address."""
        machine = self.machine()
        words = f"echo pid $$; exec {BUILD}/bin/longshored listen --address 127.0.0.1 --port 0 2>&1"
        running = machine.start(["sh", "-c", words], 3 * LIMIT_S, environment=JOB_BY_RC | settings)
        log = machine.folder / str(running.number) / "stdout"
        self.wait_until(lambda: "listening at" in text_of(log), "the service listens")
        try:
            yield "127.0.0.1:" + re.search(r"listening at \S*:(\d+)", text_of(log))[1]
        finally:
            self.run_there(["kill", re.search(r"pid (\d+)", text_of(log))[1]])
            self.check(running)

    def wait_until(self, condition, what, limit_s=LIMIT_S):
        end = time.monotonic() + limit_s
        while not condition():
            self.assertLess(time.monotonic(), end, f"not in time: {what}")
            time.sleep(0.1)

    def start(self, ranks, dpu, *program, **settings):
        name, *arguments = program
        chosen = JOB_BY_RC | ROOTED | {"LONGSHORE_DPU": dpu, "LD_PRELOAD": BUILD / "lib/liblongshore.so"} | settings
        return self.machine().start([*MPIRUN, "-np", ranks, "env", *(f"{name}={value}" for name, value in chosen.items()),
                                     BUILD / f"tests/mpi/openmpi/mpi_{name}_openmpi", *arguments], LIMIT_S)

    def sent(self):
        return self.counters(self.machine())["sent_pkts"]

    # What ranks do, in the programs of tests/mpi. Every byte is verified there.

    def run_program(self, ranks, dpu, *program, **settings):
        """The job's statistics. What its ranks' memory was reached by is the device."""
        stats, before = self.machine().results / "stats.json", self.counters(self.machine())
        stats.unlink(missing_ok=True)
        done = self.check(self.start(ranks, dpu, *program, LONGSHORE_STATS=stats, **settings))
        self.assertIn(f"{program[0]}: ok", done.stdout)
        sent, sends = self.packets(self.machine(), before)
        told = json.loads(stats.read_text(encoding="utf-8"))
        self.assertEqual(told["memory"]["reach"], "dpu")
        moved = sum(counts["bytes_by_service"] for counts in told["collectives"].values())
        self.assertGreater(moved, 0)
        # Ranks copy nothing but what they share (decision 40).
        copied = {name for name, counts in told["collectives"].items() if counts["bytes_by_rank"] > 0}
        self.assertEqual({name for name in copied if not SHARED.search(name.lower())}, set())
        # Each byte is fetched from a rank's memory, and then written to another's.
        self.assertGreater(sent * PATH_MTU, 2 * moved)
        self.assertGreater(sent, 1.2 * sends)
        return told

    def test_programs(self):
        with self.service() as dpu:
            jobs = ((2, ("collectives", 65536), {}), (4, ("stress", 1, 20), {}),
                    (2, ("stress", 2, 20), {"LONGSHORE_SERVICE_COUNT": 2}),
                    (2, ("stress", 3, 20), {"LONGSHORE_STAGING_BYTES": "256K"}))
            for ranks, program, settings in jobs if WHOLE else jobs[:2]:
                with self.subTest(ranks=ranks, program=program, **settings):
                    self.run_program(ranks, dpu, *program, **settings)

    def test_memory_that_is_given_back_and_taken_anew(self):
        """What is registered stays what the program's addresses mean."""
        with self.service() as dpu:
            self.run_program(2, dpu, "memory", 1, 60)

    # Who is stopped does not have to do anything.

    def pids(self, role):
        return self.run_there(["pgrep", "-f", f"^longshored: {role}"]).stdout.split()

    def signal(self, name, pids):
        self.assertTrue(pids)
        self.run_there(["kill", f"-{name}", *pids])

    def states(self, pids):
        return "".join(self.run_there(["ps", "-o", "state=", *(f"-p{pid}" for pid in pids)]).stdout.split())

    def wait_for_quiet(self, sent_least):
        """Until the device has sent so much at least, and sends nothing any more."""
        last, since, end = -1, time.monotonic(), time.monotonic() + LIMIT_S
        while last < sent_least or time.monotonic() - since < QUIET_S:
            self.assertLess(time.monotonic(), end, f"{last} packets sent; at least {sent_least} should have been")
            if (now := self.sent()) != last:
                last, since = now, time.monotonic()
            time.sleep(0.1)

    def test_ranks_and_agent_are_stopped_while_their_memory_is_read_and_written(self):
        """Service processes are held until the ranks have posted and are stopped, and so is the agent: then they move it
        all. The ranks go on, and find it complete; the agent is stopped still, through ten rounds more."""
        ranks, block, rounds = 2, 256 * KIB, 10
        folder = self.machine().results / "stopped"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

        def all_have(name):
            return all((folder / f"{name}.{rank}").exists() for rank in range(ranks))

        with self.service() as dpu:
            job = self.start(ranks, dpu, "stopped", folder, block, rounds)
            self.wait_until(lambda: all_have("pid"), "the first round")
            ranks_pids = [text_of(folder / f"pid.{rank}") for rank in range(ranks)]
            agent, services = self.pids("agent"), self.pids("sp")
            self.signal("STOP", services)
            (folder / "post").touch()
            self.wait_until(lambda: all_have("posted"), "it is posted")
            self.signal("STOP", [*ranks_pids, *agent])
            before = self.sent()
            self.signal("CONT", services)
            crossing = 2 * 2 * block * ranks * (ranks - 1)  # two collectives, each block out of a rank and into another
            self.wait_for_quiet(before + crossing // PATH_MTU)
            self.assertEqual(self.states([*ranks_pids, *agent]), "T" * (ranks + 1))
            (folder / "look").touch()
            self.signal("CONT", ranks_pids)
            self.wait_until(lambda: all_have("seen"), "the ranks have looked")
            self.assertEqual([text_of(folder / f"seen.{rank}") for rank in range(ranks)], ["complete"] * ranks)
            before = self.sent()
            self.wait_until(lambda: all_have("done"), "ten rounds more")
            self.assertGreater(self.sent() - before, rounds * crossing // PATH_MTU // 2)
            self.assertEqual(self.states(agent), "T")
            self.signal("CONT", agent)
            (folder / "end").touch()
            self.assertIn("stopped: ok", self.check(job).stdout)

    def test_an_agent_that_is_killed_ends_the_job_in_an_mpi_error(self):
        """Its memory's registration goes with it: the device refuses what is asked for, and nobody waits for it."""
        with self.service() as dpu:
            before = self.sent()
            job = self.start(2, dpu, "stress", 1, 1_000_000, LONGSHORE_LIMIT_S=10)
            self.wait_until(lambda: self.sent() > before + 200, "its memory is read and written")
            self.signal("KILL", self.pids("agent"))
            killed = time.monotonic()
            done = job.wait()
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stdout + done.stderr, "MPI_ERR_OTHER|a collective cannot be finished")
            self.assertLess(time.monotonic() - killed, 60, "seconds, with a limit of 10")
