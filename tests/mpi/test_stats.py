"""What LONGSHORE_STATS says of a job: its figures add up, its times are where the program spent them, and the text fits
a screen."""

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import unittest.mock

import job

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
CHOOSES_LOCALE = """#include <locale.h>
#include <stdio.h>
__attribute__((constructor)) static void choose(void) {
    setlocale(LC_ALL, "de_DE.UTF-8");
    printf("half: %.1f\\n", 0.5);
}
"""


class Stats(job.JobTest):
    def run_job(self, program, *words, ranks=2, **settings):
        running = job.Job(self, ranks, [self.program(program), *words], **settings)
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.assertIn(": ok\n", running.output, running.describe())
        return running

    def read(self, program, *words, **settings):
        path = self.folder / "stats.json"
        path.unlink(missing_ok=True)
        self.run_job(program, *words, LONGSHORE_STATS=path, **settings)
        return json.loads(path.read_text())

    def between(self, trace, name):
        """From the begins of a call to the begins of the waits for it, the next ones of their ranks, by the trace: seconds in all,
        and how many."""
        spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") in ("post", "wait")]
        seconds = []
        for lane in {event["tid"] for event in spans}:
            own = sorted((event for event in spans if event["tid"] == lane), key=lambda event: event["ts"])
            seconds += [(wait["ts"] - post["ts"]) * 1e-6 for post, wait in zip(own, own[1:])
                        if (post["cat"], post["name"], wait["cat"]) == ("post", name, "wait")]
        return sum(seconds), len(seconds)

    def test_figures_add_up(self):
        trace = self.folder / "trace.json"
        stats = self.read("at_once", LONGSHORE_TRACE=trace)
        # The program computes before it waits for its broadcasts, and not before it waits for its alltoalls.
        between_s = {name: stats["collectives"][name]["between_s"] for name in ("MPI_Ialltoall", "MPI_Ibcast")}
        self.assertGreaterEqual(between_s["MPI_Ibcast"], 2 * 20 * 0.020)
        self.assertGreater(between_s["MPI_Ialltoall"], 0)
        for name, seconds in between_s.items():
            most, calls = self.between(trace, name)
            self.assertEqual(calls, 2 * 20, name)
            self.assertLessEqual(seconds, most + 1e-6, name)
        self.assertEqual(stats["version"], 5)
        self.assertEqual(len(stats["rank_times"]), 2)
        self.assertTrue(0 < stats["share_in_collectives"] <= 1, stats)
        self.assertGreater(stats["wall_s"], 0)
        for name, row in stats["collectives"].items():
            if row["offloaded"] == 0:
                continue
            self.assertEqual(row["bytes_own"] + row["bytes_by_service"] + row["bytes_by_rank"], row["bytes"], name)
            self.assertLessEqual(row["bytes_hidden"], row["bytes_by_service"], name)
            self.assertGreater(row["posting_s"], 0, name)
            blocking = not name.startswith("MPI_I") and not name.endswith("_init")
            self.assertEqual(row["between_s"] == 0, blocking, (name, row))
            if blocking:
                self.assertEqual(row["bytes_hidden"], 0, name)
        calls = stats["collectives"]
        for what in ("waiting_s", "testing_s"):
            self.assertAlmostEqual(sum(rank[what] for rank in stats["rank_times"]), sum(row[what] for row in calls.values()), places=4)

    def test_every_name_in_the_file_is_explained(self):
        stats = self.read("named", ranks=4, LONGSHORE_NODES_COUNT=2)
        self.assertTrue(stats["services"] and stats["late"] and stats["communicators"])
        self.assertEqual(job.undocumented(stats), set())
        self.assertEqual(job.undocumented({"services": [{"unheard_of": 1}], "reasons": {"small": 1}}), {"unheard_of"})

    def test_tests_of_carried_requests_count_to_their_call(self):
        trace = self.folder / "trace.json"
        stats = self.read("at_once", LONGSHORE_TRACE=trace)
        calls = stats["collectives"]
        # The program tests its gathers alone. A rank may lose its core in a test behind the moment at which its gather was complete.
        self.assertEqual([name for name, row in calls.items() if row["testing_s"] > 0], ["MPI_Igather"])
        self.assertLess(calls["MPI_Igather"]["testing_s"], stats["wall_s"] * len(stats["rank_times"]))
        spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "test"]
        self.assertEqual({span["name"] for span in spans}, {"MPI_Test"})
        self.assertLessEqual(len(spans), 2 * 20 * 100)  # tests of one loop are one span, but where a rank lost its core
        # Without offload these are the MPI's own requests.
        stats = self.read("at_once", LONGSHORE_OFFLOAD="off")
        self.assertEqual([row["testing_s"] for row in stats["collectives"].values() if row["testing_s"]], [])
        self.assertGreater(sum(rank["mpi_tests_s"] for rank in stats["rank_times"]), 0)

    # Root could put a file in the place of /dev/null.
    def test_what_is_no_file_is_written_into(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, end)
        self.run_job("at_once", LONGSHORE_STATS=pipe)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertEqual(json.loads(os.read(end, 1 << 20))["version"], 5)

    def test_half_of_an_exchange_of_two_ranks_are_own_blocks(self):
        row = self.read("at_once")["collectives"]["MPI_Ialltoall"]
        self.assertEqual(2 * row["bytes_own"], row["bytes"])

    def test_without_offload_it_is_a_profile(self):
        stats = self.read("at_once", LONGSHORE_OFFLOAD="off")
        self.assertFalse(stats["offload"])
        self.assertEqual(sum(row["offloaded"] for row in stats["collectives"].values()), 0)
        self.assertGreater(stats["collectives"]["MPI_Ialltoall"]["mpi_s"], 0)
        self.assertGreater(sum(rank["mpi_waits_s"] for rank in stats["rank_times"]), 0)
        self.assertEqual(stats["advice"], ["offload was off: this is a profile of the MPI alone"])
        self.assertEqual(set(stats["collectives"]["MPI_Ialltoall"]["reasons"]), {"offload off"})

    def test_a_job_of_one_rank_says_that(self):
        running = self.run_job("at_once", ranks=1, LONGSHORE_STATS=self.folder / "stats.json")
        self.assertEqual(json.loads((self.folder / "stats.json").read_text())["advice"],
                         ["the job has one rank: this is a profile of the MPI alone"])
        self.assertNotIn("longshore: the launcher", running.output)

    def test_the_launcher_of_another_mpi_is_seen_behind_a_script(self):
        other = shutil.which("mpirun.mpich" if job.FLAVOUR.startswith("openmpi") else "mpirun.openmpi")
        if not other:
            self.skipTest("there is one MPI alone")
        script = self.folder / "script"
        script.write_text(f"#!/bin/sh\nexec {self.program('at_once')}\n")
        script.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, LONGSHORE_INTERNAL_TEST_MPIRUN=other), \
                unittest.mock.patch.object(job, "FLAVOUR", "mpich" if "mpich" in other else "openmpi"):
            running = job.Job(self, 2, [script], LONGSHORE_STATS=self.folder / "stats.json")
        # hydra ends a job of which a process has begun to speak to it and left without a farewell.
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.assertRegex(running.output, r"longshore: the launcher has started 2 processes \((PMI|OMPI_COMM_WORLD)_SIZE=2\), but each is a ")
        self.assertEqual(running.output.count("longshore: the launcher"), 1, running.output)
        self.assertEqual(json.loads((self.folder / "stats.json").read_text())["advice"],
                         ["the job has one rank of 2 processes: their launcher seems to be that of another MPI: "
                          "this is a profile of the MPI alone"])

    def test_a_decimal_comma(self):
        """Numbers in files and texts have a point, and settings that have one are understood, whatever locale the program chooses."""
        chooser = self.folder / "chooser.so"
        subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", chooser], input=CHOOSES_LOCALE, text=True, check=True)
        made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", self.folder / "de_DE.UTF-8"], capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"SKIP: localedef makes no locale: {made.stderr}")
        settings = {"LOCPATH": self.folder, "preload": (job.SHIM, chooser), "LONGSHORE_LINK_RATE": "2.5G", **self.by_tcp()}
        path, trace = self.folder / "stats.json", self.folder / "trace.json"
        running = self.run_job("at_once", LONGSHORE_STATS=path, LONGSHORE_TRACE=trace, nodes=2, **settings)
        self.assertIn("half: 0,5", running.output, "or it tests nothing")
        stats = json.loads(path.read_text())
        self.assertEqual(stats["conditions"]["rate"], "2.5G")
        self.assertGreater(stats["wall_s"], 0.001)
        self.assertLess(stats["wall_s"], job.BUSY_S)
        self.assertTrue(any(row["between_s"] % 1 for row in stats["collectives"].values()))
        spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        self.assertTrue(any(span["dur"] % 1 for span in spans))
        self.assertLess(max(span["ts"] + span["dur"] for span in spans), job.BUSY_S * 1e6)
        text = self.run_job("at_once", LONGSHORE_STATS="-", **settings).output
        lines = [line for line in text.splitlines() if line.startswith("longshore: ")]
        self.assertTrue(any(re.search(r"\d\.\d", line) for line in lines), text)
        self.assertEqual([line for line in lines if re.search(r"\d,\d", line)], [])

    def test_a_communicator_opts_out(self):
        """On all ranks, also where only one has asked for it; what is made from it has to ask again."""
        calls = self.read("opt_out")["collectives"]
        for name in ("MPI_Alltoall", "MPI_Allgather"):
            self.assertEqual((calls[name]["offloaded"], calls[name]["reasons"]), (0, {"communicator opted out": 2}), name)
        for name in ("MPI_Gather", "MPI_Scatter"):
            self.assertEqual((calls[name]["offloaded"], calls[name]["reasons"]), (2, {}), name)

    def test_calls_by_communicator(self):
        wanted = {("MPI_COMM_WORLD", 4): {"MPI_Alltoall": 1}, ("row", 2): {"MPI_Alltoall": 2, "MPI_Ibcast": 1},
                  ('a "column" of the grid, which has a lon', 2): {"MPI_Alltoall": 3}, ("", 4): {"MPI_Alltoall": 4},
                  ("copy", 4): {"MPI_Alltoall": 5}}
        for offload in ("on", "off"):
            with self.subTest(offload=offload):
                stats = self.read("named", ranks=4, LONGSHORE_OFFLOAD=offload)
                rows = {(row["name"], row["ranks"]): row["collectives"] for row in stats["communicators"]}
                self.assertEqual({key: {name: call["calls"] // 4 for name, call in calls.items()} for key, calls in rows.items()},
                                 wanted)
                # All calls stand in both tables, with their bytes and times.
                for name, call in stats["collectives"].items():
                    parts = [calls[name] for calls in rows.values() if name in calls]
                    for part in ("calls", "offloaded", "bytes", "bytes_host"):
                        self.assertEqual(sum(row[part] for row in parts), call[part], (name, part))
                    for part in ("posting_s", "between_s", "waiting_s", "mpi_s"):
                        self.assertAlmostEqual(sum(row[part] for row in parts), call[part], places=4, msg=(name, part))
                self.assertEqual(stats["collectives"]["MPI_Alltoall"]["offloaded"], 60 if offload == "on" else 0)

    def test_more_communicators_than_are_counted_apart(self):
        stats = self.read("named", "20", ranks=4)
        rows = {row["name"]: row["collectives"] for row in stats["communicators"]}
        self.assertEqual(len(rows), 16)
        self.assertEqual(rows["number 0"]["MPI_Alltoall"]["calls"], 4)
        self.assertEqual(rows["(others)"]["MPI_Alltoall"]["calls"], 4 * (20 - 10))

    def test_text_by_communicator(self):
        lines = self.run_job("named", ranks=4, LONGSHORE_STATS="-").output.splitlines()
        row = [line for line in lines if line.startswith("longshore: row ")]
        self.assertEqual(sorted(line.split()[3] for line in row), ["MPI_Alltoall", "MPI_Ibcast"], lines)
        heads = [line for line in lines if line.startswith("longshore: communicator ")]
        self.assertEqual({len(line) for line in row}, {len(heads[0])}, lines)
        self.assertLessEqual(max(len(line) for line in lines if line.startswith("longshore: ")), 80)

    def test_waits_in_the_mpi_stand_in_the_trace(self):
        trace = self.folder / "trace.json"
        self.run_job("at_once", LONGSHORE_OFFLOAD="off", LONGSHORE_TRACE=trace)
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertLessEqual({"MPI_Wait", "MPI_Waitall"}, {event["name"] for event in events if event.get("cat") == "mpi"})

    def test_a_trace_has_bytes_of_what_moves_alone(self):
        trace = self.folder / "trace.json"
        self.run_job("at_once", LONGSHORE_TRACE=trace)
        spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
        moves = [event for event in spans if event["cat"] in ("move", "read")]
        self.assertTrue(moves)
        self.assertTrue(all(event["args"]["bytes"] > 0 for event in moves), moves[:9])
        calls = [event for event in spans if event["cat"] in ("post", "wait")]
        self.assertTrue(calls)
        self.assertFalse([event for event in calls if "args" in event][:9])

    def test_text_fits_a_screen(self):
        output = self.run_job("at_once", LONGSHORE_STATS="-").output
        lines = [line for line in output.splitlines() if line.startswith("longshore: ")]
        self.assertLessEqual(len(lines), 40, output)  # with what is said of ranks that wait for a core
        table = [line for line in lines if ": MPI_" in line and line.endswith("0.000")]
        self.assertEqual(len(table), 5, output)
        heads = [line for line in lines if line.startswith("longshore: call ")]
        self.assertEqual({len(line) for line in table}, {len(line) for line in heads}, output)
        self.assertLessEqual(max(map(len, lines)), 80, output)
        for part in ("from MPI_Init to MPI_Finalize; MPI took", "MPI_Ialltoall ", "MB (10^6 bytes) "):
            self.assertIn(part, output)

    def test_files_have_names_of_the_job_and_replace_none(self):
        names = self.folder / "stats"
        names.mkdir()
        texts = []
        for _ in range(3):
            self.run_job("at_once", LONGSHORE_STATS=names / "%h-%j.json", SLURM_JOB_ID=77)
            texts.append(min(names.iterdir()).read_text())
        last, first, second = sorted(names.iterdir())
        self.assertTrue(last.name.endswith("-77.json"), last)
        self.assertEqual([path.name for path in (first, second)], [last.name + ".old", last.name + ".old.2"])
        self.assertEqual([path.read_text() for path in (first, second, last)], texts)

    def test_the_process_of_rank_0_and_its_host_in_a_name(self):
        script, pids = self.folder / "script", self.folder / "pids"
        script.write_text(f"#!/bin/sh\necho $$ >>{pids}\nexec {self.program('at_once')}\n")
        script.chmod(0o755)
        names = self.folder / "names"
        names.mkdir()
        running = job.Job(self, 2, [script], LONGSHORE_STATS=names / "%h-%p-%%.json", LONGSHORE_TRACE=names / "%p.json")
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        (process,) = (path.stem for path in names.iterdir() if path.stem.isdigit())
        self.assertIn(process, pids.read_text().split())
        self.assertEqual({path.name for path in names.iterdir()}, {f"{socket.gethostname()}-{process}-%.json", f"{process}.json"})
