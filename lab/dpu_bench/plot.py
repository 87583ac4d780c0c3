#!/usr/bin/env python3
"""Draws results of 'longshore dpu-bench': offload efficiency by message size for each number of workers, and the time
of the hosts alone against that of the workers.

Reads JSON lines; objects with "type": "row" count. Needs matplotlib.
"""

import argparse
import json
import os
import sys
from collections import defaultdict

import ending

PATTERNS = {
    "bcast": "broadcast",
    "gather": "gather",
    "allgather-leader": "allgather, single leader",
    "allgather-multi": "allgather, multi-root",
}
FORMULAS = {
    "paper": "reference / max(pure comm, compute)",
    "code": "reference loop / total loop",
    "median": "medians: reference / max(pure comm, compute)",
}
# Told apart by colour-blind readers, and by marker in grey print.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7a5c00", "#404040"]
MARKERS = "osD^vP*X"
# Of the lines of a picture: up to a worker per node, and from there on. The paper divides its figures so.
SPANS = {
    "up-to-1wpn": ("up to 1 worker per node", lambda wpn: wpn <= 1),
    "from-1wpn": ("1 worker per node and more", lambda wpn: wpn >= 1),
}


def load(path):
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line) if line.strip() else {}
            if row.get("type") == "row":
                rows.append(row)
    return rows


def short_size(size):
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def workers_label(row):
    count = row["workers"]
    return f"{count} worker{'' if count == 1 else 's'} ({row['workers_per_node']:.3g} per node)"


def lines_of(rows, value):
    """{workers: (label, [(bytes, value)])}, in order."""
    lines = defaultdict(lambda: ["", []])
    for row in sorted(rows, key=lambda row: (row["workers"], row["bytes"])):
        lines[row["workers"]][0] = workers_label(row)
        lines[row["workers"]][1].append((row["bytes"], row[value]))
    return lines


def styles_of(rows):
    """A look for each number of workers, the same in every picture."""
    counts = sorted({row["workers"] for row in rows})
    return {count: dict(color=COLOURS[i % len(COLOURS)], marker=MARKERS[i % len(MARKERS)], lw=1.6, ms=5.5)
            for i, count in enumerate(counts)}


class Canvas:
    """A row of panels, one per pattern, a common legend below, sizes on the x axis."""

    def __init__(self, plt, rows, title):
        self.patterns = [name for name in PATTERNS if any(row["pattern"] == name for row in rows)]
        self.sizes = sorted({row["bytes"] for row in rows})
        width = max(6.6, 3.4 * len(self.patterns) + 0.6)
        self.figure, grid = plt.subplots(1, len(self.patterns), figsize=(width, 4.1), dpi=110, sharey=True,
                                         squeeze=False, layout="constrained")
        self.panels = dict(zip(self.patterns, grid[0]))
        self.figure.suptitle(title if len(self.patterns) > 2 else title.replace("; ", "\n"), fontsize=11)
        for name, axes in self.panels.items():
            axes.set_title(PATTERNS[name], fontsize=10)
            axes.set_xticks(range(len(self.sizes)), [short_size(size) for size in self.sizes])
            axes.set_xlim(-0.3, len(self.sizes) - 0.7)
            axes.set_xlabel("bytes per block", fontsize=9)
            axes.tick_params(labelsize=9)
            axes.grid(axis="y", color="#dddddd", lw=0.7)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        self.first = grid[0][0]

    def line(self, pattern, points, **look):
        places = [self.sizes.index(size) for size, _ in points]
        self.panels[pattern].plot(places, [value for _, value in points], **look)

    def save(self, plt, path):
        found = {}
        for axes in self.panels.values():
            for handle, label in zip(*axes.get_legend_handles_labels()):
                found.setdefault(label, handle)
        columns = min(len(found), 1 + len(self.patterns), 4)
        self.figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns, frameon=False,
                           fontsize=9)
        with ending.whole_file(path) as part:
            self.figure.savefig(part)
        plt.close(self.figure)
        print(f"picture: {path}")


def place(rows):
    row = rows[0]
    return f"{row['hosts']} hosts on {row['nodes']} emulated node{'' if row['nodes'] == 1 else 's'}, {row['mover']}"


def scale_efficiency(canvas, rows, formula):
    """From 0 to a little over 100 %; medians may pass that."""
    canvas.first.set_ylim(0, 1.05 * max([100] + [row[f"efficiency_{formula}"] for row in rows]))
    canvas.first.set_ylabel(f"offload efficiency, %\n{FORMULAS[formula]}", fontsize=9)


