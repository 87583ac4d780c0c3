#!/usr/bin/env python3
"""'longshore simulate' beside SimGrid (Debian: libsimgrid-dev): collectives of a host's MPI on a machine of mpcdf-bf3's values,
without jitter, as both see them. SimGrid's side is compiled into the build folder that has the command. Prints a table (Markdown).

Exit code: 0 all within 10 % by max-min sharing, which is SimGrid's rule; 1 not; 77 there is no SimGrid.

    compare.py --longshore build/bin/longshore
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WITHIN = 0.10
MACHINE = "mpcdf-bf3"
QUIET = ["--set", "jitter.entry=0 us", "--set", "jitter.cost=0 %", "--warm-up", "0", "--iterations", "1"]
# What is compared: collective, algorithm (of 'longshore simulate'), nodes, ranks of each, bytes of a block, groups.
CASES = [("alltoallv", "pairwise", 8, 1, 1 << 20, "world"),
         ("allgatherv", "ring", 16, 1, 256 << 10, "world"),
         ("alltoallv", "linear", 8, 1, 1 << 20, "world"),
         ("alltoallv", "linear", 4, 4, 256 << 10, "columns")]
# Links that are what they say: SimGrid's own defaults take 3 % of each link for headers and lengthen latencies for TCP.
PLAIN = ["--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:0", "--log=root.thres:error"]
UNITS = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "B/s": 1, "KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}


def build(program):
    """Compiles what is SimGrid's side, unless that is there already."""
    source = HERE / "exchange.cc"
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["g++", "-std=c++17", "-O1", source, "-lsimgrid", "-o", program], capture_output=True, text=True,
                          check=False)
    if done.returncode == 0:
        return
    if re.search(r"simgrid/s4u.hpp|cannot find -lsimgrid", done.stderr):
        print("compare.py: SKIP: no SimGrid (Debian: libsimgrid-dev)")
        sys.exit(77)
    sys.exit(done.stderr)


def ours(longshore, folder, case, sharing):
    """The time, in us, and the values of the machine."""
    collective, algorithm, nodes, ranks, size, groups = case
    results = folder / "results.json"
    subprocess.run([longshore, "simulate", "--machine", MACHINE, "--collective", collective, "--against", algorithm, "--nodes", str(nodes),
                    "--ranks-per-node", str(ranks), "--sizes", str(size), "--groups", groups, "--sharing", sharing, *QUIET,
                    "--json", results], check=True, stdout=subprocess.DEVNULL)
    data = json.loads(results.read_text(encoding="utf-8"))
    return next(row["mean_us"] for row in data["rows"] if row["who"] == algorithm), data["machine"]["values"]


def plain(values, key):
    number, unit = values[key]["value"].split()
    return float(number) * UNITS[unit]


def theirs(program, case, values):
    _, algorithm, nodes, ranks, size, _ = case
    keys = ("pcie.rate", "pcie.latency", "link.rate", "link.latency", "switch.latency")
    done = subprocess.run([program, algorithm, str(nodes), str(ranks), str(size), *(repr(plain(values, key)) for key in keys), *PLAIN],
                          check=True, capture_output=True, text=True, timeout=120)
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longshore", default="build/bin/longshore")
    options = parser.parse_args()
    far, program = [], Path(options.longshore).resolve().parents[1] / "simgrid/exchange"
    build(program)
    with tempfile.TemporaryDirectory(prefix="longshore-simgrid-") as name:
        folder = Path(name)
        print("| collective | nodes x ranks | block | SimGrid, us | FIFO, us | beside SimGrid | max-min, us | beside SimGrid |\n"
              "|---|---|---|---|---|---|---|---|")
        for case in CASES:
            collective, algorithm, nodes, ranks, size, groups = case
            fifo, values = ours(options.longshore, folder, case, "fifo")
            shared, _ = ours(options.longshore, folder, case, "max-min")
            their = theirs(program, case, values)
            print(f"| {collective}, {algorithm}{', columns' if groups == 'columns' else ''} | {nodes} x {ranks} | {size >> 10} KiB | "
                  f"{their:.1f} | {fifo:.1f} | {100 * (fifo / their - 1):+.1f} % | {shared:.1f} | {100 * (shared / their - 1):+.1f} % |")
            if abs(shared / their - 1) > WITHIN:
                far.append(f"{collective}, {algorithm}")
    for one in far:
        print(f"compare.py: further than {100 * WITHIN:.0f} % from SimGrid: {one}", file=sys.stderr)
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
