"""Programs with many threads under the thread sanitizer: shim, host library and service processes are built with it, the
MPI is not, so what it alone orders is taken for no race only where our own words order it as well."""

import os
import subprocess

import job

TSAN = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True).stdout.strip()
OPTIONS = ("ignore_noninstrumented_modules=1", "exitcode=66", "report_signal_unsafe=0",
           "die_after_fork=0")  # jobs start their service processes from a program with threads


class Races(job.JobTest):
    def check_clean(self, *words, nodes=0, **settings):
        log = self.folder / f"race-{len(os.listdir(self.folder))}"
        running = job.Job(self, 2, [self.program(words[0]), *words[1:]], nodes=nodes, preload=(TSAN, job.SHIM),
                          TSAN_OPTIONS=":".join([*OPTIONS, f"log_path={log}"]), **settings)
        status = running.wait(120)
        reports = "".join(path.read_text() for path in self.folder.glob(log.name + ".*"))
        self.assertEqual(reports, "", running.describe())
        self.assertEqual(status, 0, running.describe())
        self.assertNotIn("plain MPI", running.output)
        self.check_nothing_left()

    def test_threads(self):
        for _ in range(3):
            self.check_clean("threads")

    def test_threads_on_two_nodes(self):
        self.check_clean("threads", nodes=2)

    def test_threads_that_the_program_has_not_asked_for(self):
        self.check_clean("threads", "unasked", OMPI_MPI_THREAD_LEVEL="3",
                         MPIR_CVAR_DEFAULT_THREAD_LEVEL="MPI_THREAD_MULTIPLE")

    def test_threads_one_at_a_time(self):
        self.check_clean("threads", "serialized")

    def test_persistent_requests(self):
        self.check_clean("persistent")

    def test_many_operations_at_a_time(self):
        """Beyond eight of them the shim has a thread of its own with some MPIs."""
        self.check_clean("stress", "1", "60")

    def test_crowd_of_threads(self):
        """Eleven of each rank make communicators, call on them and wait for each other's requests."""
        for nodes in (0, 2):
            with self.subTest(nodes=nodes):
                self.check_clean("crowd", "1", "50", nodes=nodes)
