#!/usr/bin/env python3
"""What it costs, or gains, to hand parts of hydro's cycle to processes beside the ranks: figures 3 and 4 of Williams et al.,
"Exploring Challenges Associated with Employing SmartNICs as General-Purpose HPC Accelerators", on this machine.

For each problem and placement, launches with nothing handed over and with each way and variant take turns; every launch
checks its results, and those of equal cycles must have equal checksums. Placements of the processes beside the ranks:

  spare    cores that no rank uses
  own      the ranks' own cores
  socket   the cores of another socket
  slow     as spare, but each kernel takes --slow times as long, as on a slower core
  quota    as spare, in a control group that gives each core 1 ms in --slow ms; it pauses for some ms at a time (needs root)

    study.py                                        Open MPI, placements spare, own, socket and slow
    study.py --mpi mpich --placements spare slow    (MPICH's processes spin: only where each has a core)
    study.py --problems sedovflat:240x270 --turns 5 --json study.json --picture study.png
    study.py --report study.json --picture study.png
"""

import argparse
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import study_figures as figures  # noqa: E402

SOURCES = Path(__file__).resolve().parents[2]
PLACEMENTS = ("spare", "own", "socket", "slow", "quota")
# A rank of 64 has so many zones in the paper: 57,600 of leblancx4 and 64,800 of sedovflatx4; and a small share.
PROBLEMS = ("leblanc:160x360", "sedovflat:240x270", "sedovflat:64x64")
LAUNCH_LIMIT_S = 200
AUTO_TRIALS = 160  # cycles that --offload auto may need until it has decided
GROUP = "longshore-hydro-study"


