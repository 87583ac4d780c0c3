"""Whether a program gained by Longshore: the one judgement that 'longshore assess' and the demo share."""

import statistics

CHANCE = 0.03  # a difference of up to so much cannot be told from chance


def judge(host, longshore, unrest=0.0):
    """Compares the times of runs in turns, host[i] beside longshore[i], in seconds.

    Returns (kind, by, each): "gain", "loss", "none" or "unsure"; by what share the median time with Longshore is longer
    (negative: shorter); the same of each turn. `unrest`: by what share something differed that is the same for both.
    """
    by = statistics.median(longshore) / statistics.median(host) - 1
    each = [ours / theirs - 1 for theirs, ours in zip(host, longshore)]
    if abs(by) <= CHANCE:
        return "none", by, each
    # Turns that contradict each other, or differ by more than the whole where one of them alone could be chance; ranges that
    # overlap; and what is the same for both, differing by as much.
    contradict = any(one * by <= 0 for one in each)
    scattered = max(each) - min(each) > abs(by) and min(map(abs, each)) <= 2 * CHANCE
    overlap = max(longshore) >= min(host) if by < 0 else min(longshore) <= max(host)
    if contradict or scattered or overlap or abs(unrest) >= abs(by):
        return "unsure", by, each
    return "gain" if by < 0 else "loss", by, each


def signed(share):
    return f"{100 * share:+.0f} %"


def words(judgement, what):
    """The judgement as a sentence about `what`, which is singular: "the transform"."""
    kind, by, each = judgement
    size = f"{abs(100 * by):.0f} %"
    turns = f"turns: {signed(min(each))} to {signed(max(each))}" if len(each) > 1 else "one turn only"
    direction = "less time" if by < 0 else "longer"
    return {"gain": f"GAIN: with Longshore {what} took {size} less time ({turns}).",
            "loss": f"LOSS: with Longshore {what} took {size} longer ({turns}).",
            "none": f"NO DIFFERENCE that can be told from chance: {signed(by)} of time ({turns}).",
            "unsure": f"UNCERTAIN: with Longshore {what} took {size} {direction} in the median ({turns}), but turns "
                      "or computing alone differ by as much: it may be chance."}[kind]
