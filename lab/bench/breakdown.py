#!/usr/bin/env python3
"""Draws results of 'longshore bench --breakdown': where the time of an operation goes, a bar for each size, stages one on
the other, as shares of the call; how long it took stands above the bar.

Reads JSON lines; objects with "type": "breakdown" count, and "machine" says which MPI follows. Needs matplotlib.
"""

import argparse
import json
import sys

import ending

# In their order in time, with what they are.
STAGES = {
    "hand-over": "hand-over: entry until the others see it",
    "peers": "peers: until all have entered, or blocks move",
    "queue": "queue: until the first chunk moves",
    "copy": "copy: until the last block has come (root: is read)",
    "ack": "ack: until the others have read its own",
    "wake-up": "wake-up: until the call returns",
}
# Told apart by colour-blind readers, and by hatching in grey print.
COLOURS = ["#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00"]
HATCHES = ["", "//", "..", "", "\\\\", "xx"]


def load(path):
    """Rows, each with the MPI of the machine line before it."""
    rows, mpi = [], ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line) if line.strip() else {}
            if row.get("type") == "machine":
                mpi = row["mpi"].split(",")[0]
            if row.get("type") == "breakdown" and row.get("offloaded", True):  # not those that the MPI served
                rows.append(row | {"mpi": mpi})
    return rows


def short_size(size):
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def short_time(us):
    return f"{us / 1e3:.3g} ms" if us >= 1000 else f"{us:.3g}"


def shares(row):
    """Per cent of the sum of the stages' medians, which is not quite the median of the sum."""
    medians = row["stages_median_us"]
    whole = sum(medians.values()) or 1
    return [100 * medians[stage] / whole for stage in STAGES]


def in_order(values):
    return list(dict.fromkeys(values))


def draw_panel(axes, rows):
    several = len({row["contender"] for row in rows}) > 1
    for place, row in enumerate(rows):
        bottom = 0
        for share, colour, hatch in zip(shares(row), COLOURS, HATCHES):
            axes.bar(place, share, 0.8, bottom, color=colour, hatch=hatch, edgecolor="white", lw=0.4)
            bottom += share
        axes.text(place, 101, short_time(row["total_median_us"]), ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(rows)), [short_size(row["bytes"]) + ("\n" + row["contender"] if several else "")
                                       for row in rows])
    axes.set_ylim(0, 108)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(plt, rows, path):
    mpis, collectives = in_order(row["mpi"] for row in rows), in_order(row["collective"] for row in rows)
    figure, grid = plt.subplots(len(mpis), len(collectives), squeeze=False, sharey=True, dpi=110, layout="constrained",
                                figsize=(max(6.6, 2.6 * len(collectives) + 0.8), 3 * len(mpis) + 1.2))
    for line, mpi in zip(grid, mpis):
        line[0].set_ylabel(f"{mpi}\nshare of the call, %", fontsize=9)
        for axes, collective in zip(line, collectives):
            axes.set_title(collective, fontsize=10)
            draw_panel(axes, sorted((row for row in rows if (row["mpi"], row["collective"]) == (mpi, collective)),
                                    key=lambda row: (row["bytes"], row["contender"])))
    for axes in grid[-1]:
        axes.set_xlabel("bytes per block", fontsize=9)
    figure.suptitle(f"Where the time of an operation goes, {rows[0]['ranks']} ranks; above: us", fontsize=11)
    looks = [plt.Rectangle((0, 0), 1, 1, color=colour, hatch=hatch, ec="white") for colour, hatch in zip(COLOURS, HATCHES)]
    figure.legend(looks, STAGES.values(), loc="outside lower center", ncols=2 if len(collectives) < 3 else 3,
                  frameon=False, fontsize=8)
    with ending.whole_file(path) as part:
        figure.savefig(part)
    print(f"picture: {path}")


def main():
    parser = argparse.ArgumentParser(description="Draw results of 'longshore bench --breakdown'.")
    parser.add_argument("results", help="JSON lines, as written with --json")
    parser.add_argument("-o", "--output", metavar="FILE", default="breakdown.png", help="the picture (PNG)")
    options = parser.parse_args()
    try:
        rows = load(options.results)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"breakdown: {options.results} cannot be read: {error}")
    if not rows:
        sys.exit(f"breakdown: {options.results} holds no results")
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise ending.Missing("pictures need matplotlib: 'make venv' installs it beside the build")
    draw(plt, rows, options.output)


if __name__ == "__main__":
    sys.exit(ending.run("bench", main))
