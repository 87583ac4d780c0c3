"""Tests of timeline.py and what it is made of."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import xml.etree.ElementTree

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/tools")
sys.dont_write_bytecode = True
sys.path.insert(0, TOOLS)
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import timeline  # noqa: E402
import timeline_lanes  # noqa: E402
import timeline_svg  # noqa: E402
from sample_trace import make_trace  # noqa: E402


@contextlib.contextmanager
def trace_file(content):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        yield path


def event(tid, cat, ts, dur, name="x"):
    return {"ph": "X", "pid": 0, "tid": tid, "cat": cat, "ts": ts, "dur": dur, "name": name}


def lane_name(tid, name):
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": {"name": name}}


class Segments(unittest.TestCase):
    def test_a_copy_inside_a_wait_is_seen(self):
        segments = timeline_lanes.flatten([(0, 10, "wait", "w"), (3, 5, "move", "m")])
        self.assertEqual(segments, [(0, 3, "wait", "w"), (3, 5, "move", "m"), (5, 10, "wait", "w")])

    def test_empty_events_vanish(self):
        self.assertEqual(timeline_lanes.flatten([(1, 1, "post", "p")]), [])

    def test_neighbours_stay_apart(self):
        self.assertEqual(len(timeline_lanes.flatten([(0, 1, "move", "a"), (1, 2, "move", "b")])), 2)

    def test_bins_keep_the_time(self):
        bins = timeline_lanes.bins_of([(0, 4, "move", ""), (4, 10, "wait", "")], 0, 10, 3)
        self.assertAlmostEqual(sum(one["move"] for one in bins) / 3, 0.4)
        self.assertAlmostEqual(sum(one["wait"] for one in bins) / 3, 0.6)
        self.assertAlmostEqual(sum(bins[0].values()), 1)

    def test_shares_of_a_part(self):
        share = timeline_lanes.shares([(0, 4, "move", ""), (6, 10, "wait", "")], 2, 10)
        self.assertAlmostEqual(share["move"], 0.25)
        self.assertAlmostEqual(share["wait"], 0.5)
        self.assertAlmostEqual(share["idle"], 0.25)


class Lanes(unittest.TestCase):
    def test_gaps_of_ranks_are_computing_those_of_services_idle(self):
        trace = [lane_name(0, "rank 0"), lane_name(1, "SP 0")]
        trace += [event(0, "post", 100, 10), event(0, "wait", 150, 10), event(1, "move", 110, 5), event(1, "move", 140, 5)]
        with trace_file(trace) as path:
            rank, service = timeline_lanes.load(path)
        self.assertEqual([s[2] for s in rank.segments], ["post", "compute", "wait"])
        self.assertEqual(rank.segments[0][0], 0)  # time begins with the first event
        self.assertEqual([s[2] for s in service.segments], ["move", "move"])

    def test_given_computing_is_kept(self):
        trace = [lane_name(0, "rank 0"), event(0, "post", 0, 1), event(0, "compute", 2, 3), event(0, "wait", 9, 1)]
        with trace_file({"traceEvents": trace}) as path:
            (rank,) = timeline_lanes.load(path)
        self.assertEqual(timeline_lanes.shares(rank.segments, 0, 10)["compute"], 0.3)

    def test_order_is_by_node_then_ranks_then_number(self):
        trace = [lane_name(7, "SP 0"), lane_name(10, "rank 10"), lane_name(2, "rank 2")]
        with trace_file(trace + [event(t, "mpi", 0, 1) for t in (7, 10, 2)]) as path:
            self.assertEqual([lane.name for lane in timeline_lanes.load(path)], ["rank 2", "rank 10", "SP 0"])


    def test_a_wire_is_a_lane_below_all_others(self):
        def use(ts, percent, name="wire"):
            return {"ph": "C", "pid": 0, "tid": 0, "name": name, "ts": ts, "args": {"percent": percent}}

        trace = [lane_name(9, "SP 9"), event(9, "move", 100, 10), use(120, 0), use(100, 80), use(110, 40)]
        with trace_file(trace) as path:
            service, wire = timeline_lanes.load(path)
        self.assertEqual((service.name, wire.name), ("SP 9", "wire"))
        self.assertEqual(wire.use, [(0, 10, 80), (10, 20, 40)])
        self.assertEqual(timeline_lanes.mean_use(wire, 0, 20), 60)
        self.assertEqual(timeline_lanes.mean_use(wire, 5, 30), 160 / 3)  # what lies behind the last sample is not known
        self.assertEqual(timeline.letters_of(wire, 0, 20, 4), "8844")

    def test_a_read_under_way_is_seen_where_nothing_is_moved(self):
        trace = [lane_name(9, "SP 9"), event(9, "read", 0, 10), event(9, "move", 2, 3)]
        with trace_file(trace) as path:
            (service,) = timeline_lanes.load(path)
        self.assertEqual([s[:3] for s in service.segments], [(0, 2, "read"), (2, 5, "move"), (5, 10, "read")])


class Command(unittest.TestCase):
    def run_command(self, *arguments, content=None):
        with trace_file(make_trace(late=True) if content is None else content) as path:
            script = os.path.join(TOOLS, "timeline.py")
            return subprocess.run([sys.executable, script, path, *arguments], capture_output=True, text=True)

    def test_text(self):
        result = self.run_command("--text", "--width", "100", "--title", "Sample")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "Sample")
        self.assertTrue(any(line.startswith("rank 3") for line in lines))
        service = next(line for line in lines if line.startswith("SP 0"))
        self.assertIn("####", service)
        self.assertTrue(all(len(line) <= 104 for line in lines), max(len(line) for line in lines))

    def test_text_fits_the_terminal(self):
        terminal, other_end = pty.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        kinds = ["mpi", "post", "wait", "test", "move", "read"]
        content = [lane_name(0, "rank 0"), *(event(0, kind, 20 * i, 10) for i, kind in enumerate(kinds))]
        with trace_file({"traceEvents": content}) as path:
            # No COLUMNS: what the terminal says counts.
            environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
            done = subprocess.run([sys.executable, os.path.join(TOOLS, "timeline.py"), path], stdout=other_end,
                                  stderr=subprocess.PIPE, env=environment, text=True, check=False)
        os.close(other_end)
        text = os.read(terminal, 65536).decode().replace("\r\n", "\n")
        os.close(terminal)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        self.assertIn("other MPI", text)
        self.assertIn("' ' idle", text)

    def test_a_pager_that_is_left(self):
        content = [lane_name(0, "rank 0"), event(0, "wait", 0, 10)]
        reader, writer = os.pipe()
        os.close(reader)
        with trace_file({"traceEvents": content}) as path:
            done = subprocess.run([sys.executable, os.path.join(TOOLS, "timeline.py"), path], stdout=writer,
                                  stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (128 + signal.SIGPIPE, ""))

    def test_a_full_disk_is_said(self):
        with trace_file({"traceEvents": [lane_name(0, "rank 0"), event(0, "wait", 0, 10)]}) as path, open("/dev/full", "w") as full:
            done = subprocess.run([sys.executable, os.path.join(TOOLS, "timeline.py"), path], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "longshore timeline: the output could not be written: No space left on device\n"))

    def test_time_in_other_mpi_is_told(self):
        content = [lane_name(0, "rank 0"), event(0, "mpi", 0, 30, "MPI_Barrier"), event(0, "post", 90, 10)]
        with trace_file({"traceEvents": content}) as path:
            lanes = timeline_lanes.load(path)
        text = timeline.draw_text([("", lanes)], 0, 100, 100, "").splitlines()
        self.assertEqual(text[0].split(), ["compute", "post", "wait", "move", "MPI"])
        self.assertEqual(text[1].split("|")[2].split(), "60.0 % 10.0 % 0.0 % 0.0 % 30.0 %".split())
        self.assertEqual(timeline_lanes.summary(lanes[0], 0, 100), "computes 60 %, waits 0 %, other MPI 30 %")

    def test_time_in_tests_is_told_apart(self):
        content = [lane_name(0, "rank 0"), event(0, "test", 0, 20, "MPI_Testany"), event(0, "move", 5, 10), event(0, "mpi", 40, 10),
                   event(0, "post", 90, 10)]
        with trace_file({"traceEvents": content}) as path:
            lanes = timeline_lanes.load(path)
        text = timeline.draw_text([("", lanes)], 0, 100, 100, "").splitlines()
        self.assertEqual(text[0].split(), ["compute", "post", "wait", "move", "test", "MPI"])
        # What a rank moves in a test is seen as moving.
        self.assertEqual(text[1].split("|")[2].split(), "60.0 % 10.0 % 0.0 % 10.0 % 10.0 % 10.0 %".split())
        self.assertIn("'t' testing", text[-1])
        self.assertEqual(timeline_lanes.summary(lanes[0], 0, 100), "computes 60 %, waits 0 %, tests 10 %, other MPI 10 %")

    def test_several_stand_on_one_scale(self):
        with trace_file([lane_name(0, "rank 0"), event(0, "wait", 7000, 1000)]) as short:
            with trace_file([lane_name(0, "rank 0"), event(0, "wait", 0, 2000)]) as long:
                script = os.path.join(TOOLS, "timeline.py")
                result = subprocess.run([sys.executable, script, short, long, "--label", "short", "--label", "long",
                                         "--width", "100"], capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stderr)
                first, second = [line.split("|")[1] for line in result.stdout.splitlines() if line.startswith("rank 0")]
                self.assertEqual((len(second), set(first + second)), (2 * len(first), {"."}))
                self.assertIn("\nlong ", result.stdout)
                result = subprocess.run([sys.executable, script, short, "--label", "a", "--label", "b"],
                                        capture_output=True, text=True)
                self.assertNotEqual(result.returncode, 0)

    def test_a_part(self):
        self.assertEqual(self.run_command("--text", "--from", "0.1", "--to", "0.5").returncode, 0)
        self.assertNotEqual(self.run_command("--text", "--from", "900").returncode, 0)

    def test_svg_needs_no_matplotlib(self):
        with tempfile.TemporaryDirectory() as folder:
            # Found first, and refused as one that is not there would be.
            with open(os.path.join(folder, "matplotlib.py"), "w") as file:
                file.write("raise ImportError")
            picture = os.path.join(folder, "p.svg")
            with trace_file(make_trace(late=True)) as path:
                script = os.path.join(TOOLS, "timeline.py")
                words = [sys.executable, script, path, "-o"]
                environment = os.environ | {"PYTHONPATH": folder}
                result = subprocess.run([*words, picture], capture_output=True, text=True, env=environment)
                self.assertEqual(result.returncode, 0, result.stderr)
                root = xml.etree.ElementTree.parse(picture).getroot()
                self.assertTrue(root.tag.endswith("svg"))
                said = [element.text for element in root.iter() if element.tag.endswith("text")]
                for words_said in ("rank 3", "SP 0", "waiting", "ms"):
                    self.assertIn(words_said, said)
                self.check_room(root)
                result = subprocess.run([*words, os.path.join(folder, "no", "p.svg")], capture_output=True, text=True,
                                        env=environment)
                self.assertEqual(result.returncode, 1)
                self.assertIn("cannot be written", result.stderr)
                self.assertNotIn("Traceback", result.stderr)
                result = subprocess.run([*words, os.path.join(folder, "p.png")], capture_output=True, text=True, env=environment)
                self.assertEqual(result.returncode, 125)
                self.assertIn("longshore timeline: a picture needs matplotlib", result.stderr)

    def test_svg_of_a_run_ends_where_that_does(self):
        """Beside a longer one it is not idle until the end of that."""
        panels = []
        for length in (40, 100):
            with trace_file([lane_name(0, "SP 0"), event(0, "move", 0, 10), event(0, "move", length - 10, 10)]) as path:
                panels.append((f"{length}", timeline_lanes.load(path)))
        root = xml.etree.ElementTree.fromstring(timeline_svg.svg(panels, 0.0, 100.0))
        short, long = [float(element.get("width")) for element in root.iter()
                       if element.tag.endswith("rect") and element.get("fill") == timeline_lanes.KINDS["idle"][1] and
                       element.get("height") == "18.00"]
        self.assertAlmostEqual(short / long, 0.4, delta=0.001)

    def check_room(self, root):
        """Words beside the bars end within the picture: at 7 pixels a letter, that of a wide font of this size."""
        width = float(root.get("viewBox").split()[2])
        texts = [element for element in root.iter() if element.tag.endswith("text")]
        self.assertGreater(max(len(element.text) for element in texts), 25)
        for element in texts:
            room = {"start": width - float(element.get("x")), "end": float(element.get("x"))}.get(element.get("text-anchor"))
            self.assertTrue(room is None or room >= 7 * len(element.text), (element.text, room))

    def test_what_is_no_trace_is_refused(self):
        result = self.run_command(content={"something": 1})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("not a trace that can be read: make one with 'longshore run --trace FILE COMMAND'", result.stderr)

    def test_pictures(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib")
        with tempfile.TemporaryDirectory() as folder:
            for name, rounds in (("few.png", 2), ("few.svg", 2), ("many.png", 300)):
                path = os.path.join(folder, name)
                result = self.run_command("-o", path, content=make_trace(ranks=4, rounds=rounds))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertGreater(os.path.getsize(path), 5000)
            wire = [{"ph": "C", "pid": 0, "tid": 0, "name": "wire", "ts": ts, "args": {"percent": 50}}
                    for ts in (5e6, 5e6 + 500)]
            with trace_file({"traceEvents": make_trace()["traceEvents"] + wire}) as other:
                result = self.run_command(other, "--label", "one", "--label", "two", "-o", path)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_no_picture_replaces_another(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.realpath(os.path.join(folder, "a.svg"))
            titles = ["before", "between", "after"]
            for title in titles:
                said = self.run_command("-o", path, "--title", title, content=make_trace()).stderr
            self.assertEqual(said, f"longshore: {path} was there already: that file is now {path}.old.2\n")
            self.assertEqual(sorted(os.listdir(folder)), ["a.svg", "a.svg.old", "a.svg.old.2"])
            for name, title in zip((path + ".old", path + ".old.2", path), titles):
                with open(name, encoding="utf-8") as file:
                    text = file.read()
                self.assertEqual([one for one in titles if one in text], [title], name)
            null = os.path.join(folder, "null.svg")
            os.symlink("/dev/null", null)
            self.assertEqual(self.run_command("-o", null, content=make_trace()).stderr, "")
            self.assertTrue(os.path.islink(null))
