"""The demo's words and its time line, of made-up figures. Measures nothing."""

import contextlib
import datetime
import io
import json
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src/tools"))
import demo_fft  # noqa: E402
import demo_report as report  # noqa: E402
import timeline  # noqa: E402
import timeline_lanes  # noqa: E402


def turn(host, longshore, computing=0.5, exchanges=1.0, longshore_exchanges=None, wire=(None, None)):
    """Of a transform's seconds by either contender."""
    def launch(transform, alone, percent):
        return {"seconds": {"transform": transform, "compute_alone": computing, "exchanges_alone": alone},
                "checksum": "1", "wire_percent": percent}

    return {"host": launch(host, exchanges, wire[0]),
            "longshore": launch(longshore, longshore_exchanges or exchanges, wire[1])}


def result(*turns, **more):
    return {"place": "here", "mpi": "Open MPI", "ranks": 2, "cores": 2, "own_cores": False, "drawn": 0,
            "turns": list(turns)} | more


STATS = {"collectives": {"alltoall": {"calls": 10, "offloaded": 7}, "bcast": {"calls": 5, "offloaded": 1}}}


def said(*results):
    """The verdict as one line."""
    return " ".join(" ".join(report.verdict_lines(STATS, results)).split())


class Verdict(unittest.TestCase):
    def test_gain(self):
        text = said(result(turn(1.4, 1.2), turn(1.5, 1.35), turn(1.4, 1.26)))
        self.assertIn("GAIN: with Longshore the transform took 10 % less time (turns: -14 % to -10 %).", text)
        # (0.5 + 1.0 - 1.4) / 0.5, (0.5 + 1.0 - 1.26) / 0.5
        self.assertIn("hid behind the other: 20 % by Open MPI alone, 48 % by Longshore.", text)
        self.assertNotIn("LOSS", text)

    def test_loss_is_said_as_plainly(self):
        text = said(result(turn(1.0, 1.05), turn(1.0, 1.04)))
        self.assertIn("LOSS: with Longshore the transform took 4 % longer (turns: +4 % to +5 %).", text)
        self.assertIn("Every core had a rank", text)
        self.assertNotIn("GAIN", text)

    def test_within_chance(self):
        for longshore in (0.971, 1.0, 1.029):
            text = said(result(turn(1.0, longshore)))
            self.assertIn("NO DIFFERENCE that can be told from chance", text)
            self.assertNotIn("GAIN", text)
            self.assertNotIn("LOSS", text)

    def test_turns_that_contradict_each_other(self):
        text = said(result(turn(1.0, 0.9), turn(1.0, 1.2), turn(1.0, 0.91)))
        self.assertIn("UNCERTAIN: with Longshore the transform took 9 % less time in the median (turns: -10 % to +20 %)", text)
        self.assertNotIn("GAIN", text)

    def test_turns_that_differ_by_more_than_the_gain(self):
        turns = [turn(1.0, longshore) for longshore in (0.96, 0.93, 0.85)]
        self.assertIn("UNCERTAIN: with Longshore the transform took 7 % less time", said(result(*turns)))
        turns = [turn(1.0, longshore) for longshore in (0.89, 0.89, 0.67)]  # each of them is a gain
        self.assertIn("GAIN: with Longshore the transform took 11 % less time (turns: -33 % to -11 %).", said(result(*turns)))
        turns = [turn(1.0, longshore) for longshore in (0.96, 0.93, 0.90)]
        self.assertIn("GAIN: with Longshore the transform took 7 % less time", said(result(*turns)))

    def test_a_gain_no_larger_than_the_unrest(self):
        noisy = turn(1.0, 0.93)
        noisy["longshore"]["seconds"]["compute_alone"] = 0.46
        self.assertIn("UNCERTAIN: with Longshore the transform took 7 % less time", said(result(noisy)))
        noisy["longshore"]["seconds"]["compute_alone"] = 0.48
        self.assertIn("GAIN: with Longshore the transform took 7 % less time", said(result(noisy)))

    def test_harm_is_no_overlap(self):
        text = said(result(turn(1.4, 1.6), turn(1.4, 1.7)))
        self.assertIn("20 % by Open MPI alone, none by Longshore (both together took longer than one after the other).", text)

    def test_no_share_passes_the_whole(self):
        text = said(result(turn(1.4, 0.9, longshore_exchanges=0.8), turn(1.4, 0.9, longshore_exchanges=0.8)))
        self.assertIn("all by Longshore (both together took less than the longer of them).", text)

    def test_faster_exchanges_are_not_overlap(self):
        text = said(result(turn(1.4, 1.2, longshore_exchanges=0.85), turn(1.4, 1.2, longshore_exchanges=0.85)))
        self.assertIn("even with nothing computed, gained 150 ms; overlap and all else gained 50 ms.", text)
        text = said(result(turn(1.0, 1.1, longshore_exchanges=0.9), turn(1.0, 1.1, longshore_exchanges=0.9)))
        self.assertIn("even with nothing computed, gained 100 ms; overlap and all else lost 200 ms.", text)

    def test_cores_are_named_as_they_are(self):
        one = turn(1.0, 1.0)
        self.assertNotIn("Every core", said(result(one, cores=4)))
        between = {"place": "machines", "own_cores": True, "link": "1 Gb/s"}
        self.assertIn("one core, for its rank and its service process together", said(result(one, **between)))
        self.assertIn("4 cores, so that", said(result(one, **between, cores=8)))
        self.assertIn("shared all cores", said(result(one, place="machines", link="1 Gb/s")))

    def test_unrest_is_said(self):
        noisy = turn(1.4, 1.2)
        noisy["longshore"]["seconds"]["compute_alone"] = 0.4
        self.assertIn("BEWARE: computing with nothing exchanged took 20 % less time in the launches with Longshore",
                      said(result(noisy)))
        self.assertNotIn("BEWARE", said(result(turn(1.4, 1.2))))

    def test_wire(self):
        text = said(result(turn(1.4, 1.2, wire=(70.2, 85.1)), place="machines", own_cores=True, link="1 Gb/s"))
        self.assertIn("The wire was in use 70 % of the time with Open MPI alone, 85 % with Longshore", text)

    def test_share_of_the_possible_gain(self):
        spare = {"place": "spare", "link": "1.6 Gb/s", "placement": "machines at 1/2 speed, each with a core to spare"}
        text = said(result(turn(1.4, 1.1, computing=0.9), turn(1.4, 1.1, computing=0.9), **spare))
        self.assertIn("FFT on two machines, a core to spare each, link of 1.6 Gb/s: GAIN", text)
        self.assertIn("1000 ms instead of 1400: of that gain Longshore has 75 %.", text)
        self.assertIn("These were machines at 1/2 speed, each with a core to spare; the MPI alone was bound alike.", text)
        self.assertIn("Longshore has nothing.", said(result(turn(1.4, 1.5), **spare)))
        self.assertIn("Nothing could be gained", said(result(turn(1.01, 1.01), **spare)))

    def remainder(self, **longshore):
        """What is said where the time beyond the least possible goes; the exchanges take 1000 ms, the computing 500 or 1100."""
        computing = longshore.pop("computing", 0.5)
        one = turn(1.8, longshore.pop("transform"), computing=computing)
        one["longshore"]["seconds"] |= {"post": 0.0, "wait": 0.0, "test": 0.0, "without_exchange": 0.0} | longshore
        return said(result(one, place="spare", link="2 Gb/s", placement="machines"))

    def test_cause_of_what_is_missing(self):
        more = "Longshore's 1300 ms are 300 more than that:"
        self.assertIn(f"{more} +300 with no exchange open (before the first, between there and back, after the last).",
                      self.remainder(transform=1.3, without_exchange=0.3))
        self.assertIn(f"{more} +300 by exchanges that take longer than the MPI's with nothing computed, too.",
                      self.remainder(transform=1.3, exchanges_alone=1.3))
        self.assertIn(f"{more} +300 by exchanges that take longer beside computing.", self.remainder(transform=1.3))
        # The largest first, none below a tenth of all, and what makes it less.
        self.assertIn(f"{more} +270 by exchanges that take longer beside computing, +80 with no exchange open (before the first, "
                      "between there and back, after the last), -50 by exchanges that take less time than the MPI's with nothing computed, too.",
                      self.remainder(transform=1.3, without_exchange=0.08, exchanges_alone=0.95))
        self.assertNotIn("with no exchange", self.remainder(transform=1.3, without_exchange=0.02))

    def test_cause_where_computing_is_the_longer(self):
        text = self.remainder(transform=1.4, computing=1.1, wait=0.15, test=0.01, post=0.06)
        self.assertIn("1400 ms are 300 more than that: +150 waiting for exchanges, +80 by computing that takes longer beside exchanges, "
                      "+60 posting them.", text)
        self.assertIn("300 more than that: +400 asking whether one is complete, -100 by computing that takes less time beside exchanges.",
                      self.remainder(transform=1.4, computing=1.1, test=0.4))

    def test_no_cause_of_what_is_as_quick_as_can_be_or_was_not_measured(self):
        self.assertNotIn("more than that", self.remainder(transform=1.01, without_exchange=0.3))
        self.assertNotIn("more than that", said(result(turn(1.8, 1.3), place="spare", link="2 Gb/s", placement="machines")))

    def test_a_rate_on_which_both_take_about_as_long(self):
        self.assertEqual(demo_fft.better_rate(2000, 0.9, 1.0), 2000)
        self.assertEqual(demo_fft.better_rate(2000, 0.7, 0.5), 1400)
        self.assertEqual(demo_fft.better_rate(1000, 0.3, 1.0), 3300)
        self.assertEqual(demo_fft.better_rate(2000, 100, 1.0), demo_fft.MBIT_MIN)
        self.assertEqual(demo_fft.better_rate(2000, 0.01, 1.0), demo_fft.MBIT_MAX)
        self.assertEqual([demo_fft.rate_name(mbit) for mbit in (1000, 1600)], ["1 Gb/s", "1.6 Gb/s"])

    def search(self, *ratios):
        """(The rates at which the link was held in turn, what was said) where trials find such computing / exchanges."""
        nodes, launches = mock.Mock(), [({"seconds": {"compute_alone": ratio, "exchanges_alone": 1.0}}, None) for ratio in ratios]
        runner = demo_fft.Runner(types.SimpleNamespace(variables=8, build="build", mpi="openmpi"), 2, nodes, demo_fft.TRIED_MBIT)
        with mock.patch.object(runner, "launch", side_effect=launches), contextlib.redirect_stdout(io.StringIO()) as said:
            runner.find_rate()
        held = [call.args[0] for call in nodes.set_rate.call_args_list]
        self.assertEqual(f"{runner.mbit}mbit", held[-1] if held else "2000mbit")
        self.assertEqual(runner.variables, 8)
        return held, said.getvalue()

    def test_only_a_rate_that_was_tried_is_taken(self):
        self.assertEqual(self.search(0.9)[0], [])
        held, said = self.search(2.0, 1.1)
        self.assertEqual(held, ["1000mbit"])
        self.assertTrue(said.endswith("so the link has 1 Gb/s\n"), said)
        held, said = self.search(2.0, 0.7, 1.9)  # never about as long: the second was the nearest
        self.assertEqual(held, ["1000mbit", "1400mbit", "1000mbit"])
        self.assertTrue(said.endswith("so the link has 1 Gb/s, on which both are nearest to each other of what was tried\n"), said)
        held, said = self.search(8.0, 0.3, 1.3)
        self.assertEqual(held, ["200mbit", "700mbit"])
        self.assertIn("nearest", said)

    def test_what_cannot_be_shown(self):
        skipped = {"place": "spare", "skipped": "ip is missing. It takes root"}
        text = said(result(turn(1.0, 0.9)), skipped, skipped | {"place": "machines"})
        self.assertEqual(text.count("NOT SHOWN"), 1)
        self.assertIn("FFT on two machines: NOT SHOWN. ip is missing. It takes root.", text)

    def test_hpcc_and_width(self):
        lines = report.verdict_lines(STATS, [result(turn(1.4, 1.2), turn(1.4, 1.2))])
        self.assertIn("8 of its 15 collective calls were offloaded", " ".join(" ".join(lines).split()))
        self.assertLessEqual(max(map(len, lines)), report.LINE_COLUMNS)

    def test_table(self):
        text = "\n".join(report.fft_lines(result(turn(1.4, 1.2), turn(1.6, 1.2))))
        self.assertRegex(text, r"transform, there and back +1500 +1200 +0\.80")
        self.assertRegex(text, r"hidden, of the shorter of both +0 % +60 %")
        self.assertRegex(text, r"share of the possible gain +60 %")


