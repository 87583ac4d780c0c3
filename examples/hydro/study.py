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
  node     the spare core of another node: two nodes with a rank each, which are namespaces, and links held to --rate (needs root)
  dpu      the core of a DPU: two nodes with a rank and a DPU each, which are namespaces, and links that are not held (needs root)

    study.py                                        Open MPI, placements spare, own, socket and slow
    study.py --mpi mpich --placements spare slow    (MPICH's processes spin: only where each has a core)
    study.py --problems sedovflat:240x270 --turns 5 --json study.json --picture study.png
    study.py --problems sedovflat:64x64 --placements node --rate 1gbit
    study.py --placements dpu --noise
    study.py --report one.json another.json --picture study.png
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(SOURCES / "examples")]
import study_figures as figures  # noqa: E402
import study_nodes  # noqa: E402
from study_common import end_by_signals, provenance, refuse_what_cannot_be_written, run_job  # noqa: E402

PLACEMENTS = ("spare", "own", "socket", "slow", "quota", *study_nodes.PLACEMENTS)
# A rank of 64 has so many zones in the paper: 57,600 of leblancx4 and 64,800 of sedovflatx4; and a small share.
PROBLEMS = ("leblanc:160x360", "sedovflat:240x270", "sedovflat:64x64")
LAUNCH_LIMIT_S = 200
AUTO_TRIALS = 120  # cycles that --offload auto may need until it has decided
GROUP = "longshore-hydro-study"
TASKS_RANKS_MIN = 2  # tasks run in processes of their own in a job of several ranks alone


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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.folder.rmdir()


