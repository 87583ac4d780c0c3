#!/usr/bin/env python3
"""Runs the demo's FFT by the MPI alone and with Longshore, in turns, and draws one run of each.

demo_fft.py spare --mpi openmpi      on two machines with a core to spare each, joined by a link on which the exchanges take about
                                     as long as the computing; they are namespaces of this one
demo_fft.py machines --mpi openmpi   the same with one core for the rank and its service process, and a link of 1 Gb/s
demo_fft.py here --mpi openmpi       on this machine, with as many ranks as cores

Writes fft-PLACE.json, the picture PLACE.png and the traces in it into the folder given by --out. All launches of both
contenders are traced alike; the picture is of the turn whose ratio is the median. Exit code 77: there can be no such
machines here; the reason is in fft-machines.json, which demo_report.py reads.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/cluster"))
import cluster  # noqa: E402
import overlap  # noqa: E402

CONTENDERS = ("host", "longshore")
MPI_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
RATE_MBIT = 1000  # where no core is spare
TRIED_MBIT, TRIED_VARIABLES, TRIALS = 2000, 2, 3  # of the search for a link on which computing is about as long as the exchanges
ALIKE = (0.8, 1.2)  # computing / exchanges that are about as long
MBIT_MIN, MBIT_MAX, MBIT_STEP = 100, 20000, 100
RANKS_MAX = 32  # on one machine; with more the blocks of a small transform are not worth sending
SAMPLE_S = 0.005
SKIPPED = 77
NEEDED = ("Two machines are made of namespaces of this one, which takes root (in a container: all its capabilities; an "
          "unprivileged user namespace does not do), iproute2 and util-linux")
SERVICE_LANE = 1_000_000  # from here on lanes of Longshore's traces are service processes


class WireSamples(threading.Thread):
    """Bytes that a machine's link has sent and received, every few milliseconds: (CLOCK_MONOTONIC us, sent, received)."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path, self.samples, self.ended = f"/proc/{pid}/net/dev", [], threading.Event()

    def run(self):
        while not self.ended.wait(SAMPLE_S):
            with open(self.path, encoding="ascii") as file:
                text = file.read()
            fields = text[text.index("net0:"):].splitlines()[0].split(":")[1].split()
            self.samples.append((time.monotonic_ns() / 1e3, int(fields[8]), int(fields[0])))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def window_of(fft_trace, repeat):
    """When a repeat began on the first rank and ended on the last, in us."""
    events = [e for e in fft_trace["traceEvents"] if e["ph"] == "X" and e["args"]["repeat"] == repeat]
    return min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)


def wire_percent(samples, bytes_per_second, begin, end):
    """[(from us, to us, (sent %, received %))] of a link's samples that touch the window."""
    rows = []
    for (at, *before), (until, *after) in zip(samples, samples[1:]):
        if until > begin and at < end and until > at:
            most = bytes_per_second * (until - at) / 1e6
            percents = tuple(100 * (b - a) / most for a, b in zip(before, after))
            rows.append((max(at, begin), min(until, end), percents))
    return rows


