"""Draws the lanes of timeline.py as SVG, with nothing but Python: for --output FILE.svg where there is no matplotlib, and
for pages of 'longshore assess'."""

from html import escape

import timeline

LANE, BAR, LEFT, RIGHT = 26, 18, 90, 190  # pixels: from lane to lane, its bar, beside the bars
BINS_MAX = 700  # columns of a lane with more segments than that
LETTER = 6.5  # pixels of a letter, about


def rectangle(x, y, width, height, colour, said=""):
    inside = f"><title>{escape(said)}</title></rect>" if said else "/>"
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.2):.2f}" height="{height:.2f}" fill="{colour}"{inside}'


def text(x, y, words, anchor="start", colour="#303030"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def draw_lane(lane, start, end, y, width):
    """The bar of a lane: its segments or, of many, columns that are divided by kind."""
    scale = width / (end - start)
    if lane.is_wire:
        out = [rectangle(LEFT, y, width, BAR, timeline.WIRE_IDLE[0])]
        for s, e, percent in lane.use:
            s, e, part = max(s, start), min(e, end), BAR * min(percent, 100) / 100
            if e > s:
                out.append(rectangle(LEFT + (s - start) * scale, y + BAR - part, (e - s) * scale, part, timeline.WIRE_USED[0],
                                     f"{percent:.0f} %"))
        return out
    out = [rectangle(LEFT, y, width, BAR, timeline.KINDS["idle"][1])]
    segments = timeline.clip(lane.segments, start, end)
    if len(segments) <= BINS_MAX:
        for s, e, kind, name in segments:
            if kind != "idle":
                out.append(rectangle(LEFT + (s - start) * scale, y, (e - s) * scale, BAR, timeline.KINDS[kind][1],
                                     f"{name}: {(e - s) / 1e3:.3f} ms"))
        return out
    step = width / BINS_MAX
    for i, one in enumerate(timeline.bins_of(segments, start, end, BINS_MAX)):
        bottom = y + BAR
        for kind in reversed(timeline.LAYERS):
            height = BAR * one.get(kind, 0.0)
            if kind != "idle" and height > 0:
                bottom -= height
                out.append(rectangle(LEFT + i * step, bottom, step, height, timeline.KINDS[kind][1]))
    return out


def draw_axis(start, end, y, width):
    step = timeline.nice_step((end - start) / 1e3, 8)
    out, at = [], -(-start / 1e3 // step) * step
    while at <= end / 1e3 + 1e-9:
        x = LEFT + (at * 1e3 - start) * width / (end - start)
        out += [rectangle(x, y, 1, 4, "#808080"), text(x, y + 16, timeline.format_ms(at, step), "middle")]
        at += step
    return out + [text(LEFT + width + 12, y + 16, "ms")]


def draw_legend(lanes, start, end, y):
    used = {kind for lane in lanes for _, _, kind, _ in timeline.clip(lane.segments, start, end)} | {"idle"}
    entries = [(timeline.KINDS[kind][1], timeline.KINDS[kind][3]) for kind in timeline.LEGEND if kind in used]
    if any(lane.is_wire for lane in lanes):
        entries += [timeline.WIRE_USED, timeline.WIRE_IDLE]
    out, x = [], LEFT
    for colour, words in entries:
        out += [rectangle(x, y, 12, 12, colour), text(x + 17, y + 10, words)]
        x += 17 + LETTER * len(words) + 22
    return out


def svg(panels, start, end, width=1400, title=""):
    """The picture as text; panels: (label, lanes) each, times in us."""
    bars = max(width, 600) - LEFT - RIGHT
    out, y = [], 8
    if title:
        out.append(text(8, y + 12, title))
        y += 24
    for label, lanes in panels:
        if label:
            out.append(text(8, y + 12, label))
            y += 20
        for lane in lanes:
            last = min(end, max(one.last for one in lanes))
            out.append(text(LEFT - 8, y + 13, timeline.label_of(lane, lanes), "end"))
            out += draw_lane(lane, start, end, y, bars)
            out.append(text(LEFT + bars + 10, y + 13, timeline.summary(lane, start, last), colour="#606060"))
            y += LANE
    out += draw_axis(start, end, y, bars)
    out += draw_legend([lane for _, lanes in panels for lane in lanes], start, end, y + 28)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(width, 600)} {y + 48}" font-family="sans-serif" '
            f'font-size="12">{"".join(out)}</svg>\n')
