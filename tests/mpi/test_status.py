#!/usr/bin/env python3
"""longshore status while a job runs: who has not entered, who holds a claim, what the processes are."""

import json
import os
import re
import signal
import subprocess
import time

import job
import test_loss


class Status(job.JobTest):
    def status(self, running):
        """What it says of this job, and nothing of others."""
        done = subprocess.run([job.BUILD / "bin" / "longshore", "status", "--json"], capture_output=True, text=True,
                              timeout=30, check=True)
        said = json.loads(done.stdout)
        own = [one for one in said["jobs"] if str(running.folder) in one["program"]]
        self.assertLessEqual(len(own), 1, done.stdout)
        self.said = done.stdout + done.stderr
        self.processes = said["processes"]
        return own[0] if own else None

    def text(self):
        return subprocess.run([job.BUILD / "bin" / "longshore", "status"], capture_output=True, text=True, timeout=30,
                              check=True).stdout

    def wait_for_missing(self, running, at_least_s):
        """The job's state when an operation has been open so long."""
        def look():
            state = self.status(running)
            long = [op for op in state["operations"] if op["open_s"] is not None and op["open_s"] >= at_least_s]
            return (state, long) if long else None
        return self.wait_for(look, running.describe)

    def wait_for_counters(self, running):
        """The job's state when it says what every service process has done. They say it when they get a core, which on a
        busy machine is some time after the ranks have seen that it is done."""
        def look():
            state = self.status(running)
            services = [sp for node in state["nodes"] for sp in node["services"]]
            told = all(sp["cpu_s"] > 0 for sp in services)
            if len(state["nodes"]) > 1:
                told = told and all(sp["bytes_between_nodes"] and sp["busy_s"] > 0 for sp in services)
            return state if told else None
        return self.wait_for(look, running.describe)

    def check_processes(self, running, ranks, nodes):
        state = self.wait_for_counters(running)
        self.assertEqual((state["ranks"], state["node_count"]), (ranks, nodes))
        self.assertEqual([node["node"] for node in state["nodes"]], list(range(nodes)))
        services = [sp for node in state["nodes"] for sp in node["services"]]
        self.assertEqual(sorted(sp["pid"] for sp in services), sorted(self.services()))
        self.assertTrue(all(sp["starts"] == 1 for sp in services), services)
        # On one node and few cores the ranks may have done everything.
        moved = [sp["bytes_moved"] + sum(rank["bytes_by_rank"] for rank in node["ranks"])
                 for node in state["nodes"] for sp in node["services"]]
        self.assertTrue(all(moved), state)
        found = sorted((rank["rank"], rank["pid"]) for node in state["nodes"] for rank in node["ranks"])
        self.assertEqual([rank for rank, _ in found], list(range(ranks)))
        self.assertEqual(sorted(pid for _, pid in found), sorted(self.ranks("steady")))
        pids = {process["pid"]: process["role"] for process in self.processes}
        for node in state["nodes"]:
            self.assertEqual(pids[node["supervisor"]], "supervisor")

    def missing_rank(self, nodes):
        running = job.Steady(self, 4, nodes=nodes, LONGSHORE_WAIT_REPORT_S="1")
        running.wait_for_steps(1)
        # Not rank 0, nor the first of its node. It may be inside a step just now.
        running.hold(3)
        state, long = self.wait_for_missing(running, 1.5)
        self.check_processes(running, 4, max(1, nodes))
        pid_of = {rank["rank"]: rank["pid"] for node in state["nodes"] for rank in node["ranks"]}
        for op in long:
            self.assertEqual((op["collective"], op["group_size"], op["late"]), ("alltoall", 4, True))
            self.assertEqual([(one["rank"], one["pid"]) for one in op["missing"]], [(3, pid_of[3])])
            self.assertEqual(sorted(one["rank"] for one in op["entered"]), [0, 1, 2])
        self.assertEqual(len({op["sequence"] for op in long}), 4, "the calls that a step has open")
        self.assertRegex(self.text(), rf"alltoall \d+ .*all ranks +1 rank has not entered: rank 3 \(pid {pid_of[3]}, ")
        # The ranks' own report says the same.
        missing = "waits for (the block of )?rank 3 " if nodes else "waits for rank 3 "
        self.assertRegex(running.output, r"still waits: rank " + ("[01]" if nodes else "[012]") + r": alltoall \d+ " + missing)
        # Of each wait once.
        said = re.findall(r"still waits: rank (\d): alltoall (\d+) ", running.output)
        self.assertEqual(len(said), len(set(said)), running.output)
        running.release(3)
        running.wait_for_steps(2)
        self.assertEqual(running.finish(), 0, running.describe())
        self.check_nothing_left()
        self.assertIsNone(self.status(running))

    def test_missing_rank_one_node(self):
        self.missing_rank(0)

    def test_missing_rank_two_nodes(self):
        self.missing_rank(2)

    def test_nothing_is_open_while_ranks_compute(self):
        running = job.Steady(self, 2)
        running.wait_for_steps(1)
        running.pause()
        state = self.status(running)
        self.assertIsNotNone(state, f"{self.said}\nsupervisors and services: {self.services()}\n{running.describe()}")
        self.assertEqual(state["operations"], [])
        self.assertEqual([rank["open_operations"] for rank in state["nodes"][0]["ranks"]], [0, 0])
        running.resume()
        self.assertEqual(running.finish(), 0, running.describe())

    def test_stopped_service_holds_a_claim(self):
        running = job.Steady(self, 2, block=4 << 20, **test_loss.SLOW_SERVICE)
        running.wait_for_steps(1)
        victim, _ = test_loss.stop_with_claim(self, running, 1)
        state, long = self.wait_for_missing(running, 1)
        held_by = [(one.get("service"), one["pid"], one["state"]) for op in long for one in op["claims_held_by"]]
        self.assertIn((0, victim, "stopped"), held_by, state)
        self.assertRegex(self.text(), rf"claims are held by SP 0 of node 0 \(pid {victim}, stopped\)")
        os.kill(victim, signal.SIGCONT)
        self.assertEqual(running.finish(), 0, running.describe())

    def test_while_everything_changes(self):
        # Records, groups and service processes come and go under its eyes.
        running = job.Job(self, 4, [self.program("stress"), 1, 100_000], nodes=2)
        self.wait_for(lambda: len(self.services()) >= 2, "service processes")
        killed = set()
        for look in range(1000):
            self.text()
            if look % 5 == 4 and (victims := self.services()):
                os.kill(victims[0], signal.SIGKILL)
                killed.add(victims[0])
            if len(killed) == 4:
                break
        self.assertEqual(len(killed), 4, running.describe())
        running.process.kill()
        running.process.wait()


if __name__ == "__main__":
    job.main()
