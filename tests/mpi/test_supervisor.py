"""Supervisors and ranks that are stopped while communicators come and go: all calls are right, those without a group
are the MPI's, and once the process goes on groups are offloaded again. LONGSHORE_INTERNAL_TEST_STOPS: how often each is
stopped (default 1; 'make test-stress': 20); LONGSHORE_INTERNAL_TEST_SEED: the seed of whom and how long."""

import json
import os
import random
import re
import signal
import struct
import time
from pathlib import Path

import job
from processes import is_stopped, stop

STOPS = int(os.environ.get("LONGSHORE_INTERNAL_TEST_STOPS", "1"))
SEED = int(os.environ.get("LONGSHORE_INTERNAL_TEST_SEED", "1"))
LIMIT_S = 5  # LONGSHORE_LIMIT_S, for which ranks wait for an answer
CALLS, CALLS_APART = 2, 14  # of a round of regroup.cc, by each rank


class Regroup(job.Job):
    """tests/mpi/regroup.cc"""

    def __init__(self, test, ranks, **more):
        self.ranks = ranks
        self.stats = test.folder / "stats.json"
        for name in ("progress", "progress.apart", "stop"):
            (test.folder / name).unlink(missing_ok=True)
        super().__init__(test, ranks, [test.program("regroup"), test.folder],
                         LONGSHORE_LIMIT_S=LIMIT_S, LONGSHORE_LOG="info", LONGSHORE_STATS=self.stats, **more)

    def made(self, name):
        """By each rank, in a file of progress."""
        try:
            made = (self.test.folder / name).read_bytes()
        except OSError:
            made = b""
        return struct.unpack(f"={self.ranks}Q", made.ljust(8 * self.ranks, b"\0"))

    def rounds(self):
        """That all ranks have made."""
        return min(self.made("progress"))

    def apart(self, ranks):
        """That each of these ranks has made in communicators of some ranks."""
        made = self.made("progress.apart")
        return min(made[rank] for rank in ranks)

    def wait_for_rounds(self, more, ranks=None):
        """Of all ranks, or those that these ranks make apart."""
        made = self.rounds if ranks is None else lambda: self.apart(ranks)
        wanted = made() + more
        self.test.wait_for(lambda: made() >= wanted or self.process.poll() is not None,
                           lambda: f"{more} more rounds of ranks {ranks or 'all'}\n{self.describe()}")
        self.test.assertIsNone(self.process.poll(), self.describe())

    def go_apart(self, victims):
        """Returns when these ranks make rounds among themselves, and so do the others."""
        letters = self.test.folder / "apart.new"
        letters.write_text("".join("ba"[rank in victims] for rank in range(self.ranks)), encoding="utf-8")
        before = self.made("progress.apart")
        letters.rename(self.test.folder / "apart")
        self.test.wait_for(lambda: all(now > old for now, old in zip(self.made("progress.apart"), before)),
                           self.describe)

    def come_together(self):
        (self.test.folder / "apart").unlink()

    def finish(self):
        """What was offloaded, and what had no group, in calls of all ranks."""
        (self.test.folder / "stop").touch()
        self.test.assertEqual(self.wait(job.BUSY_S), 0, self.describe())
        self.test.assertIn("regroup: ok", self.output)
        calls = json.loads(self.stats.read_text(encoding="utf-8"))["collectives"]
        calls = [calls["MPI_Iallgather"], calls["MPI_Alltoall"]]
        offloaded = sum(one["offloaded"] for one in calls)
        no_group = sum(one["reasons"].get("no group", 0) for one in calls)
        made = CALLS * sum(self.made("progress")) + CALLS_APART * sum(self.made("progress.apart"))
        self.test.assertEqual(offloaded + no_group, made, calls)
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

    def test_for_a_while(self):
        draw = random.Random(SEED)
        self.assertEqual(self.check(0, lambda running: time.sleep(draw.uniform(0.1, 1))), 0)


# What a rank or a supervisor says when it takes another process for lost, or does without groups.
TAKEN_FOR_LOST = re.compile(r"lost|gone|in time|plain MPI|no group can be made|cannot be finished")
LEFT_OUT = re.compile(r"(\d+) more lines came while this rank read none, and are left out")
RANKS = 4
KILLS = 250  # a socket takes 167 of the lines that are told of them, and the supervisor keeps 64


