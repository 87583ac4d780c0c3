#!/usr/bin/env python3
"""Draws what 'longshore device' has measured on one machine or two: copies by block, STREAM by threads, TCP and UCX by message, what
registering memory takes, and small steps; of two machines also how many times as quick the second is. Arguments: one or two of its JSON
files, and the picture to be made. Needs matplotlib.
"""

import json
import math
import sys
from pathlib import Path

import ending
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"]
MARKERS = ["o", "s", "^", "v"]
STYLES = ["-", "--", ":", "-."]


def size(value, _=None):
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} B"


def rows_of(data, test):
    return [row for row in data["rows"] if row["test"] == test]


def label_of(machines, name, test):
    """Of one machine the title of the picture says which; of two each line does."""
    return test if len(machines) == 1 else f"{name}, {test}"


def draw_by_bytes(axes, machines, tests, log=False):
    """Two machines differ in colour, the tests in style; of one machine they differ in both."""
    for number, (name, data) in enumerate(machines):
        for place, test in enumerate(tests):
            rows = rows_of(data, test)
            if not rows:
                continue
            which = number if len(machines) > 1 else place
            mean = [row["mean"] for row in rows]
            low = [max(0, row["mean"] - min(row["samples"])) for row in rows]
            high = [max(0, max(row["samples"]) - row["mean"]) for row in rows]
            axes.errorbar([row["bytes"] for row in rows], mean, yerr=[low, high], color=COLOURS[which], marker=MARKERS[which],
                          markersize=4, capsize=2, linestyle=STYLES[place], label=label_of(machines, name, test))
            axes.set_ylabel(rows[0]["unit"])
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(size)
    axes.tick_params(axis="x", rotation=30)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, handlelength=4)


def draw_stream(axes, machines):
    for number, (name, data) in enumerate(machines):
        rows = rows_of(data, "stream triad")
        for place, count in enumerate(sorted({row["bytes"] for row in rows})):
            some = [row for row in rows if row["bytes"] == count]
            which = number if len(machines) > 1 else place
            axes.plot([row["threads"] for row in some], [row["mean"] for row in some], color=COLOURS[which],
                      marker=MARKERS[which], markersize=4, linestyle="-" if count < 1 << 29 else "--",
                      label=label_of(machines, name, f"{count // 8_000_000} million doubles"))
    axes.set_xlabel("threads")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("GB/s")
    axes.set_ylim(bottom=0, top=1.1 * axes.dataLim.y1)
    axes.legend(fontsize=8, handlelength=4)


def nanoseconds(row):
    """Of one step; of a rate of messages, what each takes."""
    return {"ns": row["mean"], "us": 1e3 * row["mean"], "1/s": 1e9 / row["mean"]}[row["unit"]]


def in_words(ns):
    return f"{ns:.3g} ns" if ns < 999.5 else f"{ns / 1e3:.3g} us" if ns < 999.5e3 else f"{ns / 1e6:.3g} ms"


def draw_steps(axes, machines):
    shown = [test for test in STEPS if any(rows_of(data, test) for _, data in machines)]
    width = 0.8 / len(machines)
    for number, (name, data) in enumerate(machines):
        for place, test in enumerate(shown):
            for row in rows_of(data, test)[:1]:
                at = place + (number - (len(machines) - 1) / 2) * width
                axes.bar(at, nanoseconds(row), width, color=COLOURS[number], label=name if place == 0 else None)
                if len(machines) == 1:  # of two there is no room, and their quotients are shown
                    axes.annotate(in_words(nanoseconds(row)), (at, nanoseconds(row)), xytext=(0, 2), textcoords="offset points", ha="center",
                                  fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("ns")
    axes.margins(y=0.1)
    axes.set_xticks(range(len(shown)), shown, rotation=35, ha="right", rotation_mode="anchor", fontsize=8)
    if len(machines) > 1:
        axes.legend(fontsize=8)


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
    axes.set_ylim(0.7 * min(1, *ratios.values()), 1.4 * max(1, *ratios.values()))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(places, ratios, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_title(f"how many times as quick {machines[1][0]} is as {machines[0][0]}: geometric means over blocks and threads")
    axes.grid(True, axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


STEPS = ["word between cores", "wake-up", "wake-up call", "rank post", "rank look", "service message", "service send", "service read",
         "service copy", "service finish", "service look", "network messages", "ucx messages"]


def panel(title, tests, log=False):
    return title, tests, lambda axes, machines: draw_by_bytes(axes, machines, tests, log)


# Title, the tests that it shows, how.
PANELS = [panel("one core copies", ["memcpy", "process copy"]),
          ("STREAM triad", ["stream triad"], draw_stream),
          panel("TCP, one message one way", ["network latency", "network polling"], log=True),
          panel("TCP, messages one after the other", ["network to", "network from", "network both"]),
          panel("UCX, one message one way, one read", ["ucx message", "ucx read time"], log=True),
          panel("UCX, 16 reads or writes under way", ["ucx read", "ucx write", "ucx both"]),
          panel("memory for the network", ["register memory", "deregister memory", "export memory"], log=True),
          ("steps (of a rate of messages: each)", STEPS, draw_steps)]


def main(*paths):
    *files, picture = paths
    machines = [(Path(path).stem, json.loads(Path(path).read_text(encoding="utf-8"))) for path in files]
    everywhere = {row["test"] for _, data in machines for row in data["rows"]}
    panels = [(title, draw) for title, tests, draw in PANELS if not everywhere.isdisjoint(tests)]
    if not panels:
        sys.exit("device.py: nothing that it draws was measured")
    lines, columns = (len(panels) + 1) // 2, min(2, len(panels))
    heights = [4] * lines + [4.5] * (len(machines) - 1)
    figure = plt.figure(figsize=(11, sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for number, (title, draw) in enumerate(panels):
        # The last one of an odd number has the whole line.
        is_alone = number + 1 == len(panels) and number % 2 == 0
        axes = figure.add_subplot(grid[number // 2, :] if is_alone else grid[number // 2, number % 2])
        draw(axes, machines)
        axes.set_title(title)
        axes.grid(True, color="#dddddd", linewidth=0.5)
        axes.set_axisbelow(True)
    if len(machines) == 2:
        draw_ratios(figure.add_subplot(grid[lines, :]), machines)
    else:
        machine = machines[0][1]["machine"]
        figure.suptitle(f"{machines[0][0]}: {machine['processor']}, {machine['cores']} cores, {machine['date']}")
    with ending.whole_file(picture) as part:
        figure.savefig(part, dpi=120)


if __name__ == "__main__":
    sys.exit(ending.run("device compare" if len(sys.argv) == 4 else "device draw", lambda: main(*sys.argv[1:])))
