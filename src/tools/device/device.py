#!/usr/bin/env python3
"""Draws what 'longshore device' has measured on two machines: copies by block, STREAM by threads, the network by message, and
how many times as quick the second is. Arguments: two of its JSON files, and the picture to be made. Needs matplotlib.
"""

import json
import math
import sys
from pathlib import Path

import ending
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = ["#0072b2", "#e69f00"]
MARKERS = ["o", "s"]


def size(value, _=None):
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} B"


def rows_of(data, test):
    return [row for row in data["rows"] if row["test"] == test]


def draw_by_bytes(axes, machines, test, dashed=None, log=False):
    for number, (name, data) in enumerate(machines):
        for which, style in ((test, "-"), (dashed, "--")):
            rows = rows_of(data, which)
            if not rows:
                continue
            mean = [row["mean"] for row in rows]
            low = [row["mean"] - min(row["samples"]) for row in rows]
            high = [max(row["samples"]) - row["mean"] for row in rows]
            axes.errorbar([row["bytes"] for row in rows], mean, yerr=[low, high], color=COLOURS[number], marker=MARKERS[number],
                          markersize=4, capsize=2, linestyle=style, label=f"{name}, {which}" if dashed else name)
            axes.set_ylabel(rows[0]["unit"])
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(size)
    axes.tick_params(axis="x", rotation=30)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def draw_stream(axes, machines):
    for number, (name, data) in enumerate(machines):
        rows = rows_of(data, "stream triad")
        for count in sorted({row["bytes"] for row in rows}):
            some = [row for row in rows if row["bytes"] == count]
            axes.plot([row["threads"] for row in some], [row["mean"] for row in some], color=COLOURS[number],
                      marker=MARKERS[number], linestyle="-" if count < 1 << 29 else "--",
                      label=f"{name}, {count // 8_000_000} million doubles")
    axes.set_xlabel("threads")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("GB/s")
    axes.set_ylim(bottom=0, top=1.1 * axes.dataLim.y1)


def ratios_of(machines):
    """By test, how many times as quick the second machine is: the geometric mean over blocks and threads that both have."""
    first, second = ({(row["test"], row["bytes"], row["threads"]): row for row in data["rows"]} for _, data in machines)
    found = {}
    for key, row in first.items():
        means = (row["mean"], second[key]["mean"]) if key in second else (0, 0)
        if min(means) > 0:
            quicker = means[1] / means[0] if row["unit"].endswith("/s") else means[0] / means[1]
            found.setdefault(row["test"], []).append(math.log(quicker))
    return {test: math.exp(sum(logs) / len(logs)) for test, logs in found.items()}


def draw_ratios(axes, machines):
    ratios = ratios_of(machines)
    places = range(len(ratios))
    axes.bar(places, [ratio - 1 for ratio in ratios.values()], 0.6, bottom=1,
             color=[COLOURS[ratio >= 1] for ratio in ratios.values()])
    for place, ratio in zip(places, ratios.values()):
        axes.annotate(f"{ratio:.2f}", (place, ratio), xytext=(0, 2 if ratio >= 1 else -2), textcoords="offset points", ha="center",
                      va="bottom" if ratio >= 1 else "top", fontsize=8)
    axes.axhline(1, color="#444444", linewidth=0.8)
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.8 * min(1, *ratios.values()), 1.25 * max(1, *ratios.values()))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(places, ratios, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_title(f"how many times as quick {machines[1][0]} is as {machines[0][0]}: geometric means over blocks and threads")
    axes.grid(True, axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


def main(first, second, picture):
    machines = [(Path(path).stem, json.loads(Path(path).read_text(encoding="utf-8"))) for path in (first, second)]
    everywhere = {row["test"] for _, data in machines for row in data["rows"]}
    panels = [("memcpy, one core (dashed: out of another process)", lambda axes: draw_by_bytes(axes, machines, "memcpy", "process copy")),
              ("STREAM triad", lambda axes: draw_stream(axes, machines)),
              ("network latency (dashed: both ends poll)", lambda axes: draw_by_bytes(axes, machines, "network latency", "network polling", log=True)),
              ("network, one way (dashed: both)", lambda axes: draw_by_bytes(axes, machines, "network to", "network both"))]
    needs = ["memcpy", "stream triad", "network latency", "network to"]
    panels = [panel for panel, need in zip(panels, needs) if need in everywhere]
    if not panels:
        sys.exit("device.py: nothing that it draws was measured")
    lines = (len(panels) + 1) // 2
    figure = plt.figure(figsize=(11, 4 * lines + 4.5), layout="constrained")
    grid = figure.add_gridspec(lines + 1, min(2, len(panels)), height_ratios=[4] * lines + [4.5])
    for number, (title, draw) in enumerate(panels):
        axes = figure.add_subplot(grid[number // 2, number % 2])
        draw(axes)
        axes.set_title(title)
        axes.grid(True, color="#dddddd", linewidth=0.5)
        axes.legend(fontsize=8, handlelength=4)
    draw_ratios(figure.add_subplot(grid[lines, :]), machines)
    with ending.whole_file(picture) as part:
        figure.savefig(part, dpi=120)


if __name__ == "__main__":
    sys.exit(ending.run("device compare", lambda: main(*sys.argv[1:4])))