class Files(unittest.TestCase):
    def test_say_where_and_when(self):
        options = types.SimpleNamespace(place="here", mpi="openmpi", size="8", variables=2, build="build")
        runner = mock.Mock(**{"turns.return_value": ([turn(1.4, 1.2)], [None])})
        with mock.patch.object(demo_fft, "Runner", return_value=runner), mock.patch.object(demo_fft, "draw"):
            before = datetime.datetime.now(datetime.timezone.utc)
            machine = demo_fft.measure(options, 2)["machine"]
        self.assertLess({"cpu", "cores", "kernel", "commit"}, set(machine))
        self.assertTrue(machine["mpi"].startswith("openmpi "))
        date = datetime.datetime.fromisoformat(machine["date"])
        self.assertGreaterEqual(date, before.replace(microsecond=0))
        self.assertLessEqual(date, datetime.datetime.now(datetime.timezone.utc))


def call(rank, kind, ts, dur, repeat):
    return {"ph": "X", "pid": 0, "tid": rank, "cat": kind, "name": "x", "ts": ts, "dur": dur, "args": {"repeat": repeat}}


class Traces(unittest.TestCase):
    FFT = {"traceEvents": [{"ph": "M", "name": "thread_name", "pid": 0, "tid": rank, "args": {"name": f"rank {rank}"}}
                           for rank in (0, 1)] +
           [call(0, "compute", 1000, 100, 0), call(0, "wait", 2000, 60, 1), call(0, "compute", 2060, 40, 1),
            call(1, "compute", 2010, 80, 1), call(1, "wait", 2090, 10, 1)]}
    # Its own clock began 1500 us later than the common one.
    LONGSHORE = {"otherData": {"origin_ns": 1_500_000}, "traceEvents": [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1_000_000, "args": {"name": "SP 0"}},
        {"ph": "X", "pid": 1, "tid": 1_000_000, "cat": "read", "name": "read", "ts": 450, "dur": 100, "args": {}},
        {"ph": "X", "pid": 0, "tid": 0, "cat": "move", "name": "move", "ts": 510, "dur": 10, "args": {}},
        {"ph": "X", "pid": 0, "tid": 0, "cat": "wait", "name": "MPI_Waitany", "ts": 500, "dur": 60, "args": {}}]}
    # At 1 byte a microsecond.
    SAMPLES = [(1950.0, 0, 0), (2000.0, 50, 0), (2050.0, 100, 10), (2100.0, 100, 60), (2150.0, 100, 60)]

    def lanes(self):
        trace = demo_fft.one_transform(self.FFT, self.LONGSHORE, self.SAMPLES, 1e6, 1, 1)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(trace, file)
            file.flush()
            return {timeline_lanes.label_of(lane, [lane]) + f"@{lane.node}": lane for lane in timeline_lanes.load(file.name)}

    def test_time_without_an_exchange(self):
        rank = [call(1, kind, ts, dur, 0) for kind, ts, dur in
                (("compute", 0, 5), ("post", 5, 1), ("compute", 6, 9), ("wait", 15, 5), ("compute", 20, 30), ("post", 50, 2),
                 ("compute", 52, 8), ("test", 60, 10), ("compute", 70, 7))]
        other = [call(0, "compute", 1, 2, 0), call(0, "post", 3, 1, 0), call(0, "test", 4, 40, 0), call(0, "post", 48, 2, 0),
                 call(0, "wait", 50, 25, 0)]
        trace = {"traceEvents": [*self.FFT["traceEvents"], *rank, *other]}
        trace["traceEvents"] = [event for event in trace["traceEvents"] if event["ph"] == "M" or event["ts"] < 1000]
        self.assertEqual(demo_fft.without_exchange_us(trace, 0), 5 + 30 + 7)

    def test_one_repeat_by_one_clock(self):
        lanes = self.lanes()
        self.assertEqual(list(lanes), ["rank 0@0", "rank 1@1", "SP 0@1", "wire 0 to 1@0", "wire 1 to 0@1"])
        self.assertEqual([segment[:3] for segment in lanes["rank 0@0"].segments],
                         [(0, 10, "wait"), (10, 20, "move"), (20, 60, "wait"), (60, 100, "compute")])
        self.assertEqual([segment[:3] for segment in lanes["SP 0@1"].segments], [(0, 50, "read")])  # began before the repeat

    def test_wire_in_percent(self):
        lanes = self.lanes()
        self.assertEqual(lanes["wire 0 to 1@0"].use, [(0, 50, 100), (50, 100, 0)])
        self.assertEqual(lanes["wire 1 to 0@1"].use, [(0, 50, 20), (50, 100, 100)])
        self.assertEqual(timeline_lanes.mean_use(lanes["wire 1 to 0@1"], 0, 100), 60)

    def test_text(self):
        lanes = list(self.lanes().values())
        text = timeline.draw_text([("alone", lanes[:2]), ("offloaded", lanes)], 0, 100, 93, "both").splitlines()
        rows = {line.split("|")[0].strip(): line.split("|")[1] for line in text if line.count("|") == 2}
        wire = rows["wire 0 to 1"]  # full, then idle; the column in the middle is both
        self.assertEqual((wire[:20], wire[-20:]), ("9" * 20, " " * 20))
        self.assertEqual((rows["wire 1 to 0"][:20], rows["wire 1 to 0"][-20:]), ("2" * 20, "9" * 20))
        self.assertTrue(any(line.startswith("offloaded") for line in text))
