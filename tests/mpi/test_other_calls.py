"""Calls that Longshore does not carry, as the statistics and the trace have them: counted once, with their time, also
where a profiling tool stands before or behind the shim, by PMPI, from Fortran, and within MPI-IO."""

import json
import re

import job

TOOL = job.BUILD / "tests" / "mpi" / job.FLAVOUR / "libmpi_tool.so"
RANKS = 2
COUNTS = {"MPI_Barrier": 4 * RANKS, "MPI_Allreduce": 5 * RANKS, "MPI_Send": 3, "MPI_Recv": 3, "MPI_Comm_split": RANKS,
          "MPI_Comm_free": RANKS, "MPI_Reduce": RANKS, "MPI_File_open": RANKS, "MPI_File_set_view": RANKS,
          "MPI_File_write_all": 3 * RANKS, "MPI_File_close": RANKS}


class OtherCalls(job.JobTest):
    def run_job(self, preload=(job.SHIM,), program="other_calls", words=None, **settings):
        words = [self.folder / "file"] if words is None else words
        running = job.Job(self, RANKS, [self.program(program), *words], preload=preload, **settings)
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.assertIn(": ok\n", running.output, running.describe())
        return running.output

    def read(self, **more):
        path = self.folder / "stats.json"
        path.unlink(missing_ok=True)
        output = self.run_job(LONGSHORE_STATS=path, **more)
        return json.loads(path.read_text()), output

    def check(self, stats, counts=COUNTS):
        self.assertEqual({name: call["calls"] for name, call in stats["other_calls"].items()}, counts)
        self.assertEqual({name for name, call in stats["other_calls"].items() if call["collective"]},
                         {"MPI_Barrier", "MPI_Allreduce", "MPI_Reduce"})

    def check_time(self, counted, measured, within=0):
        """The program has measured around its calls, so it says no less; a tool behind the shim within them: no more."""
        self.assertLessEqual(counted, measured + 1e-5)
        self.assertGreater(counted, 0)
        self.assertGreaterEqual(counted + 1e-5, within)

    @staticmethod
    def times(output):
        """By the program, and by the tool."""
        return ({name: float(seconds) for name, seconds in re.findall(r"(calls took|barriers) ([\d.]+) s", output)},
                {name: float(seconds) for name, seconds in re.findall(r"^tool took: (\w+) ([\d.]+) s$", output, re.M)})

    def test_each_counts_once(self):
        for offload in ("on", "off"):
            with self.subTest(offload=offload):
                stats, output = self.read(LONGSHORE_OFFLOAD=offload)
                self.check(stats)
                measured, _ = self.times(output)
                self.check_time(stats["other_calls"]["MPI_Barrier"]["s"], measured["barriers"])
                self.assertGreaterEqual(sum(rank["uncarried_s"] for rank in stats["rank_times"]) + 1e-5,
                                        stats["other_calls"]["MPI_Barrier"]["s"])
                # All that is counted lies within the program's calls: what MPI-IO calls itself counts in one place.
                # Its last reduction is not among what it has measured.
                whole = measured["calls took"] + stats["other_calls"]["MPI_Reduce"]["s"]
                counted = sum(sum(rank.values()) for rank in stats["rank_times"])
                self.check_time(counted, whole)
                counted += sum(row["posting_s"] for row in stats["collectives"].values())
                self.assertAlmostEqual(stats["share_in_mpi"], counted / RANKS / stats["wall_s"], places=2)

    def test_with_a_tool(self):
        alone = self.run_job(preload=[TOOL])
        tool = re.findall(r"^tool: .*$", alone, re.M)
        self.assertIn("tool: MPI_Barrier 6", tool)
        for way, preload in {"before": [TOOL, job.SHIM], "behind": [job.SHIM, TOOL]}.items():
            with self.subTest(way=way):
                stats, output = self.read(preload=preload)
                # The tool makes one call of its own.
                self.check(stats, COUNTS | {"MPI_Reduce": 2 * RANKS})
                self.assertEqual(re.findall(r"^tool: .*$", output, re.M), tool)
                if way == "behind":
                    measured, within = self.times(output)
                    others = stats["other_calls"]
                    self.check_time(others["MPI_Barrier"]["s"], measured["barriers"], within["MPI_Barrier"])
                    self.assertGreater(within["MPI_Barrier"], 0)
                    counted = sum(sum(rank.values()) for rank in stats["rank_times"])
                    self.assertGreaterEqual(counted + 1e-5, sum(within[name] for name in within.keys() & others.keys()))

    def test_fortran(self):
        for binding in ("mpifh", "module", "f08"):
            if not self.program(f"fortran_{binding}").exists():
                self.skipTest("the Fortran programs are not built (no gfortran)")
            with self.subTest(binding=binding):
                stats, _ = self.read(program=f"fortran_{binding}", words=["1024"])
                self.assertGreaterEqual(stats["other_calls"]["MPI_Allreduce"]["calls"], RANKS)
                self.assertEqual(stats["other_calls"]["MPI_Allreduce"]["calls"] % RANKS, 0)

    def test_trace(self):
        trace = self.folder / "trace.json"
        output = self.run_job(LONGSHORE_TRACE=trace, preload=[job.SHIM, TOOL])
        spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "mpi"]
        waits = [event for event in spans if event["name"] == "MPI_Barrier"]
        measured, within = self.times(output)
        self.check_time(sum(event["dur"] for event in waits) * 1e-6, measured["barriers"], within["MPI_Barrier"])

    def test_text(self):
        lines = self.run_job(LONGSHORE_STATS="-").splitlines()
        barrier = [line for line in lines if line.startswith("longshore: MPI_Barrier ")]
        self.assertEqual(len(barrier), 1, lines)
        named = [line for line in lines if line.startswith("longshore: collectives that Longshore does not carry: ")]
        self.assertEqual(len(named), 1, lines)
        self.assertIn("MPI_Barrier", named[0])
        self.assertLessEqual(max(len(line) for line in lines if line.startswith("longshore: ")), 80)

    def test_a_program_with_nothing_to_offload_is_told_so(self):
        nothing = "longshore: nothing was offloaded, and nothing can be gained by offloading today: "
        for settings, reason in (({"LONGSHORE_STATS": "-"}, r"its collective is MPI_Allreduce \(800 calls, [\d.]+ s of each rank, [\d.]+ % of "
                                                            r"the time\), which the MPI serves$"),
                                 ({"LONGSHORE_LOG": "info"}, "the program calls none of the collectives that Longshore carries")):
            output = self.run_job(program="reductions", words=[], **settings).replace("\nlongshore:   ", " ")
            self.assertEqual(output.count(nothing), 1, output)
            self.assertRegex(output, re.compile(re.escape(nothing) + reason, re.M))
            self.assertNotIn("collective calls offloaded", output)

    def test_nothing_is_changed_without_statistics(self):
        alone = self.run_job(preload=[TOOL])
        output = self.run_job(preload=[TOOL, job.SHIM])
        self.assertEqual(re.findall(r"^tool: .*$", output, re.M), re.findall(r"^tool: .*$", alone, re.M))
