#!/usr/bin/env python3
"""Draws a trace: who did what when, a lane per rank, per service process (SP), and per direction of a wire.

What a trace is, timeline_lanes.py says. Several stand one above the other on one scale of time, each from its own first
event on. The text chart needs nothing but Python, and so does an SVG (timeline_svg.py); another picture needs matplotlib.
"""

import argparse
import shutil
import sys

import ending
import timeline_svg
from timeline_lanes import (KINDS, LAYERS, LEGEND, WIRE_IDLE, WIRE_USED, bins_of, clip, format_ms, label_of, load, mean_use, nice_step,
                            shares, summary)

PIXELS_PER_SEGMENT_MIN = 4  # of one lane in a picture, on average; with less, the lane is drawn in bins
PIXELS_PER_BIN = 2


def letters_of(lane, start, end, columns):
    """A column shows the kind that filled most of its time; of a wire, tenths of what it carries at most."""
    if lane.is_wire:
        width = (end - start) / columns
        tenths = [round(mean_use(lane, start + i * width, start + (i + 1) * width) / 10) for i in range(columns)]
        return "".join(" " if tenth < 1 else str(min(tenth, 9)) for tenth in tenths)
    letters = ""
    for one in bins_of(lane.segments, start, end, columns):
        one["idle"] = max(0.0, 1 - sum(share for kind, share in one.items() if kind != "idle"))
        letters += KINDS[max(one, key=lambda kind: (one[kind], LAYERS.index(kind)))][0]
    return letters


def draw_text(panels, start, end, width, title):
    """The chart as a string; panels: (label, lanes) each."""
    table = ["compute", "post", "wait", "move"]
    present = {kind for _, lanes in panels for lane in lanes for _, _, kind, _ in lane.segments}
    table += [kind for kind in ("test", "mpi") if kind in present]
    # A narrow chart has narrower figures.
    cell, decimals = (8, 1) if width >= 100 else (6, 0)
    heads = {"mpi": "MPI", "compute": "compute" if cell == 8 else "comp."}
    margin = max([len(label_of(lane, lanes)) for _, lanes in panels for lane in lanes] + [4]) + 1
    columns = max(20, width - margin - 3 - cell * len(table))
    lines = [title] if title else []
    for label, lanes in panels:
        own_end = min(end, max((lane.last for lane in lanes), default=end))
        own_columns = max(1, round(columns * (own_end - start) / (end - start)))
        lines.append(f"{label:<{margin + columns + 2}}" + "".join(f"{heads.get(kind, kind):>{cell}}" for kind in table))
        for lane in lanes:
            letters = letters_of(lane, start, own_end, own_columns)
            if lane.is_wire:
                numbers = f"  {summary(lane, start, own_end)}"
            else:
                share = shares(lane.segments, start, own_end)
                numbers = "".join(f"{100 * share.get(kind, 0):{cell - 2}.{decimals}f} %" for kind in table)
            lines.append(f"{label_of(lane, lanes):<{margin}}|{letters + '|':<{columns + 1}}{numbers}")
    lines += axis_lines(start, end, columns, margin)
    lanes = [lane for _, lanes in panels for lane in lanes]
    used = {kind for lane in lanes for _, _, kind, _ in clip(lane.segments, start, end)} | {"idle"}
    legend = [f"{KINDS[k][0]!r} {KINDS[k][3]}" for k in LEGEND if k in used]
    line = ""
    for one in legend:
        if line and margin + 1 + len(line) + 2 + len(one) > width:
            lines.append(" " * (margin + 1) + line)
            line = ""
        line += ("  " if line else "") + one
    lines.append(" " * (margin + 1) + line)
    if any(lane.is_wire for lane in lanes):
        lines.append(" " * (margin + 1) + "of a wire: '1' to '9' tenths in use, ' ' idle")
    return "\n".join(line.rstrip() for line in lines)


