#!/usr/bin/env python3
"""What write-behind gains and costs, for docs/io.md. Needs what 'make deps-test build' installs and builds.

    study.py --json write-behind.json              all of it
    study.py --parts disk --programs numpy,hdf5 --mpis openmpi --json write-behind.json
    study.py --report write-behind.json            the tables of a file

disk    Each of two ranks computes for 2 s and writes a file of --mb, --rounds times, without write-behind and with it in turns. The
        disk is tests/slow_disk over tmpfs, held to a rate at which it takes 0.8 of the computing to write what is written. `spin`:
        computing takes a core for each rank; `wait`: it takes none, as where an accelerator computes. Files must be the same.
tmpfs   The same without computing and in memory, where write-behind does nothing.
calls   What calls on files that do not match take longer.
Rows that the --json file has already are not measured again.
"""

import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "slow_disk"), str(TESTS.parent / "examples")]
import slow_disk  # noqa: E402
from study_common import provenance  # noqa: E402

BUILD = slow_disk.BUILD
RANKS, COMPUTE_S, SHARE = 2, 2.0, 0.8
MPIS = ("openmpi", "mpich")
PROGRAMS = ("numpy", "hdf5", "stdio", "mpi-own", "mpi-shared")
LIMIT_S = 300


class Progress:
    """A bar on stderr: how much is done, what runs, how long it will take."""

    WIDTH = 30

    def __init__(self, total):
        self.done, self.total, self.begin = 0, total, time.monotonic()

    def say(self, what):
        passed = time.monotonic() - self.begin
        left = f", about {passed / self.done * (self.total - self.done):.0f} s left" if self.done else ""
        filled = self.WIDTH * self.done // self.total
        line = f"[{'#' * filled}{'-' * (self.WIDTH - filled)}] {self.done}/{self.total} {what}{left}"
        is_seen = sys.stderr.isatty()
        print(f"\r\x1b[K{line}" if is_seen else line, end="" if is_seen else "\n", file=sys.stderr, flush=True)
        self.done += 1


