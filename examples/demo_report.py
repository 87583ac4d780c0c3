#!/usr/bin/env python3
"""Prints the demo's tables from the JSON files of its runs.

demo_report.py calls STATS            MPI calls: offloaded, left to MPI and why
demo_report.py fft HOST LONGSHORE STATS   transform times of both runs, side by side; fails if results differ
demo_report.py window TRACE VARIABLES     where in the FFT's trace the timed forward transform is: "FROM TO" in ms
"""
import json
import statistics
import sys


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def calls(stats):
    rows = load(stats)["collectives"]
    print(f"{'MPI call':<18}{'calls':>9}{'offloaded':>11}{'to MPI':>9}{'MB by SPs':>12}{'MB by ranks':>13}  why to MPI")
    offloaded = total = 0
    for name, row in sorted(rows.items()):
        if not row["calls"]:
            continue
        total += row["calls"]
        offloaded += row["offloaded"]
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(row.get("reasons", {}).items()))
        print(f"{name:<18}{row['calls']:>9}{row['offloaded']:>11}{row['host']:>9}"
              f"{row.get('bytes_by_service', 0) / 1e6:>12.3f}{row.get('bytes_by_rank', 0) / 1e6:>13.3f}  {why}")
    print(f"{offloaded} of {total} calls offloaded")
    return 0 if offloaded else 1


def fft(host_file, longshore_file, stats):
    host, longshore = load(host_file), load(longshore_file)
    if host["checksum"] != longshore["checksum"]:
        print(f"the results differ: checksum {host['checksum']} without, {longshore['checksum']} with Longshore")
        return 1
    print(f"results equal: checksum {host['checksum']}")
    print(f"{'ms, slowest rank, median':<28}{'host MPI':>12}{'Longshore':>12}{'ratio':>9}")
    for key, name in (("transform", "transform"), ("compute", "  computing"), ("post", "  posting (MPI_Ialltoallv)"),
                      ("wait", "  in MPI_Wait")):
        a, b = (statistics.median(run["seconds"][key]["largest_of_ranks"]) * 1e3 for run in (host, longshore))
        print(f"{name:<28}{a:>12.3f}{b:>12.3f}{b / a if a else float('nan'):>9.2f}")
    print(f"{'overlap %':<28}{host['overlap_percent']:>12.0f}{longshore['overlap_percent']:>12.0f}")
    return calls(stats)


def window(trace, variables):
    """The FFT's runs, two exchanges a variable each: four to check, two to warm up whole and two without computing
    (examples/fft/main.cc); then comes the timed one."""
    events = [event for event in load(trace)["traceEvents"] if event["ph"] == "X"]
    begin = min(event["ts"] for event in events)
    ranks = {}
    for event in events:
        if event["cat"] in ("post", "wait") and event["name"].startswith("MPI_"):
            ranks.setdefault((event["pid"], event["tid"]), []).append(event)
    first, last = [], []
    per_run = 2 * int(variables)
    for lane in ranks.values():
        lane.sort(key=lambda event: event["ts"])
        posts = [i for i, event in enumerate(lane) if event["cat"] == "post"]
        first.append(lane[posts[8 * per_run]]["ts"])
        before_next = lane[posts[9 * per_run] - 1]  # the last wait of the transform
        last.append(before_next["ts"] + before_next["dur"])
    margin = 0.05 * (max(last) - min(first))
    print(f"{(min(first) - margin - begin) / 1e3:.3f} {(max(last) + margin - begin) / 1e3:.3f}")
    return 0


def main():
    commands = {"calls": (calls, 1), "fft": (fft, 3), "window": (window, 2)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands or len(sys.argv) != 2 + commands[sys.argv[1]][1]:
        print(__doc__, file=sys.stderr)
        return 2
    return commands[sys.argv[1]][0](*sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
