#!/usr/bin/env python3
"""Draws what 'longshore simulate' has found: time by the size of a block, a line for each who and placement (or a
bar, where there is one size), with the spread over seeds. Arguments: its JSON, and the picture to be made. Needs
matplotlib.
"""

import collections
import json
import sys

import ending
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442"]
GIVEN_MAX = 3  # values of a machine that a title names


def name_of(row, placements):
    name = f"host, {row['who']}"
    if "services" in row:
        name = f"{row['services']} service process" + ("es" if row["services"] > 1 else "")
    return f"{name}, {row['placement']}" if len(placements) > 1 else name


def size(value, _):
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} B"


def lines(rows, key):
    placements = {row["placement"] for row in rows}
    all_lines = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        if key in row:
            all_lines[name_of(row, placements)][row["bytes"]].append(row[key])
    return all_lines


def draw(axes, all_lines, factor):
    for number, (name, points) in enumerate(all_lines.items()):
        sizes = sorted(points)
        mean = [factor * sum(points[s]) / len(points[s]) for s in sizes]
        low = [m - factor * min(points[s]) for s, m in zip(sizes, mean)]
        high = [factor * max(points[s]) - m for s, m in zip(sizes, mean)]
        axes.errorbar(sizes, mean, yerr=[low, high], label=name, color=COLOURS[number % len(COLOURS)], marker="o",
                      markersize=4, capsize=3, linestyle="--" if name.startswith("host") else "-")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("bytes of a block")
    axes.xaxis.set_major_formatter(size)
    axes.grid(True, which="both", color="#dddddd", linewidth=0.5)
    axes.set_xticks(sorted({s for points in all_lines.values() for s in points}))
    axes.minorticks_off()


def draw_bars(axes, all_lines, factor, what):
    """Of one size: bars from zero, as a line of one point says nothing."""
    for number, points in enumerate(all_lines.values()):
        values = [factor * value for value in next(iter(points.values()))]
        mean = sum(values) / len(values)
        axes.bar(number, mean, 0.6, yerr=[[mean - min(values)], [max(values) - mean]] if len(values) > 1 else None, capsize=3,
                 color=COLOURS[number % len(COLOURS)])
        axes.annotate(f"{mean:.4g}", (number, max(values)), xytext=(0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(len(all_lines)), [name.replace(", ", ",\n") for name in all_lines], fontsize=8)
    axes.set_xlim(-0.8, max(1, len(all_lines)) - 0.2)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"{what}, blocks of {size(next(iter(next(iter(all_lines.values())))), None)}")
    axes.grid(True, axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


def draw_times(axes, all_lines):
    draw(axes, all_lines, 1e-3)
    axes.set_yscale("log")
    shown = [value for points in all_lines.values() for values in points.values() for value in values]
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(shown) >= 10 * min(shown) else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("mean time of a rank, ms")
    axes.legend(fontsize=8)


def title(data):
    """What tells this picture from others of the same collective."""
    said = [f"{data['collective']}, {data['nodes']} nodes of {data['ranks_per_node']} ranks, {data['machine']['name']}, "
            f"handover {data['handover']}, {data['reads']} reads (simulated)"]
    parts = [f"{name} {data[name]}" for name, usual in (("memory", "alias"), ("algorithm", "direct"), ("groups", "world"))
             if data.get(name, usual) != usual]
    given = [f"{name} {value['value']}" for name, value in data["machine"].get("values", {}).items()
             if value["source"] == "given on the command line"]
    parts += given if len(given) <= GIVEN_MAX else [f"{len(given)} values of the machine changed"]
    return "\n".join(said + ([", ".join(parts)] if parts else []))


def main(results, picture):
    with open(results, encoding="utf-8") as file:
        data = json.load(file)
    overlap = lines(data["rows"], "overlap_percent")
    figure, axes = plt.subplots(1, 2 if overlap else 1, figsize=(11 if overlap else 6.5, 4.5), squeeze=False)
    times = lines(data["rows"], "mean_us")
    if len({row["bytes"] for row in data["rows"]}) == 1:
        draw_bars(axes[0][0], times, 1e-3, "mean time of a rank, ms")
        if overlap:
            draw_bars(axes[0][1], overlap, 1, "hidden by computing, %")
    else:
        draw_times(axes[0][0], times)
        if overlap:
            draw(axes[0][1], overlap, 1)
            axes[0][1].set_ylim(-3, 103)
            axes[0][1].set_ylabel("hidden by computing, %")
    figure.suptitle(title(data), fontsize=10)
    figure.tight_layout()
    with ending.whole_file(picture) as part:
        figure.savefig(part, dpi=130)


if __name__ == "__main__":
    sys.exit(ending.run("simulate", lambda: main(*sys.argv[1:3])))
