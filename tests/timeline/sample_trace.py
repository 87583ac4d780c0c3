#!/usr/bin/env python3
"""Writes a sample trace for the tests of timeline.py, and for looking at its pictures.

    sample_trace.py FILE [--ranks N] [--services N] [--rounds N] [--late]
"""

import argparse
import json
import random


def make_trace(ranks=4, services=1, rounds=3, late=False, seed=1):
    """Ranks post, compute, wait; services move while the ranks compute. Two nodes when there are two services."""
    chance = random.Random(seed)
    events = []
    node_of_rank = [rank * services // ranks for rank in range(ranks)]

    def add(pid, tid, name, cat, ts, dur):
        events.append({"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": cat, "ts": ts, "dur": dur, "args": {}})

    def name_lane(pid, tid, name):
        events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})

    for rank, node in enumerate(node_of_rank):
        name_lane(node, rank, f"rank {rank}")
    for service in range(services):
        name_lane(service, 1000 + service, f"SP {service}")
    now = 5e6
    for round_ in range(rounds):
        entered = [now + chance.uniform(0, 40) + (700 if late and rank == ranks - 1 else 0) for rank in range(ranks)]
        for rank, node in enumerate(node_of_rank):
            add(node, rank, "MPI_Ialltoallv", "post", entered[rank], 12)
        end = [0.0] * services
        for service in range(services):
            at = min(t for t, node in zip(entered, node_of_rank) if node == service) + 20
            for rank in [r for r in range(ranks) if node_of_rank[r] == service]:
                at = max(at, entered[rank] + 15)
                for peer in range(ranks):
                    length = chance.uniform(60, 90)
                    add(service, 1000 + service, f"{peer} to {rank}", "move", at, length)
                    at += length + 3
            end[service] = at
        done = max(end)
        for rank, node in enumerate(node_of_rank):
            wait = entered[rank] + chance.uniform(800, 1000)
            add(node, rank, "MPI_Wait", "wait", wait, max(4.0, done - wait))
            if rank == 0 and done - wait > 200:  # a waiting rank that helps
                add(node, rank, "1 to 0", "move", wait + 50, 100)
            add(node, rank, "MPI_Allreduce", "mpi", max(wait + 4, done) + 1, 30)
        now = max(done, max(entered) + 1000) + 60
    return {"traceEvents": events}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--services", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--late", action="store_true")
    options = parser.parse_args()
    with open(options.file, "w", encoding="utf-8") as file:
        json.dump(make_trace(options.ranks, options.services, options.rounds, options.late), file)
