"""Pools of task processes on a DPU, where the DPU is this machine too (test_dpu.py).

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_dpu import BUILD, LIMIT_S, MPIS, Service, is_alive, job_users, words  # noqa: E402


def plugins_of(mpi):
    return (BUILD / f"tests/tasks/{mpi}").glob("*.so")


@unittest.skipUnless(job_users(BUILD), "not root, or the build folder is closed to others: no plug-in would be root's alone")
class TestTasks(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="longshore-test-dpu-tasks-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.plugins = self.folder / "plugins"
        self.plugins.mkdir()
        for plugin in plugins_of(MPIS[0]):
            shutil.copy(plugin, self.plugins)
            (self.plugins / plugin.name).chmod(0o755)
        # A program of its own, by which its processes are told from those of other tests.
        self.longshored = self.folder / "longshored"
        for part in (BUILD / "bin/longshored", *(BUILD / "lib").glob("longshore-*.so")):
            shutil.copy(part, self.folder)
        self.folder.chmod(0o755)  # task processes of the job's user look for a file here
        self.plugins.chmod(0o755)

    def guests(self, role=b"guest"):
        """{pid: user} of the task processes that carriers have, or of the carriers."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (os.readlink(folder / "exe") == str(self.longshored) and
                        (folder / "cmdline").read_bytes().split(b"\0")[:2] == [b"longshored:", role]):
                    status = (folder / "status").read_text(encoding="ascii")
                    found[int(folder.name)] = int(re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)[1])
        return found

    def service(self, folders=None):
        config = self.folder / "longshored.conf"
        config.write_text(f"task_folders = {self.plugins if folders is None else folders}\n", encoding="ascii")
        return Service("--config", config, *job_users(BUILD), longshored=self.longshored)

    def words(self, dpu, mode, mpi=MPIS[0], **settings):
        start = words(mpi, 2, "collectives", LONGSHORE_DPU=dpu.address,
                      **{"LONGSHORE_TASK_NODE": "dpu", "TASKS_ARE_INLINE": 0,
                         "LONGSHORE_SERVICE_PATH": self.longshored, **settings})
        return [*start[:-1], str(BUILD / f"tests/tasks/{mpi}/tasks_{mpi}"), mode, str(self.folder)]

    def run_program(self, dpu, mode, mpi=MPIS[0], **settings):
        return subprocess.run(self.words(dpu, mode, mpi, **settings), capture_output=True, text=True, timeout=LIMIT_S,
                              cwd=self.folder, check=False)

    @contextlib.contextmanager
    def hanging(self, dpu, **settings):
        """A job whose first rank waits for a task that ends when there is a file."""
        said = self.folder / "said"
        with open(said, "w", encoding="utf-8") as file, \
                subprocess.Popen(self.words(dpu, "hang", LONGSHORE_WAIT_REPORT_S=1, **settings), stdout=file, stderr=file,
                                 cwd=self.folder) as job:
            job.said = lambda: said.read_text(encoding="utf-8")
            try:
                self.wait_for(lambda: "which has run for" in job.said(), job.said)
                job.guests = self.guests()
                yield job
            finally:
                (self.folder / "go").touch()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    job.wait(LIMIT_S)
                job.kill()

    def wait_for(self, look, describe):
        end = time.monotonic() + LIMIT_S
        while not look():
            self.assertLess(time.monotonic(), end, describe())
            time.sleep(0.02)

    def kill_while_tasks_run(self, role, seed):
        """Some at random moments; the program fails what was lost, and goes on."""
        draw, said, moments, killed = random.Random(seed), self.folder / "said", 4, []

        def rounds():
            files = [self.folder / f"progress.{rank}" for rank in range(2)]
            return min(int(file.read_text(encoding="ascii").split()[0]) if file.exists() else 0 for file in files)

        def wait_for_rounds(job, more):
            wanted = rounds() + more
            self.wait_for(lambda: rounds() >= wanted or job.poll() is not None, lambda: said.read_text(encoding="utf-8"))

        with self.service() as dpu, open(said, "w", encoding="utf-8") as file, \
                subprocess.Popen(self.words(dpu, "steady", LONGSHORE_SERVICE_RESTARTS_MAX=1000), stdout=file, stderr=file,
                                 cwd=self.folder) as job:
            try:
                for _ in range(moments):
                    wait_for_rounds(job, draw.randint(1, 10))
                    self.wait_for(lambda: set(self.guests(role)) - set(killed), lambda: said.read_text(encoding="utf-8"))
                    killed.append(draw.choice(sorted(set(self.guests(role)) - set(killed))))
                    os.kill(killed[-1], signal.SIGKILL)
                wait_for_rounds(job, 3)
            finally:
                (self.folder / "stop").touch()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    job.wait(LIMIT_S)
                job.kill()
            text = said.read_text(encoding="utf-8")
            self.assertEqual(job.returncode, 0, text + dpu.said())
            self.assertIn("all checks passed", text)
            self.assertEqual(text.count("it is started again"), moments, text)
            self.wait_for(lambda: not self.guests(role), dpu.said)

    def test_killed_task_processes(self):
        self.kill_while_tasks_run(b"guest", 1)

    def test_killed_carriers(self):
        self.kill_while_tasks_run(b"carrier", 2)

    def test_a_task_that_does_not_end_is_reported_and_waited_for(self):
        with self.service() as dpu, self.hanging(dpu) as job:
            self.assertRegex(job.said(), r"wait_for_file in task_plugin\.so, which has run for")
            self.assertIsNone(job.poll())
            (self.folder / "go").touch()
            self.assertEqual(job.wait(LIMIT_S), 0, job.said())

    def test_every_kind_of_task(self):
        for mpi in MPIS:
            with self.subTest(mpi=mpi), self.service() as dpu:
                done = self.run_program(dpu, "all", mpi, TASKS_ARE_COPIED=3)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr + dpu.said())
                self.assertIn("all checks passed, tasks ran in task processes", done.stdout)
                self.wait_for(lambda: not self.guests(), dpu.said)

    def test_task_processes_have_the_job_s_user(self):
        with self.service() as dpu, self.hanging(dpu) as job:
            self.assertEqual(len(job.guests), 2)
            users = set(job.guests.values())
            self.assertEqual(len(users), 1)
            self.assertIn(users.pop(), range(70000, 71000))

    def test_plug_ins_that_could_be_another_s_are_not_loaded(self):
        plugin = self.plugins / "task_plugin.so"
        another = self.folder / "another"
        another.mkdir(mode=0o755)

        def link():
            plugin.rename(another / "real.so")
            plugin.symlink_to(another / "real.so")

        for what, change, why in (
                ("a file that others may write to", lambda: plugin.chmod(0o757), r"task_plugin\.so on the DPU is not root's alone \(user 0, mode 0757\)"),
                ("of another user", lambda: (plugin.chmod(0o755), os.chown(plugin, 12345, 0)), r"is not root's alone \(user 12345"),
                ("a folder that others may write to", lambda: (os.chown(plugin, 0, 0), self.plugins.chmod(0o777)), r"plugins on the DPU is not root's alone"),
                ("... or above it", lambda: (self.plugins.chmod(0o755), self.folder.chmod(0o775)), r"is not root's alone \(user 0, mode 0775\)"),
                ("a link", lambda: (self.folder.chmod(0o755), link()), "is no file, but a link"),
                ("none", plugin.unlink, r"the DPU has no task_plugin\.so in its folders of plug-ins")):
            with self.subTest(what), self.service() as dpu:
                change()
                done = self.run_program(dpu, "leave")
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, rf"on the DPU at [\d.:]+: .*{why}")

    def test_a_service_without_folders_runs_no_tasks(self):
        with self.service("") as dpu:
            done = self.run_program(dpu, "leave")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("takes no tasks of this job: task_folders of the DPU's service is not set", done.stderr)

    def test_a_task_process_that_is_killed_fails_its_task(self):
        with self.service() as dpu, self.hanging(dpu) as job:
            for pid in job.guests:
                os.kill(pid, signal.SIGKILL)
            self.wait_for(lambda: "was lost while it ran 'wait_for_file'" in job.said(), job.said)
            self.assertNotEqual(job.wait(LIMIT_S), 0)

    def test_tasks_go_on_when_the_standing_service_ends_and_are_lost_then(self):
        """What runs is not the service's; what is lost after it has no successor, and says so."""
        with self.service() as dpu, self.hanging(dpu, LONGSHORE_LIMIT_S=2) as job:
            dpu.process.kill()
            dpu.process.wait()
            self.assertTrue(all(map(is_alive, job.guests)))
            for pid in job.guests:
                os.kill(pid, signal.SIGKILL)
            self.wait_for(lambda: "was lost while it ran 'wait_for_file'" in job.said(), job.said)
            self.assertNotEqual(job.wait(LIMIT_S), 0)

    def test_nothing_goes_to_a_dpu_in_the_clear_where_all_is_to_be_encrypted(self):
        with self.service() as dpu:
            done = self.run_program(dpu, "leave", LONGSHORE_NETWORK_SECURITY="tls")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("LONGSHORE_NETWORK_SECURITY=tls wants all to be", done.stderr)

    def test_other_places_than_the_dpu_are_refused(self):
        with self.service() as dpu:
            done = self.run_program(dpu, "leave", LONGSHORE_TASK_NODE="next")
            self.assertIn("LONGSHORE_TASK_NODE=next: tasks of a job with LONGSHORE_DPU run on its DPU (dpu) alone", done.stderr)
            (self.folder / "go").touch()
            done = self.run_program(dpu, "hang", LONGSHORE_TASK_NODE="", TASKS_ARE_INLINE=1)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("with LONGSHORE_TASK_NODE=dpu alone", done.stderr)
