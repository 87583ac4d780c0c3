#!/usr/bin/env python3
"""What a job pays once: for the start of its service processes, and for the death of one.

  start   a program that does nothing but MPI_Init, a small transform and MPI_Finalize, from mpirun's start to its end: by the MPI
          alone, and with Longshore, in turns
  kill    examples/fft with Longshore: launches in which a service process is killed at a seeded moment, and launches in which none
          is, in turns: the transforms' time, the longest of them, and that all results are right

    job_costs.py start --turns 15
    job_costs.py kill --mpi mpich --json kill.json

On this machine, 2 ranks. A launch in which there was nothing to kill any more is repeated; every launch checks its results.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from study_common import provenance  # noqa: E402

RANKS, LIMIT_S, TRIED_MAX = 2, 120, 5
START = ["--size", "8", "--variables", "1", "--repeats", "1", "--check", "once"]
KILL = ["--variables", "4", "--repeats", "8", "--check", "once"]
TIMED_FROM, TIMED_TO = 0.3, 0.7  # of a launch: where its timed transforms are


def service_processes(program):
    """Numbers of the processes of that program which are service processes, not their supervisor."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") == str(program) and (folder / "cmdline").read_bytes().split(b"\0")[1] == b"sp":
                found.append(int(folder.name))
        except (OSError, IndexError):
            continue  # gone meanwhile, or the kernel's
    return found


class Launcher:
    def __init__(self, options, folder):
        self.build, self.mpi, self.folder = Path(options.build).resolve(), options.mpi, folder
        self.longshored = folder / "longshored"  # of its own, so that no other job's service process is killed
        shutil.copy2(self.build / "bin/longshored", self.longshored)

    def words(self, arguments, longshore):
        words = [f"mpirun.{self.mpi}"]
        if self.mpi == "openmpi":
            words += ["--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
        own = ["env", f"LD_PRELOAD={self.build}/lib/liblongshore.so", f"LONGSHORE_SERVICE_PATH={self.longshored}"]
        return [*words, "-np", str(RANKS), *(own if longshore else []), str(self.build / f"bin/fft_{self.mpi}"), *arguments,
                "--json", str(self.folder / "fft.json")]

    def launch(self, arguments, longshore, kill_at=None):
        """(seconds from its start to its end, its results, whether a service process was killed)"""
        start, killed = time.monotonic(), False
        with subprocess.Popen(self.words(arguments, longshore), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as job:
            try:
                if kill_at is not None:
                    time.sleep(kill_at)
                    for pid in service_processes(self.longshored)[:1]:
                        with contextlib.suppress(ProcessLookupError):  # its job is just over
                            os.kill(pid, signal.SIGKILL)
                            killed = True
                said = job.communicate(timeout=LIMIT_S)[0]
            finally:
                job.kill()
        seconds = time.monotonic() - start
        if job.returncode != 0:
            raise RuntimeError(f"exit code {job.returncode}:\n{said}")
        result = json.loads((self.folder / "fft.json").read_text(encoding="utf-8"))
        if not result["passed"]:
            raise RuntimeError(f"wrong results:\n{said}")
        return seconds, result, killed


def measure_start(launcher, options):
    turns = []
    for i in range(options.turns + 1):
        order = (False, True) if i % 2 == 0 else (True, False)
        took = {longshore: launcher.launch(START, longshore)[0] for longshore in order}
        if i > 0:  # the first one fills the file cache
            turns.append({"host": took[False], "longshore": took[True]})
    return turns


def transforms(result):
    seconds = result["seconds"]["transform"]["largest_of_ranks"]
    return {"sum": sum(seconds), "longest": max(seconds), "median": statistics.median(seconds)}


def measure_kill(launcher, options):
    program = ["--size", options.size, *KILL]
    length, draw, turns = launcher.launch(program, True)[0], random.Random(options.seed), []
    for i in range(options.turns):
        turn, order = {}, ("alive", "killed") if i % 2 == 0 else ("killed", "alive")
        for what in order:
            for _ in range(TRIED_MAX if what == "killed" else 1):
                moment = draw.uniform(TIMED_FROM, TIMED_TO) * length if what == "killed" else None
                seconds, result, killed = launcher.launch(program, True, moment)
                length = min(length, seconds)  # where other work has made the first one long, moments would come too late
                if killed == (what == "killed"):
                    break
            else:
                raise RuntimeError(f"no service process was found in {TRIED_MAX} launches")
            turn[what] = transforms(result) | {"checksum": result["checksum"]}
        turns.append(turn)
    if len({each["checksum"] for turn in turns for each in turn.values()}) != 1:
        raise RuntimeError("results differ")
    return turns


def ranged(values, unit=1e3):
    return f"{unit * statistics.median(values):.0f} [{unit * min(values):.0f} .. {unit * max(values):.0f}]"


def report(result):
    turns, machine = result["turns"], result["machine"]
    print(f"# {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; {machine['mpi']}, {RANKS} ranks; "
          f"commit {machine['commit']}, {machine['date']}; {len(turns)} turns, ms: median [least .. largest]")
    if result["what"] == "start":
        print(f"start to end, the MPI alone: {ranged([turn['host'] for turn in turns])}")
        print(f"with Longshore:              {ranged([turn['longshore'] for turn in turns])}")
        print(f"longer by:                   {ranged([turn['longshore'] - turn['host'] for turn in turns])}")
        return
    for name in ("alive", "killed"):
        label = "no service process killed" if name == "alive" else "one killed"
        print(f"{label}: all transforms {ranged([turn[name]['sum'] for turn in turns])}, the longest one "
              f"{ranged([turn[name]['longest'] for turn in turns])}, the median one {ranged([turn[name]['median'] for turn in turns])}")
    print(f"longer by: {ranged([turn['killed']['sum'] - turn['alive']['sum'] for turn in turns])}; all results right")


def machine(mpi):
    said = subprocess.run([f"mpirun.{mpi}", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"\d+(\.\d+)+", said)
    return {**provenance(), "mpi": f"{mpi} {version[0] if version else ''}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("start", "kill"))
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--turns", type=int, default=7, help="default: 7")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    parser.add_argument("--size", default="96", help="of the FFT in which one is killed: N of N^3 points (default: 96)")
    parser.add_argument("--build", default=str(ROOT / "build"), help="default: build")
    parser.add_argument("--json", metavar="FILE", help="write the machine and all samples")
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns: at least one")
    with tempfile.TemporaryDirectory(prefix="longshore-costs-") as folder:
        try:
            launcher = Launcher(options, Path(folder))
            turns = (measure_start if options.what == "start" else measure_kill)(launcher, options)
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            sys.exit(f"job_costs: {error}")
    result = {"what": options.what, "machine": machine(options.mpi), "seed": options.seed, "size": options.size, "turns": turns}
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    report(result)


if __name__ == "__main__":
    main()
