#!/usr/bin/env python3
"""Runs what the model can say of published measurements, and sets both side by side.

Each experiment is a call of 'longshore simulate'; its JSON, its picture and a table of all go to a folder. The figures
are discussed in docs/papers.md, whose numbers of rows are used here.

exit codes: 0 done; 1 a simulation failed, or a folder cannot be made; 2 bad option; 125 a part is missing
"""

import argparse
import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Took:
    """What an experiment took of this machine."""
    seconds: float
    processor_seconds: float
    megabytes: float


class Result:
    """What one experiment has found; times in us, means over ranks and over seeds."""

    def __init__(self, data):
        self.rows = data["rows"]
        self.ranks_per_node = data.get("ranks_per_node")
        self.took = None

    def mean(self, key, **wanted):
        found = [row[key] for row in self.rows
                 if key in row and all(row.get(name) == value for name, value in wanted.items())]
        return sum(found) / len(found) if found else None

    def time(self, **wanted):
        return self.mean("mean_us", **wanted)

    def ratio(self, above, below):
        """Of two times, each chosen by a dictionary; None where one was not run."""
        a, b = self.time(**above), self.time(**below)
        return None if a is None or b is None else a / b


KIB = 1024
OURS = {"who": "longshore"}


def times(text, factor):
    return text if factor is None else f"{text} {factor:.2f}"


def joined(parts):
    return "; ".join(part for part in parts if part) or "-"


def service_counts(sizes, counts):
    """Rows 3 and 28: times by the number of service processes."""
    def say(result):
        said = []
        for size in sizes:
            times_us = {n: result.time(who="longshore", bytes=size, services=n) for n in counts}
            said.append(f"{size // KIB} KiB, ms: " + ", ".join(f"{n}: {time_us / 1e3:.1f}" for n, time_us in times_us.items()
                                                               if time_us is not None))
        return joined(said)
    return say


def message(result):
    """Rows 1 and 2: one message from host to host, until its receiver has it."""
    small, large = (result.mean("most_us", who="binomial", bytes=size) for size in (1, 4 * KIB * KIB))
    return f"1 B: {small:.3f} us; 4 MiB: {4 * KIB * KIB / large / 1e3:.2f} GB/s"


def against(contender, placement, sizes):
    def say(result):
        return joined(times(f"{size // KIB} KiB:", result.ratio(
            {"who": contender, "bytes": size, "placement": placement}, OURS | {"bytes": size, "placement": placement}))
            for size in sizes)
    return say


def mapping(sizes):
    """Row 5: the time of strided ranks, as a share of that of ranks in order."""
    def say(result):
        return joined(times(f"{who}, {size // KIB} KiB:", result.ratio(
            {"who": who, "bytes": size, "placement": "strided"}, {"who": who, "bytes": size, "placement": "contiguous"}))
            for who in ("longshore", "ring") for size in sizes)
    return say


def hidden(sizes):
    def say(result):
        said = []
        for who in ("longshore", "linear"):
            for size in sizes:
                percent = result.mean("overlap_percent", who=who, bytes=size)
                said.append(None if percent is None else f"{who}, {size // KIB} KiB: {percent:.1f} %")
        return joined(said)
    return say


def own_time(*contenders):
    def say(result):
        return ", ".join(f"{who} {result.time(who=who) / 1e3:.2f} ms" for who in ("longshore", *contenders))
    return say


def time_by_size(sizes):
    """Row 7: our time, and that of each modelled algorithm as a multiple of it."""
    def say(result):
        names = list(dict.fromkeys(row["who"] for row in result.rows if row["who"] != "longshore"))
        said = []
        for size in sizes:
            ours = result.time(who="longshore", bytes=size)
            theirs = "".join(f", {name} {result.time(who=name, bytes=size) / ours:.2f} times" for name in names
                             if result.time(who=name, bytes=size) is not None)
            said.append(f"{size // KIB} KiB: {ours / 1e3:.2f} ms{theirs}")
        return joined(said)
    return say


def each_iteration(result):
    """What one counted iteration leaves out: how far the next ones are from it."""
    return joined(f"{row['who']}, ms: " + ", ".join(f"{time_us / 1e3:.2f}" for time_us in row["iterations_us"])
                  for row in result.rows)


def quickest_host(result, key, size):
    """The least of what the modelled algorithms took, and which."""
    names = {row["who"] for row in result.rows if row["who"] != "longshore"}
    return min((result.mean(key, who=name, bytes=size), name) for name in names)


def overall(contender, sizes):
    """Rows 17 to 19: exchange and computing together, beside a modelled algorithm and the quickest of them."""
    def say(result):
        said = []
        for size in sizes:
            ours, theirs = (result.mean("together_us", who=who, bytes=size) for who in ("longshore", contender))
            best, name = quickest_host(result, "together_us", size)
            percent = result.mean("overlap_percent", who="longshore", bytes=size)
            said.append(f"{size // KIB} KiB: {ours / theirs - 1:+.0%} beside {contender}, {ours / best - 1:+.0%} beside {name}, "
                        f"hidden {percent:.1f} %")
        return joined(said)
    return say


