"""The figures of study.py out of its samples: tables and the picture. Pure: no machine, and no file but the picture."""

import statistics
import sys

# Hydro cycle time relative to no offload, in per cent, in the paper: leblanc, sedovflat; a range where it names one.
PAPER = {
    ("mpi", "v1", "slow"): {"leblanc": "+82", "sedovflat": "+42"},
    ("mpi", "v2", "slow"): {"leblanc": "+11 to +21", "sedovflat": "+11 to +21"},
    ("mpi", "v1", "dpu"): {"leblanc": "+82", "sedovflat": "+42"},
    ("mpi", "v2", "dpu"): {"leblanc": "+11 to +21", "sedovflat": "+11 to +21"},
    ("mpi", "v2", "socket"): {"leblanc": "+11 to +21", "sedovflat": "+11 to +21"},
    ("hybrid", "v1", "slow"): {"leblanc": "+37", "sedovflat": "+30"},
    ("hybrid", "v1", "socket"): {"leblanc": "-4", "sedovflat": "-6"},
    ("hybrid", "v2", "slow"): {"leblanc": "-0.8 to +1.2", "sedovflat": "-0.8 to +1.2"},
    ("hybrid", "v2", "socket"): {"leblanc": "-0.8 to +1.2", "sedovflat": "-0.8 to +1.2"},
}
KERNELS = ("lengths", "masses", "energy")
COLOURS = {"mpmd": "#d55e00", "tasks": "#0072b2", "none": "#999999"}
HATCHES = {"v1": "", "v2": "//", "auto": "xx", "again": ""}


def cycle_seconds(launch):
    return statistics.median(launch["cycle_seconds"])


def relative_percent(launches, name):
    """Of a contender's cycle to that with nothing handed over: the median of the turns' ratios, less 100 %."""
    ratios = [cycle_seconds(one) / cycle_seconds(plain) for one, plain in zip(launches[name], launches["none"])]
    return 100 * (statistics.median(ratios) - 1)


def spread_percent(launches, name):
    """The least and the largest ratio of the turns."""
    ratios = [cycle_seconds(one) / cycle_seconds(plain) for one, plain in zip(launches[name], launches["none"])]
    return 100 * (min(ratios) - 1), 100 * (max(ratios) - 1)


def whole_run(launches, name):
    """Of a contender that tries first: (per cent by which all its cycles took longer, least, most; the trials' cycles; the
    milliseconds that they took longer), medians of the turns. None: no such samples."""
    runs = launches[name]
    if not all(one.get("trial_cycles") for one in runs):
        return None
    ratios = [100 * (one["all_cycles_seconds"] / plain["all_cycles_seconds"] - 1) for one, plain in zip(runs, launches["none"])]
    return (statistics.median(ratios), min(ratios), max(ratios), statistics.median(one["trial_cycles"] for one in runs),
            1e3 * statistics.median(one["trial_seconds"] for one in runs))


def kernel_median(launches, name, kernel, what):
    return statistics.median(one["kernels"][kernel][what] for one in launches[name])


def bytes_handed(launch):
    """Of a zone in a cycle, of what is handed over."""
    return sum(kernel["bytes_per_zone"] for kernel in launch["kernels"].values() if kernel["handed_over"])


def contenders(row):
    return [name for name in row["launches"] if name != "none"]


def title(row):
    name, zones = row["problem"].split(":")
    width, height = map(int, zones.split("x"))
    shape = f"{row['ranks']} ranks" if row["mode"] == "mpi" else f"{row['ranks']} ranks with {row['threads']} threads each"
    return f"{name}, {width * height:,} zones a thread, {shape} on {len(row['cores'][0])} core(s), {row['placement']}"


def report_row(row, lines):
    launches = row["launches"]
    plain = statistics.median(cycle_seconds(one) for one in launches["none"])
    first = launches["none"]
    lines += ["", f"{title(row)}: cycle {1e3 * plain:.3f} ms with nothing handed over ({len(first)} turns of "
              f"{len(first[0]['cycle_seconds'])} cycles)"]
    lines.append(f"  {'way':<12}{'cycle, ms':>10}{'relative':>10}{'turns':>18}{'bytes/zone':>12}{'copied':>9}  paper, %")
    for name in contenders(row):
        variant = name.split()[1]
        runs = launches[name]
        low, high = spread_percent(launches, name)
        paper = PAPER.get((row["mode"], variant, row["placement"]), {}).get(row["problem"].split(":")[0], "-")
        seconds = statistics.median(map(cycle_seconds, runs))
        lines.append(f"  {name:<12}{1e3 * seconds:>10.3f}{relative_percent(launches, name):>+9.1f}%"
                     f"{f'{low:+.1f} to {high:+.1f}':>18}{statistics.median(map(bytes_handed, runs)):>12.0f}"
                     f"{statistics.median(one['copied_bytes_per_zone'] for one in runs):>9.0f}  {paper}")
    for name in contenders(row):
        if whole := whole_run(launches, name):
            change, low, high, cycles, milliseconds = whole
            lines.append(f"  {name}: the whole run {change:+.1f}% ({low:+.1f} to {high:+.1f}); {cycles:.0f} cycles of trials took "
                         f"{milliseconds:+.1f} ms")
    lines.append(f"  {'kernel, us':<22}{'own time':>10}{'submit':>9}{'wait':>9}{'beside':>9}{'slack':>9}")
    for name in contenders(row):
        for kernel in KERNELS:
            if not all(one["kernels"][kernel]["handed_over"] for one in launches[name]):
                continue
            values = [1e6 * kernel_median(launches, name, kernel, f"{what}_seconds") for what in ("submit", "wait", "run", "slack")]
            own = 1e6 * kernel_median(launches, "none", kernel, "submit_seconds")
            lines.append(f"  {name:<12}{kernel:<10}{own:>10.0f}"
                         + "".join(f"{value:>9.0f}" for value in values))


