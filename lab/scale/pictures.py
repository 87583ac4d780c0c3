#!/usr/bin/env python3
"""Draws what longshore-scale has measured, by nodes: time in the engine, control messages, memory; and prints how time goes
with blocks and with peers. Reads JSON lines (--json of longshore-scale), of several files as one. Needs matplotlib.
"""

import argparse
import json
import math
import pathlib
import sys

COLOURS = {"alltoallv": "#0072b2", "alltoall": "#56b4e9", "allgatherv": "#e69f00", "bcast": "#009e73"}
MARKS = {"alltoallv": "o", "alltoall": "s", "allgatherv": "^", "bcast": "D"}
SIZES = {1024: (":", "1 KiB"), 65536: ("-", "64 KiB")}


def load(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file if line.strip()]
    return rows


def lines(rows, ranks):
    """The plain runs: one service process, ranks that enter together, in step; by collective and size."""
    plain = [r for r in rows if r["ranks"] == ranks and r["services"] == 1 and r["entry"] == "together" and
             r["pace"] == "in-step"]
    for collective in COLOURS:
        for size in SIZES:
            line = sorted((r for r in plain if (r["collective"], r["block_bytes"]) == (collective, size)),
                          key=lambda r: r["nodes"])
            if len(line) > 1:
                yield collective, size, line


def slope(line, value):
    """The exponent with which a value grows with the nodes, over the larger half of the sizes."""
    half = line[len(line) // 2:] if len(line) > 2 else line
    first, last = half[0], half[-1]
    return math.log(value(last) / value(first)) / math.log(last["nodes"] / first["nodes"]) if first is not last else 0


def fit(rows, collective, size):
    """ns for each block and for each peer: least squares of relative errors over runs with unlike numbers of ranks."""
    chosen = [r for r in rows if r["collective"] == collective and r["block_bytes"] == size and r["services"] == 1 and
              r["entry"] == "together" and r["pace"] == "in-step" and r["nodes"] >= 64]
    if len({r["ranks"] for r in chosen}) < 2:
        return None
    bb = bp = pp = b1 = p1 = 0
    for r in chosen:
        b, p = r["pairs"] / r["engine_ns"], r["peers"] / r["engine_ns"]
        bb, bp, pp, b1, p1 = bb + b * b, bp + b * p, pp + p * p, b1 + b, p1 + p
    determinant = bb * pp - bp * bp
    return (b1 * pp - p1 * bp) / determinant, (p1 * bb - b1 * bp) / determinant


def plot(axes, all_lines, value, with_slope):
    for collective, size, line in all_lines:
        label = f"{collective}, {SIZES[size][1]}"
        if with_slope:
            label += f" ($n^{{{slope(line, value):.2f}}}$)"
        axes.plot([r["nodes"] for r in line], [value(r) for r in line], SIZES[size][0], label=label, lw=1.4,
                  marker=MARKS[collective], ms=4, color=COLOURS[collective])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({r["nodes"] for _, _, line in all_lines for r in line})
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.minorticks_off()
    axes.set_xlabel("nodes")
    axes.grid(True, which="major", lw=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return ticks


def goal(axes, ticks, value, label):
    axes.plot(ticks, [value(n) for n in ticks], "--", color="black", lw=1, label=label)


def draw(plt, rows, ranks, folder):
    all_lines = list(lines(rows, ranks))

    def picture(name, title, unit, value, bound, label, with_slope=True):
        figure, axes = plt.subplots(figsize=(7.4, 4.4), layout="constrained")
        ticks = plot(axes, all_lines, value, with_slope)
        goal(axes, ticks, bound, label)
        axes.set_title(f"{title}, {ranks} ranks a node", fontsize=11)
        axes.set_ylabel(unit)
        axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        path = folder / f"scale-{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        print(f"picture: {path}")

    picture("time", "Engine time of an operation", "ms", lambda r: r["engine_ns"] / 1e6,
            lambda n: ((n - 1) * ranks * ranks * 200 + (n - 1) * 2000) / 1e6, "200 ns a block, 2 us a peer")
    picture("messages", "Control messages, sent and received", "messages", lambda r: r["control"],
            lambda n: 4 * n + ranks, "4 x nodes + ranks")
    picture("memory", "Memory of the service process", "MB", lambda r: r["service_bytes"] / 1e6, lambda n: 64, "64 MB")
    picture("record", "Node memory of one operation, for each rank", "KiB", lambda r: r["node_bytes_of_a_rank"] / 1024,
            lambda n: 1 + 24 * n * ranks / 1024, "1 KiB + 24 B x ranks of the job")


def print_fits(rows):
    print(f"{'collective':11} {'block B':>8} {'ns a block':>11} {'ns a peer':>10}")
    for collective in COLOURS:
        for size in SIZES:
            found = fit(rows, collective, size) if collective != "bcast" else None
            if found:
                print(f"{collective:11} {size:8} {found[0]:11.0f} {found[1]:10.0f}")


def main():
    parser = argparse.ArgumentParser(description="Draw what longshore-scale has measured.")
    parser.add_argument("results", nargs="+", help="JSON lines, as written with --json")
    parser.add_argument("-o", "--output", metavar="FOLDER", default="docs/images", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=32, help="ranks of a node in the pictures")
    options = parser.parse_args()
    try:
        rows = load(options.results)
    except (OSError, ValueError) as error:
        sys.exit(f"scale: cannot be read: {error}")
    print_fits(rows)
    if not list(lines(rows, options.ranks)):
        sys.exit(f"scale: no curves of {options.ranks} ranks a node in there")
    try:
        import matplotlib

        matplotlib.use("Agg")
        matplotlib.rcParams["svg.hashsalt"] = "scale"
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("scale: pictures need matplotlib: 'make venv' installs it beside the build")
    draw(plt, rows, options.ranks, options.output)


if __name__ == "__main__":
    main()
