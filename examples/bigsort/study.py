#!/usr/bin/env python3
"""Phase 2 of bigsort on several file systems, without offload, with it and with auto in turns, as figures 5 and 6 of
Williams et al., "Exploring Challenges Associated with Employing SmartNICs as General-Purpose HPC Accelerators" show it.

    study.py --systems tmpfs,disk,nfs,lustre --repeats 5 --json study.json
    study.py --places other-node,dpu --systems nfs,lustre-revalidate --json study.json
    study.py --draw study.json -o bigsort.png              needs matplotlib ('make venv')

One rank and one process beside it: a peer, which with none and tasks is there, too, and sleeps, or a task process. `behind`: none under
`longshore run --write-behind`, where the process beside it is the writer. Places of that process:

    same-host    the rank's machine, which has a core for each
    own-client   the same, but a peer has a mount of its own, as it has in a container (task processes have the rank's)
    one-core     the same, and both share one core
    other-node   another machine in namespaces, with one core as the rank's has; the link is held to --rate
    dpu          a DPU's namespaces, with one core as the rank's machine has, and a link that is not held

nfs and lustre are mounts of tests/slow_disk over tmpfs: one for each machine, as a machine is one client; -revalidate behind the
name: a file that the other client has touched last costs as much again. The contenders take turns; the first round is not counted.
Rows that the --json file has already are not measured again.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), *(str(HERE.parents[1] / "tests" / room) for room in ("slow_disk", "cluster"))]
import cluster  # noqa: E402
import slow_disk  # noqa: E402
from study_common import end_by_signals, provenance, refuse_what_cannot_be_written, run_job  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
LAUNCH_LIMIT_S = 600
CHARACTERS = {"nfs": ["--nfs"], "lustre": ["--lustre"]}
REVALIDATE_US = {"nfs": 400, "lustre": 2000}
CONTENDERS = ("none", "mpmd", "tasks", "auto", "behind")
PLACES = ("same-host", "own-client", "one-core", "other-node", "dpu")
ONE_CLIENT = ("same-host", "one-core")  # nothing to revalidate there
MACHINES = ("other-node", "dpu")
COLOURS = {"none": ("#999999", ""), "mpmd": ("#0072b2", ".."), "tasks": ("#009e73", ""), "auto": ("#56b4e9", "//"), "behind": ("#e69f00", "")}
LIGHTER = {"same-host": 1, "own-client": 1, "one-core": 0.75, "other-node": 0.55, "dpu": 0.3}  # opacity of a bar, by its place


class System:
    """Folders where a rank and the process beside it find the temporary files."""

    def __init__(self, name, scratch, place):
        clients = 1 if place in ONE_CLIENT else 2
        self.mounts = []
        base = {"disk": scratch}.get(name, "/dev/shm")
        self.backing = tempfile.TemporaryDirectory(prefix="bigsort-study-", dir=base)
        self.folders = [self.backing.name] * 2
        character, _, revalidate = name.partition("-")
        if character in CHARACTERS:
            options = [*CHARACTERS[character], *(["--revalidate", REVALIDATE_US[character]] if revalidate else [])]
            self.mounts = [slow_disk.Mount(self.backing.name, *options) for _ in range(clients)]
            self.folders = [str(self.mounts[0].path), str(self.mounts[-1].path)]

    def close(self):
        for mount in self.mounts:
            mount.close()
        self.backing.cleanup()


class OwnMachine:
    """This one. `launch` gives the words that start one rank of a program and one of another."""

    def __init__(self, mpi, one_core):
        self.mpi, self.one_core = mpi, one_core

    def launch(self, rank, peer, run):
        words = []
        if self.one_core:
            # Longshore looks for spare cores beyond what it is bound to, unless told otherwise.
            words = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "env", "LONGSHORE_TASK_CORES=ranks",
                     "LONGSHORE_SERVICE_CORES=none"]
        elif run is not None:
            # The program that is the mount needs a core, too, and finds none where a task process is bound to one of two.
            words = ["env", "LONGSHORE_TASK_CORES=none"]
        if run is not None:
            words += [BUILD / "bin/longshore", "run", "-q", *run, "--"]
        words.append(f"mpirun.{self.mpi}")
        if self.mpi == "openmpi":
            words += ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        return [*words, "-np", "1", *rank, ":", "-np", "1", *peer]

    def close(self):
        pass


class TwoMachines:
    """In namespaces: a node and another, or a node and its DPU. Made after the mounts, which it would not see else."""

    def __init__(self, mpi, place, rate):
        self.mpi, self.on_dpus = mpi, place == "dpu"
        if self.on_dpus:
            # No job_users: a task process is to be let into the rank's folder, so it is of the same user.
            config = f"allow = {cluster.PREFIX}.0/24\ntask_folders = {BUILD / 'bin'}\n"
            self.cluster = cluster.Cluster(1, offloads=True, dpus=True, dpu_config=config, spare_cores=1)
        else:
            self.cluster = cluster.Cluster(2, rate=rate, offloads=True, own_cores=True)

    def launch(self, rank, peer, run):
        under = []
        if run is not None:
            settings = {**self.cluster.settings, "LD_PRELOAD": f"{BUILD}/lib/liblongshore.so",
                        "LONGSHORE_TASK_NODE": "dpu" if self.on_dpus else "next"}
            under = ["env", *(f"{name}={value}" for name, value in settings.items())]
        # With tasks on a DPU the peer, which sleeps then, is on the node: a job of one rank has no tasks.
        peers_machine = 0 if self.on_dpus and run is not None else 1
        return self.cluster.mpirun_of([(0, [*under, *rank]), (peers_machine, [*under, *peer])], self.mpi)

    def close(self):
        self.cluster.close()


def run(options, system, place, row, offload):
    with tempfile.NamedTemporaryFile() as result:
        placement = row["place"] if row["place"] in MACHINES and (row["place"], offload) != ("dpu", "tasks") else "same-host"
        seen = system.folders[0 if row["place"] == "own-client" and offload == "tasks" else 1]
        rank = [BUILD / f"bin/bigsort_{options.mpi}", "--total", row["total"], "--page", "8K", "--dram", row["dram"],
                "--offload", "none" if offload == "behind" else offload,
                "--placement", placement, "--temporary", system.folders[0], "--peer-temporary", seen, "--json", result.name]
        # What `longshore run` is given; None: it is not needed.
        under = {"tasks": [], "behind": ["--write-behind", f"{system.folders[0]}/**"]}.get(offload)
        words = place.launch(rank, [BUILD / f"bin/bigsort_peer_{options.mpi}"], under)
        # Now and then Open MPI's mpirun misses a rank's MPI_Finalize, and takes its end for a failure.
        for tries_left in (2, 1, 0):
            done = run_job(words, LAUNCH_LIMIT_S)
            if done.returncode == 0:
                return json.load(result)
            if not tries_left or "exiting improperly" not in done.stdout + done.stderr:
                sys.exit(f"study: {done.stdout}{done.stderr}")
            result.truncate(0)


def measure_row(options, row):
    contenders = [one for one in options.contenders.split(",") if not (one == "behind" and row["place"] in MACHINES)]
    with contextlib.ExitStack() as stack:
        system = System(row["system"], options.scratch, row["place"])
        stack.callback(system.close)
        place = TwoMachines(options.mpi, row["place"], options.rate) if row["place"] in MACHINES else \
            OwnMachine(options.mpi, row["place"] == "one-core")
        stack.callback(place.close)
        samples = {contender: [] for contender in contenders}
        chosen, cycles = 0, 0
        for repeat in range(options.repeats + 1):
            for offload in contenders:
                result = run(options, system, place, row, offload)
                cycles = result["cycles"]
                if repeat > 0:
                    samples[offload].append(result["seconds"]["phase2"])
                    chosen += offload == "auto" and result["offloaded_ranks"]
    return {**row, "cycles": cycles, "auto_offloaded": chosen, "phase2_s": samples}


def ratio(row, contender):
    return statistics.median(row["phase2_s"][contender]) / statistics.median(row["phase2_s"]["none"])


HEADS = ("place", "file system", "size", "DRAM", "cycles", "none: phase 2, s (least-most)", "mpmd / none", "tasks / none", "auto / none",
         "write-behind / none", "auto has offloaded")


def show(row):
    none = row["phase2_s"]["none"]
    ratios = [f"{ratio(row, contender):.2f}" if contender in row["phase2_s"] else "-" for contender in CONTENDERS[1:]]
    chosen = f"{row['auto_offloaded']} of {len(row['phase2_s']['auto'])}" if "auto" in row["phase2_s"] else "-"
    print("|", " | ".join([row["place"], row["system"], row["total"], row["dram"], str(row["cycles"]),
                           f"{statistics.median(none):.2f} ({min(none):.2f}-{max(none):.2f})", *ratios, chosen]), "|", flush=True)


def show_head():
    print("|", " | ".join(HEADS), "|")
    print("|" + "---|" * len(HEADS))


def measure(options):
    about = {"machine": provenance(), "mpi": options.mpi, "page": "8K", "threads": 1, "rate_of_other_node": options.rate}
    rows = json.loads(Path(options.json).read_text(encoding="utf-8"))["rows"] if options.json and Path(options.json).exists() else []
    known = ("place", "system", "total", "dram")
    show_head()
    for place in options.places.split(","):
        for name in options.systems.split(","):
            for dram in options.drams.split(","):
                row = dict(zip(known, (place, name, options.total, dram)))
                if any(all(old[key] == row[key] for key in known) for old in rows):
                    continue
                rows.append(measure_row(options, row))
                show(rows[-1])
                if options.json:
                    Path(options.json).write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def bars_of(rows):
    """What stands beside each other for each DRAM: (place, contender). No offload is the line at 1."""
    return [(place, contender) for place in PLACES for contender in CONTENDERS[1:]
            if any(row["place"] == place and contender in row["phase2_s"] for row in rows)]


def draw_panel(axis, rows, bars):
    drams = sorted({row["dram"] for row in rows}, key=lambda dram: (dram[-1] == "M", int(dram[:-1])))
    for i, (place, contender) in enumerate(bars):
        mine = [row for row in rows if row["place"] == place and contender in row["phase2_s"]]
        if not mine:
            continue
        base = [statistics.median(row["phase2_s"]["none"]) for row in mine]
        values = [ratio(row, contender) for row in mine]
        spread = [[value - min(row["phase2_s"][contender]) / one for value, row, one in zip(values, mine, base)],
                  [max(row["phase2_s"][contender]) / one - value for value, row, one in zip(values, mine, base)]]
        step = 0.84 / len(bars)
        axis.bar([drams.index(row["dram"]) + step * (i - (len(bars) - 1) / 2) for row in mine], values, step * 0.94,
                 color=COLOURS[contender][0], hatch=COLOURS[contender][1], alpha=LIGHTER[place], edgecolor="white",
                 label=f"{contender}, {place}", yerr=spread, capsize=2)
    axis.axhline(1, color="black", linewidth=0.7)
    axis.set_xticks(range(len(drams)), drams)
    axis.set_xlabel("DRAM")


def is_of(row, system):
    return row["system"] == system or row["place"] in ONE_CLIENT and f"{row['system']}-revalidate" == system


def draw(options):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    rows = [row for path in options.draw for row in json.loads(Path(path).read_text(encoding="utf-8"))["rows"]]
    rows = [row for row in rows if row["place"] in options.places.split(",") and row["total"] == options.total]
    for row in rows:
        row["phase2_s"] = {name: row["phase2_s"][name] for name in ("none", *options.contenders.split(",")) if name in row["phase2_s"]}
    names = [name for name in options.systems.split(",") if any(is_of(row, name) for row in rows)]
    columns = 2 if len(names) > 1 else 1
    lines = -(-len(names) // columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(11, 2.8 * lines), squeeze=False, layout="constrained")
    for axis in axes.flat[len(names):]:
        axis.set_visible(False)
    bars = bars_of(rows)
    for axis, name in zip(axes.flat, names):
        draw_panel(axis, [row for row in rows if is_of(row, name)], bars)
        axis.set_title(f"{name}, {options.total} a rank")
    for axis in axes[:, 0]:
        axis.set_ylabel("phase 2 / no offload")
    labels = {label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels())}
    figure.legend(labels.values(), labels.keys(), loc="outside right upper")
    figure.savefig(options.output, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", default="same-host", help=f"of {','.join(PLACES)} (default: same-host)")
    parser.add_argument("--systems", default="tmpfs,disk,nfs,nfs-revalidate,lustre,lustre-revalidate")
    parser.add_argument("--contenders", default="none,mpmd,tasks,auto")
    parser.add_argument("--drams", default="128K,256K,512K,1M")
    parser.add_argument("--total", default="16M", help="bytes to sort (default: 16M)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--rate", default="1gbit", help="of the links of other-node, as tc says it (default: 1gbit)")
    parser.add_argument("--scratch", default="/var/tmp", help="a folder on the disk")
    parser.add_argument("--json", help="write all samples to this file")
    parser.add_argument("--draw", nargs="+", metavar="JSON",
                        help="draw the rows of these files that are of --places, --systems and --total")
    parser.add_argument("--report", nargs="+", metavar="JSON", help="print the rows of these files")
    parser.add_argument("-o", "--output", default="bigsort.png")
    options = parser.parse_args()
    if options.report:
        show_head()
        for path in options.report:
            for row in json.loads(Path(path).read_text(encoding="utf-8"))["rows"]:
                show(row)
        return None
    refuse_what_cannot_be_written(parser, options.json, options.output if options.draw else None)
    end_by_signals()
    return draw(options) if options.draw else measure(options)


if __name__ == "__main__":
    sys.exit(main())
