"""kill -9 while the agent of a host copies for ranks that compute (docs/decisions/0045), where the DPU is this machine too
(test_dpu.py): of the agent, a rank, its stand-in, a service process; at moments that a seed says, and when a copy waits for an
agent that is stopped. What comes to the ranks is right, or there is an error at the wait; nothing hangs, and nothing is left.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder. LONGSHORE_INTERNAL_TEST_SEED: the first seed (default 1).
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# pylint: disable=unused-import
from test_dpu import (BUILD, LIMIT_S, MPIS, WHOLE, Checks, Endless, Service, agents, end, is_alive, job_users,  # noqa: E402
                      service_processes, session_of, setUpModule)  # noqa: E402,F401
from processes import stop  # noqa: E402

SEED = int(os.environ.get("LONGSHORE_INTERNAL_TEST_SEED", "1"))
SEEDS = range(SEED, SEED + (30 if WHOLE else 2))
RANKS = 3
BLOCK = 1 << 20  # a step's copies take about as long as a rank computes


def ranks_of(job):
    """They have its folder as their first word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().split(b"\0")[1:2] == [job.folder.name.encode()]:
                found.append(int(folder.name))
    return sorted(found)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])


def agents_of(job):
    """In the session of the rank that has started it; of MPICH that is not its launcher's."""
    return [pid for session in {session_of(pid) for pid in ranks_of(job)} - {None} for pid in agents(session)]


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@unittest.skipUnless((BUILD / "lib/longshore-ucx.so").exists(), "built without UCX")
class TestLossesWhileAgentsCopy(Checks):
    @contextlib.contextmanager
    def copying(self, dpu, mpi, **settings):
        """A job for whose ranks the agent copies, that has begun to."""
        job = Endless(dpu, "computing", mpi=mpi, ranks=RANKS, block=BLOCK,
                      **{"LONGSHORE_INTERNAL_AGENT_COPIES": 1, **settings})
        try:
            self.wait_for_stand_ins(dpu, job, RANKS)
            yield job
        finally:
            for pid in ranks_of(job):
                kill(pid)
            end(job)
            job.folder.cleanup()

    def only_agent(self, job):
        found = agents_of(job)
        self.assertEqual(len(found), 1)
        return found[0]

    def check_end(self, dpu, job, others):
        """It ends in an error, no byte was wrong before, and all of it is gone."""
        try:
            said, _ = job.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.fail("the job hangs")
        self.assertNotEqual(job.returncode, 0, said)
        self.assertNotIn("steady.cc:", said)
        self.wait_for(lambda: not (dpu and dpu.stand_ins()) and not any(map(is_alive, others)), "the end of what belonged to the job")

    def all_started(self, dpu, job):
        return [*service_processes(dpu), *agents_of(job)]

    def at_moments(self, victim_of):
        """Kills what that function finds in a job, each time in another job."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in MPIS:
                for seed in SEEDS:
                    draw = random.Random(seed)
                    with self.subTest(mpi=mpi, seed=seed), self.copying(dpu, mpi) as job:
                        started = self.all_started(dpu, job)
                        victim = victim_of(dpu, job, draw)
                        time.sleep(draw.uniform(0, 0.06))  # the moment of a step
                        kill(victim)
                        self.check_end(dpu, job, started)

    def test_an_agent_at_any_moment(self):
        self.at_moments(lambda dpu, job, draw: self.only_agent(job))

    def test_a_rank_at_any_moment(self):
        self.at_moments(lambda dpu, job, draw: draw.choice(ranks_of(job)))

    def test_a_stand_in_at_any_moment(self):
        self.at_moments(lambda dpu, job, draw: draw.choice(dpu.stand_ins()))

    def test_nobody_reads_a_buffer_that_was_given_up(self):
        """The standing service, which would end the others' stand-ins, is stopped: service processes go on with what is open."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in MPIS:
                for seed in SEEDS:
                    draw = random.Random(seed)
                    with self.subTest(mpi=mpi, seed=seed), self.copying(dpu, mpi, LONGSHORE_INTERNAL_AGENT_COPIES=seed % 2) as job:
                        started = self.all_started(dpu, job)
                        victim = draw.choice(dpu.stand_ins())
                        stop(dpu.process.pid)
                        try:
                            time.sleep(draw.uniform(0, 0.06))  # the moment of a step
                            kill(victim)
                            self.wait_for((Path(job.folder.name) / "spoiled").exists, "the error of the rank that has lost it")
                            self.wait_for(self.until_stuck(job), "the others' end of the step")
                        finally:
                            dpu.process.send_signal(signal.SIGCONT)
                        self.check_end(dpu, job, started)

    def test_what_a_killed_rank_has_given_is_right(self):
        """Its launcher is stopped and ends nobody: service processes go on with what is open, and what has come is compared."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in MPIS:
                for seed in SEEDS:
                    draw = random.Random(seed)
                    with self.subTest(mpi=mpi, seed=seed), self.copying(dpu, mpi, LONGSHORE_INTERNAL_AGENT_COPIES=0) as job:
                        started = self.all_started(dpu, job)
                        victim = draw.choice(ranks_of(job))
                        launcher = parent_of(victim)
                        stop(launcher)
                        try:
                            time.sleep(draw.uniform(0, 0.06))  # the moment of a step
                            kill(victim)
                            self.wait_for(self.until_stuck(job), "the others' end of the step")
                        finally:
                            os.kill(launcher, signal.SIGCONT)
                        self.check_end(dpu, job, started)

    def test_a_service_process_at_any_moment(self):
        """It is started again, and all goes on; the agent, too."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in MPIS:
                draw = random.Random(SEED)
                with self.subTest(mpi=mpi), self.copying(dpu, mpi, LONGSHORE_STATS="stats", LONGSHORE_SERVICE_RESTARTS_MAX=1000) as job:
                    killed = set()
                    for _ in SEEDS:
                        victim, = self.wait_for(lambda: set(service_processes(dpu)) - killed, "it is not started again")
                        time.sleep(draw.uniform(0, 0.06))  # the moment of a step
                        kill(victim)
                        killed.add(victim)
                        self.wait_for_steps(job)
                    (Path(job.folder.name) / "stop").touch()
                    said, _ = job.communicate(timeout=LIMIT_S)
                    self.assertEqual(job.returncode, 0, said)
                    self.assertIn("steady: ok", said)
                    stats = json.loads(Path("stats").read_text(encoding="utf-8"))
                    self.assertGreater(stats["memory"]["copied_by_agents"], BLOCK)

    def until_stuck(self, job):
        """Whether it makes no steps any more, for a second."""
        seen = [job.steps(), time.monotonic()]
        def is_stuck():
            if job.steps() != seen[0]:
                seen[:] = [job.steps(), time.monotonic()]
            return time.monotonic() - seen[1] > 1
        return is_stuck

    def stop_agent(self, job):
        """With copies that it has to make, without which the job does not go on."""
        agent = self.only_agent(job)
        stop(agent)
        is_stuck = self.until_stuck(job)
        def is_waiting():
            self.assertIsNone(job.poll())
            return is_stuck()
        self.wait_for(is_waiting, "the job goes on without its agent")
        return agent

    def test_an_agent_that_has_copies_to_make(self):
        with Service(*job_users(BUILD)) as dpu:
            for mpi in MPIS:
                with self.subTest(mpi=mpi), self.copying(dpu, mpi) as job:
                    started = self.all_started(dpu, job)
                    kill(self.stop_agent(job))
                    self.check_end(dpu, job, started)

    def test_an_agent_that_stays_stopped(self):
        """Ranks end it before a buffer that it may still write to is their program's again."""
        with Service(*job_users(BUILD)) as dpu:
            with self.copying(dpu, MPIS[0], LONGSHORE_LIMIT_S=3) as job:
                started = self.all_started(dpu, job)
                self.stop_agent(job)
                kill(dpu.stand_ins()[-1])
                self.check_end(dpu, job, started)

    def test_others_whose_agent_has_copies_to_make(self):
        """The agent goes on when the other is dead, and finds copies from or for who is gone."""
        with Service(*job_users(BUILD)) as dpu:
            for mpi in MPIS:
                for find in (lambda job: ranks_of(job)[-1], lambda _: dpu.stand_ins()[-1]):
                    with self.subTest(mpi=mpi), self.copying(dpu, mpi) as job:
                        started = self.all_started(dpu, job)
                        agent = self.stop_agent(job)
                        try:
                            kill(find(job))
                        finally:
                            os.kill(agent, signal.SIGCONT)
                        self.check_end(dpu, job, started)

    def test_a_stand_in_when_the_standing_service_has_ended(self):
        """Which would end the others; they wait for what nobody enters any more."""
        for mpi in MPIS:
            with Service(*job_users(BUILD)) as dpu, self.copying(dpu, mpi, LONGSHORE_LIMIT_S=3) as job:
                stand_ins = dpu.stand_ins()
                started = [*self.all_started(dpu, job), *stand_ins]
                dpu.process.terminate()
                dpu.process.wait()
                kill(random.Random(SEED).choice(stand_ins))
                self.check_end(None, job, started)
