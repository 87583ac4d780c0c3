#!/usr/bin/env python3
"""Draws a trace: who did what when, a lane per rank and per service process (SP).

Reads a Chrome trace: a JSON object with "traceEvents" (or the bare list), events of phase "X" with ts and dur in
microseconds, pid = node, tid = lane, cat = kind; metadata events "thread_name" name the lanes ("rank 0", "SP 0").
The text chart needs nothing but Python; a picture needs matplotlib.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field

# From the bottom to the top: where events lie over each other the later kind is shown, so a copy that a waiting rank
# does itself is seen as copying. Colours: Okabe and Ito's, told apart by colour-blind readers, and by lightness.
KINDS = {
    #          letter, colour, text colour, meaning
    "idle": (" ", "#f0f0f0", "#606060", "idle"),
    "compute": ("=", "#a6d3ee", "#10324a", "computing"),
    "mpi": ("m", "#8c8c8c", "#ffffff", "other MPI"),
    "wait": (".", "#e69f00", "#3a2600", "waiting"),
    "post": ("p", "#b0417c", "#ffffff", "posting"),
    "move": ("#", "#00684c", "#ffffff", "moving bytes"),
}
LAYERS = list(KINDS)
LEGEND = ["compute", "post", "wait", "move", "mpi", "idle"]
PIXELS_PER_SEGMENT_MIN = 4  # of one lane in a picture, on average; with less, the lane is drawn in bins
PIXELS_PER_BIN = 2


@dataclass
class Lane:
    node: int
    name: str
    events: list = field(default_factory=list)  # (start, end, kind, name), us
    segments: list = field(default_factory=list)  # the same without overlap, in order

    @property
    def is_rank(self):
        return self.name.lower().startswith("rank")

    @property
    def order(self):
        number = re.search(r"\d+", self.name)
        return (self.node, not self.is_rank, int(number.group()) if number else 0, self.name)


def load(path):
    """Returns the lanes of a trace file in the order in which they are drawn, times from the first event on."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    raw = content["traceEvents"] if isinstance(content, dict) else content
    names, events = {}, defaultdict(list)
    for event in raw:
        key = (event.get("pid", 0), event.get("tid", 0))
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            names[key] = event["args"]["name"]
        elif event.get("ph") == "X":
            kind = event.get("cat", "mpi")
            start = float(event["ts"])
            end = start + float(event.get("dur", 0))
            events[key].append((start, end, kind if kind in KINDS else "mpi", event.get("name", "")))
    first = min((event[0] for lane in events.values() for event in lane), default=0.0)
    lanes = []
    for key in events.keys() | names.keys():
        lane = Lane(node=key[0], name=names.get(key, f"thread {key[1]}"))
        lane.events = sorted((s - first, e - first, kind, name) for s, e, kind, name in events[key])
        fill_gaps(lane)
        lane.segments = flatten(lane.events)
        lanes.append(lane)
    return sorted(lanes, key=lambda lane: lane.order)


def fill_gaps(lane):
    """A rank that is in no MPI call computes; nobody else knows, so the trace need not say it."""
    if not lane.is_rank or any(kind == "compute" for _, _, kind, _ in lane.events):
        return
    gaps, end = [], None
    for start, event_end, _, _ in lane.events:
        if end is not None and start > end:
            gaps.append((end, start, "compute", "compute"))
        end = event_end if end is None else max(end, event_end)
    lane.events = sorted(lane.events + gaps)


def flatten(events):
    """Events that may overlap -> segments that do not: the topmost kind, among equals the one that began last."""
    edges = []
    for index, (start, end, _, _) in enumerate(events):
        if end > start:
            edges += [(start, 1, index), (end, 0, index)]
    edges.sort()
    segments, active, before = [], set(), None
    for at, begins, index in edges:
        if active and at > before:
            top = max(active, key=lambda i: (LAYERS.index(events[i][2]), events[i][0]))
            _, _, kind, name = events[top]
            if segments and segments[-1][1] == before and segments[-1][4] == top:
                segments[-1] = (segments[-1][0], at, kind, name, top)
            else:
                segments.append((before, at, kind, name, top))
        active.add(index) if begins else active.discard(index)
        before = at
    return [segment[:4] for segment in segments]


def clip(segments, start, end):
    return [(max(s, start), min(e, end), kind, name) for s, e, kind, name in segments if e > start and s < end]


def shares(segments, start, end):
    """Share of the time between start and end by kind; what no segment covers is idle."""
    total = defaultdict(float)
    for s, e, kind, _ in clip(segments, start, end):
        total[kind] += e - s
    length = end - start
    result = {kind: time / length for kind, time in total.items()}
    result["idle"] = max(0.0, 1 - sum(share for kind, share in result.items() if kind != "idle"))
    return result


def bins_of(segments, start, end, count):
    """A dictionary kind -> share of the bin, for each of `count` equal bins."""
    width = (end - start) / count
    bins = [defaultdict(float) for _ in range(count)]
    for s, e, kind, _ in clip(segments, start, end):
        index = min(int((s - start) / width), count - 1)
        while s < e and index < count:
            edge = e if index == count - 1 else min(e, start + (index + 1) * width)
            if edge > s:
                bins[index][kind] += (edge - s) / width
                s = edge
            index += 1
    return bins


