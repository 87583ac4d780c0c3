"""What `longshore assess` concludes from runs whose times are made up, and that it stops where it must."""

import html.parser
import os
import shutil
import sys
import unittest

from support import SOURCE, CommandTest, write_program

sys.path.insert(0, str(SOURCE / "src" / "tools"))
import verdict  # noqa: E402

# Stands for a program under the shim: writes the statistics that the shim would, with a time taken from a list.
PROGRAM = """import json, os, pathlib, sys
off = os.environ.get("LONGSHORE_OFFLOAD") == "off"
count = pathlib.Path("count-" + ("off" if off else "on"))
turn = int(count.read_text()) if count.exists() else 0
count.write_text(str(turn + 1))
wall = float(sys.argv[1 if off else 2].split(",")[turn])
if wall < 0: sys.exit(9)
row = {"calls": 4, "offloaded": 0 if off else 4, "bytes": 8e6, "bytes_host": 0, "bytes_by_service": 3e6,
       "bytes_by_rank": 1e6, "bytes_hidden": 2e6, "posting_s": .1, "between_s": 1, "waiting_s": .2, "mpi_s": 0}
json.dump({"version": 3, "ranks": 2, "wall_s": wall, "share_in_collectives": .4, "advice": [] if off else ["leave a core"],
           "rank_times": [{"waiting_s": .1, "mpi_s": 0, "mpi_waits_s": .05, "uncarried_s": .3, "other_s": .123}] * 2, "collectives": {"MPI_Ialltoall": row}},
          open(os.environ["LONGSHORE_STATS"], "w"))
trace = os.environ.get("LONGSHORE_TRACE")
if trace:
    json.dump({"traceEvents": [{"ph": "M", "name": "thread_name", "pid": 0, "tid": 0, "args": {"name": "rank 0"}},
        {"ph": "X", "cat": "wait", "name": "MPI_Wait", "pid": 0, "tid": 0, "ts": 1, "dur": 5, "args": {}}]}, open(trace, "w"))
pathlib.Path("result").write_text("same" if len(sys.argv) < 4 or off else "other")
"""


class Page(html.parser.HTMLParser):
    """Which tags a page has, how they nest, and what it would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href")]

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Assess(CommandTest):
    def setUp(self):
        super().setUp()
        self.make_shim()
        data = self.root / "share" / "longshore"
        data.mkdir(parents=True)
        for name in ("assess.py", "verdict.py", "timeline.py", "timeline_svg.py"):
            shutil.copy(SOURCE / "src" / "tools" / name, data)
        write_program(self.root / "program.py", PROGRAM)

    def assess(self, without, longshore, *options, more=(), expect=0):
        for name in ("off", "on"):
            (self.root / f"count-{name}").unlink(missing_ok=True)
        return self.longshore("assess", *options, sys.executable, self.root / "program.py", without, longshore, *more,
                              expect=expect, PYTHONDONTWRITEBYTECODE="1")

    def test_verdicts(self):
        for without, longshore, wanted in (
                ("2,2.1,2", "1.5,1.6,1.5", "GAIN: with Longshore the program took 25 % less time"),
                ("2,2.1,2", "2.4,2.5,2.4", "LOSS: with Longshore the program took 20 % longer"),
                ("2,2.1,2", "2,2.1,2.01", "NO DIFFERENCE"),
                # Each turn is a gain, but one run without was as quick as one with.
                ("2,2.4,1.7", "1.8,2.0,1.6", "UNCERTAIN")):
            done = self.assess(without, longshore)
            self.assertIn(wanted, done.stdout)
            self.assertRegex(done.stdout, r"(?m)^MPI_Ialltoall +4 +4 +8.0 +50 % +0.150 +0.150$")
            self.assertRegex(done.stdout, r"(?m)^other MPI calls +0.423 +0.423$")
            self.assertIn("What would change it: leave a core.", done.stdout)
            self.assertIn("the other turns will take about", done.stderr)

    def test_one_turn_proves_nothing(self):
        done = self.assess("2", "1", "--turns", 1)
        self.assertIn("UNCERTAIN: one run of each kind, -50 % of time with Longshore", done.stdout)
        self.assertNotIn("GAIN", done.stdout)

    def test_the_order_changes(self):
        order = [line.split(", ")[1] for line in self.assess("2,2,2", "1,1,1").stderr.splitlines() if "turn " in line and " of 3" in line]
        self.assertEqual([word.split()[0] for word in order], ["without", "with", "with", "without", "without", "with"])

    def test_stops_at_a_failure(self):
        done = self.assess("2,-1,2", "1,1,1", expect=1)
        self.assertIn("run 2 without Longshore ended with exit code 9; stopped", done.stderr)
        self.assertEqual((self.root / "count-off").read_text(), "2")
        self.assertNotIn("GAIN", done.stdout)
        done = self.assess("2,2", "1,1", "--turns", 2, "--setup", "false", expect=1)
        self.assertIn("--setup 'false' failed before run 1", done.stderr)
        done = self.longshore("assess", "true", expect=1)
        self.assertIn("left no statistics", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_compares_files(self):
        self.assess("2,2", "1,1", "--turns", 2, "--compare", "result")
        done = self.assess("2,2", "1,1", "--turns", 2, "--compare", "result", more=["x"], expect=1)
        self.assertIn("result of run 1 with Longshore differs", done.stderr)
        self.assertIn("has not written it", self.assess("2", "1", "--turns", 1, "--compare", "none", expect=1).stderr)

    def test_folders_of_their_own(self):
        # Each folder is empty: the program always finds itself in its first run.
        self.assess("2,-1", "1,-1", "--turns", 2, "--folders")
        self.assertFalse((self.root / "count-off").exists())

    def test_page_fetches_nothing(self):
        for _ in range(2):
            self.assess("2,2.1,2", "1.5,1.6,1.5", "-o", "page.html", more=())
        text = (self.root / "page.html").read_text()
        self.assertTrue((self.root / "page.html.old").exists())
        page = Page()
        page.feed(text)
        self.assertEqual(page.open, [])
        self.assertEqual(page.fetched, [])
        self.assertEqual(page.tags.count("svg"), 2)
        self.assertNotIn("http", text)
        self.assertIn("GAIN: with Longshore the program took 25 % less time", text)

    def test_errors(self):
        self.assertIn("no COMMAND given", self.longshore("assess", expect=125).stderr)
        self.longshore("assess", "--turns", 0, "true", expect=125)
        self.assertIn("cannot be written", self.longshore("assess", "-o", "no/page.html", "true", expect=125).stderr)
        os.unlink(self.root / "share" / "longshore" / "assess.py")
        self.assertIn("is not there", self.longshore("assess", "true", expect=125).stderr)


class Verdict(unittest.TestCase):
    def test_one_turn_is_said(self):
        self.assertIn("one turn only", verdict.words(verdict.judge([2.0], [1.0]), "it"))

    def test_unrest_makes_it_uncertain(self):
        self.assertEqual(verdict.judge([2, 2], [1.8, 1.8], unrest=0.12)[0], "unsure")
        self.assertEqual(verdict.judge([2, 2], [1.8, 1.8], unrest=0.02)[0], "gain")


if __name__ == "__main__":
    unittest.main()