def without_exchange_us(fft_trace, repeat):
    """For how long a rank has no exchange open in a repeat there and back: before the first is posted, between the two ways,
    and after the last. Of the rank for which that is longest.

    A rank calls MPI only while an exchange is open or to post one, so that the last call before a post completes what was open.
    """
    longest = 0
    begin, end = window_of(fft_trace, repeat)
    for rank in {event["tid"] for event in fft_trace["traceEvents"]}:
        calls = sorted((event["ts"], event["ts"] + event["dur"], event["cat"]) for event in fft_trace["traceEvents"]
                       if event["ph"] == "X" and event["tid"] == rank and event["args"]["repeat"] == repeat
                       and event["cat"] != "compute")
        posts = [i for i, (_, _, kind) in enumerate(calls) if kind == "post"]
        back = posts[len(posts) // 2]  # as many there as back
        longest = max(longest, calls[0][0] - begin + calls[back][0] - calls[back - 1][1] + end - calls[-1][1])
    return longest


def one_transform(fft_trace, longshore_trace, samples, bytes_per_second, ranks_per_node, repeat):
    """A trace of one repeat: what the ranks say of themselves, what Longshore says of blocks that were moved, and the wire.

    longshore_trace, samples: None where there are none. All times are this machine's CLOCK_MONOTONIC.
    """
    begin, end = window_of(fft_trace, repeat)
    out = []

    def keep(event, node, shift=0.0):
        start, stop = event["ts"] + shift, event["ts"] + shift + event["dur"]
        if stop > begin and start < end:
            start, stop = max(start, begin), min(stop, end)
            out.append(event | {"pid": node, "ts": start, "dur": stop - start})

    for event in fft_trace["traceEvents"]:
        node = event["tid"] // ranks_per_node
        if event["ph"] == "M":
            out.append(event | {"pid": node})
        elif event["args"]["repeat"] == repeat:
            keep(event, node)
    if longshore_trace:
        shift = longshore_trace["otherData"]["origin_ns"] / 1e3
        for event in longshore_trace["traceEvents"]:
            if event["ph"] == "M" and event["tid"] >= SERVICE_LANE:
                out.append(event)
            elif event["ph"] == "X" and event["cat"] in ("move", "read"):
                keep(event, event["pid"], shift)
    if samples:
        rows = wire_percent(samples, bytes_per_second, begin, end)
        for way, (name, node) in enumerate((("wire 0 to 1", 0), ("wire 1 to 0", 1))):
            points = [(start, round(percents[way], 1)) for start, _, percents in rows] + [(rows[-1][1], 0)] * bool(rows)
            out += [{"ph": "C", "name": name, "pid": node, "tid": 0, "ts": at, "args": {"percent": percent}}
                    for at, percent in points]
    return {"traceEvents": out, "otherData": {"clock": "CLOCK_MONOTONIC", "origin_ns": 0}}


def rate_name(mbit):
    return f"{mbit / 1000:g} Gb/s"


def better_rate(mbit, computing, exchanges):
    """The rate on which exchanges that take so long at `mbit` would take as long as the computing; `mbit` where they nearly do."""
    if ALIKE[0] <= computing / exchanges <= ALIKE[1]:
        return mbit
    steps = round(mbit * exchanges / computing / MBIT_STEP)
    return min(max(steps * MBIT_STEP, MBIT_MIN), MBIT_MAX)


class Runner:
    """Launches of the FFT in one place; mbit: of the link between machines."""

    def __init__(self, options, ranks, nodes=None, mbit=None):
        self.options, self.ranks, self.nodes, self.mbit, self.variables = options, ranks, nodes, mbit, options.variables
        self.build = Path(options.build).resolve()

    def words(self, contender, arguments, folder):
        program = [str(self.build / f"bin/fft_{self.options.mpi}"), *arguments]
        longshore = [str(self.build / "bin/longshore"), "run", "-q", "--stats", str(folder / "stats.json"),
                     "--trace", str(folder / "longshore.json"), "--"]
        own = longshore if contender == "longshore" else []
        if self.nodes:
            return self.nodes.mpirun([*own, *program], 1, mpi=self.options.mpi)
        mpirun = [f"mpirun.{self.options.mpi}"]
        if self.options.mpi == "openmpi":
            mpirun += ["--oversubscribe", "--bind-to", "none"]
            mpirun += ["--allow-run-as-root"] if os.getuid() == 0 else []
        return [*own, *mpirun, "-np", str(self.ranks), *program]

    def launch(self, contender):
        options = self.options
        with tempfile.TemporaryDirectory(prefix="longshore-demo-") as name:
            folder = Path(name)
            arguments = ["--size", options.size, "--variables", str(self.variables), "--check", "once",
                         "--repeats", str(options.repeats), "--json", str(folder / "fft.json"),
                         "--trace", str(folder / "trace.json")]

            written = ["fft", "trace", *(["stats", "longshore"] if contender == "longshore" else [])]

            def load(file):
                return json.loads((folder / file).read_text(encoding="utf-8"))

            def read_results():
                with contextlib.suppress(OSError, ValueError):
                    return [load(f"{each}.json") for each in written]
                return None

            # On one machine there is no link.
            wire = WireSamples(self.nodes.nodes[0].pid) if self.nodes else \
                contextlib.nullcontext(types.SimpleNamespace(samples=None))
            with wire as wire:
                (fft, trace, *more), printed = overlap.results_of(self.words(contender, arguments, folder), read_results)
        stats, moved = more or (None, None)
        if not fft["passed"]:
            raise RuntimeError(f"wrong results:\n{printed}")
        if stats and not any(row["offloaded"] for row in stats["collectives"].values()):
            raise RuntimeError(f"nothing was offloaded:\n{printed}")
        seconds = {name: fft["seconds"][name]["largest_of_ranks"]
                   for name in ("transform", "compute_alone", "exchanges_alone", "compute")}
        # The ranks' time in MPI: means of ranks, which add up.
        seconds |= {name: fft["seconds"][key]["mean_of_ranks"] for name, key in (("post", "post"), ("wait", "wait"), ("test", "other"))}
        seconds["without_exchange"] = [without_exchange_us(trace, i) / 1e6 for i in range(options.repeats)]
        # Of its repeats the one of the median time is drawn.
        repeat = seconds["transform"].index(statistics.median_low(seconds["transform"]))
        rate = 1e6 / 8 * self.mbit if self.mbit else None
        drawn = one_transform(trace, moved, wire.samples, rate, 1 if self.nodes else self.ranks, repeat)
        rows = wire_percent(wire.samples, rate, *window_of(trace, repeat)) if wire.samples else []
        length = sum(stop - start for start, stop, _ in rows)
        used = sum((stop - start) * sum(both) / 2 for start, stop, both in rows)  # both directions' mean
        return {"seconds": {name: statistics.median(values) for name, values in seconds.items()},
                "checksum": fft["checksum"], "drawn_s": seconds["transform"][repeat],
                "wire_percent": used / length if length else None}, drawn

    def find_rate(self):
        """Holds the links to a rate at which the host's exchanges take about as long as its computing, by launches with few variables.
        Only a rate that was tried is taken: where none of TRIALS does, the nearest of them."""
        self.variables = min(TRIED_VARIABLES, self.options.variables)
        tried = []  # (computing / exchanges, rate)
        while True:
            seconds = self.launch("host")[0]["seconds"]
            tried.append((seconds["compute_alone"] / seconds["exchanges_alone"], self.mbit))
            print(f"  a trial at {rate_name(self.mbit)}: computing takes {tried[-1][0]:.2f} times as long as the exchanges", flush=True)
            better = better_rate(self.mbit, seconds["compute_alone"], seconds["exchanges_alone"])
            if better == self.mbit or len(tried) == TRIALS:
                break
            self.set_rate(better)
        nearest, mbit = min(tried, key=lambda trial: abs(math.log(trial[0])))
        if mbit != self.mbit:
            self.set_rate(mbit)
        self.variables = self.options.variables
        why = "" if ALIKE[0] <= nearest <= ALIKE[1] else ", on which both are nearest to each other of what was tried"
        print(f"  so the link has {rate_name(mbit)}{why}", flush=True)

    def set_rate(self, mbit):
        self.mbit = mbit
        self.nodes.set_rate(f"{mbit}mbit")

    def turns(self):
        """Launches in turns; who begins changes. No turn begins after the time is up. Returns (turns, traces of each)."""
        turns, traces, start = [], [], time.monotonic()
        for i in range(self.options.turns):
            passed = time.monotonic() - start
            if turns and passed + passed / len(turns) > self.options.time_s:
                print(f"  {len(turns)} of {self.options.turns} turns: more would take too long", flush=True)
                break
            done = {}
            for contender in CONTENDERS if i % 2 == 0 else CONTENDERS[::-1]:
                done[contender] = self.launch(contender)
            turns.append({name: done[name][0] for name in CONTENDERS})
            traces.append({name: done[name][1] for name in CONTENDERS})
            times = [1e3 * turns[-1][name]["seconds"]["transform"] for name in CONTENDERS]
            print(f"  turn {i + 1}: {MPI_NAMES[self.options.mpi]} alone {times[0]:.0f} ms, "
                  f"with Longshore {times[1]:.0f} ms", flush=True)
        if len({each["checksum"] for turn in turns for each in turn.values()}) > 1:
            raise RuntimeError("the contenders' results differ")
        print("  results: equal to the last bit, all checks passed")
        return turns, traces


def draw(options, turn, traces, about):
    """The picture and the text of one turn's traces."""
    out, files, labels = Path(options.out), [], []
    names = (f"{MPI_NAMES[options.mpi]} alone", "with Longshore (SP: its service processes)")
    for name, label in zip(CONTENDERS, names):
        files.append(str(out / f"{options.place}-{name}.json"))
        Path(files[-1]).write_text(json.dumps(traces[name]), encoding="utf-8")
        labels += ["--label", f"{label}: {1e3 * turn[name]['drawn_s']:.0f} ms"]
    command = [str(Path(options.build).resolve() / "bin/longshore"), "timeline", *files, *labels]
    if options.place == "spare":
        print(flush=True)
        subprocess.run([*command, "--text", "--title", f"who did what when: {about}"], check=True)
    picture = out / f"{options.place}.png"
    picture.unlink(missing_ok=True)
    subprocess.run([*command, "--title", about, "-o", str(picture)], check=False)  # without matplotlib it says so


def measure(options, ranks, nodes=None, own_cores=False, mbit=None):
    runner = Runner(options, ranks, nodes, mbit)
    if options.place == "spare":
        print(f"  {nodes.placement}, plain MPI bound alike", flush=True)
        runner.find_rate()
    turns, traces = runner.turns()
    cores = len(os.sched_getaffinity(0))
    ratios = [turn["longshore"]["seconds"]["transform"] / turn["host"]["seconds"]["transform"] for turn in turns]
    drawn = ratios.index(statistics.median_low(ratios))
    where = f"{ranks} ranks on {cores} cores"
    if nodes:
        spare = ", a core to spare each" if nodes.placement else ""
        where = f"two machines, a rank each{spare}, link of {rate_name(runner.mbit)}"
    draw(options, turns[drawn], traces[drawn], f"3-D FFT, {options.size}^3, {options.variables} variables, there and back; "
         f"{where} (turn {drawn + 1} of {len(turns)})")
    return {"machine": overlap.describe(options), "place": options.place, "mpi": MPI_NAMES[options.mpi], "size": options.size,
            "variables": options.variables, "ranks": ranks, "cores": cores, "own_cores": own_cores, "turns": turns, "drawn": drawn,
            "link": rate_name(runner.mbit) if nodes else None,
            "placement": str(nodes.placement) if nodes and nodes.placement else None}


def skipped(options, problem):
    reason = f"{' '.join(str(problem).split())}. {NEEDED}"
    print(f"  not shown: {reason}")
    return {"place": options.place, "skipped": reason}


def measure_spare(options):
    if len(os.sched_getaffinity(0)) < 2:
        return skipped(options, "There is one core only")
    try:
        with cluster.Cluster(2, f"{TRIED_MBIT}mbit", offloads=True, spare_cores=1) as nodes:
            return measure(options, 2, nodes, mbit=TRIED_MBIT)
    except OSError as error:
        return skipped(options, error)


def measure_machines(options):
    # Cores of their own where a control group can be made for them; else both machines share all.
    problem = ""
    for own_cores in (True, False) if cluster.CPUSETS.is_dir() and len(os.sched_getaffinity(0)) > 1 else (False,):
        try:
            nodes = cluster.Cluster(2, f"{RATE_MBIT}mbit", offloads=True, own_cores=own_cores)
        except (RuntimeError, OSError) as error:
            problem = error
            continue
        with nodes:
            return measure(options, 2, nodes, own_cores, RATE_MBIT)
    return skipped(options, problem)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", choices=("spare", "machines", "here"))
    parser.add_argument("--mpi", choices=MPI_NAMES, default="openmpi")
    parser.add_argument("--size", default="128", help="N of N^3 points (default: 128)")
    parser.add_argument("--variables", type=int, default=8)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1, help="transforms in a launch (default: 1)")
    parser.add_argument("--time", dest="time_s", type=float, default=60, metavar="S",
                        help="begin no turn that would end later (default: 60)")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--out", default=str(ROOT / "build/demo"))
    return parser.parse_args()


def main():
    options = parse()
    Path(options.out).mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if options.place == "here":
            result = measure(options, max(2, min(RANKS_MAX, len(os.sched_getaffinity(0)))))
        elif problem := cluster.missing():
            result = skipped(options, problem)
        else:
            result = measure_spare(options) if options.place == "spare" else measure_machines(options)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        return 130
    (Path(options.out) / f"fft-{options.place}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return SKIPPED if "skipped" in result else 0


if __name__ == "__main__":
    sys.exit(main())
