"""The figures of study.py out of its samples: the table and the picture. Pure: no machine, and no file but the picture."""

import statistics
import sys

ROWS = (("all communication", "all"), ("MPI_Allgather", "allgather"), ("MPI_Waitall", "waitall"), ("MPI_Alltoall", "alltoall"),
        ("MPI_Allreduce", "allreduce"), ("other MPI", "other"))
# Table III of the paper: seconds by the host and with offload, 8 ranks with 4 threads and 4 with 8, on each of 32 nodes.
PAPER = {"all": ((245.99, 138.15), (230.66, 142.37)), "allgather": ((126.38, 82.74), (102.17, 76.26)),
         "waitall": ((57.60, 32.02), (73.65, 41.40)), "alltoall": ((37.89, 13.87), (30.03, 17.45)),
         "allreduce": ((7.44, 4.96), (2.88, 4.05)), "other": ((16.68, 4.56), (21.93, 3.21))}
GOALS = {"avoidable": 0.65, "exits": 0.5, "all": 0.8}


def mean(values):
    return statistics.fmean(values) if values else 0.0


def value_of(launch, key):
    """Of a launch: seconds of a row, of the wall, or of an allgather's avoidable part or the spread of its exits."""
    run = launch["runs"][0]
    if key == "wall":
        return run["wall"]
    if key == "computing":
        return run["computing"]
    if key in ("avoidable", "exits"):
        return mean(run["allgather_avoidable" if key == "avoidable" else "exit_spread"])
    return run["mpi"][key]


def best_host(turns, key):
    """The contender without Longshore whose median is least."""
    names = [name for name in turns[0] if name != "longshore"]
    return min(names, key=lambda name: statistics.median(value_of(turn[name], key) for turn in turns))


def ratios(turns, key, host=None):
    """Of each turn, Longshore's to that of the best host."""
    host = host or best_host(turns, key)
    return [value_of(turn["longshore"], key) / value_of(turn[host], key) for turn in turns]


def messages(turns):
    """Sums over the turns of what Longshore's service processes counted."""
    sums = {}
    for turn in turns:
        for key, count in turn["longshore"].get("messages", {}).items():
            sums[key] = max(sums.get(key, 0), count) if "longest" in key else sums.get(key, 0) + count
    return sums


def message_lines(turns):
    return lines_of(messages(turns))


def lines_of(found):
    received = found.get("received", 0)
    if not received:
        return ["no messages between nodes"]
    share = {key: 100 * found.get(key, 0) / received for key in ("late", "parked", "handed_on", "rescued")}
    parked = found.get("parked", 0)
    waited = f"; the parked waited {1e-6 * found.get('parked_ns', 0) / parked:.0f} ms on average" if parked else ""
    return [f"messages of allgathers at service processes: {received}; {share['late']:.1f} % found their rank late (paper: 9), "
            f"{share['parked']:.1f} % no local rank (paper: 5.9), {share['handed_on']:.1f} % were handed on{waited}"]


def results_of(study):
    """The checksums of what must be the same to the last bit: a set for each kind of steps."""
    if "dpus" in study:
        launches = study["dpus"].values()
        return [{launch["runs"][0]["checksum"] for launch in launches}, {launch.get("physics") for launch in launches}]
    return [{launch["runs"][0].get("checksum") for turn in study[kind] for launch in turn.values()} for kind in ("on_time", "late")]


def is_same(study):
    return all(len(results) == 1 for results in results_of(study))


def same_line(study):
    return f"all results are {'the same to the last bit' if is_same(study) else 'NOT THE SAME'}"


