"""The figures of overlap.py out of its samples, and their tables. Pure: no machine, no files. Times in seconds."""

import math
import statistics

GIGA = 1e9
KEPT_PAGES_SHARE = 0.25  # of the smaller of computing and exchanging, that may be left beside a host that keeps its pages
NOTHING_SHARE = 0.02  # of the host's time; less cannot be told from chance
COMPUTING_OVER_EXCHANGES = 2  # from where no rank can burn time that nobody needs


def hidden_share(computing, exchanging, whole):
    """Of the smaller of both, how much is hidden behind the other: 1 is perfect, 0 is one after the other, less is harm.

    computing, exchanging: each alone, by the host MPI; whole: both together. What else takes time of the ranks' cores makes
    `whole` longer, and so counts.
    """
    return (computing + exchanging - whole) / min(computing, exchanging)


def possible_share(host, whole, computing, exchanging):
    """Of the time that a host could save at most, were it as quick as the longer of computing and exchanges alone, how much
    `whole` saves: 1 is all of it, less than 0 is a loss. None where it could save less than NOTHING_SHARE of its time."""
    possible = host - max(computing, exchanging)
    return (host - whole) / possible if possible > NOTHING_SHARE * host else None


def bound_beside_kept_pages(bound, computing, exchanging, whole):
    """What whole / the time of a host that keeps its pages may be, where `bound` is for the plain one; whole: that host's."""
    return max(bound, (max(computing, exchanging) + KEPT_PAGES_SHARE * min(computing, exchanging)) / whole)


def core_cost(whole, computing, exchanging, bytes_of_node):
    """Seconds per GB that a node sends, and receives as many: how much longer the ranks compute with it. None where
    computing does not last long enough for that: a rank that waits could spend time which does not show."""
    if computing < COMPUTING_OVER_EXCHANGES * exchanging or bytes_of_node <= 0:
        return None
    return (whole - computing) / (bytes_of_node / GIGA)


def work_bound(computing, core_seconds, wire_seconds):
    """The least that `longshore bench --compute work` can take: the rank's core computes and serves TCP, or the wire is full."""
    return max(computing + core_seconds, wire_seconds)


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def link_bytes_per_second(rate):
    """Of a rate as tc has it, as 2.5gbit; None: not held."""
    if not rate:
        return None
    for unit, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1)):
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * factor / 8
    raise ValueError(f"'{rate}' is no rate; as 1gbit or 500mbit")


def bytes_of_node(collective, size, nodes, per_node):
    """What a node sends to others at least, and receives, in one call with `size` bytes of each rank (alltoall: to each)."""
    others = (nodes - 1) * per_node
    name = collective.removeprefix("i")
    if name.startswith("alltoall"):
        return size * per_node * others
    if name.startswith("allgather"):
        return size * others  # each block of another node comes once
    if name == "bcast":
        return size
    raise ValueError(f"how much {collective} moves is not known here")


def spread(values):
    """(median, least, largest)"""
    return statistics.median(values), min(values), max(values)


def medians_of(launch):
    """A launch's samples to one figure each."""
    return {name: statistics.median(values) for name, values in launch["seconds"].items()}


def judge(turns, contender, host="host", kept="host, kept pages"):
    """What a contender has done, turn by turn; `turns`: {contender: launch} each."""
    figures = {"vs_host": [], "vs_kept": [], "hidden": [], "least": [], "possible": [], "hidden_by_inner_computing": [], "kept_bound": [], "kept_vs_host": []}
    for turn in turns:
        plain, mine = medians_of(turn[host]), medians_of(turn[contender])
        computing, exchanging, whole = plain["compute_alone"], plain["exchanges_alone"], mine["transform"]
        figures["vs_host"].append(whole / plain["transform"])
        figures["hidden"].append(hidden_share(computing, exchanging, whole))
        figures["hidden_by_inner_computing"].append(hidden_share(plain["compute"], exchanging, whole))
        figures["least"].append(max(computing, exchanging) / plain["transform"])
        share = possible_share(plain["transform"], whole, computing, exchanging)
        figures["possible"] += [] if share is None else [share]
        if kept in turn:
            theirs = medians_of(turn[kept])
            figures["vs_kept"].append(whole / theirs["transform"])
            figures["kept_vs_host"].append(theirs["transform"] / plain["transform"])
            figures["kept_bound"].append(bound_beside_kept_pages(0, computing, exchanging, theirs["transform"]))
    return {name: values for name, values in figures.items() if values}


