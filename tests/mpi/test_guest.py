"""Longshore as a guest in somebody's job: it shows no child, keeps no pipe open, and where the machine forbids what it
needs the job runs on plain MPI with one warning."""

import json
import os
import subprocess

import job


class Guest(job.JobTest):
    def offloaded(self, path):
        with open(path, encoding="utf-8") as file:
            return sum(call["offloaded"] for call in json.load(file)["collectives"].values())

    def test_no_child_is_seen(self):
        stats = self.folder / "stats.json"
        running = job.Job(self, 2, [self.program("guest")], LONGSHORE_STATS=stats)
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.assertGreater(self.offloaded(stats), 0)
        self.check_nothing_left()

    def test_relative_paths(self):
        stats = self.folder / "stats.json"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        words = [*job.mpirun(2), "env", "LD_PRELOAD=lib/liblongshore.so", f"LONGSHORE_STATS={stats}",
                 *(f"{k}={v}" for k, v in job.DIRECT.items()), self.program("guest")]
        done = subprocess.run(words, env=environment, cwd=job.BUILD, capture_output=True, text=True, timeout=job.BUSY_S)
        self.assertEqual((done.returncode, done.stdout), (0, "guest: ok\n"), done.stderr)
        self.assertGreater(self.offloaded(stats), 0, done.stderr)

    def test_pipe_ends(self):
        # The service processes must not hold the job's output open: cat ends when the ranks have.
        line = (f"'{job.BUILD}/bin/longshore' run --set service_path='{self.longshored}' -- "
                f"{' '.join(job.mpirun(2))} '{self.program('guest')}' | cat")
        done = subprocess.run(["bash", "-c", "set -o pipefail; " + line], capture_output=True, text=True, timeout=job.BUSY_S)
        self.assertEqual((done.returncode, done.stdout), (0, "guest: ok\n"), line + done.stderr)
        self.check_nothing_left()

    def test_nothing_is_noticed(self):
        """The program's functions, handlers, names and infos see what they see under the MPI alone."""
        def seen(name, **more):
            folder = self.folder / name
            folder.mkdir()
            running = job.Job(self, 2, [self.program("unnoticed"), folder], **more)
            self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
            return [(folder / f"rank-{rank}").read_text().splitlines() for rank in range(2)]
        stats = self.folder / "stats.json"
        self.assertEqual(seen("with", LONGSHORE_STATS=stats), seen("without", preload=()))
        self.assertGreater(self.offloaded(stats), 0)
        self.check_nothing_left()

    def check_plain_mpi(self, running, stats, why):
        """The job runs on the MPI alone and says so once, with the cause and the remedy."""
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        warnings = [line for line in running.output.splitlines() if "longshore: " in line]
        self.assertEqual(len(warnings), 1, running.output)
        self.assertRegex(warnings[0], why)
        self.assertEqual(self.offloaded(stats), 0)
        self.check_nothing_left()

    def test_peer_copy_is_forbidden(self):
        launcher = job.BUILD / "tests" / "mpi" / "without_peer_copy"
        if subprocess.run([launcher, "true"]).returncode == 77:
            self.skipTest("no seccomp filters here")
        stats = self.folder / "stats.json"
        running = job.Job(self, 2, [self.program("collectives"), "1024"], before=[launcher], LONGSHORE_STATS=stats)
        self.check_plain_mpi(running, stats, "process_vm_readv.*forbidden.*ptrace.*plain MPI")

    def test_service_cannot_start(self):
        stats = self.folder / "stats.json"
        running = job.Job(self, 2, [self.program("collectives"), "1024"], LONGSHORE_STATS=stats,
                          LONGSHORE_SERVICE_PATH="/nonexistent/longshored")
        self.check_plain_mpi(running, stats, "/nonexistent/longshored.*plain MPI")

    def test_bad_settings(self):
        for setting, value, expected in (("LONGSHORE_STAT", "x", "LONGSHORE_STATS"),
                                         ("LONGSHORE_EAGER_BYTES", "lots", "LONGSHORE_EAGER_BYTES"),
                                         ("LONGSHORE_NODES_PLACEMENT", "stridded", "strided")):
            with self.subTest(setting=setting):
                running = job.Job(self, 2, [self.program("guest")], **{setting: value})
                self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
                self.assertIn(expected, running.output)
                self.assertEqual(running.output.count("the job goes on with plain MPI"), 1, running.output)
                running = job.Job(self, 2, [self.program("guest")], LONGSHORE_STRICT="1", **{setting: value})
                self.assertNotIn(running.wait(job.BUSY_S), (0, None), running.describe())
                self.assertEqual(running.output.count("the job ends here"), 1, running.output)
                self.check_nothing_left()
