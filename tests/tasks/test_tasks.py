"""Tasks with real MPI jobs: right results in every shape of a pool, errors that say what is wrong, and task processes
that are killed."""

import os
import pathlib
import random
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mpi"))
import job  # noqa: E402

PROGRAM = job.BUILD / "tests" / "tasks" / job.FLAVOUR / f"tasks_{job.FLAVOUR}"


FAR = {"LONGSHORE_TASK_NODE": "next"}


class Tasks(job.JobTest):
    def setUp(self):
        super().setUp()
        part = job.BUILD / "lib" / "longshore-tcp.so"  # for pools on other nodes
        if part.exists():
            shutil.copy(part, self.folder)

    def run_program(self, ranks, mode, *, longshore=True, **settings):
        running = job.Job(self, ranks, [PROGRAM, mode, self.folder], preload=(job.SHIM,) if longshore else (),
                          TASKS_ARE_INLINE="0" if longshore else "1", **settings)
        status = running.wait(120)
        self.assertEqual(status, 0, running.describe())
        self.check_nothing_left()
        return running.output

    def test_a_process_for_each_rank(self):
        self.assertIn("tasks ran in task processes", self.run_program(2, "all"))

    def test_one_process_for_all_ranks(self):
        self.run_program(3, "all", LONGSHORE_TASK_PROCESSES="1")

    def test_several_processes_for_each_rank(self):
        self.run_program(2, "all", LONGSHORE_TASK_PROCESSES="5", LONGSHORE_TASK_CORES="none")

    def test_two_nodes(self):
        self.run_program(4, "all", nodes=2, LONGSHORE_TASK_PROCESSES="1")

    def test_without_shared_memory_everything_is_copied(self):
        self.run_program(2, "all", LONGSHORE_MEMORY_ALIAS="off", TASKS_ARE_COPIED="4")

    def test_inline_without_longshore(self):
        self.assertIn("tasks ran inline", self.run_program(2, "all", longshore=False))

    def test_pools_that_are_left_open(self):
        self.run_program(2, "leave")

    def test_a_job_of_one_rank_runs_inline_and_says_so(self):
        running = job.Job(self, 1, [PROGRAM, "all", self.folder], TASKS_ARE_INLINE="1")
        self.assertEqual(running.wait(60), 0, running.describe())
        self.assertIn("tasks run inside the program: the job runs with plain MPI, or has one rank", running.output)

    def test_cores_that_cannot_be_had(self):
        running = job.Job(self, 2, [PROGRAM, "all", self.folder], LONGSHORE_TASK_CORES="8191")
        self.assertEqual(running.wait(60), 2, running.describe())
        self.assertIn("LONGSHORE_TASK_CORES=8191: this job may use none of these cores", running.output)

    def wait_for_a_task_without_end(self, **settings):
        running = job.Job(self, 2, [PROGRAM, "hang", self.folder], LONGSHORE_WAIT_REPORT_S="1", **settings)
        self.wait_for(lambda: "wait_for_file in task_plugin.so, which has run for" in running.output, running.describe)
        self.assertIsNone(running.process.poll())
        (self.folder / "go").touch()
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.check_nothing_left()

    def test_a_task_that_does_not_end_is_reported_and_waited_for(self):
        self.wait_for_a_task_without_end()

    # Pools on another node. Nodes of one machine are as far from each other as others: what goes between them is on a stream.

    def test_on_the_next_node(self):
        for more in ({}, {"LONGSHORE_TASK_PROCESSES": "1"}, {"LONGSHORE_MEMORY_ALIAS": "off"}):
            with self.subTest(**more):
                self.run_program(4, "all", nodes=2, TASKS_ARE_COPIED="3", **FAR, **more)

    def test_on_a_node_by_number(self):
        """The ranks there have their tasks on their own node."""
        (self.folder / "go").touch()
        self.assertIn("tasks ran in task processes", self.run_program(2, "hang", nodes=2, LONGSHORE_TASK_NODE="1"))

    def test_a_task_on_another_node_that_does_not_end_is_reported_and_waited_for(self):
        self.wait_for_a_task_without_end(nodes=2, **FAR)

    def test_eight_are_on_their_way_to_another_node(self):
        self.run_program(2, "ahead", nodes=2, **FAR)

    def test_what_is_printed_on_another_node_is_seen(self):
        running = job.Job(self, 2, [PROGRAM, "print", self.folder], nodes=2, **FAR)
        self.wait_for(lambda: "task_plugin.so on node 1, for node 0, prints: line 1" in running.output, running.describe)
        (self.folder / "go").touch()
        self.assertEqual(running.wait(60), 0, running.describe())
        self.check_nothing_left()

    def test_nodes_that_are_not_there(self):
        for node, why in (("7", "the job has no such node"), ("nowhere", "the job has no such node")):
            running = job.Job(self, 2, [PROGRAM, "all", self.folder], nodes=2, LONGSHORE_TASK_NODE=node)
            self.assertEqual(running.wait(60), 2, running.describe())
            self.assertIn(f"LONGSHORE_TASK_NODE={node}: {why}", running.output)

    def test_tasks_are_not_sent_in_the_clear_where_all_is_encrypted(self):
        running = job.Job(self, 2, [PROGRAM, "all", self.folder], nodes=2, LONGSHORE_NETWORK_SECURITY="tls", **FAR)
        self.assertEqual(running.wait(60), 2, running.describe())
        self.assertIn("LONGSHORE_NETWORK_SECURITY=tls wants all to be", running.output)

    def test_killed_task_processes_of_another_node(self):
        self.kill_tasks(2, 3, role=b"guest", nodes=2, **FAR)

    def test_killed_carriers(self):
        self.kill_tasks(2, 4, role=b"carrier", nodes=2, **FAR)

    def test_a_supervisor_of_another_node_that_is_killed(self):
        """The task that has begun fails, and none after it hangs."""
        running = job.Job(self, 2, [PROGRAM, "hang", self.folder], nodes=2, LONGSHORE_WAIT_REPORT_S="1", LONGSHORE_LIMIT_S="10", **FAR)
        self.wait_for(lambda: "which has run for" in running.output, running.describe)
        other = [pid for pid in self.services(b"guest") if job.words_of(pid)[-3:-1] == [b"for", b"0"]]
        self.assertEqual(len(other), 1)
        status = pathlib.Path(f"/proc/{other[0]}/status").read_text()
        os.kill(int(status.split("PPid:")[1].split()[0]), signal.SIGKILL)
        self.wait_for(lambda: "was lost while it ran 'wait_for_file'" in running.output, running.describe)
        self.end_everything()
        running.wait(60)

    def kill_tasks(self, ranks, seed, role=b"task", **settings):
        draw = random.Random(seed)
        running = job.Job(self, ranks, [PROGRAM, "steady", self.folder], LONGSHORE_SERVICE_RESTARTS_MAX="1000", **settings)

        def progress():
            files = [self.folder / f"progress.{rank}" for rank in range(ranks)]
            return [int(file.read_text().split()[0]) if file.exists() else 0 for file in files]

        def wait_for_rounds(more):
            # One after the other: how long many take on a machine that is busy is nobody's promise.
            first = max(progress())
            for wanted in range(first + 1, first + more + 1):
                self.wait_for(lambda: min(progress()) >= wanted or running.process.poll() is not None, running.describe)
        killed = []
        for _ in range(int(os.environ.get("LONGSHORE_INTERNAL_TEST_MOMENTS", "6"))):
            wait_for_rounds(draw.randint(1, 20))
            # One that has been killed is listed until the system has ended it, and its successor a while later.
            own = self.wait_for(lambda: sorted(set(self.services(role)) - set(killed)), running.describe)
            killed.append(draw.choice(own))
            os.kill(killed[-1], signal.SIGKILL)
        wait_for_rounds(3)
        (self.folder / "stop").touch()
        self.assertEqual(running.wait(60), 0, running.describe())
        self.assertIn("all checks passed", running.output)
        self.assertEqual(running.output.count("it is started again"), len(killed), running.output)
        self.check_nothing_left()

    def test_killed_task_processes(self):
        self.kill_tasks(2, 1)

    def test_killed_task_process_of_all_ranks(self):
        self.kill_tasks(3, 2, LONGSHORE_TASK_PROCESSES="1")

    def test_a_pool_whose_process_is_not_started_again(self):
        running = job.Job(self, 2, [PROGRAM, "hang", self.folder], LONGSHORE_SERVICE_RESTARTS_MAX="0",
                          LONGSHORE_TASK_PROCESSES="1", LONGSHORE_WAIT_REPORT_S="1")
        self.wait_for(lambda: "which has run for" in running.output, running.describe)
        for pid in self.services(b"task"):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(running.wait(job.BUSY_S), 1, running.describe())
        self.assertIn("was lost (signal 9", running.output)
        self.check_nothing_left()

    def test_a_supervisor_that_is_killed(self):
        running = job.Job(self, 2, [PROGRAM, "hang", self.folder], LONGSHORE_WAIT_REPORT_S="1")
        self.wait_for(lambda: "which has run for" in running.output, running.describe)
        for pid in self.services(b"supervisor"):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(running.wait(job.BUSY_S), 1, running.describe())
        self.assertIn("the supervisor of its task process has ended", running.output)
        self.check_nothing_left()
