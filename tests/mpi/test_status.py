"""longshore status while a job runs: who has not entered, who holds a claim, what the processes are."""

import os
import re
import signal
import subprocess

import job
import test_loss


class Status(job.JobTest):
    def text(self):
        return subprocess.run([job.BUILD / "bin" / "longshore", "status"], capture_output=True, text=True, timeout=job.BUSY_S,
                              check=True).stdout

    def wait_for_long(self, running, at_least_s, is_seen):
        """The job's operations that have been open so long, as soon as that function finds in them what is to be seen: who
        waits for a core is a reason to wait, too."""
        def look():
            state, _ = running.status()
            long = [op for op in state["operations"] if op["open_s"] is not None and op["open_s"] >= at_least_s]
            return long if is_seen(long) else None
        return self.wait_for(look, lambda: f"{running.status()}\n{running.describe()}")

    def wait_for_counters(self, running):
        """The job's state when it says what every service process has done. They say it when they get a core, which on a
        busy machine is some time after the ranks have seen that it is done."""
        def look():
            state, self.processes = running.status()
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
        return state

    def missing_rank(self, nodes):
        running = job.Steady(self, 4, nodes=nodes, LONGSHORE_WAIT_REPORT_S="1")
        running.wait_for_steps(1)
        # Not rank 0, nor the first of its node.
        running.hold(3)
        # The calls that a step has open.
        long = self.wait_for_long(running, 1.5, lambda long: len({op["sequence"] for op in long}) == 4 and all(
            [one["rank"] for one in op["missing"]] == [3] for op in long))
        state = self.check_processes(running, 4, max(1, nodes))
        pid_of = {rank["rank"]: rank["pid"] for node in state["nodes"] for rank in node["ranks"]}
        for op in long:
            self.assertEqual((op["collective"], op["group_size"], op["late"]), ("alltoall", 4, True))
            self.assertEqual([one["pid"] for one in op["missing"]], [pid_of[3]])
            self.assertEqual(sorted(one["rank"] for one in op["entered"]), [0, 1, 2])
        self.assertRegex(self.text(), rf"alltoall \d+ .*all ranks +1 rank has not entered: rank 3 \(pid {pid_of[3]}, ")
        # The ranks' own report says the same, when they get a core: at least that of the last one to enter, for the others may
        # have had to wait for that one first.
        missing = "waits for (the block of )?rank 3 " if nodes else "waits for rank 3 "
        report = r"still waits: rank [012]: alltoall \d+ " + missing
        self.wait_for(lambda: re.search(report, running.output), running.describe)
        # Of each wait once.
        said = re.findall(r"still waits: rank (\d): alltoall (\d+) ", running.output)
        self.assertEqual(len(said), len(set(said)), running.output)
        running.release(3)
        running.wait_for_steps(2)
        self.assertEqual(running.finish(), 0, running.describe())
        self.check_nothing_left()
        self.assertIsNone(running.status()[0])

    def test_missing_rank_one_node(self):
        self.missing_rank(0)

    def test_missing_rank_two_nodes(self):
        self.missing_rank(2)

    def test_nothing_is_open_while_ranks_compute(self):
        running = job.Steady(self, 2)
        running.wait_for_steps(1)
        running.pause()
        state, others = running.status()
        self.assertIsNotNone(state, f"{others}\nservices: {self.services()}\n{running.describe()}")
        self.assertEqual(state["operations"], [])
        self.assertEqual([rank["open_operations"] for rank in state["nodes"][0]["ranks"]], [0, 0])
        running.resume()
        self.assertEqual(running.finish(), 0, running.describe())

    def test_stopped_service_holds_a_claim(self):
        running = job.Steady(self, 2, block=4 << 20, **test_loss.SLOW_SERVICE)
        running.wait_for_steps(1)
        victim, _ = test_loss.stop_with_claim(self, running, 1)
        self.wait_for_long(running, 1, lambda long: (0, victim, "stopped") in [
            (one.get("service"), one["pid"], one["state"]) for op in long for one in op["claims_held_by"]])
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