SAME = ("mpi", "slow", "machine")


def joined(studies):
    """Several runs of the study with the same settings, as one."""
    for key in SAME:
        values = [study[key] if key != "machine" else {**study[key], "commit": "", "date": ""} for study in studies]
        if any(value != values[0] for value in values):
            raise ValueError(f"the runs differ in {key}: {', '.join(map(str, values))}")
    rates = {study["rate"] for study in studies if any(row["placement"] == "node" for row in study["results"])}
    if len(rates) > 1:
        raise ValueError(f"the runs differ in rate: {', '.join(sorted(rates))}")
    whole = dict(studies[0]) | {"rate": rate for rate in rates}
    whole["results"] = [row for study in studies for row in study["results"]]
    whole["missing"] = list(dict.fromkeys(line for study in studies for line in study["missing"]))
    return whole


def report(study):
    """The lines of the text."""
    machine = study["machine"]
    lines = [f"hydro's cycle with parts handed over, {study['mpi']}; {machine['cores']} cores in {machine['sockets']} socket(s), "
             f"{machine['processor']}, commit {machine['commit']}",
             f"medians of turns; slow: {study['slow']:g} times slower. Slack: from a kernel's "
             "end to its first use"]
    if any(row["placement"] == "node" for row in study["results"]):
        lines.append(f"node: two nodes in namespaces, links held to {study['rate']}; their clocks are one, so that slack is right")
    if any(row["placement"] == "dpu" for row in study["results"]):
        lines.append("dpu: two nodes and their DPUs in namespaces, links that are not held; a DPU's core is as fast as its node's")
    for row in study["results"]:
        report_row(row, lines)
    if study["missing"]:
        lines += ["", *study["missing"]]
    return lines


def draw(study, path):
    """A panel for each problem: bars of the relative cycle time by placement, way and variant."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        sys.exit("study: pictures need matplotlib: 'make venv' installs it beside the build")
    problems = list(dict.fromkeys(row["problem"] for row in study["results"]))
    figure, panels = plt.subplots(1, len(problems), squeeze=False, figsize=(1.5 + 4.2 * len(problems), 4.4), dpi=110,
                                  layout="constrained", sharey=True)
    for axes, problem in zip(panels[0], problems):
        draw_panel(axes, [row for row in study["results"] if row["problem"] == problem])
        name, zones = problem.split(":")
        axes.set_title(f"{name}, {zones.replace('x', ' x ')} zones a thread", fontsize=10)
    panels[0][0].set_ylabel("cycle, relative to nothing handed over")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(f"hydro with parts of its cycle handed over, {study['mpi']}", fontsize=11)
    figure.savefig(path)
    print(f"picture: {path}")


def draw_panel(axes, rows):
    top = 2.5  # what is higher is cut off, and says how high it is
    for place, row in enumerate(rows):
        names = contenders(row)
        for i, name in enumerate(names):
            way, variant = name.split()
            value = 1 + relative_percent(row["launches"], name) / 100
            x = place + (i - (len(names) - 1) / 2) * 0.8 / len(names)
            axes.bar(x, min(value, top), 0.74 / len(names), color=COLOURS[way], hatch=HATCHES[variant], edgecolor="white",
                     lw=0.4, label=name if place == 0 else None)
            above = 1 if 0.85 < value < 1 else min(value, top)  # and not through the line at 1
            axes.text(x, above, f"{100 * (value - 1):+.0f}%", ha="center", va="bottom", fontsize=7, rotation=90)
    axes.axhline(1, color="black", lw=0.8)
    axes.set_ylim(0, top * 1.12)
    labels = [f"{row['placement']}\n{row['mode']}" for row in rows]
    axes.set_xticks(range(len(rows)), labels, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