def draw_efficiency(plt, rows, styles, formula, title, path):
    canvas = Canvas(plt, rows, f"{title}; {place(rows)}")
    for pattern in canvas.patterns:
        mine = [row for row in rows if row["pattern"] == pattern]
        for workers, (label, points) in lines_of(mine, f"efficiency_{formula}").items():
            canvas.line(pattern, points, label=label, **styles[workers])
        canvas.panels[pattern].axhline(100, color="#808080", lw=0.8, ls=":")
    scale_efficiency(canvas, rows, formula)
    canvas.save(plt, path)


def draw_runtime(plt, rows, styles, title, path):
    """The reference is measured anew in every launch: all of them, as a band from the least to the most."""
    canvas = Canvas(plt, rows, f"{title}; {place(rows)}")
    for pattern in canvas.patterns:
        mine = [row for row in rows if row["pattern"] == pattern]
        references = defaultdict(list)
        for row in mine:
            references[row["bytes"]].append(row["reference_mean_us"] / 1e3)
        sizes = sorted(references)
        canvas.panels[pattern].fill_between([canvas.sizes.index(size) for size in sizes],
                                            [min(references[size]) for size in sizes],
                                            [max(references[size]) for size in sizes], color="#c8c8c8", lw=0)
        middle = [(size, sum(references[size]) / len(references[size])) for size in sizes]
        canvas.line(pattern, middle, color="black", lw=2, ls="--", label="reference: hosts alone (band: all launches)")
        for workers, (label, points) in lines_of(mine, "pure_comm_mean_us").items():
            canvas.line(pattern, [(size, us / 1e3) for size, us in points], label=label, **styles[workers])
    canvas.first.set_yscale("log")
    canvas.first.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    canvas.first.set_ylabel("time of one operation, ms", fontsize=9)
    canvas.save(plt, path)


def draw_by_workers(plt, rows, formula, title, path):
    """Efficiency over the number of workers, a line per size: where the sweet spot is."""
    canvas = Canvas(plt, rows, f"{title}; {place(rows)}")
    counts = sorted({row["workers"] for row in rows})
    shades = plt.get_cmap("viridis_r")
    for pattern, axes in canvas.panels.items():
        for i, size in enumerate(canvas.sizes):
            points = sorted((row["workers"], row[f"efficiency_{formula}"]) for row in rows
                            if row["pattern"] == pattern and row["bytes"] == size)
            axes.plot([counts.index(count) for count, _ in points], [value for _, value in points],
                      color=shades(0.12 + 0.88 * i / max(1, len(canvas.sizes) - 1)), marker=MARKERS[i % len(MARKERS)],
                      lw=1.6, ms=5.5, label=short_size(size))
        axes.set_xticks(range(len(counts)), counts)
        axes.set_xlim(-0.3, len(counts) - 0.7)
        axes.set_xlabel("workers", fontsize=9)
        axes.axhline(100, color="#808080", lw=0.8, ls=":")
        if rows[0]["nodes"] in counts:
            axes.axvline(counts.index(rows[0]["nodes"]), color="#808080", lw=0.9, ls="--", label="1 worker per node")
    scale_efficiency(canvas, rows, formula)
    canvas.save(plt, path)


def draw_all(plt, rows, formula, folder):
    styles = styles_of(rows)
    for assignment in ("cyclic", "block"):
        mine = [row for row in rows if row["assignment"] == assignment]
        if not mine:
            continue
        name = os.path.join(folder, assignment)
        for span, (words, belongs) in SPANS.items():
            part = [row for row in mine if belongs(row["workers_per_node"])]
            if part:
                draw_efficiency(plt, part, styles, formula, f"Offload efficiency, {assignment} assignment, {words}",
                                f"{name}-efficiency-{span}.png")
        draw_by_workers(plt, mine, formula, f"Offload efficiency by workers, {assignment} assignment",
                        f"{name}-efficiency-by-workers.png")
        draw_runtime(plt, mine, styles, f"Workers' communication against hosts alone, {assignment} assignment",
                     f"{name}-runtime.png")


def main():
    parser = argparse.ArgumentParser(description="Draw results of 'longshore dpu-bench'.")
    parser.add_argument("results", help="JSON lines, as written with --json")
    parser.add_argument("-o", "--output", metavar="FOLDER", default=".", help="where the pictures go")
    parser.add_argument("--formula", choices=FORMULAS, default="paper", help="which efficiency")
    options = parser.parse_args()
    try:
        rows = load(options.results)
    except (OSError, ValueError) as error:
        sys.exit(f"dpu-bench: {options.results} cannot be read: {error}")
    if not rows:
        sys.exit(f"dpu-bench: {options.results} holds no results")
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise ending.Missing("pictures need matplotlib: 'make venv' installs it beside the build")
    os.makedirs(options.output, exist_ok=True)
    draw_all(plt, rows, options.formula, options.output)


if __name__ == "__main__":
    sys.exit(ending.run("dpu-bench", main))