def costs_of(launch, nodes):
    """Core seconds per GB and node of each repeat of a launch: its whole against the computing alone beside it."""
    seconds, moved = launch["seconds"], launch["bytes_between_nodes"] / nodes
    exchanging = statistics.median(seconds["exchanges_alone"])
    costs = [core_cost(whole, computing, exchanging, moved)
             for whole, computing in zip(seconds["transform"], seconds["compute_alone"])]
    return [cost for cost in costs if cost is not None]


def ms(seconds):
    return f"{1e3 * seconds:.1f}"


def percent(share):
    return f"{100 * share:.0f} %"


def ranged(values, write):
    """Median, and in brackets the least and the largest."""
    middle, least, largest = spread(values)
    return f"{write(middle)} [{write(least)} .. {write(largest)}]"


def table(rows):
    """Lines: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    return ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def ratio(value):
    return f"{value:.2f}"


def fft_lines(turns, names):
    rows = [["ms, medians of the launches' medians", "transform", "computing alone", "exchanges alone", "computing within",
             "in MPI"]]
    for name in names:
        launches = [medians_of(turn[name]) for turn in turns]
        middle = {key: statistics.median(launch[key] for launch in launches) for key in launches[0]}
        rows.append([name, *(ms(middle[key]) for key in ("transform", "compute_alone", "exchanges_alone", "compute", "in_mpi"))])
    lines = table(rows) + [""]
    rows = [["by turns: median [least .. largest]", "/ host", "of the possible gain", "/ host, kept pages", "hidden share",
             "kept pages' bound"]]
    for name in names:
        judged = judge(turns, name)
        rows.append([name, *(ranged(judged[key], write) if key in judged else "–" for key, write in
                             (("vs_host", ratio), ("possible", percent), ("vs_kept", ratio), ("hidden", percent), ("kept_bound", ratio)))])
    lines += table(rows)
    lines += ["", f"the longer of computing and exchanges alone is {ranged(judge(turns, names[0])['least'], ratio)} of the host's time: "
                  "less is no overlap"]
    kept = judge(turns, names[0]).get("kept_vs_host")
    if kept:
        lines += [f"a malloc that keeps its pages alone: {ranged(kept, ratio)} of the host's time; so much of a gain is no overlap"]
    return lines


def cost_lines(turns, names, tcp, nodes):
    plain = statistics.median(run["user_s"] + run["system_s"] for run in tcp) / (tcp[0]["bytes"] / GIGA)
    busy = statistics.median(run["cores_busy_s"] for run in tcp) / (tcp[0]["bytes"] / GIGA)
    rows = [["core seconds per GB and node", "median [least .. largest]", "/ plain TCP"],
            ["plain TCP, user and system", ratio(plain), "1.00"], ["plain TCP, cores busy", ratio(busy), ratio(busy / plain)]]
    for name in names:
        costs = [statistics.median(found) for turn in turns if (found := costs_of(turn[name], nodes))]
        rows.append([name, *((ranged(costs, ratio), ratio(statistics.median(costs) / plain)) if costs else
                             ("–", "computing is too short"))])
    return table(rows)


def work_lines(rows):
    printed = [["us", "bytes", "computing", "wire", "least", "host", "Longshore", "/ least", "/ host"]]
    for row in rows:
        printed.append([row["collective"], str(row["bytes"]), *(f"{1e6 * row[key]:.0f}" if row[key] is not None else "–" for key in (
            "computing_s", "wire_s", "least_s", "host_s", "longshore_s")), ratio(row["longshore_s"] / row["least_s"]),
            ratio(row["longshore_s"] / row["host_s"])])
    return table(printed)


def waited_lines(rows):
    printed = [["us", "bytes", "turns", "host", "Longshore", "/ host", "of the turns"]]
    for row in rows:
        printed.append([row["collective"], str(row["bytes"]), str(len(row["ratios"])), f"{1e6 * row['host_s']:.1f}",
                        f"{1e6 * row['longshore_s']:.1f}", ratio(row["ratio"]), ranged(row["ratios"], ratio)])
    worst = max(rows, key=lambda row: row["ratio"])
    mean = geometric_mean([row["ratio"] for row in rows])
    return table(printed) + ["", f"geometric mean {mean:.3f} of host's; worst {worst['ratio']:.2f}: {worst['collective']} {worst['bytes']}"]
