"""Which algorithm carries a call: the table of rules and forced algorithms reach the shim of every rank, and the
statistics show it."""

import json
import os

import job

RANKS = 4
STILL_CLOCK = job.BUILD / "tests" / "mpi" / "libstill_clock.so"
TABLE = """\
bcast      bytes 0-1K  mpi      # and more:
bcast      bytes 1K-   staged-flat
alltoall   ppn 1   nodes 2-  staged
alltoall   ppn 1   nodes 1   mpi
alltoall   ppn 2-  nodes 1   direct
alltoall   ppn 2-  nodes 2-  mpi
allgather  nodes 1   staged-hierarchical
allgather  nodes 2-  direct
alltoallv  mpi
allgatherv direct
"""


class Select(job.JobTest):
    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def run_select(self, words=(), code=0, **settings):
        """The statistics of each MPI call, in calls per rank: {"MPI_Bcast": {"mpi": 2}}; the job's output."""
        stats = self.folder / "stats.json"
        running = job.Job(self, RANKS, words or [self.program("select")], nodes=2, forced={}, LONGSHORE_STATS=stats,
                          **{name: str(value) for name, value in settings.items()})
        status = running.wait(60)
        self.assertEqual(status == 0, code == 0, f"{status}\n{running.describe()}")
        if not stats.exists():  # settings that are not usable: nobody knows where to
            return None, running.output
        whole = json.loads(stats.read_text())
        calls, self.conditions = whole["collectives"], whole["conditions"]
        stats.unlink()
        for name, call in calls.items():
            self.assertEqual(sum(call["algorithms"].values()), call["calls"], name)
            self.assertEqual(call["algorithms"].get("mpi", 0), call["host"], name)
        self.reasons = {name: call["reasons"] for name, call in calls.items()}
        return {name: {algorithm: count / RANKS for algorithm, count in call["algorithms"].items()}
                for name, call in calls.items()}, running.output

    def by_table(self):
        return {"MPI_Bcast": {"mpi": 2, "staged-flat": 3}, "MPI_Ibcast": {"staged-flat": 1},
                "MPI_Alltoall": {"staged": 4, "direct": 1, "mpi": 1}, "MPI_Alltoallv": {"mpi": 1},
                "MPI_Allgather": {"staged-hierarchical": 5, "direct": 1}, "MPI_Allgatherv": {"direct": 1}}

    def built_in(self):
        """All blocks but one are small; small ones go to the MPI unless its waits keep the cores that others need."""
        crowded = not job.FLAVOUR.startswith("openmpi") and RANKS > os.cpu_count()
        large = {"MPI_Ibcast", "MPI_Alltoallv", "MPI_Allgatherv"}
        return {name: {"direct" if crowded or name in large else "mpi": sum(call.values())}
                for name, call in self.by_table().items()}

    def test_built_in(self):
        self.assertEqual(self.run_select()[0], self.built_in())

    def test_a_file(self):
        calls, output = self.run_select(LONGSHORE_ALGORITHMS_FILE=self.file("table", TABLE))
        self.assertEqual(calls, self.by_table(), output)
        self.assertEqual(self.reasons["MPI_Bcast"], {"small": 2 * RANKS})
        self.assertEqual(self.reasons["MPI_Alltoall"], {"selected": RANKS})
        self.assertEqual(self.reasons["MPI_Alltoallv"], {"selected": RANKS})
        self.assertNotIn("longshore:", output)

    def test_crowded(self):
        table = self.file("table", "bcast crowded no mpi\nbcast crowded yes staged-flat\n")
        crowded = not job.FLAVOUR.startswith("openmpi") and RANKS > os.cpu_count()
        calls, output = self.run_select(LONGSHORE_ALGORITHMS_FILE=table)
        self.assertEqual(calls["MPI_Bcast"], {"staged-flat" if crowded else "mpi": 5}, output)

    def test_form(self):
        table = self.file("table", "bcast form blocking staged-flat\nbcast form nonblocking staged-hierarchical\n")
        calls, output = self.run_select(LONGSHORE_ALGORITHMS_FILE=table)
        self.assertEqual(calls["MPI_Bcast"], {"staged-flat": 5}, output)
        self.assertEqual(calls["MPI_Ibcast"], {"staged-hierarchical": 1}, output)

    def test_the_first_rule_counts_whatever_was_called_before(self):
        for rules, expected in (("bytes 0-32K mpi\nbcast bytes 8K- direct\n", {"mpi": 6, "direct": 6}),
                                ("bytes 8K-32K staged-flat\nbcast bytes 0-64K mpi\nbcast direct\n",
                                 {"staged-flat": 3, "mpi": 6, "direct": 3})):
            table = self.file("table", "bcast " + rules)
            calls, output = self.run_select([self.program("select"), "order"], LONGSHORE_ALGORITHMS_FILE=table)
            self.assertEqual(calls["MPI_Bcast"], expected, output)

    def test_persistent_calls_are_nonblocking_ones(self):
        table = self.file("table", "allgather form blocking direct\nallgather form nonblocking staged-flat\n")
        calls, output = self.run_select([self.program("persistent")], LONGSHORE_ALGORITHMS_FILE=table)
        self.assertEqual(set(calls["MPI_Allgather_init"]) & {"direct", "staged-flat"}, {"staged-flat"}, output)

    def said(self, setting, first, others, **settings):
        """What all ranks go by when rank 0 and the others say different things of their nodes."""
        table = self.file("table", "bcast spare yes staged-flat\nbcast spare no staged-hierarchical\n"
                                   "alltoall rate unknown staged\nalltoall rate 0-2.5G mpi\nalltoall rate 2.5G- direct\n")
        calls, output = self.run_select(self.by_rank(setting, first, others), LONGSHORE_ALGORITHMS_FILE=table, **settings)
        for name in ("MPI_Bcast", "MPI_Alltoall"):
            self.assertEqual(len(calls[name]), 1, output)
        return next(iter(calls["MPI_Bcast"])), next(iter(calls["MPI_Alltoall"])), self.conditions

    def test_a_core_is_spare_if_it_is_on_all_nodes(self):
        for first, others, spare in ((1, 1, "yes"), (1, 0, "no"), (0, 1, "no"), (0, 0, "no")):
            bcast, _, conditions = self.said("LONGSHORE_INTERNAL_SPARE", first, others)
            self.assertEqual((bcast, conditions["spare"]),
                             ("staged-flat" if spare == "yes" else "staged-hierarchical", spare))

    def test_the_slowest_link_counts(self):
        rate, network = "LONGSHORE_INTERNAL_LINK_MBPS", self.by_tcp()
        for first, others, text, algorithm in ((10000, 2000, "2G", "mpi"), (2000, 10000, "2G", "mpi"),
                                               (10000, 25000, "10G", "direct"), (10000, 0, "unknown", "staged"),
                                               (0, 10000, "unknown", "staged")):
            _, alltoall, conditions = self.said(rate, first, others, **network)
            self.assertEqual((alltoall, conditions["rate"], conditions["network"]), (algorithm, text, "tcp"))
        _, alltoall, conditions = self.said(rate, 10000, 0, LONGSHORE_LINK_RATE="1.5G", **network)
        self.assertEqual((alltoall, conditions["rate"]), ("mpi", "1.5G"))

    def test_the_rate_of_rank_0_holds(self):
        _, alltoall, conditions = self.said("LONGSHORE_LINK_RATE", "100M", "40G", **self.by_tcp())
        self.assertEqual((alltoall, conditions["rate"]), ("mpi", "100M"))

    def test_without_a_network_there_is_no_rate(self):
        _, alltoall, conditions = self.said("LONGSHORE_INTERNAL_LINK_MBPS", 10000, 10000, LONGSHORE_LINK_RATE="1.5G")
        self.assertEqual((alltoall, conditions["rate"], conditions["network"]), ("staged", "unknown", "none"))

    def run_at_once(self, stats):
        running = job.Job(self, RANKS, [self.program("at_once")], nodes=2, preload=(job.SHIM, STILL_CLOCK),
                          LONGSHORE_STATS=str(stats))
        self.assertEqual(running.wait(60), 0, running.describe())
        return running

    def test_calls_that_are_waited_for_at_once(self):
        stats, calls = self.folder / "at_once.json", 20 * RANKS
        running = self.run_at_once(stats)
        cells = {cell["call"]: cell for cell in json.loads(stats.read_text())["waited_at_once"]}
        self.assertEqual(set(cells), {"MPI_Ialltoall", "MPI_Ialltoallv", "MPI_Ibcast", "MPI_Iallgather", "MPI_Igather"})
        for name, cell in cells.items():
            self.assertEqual((cell["nodes"], cell["ranks_per_node"]), (2, RANKS // 2), cell)
            self.assertEqual(cell["calls"], calls * (2 if name == "MPI_Iallgather" else 1), cell)
            self.assertEqual(cell["collective"], name.removeprefix("MPI_I"))
            self.assertEqual(cell["at_once"], calls if name.startswith("MPI_Ialltoall") else 0, cell)
        sizes = {"MPI_Ialltoall": RANKS, "MPI_Ibcast": 1, "MPI_Iallgather": RANKS, "MPI_Igather": RANKS}
        for name, blocks in sizes.items():
            first = blocks * 65536
            self.assertEqual((cells[name]["bytes_first"], cells[name]["bytes_last"]), (first, 2 * first - 1))
        self.assertNotIn("bytes_first", cells["MPI_Ialltoallv"])

    def test_they_are_told_in_a_line(self):
        running = self.run_at_once("-")
        calls = 20 * RANKS
        for name in ("MPI_Ialltoall", "MPI_Ialltoallv"):
            self.assertRegex(running.output, rf"(?m)^longshore: {name}: {calls} of {calls} calls were waited for at once$")
        self.assertEqual(running.output.count("'longshore tune --from-stats FILE'"), 1, running.output)
        self.assertEqual(running.output.count("waited for at once\n"), 2, running.output)

    def test_forced_algorithms(self):
        calls, _ = self.run_select(LONGSHORE_ALGORITHMS_FILE=self.file("table", TABLE),
                                   LONGSHORE_BCAST_ALGORITHM="mpi", LONGSHORE_ALLGATHER_ALGORITHM="staged-flat",
                                   LONGSHORE_ALLTOALLV_ALGORITHM="staged", LONGSHORE_ALLTOALL_ALGORITHM="")
        self.assertEqual(calls, self.by_table() | {
            "MPI_Bcast": {"mpi": 5}, "MPI_Ibcast": {"mpi": 1}, "MPI_Allgather": {"staged-flat": 6},
            "MPI_Alltoallv": {"staged": 1}})
        self.assertEqual(self.reasons["MPI_Bcast"], {"selected": 5 * RANKS})

    def by_rank(self, setting, first, others):
        """The program, with a setting that differs between rank 0 and the others."""
        script = (f'case "$OMPI_COMM_WORLD_RANK$PMI_RANK" in 0) {setting}="{first}";; *) {setting}="{others}";; esac; '
                  f'export {setting}; exec "{self.program("select")}"')
        return ["sh", "-c", script]

    def test_the_file_of_rank_0_holds(self):
        table, broken = self.file("table", TABLE), self.file("broken", "bcast nodes 0 mpi\n")
        other = self.file("other", "bcast mpi\nalltoall mpi\nallgather mpi\nallgatherv mpi\n")
        for others in (other, broken, self.folder / "missing"):
            calls, output = self.run_select(self.by_rank("LONGSHORE_ALGORITHMS_FILE", table, others))
            self.assertEqual(calls, self.by_table(), output)
            self.assertNotIn("longshore:", output)
        self.assertEqual(self.run_select(self.by_rank("LONGSHORE_BCAST_ALGORITHM", "", "mpi"))[0], self.built_in())

    def test_a_bad_file_is_said_once_and_not_applied(self):
        broken = self.file("broken", "bcast mpi\nalltoall  nodes 2- mpi\n")
        calls, output = self.run_select(LONGSHORE_ALGORITHMS_FILE=broken)
        self.assertIsNone(calls, output)
        self.assertEqual(output.count(f"longshore: LONGSHORE_ALGORITHMS_FILE: {broken}:2:1: alltoall has no rule for "
                                      "ppn 1, nodes 1, bytes 0-\n"), 1, output)
        self.assertIn("goes on with plain MPI", output)
        _, output = self.run_select(LONGSHORE_ALGORITHMS_FILE=broken, LONGSHORE_STRICT=1, code=1)
        self.assertIn("the job ends here", output)

    def test_a_bad_name_lists_the_valid_ones(self):
        calls, output = self.run_select(LONGSHORE_BCAST_ALGORITHM="staged")
        self.assertIsNone(calls, output)
        self.assertEqual(output.count("LONGSHORE_BCAST_ALGORITHM=staged is not valid: it must be mpi, direct, staged-flat "
                                      "or staged-hierarchical"), 1, output)

    def test_a_running_program_switches(self):
        calls, output = self.run_select([self.program("select"), "switch"], LONGSHORE_BCAST_ALGORITHM="staged-flat")
        self.assertEqual(calls, {"MPI_Bcast": {"staged-flat": 2, "mpi": 1, "staged-hierarchical": 4},
                                 "MPI_Ibcast": {"mpi": 1}}, output)