def label_of(lane, lanes):
    several_nodes = len({other.node for other in lanes}) > 1
    return f"{lane.name}, node {lane.node}" if several_nodes else lane.name


def nice_step(length, count):
    """The largest of 1, 2, 5 times a power of ten that gives at least about `count` steps."""
    power = 1e-6
    while True:
        for factor in (1, 2, 5):
            if length / (factor * power) <= count:
                return factor * power
        power *= 10


def format_ms(value, step):
    decimals = 0
    while decimals < 6 and abs(step * 10**decimals - round(step * 10**decimals)) > 1e-9:
        decimals += 1
    return f"{value:.{decimals}f}"


def draw_text(lanes, start, end, width, title):
    """The chart as a string: a column shows the kind that filled most of its time."""
    labels = [label_of(lane, lanes) for lane in lanes]
    margin = max([len(label) for label in labels] + [4]) + 1
    table = ["compute", "post", "wait", "move"]
    columns = max(20, width - margin - 3 - 8 * len(table))
    lines = [title] if title else []
    lines.append(" " * (margin + 1 + columns + 1) + "".join(f"{kind:>8}" for kind in table))
    for lane, label in zip(lanes, labels):
        letters = ""
        for one in bins_of(lane.segments, start, end, columns):
            one["idle"] = max(0.0, 1 - sum(share for kind, share in one.items() if kind != "idle"))
            letters += KINDS[max(one, key=lambda kind: (one[kind], LAYERS.index(kind)))][0]
        share = shares(lane.segments, start, end)
        numbers = "".join(f"{100 * share.get(kind, 0):6.1f} %" for kind in table)
        lines.append(f"{label:<{margin}}|{letters}|{numbers}")
    lines += axis_lines(start, end, columns, margin)
    lines.append(" " * (margin + 1) + "  ".join(f"{KINDS[k][0]!r} {KINDS[k][3]}" for k in LEGEND))
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


def draw_picture(lanes, start, end, width_px, title, path):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        from matplotlib.patches import Patch
    except ImportError:
        sys.exit("timeline: a picture needs matplotlib ('pip install matplotlib'); --text does without")

    dpi = 100
    inches = max(width_px, 400) / dpi
    figure, axes = plt.subplots(figsize=(inches, 1.25 + 0.42 * len(lanes)), dpi=dpi, layout="constrained")
    binned, places, place = False, [], 0.0
    for index, lane in enumerate(lanes):
        if index > 0:
            # A wider gap where the kind of lane changes, a wider one between nodes.
            before = lanes[index - 1]
            place += 1.0 + 0.25 * (lane.is_rank != before.is_rank) + 0.25 * (lane.node != before.node)
        places.append(place)
        segments = clip(lane.segments, start, end)
        axes.broken_barh([(start / 1e3, (end - start) / 1e3)], (place - 0.4, 0.8), color=KINDS["idle"][1], lw=0)
        if len(segments) * PIXELS_PER_SEGMENT_MIN > inches * dpi:
            binned = True
            draw_bins(axes, segments, start, end, place, int(inches * dpi / PIXELS_PER_BIN))
        else:
            draw_segments(axes, segments, start, end, place, inches)

    axes.set_xlim(start / 1e3, end / 1e3)
    axes.set_ylim((places[-1] if places else 0) + 0.55, -0.55)
    axes.set_yticks(places, [label_of(lane, lanes) for lane in lanes])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("ms" + (" (many events: a column shows the shares of its time)" if binned else ""))
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    used = {kind for lane in lanes for _, _, kind, _ in clip(lane.segments, start, end)} | {"idle"}
    handles = [Patch(facecolor=KINDS[k][1], edgecolor="#b0b0b0", lw=0.5, label=KINDS[k][3]) for k in LEGEND if k in used]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False, fontsize=9,
                  handlelength=1.2, columnspacing=1.4)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    figure.savefig(path)
    plt.close(figure)


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
    parser = argparse.ArgumentParser(description="Draw a Longshore trace: who did what when.")
    parser.add_argument("trace", help="Chrome trace (JSON)")
    parser.add_argument("-o", "--output", metavar="FILE", help="picture to write: .png or .svg (also .pdf)")
    parser.add_argument("--text", action="store_true", help="print a chart of characters (default without -o)")
    parser.add_argument("--width", type=int, help="columns of the text (default 120), pixels of a picture (1400)")
    parser.add_argument("--from", dest="start", type=float, metavar="MS", help="begin here, ms from the first event")
    parser.add_argument("--to", dest="end", type=float, metavar="MS", help="end here")
    parser.add_argument("--title", default="", help="title of the chart")
    options = parser.parse_args()

    try:
        lanes = load(options.trace)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"timeline: {options.trace} is not a trace that can be read: {error!r}")
    last = max((segment[1] for lane in lanes for segment in lane.segments), default=0.0)
    start = options.start * 1e3 if options.start is not None else 0.0
    end = options.end * 1e3 if options.end is not None else last
    if not lanes or end <= start:
        sys.exit("timeline: no events in the trace between --from and --to")
    if options.text or not options.output:
        print(draw_text(lanes, start, end, options.width or 120, options.title))
    if options.output:
        draw_picture(lanes, start, end, options.width or 1400, options.title, options.output)


if __name__ == "__main__":
    main()