class Study:
    def __init__(self, options):
        self.options = options
        self.build = Path(options.build).resolve()
        self.sockets = cores_by_socket()
        self.trials = AUTO_TRIALS if "auto" in options.variants else 0  # by all, so that all count the same cycles
        for needed in [self.program("hydro"), self.program("hydro_peer"), *([self.build / "bin/longshore"] if "tasks" in options.ways else [])]:
            if not needed.exists():
                raise RuntimeError(f"there is no {needed}: build it, or say --build FOLDER (and --ways without tasks)")

    def program(self, name):
        return self.build / "bin" / f"{name}_{self.options.mpi}"

    def mpirun(self):
        if self.options.mpi == "mpich":
            return ["mpirun.mpich"]
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]

    @staticmethod
    def bound(cores, processes, first):
        """Words that bind each of `processes`, whose numbers in the job begin at `first`, to its share of `cores`; and how many
        cores a share has. More processes than cores share them."""
        share = max(len(cores) // processes, 1)
        shares = [",".join(map(str, cores[i * len(cores) // processes:][:share])) for i in range(processes)]
        script = f'share() {{ shift $1; echo $1; }}; me=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}; ' \
                 f'cores=$(share $((me - {first} + 1)) {" ".join(shares)}); exec taskset -c $cores "$@"'
        return ["sh", "-c", script, "sh"], share

    def launch(self, row, way, variant, surroundings):
        options = self.options
        name, _, zones = row["problem"].partition(":")
        width, height = map(int, zones.split("x"))
        with tempfile.TemporaryDirectory(prefix="longshore-hydro-") as folder:
            path = Path(folder) / "hydro.json"
            words = [str(self.program("hydro")), "--problem", name, "--zones", f"{width}x{height * row['ranks'] * row['threads']}",
                     "--cycles", str(options.cycles + self.trials), "--warm-up", str(options.warm_up + self.trials), "--json", str(path)]
            if way != "none":
                words += ["--offload", "auto"] if variant == "auto" else ["--offload", way, "--variant", variant]
            if row["placement"] in study_nodes.PLACEMENTS:
                words, environment = surroundings.words(way, words, str(self.program("hydro_peer"))), dict(os.environ)
            else:
                words, environment = self.words_here(row, way, words, surroundings)
            done = run_job(words, LAUNCH_LIMIT_S, environment)
            if done.returncode != 0 or not path.exists():
                raise RuntimeError(f"a launch failed, exit code {done.returncode}: {' '.join(words)}\n{done.stdout}\n{done.stderr}")
            result = json.loads(path.read_text(encoding="utf-8"))
            if (result["processes_beside"] > 0) != (way != "none"):
                raise RuntimeError(f"{way}: {result['processes_beside']} processes beside a rank: {' '.join(words)}\n{done.stderr}")
            if not result["cycle_seconds"]:
                raise RuntimeError("--offload auto tried until the end, and no cycle is left to count: more --cycles are needed")
            return result

    def words_here(self, row, way, program, group):
        """What starts the job on this machine, and its environment."""
        ranks, threads, cores = (row[key] for key in ("ranks", "threads", "cores"))
        slow = ["--slow", str(self.options.slow)] if row["placement"] == "slow" else []
        bound, _ = self.bound(cores[0], ranks, 0)
        words = [*self.mpirun(), "-np", str(ranks), "env", f"OMP_NUM_THREADS={threads}", "OMP_WAIT_POLICY=passive", *bound, *program]
        environment = dict(os.environ)
        if way == "tasks":
            environment["LONGSHORE_TASK_CORES"] = ",".join(map(str, cores[1]))
            words = [str(self.build / "bin/longshore"), "run", "-q", *words, *slow]
        if way == "mpmd":
            beside, share = self.bound(cores[1], ranks, ranks)
            words += [":", "-np", str(ranks), "env", f"OMP_NUM_THREADS={share}", "OMP_WAIT_POLICY=passive",
                      *(group.words() if group else []), *beside, str(self.program("hydro_peer")), *slow]
        return words, environment

    def contenders(self, placement):
        """(way, variant) of each; the first hands nothing over."""
        ways = [way for way in self.options.ways if way != "tasks" or placement != "quota"]
        again = [("none", "again")] if self.options.noise else []
        return [("none", ""), *again] + [(way, variant) for way in ways for variant in self.options.variants]

    def configurations(self):
        """Rows without their launches, and lines about those that there are not."""
        rows, missing = [], []
        ranks_min = TASKS_RANKS_MIN if "tasks" in self.options.ways else 1
        for placement in self.options.placements:
            if placement in study_nodes.PLACEMENTS:
                why = study_nodes.missing(self.options, placement)
                rows += [] if why else study_nodes.rows(self.options, placement)
                missing += [why] if why else []
                continue
            cores = place(placement, self.sockets)
            if isinstance(cores, str):
                missing.append(f"{placement}: {cores}")
                continue
            if self.options.mpi == "mpich" and len(cores[0]) < ranks_min:
                missing.append(f"{placement}: not measured with MPICH, whose processes spin: there is no core for each")
                continue
            if self.options.mpi == "mpich" and placement == "own":
                missing.append("own: not measured with MPICH, whose processes spin: there is no core for each")
                continue
            if placement == "quota" and "tasks" in self.options.ways:
                missing.append("quota, tasks: not measured: task processes are started by the supervisor, outside the group")
            for mode in self.options.modes:
                # Tasks need a job of several ranks; where there are fewer cores, ranks share them.
                ranks, threads = (max(len(cores[0]), ranks_min), 1) if mode == "mpi" else (ranks_min, len(cores[0]) // ranks_min)
                if mode == "hybrid" and threads < 2:
                    missing.append(f"{placement}, hybrid: not measurable here: less than {2 * ranks_min} cores for ranks")
                    continue
                rows += [{"problem": problem, "mode": mode, "placement": placement, "cores": cores, "ranks": ranks,
                          "threads": threads} for problem in self.options.problems]
        return rows, missing

    def surroundings(self, row):
        """What the launches of a row need around them."""
        if row["placement"] == "quota":
            return Group(self.options.slow, len(row["cores"][1]))
        if row["placement"] in study_nodes.PLACEMENTS:
            return study_nodes.Nodes(self.build, self.options, row["placement"])
        return contextlib.nullcontext()

    def run(self):
        rows, missing = self.configurations()
        progress = Progress(sum(len(self.contenders(row["placement"])) for row in rows) * self.options.turns, self.options.quiet)
        for row in rows:
            contenders = self.contenders(row["placement"])
            launches = {f"{way} {variant}".strip(): [] for way, variant in contenders}
            with self.surroundings(row) as surroundings:
                for turn in range(self.options.turns):
                    at = turn % len(contenders)
                    for way, variant in contenders[at:] + contenders[:at]:  # who begins changes
                        progress.say(f"{row['problem']}, {row['placement']}, {row['mode']}: {way} {variant}")
                        launches[f"{way} {variant}".strip()].append(self.launch(row, way, variant, surroundings))
                        progress.done += 1
            checksums = {one["checksum"] for name, runs in launches.items() if "auto" not in name for one in runs}
            if len(checksums) > 1:
                raise RuntimeError(f"{row['problem']}: results differ: {checksums}")
            row["launches"] = launches
        progress.clear()
        return {"machine": self.machine(), "mpi": self.options.mpi, "slow": self.options.slow, "rate": self.options.rate,
                "cycles": self.options.cycles, "turns": self.options.turns, "missing": missing, "results": rows}

    def machine(self):
        about = provenance()
        return {"processor": about.pop("cpu"), **about, "cores": sum(map(len, self.sockets)), "sockets": len(self.sockets)}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(SOURCES / "build"), metavar="FOLDER", help="where hydro was built")
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="NAME:WxH", help="with the zones of each thread of a rank")
    parser.add_argument("--placements", nargs="+", choices=PLACEMENTS, default=["spare", "own", "socket", "slow"], metavar="WHERE")
    parser.add_argument("--modes", nargs="+", choices=("mpi", "hybrid"), default=["mpi", "hybrid"], metavar="MODE",
                        help="mpi: a rank on each core; hybrid: two ranks (without tasks one) with threads on all")
    parser.add_argument("--ways", nargs="+", choices=("mpmd", "tasks"), default=["mpmd", "tasks"], metavar="WAY",
                        help="mpmd, tasks (default: both)")
    parser.add_argument("--variants", nargs="+", choices=("v1", "v2", "auto"), default=["v1", "v2", "auto"], metavar="V",
                        help="v1, v2, auto (default: all)")
    parser.add_argument("--noise", action="store_true", help="a second contender that hands nothing over: what turns vary by")
    parser.add_argument("--slow", type=float, default=3, metavar="K", help="how much slower the slow device is (default: 3)")
    parser.add_argument("--rate", default="1gbit", metavar="R", help="of the links between nodes, as tc has it (default: 1gbit)")
    parser.add_argument("--turns", type=int, default=3, help="launches of each (default: 3)")
    parser.add_argument("--cycles", type=int, default=60, help="of a launch (default: 60)")
    parser.add_argument("--warm-up", type=int, default=10, help="cycles of them that are not counted (default: 10)")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    parser.add_argument("--picture", metavar="FILE", help="draw them (PNG; needs matplotlib: 'make venv')")
    parser.add_argument("--report", nargs="+", metavar="FILE", help="measure nothing: print and draw what --json wrote, of one or several runs")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(arguments)
    for problem in options.problems:
        if not re.fullmatch(r"\w+:[1-9]\d*x[1-9]\d*", problem):
            parser.error(f"'{problem}' is no problem with its zones, such as sedovflat:240x270")
    if options.turns < 1 or options.cycles <= options.warm_up or options.slow < 1:
        parser.error("needs a turn at least, more cycles than --warm-up, and --slow of 1 or more")
    refuse_what_cannot_be_written(parser, options.json, options.picture)
    return options


def main():
    options = parse(sys.argv[1:])
    end_by_signals()
    try:
        if options.report:
            study = figures.joined([json.loads(Path(path).read_text(encoding="utf-8")) for path in options.report])
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
