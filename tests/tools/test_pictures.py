"""Pictures are there whole, or as they were before: whoever draws is stopped, by a signal, when half is written.

LONGSHORE_INTERNAL_TEST_SCRIPTS: where the command has its scripts, the build's share/longshore.
"""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = pathlib.Path(os.environ["LONGSHORE_INTERNAL_TEST_SCRIPTS"])
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None

# Read by Python before the script. Drawing ends in half a picture, and waits there.
HALF = """
import pathlib, sys, time

sys.path.insert(0, {scripts!r})
import timeline_svg


def wait():
    pathlib.Path('begun').touch()
    time.sleep(100)


def savefig(_, path, **__):
    pathlib.Path(path).write_text('half')
    wait()


timeline_svg.svg = lambda *_: wait()
if not {draws!r}:
    sys.modules['matplotlib'] = None  # it cannot be imported
else:
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.figure
    matplotlib.figure.Figure.savefig = savefig
"""
TRACE = {"traceEvents": [{"ph": "X", "pid": 0, "tid": 0, "name": "MPI_Ialltoall", "cat": "post", "ts": 5, "dur": 12, "args": {}},
                         {"ph": "X", "pid": 0, "tid": 0, "name": "MPI_Wait", "cat": "wait", "ts": 50, "dur": 12, "args": {}}]}
DPU_ROW = {"type": "row", "pattern": "gather", "assignment": "cyclic", "bytes": 4096, "hosts": 8, "nodes": 2, "workers": 1,
           "workers_per_node": 0.5, "mover": "process_vm", "reference_mean_us": 4, "pure_comm_mean_us": 4, "efficiency_paper": 50,
           "efficiency_code": 40, "efficiency_median": 110}
DEVICE = {"longshore_device": 1, "machine": {"processor": "P", "cores": 4, "sockets": 2, "date": "today"},
          "rows": [{"test": "memcpy", "unit": "GB/s", "bytes": 64, "threads": 1, "mean": 2, "samples": [2, 2]}]}


class Whole(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-test-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "drawn").mkdir()

    def write(self, name, *lines):
        (self.root / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return name

    def check(self, picture, script, *words):
        """The script draws `picture` in the folder drawn."""
        (self.root / "sitecustomize.py").write_text(HALF.format(scripts=str(SCRIPTS), draws=not picture.endswith(".svg")))
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        for number, before in ((signal.SIGTERM, None), (signal.SIGHUP, "whole"), (signal.SIGINT, "whole")):
            with self.subTest(signal=number.name):
                if before is not None:
                    (self.root / "drawn" / picture).write_text(before)
                begun = self.root / "begun"
                begun.unlink(missing_ok=True)
                drawing = subprocess.Popen([sys.executable, SCRIPTS / script, *words], cwd=self.root, env=environment, text=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                while not begun.exists() and drawing.poll() is None:
                    time.sleep(0.01)
                drawing.send_signal(number)
                said = drawing.communicate(timeout=60)[1]
                self.assertTrue(begun.exists(), said)
                self.assertEqual(drawing.returncode, 128 + number, said)
                self.assertRegex(said, "^longshore [a-z -]+: interrupted\n$")
                left = {path.name: path.read_text() for path in (self.root / "drawn").iterdir()}
                self.assertEqual(left, {} if before is None else {picture: before})

    def test_a_timeline_without_matplotlib(self):
        self.check("t.svg", "timeline.py", self.write("trace.json", TRACE), "-o", "drawn/t.svg")

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_a_timeline(self):
        self.check("t.png", "timeline.py", self.write("trace.json", TRACE), "-o", "drawn/t.png")

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_a_breakdown(self):
        row = {"type": "breakdown", "collective": "bcast", "bytes": 4096, "contender": "longshore", "ranks": 2, "total_median_us": 1}
        sys.path.insert(0, str(SCRIPTS))
        import breakdown
        row["stages_median_us"] = dict.fromkeys(breakdown.STAGES, 1)
        self.check("b.png", "breakdown.py", self.write("rows", {"type": "machine", "mpi": "Some MPI"}, row), "-o", "drawn/b.png")

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_dpu_bench(self):
        self.check("cyclic-efficiency-up-to-1wpn.png", "dpu_bench.py", self.write("rows", DPU_ROW), "-o", "drawn")

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_two_devices(self):
        self.check("d.png", "device.py", self.write("a.json", DEVICE), self.write("b.json", DEVICE), "drawn/d.png")

    @unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
    def test_one_device(self):
        self.check("d.png", "device.py", self.write("a.json", DEVICE), "drawn/d.png")


@unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib ('make venv')")
class Simulated(unittest.TestCase):
    def test_a_title_tells_variants_apart(self):
        sys.path.insert(0, str(SCRIPTS))
        import simulate
        values = {"pcie.rate": {"value": "13.92 GB/s", "source": "row 2"}, "link.rate": {"value": "18.6 GB/s", "source": "given on the command line"}}
        data = {"collective": "ialltoall", "nodes": 16, "ranks_per_node": 8, "handover": "as-built", "reads": 64, "memory": "staging",
                "algorithm": "direct", "groups": "world", "machine": {"name": "thor-bf3", "values": values}}
        self.assertEqual(simulate.title(data).split("\n")[1:], ["memory staging, link.rate 18.6 GB/s"])
        values |= {f"dpu.{number}": values["link.rate"] for number in range(3)}
        self.assertEqual(simulate.title(data | {"memory": "alias"}).split("\n")[1:], ["4 values of the machine changed"])
        self.assertNotIn("\n", simulate.title(data | {"memory": "alias", "machine": {"name": "thor-bf3", "values": {}}}))

    def test_shares_of_late_ranks(self):
        found = importlib.util.spec_from_file_location("papers", SOURCE / "lab/model/papers.py")
        papers = sys.modules["papers"] = importlib.util.module_from_spec(found)
        found.loader.exec_module(papers)
        experiments = [experiment for experiment in papers.EXPERIMENTS if experiment.say is papers.late]
        self.assertGreater(len(experiments), 10)
        result = papers.Result({"rows": [{"late": {"late": 1, "covered": 1, "ranks": 8}}, {"late": {"late": 3, "covered": 3, "ranks": 8}}]})
        self.assertIn("25.00 % (12.50 to 37.50)", papers.late(result))
        with tempfile.TemporaryDirectory(prefix="longshore-test-") as folder:
            picture = pathlib.Path(folder, "late.png")
            papers.draw_late([(experiment, result) for experiment in experiments], picture)
            self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")
