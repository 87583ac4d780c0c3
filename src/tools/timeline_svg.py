"""Draws the lanes of traces as SVG, with nothing but Python: for --output FILE.svg where there is no matplotlib, and
for pages of 'longshore assess'."""

from html import escape

import timeline_lanes

LANE, BAR, GAP = 26, 18, 10  # pixels: from lane to lane, its bar, between a bar and the words beside it
BARS_MIN = 300  # pixels that bars have at least
BINS_MAX = 700  # columns of a lane with more segments than that
LETTER = 7.2  # pixels of a letter, of the widest usual font on average


class Frame:
    """Where the bars are: between words, which have the room that the longest needs."""

    def __init__(self, panels, start, end, width):
        names = [timeline_lanes.label_of(lane, lanes) for _, lanes in panels for lane in lanes]
        said = [summary(lane, lanes, start, end) for _, lanes in panels for lane in lanes]
        self.start, self.end = start, end
        self.left = GAP + LETTER * max(map(len, names), default=0) + GAP
        self.right = GAP + LETTER * max(map(len, said), default=0)
        self.width = max(width, self.left + self.right + BARS_MIN)
        self.bars = self.width - self.left - self.right

    def x(self, at):
        return self.left + (at - self.start) * self.bars / (self.end - self.start)


def summary(lane, lanes, start, end):
    return timeline_lanes.summary(lane, start, min(end, max(one.last for one in lanes)))


def rectangle(x, y, width, height, colour, said=""):
    inside = f"><title>{escape(said)}</title></rect>" if said else "/>"
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.2):.2f}" height="{height:.2f}" fill="{colour}"{inside}'


def text(x, y, words, anchor="start", colour="#303030"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def draw_lane(lane, frame, y, until):
    """The bar of a lane: its segments or, of many, columns that are divided by kind. It ends with its trace: what is drawn beside
    it may take longer, and this one is not idle meanwhile."""
    start, end, x = frame.start, frame.end, frame.x
    if lane.is_wire:
        out = [rectangle(frame.left, y, x(until) - frame.left, BAR, timeline_lanes.WIRE_IDLE[0])]
        for s, e, percent in lane.use:
            s, e, part = max(s, start), min(e, end), BAR * min(percent, 100) / 100
            if e > s:
                out.append(rectangle(x(s), y + BAR - part, x(e) - x(s), part, timeline_lanes.WIRE_USED[0], f"{percent:.0f} %"))
        return out
    out = [rectangle(frame.left, y, x(until) - frame.left, BAR, timeline_lanes.KINDS["idle"][1])]
    segments = timeline_lanes.clip(lane.segments, start, end)
    if len(segments) <= BINS_MAX:
        for s, e, kind, name in segments:
            if kind != "idle":
                out.append(rectangle(x(s), y, x(e) - x(s), BAR, timeline_lanes.KINDS[kind][1], f"{name}: {(e - s) / 1e3:.3f} ms"))
        return out
    step = frame.bars / BINS_MAX
    for i, one in enumerate(timeline_lanes.bins_of(segments, start, end, BINS_MAX)):
        bottom = y + BAR
        for kind in reversed(timeline_lanes.LAYERS):
            height = BAR * one.get(kind, 0.0)
            if kind != "idle" and height > 0:
                bottom -= height
                out.append(rectangle(frame.left + i * step, bottom, step, height, timeline_lanes.KINDS[kind][1]))
    return out


def draw_axis(frame, y):
    step = timeline_lanes.nice_step((frame.end - frame.start) / 1e3, 8)
    out, at, unit = [], -(-frame.start / 1e3 // step) * step, frame.left + frame.bars + 12
    while at <= frame.end / 1e3 + 1e-9:
        x, words = frame.x(at * 1e3), timeline_lanes.format_ms(at, step)
        out += [rectangle(x, y, 1, 4, "#808080"), text(x, y + 16, words, "middle")]
        unit = max(unit, x + LETTER * len(words) / 2 + 4)
        at += step
    return out + [text(unit, y + 16, "ms")]


def draw_legend(lanes, frame, y):
    """The meaning of the colours, in as many rows as it needs. Returns what is drawn, and where it ends."""
    used = {kind for lane in lanes for _, _, kind, _ in timeline_lanes.clip(lane.segments, frame.start, frame.end)} | {"idle"}
    entries = [(timeline_lanes.KINDS[kind][1], timeline_lanes.KINDS[kind][3]) for kind in timeline_lanes.LEGEND if kind in used]
    if any(lane.is_wire for lane in lanes):
        entries += [timeline_lanes.WIRE_USED, timeline_lanes.WIRE_IDLE]
    out, x = [], frame.left
    for colour, words in entries:
        width = 17 + LETTER * len(words)
        if x > frame.left and x + width > frame.width:
            x, y = frame.left, y + 20
        out += [rectangle(x, y, 12, 12, colour), text(x + 17, y + 10, words)]
        x += width + 22
    return out, y + 20


def svg(panels, start, end, width=1400, title=""):
    """The picture as text; panels: (label, lanes) each, times in us."""
    frame = Frame(panels, start, end, width)
    out, y = [], 8
    if title:
        out.append(text(8, y + 12, title))
        y += 24
    for label, lanes in panels:
        if label:
            y += 10 if y > 40 else 0  # a panel keeps away from the one above it
            out.append(text(8, y + 12, label))
            y += 20
        until = min(end, max((lane.last for lane in lanes), default=end))
        for lane in lanes:
            out.append(text(frame.left - GAP, y + 13, timeline_lanes.label_of(lane, lanes), "end"))
            out += draw_lane(lane, frame, y, until)
            out.append(text(frame.left + frame.bars + GAP, y + 13, summary(lane, lanes, start, end), colour="#606060"))
            y += LANE
    legend, bottom = draw_legend([lane for _, lanes in panels for lane in lanes], frame, y + 28)
    out += draw_axis(frame, y) + legend
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {frame.width:.0f} {bottom:.0f}" font-family="sans-serif" '
            f'font-size="12">{"".join(out)}</svg>\n')