def times_of_quickest(sizes):
    """Row 28: our time through that of the quickest modelled host."""
    def say(result):
        return joined(f"{size // KIB} KiB: {result.time(who='longshore', bytes=size) / 1e3:.2f} ms, "
                      f"{result.time(who='longshore', bytes=size) / quickest_host(result, 'mean_us', size)[0]:.2f} of the host"
                      for size in sizes)
    return say


def efficiency(*wanted):
    """Rows 27 and 30 to 32: by workers, of 64 KiB blocks."""
    def say(result):
        said = []
        for pattern, assignment in wanted:
            found = [f"{row['workers']}: {row['efficiency_percent']:.0f}" for row in result.rows
                     if (row["pattern"], row["assignment"], row["bytes"]) == (pattern, assignment, 64 * KIB)]
            said.append(f"{pattern}, {assignment}, %: " + ", ".join(found))
        return joined(said)
    return say


def call(result):
    return f"{result.time(who='longshore'):.1f} us"


def push(result):
    """Row 18: an allgather of several roots is the second paper's flat form. With most workers, their time alone."""
    most = max(row["workers"] for row in result.rows)
    rows = [row for row in result.rows if (row["pattern"], row["workers"]) == ("allgather-multi", most)]
    return joined(f"{row['bytes'] // KIB} KiB: {row['pure_comm_us']:.0f} us" for row in rows)


def draw_efficiency(result, title, picture):
    """A panel for each pattern and assignment, a line for each size."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    panels = list(dict.fromkeys((row["pattern"], row["assignment"]) for row in result.rows))
    figure, axes = plt.subplots(1, len(panels), figsize=(2.6 * len(panels), 3.2), squeeze=False, sharey=True)
    for panel, axis in zip(panels, axes[0]):
        rows = [row for row in result.rows if (row["pattern"], row["assignment"]) == panel]
        for size in dict.fromkeys(row["bytes"] for row in rows):
            points = [(row["workers"], row["efficiency_percent"]) for row in rows if row["bytes"] == size]
            axis.plot(*zip(*points), marker="o", markersize=3, label=f"{size // KIB} KiB")
        axis.set_title(", ".join(panel), fontsize=8)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("workers")
        axis.set_ylim(0, 105)
        axis.grid(True, color="#dddddd", linewidth=0.5)
    axes[0][0].set_ylabel("offload efficiency, %")
    axes[0][0].legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(picture, dpi=130)


def transforms(compute_us):
    """Rows 11 and 12: four variables in turn. While one is exchanged the next one is computed; the last exchange is covered
    by nothing. Seconds are those of ten repetitions, forth and back, as the published ones."""
    variables = 4
    transforms_each = 2 * 10

    def say(result):
        total = {who: compute_us + (variables - 1) * result.mean("together_us", who=who) + result.time(who=who)
                 for who in ("longshore", "linear", "pairwise")}
        host = min(total["linear"], total["pairwise"])
        waits = {who: total[who] - variables * compute_us for who in total}
        host_waits = min(waits["linear"], waits["pairwise"])
        return (f"{1 - total['longshore'] / host:.0%} less time, {1 - waits['longshore'] / host_waits:.0%} less in MPI "
                f"({transforms_each * host_waits / 1e6:.2f} to {transforms_each * waits['longshore'] / 1e6:.2f} s); an exchange alone "
                f"{result.time(who='longshore') / 1e3:.1f} ms, host "
                f"{min(result.time(who='linear'), result.time(who='pairwise')) / 1e3:.1f} ms")
    return say


# Table III of paper 1 (row 14), in s: 100 steps, ranks x threads a node; the host's MPI, and offloaded.
STEP_PARTS = {"halo": "Waitall", "allgather": "Allgather", "alltoall": "Alltoall", "allreduce": "Allreduce"}
STEPS = 100
PUBLISHED_STEPS = {
    8: {"all": (245.99, 138.15), "halo": (57.60, 32.02), "allgather": (126.38, 82.74), "alltoall": (37.89, 13.87),
        "allreduce": (7.44, 4.96)},
    4: {"all": (230.66, 142.37), "halo": (73.65, 41.40), "allgather": (102.17, 76.26), "alltoall": (30.03, 17.45),
        "allreduce": (2.88, 4.05)},
}


def of_steps(result, who, key):
    """Mean over seeds, in s for all of the published run's steps."""
    rows = [row for row in result.rows if row["who"] == who]
    return STEPS / 1e3 * sum(row["parts_ms"].get(key, row.get(key)) for row in rows) / len(rows)


def step_totals(result, who):
    """Of each seed, what the parts that are drawn take together, in s for all of the published run's steps."""
    return [STEPS / 1e3 * sum(row["parts_ms"].get(part, row.get(part)) for part in STEP_PARTS) for row in result.rows if row["who"] == who]


