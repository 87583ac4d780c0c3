"""Programs that are linked to the library of a sanitizer, and programs under Valgrind."""

import json
import os
import re
import shutil
import subprocess

import job


class Sanitizers(job.JobTest):
    def run_job(self, *words, expect=0, **settings):
        """What a job of `longshore run` says, and how many of its calls were offloaded."""
        stats = self.folder / "stats.json"
        stats.unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
        done = subprocess.run([job.BUILD / "bin/longshore", "run", "--stats", stats, *job.mpirun(2), *map(str, words)],
                              env=kept | job.DIRECT | {"LONGSHORE_SERVICE_PATH": str(self.longshored), job.MARK: self.folder.name} | settings,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=4 * job.BUSY_S)
        self.assertEqual(done.returncode == 0, expect == 0, done.stdout)
        self.check_nothing_left()
        return done.stdout, sum(call["offloaded"] for call in json.loads(stats.read_text())["collectives"].values())

    def sanitized(self, sanitizer):
        program = self.program(f"sanitized_{sanitizer}")
        if not program.exists():
            self.skipTest(f"SKIP: the compiler has no {sanitizer} sanitizer")
        return program

    def test_addresses(self):
        # The MPIs' own leaks are not looked for.
        output, offloaded = self.run_job(self.sanitized("address"), ASAN_OPTIONS="detect_leaks=0")
        self.assertIn("sanitized: ok", output)
        self.assertNotIn("runtime does not come first", output)
        self.assertEqual(offloaded, 20)

    def test_what_addresses_are_there_for(self):
        output, _ = self.run_job(self.sanitized("address"), "overflow", expect=1, ASAN_OPTIONS="detect_leaks=0")
        self.assertIn("AddressSanitizer: heap-buffer-overflow", output)
        self.assertNotIn("sanitized: ok", output)

    def test_threads_and_undefined_behaviour(self):
        for sanitizer in ("thread", "undefined"):
            with self.subTest(sanitizer=sanitizer):
                # Of data races of the MPI nothing is to be said.
                output, offloaded = self.run_job(self.sanitized(sanitizer), TSAN_OPTIONS="report_bugs=0")
                self.assertIn("sanitized: ok", output)
                self.assertEqual(offloaded, 20)

    def test_valgrind_knows_what_was_received(self):
        if not shutil.which("valgrind"):
            self.skipTest("SKIP: no Valgrind ('make deps-test' installs it)")
        # Service processes write what is received: the rank does not.
        output, offloaded = self.run_job("valgrind", "--error-limit=no", self.program("sanitized_none"), LONGSHORE_WAIT_COOPERATIVE="off")
        self.assertIn("sanitized: ok", output)
        self.assertEqual(offloaded, 20)
        # The MPIs' own code is another matter.
        self.assertEqual(re.findall(r"\(sanitized\.cc:\d+\)|\(check\.h:\d+\)|GroupJoin|send_packet", output), [], output)
        # But what was not received is not known.
        output, _ = self.run_job("valgrind", "--error-limit=no", self.program("sanitized_none"), "unset", LONGSHORE_WAIT_COOPERATIVE="off")
        self.assertRegex(output, r"uninitialised value\(s\)\n.*\n?.*\(sanitized\.cc:\d+\)")
