#!/usr/bin/env python3
"""Draws runs of fft without and with Longshore, as figure 8 and table II of Graham et al., "Optimizing Application
Performance With BlueField" show P3DFFT++: a bar for blocking MPI_Alltoallv, one for MPI_Ialltoallv, one for
MPI_Ialltoallv with Longshore; and where the time in MPI goes.

    fft --mode both --json host.json                             by the MPI itself
    longshore run ... fft --mode both --json longshore.json      the same under Longshore
    picture.py host.json longshore.json -o fft.png
    picture.py a-host.json a-longshore.json b-host.json b-longshore.json --labels '2 nodes' '4 nodes'

The figures are printed, too. Needs matplotlib ('make venv').
"""

import argparse
import json
import statistics
import sys

# Told apart by colour-blind readers, and by hatching in grey print.
BARS = {"MPI_Alltoallv": ("#999999", "//"), "MPI_Ialltoallv": ("#56b4e9", ".."), "Longshore": ("#0072b2", "")}
ROWS = ("communication", "MPI_Waitany", "MPI_Ialltoallv", "other")
SAME = ("size", "grid", "ranks", "variables", "open_max", "precision", "work_factor", "checksum")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def transform_ms(seconds):
    return 1e3 * statistics.median(seconds["transform"]["largest_of_ranks"])


class Pair:
    """A run by the MPI itself and one with Longshore, of the same transform."""

    def __init__(self, host, longshore, label=None):
        for key in SAME:
            if host[key] != longshore[key]:
                raise ValueError(f"the two runs differ in {key}: {host[key]} and {longshore[key]}")
        if "seconds" not in host or "seconds" not in longshore:
            raise ValueError("a run has no nonblocking exchanges: use --mode both")
        self.label = label or f"{'x'.join(map(str, host['grid']))} ranks"
        self.about = f"{'x'.join(map(str, host['size']))}, {host['variables']} variables, {host['precision']} precision"
        self.bars = {"MPI_Ialltoallv": transform_ms(host["seconds"]), "Longshore": transform_ms(longshore["seconds"])}
        if "blocking" in host:
            self.bars["MPI_Alltoallv"] = transform_ms(host["blocking"]["seconds"])
        self.rows = {name: [1e3 * run["seconds_in_mpi"][name] for run in (host, longshore)] for name in ROWS}

    def gain(self, bar):
        """By how many per cent Longshore takes less than that bar; negative: more."""
        return 100 * (1 - self.bars["Longshore"] / self.bars[bar])


def print_pair(pair):
    print(f"{pair.label}: {pair.about}")
    for bar in BARS:
        if bar in pair.bars:
            gain = "" if bar == "Longshore" else f"{pair.gain(bar):+10.1f} %"
            print(f"  {bar:<16}{pair.bars[bar]:>12.1f} ms{gain}")
    print(f"  {'in MPI, mean of ranks':<24}{'host, ms':>12}{'Longshore':>12}{'less by':>10}")
    for name, (host, longshore) in pair.rows.items():
        less = f"{100 * (1 - longshore / host):+.0f} %" if host > 0 else "-"
        print(f"  {name:<24}{host:>12.1f}{longshore:>12.1f}{less:>10}")


def draw_bars(axes, pairs):
    for place, pair in enumerate(pairs):
        for i, (bar, (colour, hatch)) in enumerate(BARS.items()):
            if bar not in pair.bars:
                continue
            x, height = place + (i - 1) * 0.27, pair.bars[bar]
            axes.bar(x, height, 0.25, color=colour, hatch=hatch, edgecolor="white", lw=0.4,
                     label=bar if place == 0 else None)
            above = f"{height:.0f} ms" if bar == "Longshore" else f"{pair.gain(bar):+.0f} %"
            axes.text(x, height, above, ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(pairs)), [pair.label for pair in pairs])
    axes.set_ylabel("transform, there and back, ms")
    axes.set_title("above a bar: what Longshore saves of it", fontsize=9)
    axes.margins(y=0.12)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))


def draw_rows(axes, pairs):
    """Of each pair a group of bars for each row of the table."""
    step, ticks = len(ROWS) + 0.7, []
    for place, pair in enumerate(pairs):
        for i, name in enumerate(ROWS):
            x = place * step + i
            ticks.append((x, name))
            for j, (run, colour, hatch) in enumerate((("host", *BARS["MPI_Ialltoallv"]), ("Longshore", *BARS["Longshore"]))):
                axes.bar(x + (j - 0.5) * 0.4, pair.rows[name][j], 0.38, color=colour, hatch=hatch, edgecolor="white", lw=0.4,
                         label=run if place == i == 0 else None)
                axes.text(x + (j - 0.5) * 0.4, pair.rows[name][j], f"{pair.rows[name][j]:.0f}", ha="center", va="bottom",
                          fontsize=7)
        if len(pairs) > 1:
            axes.text(place * step + (len(ROWS) - 1) / 2, 1, pair.label, ha="center", va="bottom", fontsize=8,
                      transform=axes.get_xaxis_transform())
    axes.set_xticks([x for x, _ in ticks], [name for _, name in ticks], rotation=15 if len(pairs) < 3 else 60, fontsize=8)
    axes.set_ylabel("in MPI, mean of ranks, ms")
    axes.margins(y=0.12)
    axes.legend(frameon=False, fontsize=8)


def draw(pairs, path):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("picture: pictures need matplotlib: 'make venv' installs it beside the build")
    figure, (left, right) = plt.subplots(1, 2, dpi=110, layout="constrained", figsize=(8 + 1.6 * len(pairs), 4.4),
                                         width_ratios=(1, 1.2))
    draw_bars(left, pairs)
    draw_rows(right, pairs)
    for axes in (left, right):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.suptitle(f"3-D FFT, {pairs[0].about}", fontsize=11)
    figure.savefig(path)
    print(f"picture: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="HOST LONGSHORE", help="JSON files, in pairs")
    parser.add_argument("--labels", nargs="+", default=[], metavar="TEXT", help="what the pairs are called")
    parser.add_argument("-o", "--output", metavar="FILE", help="the picture (PNG); without it: text only")
    options = parser.parse_args()
    if len(options.results) % 2:
        parser.error("the files come in pairs: HOST LONGSHORE")
    if options.labels and 2 * len(options.labels) != len(options.results):
        parser.error("as many labels as pairs")
    labels = options.labels or [None] * (len(options.results) // 2)
    try:
        pairs = [Pair(load(host), load(longshore), label)
                 for host, longshore, label in zip(options.results[::2], options.results[1::2], labels)]
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"picture: {error}")
    for pair in pairs:
        print_pair(pair)
    if options.output:
        draw(pairs, options.output)


if __name__ == "__main__":
    main()