def report(study):
    late, on_time = study["late"], study["on_time"]
    first = late[0]["host"]
    lines = [f"tddft, {study['mpi']}, {study['nodes']} node(s) x {study['ranks_per_node']} ranks, links {study['rate'] or 'not held'}; "
             f"{len(late)} turns of {first['allgathers']} allgathers of {first['allgather_bytes']} bytes a rank",
             "the MPI's own algorithms with nobody late, an allgather in ms: " +
             ", ".join(f"{one['allgather']} {1e3 * one['allgather_s']:.0f}" for one in study["tried"]),
             f"late ranks: by 15 to 50 % of {1e3 * study['base_s']:.0f} ms", "",
             f"  {'s, median of turns (least-most)':<32}" + "".join(f"{name:>26}" for name in late[0]) + f"{'paper, host':>14}{'offload':>10}"]
    for title, key in (*ROWS, ("computing", "computing"), ("wall time", "wall")):
        line = f"  {title:<32}"
        for name in late[0]:
            values = [value_of(turn[name], key) for turn in late]
            line += f"{f'{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})':>26}"
        if key in PAPER:
            line += "".join(f"{value:>{width}.2f}" for value, width in zip(PAPER[key][0], (14, 10)))
        lines.append(line)
    lines.append(f"  {'share of MPI in the wall time':<32}" + "".join(
        f"{100 * statistics.median(value_of(turn[name], 'all') / value_of(turn[name], 'wall') for turn in late):>24.1f} %" for name in late[0]))
    lines.append("")
    for title, key in (("avoidable time of an allgather", "avoidable"), ("spread of the ranks' exits", "exits"), ("all MPI", "all"),
                       ("wall time", "wall")):
        found, plain = ratios(late, key), ratios(on_time, key)
        goal = f", goal {GOALS[key]}" if key in GOALS else f", better in {sum(one < 1 for one in found)} of {len(found)}"
        lines.append(f"  {title + ', to the best host':<50}{statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f}){goal}; "
                     f"nobody late {statistics.median(plain):.2f}")
    return [*lines, *message_lines(late), same_line(study)]


def copies_of(launch, calls):
    """Who had the blocks of an allgather. Files before these counts were made have none."""
    if "blocks" not in launch:
        return []
    return [f"in an allgather {launch['messages'].get('readers', 0) / calls:.1f} readers were named; blocks that ranks of a host copied from each "
            f"other: {launch['blocks']['ranks'] / calls:.1f}, that agents copied: {launch['blocks']['agents'] / calls:.1f}"]


def report_dpus(study):
    """Bytes, counters and checksums of the same steps through DPUs. Times would be those of two cores that all share. Ranks that
    sleep compute nothing with what they receive (tddft compares it): the physics' checksum is the one that shows a wrong bit."""
    launches = study["dpus"]
    host = launches["host"]
    ranks, nodes, calls = study["ranks_per_node"], study["nodes"], host["allgathers"]
    least = (nodes - 1) * ranks * host["allgather_bytes"]
    lines = [f"tddft, {study['mpi']}, {nodes} nodes x {ranks} ranks with a DPU each; {calls} allgathers of {host['allgather_bytes']} bytes a rank, "
             f"some ranks late", "",
             f"  {'':<20}{'MB to a host, an allgather':>28}{'of what is needed':>20}{'MB copied by ranks':>20}{'physics, checksum':>20}"]
    for name, launch in launches.items():
        came = max(launch["to_host"]) / calls if "to_host" in launch else None
        lines.append(f"  {name:<20}{'-' if came is None else format(1e-6 * came, '.3f'):>28}"
                     f"{'-' if came is None else format(came / least, '.3f'):>20}"
                     f"{'-' if came is None else format(1e-6 * launch['by_ranks'] / calls, '.3f'):>20}{launch.get('physics', '-'):>20}")
    lines += ["", f"  {same_line(study)}"]
    return [*lines, *(f"  {name}: {line}" for name, launch in launches.items() if "messages" in launch
                      for line in [*copies_of(launch, calls), *lines_of(launch["messages"])])]


def draw(studies, path):
    """A panel for each study: seconds in each kind of call, by contender."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("study: pictures need matplotlib: 'make venv' installs it beside the build")
    figure, panels = plt.subplots(1, len(studies), squeeze=False, figsize=(1.5 + 4.2 * len(studies), 4.4), dpi=110, layout="constrained")
    colours = ("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#999999")
    for axes, study in zip(panels[0], studies):
        names, bottom = list(study["late"][0]), [0.0] * len(study["late"][0])
        for (title, key), colour in zip(ROWS[1:], colours):
            heights = [statistics.median(value_of(turn[name], key) for turn in study["late"]) for name in names]
            axes.bar(names, heights, bottom=bottom, color=colour, label=title, width=0.6)
            bottom = [low + height for low, height in zip(bottom, heights)]
        for x, name in enumerate(names):
            values = [value_of(turn[name], "all") for turn in study["late"]]
            axes.plot([x, x], [min(values), max(values)], color="black", lw=1)
        axes.set_title(f"{study['mpi']}, {study['nodes']} x {study['ranks_per_node']} ranks, {study['rate'] or 'one node'}", fontsize=10)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0][0].set_ylabel("s in MPI, mean of ranks, some of them late")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path)
    print(f"picture: {path}")
