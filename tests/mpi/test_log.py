"""What LONGSHORE_LOG says at each level, of the 64 calls of tests/mpi/named.cc on 4 ranks."""

import re

import job

CALLS = 64


class Log(job.JobTest):
    def lines(self, level, **settings):
        running = job.Job(self, 4, [self.program("named")], LONGSHORE_LOG=level, **settings)
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.assertIn("named: ok\n", running.output)
        return [line.removeprefix("longshore: ") for line in running.output.splitlines() if line.startswith("longshore: ")]

    def matching(self, pattern, lines):
        return [line for line in lines if re.search(pattern, line)]

    def test_a_warning_is_only_said_where_something_is_wrong(self):
        self.assertEqual(self.lines("warn"), [])

    def test_info_is_what_was_decided(self):
        lines = self.lines("info", nodes=2)
        self.assertEqual(lines[0], "offload is on: 4 ranks on 2 nodes, joined by shared memory; blocks go direct")
        self.assertRegex(lines[1], "^service process 0 of node 0 (runs on core [0-9]+, which no rank needs|has no core of its own)")
        self.assertRegex(lines[2], "^rules: built in; they see spare cores: (yes|no), crowded: (yes|no), rate: ")
        self.assertIn(" LONGSHORE_NODES_COUNT=2", lines[3])
        self.assertEqual(lines[4], f"{CALLS} of {CALLS} collective calls offloaded, 0.8 MB")
        self.assertEqual(len(lines), 6)

    def test_info_says_why_not(self):
        lines = self.lines("info", LONGSHORE_ALLTOALL_ALGORITHM="mpi")
        self.assertTrue(self.matching(f"^4 of {CALLS} collective calls offloaded, .* MB; left to MPI: 60 selected$", lines), lines)
        self.assertTrue(self.matching("^60 calls were left to the MPI: the table of rules gives them to the", lines), lines)
        lines = self.lines("info", LONGSHORE_OFFLOAD="off", LONGSHORE_STATS=self.folder / "stats.json")
        self.assertEqual(lines[0], "offload is off: LONGSHORE_OFFLOAD=off")
        self.assertEqual(lines[1:3], [f"0 of {CALLS} collective calls offloaded, 0.0 MB; left to MPI: {CALLS} offload", "  off"])

    def test_settings_that_are_refused_are_no_rank_s(self):
        """Rank 0 had read the level of the log before it refused another setting, and waited at the end for ranks that had not."""
        for level in ("info", "trace"):
            lines = self.lines(level, LONGSHORE_SERVICE_RESTARTS_MAX="1000000", LONGSHORE_STATS=self.folder / "stats.json")
            self.assertIn("LONGSHORE_SERVICE_RESTARTS_MAX=1000000 is not valid", lines[0])
            self.assertEqual(lines[1:], ["the job goes on with plain MPI"])
        self.assertFalse((self.folder / "stats.json").exists())

    def test_debug_is_each_call(self):
        lines = self.lines("debug")
        self.assertEqual(len(self.matching("^rank [0-3]: MPI_Alltoall on row of 2 ranks: 8192 bytes, direct$", lines)), 8)
        self.assertEqual(len(self.matching("^rank [0-3]: MPI_[A-Za-z]+ on .*: [0-9]+ bytes, direct$", lines)), CALLS)
        self.assertEqual(len(self.matching("^rank [0-3]: MPI_COMM_WORLD of 4 ranks on 1 node: is offloaded$", lines)), 4)
        self.assertEqual(self.matching(" complete after ", lines), [])
        lines = self.lines("debug", LONGSHORE_ALLTOALL_ALGORITHM="mpi")
        self.assertEqual(len(self.matching("^rank [0-3]: MPI_Alltoall on row of 2 ranks: left to the MPI: selected$", lines)), 8)

    def test_trace_is_also_its_end(self):
        lines = self.lines("trace")
        self.assertEqual(len(self.matching("^rank [0-3]: MPI_.*: complete after [0-9.]+ s$", lines)), CALLS)