def steps(result):
    """Rows 13, 14 and 16."""
    hosts = list(dict.fromkeys(row["who"] for row in result.rows if row["who"] != "longshore"))
    said = []
    for host in hosts:
        parts = ", ".join(f"{name} {of_steps(result, host, part):.1f} to {of_steps(result, 'longshore', part):.1f}"
                          for part, name in STEP_PARTS.items())
        mpi, wall = ((of_steps(result, host, key), of_steps(result, "longshore", key)) for key in ("mpi_ms", "wall_ms"))
        alone, first = ((of_steps(result, host, key), of_steps(result, "longshore", key))
                        for key in ("allgather_alone_ms", "first_alltoall_ms"))
        said.append(f"beside {host}, s: {parts}; all MPI {mpi[0]:.1f} to {mpi[1]:.1f} ({mpi[0] / wall[0]:.0%} to {mpi[1] / wall[1]:.0%} "
                    f"of the time), whole {1 - wall[1] / wall[0]:.0%} shorter; after its last rank an allgather takes "
                    f"{alone[1] / alone[0]:.2f} of the host's time, the alltoall after it {first[1] / first[0]:.2f}")
    return joined(said)


def draw_steps(result, title, picture):
    """What a rank spends in each call, stacked: published and simulated."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    published = PUBLISHED_STEPS.get(result.ranks_per_node, {})
    bars = [(f"published:\n{name}", [published[part][which] for part in STEP_PARTS])
            for which, name in enumerate(("host", "offloaded")) if published]
    names = list(dict.fromkeys(row["who"] for row in result.rows))
    modelled = sorted(names, key=lambda name: name == "longshore")
    bars += [("model:\n" + name.replace("/", ",\n"), [of_steps(result, name, part) for part in STEP_PARTS]) for name in modelled]
    figure, axis = plt.subplots(figsize=(1.5 * len(bars) + 2, 4.2))
    bottom = [0.0] * len(bars)
    for number, name in enumerate(STEP_PARTS.values()):
        heights = [values[number] for _, values in bars]
        axis.bar(range(len(bars)), heights, 0.6, bottom=bottom, label=name, color=("#0072b2", "#e69f00", "#009e73", "#cc79a7")[number])
        bottom = [below + height for below, height in zip(bottom, heights)]
    for number, name in enumerate(modelled, len(bars) - len(modelled)):
        totals = step_totals(result, name)
        if len(totals) > 1:  # several seeds
            axis.errorbar(number, bottom[number], [[bottom[number] - min(totals)], [max(totals) - bottom[number]]], color="black", capsize=3)
    axis.set_xticks(range(len(bars)), [name for name, _ in bars], fontsize=8)
    axis.set_ylabel("s in 100 steps, mean of the ranks")
    axis.set_ylim(0, 1.25 * max(bottom))
    axis.legend(fontsize=8, ncols=4, loc="upper center")
    axis.set_title(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(picture, dpi=130)


def late(result):
    """Rows 6 and 10: of each run, so that runs with several seeds show their spread."""
    runs = [row["late"] for row in result.rows]
    shares = [100 * run["late"] / run["ranks"] for run in runs]
    found = sum(run["late"] for run in runs)
    covered = 100 * sum(run["covered"] for run in runs) / found if found else None
    return (f"{sum(shares) / len(shares):.2f} % ({min(shares):.2f} to {max(shares):.2f}) of {runs[0]['ranks']} a run"
            + ("" if covered is None else f"; another rank of the node was there for {covered:.1f} %"))


def draw_late(runs, picture):
    """Shares of late ranks of all experiments that count them: the mean of the seeds, and their spread."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    figure, axis = plt.subplots(figsize=(9, 0.45 * len(runs) + 1.2))
    for number, (experiment, result) in enumerate(runs):
        shares = [100 * row["late"]["late"] / row["late"]["ranks"] for row in result.rows]
        mean = sum(shares) / len(shares)
        axis.barh(number, mean, 0.6, xerr=[[mean - min(shares)], [max(shares) - mean]], capsize=3, color="#0072b2")
        axis.annotate(f"{mean:.2f}", (max(shares), number), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
    axis.set_yticks(range(len(runs)), [experiment.asked.replace(": late ranks, ", ":\n") for experiment, _ in runs], fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.set_xlabel("ranks that come late, %")
    axis.grid(True, axis="x", color="#dddddd", linewidth=0.5)
    axis.set_axisbelow(True)
    figure.suptitle("rows 6 and 10 (simulated)", fontsize=9)
    figure.tight_layout()
    figure.savefig(picture, dpi=130)


@dataclass
class Experiment:
    name: str
    rows: str  # of docs/papers.md
    asked: str  # what is compared
    published: str
    arguments: str
    say: object
    seconds: int  # about, of one core: for the order and the time left alone
    seeds: int = 1  # runs at least


MACHINES = Path(__file__).resolve().parent / "machines"
DPU_STEPS, HOST_STEPS = ("service", "dpu"), ("rank", "mpi")


def quicker(machine, tables, factor):
    """Options that divide what programs take for their steps by a ratio of clocks: all times in those tables of a machine
    file but the time that a service process looks in vain before it sleeps, which is a setting."""
    values = tomllib.loads((MACHINES / f"{machine}.toml").read_text(encoding="utf-8"))
    return " ".join(f"--set '{table}.{name}={value['value'] / factor:.6g} {value['unit']}'"
                    for table in tables for name, value in values[table].items()
                    if value.get("unit") in ("ps", "ns", "us", "ms") and (table, name) != ("service", "spin"))


FLAT = "--machine thor-bf2 --collective iallgather --algorithm staged --overlap --against host"
ALLGATHERV = "--collective allgatherv --against ring"
LATE_FITTED = ("1 % come 100 us later on average (fitted to row 6)", "--set 'jitter.late=1 %' --set 'jitter.late_by=100 us'")
STAGERS = [("2", 2, "BlueField-2", ""), ("2quickmemory", 2, "BlueField-2, its memory twice as quick", "--set 'dpu.memory_rate=25.6 GB/s'"),
           ("3", 3, "BlueField-3", "")]
EXPERIMENTS = [
    Experiment("message", "1, 2", "one message from host to host, no jitter", "1.16 us; 13.92 GB/s",
               "--collective bcast --nodes 2 --ranks-per-node 1 --sizes 1,4M --against binomial --set 'jitter.entry=0 us' "
               "--set 'jitter.cost=0 %'", message, 1),
    Experiment("services", "3", "service processes of a DPU, alltoallv",
               "1 too slow up to 64 KiB, 4 needed by large messages, 8 gain little",
               "--reads 4 --services 1,2,4,8 --sizes 16K,64K", service_counts((16 * KIB, 64 * KIB), (1, 2, 4, 8)), 130),
    Experiment("serviceslarge", "3", "the same, large messages", "4 needed, 8 gain little",
               "--reads 4 --services 1,2,4,8 --warm-up 0 --sizes 256K", service_counts([256 * KIB], (1, 2, 4, 8)), 120),
    Experiment("servicesgather", "3", "the same, allgatherv", "as above",
               "--collective allgatherv --reads 4 --services 1,2,4,8 --warm-up 0 --sizes 16K,64K",
               service_counts((16 * KIB, 64 * KIB), (1, 2, 4, 8)), 60),
    Experiment("allgatherv", "4, 5", "allgatherv, time of the modelled ring through ours, ranks in order",
               "64 KiB: 1.31 (HPC-X)", f"{ALLGATHERV} --sizes 16K,64K --placement contiguous,strided",
               against("ring", "contiguous", [64 * KIB]), 120),
    Experiment("strided", "5", "the same, ranks strided", "64 KiB: 6.9 (Open MPI)", "",
               against("ring", "strided", [64 * KIB]), 0),
    Experiment("mapping", "5", "the same, strided through in order", "1.0 (offloaded)", "", mapping([64 * KIB]), 0),
    Experiment("large", "4", "allgatherv of 512 KiB, time of the modelled ring through ours, ranks in order", "0.99 (HPC-X)",
               f"{ALLGATHERV} --warm-up 0 --sizes 512K --placement contiguous,strided", against("ring", "contiguous", [512 * KIB]),
               200),
    Experiment("largestrided", "5", "the same, ranks strided", "6.7 (Open MPI)", "", against("ring", "strided", [512 * KIB]), 0),
    *[Experiment(f"late{name}", row, f"{collective}, 1 KiB, 8 nodes of 16 ranks, 200 operations: late ranks, {told}", published,
                 f"--collective {collective} {more} --nodes 8 --ranks-per-node 16 --sizes 1K --warm-up 5 --iterations 200", late,
                 30, 3)
      for row, collective, published in (("6", "allgather", "1 %; 96 % have another of their host"),
                                         ("10", "alltoallv", "0.1 %"))
      for name, told, more in ((f"{row}chance", "by chance", ""),
                               (f"{row}fitted", *LATE_FITTED))],
    # What late ranks by chance hang on: how many ranks there are, and how long what they say of their blocks takes to their DPU.
    *[Experiment(f"late{name}", row, f"{collective}, {size[:-1]} KiB, {nodes} nodes of {ranks} ranks, {count} operation{'s' if count > 1 else ''}: late ranks, "
                 f"{told}", "as above", f"--collective {collective} {more} --nodes {nodes} --ranks-per-node {ranks} --sizes {size} --warm-up "
                 f"{5 if seeds > 1 else 1} --iterations {count}", late, seconds, seeds)
      for name, row, collective, size, nodes, ranks, count, seeds, told, more, seconds in (
          ("6nodes16", "6", "allgather", "1K", 16, 16, 30, 3, "by chance", "", 20),
          ("6whole", "6", "allgather", "1K", 32, 32, 5, 1, "by chance", "", 25),
          ("6wholefitted", "6", "allgather", "1K", 32, 32, 5, 1, *LATE_FITTED, 25),
          ("10nodes16", "10", "alltoallv", "1K", 16, 16, 30, 3, "by chance", "", 30),
          ("10ranks32", "10", "alltoallv", "1K", 8, 32, 30, 3, "by chance", "", 20),
          ("10large", "10", "alltoallv", "16K", 8, 32, 10, 3, "by chance", "", 10),
          ("10whole", "10", "alltoallv", "16K", 32, 32, 3, 1, "by chance", "", 60),
          ("10counts", "10", "alltoall", "16K", 8, 32, 10, 3, "by chance, no arrays of counts", "", 10),
          ("10wholecounts", "10", "alltoall", "16K", 32, 32, 1, 1, "by chance, no arrays of counts", "", 25),
          ("10noentry", "10", "alltoallv", "16K", 8, 32, 10, 3, "all ranks entering at once", "--set 'jitter.entry=0 us'", 10),
          ("10bus", "10", "alltoallv", "16K", 8, 32, 10, 3, "a bus of ten times the rate", "--set 'pcie.rate=139.2 GB/s'", 10))],
    *[Experiment(f"ranks{32 * nodes}", "7", f"allgather, 32 KiB, {32 * nodes} ranks", "linear in the ranks; about HPC-X",
                 f"--nodes {nodes} --collective allgather --sizes 32K --against ring", own_time("ring"), nodes)
      for nodes in (8, 16, 32)],
    *[Experiment(f"ranks{32 * nodes}large", "7", f"allgather, 128 and 512 KiB, {32 * nodes} ranks", "linear in the ranks",
                 f"--nodes {nodes} --warm-up 0 --collective allgather --sizes 128K,512K", time_by_size([128 * KIB, 512 * KIB]),
                 nodes * nodes // 16) for nodes in (8, 16, 32)],
    Experiment("ranks256hosts", "7", "allgather, 256 ranks, all modelled algorithms", "HPC-X about as quick, Open MPI much slower",
               "--nodes 8 --warm-up 0 --collective allgather --sizes 32K,512K --against host", time_by_size([32 * KIB, 512 * KIB]), 15),
    *[Experiment(f"exchange{32 * nodes}", "9", f"alltoallv, 16 KiB, {32 * nodes} ranks", "linear in the ranks",
                 f"--nodes {nodes} --sizes 16K --against linear", own_time("linear"), 3 * nodes) for nodes in (8, 16, 32)],
    Experiment("hidden", "8", "alltoallv, hidden behind computing", "above 99 % from 16 KiB on",
               "--warm-up 0 --sizes 16K --overlap --against linear", hidden([16 * KIB]), 150),
    Experiment("hiddenlarge", "8", "the same, 8 nodes of 32 ranks, larger blocks", "above 99 %",
               "--nodes 8 --warm-up 0 --sizes 64K,256K,512K --overlap", hidden([64 * KIB, 256 * KIB, 512 * KIB]), 20),
    Experiment("alltoallv", "9", "alltoallv, time of the modelled host through ours (linear)", "32 KiB: 6.3 (HPC-X)",
               "--sizes 32K,64K --against linear", against("linear", "contiguous", [32 * KIB, 64 * KIB]), 400),
    Experiment("alltoallvlarge", "9", "the same, large blocks", "256 KiB: 2.07; 512 KiB: 2.02 (HPC-X)",
               "--warm-up 0 --sizes 256K,512K --against linear", time_by_size([256 * KIB, 512 * KIB]), 90),
    Experiment("iterations", "9", "alltoallv, 16 KiB, 256 ranks: three iterations one by one", "-",
               "--nodes 8 --sizes 16K --against linear --iterations 3", each_iteration, 6),
    Experiment("iterationsjam", "28", "the same of alias2, 256 KiB, where readers jam", "-", "--machine thor-bf2 --collective ialltoall "
               "--nodes 16 --ranks-per-node 8 --sizes 256K --memory alias --iterations 3", each_iteration, 6),
    *[Experiment(f"fft{32 * nodes}", "11, 12", f"FFT of 1024^3, {nodes} nodes of 32 ranks, 4 variables: beside the host's "
                 f"Ialltoallv, computing {compute_us / 1e3:.1f} ms", published,
                 f"--nodes {nodes} --groups columns --sizes {size} --compute {compute_us} --against pairwise,linear",
                 transforms(compute_us), 30)
      for nodes, size, compute_us, published in ((4, "16M", 209700, "14 % less time"), (8, "4M", 104900, "14 to 49 %"),
                                                 (16, "1M", 52400, "14 to 49 %; 57 % less in MPI"),
                                                 (32, "256K", 26200, "49 %; 46 % less in MPI"))],
    *[Experiment(f"steps{ranks}", "13, 14, 16", f"steps of a density functional program, 32 nodes of {ranks} ranks: 100 steps",
                 published, f"steps --nodes 32 --ranks-per-node {ranks} --steps 3 --halos 4 --halo {halo} --allgathers 3 --allgather "
                 f"{gathered} --chunk 256K --alltoalls 2 --alltoall {transposed} --compute 3690000 --imbalance 25 --late 9 "
                 "--late-nodes 66 --late-by 30000,100000 --against ring/pairwise,doubling/linear", steps, 120)
      for ranks, halo, gathered, transposed, published in (
          (8, 10270000, 2187500, 649000, "24 % shorter; s: Waitall 57.6 to 32.0, Allgather 126.4 to 82.7, Alltoall 37.9 to 13.9, "
           "Allreduce 7.4 to 5.0, all MPI 246 to 138 (40 to 31 % of the time)"),
          (4, 16300000, 4375000, 2597000, "17 % shorter; s: Waitall 73.7 to 41.4, Allgather 102.2 to 76.3, Alltoall 30.0 to 17.5, "
           "Allreduce 2.9 to 4.1, all MPI 231 to 142"))],
    Experiment("flat", "17, 18", "iallgather, 32 nodes of 1 rank, staged, BlueField-2", "-43 %, hidden 100 %",
               f"{FLAT} --ranks-per-node 1 --services 1 --sizes 64K,256K,1M", overall("ring", [64 * KIB, 256 * KIB, 1024 * KIB]), 20),
    Experiment("flat2", "17, 18", "the same, the DPU's memory twice as quick", "-43 %, hidden 100 %",
               f"{FLAT} --ranks-per-node 1 --services 1 --sizes 64K,256K,1M --set 'dpu.memory_rate=25.6 GB/s'",
               overall("ring", [64 * KIB, 256 * KIB, 1024 * KIB]), 20),
    # How the second paper's DPUs do it, which the product's engine does not: each writes its hosts' blocks to all hosts.
    *[Experiment(f"push{name}", "18", f"DPU-Bench, BlueField-2, {hosts} hosts on 32 nodes, a worker on each: allgather of several roots",
                 published, f"dpu-bench --machine thor-bf2 --nodes 32 --hosts {hosts} --workers 8,16,32 --sizes {size}", push, 2)
      for name, hosts, size, published in (("", 32, "64K,256K,1M", "-43 % beside the host"), ("16", 512, "16K", "worse than the host"))],
    Experiment("pushcall", "18", "what push leaves out: a call of 1 B from two ranks, their DPUs and back", "-",
               "--machine thor-bf2 --collective allgather --algorithm staged --nodes 2 --ranks-per-node 1 --services 1 --sizes 1 "
               "--set 'jitter.entry=0 us' --set 'jitter.cost=0 %'", call, 1),
    *[Experiment(f"flat16{way}", "17, 18", f"the same, 32 nodes of 16 ranks, {told}", published,
                 f"{FLAT} --ranks-per-node 16 --sizes 16K --handover {way}", overall("ring", [16 * KIB]), 40)
      for way, told, published in (("dpu", "the DPU writes to all ranks", "worse than the host"),
                                   ("as-built", "ranks copy while they wait", "-38 %, hidden up to 62 %"))],
    *[Experiment(f"ibcast{way}", "19", f"ibcast, 32 nodes of 32 ranks, staged, BlueField-2, {told}", "-54 %, hidden 100 %",
                 "--machine thor-bf2 --collective ibcast --algorithm staged --services 1 --sizes 256K,1M --overlap --against host "
                 f"--handover {way}", overall("scatter-ring", [256 * KIB, 1024 * KIB]), 60)
      for way, told in (("dpu", "the DPU writes to all ranks"), ("as-built", "ranks copy while they wait"))],
    *[Experiment(f"{memory}{card}", "28", f"ialltoall, 16 nodes of 8 ranks, BlueField-{card}, {memory}", published,
                 f"--machine thor-bf{card} --collective ialltoall --nodes 16 --ranks-per-node 8 --sizes 4K,64K,256K "
                 f"--memory {memory} --against host", times_of_quickest([4 * KIB, 64 * KIB, 256 * KIB]), 20)
      for memory, published in (("staging", "-3 over -2: > 30 % quicker, large ones up to 10 % slower; host up to 2 x quicker"),
                                ("alias", "-3 over -2: at most 10 % quicker; quicker than the host"))
      for card in (2, 3)],
    *[Experiment(f"{memory}3ranks32", "28", f"ialltoall, 16 nodes of 32 ranks, BlueField-3, {memory}", published,
                 f"--machine thor-bf3 --collective ialltoall --nodes 16 --warm-up 0 --sizes 64K --memory {memory} --against pairwise",
                 times_of_quickest([64 * KIB]), 15)
      for memory, published in (("staging", "the host up to 2 x quicker"), ("alias", "quicker than the host"))],
    # "quickmemory": the other way to read what is published of BlueField-2's memory, as "flat2" above.
    Experiment("staging2quickmemory", "28", "the same as staging2, its memory twice as quick", "as there",
               "--machine thor-bf2 --collective ialltoall --nodes 16 --ranks-per-node 8 --sizes 4K,64K,256K --memory staging --against host "
               "--set 'dpu.memory_rate=25.6 GB/s'", times_of_quickest([4 * KIB, 64 * KIB, 256 * KIB]), 4),
    *[Experiment(f"staging{name}four", "28", f"ialltoall, 16 nodes of 4 ranks, staging, {told}", "-3 over -2: 15 % slower",
                 f"--machine thor-bf{card} --collective ialltoall --nodes 16 --ranks-per-node 4 --sizes 256K,1M --memory staging "
                 f"--against host {more}", times_of_quickest([256 * KIB, 1024 * KIB]), 3) for name, card, told, more in STAGERS],
    *[Experiment(f"staging{name}cores", "28", f"ialltoall, 16 nodes of 16 ranks, staging, {told}: 4 service processes, and on all cores",
                 "-3 over -2: up to 10 % slower with large ones and all cores",
                 f"--machine thor-bf{card} --collective ialltoall --nodes 16 --ranks-per-node 16 --services 4,{8 * (card - 1)} "
                 f"--warm-up 0 --sizes 256K --memory staging {more}", service_counts([256 * KIB], (4, 8 * (card - 1))), 6)
      for name, card, told, more in STAGERS],
    # Rows 24 and 25 measured less between the cards than their data sheets say: links 1.5 times as quick instead of twice,
    # memory 5.5 times instead of 6.25.
    *[Experiment(f"{memory}3measured", "24, 25, 28", f"the same as {memory}3, link and memory as measured beside BlueField-2", "as there",
                 "--machine thor-bf3 --collective ialltoall --nodes 16 --ranks-per-node 8 --sizes 4K,64K,256K --memory "
                 f"{memory} --against host --set 'link.rate=18.6 GB/s' --set 'dpu.memory_rate=70.4 GB/s'",
                 times_of_quickest([4 * KIB, 64 * KIB, 256 * KIB]), 20) for memory in ("staging", "alias")],
    # The papers disagree about clocks: BlueField-2 2.0 or 2.8 GHz, BlueField-3 2.1 or 3.0, hosts 2.6 or 3.4. Machine files are for
    # the lower ones.
    *[Experiment(f"staging{card}quick", "28", f"the same as staging{card}, DPU at {high} GHz instead of {low}", "the papers disagree about clocks",
                 f"--machine thor-bf{card} --collective ialltoall --nodes 16 --ranks-per-node 8 --sizes 4K,64K,256K --memory staging "
                 f"--against host {quicker(f'thor-bf{card}', DPU_STEPS, high / low)}", times_of_quickest([4 * KIB, 64 * KIB, 256 * KIB]), 20)
      for card, low, high in ((2, 2.0, 2.8), (3, 2.1, 3.0))],
    *[Experiment(f"clocks{name}", "9", f"alltoallv, 16 KiB, 256 ranks, {told}", "the papers disagree about clocks",
                 f"--nodes 8 --sizes 16K --against linear {more}", own_time("linear"), 24)
      for name, told, more in (("dpu", "BlueField-3 at 3.0 GHz instead of 2.1", quicker("mpcdf-bf3", DPU_STEPS, 3.0 / 2.1)),
                               ("host", "hosts at 3.4 GHz instead of 2.6", quicker("mpcdf-bf3", HOST_STEPS, 3.4 / 2.6)))],
    *[Experiment(f"workers{card}", "27, 30 to 32", f"DPU-Bench, 8 nodes of 8 hosts, BlueField-{card}: efficiency by workers",
                 published, f"dpu-bench --machine thor-bf{card} --nodes 8 --hosts 64",
                 efficiency(("bcast", "cyclic"), ("bcast", "block"), ("gather", "cyclic"), ("gather", "block"),
                            ("allgather-leader", "cyclic"), ("allgather-multi", "cyclic")), 10)
      for card, published in ((2, "rises to 1 a node; 98.6 % at 2 and 4; leader poor"), (3, "the same; allgather-multi 100 % at 1"))],
]
SMALL = ["--nodes", "4", "--ranks-per-node", "8"]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longshore", default=shutil.which("longshore"), metavar="PROGRAM", help="default: that of PATH")
    parser.add_argument("--out", type=Path, default=Path("papers"), metavar="FOLDER", help="for all results (default: papers)")
    parser.add_argument("--only", metavar="NAME,...", help="of the experiments that --list names")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each; means are shown (default: 1)")
    parser.add_argument("--jobs", type=int, default=min(4, len(os.sched_getaffinity(0))), metavar="N",
                        help="experiments that run at once, a core and up to 1 GB each (default: as many as cores, at most 4)")
    parser.add_argument("--quick", action="store_true", help="4 nodes of 8 ranks: whether all of it runs; no figures to quote")
    parser.add_argument("--no-pictures", action="store_true", help="needs no matplotlib")
    parser.add_argument("--list", action="store_true", help="name the experiments and their commands, run nothing")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error("--seeds is 1 or more")
    if options.jobs < 1:
        parser.error("--jobs is 1 or more")
    names = [experiment.name for experiment in EXPERIMENTS]
    options.chosen = options.only.split(",") if options.only else names
    for name in options.chosen:
        if name not in names:
            parser.error(f"there is no experiment {name}; there are {', '.join(names)}")
    if not options.longshore and not options.list:
        print("papers: no longshore on PATH: give --longshore", file=sys.stderr)
        sys.exit(125)
    return options


def words_of(experiment, options):
    words = shlex.split(experiment.arguments)
    if words[0] == "dpu-bench":
        return [*words[:3], "--nodes", "2", "--hosts", "8", "--workers", "1,2,4"] if options.quick else words
    if words[0] == "steps":
        if options.quick:
            words = ["steps", "--nodes", "4", "--ranks-per-node", words[words.index("--ranks-per-node") + 1], "--steps", "2", "--compute",
                     "3690", "--against", "ring/pairwise"]
        return [*words, "--seeds", ",".join(str(seed) for seed in range(1, options.seeds + 1))]
    if options.quick:
        for name in ("--nodes", "--ranks-per-node", "--iterations"):
            if name in words:
                at = words.index(name)
                del words[at:at + 2]
        words += SMALL
        if "--services" in words:  # no more than ranks
            at = words.index("--services") + 1
            words[at] = ",".join(count for count in words[at].split(",") if int(count) <= int(SMALL[-1]))
    for name, value in (("--machine", "mpcdf-bf3"), ("--warm-up", "1"), ("--iterations", "1")):
        if name not in words:
            words = [name, value, *words]
    seeds = max(options.seeds, experiment.seeds)
    return [*words, "--seeds", ",".join(str(seed) for seed in range(1, seeds + 1))]


# What these compare is no mean time, so a picture of those would say nothing of it.
NOT_OF_TIMES = (message, call, each_iteration, late)


def own_picture(experiment):
    """What draws it, where the command itself does not."""
    return {"dpu-bench": draw_efficiency, "steps": draw_steps}.get(experiment.arguments.split()[0])


def run(experiment, options):
    """The experiment's results. One without arguments of its own looks at those of the one before it."""
    file = options.out / f"{experiment.name}.json"
    command = [options.longshore, "simulate", *words_of(experiment, options), "--json", str(file)]
    if not options.no_pictures and own_picture(experiment) is None and experiment.say not in NOT_OF_TIMES:
        command += ["--plot", str(file.with_suffix(".png"))]
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        print(f"\npapers: {shlex.join(command)} ended with {child.returncode}:\n{said}", file=sys.stderr)
        sys.exit(125 if child.returncode == 125 else 1)
    result = Result(json.loads(file.read_text(encoding="utf-8")))
    result.took = Took(time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    return result


class Progress:
    """One line on a terminal that is overwritten: what is done, and the time left by the estimates, scaled by what was."""

    def __init__(self, experiments):
        self.shown = sys.stderr.isatty()
        self.left = {experiment.name: experiment.seconds for experiment in experiments}
        self.count, self.whole = len(self.left), sum(self.left.values())
        self.begin = time.monotonic()

    def say(self, over=None):
        self.left.pop(over, None)
        if not self.shown:
            return
        left = sum(self.left.values())
        done = self.whole - left
        seconds = left * (time.monotonic() - self.begin) / done if done else left
        filled = round(30 * (1 - len(self.left) / self.count))
        print(f"\r\x1b[K[{'#' * filled}{'.' * (30 - filled)}] {self.count - len(self.left)} of {self.count} done, "
              f"about {seconds / 60:.0f} min left", end="", file=sys.stderr, flush=True)

    def over(self):
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run_all(owners, options):
    """The results of all, by name; as many at once as --jobs says, the longest ones first."""
    progress = Progress(owners)
    progress.say()
    results = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        begun = {pool.submit(run, owner, options): owner for owner in sorted(owners, key=lambda one: -one.seconds)}
        for future in concurrent.futures.as_completed(begun):
            try:
                result = future.result()
            except SystemExit:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            owner = begun[future]
            results[owner.name] = result
            draw = own_picture(owner)  # here, as matplotlib wants to be used by one thread
            if draw is not None and not options.no_pictures:
                draw(result, f"{owner.asked} (simulated)", options.out / f"{owner.name}.png")
            progress.say(owner.name)
    progress.over()
    return results


def table(head, lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ("---",) * len(head), *lines]) + "\n"


def times_taken(results, seconds):
    """Each experiment's time, the longest first, and that of all."""
    lines = [(name, f"{took.seconds:.1f}", f"{took.processor_seconds:.1f}", f"{took.megabytes:.0f}")
             for name, took in sorted(((name, result.took) for name, result in results.items()),
                                      key=lambda one: -one[1].processor_seconds)]
    processor = sum(result.took.processor_seconds for result in results.values())
    return lines + [("all", f"{seconds:.1f}", f"{processor:.1f}", "")]


def main():
    options = parse(sys.argv[1:])
    runs, owner = [], None
    for experiment in EXPERIMENTS:
        owner = experiment if experiment.arguments else owner
        if experiment.name in options.chosen:
            runs.append((experiment, owner))
    if options.list:
        for experiment, owner in runs:
            print(f"{experiment.name} (row {experiment.rows}): longshore simulate {shlex.join(words_of(owner, options))}")
        return
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"papers: --out: {error}")
    begin = time.monotonic()
    results = run_all(list({owner.name: owner for _, owner in runs}.values()), options)
    lines = [(experiment.rows, experiment.asked, experiment.published, experiment.say(results[owner.name]))
             for experiment, owner in runs]
    late_runs = [(experiment, results[owner.name]) for experiment, owner in runs if experiment.say is late]
    if late_runs and not options.no_pictures:
        draw_late(late_runs, options.out / "late.png")
    text = table(("row", "what", "published", "model"), lines)
    if options.quick:
        text = "4 nodes of 8 ranks: to see that it runs, not to be compared.\n\n" + text
    (options.out / "papers.md").write_text(text, encoding="utf-8")
    taken = times_taken(results, time.monotonic() - begin)
    (options.out / "times.md").write_text(table(("experiment", "s", "s of a core", "MB"), taken), encoding="utf-8")
    print(text + f"\nEverything is in {options.out}. {len(results)} experiments took {taken[-1][1]} s, {taken[-1][2]} s of a core "
          "(times.md).")


if __name__ == "__main__":
    main()
