"""What 'longshore assess --machine' says: the time that the collectives of the assessed program would take on a machine that
a file describes, without and with Longshore, by 'longshore simulate'."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

# How near the model came to what was measured: docs/simulation.md, "Beside machines that are there".
ROWS, NEAR, NEARER = 30, 23, 19  # figures compared; within SPREAD; within ERROR
ERROR, SPREAD, WORST = 0.15, 0.25, 0.87
ROWS_MAX = 12  # calls that are simulated: those in which the ranks spent most time
UNITS = ("calls: of a rank, on average. computing: between a call and its wait. us: a call as a rank notices it, the computing beside "
         "it taken off.")
COLLECTIVE = re.compile(r"MPI_I?(alltoallv?|allgatherv?|bcast)(_init)?", re.IGNORECASE)


class Refused(Exception):
    """What 'longshore simulate' will not do; its own words."""


def simulate(longshore, machine, *options):
    with tempfile.TemporaryDirectory(prefix="longshore-expect-") as folder:
        results = Path(folder) / "results.json"
        done = subprocess.run([longshore, "simulate", "--machine", machine, "--json", str(results), *map(str, options)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise Refused(lines[0].removeprefix("longshore simulate: "))
        return json.loads(results.read_text(encoding="utf-8"))


def read_machine(longshore, machine):
    """What the file says, before the program runs for nothing. Raises Refused."""
    return simulate(longshore, machine, "--nodes", 2, "--ranks-per-node", 1, "--sizes", 1, "--iterations", 1)["machine"]


def nodes_for(ranks, nodes_here, cores, asked_for):
    """Over how many nodes the ranks lie there: as asked, or as few as can be, but not fewer than here, and at least two."""
    if ranks < 2:
        raise Refused("the program has one rank, and collectives of one rank move nothing")
    if asked_for:
        if ranks % asked_for:
            raise Refused(f"--machine-nodes {asked_for}: {ranks} ranks cannot be shared out among them equally")
        return asked_for
    least = max(2, nodes_here, -(-ranks // cores))
    return next(nodes for nodes in range(least, ranks + 1) if ranks % nodes == 0) if least <= ranks else ranks


class Demand:
    """One call on communicators of one name: what 'longshore simulate' has to know of it."""

    def __init__(self, call, communicator, without, ranks_all, ours):
        self.call, self.ranks, self.name = call, communicator["ranks"], communicator["name"]
        counts = ours or without
        self.calls_of_rank = counts["calls"] / ranks_all
        self.share_carried = counts["offloaded"] / counts["calls"]
        delivered = (counts["bytes"] + counts["bytes_host"]) / counts["calls"]
        match = COLLECTIVE.fullmatch(call)
        self.collective = match.group(1).lower() if match else None
        self.block = round(delivered if self.collective == "bcast" else delivered / self.ranks)
        self.between_us = 1e6 * counts["between_s"] / counts["offloaded"] if counts["offloaded"] else 0
        self.seconds_here = sum(without[key] for key in ("posting_s", "waiting_s", "mpi_s")) / ranks_all

    @property
    def title(self):
        return f"{self.call} on {self.name or 'a communicator'} ({self.ranks} ranks)"

    def shape(self, nodes, per_node):
        """--nodes, --ranks-per-node and --groups; None where it cannot be known which ranks are on one node."""
        if self.ranks == nodes * per_node:
            return nodes, per_node, "world"
        if self.ranks == nodes:
            return nodes, per_node, "columns"
        if self.ranks >= 2 * per_node and self.ranks % per_node == 0:
            return self.ranks // per_node, per_node, "world"
        return None


def demands(without, ours):
    """All calls on all communicators, the longest first; of statistics of a run without and one with Longshore."""
    found = []
    carried = {(c["name"], c["ranks"]): c["collectives"] for c in ours.get("communicators", [])}
    for communicator in without.get("communicators", []):
        for call, counts in communicator["collectives"].items():
            same = carried.get((communicator["name"], communicator["ranks"]), {}).get(call)
            if counts["calls"] and communicator["ranks"] > 1:
                found.append(Demand(call, communicator, counts, without["ranks"], same))
    return sorted(found, key=lambda demand: -demand.seconds_here)


class Row:
    """What one of them would take there, in microseconds of a call that a rank notices: the computing beside it taken off."""

    def __init__(self, demand, results):
        def noticed(row):
            return max(0.0, row["together_us"] - results["compute_us"]) if "together_us" in row else row["mean_us"]

        self.demand = demand
        host = [row for row in results["rows"] if "services" not in row]
        best = min(host, key=noticed)
        self.algorithm, self.without_us = best["who"], noticed(best)
        carried_us = noticed(next(row for row in results["rows"] if "services" in row))
        # What Longshore left to the MPI here it will leave to it there.
        self.with_us = demand.share_carried * carried_us + (1 - demand.share_carried) * self.without_us

    def seconds(self, microseconds):
        return 1e-6 * microseconds * self.demand.calls_of_rank


class Expectation:
    def __init__(self, options, machine, runs, say):
        if len(runs["with"][-1].jobs) > 1:
            raise Refused("the command starts several MPI jobs; give the one that matters by itself")
        without, ours = (runs[kind][-1].longest.stats for kind in ("without", "with"))
        self.machine = machine
        cores = int(machine["values"]["node.cores"]["value"])
        self.nodes = nodes_for(without["ranks"], max(run.longest.stats.get("nodes", 0) for run in runs["with"]), cores, options.machine_nodes)
        self.per_node = without["ranks"] // self.nodes
        self.rows, self.left_out = [], []
        for demand in demands(without, ours):
            reason = self.reason_not(demand)
            if not reason:
                say(f"simulates {demand.title}, {demand.block} B")
                try:
                    self.rows.append(Row(demand, self.run(options, demand)))
                except Refused as refused:
                    reason = str(refused)
            if reason:
                self.left_out.append((demand, reason))

    def reason_not(self, demand):
        if demand.collective is None:
            return "the model does not have it"
        if demand.block == 0:
            return "it moved nothing"
        if demand.shape(self.nodes, self.per_node) is None:
            return "it is not known which of its ranks would be on one node"
        if len(self.rows) == ROWS_MAX:
            return f"only the {ROWS_MAX} that took longest are simulated"
        return ""

    def run(self, options, demand):
        nodes, per_node, groups = demand.shape(self.nodes, self.per_node)
        more = ["--compute", f"{demand.between_us:.3f}"] if demand.between_us >= 0.001 else []
        return simulate(options.longshore, options.machine, "--collective", demand.collective, "--sizes", demand.block,
                        "--nodes", nodes, "--ranks-per-node", per_node, "--groups", groups, "--against", "host", *more)

    @property
    def head(self):
        return ["call there", "on", "ranks", "block, B", "calls", "computing, us", "us without", "by", "us with"]

    def table(self):
        return [[row.demand.call, row.demand.name or "-", str(row.demand.ranks), str(row.demand.block), f"{row.demand.calls_of_rank:.0f}",
                 f"{row.demand.between_us:.0f}" if row.demand.between_us else "-", f"{row.without_us:.1f}", row.algorithm,
                 f"{row.with_us:.1f}"] for row in self.rows]

    @property
    def title(self):
        return f"{self.machine['name']}, {self.nodes} nodes of {self.per_node} rank{'s' if self.per_node > 1 else ''}"

    def sentences(self):
        out = [self.judgement()] if self.rows else [f"EXPECTED on {self.title}: nothing can be said, as none of the program's calls "
                                                    "can be simulated."]
        if self.rows:
            out.append(self.error())
            out.append(self.assumptions())
        seconds = sum(demand.seconds_here for demand, _ in self.left_out)
        if self.left_out:
            named = "; ".join(f"{demand.title}: {reason}" for demand, reason in self.left_out[:ROWS_MAX])
            more = len(self.left_out) - ROWS_MAX
            out.append(f"Left out of it are calls that took {seconds:.3f} s of a rank here: {named}"
                       f"{f'; and {more} more' if more > 0 else ''}.")
        return out

    def judgement(self):
        without = sum(row.seconds(row.without_us) for row in self.rows)
        ours = sum(row.seconds(row.with_us) for row in self.rows)
        here = sum(row.demand.seconds_here for row in self.rows)
        text = (f"on {self.title}: these collectives would take a rank {without:.4f} s without Longshore and {ours:.4f} s "
                f"with it (here {here:.4f} s without)")
        if without == 0:
            return f"EXPECTED NO DIFFERENCE {text}."
        low, high = [ours / without * factor - 1 for factor in ((1 - ERROR) / (1 + ERROR), (1 + ERROR) / (1 - ERROR))]
        kind = "GAIN" if high < 0 else "LOSS" if low > 0 else "NO CLEAR DIFFERENCE"
        return (f"EXPECTED {kind} {text}, {100 * (ours / without - 1):+.0f} %; with each of both off by {100 * ERROR:.0f} %, "
                f"{100 * low:+.0f} to {100 * high:+.0f} %.")

    def error(self):
        values = self.machine["values"].values()
        guessed = sum(value["source"].startswith("estimate") for value in values)
        return (f"The model's error: of {ROWS} times that were measured on two and four small nodes, {NEARER} were within "
                f"{100 * ERROR:.0f} % of it, {NEAR} within {100 * SPREAD:.0f} %, the worst {100 * WORST:.0f} % off (some as a held link lets a little pass at once, "
                f"some as many read from one). Of the {len(values)} values of the machine file {guessed} are estimates.")

    def assumptions(self):
        unknown = [row.demand.title for row in self.rows if not row.demand.share_carried and row.demand.call[4] == "I"]
        return ("It takes for granted: service processes on DPUs; blocks of one size, the mean; ranks that enter together and "
                "compute all the time that lay between a nonblocking call and its wait here, other calls and a busy machine in it; the quickest algorithm of a host's MPI that does nothing "
                "while ranks compute; communicators of as many ranks as there are nodes have one on each, all at work at once. Computing "
                "itself, late ranks, and other MPI calls are not in it."
                + (f" Computing beside {', '.join(unknown)} is not known, as none was carried here." if unknown else ""))
