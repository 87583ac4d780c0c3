#!/usr/bin/env python3
"""Holds `longshore simulate` against machines that are namespaces of this one: the same collectives by `longshore bench` there, and by the model.

    beside_model.py                                        2 x 2 and 4 x 1 ranks at 100 Mb/s, beside mpcdf-bf3 with that link
    beside_model.py --shapes 2x2 --sizes 256K --samples 20 --json beside.json
    beside_model.py --machine mine.toml                    a file of `longshore device machine`
    beside_model.py --report beside.json                   measures nothing: the table of what --json wrote

Ranks sleep in place of computing, and service processes run beside them: no DPU. The links are slow, so that they and not two cores
decide. The model's link carries what a held one does, 96 % of its rate, and nothing else is fitted. Needs root, as cluster.py does.
Exit code: 0, whatever the figures say; 77 this cannot be here.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "examples")]
import cluster  # noqa: E402
from study_common import end_by_signals, provenance, refuse_what_cannot_be_written, run_job  # noqa: E402

# Of Open MPI's nonblocking collectives: what the model calls their algorithm. Of an allgatherv it has none that fits.
HOST = {"ialltoallv": "linear", "ibcast": "binomial"}
CALLS = ("ialltoallv", "iallgatherv", "ibcast")
WITHIN, WITHIN_POINTS = 15, 10
LAUNCH_LIMIT_S = 600


def measure(options, nodes, per_node):
    """{(call, bytes, who): a row of the benchmark}."""
    with cluster.Cluster(nodes, rate=options.rate, offloads=True) as machines, tempfile.TemporaryDirectory(prefix="longshore-beside-") as folder:
        path = Path(folder) / "rows.json"
        forced = [f"LONGSHORE_{call[1:].upper()}_ALGORITHM=direct" for call in CALLS]
        words = ["env", f"LD_PRELOAD={cluster.BUILD}/lib/liblongshore.so", "LONGSHORE_SERVICE_COUNT=1", *forced,
                 str(cluster.BUILD / "bin/longshore-bench-openmpi"), "--collectives", ",".join(CALLS), "--sizes", options.sizes, "--samples",
                 str(options.samples), "--iterations", "1", "--warmup", "2", "--time-limit", "60", "--progress", "none", "--json", str(path)]
        done = run_job(machines.mpirun(words, per_node), LAUNCH_LIMIT_S)
        if done.returncode != 0:
            raise RuntimeError(f"the benchmark failed, exit code {done.returncode}\n{done.stdout}{done.stderr}")
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {(row["collective"], row["bytes"], row["contender"]): row for row in rows if row["type"] == "row"}


def model(options, nodes, per_node, call):
    """{(bytes, who): a row of the model}."""
    with tempfile.NamedTemporaryFile(prefix="longshore-beside-") as file:
        against = ["--against", HOST[call]] if call in HOST else []
        bits = float(options.rate.removesuffix("mbit")) * 0.96
        words = [cluster.BUILD / "bin/longshore", "simulate", "--machine", options.machine, "--nodes", nodes, "--ranks-per-node", per_node,
                 "--services-on", "host", "--services", 1, "--collective", call, "--sizes", options.sizes, "--overlap", "--set",
                 f"link.rate={bits:g}Mb/s", *against, "--json", file.name]
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
        rows = json.loads(Path(file.name).read_text(encoding="utf-8"))["rows"]
        return {(row["bytes"], "longshore" if row["who"] == "longshore" else "host"): row for row in rows}


def compare(options):
    found = []
    for shape in options.shapes.split(","):
        nodes, per_node = map(int, shape.split("x"))
        print(f"{shape}: measuring", file=sys.stderr, flush=True)
        measured = measure(options, nodes, per_node)
        for call in CALLS:
            modelled = model(options, nodes, per_node, call)
            for (size, who), row in sorted(modelled.items(), key=lambda one: (one[0][0], one[0][1] != "longshore")):
                there = measured[call, size, who]
                found.append({"shape": shape, "call": call, "bytes": size, "who": who, "measured_us": there["pure_us"],
                              "measured_overlap": there["overlap_percent"], "model_us": row["most_us"],
                              "model_overlap": row["overlap_percent"]})
    return found


def report(rows):
    yield "| ranks | call | KiB | who | measured, ms: least | median | model | beside median | hidden, %: measured | model |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        median = statistics.median(row["measured_us"])
        yield (f"| {row['shape']} | {row['call']} | {row['bytes'] // 1024} | {row['who']} | {min(row['measured_us']) / 1e3:.1f} | {median / 1e3:.1f} | "
               f"{row['model_us'] / 1e3:.1f} | {off(row):+.0f} % | {row['measured_overlap']:.0f} | {row['model_overlap']:.0f} |")
    within = sum(abs(off(row)) <= WITHIN for row in rows)
    hidden = sum(abs(row["measured_overlap"] - row["model_overlap"]) <= WITHIN_POINTS for row in rows)
    yield f"\nOf {len(rows)} rows {within} are within {WITHIN} %, and what is hidden within {WITHIN_POINTS} points in {hidden}."


def off(row):
    """What the model takes more than the median, in percent of it."""
    return 100 * (row["model_us"] / statistics.median(row["measured_us"]) - 1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="2x2,4x1", metavar="LIST", help="nodes x ranks of each (default: 2x2,4x1)")
    parser.add_argument("--rate", default="100mbit", help="of each link, in Mb/s (default: 100mbit)")
    parser.add_argument("--sizes", default="128K,256K,1M", metavar="LIST", help="of a block (default: 128K,256K,1M)")
    parser.add_argument("--samples", type=int, default=9, metavar="N", help="of each row (default: 9)")
    parser.add_argument("--machine", default="mpcdf-bf3", help="of the model (default: mpcdf-bf3)")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    parser.add_argument("--report", metavar="FILE", help="measure nothing: print the table of such a file")
    options = parser.parse_args()
    if not options.rate.endswith("mbit"):
        parser.error("--rate: as 100mbit")
    refuse_what_cannot_be_written(parser, options.json, None)
    return options


def main():
    options = parse()
    if options.report:
        print("\n".join(report(json.loads(Path(options.report).read_text(encoding="utf-8"))["rows"])))
        return 0
    if missing := cluster.missing() or ("" if (cluster.BUILD / "bin/longshore-bench-openmpi").exists() else "no benchmark is built"):
        print(f"beside_model.py: SKIP: {missing}")
        return 77
    end_by_signals()
    rows = compare(options)
    if options.json:
        told = {"machine": provenance(), "load": os.getloadavg()[1], "rate": options.rate, "model": options.machine, "rows": rows}
        Path(options.json).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print("\n".join(report(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