def mpirun(mpi):
    words = [f"mpirun.{mpi}", "-np", str(RANKS)]
    if mpi == "openmpi":
        words[1:1] = ["--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
    return words


def run(mpi, words, pattern):
    """Output, and what the statistics say; an empty pattern: without write-behind."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LONGSHORE_")}
    with tempfile.TemporaryDirectory(prefix="write-behind-study-") as folder:
        stats = Path(folder) / "stats.json"
        libraries = [BUILD / "lib/liblongshore.so", *([BUILD / "lib/liblongshore-io.so"] if pattern else [])]
        given = {"LONGSHORE_STATS": stats, "LONGSHORE_SERVICE_PATH": BUILD / "bin/longshored", "LD_PRELOAD": ":".join(map(str, libraries)),
                 **({"LONGSHORE_WRITE_BEHIND": pattern} if pattern else {})}
        done = subprocess.run([*mpirun(mpi), "env", *(f"{name}={value}" for name, value in given.items()), *map(str, words)], env=kept,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            sys.exit(f"study: {words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout, json.loads(stats.read_text(encoding="utf-8")).get("write_behind", {})


def hashes(folder):
    """Of all files, which are then deleted."""
    found = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else \
                hashlib.sha256(file.read()).hexdigest()
        path.unlink()
    return found


def mpi_library(program):
    """What a program is linked to."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.search(r"=> (\S*/libmpi(?:ch)?\.so\S*)", said)[1]


def words_of(options, row, folder):
    words = [row["program"], folder, row["mb"] * 1_000_000, row["rounds"], row["compute_s"], row["computing"]]
    program = BUILD / "tests/io" / row["mpi"] / "saver"
    if row["program"] in ("numpy", "hdf5"):
        return [options.python, TESTS / "io/saver.py", *words, mpi_library(program)]
    return [program, *words]


def cpu_s(pid):
    """What a process has had of processors."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def measure(options, row, place, pattern):
    folder, backing, server = place
    before = cpu_s(server)
    output, stats = run(row["mpi"], words_of(options, row, folder), pattern)
    ranks = [tuple(map(float, found)) for found in re.findall(r"rank \d+ write ([\d.]+) wall ([\d.]+) drain ([\d.]+)", output)]
    if len(ranks) != RANKS:
        sys.exit(f"study: {row}: {output}")
    write_s, wall_s, drain_s = (max(values) for values in zip(*ranks))
    return {"write_s": write_s, "wall_s": wall_s, "drain_s": drain_s, "files": stats.get("files", 0),
            "waiting_bytes_max": stats.get("waiting_bytes_max", 0), "bound_bytes": stats.get("bound_bytes", 0),
            "passed": stats.get("passed", {}), "disk_cpu_s": cpu_s(server) - before}, hashes(backing)


def measure_row(options, row, place, progress):
    """`place`: the folder, where it is really, and the process that is the disk."""
    samples, files = {"without": [], "behind": []}, None
    for _ in range(options.repeats):
        for name, pattern in (("without", ""), ("behind", f"{place[0]}/**")):
            progress.say(f"{row['where']}, {row['program']}, {row['mpi']}, {row['computing']}: {name}")
            one, own = measure(options, row, place, pattern)
            samples[name].append(one)
            files = files or own
            if own != files:
                sys.exit(f"study: {row}: the files differ")
    return {**row, **samples}


def rate_of(mb):
    return int(RANKS * mb * 1e6 / (SHARE * COMPUTE_S))


def measure_files(options, row, progress):
    with tempfile.TemporaryDirectory(prefix="write-behind-study-", dir="/dev/shm") as name:
        if row["where"] == "tmpfs":
            return measure_row(options, row, (Path(name), Path(name), os.getpid()), progress)
        with slow_disk.Mount(name, "--rate", rate_of(row["mb"]), "--burst", 1_000_000) as disk:
            return measure_row(options, row, (disk.path, Path(name), disk.process.pid), progress)


def measure_calls(options, row, progress):
    """Least of the repeats, each the least of many turns, in ns: without the library, and with patterns that do not match."""
    samples = {}
    with tempfile.TemporaryDirectory(prefix="write-behind-study-", dir="/dev/shm") as name:
        for _ in range(options.repeats):
            for kind, pattern in (("without", ""), ("other_name", "/none/*.other"), ("other_folder", "/none/*.ckpt")):
                progress.say(f"calls, {row['mpi']}: {kind}")
                output = run(row["mpi"], [BUILD / "tests/io" / row["mpi"] / "saver", "calls", name], pattern)[0]
                samples.setdefault(kind, []).append({call: float(ns) for call, ns in re.findall(r"call (\S+) (\S+)", output)})
    return {**row, **samples}


def rows_of(options):
    for mpi in options.mpis.split(","):
        files = {"mpi": mpi, "mb": options.mb, "rounds": options.rounds}
        for program in options.programs.split(","):
            for computing in options.computing.split(","):
                if "disk" in options.parts:
                    yield {"where": "disk", "program": program, **files, "computing": computing, "compute_s": COMPUTE_S}
        if "tmpfs" in options.parts:
            yield {"where": "tmpfs", "program": "stdio", **files, "computing": "wait", "compute_s": 0.0}
        if "calls" in options.parts:
            yield {"where": "calls", "mpi": mpi}


# --- what is said of it


def median(samples, name):
    return statistics.median(one[name] for one in samples)


FILE_HEADS = ("where", "program", "MPI", "computing", "write and close, s: without", "behind", "share", "wall, s: without", "behind",
              "by the longer of computing and writing", "drain at the end, s", "waited at most, MB", "the disk's own processor time, s", "not written behind")


def show_files(row):
    without, behind = row["without"], row["behind"]
    write, own_write, wall, own_wall = (median(samples, name) for name in ("write_s", "wall_s") for samples in (without, behind))
    longer = max(row["rounds"] * row["compute_s"], write)
    passed = ", ".join(f"{count} {why}" for why, count in behind[-1]["passed"].items()) or "-"
    return (row["where"], row["program"], row["mpi"], row["computing"], f"{write:.2f}", f"{own_write:.3f}",
            f"{100 * own_write / write:.1f} %", f"{wall:.2f}", f"{own_wall:.2f}", f"{own_wall / longer:.2f}", f"{median(behind, 'drain_s'):.2f}",
            f"{max(one['waiting_bytes_max'] for one in behind) / 1e6:.0f}", f"{median(behind, 'disk_cpu_s'):.1f}", passed)


def show_calls(row):
    """A line for each call."""
    least = {kind: {call: min(one[call] for one in row[kind]) for call in row[kind][0]}
             for kind in ("without", "other_name", "other_folder")}
    for call, ns in least["without"].items():
        yield (row["mpi"], call, f"{ns:.0f}", *(f"{least[kind][call] - ns:+.0f}" for kind in ("other_name", "other_folder")))


def show_table(heads, lines):
    print("|", " | ".join(heads), "|")
    print("|" + "---|" * len(heads))
    for line in lines:
        print("|", " | ".join(line), "|")
    print(flush=True)


def show(rows):
    files = [show_files(row) for row in rows if row["where"] != "calls"]
    if files:
        show_table(FILE_HEADS, files)
    calls = [line for row in rows if row["where"] == "calls" for line in show_calls(row)]
    if calls:
        show_table(("MPI", "call", "without, ns", "another name, ns more", "the same name elsewhere, ns more"), calls)


def machine():
    return {**provenance(), "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
            "disk": f"tests/slow_disk over tmpfs, {SHARE} of the computing for what is written"}


def lacks(options):
    if any(program in options.programs for program in ("numpy", "hdf5")) and "disk" in options.parts and \
            subprocess.run([options.python, "-c", "import numpy, h5py"], capture_output=True, check=False).returncode != 0:
        return f"{options.python} has no numpy or no h5py: make deps-test, or give --python or --programs"
    return slow_disk.missing() if "disk" in options.parts else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="disk,tmpfs,calls")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--mpis", default=",".join(MPIS))
    parser.add_argument("--computing", default="spin,wait")
    parser.add_argument("--mb", type=int, default=256, help="of each file, one for each rank and round (default: 256)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has numpy and h5py (default: Debian's)")
    parser.add_argument("--json", help="write all samples to this file")
    parser.add_argument("--report", metavar="JSON", help="print the tables of this file")
    options = parser.parse_args()
    path = Path(options.report or options.json or "/nonexistent")
    known = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    if options.report:
        return show(known)
    why = lacks(options)
    if why:
        sys.exit(f"study: {why}")
    wanted = [row for row in rows_of(options) if not any(row.items() <= old.items() for old in known)]
    progress = Progress(options.repeats * sum(3 if row["where"] == "calls" else 2 for row in wanted) or 1)
    for row in wanted:
        known.append((measure_calls if row["where"] == "calls" else measure_files)(options, row, progress))
        if options.json:
            path.write_text(json.dumps({"machine": machine(), "rows": known}, indent=1) + "\n", encoding="utf-8")
    return show(known)


if __name__ == "__main__":
    sys.exit(main())
