#!/usr/bin/env python3
"""Draws what 'longshore device' has measured on two machines: copies by block, STREAM by threads, the network by message, and
how many times as quick the second is. Arguments: two of its JSON files, and the picture to be made. Needs matplotlib.
"""

import json
import sys
from pathlib import Path

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
    axes.set_ylim(bottom=0)


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
    figure, all_axes = plt.subplots((len(panels) + 1) // 2, min(2, len(panels)), figsize=(11, 4 * ((len(panels) + 1) // 2)),
                                    squeeze=False, layout="constrained")
    for axes in all_axes.flat[len(panels):]:
        axes.set_visible(False)
    for axes, (title, draw) in zip(all_axes.flat, panels):
        draw(axes)
        axes.set_title(title)
        axes.grid(True, color="#dddddd", linewidth=0.5)
        axes.legend(fontsize=8)
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:4])
