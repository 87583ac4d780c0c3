#!/usr/bin/env python3
"""Phase 2 of bigsort on several file systems, without offload, with it and with auto in turns, as figures 5 and 6 of
Williams et al., "Exploring Challenges Associated with Employing SmartNICs as General-Purpose HPC Accelerators" show it.

    study.py --systems tmpfs,disk,nfs,lustre --repeats 5 --json study.json
    study.py --draw study.json -o bigsort.png              needs matplotlib ('make venv')

One rank and one peer, which with none and tasks is there, too, and sleeps; tasks run under `longshore run`, and write by the
rank's own mount. nfs and lustre are mounts of tests/slow_disk
over tmpfs, one for the rank and one for the peer; -revalidate behind the name: a file that the other one has touched
last costs as much again. The contenders take turns; the first round is not counted.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/slow_disk"))
import slow_disk  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
CHARACTERS = {"nfs": ["--nfs"], "lustre": ["--lustre"]}
REVALIDATE_US = {"nfs": 400, "lustre": 2000}
CONTENDERS = ("none", "mpmd", "tasks", "auto")
COLOURS = {"none": ("#999999", ""), "mpmd": ("#0072b2", ".."), "tasks": ("#009e73", ""), "auto": ("#56b4e9", "//")}


class System:
    """Folders where a rank and its peer find the temporary files."""

    def __init__(self, name, scratch):
        self.mounts = []
        base = {"disk": scratch}.get(name, "/dev/shm")
        self.backing = tempfile.TemporaryDirectory(prefix="bigsort-study-", dir=base)
        self.folders = [self.backing.name] * 2
        character, _, revalidate = name.partition("-")
        if character in CHARACTERS:
            options = [*CHARACTERS[character], *(["--revalidate", REVALIDATE_US[character]] if revalidate else [])]
            self.mounts = [slow_disk.Mount(self.backing.name, *options) for _ in range(2)]
            self.folders = [str(mount.path) for mount in self.mounts]

    def close(self):
        for mount in self.mounts:
            mount.close()
        self.backing.cleanup()


def run(options, system, dram, offload):
    under = [BUILD / "bin/longshore", "run", "-q", "--"] if offload == "tasks" else []
    peer = [":", "-np", "1", BUILD / f"bin/bigsort_peer_{options.mpi}"]
    launch = [*under, f"mpirun.{options.mpi}"]
    if options.mpi == "openmpi":
        launch += ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    with tempfile.NamedTemporaryFile() as result:
        done = subprocess.run(
            [*launch, "-np", "1", BUILD / f"bin/bigsort_{options.mpi}", "--total", options.total, "--page", "8K", "--dram", dram,
             "--offload", offload, "--temporary", system.folders[0], "--peer-temporary", system.folders[1], "--json", result.name,
             *peer], capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"study: {done.stdout}{done.stderr}")
        return json.load(result)


def measure_row(options, name, dram):
    system = System(name, options.scratch)
    try:
        samples = {contender: [] for contender in CONTENDERS}
        chosen, cycles = 0, 0
        for repeat in range(options.repeats + 1):
            for offload in CONTENDERS:
                result = run(options, system, dram, offload)
                cycles = result["cycles"]
                if repeat > 0:
                    samples[offload].append(result["seconds"]["phase2"])
                    chosen += offload == "auto" and result["offloaded_ranks"]
        return {"system": name, "dram": dram, "cycles": cycles, "auto_offloaded": chosen, "phase2_s": samples}
    finally:
        system.close()


def ratio(row, contender):
    return statistics.median(row["phase2_s"][contender]) / statistics.median(row["phase2_s"]["none"])


def show(row):
    none = row["phase2_s"]["none"]
    print(f"| {row['system']} | {row['dram']} | {row['cycles']} | {statistics.median(none):.2f} ({min(none):.2f}-{max(none):.2f}) | "
          f"{ratio(row, 'mpmd'):.2f} | {ratio(row, 'tasks'):.2f} | {ratio(row, 'auto'):.2f} | {row['auto_offloaded']} of {len(none)} |", flush=True)


def measure(options):
    print("| file system | DRAM | cycles | none: phase 2, s (least-most) | mpmd / none | tasks / none | auto / none | auto has offloaded |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    about = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "mpi": options.mpi,
             "commit": commit.stdout.strip(), "total": options.total, "page": "8K", "threads": 1, "repeats": options.repeats}
    for name in options.systems.split(","):
        for dram in options.drams.split(","):
            rows.append(measure_row(options, name, dram))
            show(rows[-1])
            if options.json:
                Path(options.json).write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def draw(options):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    rows = [row for path in options.draw for row in json.loads(Path(path).read_text(encoding="utf-8"))["rows"]]
    names = list(dict.fromkeys(row["system"] for row in rows))
    columns = 2 if len(names) > 1 else 1
    figure, axes = pyplot.subplots(-(-len(names) // columns), columns, figsize=(9, 2.6 * -(-len(names) // columns)), squeeze=False,
                                   sharey=True, layout="constrained")
    for axis in axes.flat[len(names):]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names):
        mine = [row for row in rows if row["system"] == name]
        for i, contender in enumerate(CONTENDERS):
            if contender not in mine[0]["phase2_s"]:
                continue
            base = [statistics.median(row["phase2_s"]["none"]) for row in mine]
            values = [ratio(row, contender) for row in mine]
            spread = [[value - min(row["phase2_s"][contender]) / one for value, row, one in zip(values, mine, base)],
                      [max(row["phase2_s"][contender]) / one - value for value, row, one in zip(values, mine, base)]]
            axis.bar([x + 0.2 * (i - 1.5) for x in range(len(mine))], values, 0.19, color=COLOURS[contender][0],
                     hatch=COLOURS[contender][1], edgecolor="white", label=contender, yerr=spread, capsize=2)
        axis.axhline(1, color="black", linewidth=0.7)
        axis.set_title(name)
        axis.set_xticks(range(len(mine)), [row["dram"] for row in mine])
        axis.set_xlabel("DRAM")
    for axis in axes[:, 0]:
        axis.set_ylabel("phase 2 / median of none")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, title="--offload", loc="outside right upper")
    figure.savefig(options.output, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="tmpfs,disk,nfs,nfs-revalidate,lustre,lustre-revalidate")
    parser.add_argument("--drams", default="128K,256K,512K,1M")
    parser.add_argument("--total", default="16M", help="bytes to sort (default: 16M)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--scratch", default="/var/tmp", help="a folder on the disk")
    parser.add_argument("--json", help="write all samples to this file")
    parser.add_argument("--draw", nargs="+", metavar="JSON", help="draw what was measured instead")
    parser.add_argument("-o", "--output", default="bigsort.png")
    options = parser.parse_args()
    return draw(options) if options.draw else measure(options)


if __name__ == "__main__":
    sys.exit(main())
