"""The lanes of a trace: who did what when, what is said of it in a few words, and the colours of it. What timeline.py draws as
text and by matplotlib, timeline_svg.py as SVG.

Reads a Chrome trace: a JSON object with "traceEvents" (or the bare list), events of phase "X" with ts and dur in
microseconds, pid = node, tid = lane, cat = kind; metadata events "thread_name" name the lanes ("rank 0", "SP 0").
Counter events (phase "C") with a "percent" are the use of a wire from then until the next one of that name.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field

# From the bottom to the top: where events lie over each other the later kind is shown, so a copy that a waiting rank
# does itself is seen as copying. Colours: Okabe and Ito's, told apart by colour-blind readers, and by lightness.
KINDS = {
    #          letter, colour, text colour, meaning
    "idle": (" ", "#f0f0f0", "#606060", "idle"),
    "read": ("-", "#8fd3b6", "#00402e", "reads under way"),
    "compute": ("=", "#a6d3ee", "#10324a", "computing"),
    "mpi": ("m", "#8c8c8c", "#ffffff", "other MPI"),
    "test": ("t", "#f0e442", "#3a3600", "testing"),
    "wait": (".", "#e69f00", "#3a2600", "waiting"),
    "post": ("p", "#b0417c", "#ffffff", "posting"),
    "move": ("#", "#00684c", "#ffffff", "moving bytes"),
}
LAYERS = list(KINDS)
LEGEND = ["compute", "post", "test", "wait", "move", "read", "mpi", "idle"]
WIRE_USED, WIRE_IDLE = ("#4a4a9c", "wire in use"), ("#fbdccb", "wire idle")


@dataclass
class Lane:
    node: int
    name: str
    events: list = field(default_factory=list)  # (start, end, kind, name), us
    segments: list = field(default_factory=list)  # the same without overlap, in order
    use: list = field(default_factory=list)  # of a wire: (start, end, percent), in order

    @property
    def is_wire(self):
        return bool(self.use)

    @property
    def last(self):
        return max((part[1] for part in self.segments + self.use), default=0.0)

    @property
    def is_rank(self):
        return self.name.lower().startswith("rank")

    @property
    def order(self):
        number = re.search(r"\d+", self.name)
        return (self.is_wire, self.node, not self.is_rank, int(number.group()) if number else 0, self.name)


def load(path):
    """Returns the lanes of a trace file in the order in which they are drawn, times from the first event on."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    raw = content["traceEvents"] if isinstance(content, dict) else content
    names, events, samples = {}, defaultdict(list), defaultdict(list)
    for event in raw:
        key = (event.get("pid", 0), event.get("tid", 0))
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            names[key] = event["args"]["name"]
        elif event.get("ph") == "X":
            kind = event.get("cat", "mpi")
            start = float(event["ts"])
            end = start + float(event.get("dur", 0))
            events[key].append((start, end, kind if kind in KINDS else "mpi", event.get("name", "")))
        elif event.get("ph") == "C" and "percent" in event["args"]:
            samples[key[0], event["name"]].append((float(event["ts"]), float(event["args"]["percent"])))
    first = min((event[0] for lane in [*events.values(), *samples.values()] for event in lane), default=0.0)
    lanes = []
    for key in events.keys() | names.keys():
        lane = Lane(node=key[0], name=names.get(key, f"thread {key[1]}"))
        lane.events = sorted((s - first, e - first, kind, name) for s, e, kind, name in events[key])
        fill_gaps(lane)
        lane.segments = flatten(lane.events)
        lanes.append(lane)
    for (node, name), points in samples.items():
        points.sort()
        lanes.append(Lane(node=node, name=name, use=[(at - first, until - first, percent)
                                                     for (at, percent), (until, _) in zip(points, points[1:])]))
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


def mean_use(lane, start, end):
    """Of a wire's samples between start and end, in percent, by their lengths; 0 where there are none."""
    parts = [(min(e, end) - max(s, start), percent) for s, e, percent in lane.use if e > start and s < end]
    length = sum(part for part, _ in parts)
    return sum(part * percent for part, percent in parts) / length if length else 0.0


def summary(lane, start, end):
    """A lane in a few words; of what is between start and end, as long as the lane's trace lasts."""
    if lane.is_wire:
        return f"{mean_use(lane, start, end):.0f} % used"
    share = shares(lane.segments, start, end)
    if lane.is_rank:
        more = "".join(f", {words} {100 * share[kind]:.0f} %" for kind, words in (("test", "tests"), ("mpi", "other MPI"))
                       if share.get(kind, 0) >= 0.005)
        return f"computes {100 * share.get('compute', 0):.0f} %, waits {100 * share.get('wait', 0):.0f} %{more}"
    reads = f"reads {100 * share['read']:.0f} %, " if "read" in share else ""
    return f"{reads}moves {100 * share.get('move', 0):.0f} %"


def label_of(lane, lanes):
    if lane.is_wire:
        return lane.name
    several_nodes = len({other.node for other in lanes if not other.is_wire}) > 1
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
