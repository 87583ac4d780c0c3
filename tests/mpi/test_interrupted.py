"""LONGSHORE_STATS and LONGSHORE_TRACE of jobs that never come to MPI_Finalize: interrupted, or one rank is killed."""

import json
import os
import pathlib
import re
import signal

import job

CALLS = 4  # of a step of tests/mpi/steady.cc on each rank
HANDLED = re.compile(r"^SigCgt:\s*(\w+)", re.M)


class Interrupted(job.JobTest):
    def start(self, ranks=3, **settings):
        self.stats, self.trace = self.folder / "stats.json", self.folder / "trace.json"
        running = job.Steady(self, ranks, block=4096, **{"LONGSHORE_STATS": self.stats, **settings})
        running.wait_for_steps(3)
        return running

    def end(self, running, number):
        """A signal to the launcher, whose matter it is to end the ranks; all that the job has written is there then."""
        os.kill(running.process.pid, number)
        self.assertIsNotNone(running.wait(job.BUSY_S), running.describe())
        self.check_nothing_left()

    def check_stats(self, running, steps, ranks=3):
        self.assertTrue(self.stats.exists(), running.describe())
        stats = json.loads(self.stats.read_text())
        self.assertEqual((stats["complete"], stats["missing_ranks"], stats["ranks"]), (False, [], ranks))
        self.assertEqual(sorted(end["rank"] for end in stats["ended"]), list(range(ranks)))
        self.assertEqual(job.undocumented(stats), set())
        self.assertFalse(any(end["finalized"] for end in stats["ended"]))
        self.assertTrue(all(0 < end["after_s"] <= stats["wall_s"] for end in stats["ended"]), stats["ended"])
        row = stats["collectives"]["MPI_Ialltoall"]
        # A rank may have been in the midst of a step.
        self.assertGreaterEqual(row["calls"], CALLS * sum(steps))
        self.assertGreater(row["waiting_s"], 0)
        self.assertGreater(row["bytes_by_service"] + row["bytes_by_rank"], 0)
        self.assertLessEqual(row["bytes_own"] + row["bytes_by_service"] + row["bytes_by_rank"], row["bytes"])
        return stats

    def test_interrupt(self):
        running = self.start(LONGSHORE_TRACE=self.folder / "trace.json")
        steps = running.steps()
        self.end(running, signal.SIGINT)
        self.check_stats(running, steps)
        trace = json.loads(self.trace.read_text())
        self.assertFalse(trace["otherData"]["complete"])
        for kind in ("post", "wait"):
            self.assertEqual({event["tid"] for event in trace["traceEvents"] if event.get("cat") == kind}, {0, 1, 2})

    def test_terminate_on_two_nodes(self):
        running = self.start(ranks=4, nodes=2)
        steps = running.steps()
        self.end(running, signal.SIGTERM)
        self.assertEqual(self.check_stats(running, steps, ranks=4)["nodes"], 2)

    def test_a_rank_is_killed(self):
        running = self.start()
        steps = running.steps()
        victim = self.ranks("steady")[0]
        os.kill(victim, signal.SIGKILL)
        self.assertNotIn(running.wait(job.BUSY_S), (0, None), running.describe())
        self.check_nothing_left()
        self.check_stats(running, steps)

    def test_offload_is_off(self):
        running = self.start(LONGSHORE_OFFLOAD="off")
        steps = running.steps()
        self.end(running, signal.SIGTERM)
        stats = json.loads(self.stats.read_text())
        self.assertGreaterEqual(stats["collectives"]["MPI_Ialltoall"]["host"], CALLS * sum(steps))
        self.assertEqual(stats["advice"], ["offload was off: this is a profile of the MPI alone"])

    def test_who_hangs_in_what(self):
        running = self.start()
        running.hold(2)
        # Until the others are in the step that the third rank does not enter: nowhere but in a wait of it do they sleep.
        self.wait_for(lambda: min(running.steps()) == max(running.steps()), running.describe)
        waits = self.ranks("steady")
        self.assertEqual(len(waits), 3)
        self.wait_for(lambda: all(map(self.sleeps, waits)), running.describe)
        self.end(running, signal.SIGTERM)
        inside = {end["rank"]: end.get("inside") for end in json.loads(self.stats.read_text())["ended"]}
        self.assertEqual(inside, {0: "MPI_Wait", 1: "MPI_Wait", 2: None})

    def sleeps(self, pid):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"

    def test_text(self):
        running = self.start(LONGSHORE_STATS="-", piped=True, before=["-wdir", self.temporary])
        victim = self.ranks("steady")[0]
        os.kill(victim, signal.SIGKILL)
        self.assertIsNotNone(running.wait(job.BUSY_S), running.describe())
        self.wait_for(lambda: not self.everything(), "the end of the keeper")
        files = list(self.temporary.glob("longshore-stats-*.txt"))
        self.assertEqual(len(files), 1, running.describe())
        text = files[0].read_text()
        files[0].unlink()
        self.assertTrue(text.startswith("longshore: the job ended without MPI_Finalize; what is known of 3 of 3 ranks"), text)
        self.assertEqual(len(re.findall(r"^longshore: rank [0-2] ended after [\d.]+ s", text, re.M)), 3, text)
        self.assertIn("longshore: MPI_Ialltoall ", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        # The reader of a pipe has it as well.
        self.assertEqual(running.reader.wait(job.BUSY_S), 0)
        self.assertIn(text, running.output)

    def test_signals_are_the_programs_own(self):
        """No handler is installed where statistics are wanted."""
        handled = []
        for settings in ({}, {"LONGSHORE_STATS": ""}):
            running = self.start(**settings)
            handled.append({HANDLED.search(pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)
                            for pid in self.ranks("steady")})
            self.assertEqual(running.finish(), 0, running.describe())
        self.assertEqual(*handled)

    def test_a_job_that_ends_well_is_written_once(self):
        running = self.start()
        self.assertEqual(running.finish(), 0, running.describe())
        self.check_nothing_left()
        self.assertTrue(json.loads(self.stats.read_text())["complete"])
        self.assertEqual([path.name for path in self.folder.glob("stats*")], ["stats.json"])