def axis_lines(start, end, columns, margin):
    step = nice_step((end - start) / 1e3, max(2, columns // 9))
    ticks, numbers = [" "] * (columns + 12), [" "] * (columns + 24)
    index = int(-(-start / 1e3 // step))
    while index * step <= end / 1e3 + 1e-9:
        column = min(columns - 1, int((index * step * 1e3 - start) / (end - start) * columns))
        ticks[column] = "+"
        text = format_ms(index * step, step)
        numbers[column : column + len(text)] = text
        index += 1
    return [" " * (margin + 1) + "".join(ticks), f"{'ms':<{margin}} " + "".join(numbers)]


def draw_picture(panels, start, end, width_px, title, path):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        from matplotlib.patches import Patch
    except ImportError:
        if path.endswith(".svg"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(timeline_svg.svg(panels, start, end, width_px, title))
            return
        raise ending.Missing("a picture needs matplotlib ('pip install matplotlib'); --text and FILE.svg do without")

    dpi = 100
    inches = max(width_px, 400) / dpi
    heights = [0.42 * len(lanes) + 0.45 * bool(label) for label, lanes in panels]
    figure, rows = plt.subplots(len(panels), figsize=(inches, 1.25 + sum(heights)), dpi=dpi, layout="constrained",
                                sharex=True, squeeze=False, height_ratios=heights)
    figure.get_layout_engine().set(w_pad=0.1)
    binned = False
    for axes, (label, lanes) in zip(rows[:, 0], panels):
        binned |= draw_panel(axes, lanes, start, min(end, max(lane.last for lane in lanes)), inches, dpi)
        if label:
            axes.set_title(label, loc="left", fontsize=10, fontweight="bold")
    axes = rows[-1, 0]
    axes.set_xlim(start / 1e3, end / 1e3)
    axes.set_xlabel("ms" + (" (many events: a column shows the shares of its time)" if binned else ""))
    lanes = [lane for _, lanes in panels for lane in lanes]
    used = {kind for lane in lanes for _, _, kind, _ in clip(lane.segments, start, end)} | {"idle"}
    entries = [(KINDS[k][1], KINDS[k][3]) for k in LEGEND if k in used]
    if any(lane.is_wire for lane in lanes):
        entries += [WIRE_USED, WIRE_IDLE]
    handles = [Patch(facecolor=colour, edgecolor="#b0b0b0", lw=0.5, label=text) for colour, text in entries]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9,
                  handlelength=1.2, columnspacing=1.4)
    if title:
        figure.suptitle(title, x=0.008, ha="left", fontsize=11)
    figure.savefig(path)
    plt.close(figure)


def draw_panel(axes, lanes, start, end, inches, dpi):
    """The lanes of one trace; returns whether one of them was drawn in bins."""
    binned, places, place = False, [], 0.0
    for index, lane in enumerate(lanes):
        if index > 0:
            # A wider gap where the kind of lane changes, a wider one between nodes.
            before = lanes[index - 1]
            place += 1.0 + 0.25 * (lane.is_rank != before.is_rank) + 0.25 * (lane.node != before.node)
        places.append(place)
        segments = clip(lane.segments, start, end)
        ground = WIRE_IDLE[0] if lane.is_wire else KINDS["idle"][1]
        axes.broken_barh([(start / 1e3, (end - start) / 1e3)], (place - 0.4, 0.8), color=ground, lw=0)
        if lane.is_wire:
            draw_use(axes, lane, start, end, place)
        elif len(segments) * PIXELS_PER_SEGMENT_MIN > inches * dpi:
            binned = True
            draw_bins(axes, segments, start, end, place, int(inches * dpi / PIXELS_PER_BIN))
        else:
            draw_segments(axes, segments, start, end, place, inches)
        axes.annotate(summary(lane, start, end), (1, place), (6, 0), xycoords=("axes fraction", "data"),
                      textcoords="offset points", va="center", fontsize=9, color="#404040", annotation_clip=False)
    axes.set_ylim((places[-1] if places else 0) + 0.55, -0.55)
    axes.set_yticks(places, [label_of(lane, lanes) for lane in lanes])
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return binned


def draw_use(axes, lane, start, end, place):
    parts = [(max(s, start), min(e, end), percent) for s, e, percent in lane.use if e > start and s < end]
    edges = [s / 1e3 for s, _, _ in parts] + [parts[-1][1] / 1e3] if parts else []
    tops = [place + 0.4 - 0.8 * min(percent, 100) / 100 for _, _, percent in parts]
    axes.fill_between(edges, [place + 0.4] * len(edges), tops + tops[-1:], step="post", color=WIRE_USED[0], lw=0)


def draw_segments(axes, segments, start, end, place, inches):
    for kind in LAYERS:
        bars = [(s / 1e3, (e - s) / 1e3) for s, e, k, _ in segments if k == kind]
        if bars:
            # A thin white edge keeps neighbours of one kind apart, unless the bars are hardly wider than it.
            edge = 0.4 if len(segments) < 150 else 0
            axes.broken_barh(bars, (place - 0.4, 0.8), facecolor=KINDS[kind][1], edgecolor="white", lw=edge)
    characters = inches * 12 / (end - start)  # that fit in a microsecond, at this font size
    for s, e, kind, name in segments:
        text = name.removeprefix("MPI_")
        if kind != "idle" and text and len(text) + 1 <= (e - s) * characters:
            axes.text((s + e) / 2e3, place, text, ha="center", va="center", fontsize=7, color=KINDS[kind][2],
                      clip_on=True)


def draw_bins(axes, segments, start, end, place, count):
    """Each bin a column, divided by kind: nothing short is lost, nothing is exaggerated."""
    bins = bins_of(segments, start, end, count)
    edges = [(start + i * (end - start) / count) / 1e3 for i in range(count + 1)]
    bottom = [place + 0.4] * (count + 1)
    for kind in reversed(LAYERS):
        if kind == "idle" or not any(one.get(kind) for one in bins):
            continue
        top = [b - 0.8 * one.get(kind, 0.0) for b, one in zip(bottom, bins)]
        top.append(top[-1])
        axes.fill_between(edges, bottom, top, step="post", color=KINDS[kind][1], lw=0)
        bottom = top


def main():
    parser = argparse.ArgumentParser(description="Draw Longshore traces: who did what when.")
    parser.add_argument("traces", nargs="+", metavar="trace", help="Chrome trace (JSON); several: one above the other")
    parser.add_argument("-o", "--output", metavar="FILE", help="picture to write: .png or .svg (also .pdf)")
    parser.add_argument("--text", action="store_true", help="print a chart of characters (default without -o)")
    parser.add_argument("--width", type=int, help="columns of the text (default: the terminal's, at most 120), pixels of a picture (1400)")
    parser.add_argument("--from", dest="start", type=float, metavar="MS", help="begin here, ms from the first event")
    parser.add_argument("--to", dest="end", type=float, metavar="MS", help="end here")
    parser.add_argument("--title", default="", help="title of the chart")
    parser.add_argument("--label", action="append", default=[], help="what a trace is called; once for each, in order")
    options = parser.parse_args()
    if len(options.label) > len(options.traces):
        parser.error("more labels than traces")

    panels = []
    for trace, label in zip(options.traces, options.label + [""] * len(options.traces)):
        try:
            panels.append((label, load(trace)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "make one with 'longshore run --trace FILE COMMAND'"
            sys.exit(f"longshore timeline: {trace} is not a trace that can be read: {reason}")
    last = max((lane.last for _, lanes in panels for lane in lanes), default=0.0)
    start = options.start * 1e3 if options.start is not None else 0.0
    end = options.end * 1e3 if options.end is not None else last
    if end <= start or any(max((lane.last for lane in lanes), default=0.0) <= start for _, lanes in panels):
        sys.exit("longshore timeline: no events in the trace between --from and --to")
    if options.text or not options.output:
        columns = min(120, shutil.get_terminal_size((120, 24)).columns) if sys.stdout.isatty() else 120
        print(draw_text(panels, start, end, options.width or columns, options.title), flush=True)
    if options.output:
        try:
            with ending.whole_file(options.output) as part:
                draw_picture(panels, start, end, options.width or 1400, options.title, part)
        except OSError as error:
            sys.exit(f"longshore timeline: {options.output} cannot be written: {error.strerror or error}")
        except ValueError:  # of matplotlib
            sys.exit(f"longshore timeline: {options.output}: no such kind of picture; name it .png, .svg or .pdf")


if __name__ == "__main__":
    sys.exit(ending.run("timeline", main))
