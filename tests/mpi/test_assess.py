"""`longshore assess` of real jobs: what the shim counts is what the command reads."""

import os
import re
import subprocess

import job

RANKS = 2
CALLS = 20 * RANKS  # of each collective, at_once.cc


class Assess(job.JobTest):
    def assess(self, *command, options=()):
        """Its output, of one run without Longshore and one with; the runs write in the test's own folder."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
        done = subprocess.run([job.BUILD / "bin/longshore", "assess", "--turns", "1", *options, *map(str, command)], cwd=self.folder,
                              env=kept | job.DIRECT | {"LONGSHORE_SERVICE_PATH": str(self.longshored), job.MARK: self.folder.name},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * job.BUSY_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(list(self.folder.glob("assess-*")), [])
        self.check_nothing_left()
        return done

    def rows(self, done):
        """By call: what the table says of it, the seconds without and with Longshore last."""
        found = {}
        for line in done.stdout.splitlines()[1:]:
            if line.startswith("MB: "):
                return found
            name, *figures = re.split(r"  +", line)
            found[name] = figures
        self.fail(done.stdout)

    def test_a_job(self):
        done = self.assess(*job.mpirun(RANKS), self.program("at_once"), options=["-o", "page.html"])
        rows = self.rows(done)
        for call, calls in (("Ialltoall", CALLS), ("Ialltoallv", CALLS), ("Ibcast", CALLS), ("Iallgather", 2 * CALLS), ("Igather", CALLS)):
            self.assertEqual(rows[f"MPI_{call}"][:2], [str(calls)] * 2, done.stdout)
        for column in (-2, -1):
            times = [float(figures[column]) for figures in rows.values()]
            self.assertGreaterEqual(times[-1], CALLS / RANKS * 0.02)  # in which the program computes
            self.assertAlmostEqual(sum(times[:-1]), times[-1], delta=0.001 * len(times))
        page = (self.folder / "page.html").read_text()
        for text in ("without Longshore</text>", "with Longshore</text>", ">rank 0</text>", ">rank 1</text>", ">SP 0</text>"):
            self.assertIn(text, page)

    def test_a_program_that_can_gain_nothing(self):
        done = self.assess(*job.mpirun(RANKS), self.program("reductions"))
        self.assertRegex(done.stdout, r"Nothing was offloaded, and nothing can be gained by offloading today: its collective is MPI_Allreduce "
                                      rf"\({400 * RANKS} calls, [\d.]+ s of a rank\), which the MPI serves\.")
        self.assertNotIn("other calls than collectives", done.stdout)

    def test_a_script_of_two_jobs(self):
        script = self.folder / "script"
        script.write_text('"$@" && "$@"\n')
        done = self.assess("sh", script, *job.mpirun(RANKS), self.program("at_once"))
        self.assertIn("The command starts 2 MPI jobs, and their times are added up.", done.stdout)
        self.assertEqual(self.rows(done)["MPI_Ibcast"][:2], [str(2 * CALLS)] * 2)
        self.assertNotIn("was there already", done.stderr)
