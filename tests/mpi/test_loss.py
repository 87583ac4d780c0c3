#!/usr/bin/env python3
"""kill -9 at seeded moments: of a service process, of a rank, of mpirun. LONGSHORE_INTERNAL_TEST_MOMENTS: how many
moments for the service processes (default 10), LONGSHORE_INTERNAL_TEST_SEED: the first seed (default 1)."""

import os
import random
import signal
import time

import job

MOMENTS = int(os.environ.get("LONGSHORE_INTERNAL_TEST_MOMENTS", "10"))
SEED = int(os.environ.get("LONGSHORE_INTERNAL_TEST_SEED", "1"))
RANKS = 4
STEPS = 1000  # of tests/mpi/stress.cc
LONGEST_S = 60  # that the program takes on a slow machine
ERROR_LIMIT_S = 5  # LONGSHORE_LIMIT_S, within which a job ends that cannot go on


class Loss(job.JobTest):
    def stress(self, seed, **more):
        return job.Job(self, RANKS, [self.program("stress"), seed, STEPS], **more)

    def duration(self, **more):
        """How long the program takes after its first service process was seen."""
        running = self.stress(SEED, **more)
        self.wait_for(self.services, 20, "a service process")
        begin = time.monotonic()
        self.assertEqual(running.wait(LONGEST_S), 0, running.describe())
        self.check_nothing_left()
        return time.monotonic() - begin

    def kill_at(self, seed, length_s, nodes):
        draw = random.Random(seed)
        running = self.stress(seed, nodes=nodes)
        self.wait_for(self.services, 20, "a service process")
        moment = draw.uniform(0, 0.9 * length_s)
        time.sleep(moment)
        victims = self.services()
        killed = bool(victims) and running.process.poll() is None
        if killed:
            os.kill(draw.choice(victims), signal.SIGKILL)
        at = time.monotonic()
        status = running.wait(LONGEST_S)
        where = f"seed {seed}, {nodes or 1} nodes, SP killed {moment:.3f} s after it was seen"
        print(f"{where}: {'killed' if killed else 'job was over'}, ended with {status} {time.monotonic() - at:.2f} s later",
              flush=True)
        self.assertIsNotNone(status, f"{where}: the job hangs\n{running.describe()}")
        if status != 0:
            self.assertGreater(nodes, 1, f"{where}: a job on one node must finish\n{running.describe()}")
            self.assertLess(time.monotonic() - at, length_s + ERROR_LIMIT_S + 3, where)
            self.assertRegex(running.output, "MPI_ERR_OTHER|Fatal error|MPI_ERRORS_ARE_FATAL", where)
        self.check_nothing_left()
        return killed

    def moments(self, nodes, count):
        length = self.duration(nodes=nodes)
        killed = sum(self.kill_at(SEED + i, length, nodes) for i in range(count))
        self.assertGreaterEqual(killed, count // 2, "too few service processes were killed in time")

    def test_service_one_node(self):
        self.moments(0, MOMENTS - MOMENTS // 2)

    def test_service_two_nodes(self):
        self.moments(2, MOMENTS // 2)

    def kill_and_look(self, find, nodes=0):
        running = job.Job(self, RANKS, [self.program("stress"), SEED, 100_000], nodes=nodes)
        self.wait_for(lambda: len(self.services()) >= max(1, nodes), 20, "a service process")
        time.sleep(0.5)
        os.kill(find(running), signal.SIGKILL)
        self.assertNotIn(running.wait(20), (0, None), running.describe())
        self.check_nothing_left(15)

    def test_rank(self):
        self.kill_and_look(lambda running: self.ranks("stress")[-1])

    def test_first_rank_two_nodes(self):
        self.kill_and_look(lambda running: min(self.ranks("stress")), nodes=2)

    def test_mpirun(self):
        self.kill_and_look(lambda running: running.process.pid)


if __name__ == "__main__":
    job.main()
