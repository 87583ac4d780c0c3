#!/usr/bin/env python3
"""Random histories of file operations, each on files that are written behind and on plain ones, in which every answer and byte
must be the same (histories.c). Meanwhile the writer is killed at random moments. Says how many were made; exit status 1: one
differs, or does not end.

    campaign.py --mpi openmpi --histories 100000 --seed 1
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
RANKS = 2
LIBRARIES = [BUILD / "lib/liblongshore.so", BUILD / "lib/liblongshore-io.so"]
# Without them UCX leaves mmap alone, so that files that are open for reading, too, are written behind.
NO_HOOKS = {"UCX_MEM_EVENTS": "n", "UCX_MEM_MMAP_HOOK_MODE": "none"}
WIDTH = 30
RESTARTS_MAX = 1000  # of the writer; no setting allows more


def launch(mpi, settings, words):
    run = [f"mpirun.{mpi}", "-np", str(RANKS)]
    if mpi == "openmpi":
        run[1:1] = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
    return subprocess.Popen([*run, "env", *(f"{name}={value}" for name, value in settings.items()), *map(str, words)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def writers_of(program):
    """The writers that run this copy of longshored."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/exe") == str(program) and \
                    Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")[1:2] == [b"writer"]:
                found.append(int(name))
        except OSError:
            pass  # it has ended
    return found


class Killer(threading.Thread):
    """Kills writers, as long as the job runs, after pauses that are drawn; on a machine that is busy with other things after longer
    ones, so that they can be started again to the end. `progress`: the part of the histories that is done."""

    def __init__(self, job, program, seed, pause_s):
        super().__init__(daemon=True)
        self.job, self.program, self.draw, self.pause_s, self.kills = job, program, random.Random(seed), pause_s, 0
        self.progress = 0.0

    def run(self):
        while self.job.poll() is None:
            time.sleep(self.draw.uniform(0, 2 * self.pause_s))
            if self.kills > 0.9 * RESTARTS_MAX * self.progress:
                continue
            for pid in writers_of(self.program):
                try:
                    os.kill(pid, signal.SIGKILL)
                    self.kills += 1
                except OSError:
                    pass


def show(done, total, begin, kills):
    passed = time.monotonic() - begin
    left = f", about {passed / done * (total - done):.0f} s left" if done else ""
    filled = WIDTH * done // total
    is_seen = sys.stderr.isatty()
    line = f"[{'#' * filled}{'-' * (WIDTH - filled)}] {RANKS * done}/{RANKS * total} histories, {kills} writers killed{left}"
    print(f"\r\x1b[K{line}" if is_seen else line, end="" if is_seen else "\n", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--histories", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.3, help="between two kills, on the average and if there are not too many, in seconds; 0: none (default: 0.3)")
    parser.add_argument("--every", type=float, default=10.0, help="how often to say how far it is, in seconds (default: 10)")
    options = parser.parse_args()
    total = max(1, options.histories // RANKS)
    with tempfile.TemporaryDirectory(prefix="write-behind-histories-", dir="/dev/shm") as name:
        folder = Path(name)
        (folder / "behind").mkdir()
        (folder / "plain").mkdir()
        program = folder / "longshored"
        shutil.copy(BUILD / "bin/longshored", program)
        settings = {"LD_PRELOAD": ":".join(map(str, LIBRARIES)), "LONGSHORE_SERVICE_PATH": program, "LONGSHORE_SERVICE_RESTARTS_MAX": RESTARTS_MAX,
                    "LONGSHORE_WRITE_BEHIND": f"{folder}/behind/*", "LONGSHORE_WRITE_BEHIND_BYTES_MAX": "1M",
                    "LONGSHORE_INTERNAL_IO_MEMORY": "1", "LONGSHORE_LOG": "info", **NO_HOOKS}
        job = launch(options.mpi, settings, [BUILD / "tests/io" / options.mpi / "histories", folder, options.seed, total])
        killer = Killer(job, program, options.seed, options.pause)
        if options.pause > 0:
            killer.start()
        begin = told = time.monotonic()
        done, output = 0, []
        for line in job.stdout:
            found = re.fullmatch(r"(\d+) of \d+ done\n", line)
            if found:
                done = int(found[1])
                killer.progress = done / total
            elif "it is started again" not in line:
                output = [*output[-100:], line]
            if found and (time.monotonic() - told >= options.every or done == total):
                told = time.monotonic()
                show(done, total, begin, killer.kills)
        status = job.wait()
    behind = next((line.strip() for line in output if re.search(r"written behind: \d+ files", line)), "nothing is said of what was written behind")
    is_behind = re.search(r"written behind: [1-9]\d* files", behind) is not None  # else two plain files were compared
    # A history has a few files open at once: descriptors that are never given back would be the reason.
    has_room = not any("the limit of open files" in line for line in output)
    ended_well = status == 0 and done == total and is_behind and has_room
    wrong = f"exit status {status}" if status or done != total else "nothing was written behind" if not is_behind else "descriptors are kept"
    print(f"{options.mpi}: {RANKS * done} histories of seeds {options.seed} to {options.seed + done - 1}, {killer.kills} writers killed, "
          f"{time.monotonic() - begin:.0f} s: {'all the same' if ended_well else wrong}\n  {behind}", flush=True)
    if not ended_well:
        print("".join(output), end="")
    return 0 if ended_well else 1


if __name__ == "__main__":
    sys.exit(main())
