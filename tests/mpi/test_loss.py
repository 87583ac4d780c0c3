"""kill -9 at seeded moments: of a service process, of a rank, of mpirun; service processes that are stopped, or killed
until none is started again. LONGSHORE_INTERNAL_TEST_MOMENTS: how many moments for the service processes (default 3; 'make test-kill'
tries 200), LONGSHORE_INTERNAL_TEST_SEED: the first seed (default 1)."""

import os
import random
import re
import signal
import sys
import time

import job
from processes import stop

MOMENTS = int(os.environ.get("LONGSHORE_INTERNAL_TEST_MOMENTS", "3"))
SEED = int(os.environ.get("LONGSHORE_INTERNAL_TEST_SEED", "1"))
RANKS = 4
STEPS = 1000  # of tests/mpi/stress.cc
LONGEST_S = 60  # that the program takes on a slow machine
ERROR_LIMIT_S = 5  # LONGSHORE_LIMIT_S, within which a job ends that cannot go on


class Loss(job.JobTest):
    def kill_at(self, seed, nodes, settings):
        """When the job has made so many operations as the seed says. Its exit status, and the seconds until its end."""
        draw = random.Random(f"{seed} {nodes} {sorted(settings)}")
        folder = self.folder / f"stress-{seed}-{nodes}"
        folder.mkdir()
        running = job.Job(self, RANKS, [self.program("stress"), seed, STEPS], nodes=nodes,
                          **{"LONGSHORE_LIMIT_S": ERROR_LIMIT_S, "LONGSHORE_INTERNAL_TEST_FOLDER": folder, **settings})
        progress, moment = folder / "progress", draw.randrange(1, STEPS)

        def steps():
            return int.from_bytes(progress.read_bytes(), sys.byteorder) if progress.exists() else 0
        self.wait_for(lambda: steps() >= moment or running.process.poll() is not None, running.describe)
        victim = draw.choice(self.services())
        self.assertTrue(kill(victim), running.describe())
        at = time.monotonic()
        (folder / "stop").touch()
        status = running.wait(LONGEST_S)
        took_s = time.monotonic() - at
        where = f"seed {seed}, {nodes or 1} nodes, SP killed at operation {moment}"
        print(f"{where}: ended with {status} {took_s:.2f} s later", flush=True)
        self.assertIsNotNone(status, f"{where}: the job hangs\n{running.describe()}")
        if status != 0:
            self.assertGreater(nodes, 1, f"{where}: a job on one node must finish\n{running.describe()}")
            self.assertRegex(running.output, "MPI_ERR_OTHER|Fatal error|MPI_ERRORS_ARE_FATAL", where)
        self.check_nothing_left()
        return status, took_s

    def moments(self, nodes, count, **settings):
        ended = [self.kill_at(seed, nodes, settings) for seed in range(SEED, SEED + count)]
        finished = sum(status == 0 for status, _ in ended)
        print(f"{nodes or 1} nodes: {len(ended)} killed, {finished} jobs finished, {len(ended) - finished} ended in an "
              f"MPI error; the end came at most {max(took for _, took in ended):.2f} s after the kill", flush=True)

    def test_service_one_node(self):
        self.moments(0, MOMENTS - MOMENTS // 2)

    def test_service_two_nodes(self):
        self.moments(2, MOMENTS // 2)

    def test_service_over_a_network(self):
        self.moments(2, max(1, MOMENTS // 4), **self.by_ucx())

    def test_service_that_ends_before_it_has_reached_the_network(self):
        """What it is to load is a pipe, at which it waits for somebody who writes."""
        network = self.folder / "network.so"
        os.mkfifo(network)
        settings = self.by_ucx() | {"LONGSHORE_INTERNAL_NETWORK": str(network)}
        running = job.Job(self, RANKS, [self.program("stress"), SEED, STEPS, "native"], nodes=2, **settings)
        for victim in self.wait_for(lambda: len(found := self.services()) == 2 and found, running.describe):
            self.assertTrue(kill(victim))
        self.assertEqual(running.wait(LONGEST_S), 0, running.describe())
        self.assertIn("ended before it had reached the network; the job runs with plain MPI", running.output)
        self.check_nothing_left()

    def test_service_with_staging_memory(self):
        self.moments(2, max(1, MOMENTS // 4), LONGSHORE_MEMORY_MODE="staging",
                     **{f"LONGSHORE_{name}_ALGORITHM": "staged-hierarchical"
                        for name in ("ALLGATHER", "ALLGATHERV", "BCAST")})

    def kill_and_look(self, find, nodes=0):
        running = job.Steady(self, RANKS, nodes=nodes)
        running.wait_for_steps(2)
        os.kill(find(running), signal.SIGKILL)
        self.assertNotIn(running.wait(LONGEST_S), (0, None), running.describe())
        self.check_nothing_left()

    def test_rank(self):
        self.kill_and_look(lambda running: self.ranks("steady")[-1])

    def test_first_rank_two_nodes(self):
        self.kill_and_look(lambda running: min(self.ranks("steady")), nodes=2)

    def test_mpirun(self):
        self.kill_and_look(lambda running: running.process.pid)


# The service process is as likely to get a core as a rank, holds every claim for long, and is soon missed.
SLOW_SERVICE = {"LONGSHORE_WAIT_REPORT_S": "1", "LONGSHORE_SERVICE_CORES": "0", "LONGSHORE_CHUNK_BYTES": "1M"}
TRIES_LIMIT_S = 200  # of some milliseconds each, but on a busy machine
HOLDS_A_CLAIM = "waits for a service process or rank that holds a claim"


def holders_of_claims(running):
    """Processes of a job.Steady."""
    state, _ = running.status()
    running.test.assertIsNotNone(state, f"longshore status knows no such job\n{running.describe()}")
    return {one["pid"] for op in state["operations"] for one in op["claims_held_by"]}


def holds_a_claim(running, service):
    """Whether a job.Steady has said that somebody holds a claim, and a service process does."""
    return HOLDS_A_CLAIM in running.output and service in holders_of_claims(running)


def stop_with_claim(test, running, seed):
    """Stops the service process of a job.Steady again and again, until the job cannot go on without it. Its pid, and
    how often it was stopped."""
    draw = random.Random(seed)
    tries = 0
    end = time.monotonic() + TRIES_LIMIT_S
    while time.monotonic() < end:
        tries += 1
        (victim,) = test.services()
        before = running.steps()
        stop(victim)
        # Without a claim of the stopped one the job goes on, without end. A rank may be said to hold one, too, that waits
        # for a core.
        test.wait_for(lambda: min(running.steps()) > max(before) + 1 or holds_a_claim(running, victim),
                      lambda: f"neither a step nor a claim\n{running.describe()}")
        if holds_a_claim(running, victim):
            return victim, tries
        os.kill(victim, signal.SIGCONT)
        time.sleep(draw.uniform(0, 0.005))
    return test.fail(f"stopped {tries} times, never with a claim")


class Stopped(job.JobTest):
    """A service process is stopped: ranks work alone. With a claim: they wait, say so, and finish when it goes on."""

    def test_without_claim(self):
        running = job.Steady(self, 2, block=4 << 20, **SLOW_SERVICE)
        running.wait_for_steps(1)
        running.pause()  # nothing is open now, so nothing is claimed
        (victim,) = self.services()
        stop(victim)
        running.resume()
        running.wait_for_steps(3)
        self.assertNotIn(victim, holders_of_claims(running))
        self.assertEqual(running.finish(), 0, running.describe())
        self.check_nothing_left()

    def test_with_claim(self):
        running = job.Steady(self, 2, block=4 << 20, **SLOW_SERVICE)
        running.wait_for_steps(1)
        victim, tries = stop_with_claim(self, running, SEED)
        stuck = running.steps()
        time.sleep(0.3)
        self.assertEqual(running.steps(), stuck, "a rank went on although its chunk was claimed")
        print(f"held a claim at stop {tries}, after {stuck} steps", flush=True)
        os.kill(victim, signal.SIGCONT)
        running.wait_for_steps(2)
        self.assertEqual(running.finish(), 0, running.describe())
        self.assertIn("steady: ok", running.output)
        self.check_nothing_left()


class Suspended(job.JobTest):
    """Processes are stopped for longer than any limit, as a batch system does it with a job, and go on: nobody is taken for lost."""

    LIMIT_S = 1
    STOPPED_S = 9  # nobody waits for more than six limits

    def start(self, **settings):
        return job.Steady(self, 4, nodes=2, block=4 << 20, LONGSHORE_LIMIT_S=self.LIMIT_S, **settings)

    def suspend(self):
        scripts = [pid for pid in job.processes() if str(self.folder).encode() in b" ".join(job.words_of(pid))]
        everything = {*self.everything(), *scripts}
        for pid in everything:
            stop(pid)
        time.sleep(self.STOPPED_S)
        for pid in everything:
            os.kill(pid, signal.SIGCONT)

    def goes_on(self, running):
        running.wait_for_steps(2)
        self.assertEqual(len(self.services()), 2, running.describe())
        self.assertEqual(running.finish(), 0, running.describe())
        self.assertNotIn("longshore", running.output)
        self.check_nothing_left()

    def test_job(self):
        for network in ({}, self.by_tcp(), self.by_ucx()):
            with self.subTest(network=network):
                running = self.start(**network)
                running.wait_for_steps(1)
                self.suspend()
                self.goes_on(running)

    def test_job_that_starts(self):
        slow = self.folder / "slow"
        slow.write_text(f'#!/bin/sh\ntouch "{self.folder}/starts"\nsleep 1\nexec "{self.longshored}" "$@"\n')
        slow.chmod(0o755)
        running = self.start(LONGSHORE_SERVICE_PATH=str(slow))
        self.wait_for((self.folder / "starts").exists, running.describe)
        self.suspend()
        self.goes_on(running)

    def test_service_process_in_the_midst_of_what_it_is_sent(self):
        """Its kernel answers, but takes nothing more."""
        running = self.start(**self.by_tcp())
        running.wait_for_steps(1)
        victim = next(pid for pid in self.services() if node_of(pid) == 1)
        stop(victim)
        before = running.steps()
        time.sleep(self.STOPPED_S)
        self.assertLessEqual(max(running.steps()), max(before) + 1, "nobody waited for it")
        os.kill(victim, signal.SIGCONT)
        self.goes_on(running)


class GivenUp(job.JobTest):
    """The supervisor has started a service process as often as it may, or is gone itself."""

    RESTARTS = 2
    LIMIT_S = 2
    RANKS = 4

    def start_and_kill_all(self, nodes, victim_node, **more):
        running = job.Steady(self, self.RANKS, nodes=nodes, **more, LONGSHORE_SERVICE_RESTARTS_MAX=self.RESTARTS,
                             LONGSHORE_LIMIT_S=self.LIMIT_S)
        running.wait_for_steps(1)
        for kill in range(1 + self.RESTARTS):
            own = self.wait_for(lambda: [pid for pid in self.services() if node_of(pid) == victim_node],
                                f"start {kill + 1} of the service process")
            os.kill(own[0], signal.SIGKILL)
            self.wait_for(lambda: own[0] not in self.services(), "the end of the killed process")
        return running

    def check_told(self, running):
        self.wait_for(lambda: "it is not started again" in running.output, running.describe)
        self.assertEqual(running.output.count("it is started again"), self.RESTARTS, running.output)

    def test_restarts_exhausted_one_node_finishes_alone(self):
        running = self.start_and_kill_all(0, 0)
        self.check_told(running)
        self.assertEqual(self.services(), [])
        running.wait_for_steps(3)
        self.assertEqual(running.finish(), 0, running.describe())
        self.assertIn("steady: ok", running.output)
        self.check_nothing_left()

    def test_supervisor_lost_one_node_finishes_alone(self):
        running = job.Steady(self, self.RANKS, LONGSHORE_LIMIT_S=self.LIMIT_S)
        running.wait_for_steps(1)
        (supervisor,) = self.services(b"supervisor")
        os.kill(supervisor, signal.SIGKILL)
        self.wait_for(lambda: not self.services(), "the service processes' end with their supervisor")
        running.wait_for_steps(3)
        self.assertEqual(running.finish(), 0, running.describe())
        self.check_nothing_left()

    def test_supervisor_lost_over_nodes(self):
        running = job.Steady(self, self.RANKS, nodes=2, LONGSHORE_LIMIT_S=self.LIMIT_S)
        running.wait_for_steps(1)
        os.kill(min(self.services(b"supervisor")), signal.SIGKILL)
        self.check_all_got_errors(running)

    def test_restarts_exhausted_over_nodes(self):
        for victim_node in (0, 1):
            with self.subTest(victim_node=victim_node):
                running = self.start_and_kill_all(2, victim_node)
                self.check_all_got_errors(running)
                self.check_told(running)

    def test_a_node_of_several_keeps_all_its_service_processes_or_none(self):
        """Found by the simulator as ranks that waited for one that had no room to enter, whose own service process lived on."""
        running = self.start_and_kill_all(2, 0, LONGSHORE_SERVICE_COUNT=2)
        self.wait_for(lambda: not [pid for pid in self.services() if node_of(pid) == 0], "the end of the other one of its node")
        self.check_all_got_errors(running)
        self.check_told(running)
        self.assertEqual(running.output.count("it is not started again"), 1, running.output)

    def test_ranks_that_give_up_keep_nobody_waiting(self):
        """Found as a rank of the surviving node that had begun the next call, which the others never made."""
        for victim_node in (0, 1):
            with self.subTest(victim_node=victim_node):
                running = self.start_and_kill_all(2, victim_node, alone=True)
                status = running.wait(LONGEST_S)
                self.assertNotIn(status, (0, None), running.describe())
                self.assertEqual(running.output.count("MPI_ERR_OTHER, alone"), self.RANKS, running.output)
                self.check_nothing_left()

    def check_all_got_errors(self, running):
        status = running.wait(LONGEST_S)
        self.assertNotIn(status, (0, None), running.describe())
        found = re.findall(r"rank (\d+): (\w+) after ([\d.]+) s, then (\w+) after ([\d.]+) s", running.output)
        self.assertEqual(sorted(int(rank) for rank, *_ in found), list(range(self.RANKS)), running.output)
        print(f"errors: {found}", flush=True)
        # A rank may have been done with the step in which the others got their first error.
        self.assertIn("MPI_ERR_OTHER", [first for _, first, *_ in found])
        for _, first, first_s, second, second_s in found:
            self.assertIn(first, ("MPI_ERR_OTHER", "success"), running.output)
            self.assertEqual(second, "MPI_ERR_OTHER", running.output)
            self.assertLess(float(first_s), LONGEST_S, running.output)
            self.assertLess(float(second_s), LONGEST_S, running.output)
        self.check_nothing_left()


def kill(pid):
    """False: it had ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def node_of(pid):
    """The node of a service process (its last argument), -1 if it has gone."""
    words = [word for word in job.words_of(pid) if word]
    return int(words[-1]) if words else -1
