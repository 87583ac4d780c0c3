"""Supervisors that are stopped while communicators come and go: all calls are right, those without a group are the MPI's, and
once the supervisor goes on groups are offloaded again. LONGSHORE_INTERNAL_TEST_STOPS: how often each is stopped (default 1;
'make test-stress': 20); LONGSHORE_INTERNAL_TEST_SEED: the seed of how long."""

import json
import os
import random
import signal
import struct
import time

import job
from processes import stop

STOPS = int(os.environ.get("LONGSHORE_INTERNAL_TEST_STOPS", "1"))
SEED = int(os.environ.get("LONGSHORE_INTERNAL_TEST_SEED", "1"))
LIMIT_S = 5  # LONGSHORE_LIMIT_S, for which ranks wait for an answer
CALLS = 2  # of a round of regroup.cc, by each rank


class Regroup(job.Job):
    def __init__(self, test, ranks, **more):
        self.ranks = ranks
        self.stats = test.folder / "stats.json"
        super().__init__(test, ranks, [test.program("regroup"), test.folder], LONGSHORE_LIMIT_S=LIMIT_S, LONGSHORE_LOG="info",
                         LONGSHORE_STATS=self.stats, **more)

    def rounds(self):
        """That all ranks have made."""
        try:
            made = (self.test.folder / "progress").read_bytes()
        except OSError:
            made = b""
        return min(struct.unpack(f"={self.ranks}Q", made.ljust(8 * self.ranks, b"\0")))

    def wait_for_rounds(self, more):
        wanted = self.rounds() + more
        self.test.wait_for(lambda: self.rounds() >= wanted or self.process.poll() is not None,
                           lambda: f"{more} more rounds\n{self.describe()}")
        self.test.assertIsNone(self.process.poll(), self.describe())

    def finish(self):
        """What was offloaded, and what had no group, in calls of all ranks."""
        rounds = self.rounds()
        (self.test.folder / "stop").touch()
        self.test.assertEqual(self.wait(job.BUSY_S), 0, self.describe())
        self.test.assertIn("regroup: ok", self.output)
        calls = json.loads(self.stats.read_text(encoding="utf-8"))["collectives"]
        calls = [calls["MPI_Iallgather"], calls["MPI_Alltoall"]]
        offloaded, no_group = sum(one["offloaded"] for one in calls), sum(one["reasons"].get("no group", 0) for one in calls)
        self.test.assertGreaterEqual(offloaded + no_group, CALLS * self.ranks * rounds)
        self.test.assertEqual(offloaded + no_group, sum(one["calls"] for one in calls), calls)
        return offloaded, no_group


class Stopped(job.JobTest):
    def check(self, nodes, how_long):
        """how_long: waits until the supervisor may go on."""
        running = Regroup(self, 4, nodes=nodes)
        draw = random.Random(SEED)
        stopped = 0  # rounds that were made while it was
        for _ in range(STOPS):
            running.wait_for_rounds(10)
            self.assertEqual(len(self.services(b"supervisor")), max(nodes, 1))
            victim = draw.choice(self.services(b"supervisor"))
            before = running.rounds()
            stop(victim)
            how_long(running)
            after = running.rounds()
            os.kill(victim, signal.SIGCONT)
            running.wait_for_rounds(20)
            stopped += after - before
        offloaded, no_group = running.finish()
        # The round in which it is stopped, and that in which it goes on.
        self.assertLessEqual(no_group, CALLS * running.ranks * (stopped + 2 * STOPS))
        self.assertGreaterEqual(offloaded, CALLS * running.ranks * 25 * STOPS, running.describe())
        self.check_nothing_left()
        return no_group

    def test_for_longer_than_ranks_wait(self):
        for nodes in (0, 2):
            with self.subTest(nodes=nodes):
                no_group = self.check(nodes, lambda running: running.wait_for_rounds(2))
                self.assertGreater(no_group, 0)
                (self.folder / "stop").unlink()
                (self.folder / "progress").unlink()

    def test_for_a_while(self):
        draw = random.Random(SEED)
        self.assertEqual(self.check(0, lambda running: time.sleep(draw.uniform(0.1, 1))), 0)