class RankStopped(job.JobTest):
    """A rank is stopped at any moment, in the middle of a group that is made or of a call perhaps, with calls open that
    another one waits for. Ranks that do not need it go on, all of their calls offloaded; nobody takes it for lost."""

    def rank_pids(self):
        """By rank. A rank writes no file with its pid here: its launcher gives it its number."""
        found = {}
        for pid in self.ranks("regroup"):
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            environment = dict(word.partition(b"=")[::2] for word in words)
            found[int(environment.get(b"PMIX_RANK") or environment[b"PMI_RANK"])] = pid
        self.assertEqual(sorted(found), list(range(RANKS)))
        return found

    def stop_one(self, running, draw, meanwhile, victim=None):
        """meanwhile: called with the ranks that do not need the one that is stopped."""
        running.wait_for_rounds(5)
        pids, services = self.rank_pids(), sorted(self.services() + self.services(b"supervisor"))
        victim = victim if victim is not None else draw.randrange(RANKS)
        waiting, *others = draw.sample([rank for rank in range(RANKS) if rank != victim], RANKS - 1)
        running.go_apart((victim, waiting))
        time.sleep(draw.uniform(0, 0.02))
        stop(pids[victim])
        before = running.apart([waiting])
        meanwhile(running, others)
        # It may have been about to end a round.
        self.assertLessEqual(running.apart([waiting]), before + 1, "nobody needed the one that is stopped")
        self.assertTrue(is_stopped(pids[victim]))
        os.kill(pids[victim], signal.SIGCONT)
        running.wait_for_rounds(5, (victim, waiting))
        running.come_together()
        running.wait_for_rounds(5)
        return services

    def longer_than_the_limit(self, running, others):
        end = time.monotonic() + LIMIT_S + 1
        running.wait_for_rounds(20, others)
        while time.monotonic() < end:
            running.wait_for_rounds(1, others)
        running.wait_for_rounds(2, others)

    def test_for_longer_than_others_wait(self):
        for nodes, network in ((0, {}), (2, {}), (2, self.by_tcp())):
            with self.subTest(nodes=nodes, network=network):
                running = Regroup(self, RANKS, nodes=nodes, **network)
                draw = random.Random(SEED)
                for _ in range(STOPS):
                    services = self.stop_one(running, draw, self.longer_than_the_limit)
                    now = sorted(self.services() + self.services(b"supervisor"))
                    self.assertEqual(now, services, "some were started again")
                offloaded, no_group = running.finish()
                self.assertEqual(no_group, 0, running.describe())
                self.assertGreaterEqual(offloaded, CALLS_APART * 2 * 22 * STOPS)
                self.assertNotRegex(running.output, TAKEN_FOR_LOST)
                self.check_nothing_left()

    def test_that_more_is_told_than_its_socket_takes(self):
        """Service processes end again and again, and the first rank of the node, which is stopped, is to say so."""
        for stop_number in range(-(-STOPS // 5)):  # every fifth, as each takes longer
            self.fill_the_socket(random.Random(SEED + stop_number))

    def fill_the_socket(self, draw):
        running = Regroup(self, RANKS, LONGSHORE_SERVICE_RESTARTS_MAX=1000)

        def kill_services(running, others):
            (supervisor,) = self.services(b"supervisor")
            children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
            killed = set()
            for _ in range(KILLS):
                started = self.wait_for(lambda: set(map(int, children.read_text().split())) - killed, running.describe)
                killed |= started
                os.kill(min(started), signal.SIGKILL)
            running.wait_for_rounds(20, others)

        self.stop_one(running, draw, kill_services, victim=0)
        self.wait_for(lambda: self.told_of(running) == KILLS,
                      lambda: f"told of {self.told_of(running)} ends\n{running.describe()}")
        _, no_group = running.finish()
        self.assertEqual(no_group, 0, running.describe())
        # Its socket was full, and so were the lines that the supervisor keeps.
        self.assertRegex(running.output, LEFT_OUT)
        self.check_nothing_left()

    def told_of(self, running):
        """How many ends of service processes the user has read of, those included whose lines were left out."""
        said = running.output.count("was lost (signal 9); it is started again")
        return said + sum(map(int, LEFT_OUT.findall(running.output)))