class Progress:
    """A line on stderr: what runs, how much is done, how long it will take."""

    def __init__(self, total, quiet):
        self.quiet, self.done, self.total, self.start = quiet, 0, total, time.monotonic()

    def say(self, what):
        if self.quiet:
            return
        passed = time.monotonic() - self.start
        left = f", about {passed / self.done * (self.total - self.done):.0f} s left" if self.done else ""
        line = f"[{self.done + 1}/{self.total}] {what}{left}"
        if sys.stderr.isatty():
            filled = 20 * self.done // max(self.total, 1)
            print(f"\r\x1b[K|{'#' * filled}{'.' * (20 - filled)}| {line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def clear(self):
        if not self.quiet and sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def cores_by_socket():
    sockets = {}
    for core in sorted(os.sched_getaffinity(0)):
        try:
            socket = int(Path(f"/sys/devices/system/cpu/cpu{core}/topology/physical_package_id").read_text(encoding="ascii"))
        except (OSError, ValueError):
            socket = 0
        sockets.setdefault(socket, []).append(core)
    return list(sockets.values())


def place(placement, sockets):
    """(cores of ranks, cores of the processes beside them), or a line that says why there are none."""
    cores = [core for socket in sockets for core in socket]
    if placement == "own":
        return cores, cores
    if placement == "socket":
        if len(sockets) < 2:
            return "not measurable here: one socket"
        count = min(len(sockets[0]), len(sockets[1]))
        return sockets[0][:count], sockets[1][:count]
    half = len(cores) // 2
    if half == 0:
        return "not measurable here: one core"
    return cores[:half], cores[half:2 * half]


class Group:
    """A control group that gives each core a share of its time; None where there can be none."""

    def __init__(self, slow, cores):
        base = Path("/sys/fs/cgroup")
        first = (base / "cpu").is_dir()
        self.folder = base / ("cpu" if first else "") / GROUP
        self.tasks = self.folder / ("tasks" if first else "cgroup.procs")
        self.folder.mkdir(exist_ok=True)
        period_us, quota_us = round(1000 * slow), 1000 * cores  # the kernel takes no quota below 1 ms
        if first:
            (self.folder / "cpu.cfs_period_us").write_text(str(period_us), encoding="ascii")
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
        else:
            (self.folder / "cpu.max").write_text(f"{quota_us} {period_us}", encoding="ascii")

    def words(self):
        return ["sh", "-c", f'echo $$ >{self.tasks} && exec "$@"', "sh"]

    def remove(self):
        with contextlib.suppress(OSError):
            self.folder.rmdir()


class Study:
    def __init__(self, options):
        self.options = options
        self.build = Path(options.build).resolve()
        self.sockets = cores_by_socket()
        self.ways = options.ways
        if "tasks" in self.ways and "tasks" not in self.help():
            raise RuntimeError("this build of hydro knows no tasks; leave them out of --ways")

    def help(self):
        return subprocess.run([str(self.program("hydro")), "--help"], capture_output=True, text=True, check=True).stdout

    def program(self, name):
        return self.build / "bin" / f"{name}_{self.options.mpi}"

    def mpirun(self):
        if self.options.mpi == "mpich":
            return ["mpirun.mpich"]
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]

    @staticmethod
    def bound(cores, processes, first):
        """Words that bind each of `processes`, whose numbers in the job begin at `first`, to its share of `cores`."""
        share = max(len(cores) // processes, 1)
        shares = [",".join(map(str, cores[i * share:(i + 1) * share])) for i in range(processes)]
        script = f'set_{first}() {{ shift $1; echo $2; }}; me=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}; ' \
                 f'cores=$(set_{first} $((me - {first})) {" ".join(shares)}); exec taskset -c $cores "$@"'
        return ["sh", "-c", script, "sh"], share

    def launch(self, problem, ranks, threads, cores, way, variant, placement, group):
        options = self.options
        name, _, zones = problem.partition(":")
        width, height = map(int, zones.split("x"))
        cycles = options.cycles + (AUTO_TRIALS if way == "auto" else 0)
        with tempfile.TemporaryDirectory(prefix="longshore-hydro-") as folder:
            path = Path(folder) / "hydro.json"
            bound, _ = self.bound(cores[0], ranks, 0)
            # Each rank has as many zones as was asked for; of a problem that is higher than wide, one above the other.
            words = [*self.mpirun(), "-np", str(ranks), "env", f"OMP_NUM_THREADS={threads}", "OMP_WAIT_POLICY=passive", *bound, str(self.program("hydro")),
                     "--problem", name, "--zones", f"{width}x{height * ranks * threads}", "--cycles", str(cycles), "--warm-up",
                     str(options.warm_up), "--json", str(path)]
            if way != "none":
                words += ["--offload", way, "--variant", variant]
                if way == "tasks" or (way == "auto" and "mpmd" not in self.ways):
                    words = self.under_longshore(words, cores[1], ranks, placement)
                    return self.finish(words, path)
                beside, share = self.bound(cores[1], ranks, ranks)
                words += [":", "-np", str(ranks), "env", f"OMP_NUM_THREADS={share}", "OMP_WAIT_POLICY=passive", *(group.words() if group else []), *beside,
                          str(self.program("hydro_peer"))]
                if placement == "slow":
                    words += ["--slow", str(options.slow)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=LAUNCH_LIMIT_S, check=False)
            if done.returncode != 0 or not path.exists():
                raise RuntimeError(f"a launch failed, exit code {done.returncode}: {' '.join(words)}\n{done.stdout}\n{done.stderr}")
            return json.loads(path.read_text(encoding="utf-8"))

    def contenders(self):
        return [("none", "v1")] + [(way, variant) for way in self.ways
                                   for variant in (("v1",) if way == "auto" else self.options.variants)]

    def configurations(self):
        """(problem, mode, placement, cores, ranks, threads), and lines about those that there are not."""
        rows, missing = [], []
        for placement in self.options.placements:
            cores = place(placement, self.sockets)
            if isinstance(cores, str):
                missing.append(f"{placement}: {cores}")
                continue
            if self.options.mpi == "mpich" and placement == "own":
                missing.append("own: not measured with MPICH, whose processes spin and would take turns by the scheduler's slices")
                continue
            for mode in self.options.modes:
                ranks, threads = (len(cores[0]), 1) if mode == "mpi" else (1, len(cores[0]))
                if mode == "hybrid" and threads == 1:
                    missing.append(f"{placement}, hybrid: not measurable here: one core for the rank's threads")
                    continue
                rows += [(problem, mode, placement, cores, ranks, threads) for problem in self.options.problems]
        return rows, missing

    def run(self):
        rows, missing = self.configurations()
        contenders = self.contenders()
        progress = Progress(len(rows) * len(contenders) * self.options.turns, self.options.quiet)
        results = []
        for problem, mode, placement, cores, ranks, threads in rows:
            group = Group(self.options.slow, ranks) if placement == "quota" else None
            launches = {f"{way} {variant}": [] for way, variant in contenders}
            try:
                for turn in range(self.options.turns):
                    at = turn % len(contenders)
                    for way, variant in contenders[at:] + contenders[:at]:  # who begins changes
                        progress.say(f"{problem}, {placement}, {mode}: {way} {variant if way != 'none' else ''}")
                        launches[f"{way} {variant}"].append(
                            self.launch(problem, ranks, threads, cores, way, variant, placement, group))
                        progress.done += 1
            finally:
                if group:
                    group.remove()
            checksums = {one["checksum"] for name, runs in launches.items() if "auto" not in name for one in runs}
            if len(checksums) > 1:
                raise RuntimeError(f"{problem}: results differ: {checksums}")
            results.append({"problem": problem, "mode": mode, "placement": placement, "ranks": ranks, "threads": threads,
                            "launches": launches})
        progress.clear()
        return {"machine": self.machine(), "mpi": self.options.mpi, "slow": self.options.slow, "cycles": self.options.cycles,
                "turns": self.options.turns, "missing": missing, "results": results}

    def machine(self):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = re.search(r"model name\s*: (.*)", text)
        commit = subprocess.run(["git", "-C", str(SOURCES), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        return {"processor": model[1] if model else platform.machine(), "cores": sum(map(len, self.sockets)),
                "sockets": len(self.sockets), "kernel": platform.release(), "commit": commit.stdout.strip()}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(SOURCES / "build"), metavar="FOLDER", help="where hydro was built")
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="NAME:WxH", help="with the zones of each core of a rank")
    parser.add_argument("--placements", nargs="+", choices=PLACEMENTS, default=["spare", "own", "socket", "slow"], metavar="WHERE")
    parser.add_argument("--modes", nargs="+", choices=("mpi", "hybrid"), default=["mpi", "hybrid"], metavar="MODE",
                        help="mpi: a rank on each core; hybrid: a rank with a thread on each")
    parser.add_argument("--ways", nargs="+", choices=("inline", "mpmd", "tasks", "auto"), default=["mpmd", "auto"], metavar="WAY")
    parser.add_argument("--variants", nargs="+", choices=("v1", "v2"), default=["v1", "v2"], metavar="V")
    parser.add_argument("--slow", type=float, default=3, metavar="K", help="how much slower the slow device is (default: 3)")
    parser.add_argument("--turns", type=int, default=3, help="launches of each (default: 3)")
    parser.add_argument("--cycles", type=int, default=60, help="of a launch (default: 60)")
    parser.add_argument("--warm-up", type=int, default=10, help="cycles of them that are not counted (default: 10)")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    parser.add_argument("--picture", metavar="FILE", help="draw them (PNG; needs matplotlib: 'make venv')")
    parser.add_argument("--report", metavar="FILE", help="measure nothing: print and draw what --json wrote")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(arguments)
    for problem in options.problems:
        if not re.fullmatch(r"\w+:[1-9]\d*x[1-9]\d*", problem):
            parser.error(f"'{problem}' is no problem with its zones, such as sedovflat:240x270")
    if options.turns < 1 or options.cycles <= options.warm_up or options.slow < 1:
        parser.error("needs a turn at least, more cycles than --warm-up, and --slow of 1 or more")
    return options


def main():
    options = parse(sys.argv[1:])
    try:
        if options.report:
            study = json.loads(Path(options.report).read_text(encoding="utf-8"))
        else:
            study = Study(options).run()
            if options.json:
                Path(options.json).write_text(json.dumps(study, indent=1), encoding="utf-8")
        print("\n".join(figures.report(study)))
        if options.picture:
            figures.draw(study, options.picture)
    except (OSError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
        sys.exit(f"study: {error}")


if __name__ == "__main__":
    main()
