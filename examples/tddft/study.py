#!/usr/bin/env python3
"""Late ranks in allgathers, as Octopus has them: table III of Graham et al., "Optimizing Application Performance With BlueField",
on machines that are namespaces of this one (tests/cluster).

The MPI alone, the MPI with its best forced allgather and alltoall algorithms, and Longshore take turns with the same steps of
tddft: ranks sleep where they would compute, and some are late. First each algorithm of the MPI is timed with nobody late: the
best is a contender, and its allgather the measure of the lateness.

    study.py                                        2 nodes x 2 ranks, links of 1 Gb/s, Open MPI
    study.py --mpi mpich --ranks-per-node 4 --pairs 7 --json study.json --picture study.png
    study.py --nodes 1 --ranks-per-node 4           one node, nothing held
    study.py --steps 100 --allgathers 308 --pairs 1
    study.py --compute --ranks-per-node 1           the physics is computed, where ranks have cores enough
    study.py --dpus --ranks-per-node 4 --block 1M   through DPUs: what comes to a host, and that no bit differs; no times
    study.py --report one.json another.json --picture study.png

Needs root, as tests/cluster/cluster.py does, but for --report.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(SOURCES / "examples"), str(SOURCES / "tests/cluster")]
import study_figures as figures  # noqa: E402
from study_common import end_by_signals, provenance, refuse_what_cannot_be_written, run_job  # noqa: E402

# Of each MPI: pairs of an allgather's and an alltoall's algorithm that are tried together.
OMPI = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
ALGORITHMS = {
    "openmpi": ("OMPI_MCA_coll_tuned_allgather_algorithm", "OMPI_MCA_coll_tuned_alltoall_algorithm", OMPI,
                {"linear": 1, "bruck": 2, "recursive doubling": 3, "ring": 4, "neighbour": 5},
                {"linear": 1, "pairwise": 2, "bruck": 3, "linear, synchronised": 4}),
    "mpich": ("MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM", "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM", {},
              {"brucks": "brucks", "recursive doubling": "recursive_doubling", "ring": "ring"},
              {"brucks": "brucks", "pairwise": "pairwise", "scattered": "scattered"}),
}
LAUNCH_LIMIT_S = 600
HOST, ONCE, EACH = "host", "DPUs, once a host", "DPUs, once a rank"


def tries_of(mpi):
    """[(name, settings)] of the MPI alone: each of its algorithms once."""
    allgather, alltoall, always, of_allgather, of_alltoall = ALGORITHMS[mpi]
    rounds = max(len(of_allgather), len(of_alltoall))
    first, second = (list(of.items()) for of in (of_allgather, of_alltoall))
    tries = []
    for i in range(rounds):
        (one, one_value), (two, two_value) = first[i % len(first)], second[i % len(second)]
        tries.append((one, two, always | {allgather: str(one_value), alltoall: str(two_value)}))
    return tries


def is_carried(call, way):
    """Whether a collective's calls went that way, all but those on communicators of one rank, where there is nothing to carry."""
    ways = dict(call.get("algorithms", {}))
    ways["mpi"] = ways.get("mpi", 0) - call.get("reasons", {}).get("one rank", 0)
    return way == "mpi" or (bool(call) and not any(count for name, count in ways.items() if name != way))


class Study:
    def __init__(self, options):
        import cluster

        self.options = options
        if problem := cluster.missing():
            raise RuntimeError(problem)
        self.program = Path(options.build).resolve() / f"bin/tddft_{options.mpi}"
        if not self.program.exists():
            raise RuntimeError(f"{self.program} is missing: 'make build' makes it")
        # Last: nothing may fail between this and run(), which takes the machines down.
        self.nodes = cluster.Cluster(options.nodes, options.rate if options.nodes > 1 else None, offloads=True, dpus=options.dpus)

    def arguments(self, steps, allgathers, late_ms, computes=False):
        o = self.options
        paced = [] if computes or o.compute else ["--sleep", "--compute-ms", o.compute_ms]
        return [*paced, "--steps", steps, "--allgathers", allgathers, "--repeats", 1,
                "--size", o.size, "--states", o.states, "--allgather-block", o.block, "--late-base-ms", f"{late_ms:.3f}",
                "--late-chance", o.late_chance, "--ranks-per-node", o.ranks_per_node]

    def launch(self, name, settings, arguments):
        """A contender's results: what tddft wrote, with `late` of Longshore's own counts."""
        with tempfile.TemporaryDirectory(prefix="longshore-tddft-") as folder:
            result, stats = Path(folder) / "result.json", Path(folder) / "stats.json"
            settings = dict(settings)
            if "LD_PRELOAD" in settings:
                settings["LONGSHORE_STATS"] = str(stats)
            words = ["env", *(f"{key}={value}" for key, value in settings.items()), str(self.program), *map(str, arguments),
                     "--json", str(result)]

            def is_over():
                return all(path.exists() and path.stat().st_size for path in ((result, stats) if "LONGSHORE_STATS" in settings else (result,)))

            done = run_job(self.nodes.mpirun(words, self.options.ranks_per_node, mpi=self.options.mpi), LAUNCH_LIMIT_S, is_over=is_over)
            if done.returncode != 0 or not result.exists():
                raise RuntimeError(f"{name} failed, exit code {done.returncode}\n{done.stdout}{done.stderr}")
            found = json.loads(result.read_text(encoding="utf-8"))
            if "LONGSHORE_STATS" in settings:
                job = json.loads(stats.read_text(encoding="utf-8"))
                calls = {call: job["collectives"].get(call, {}) for call in ("MPI_Allgather", "MPI_Alltoall")}
                found["calls"] = {call: counts.get("algorithms", {}) for call, counts in calls.items()}
                if not all(is_carried(counts, settings[f"LONGSHORE_{call[4:].upper()}_ALGORITHM"]) for call, counts in calls.items()):
                    raise RuntimeError(f"Longshore has not carried all calls: {found['calls']}")
                found["messages"] = job.get("late", {}).get("MPI_Allgather", {})
                found["to_host"] = [service["bytes_to_host"] for service in job["services"]]
                found["by_ranks"] = job["read_by_rank"]
                found["blocks"] = {who: job["memory"][f"blocks_copied_by_{who}"] for who in ("ranks", "agents")}
            return found

    def longshore(self):
        rate = self.options.rate.replace("gbit", "000M").replace("mbit", "M")
        given = {"LD_PRELOAD": f"{Path(self.options.build).resolve()}/lib/liblongshore.so", "LONGSHORE_SERVICE_COUNT": "2",
                 "LONGSHORE_LINK_RATE": rate, "LONGSHORE_ALLGATHER_ALGORITHM": "direct", "LONGSHORE_ALLTOALL_ALGORITHM": "direct"}
        return given | dict(setting.split("=", 1) for setting in self.options.set)

    def through_dpus(self):
        """The same steps by the MPI, and through DPUs with the blocks brought once to a host or once to a rank. The alltoalls are
        the MPI's, so that all that comes to a host is of allgathers. Then the physics in the same ways: what ranks receive decides
        what they give next, so that a wrong bit would be in the results."""
        o = self.options
        through = self.longshore() | self.nodes.settings | {"LONGSHORE_SERVICE_COUNT": "1", "LONGSHORE_ALLTOALL_ALGORITHM": "mpi"}
        arguments = self.arguments(o.steps, o.allgathers or o.steps, o.compute_ms)
        physics = self.arguments(o.steps, o.allgathers or o.steps, o.compute_ms, computes=True)
        launches = {}
        for name, settings in ((HOST, {}), (ONCE, through), (EACH, through | {"LONGSHORE_WAIT_COOPERATIVE": "off"})):
            self.say(f"{o.nodes} x {o.ranks_per_node} ranks: {name}")
            launches[name] = self.launch(name, settings, arguments)
            launches[name]["physics"] = self.launch(name, settings, physics)["runs"][0]["checksum"]
        return {"mpi": o.mpi, "nodes": o.nodes, "ranks_per_node": o.ranks_per_node, "dpus": launches}

    def calibrate(self):
        """The MPI's algorithms with nobody late: [(names, seconds of an allgather, seconds in alltoalls)], the default first."""
        tried = []
        for one, two, settings in [("default", "default", {}), *tries_of(self.options.mpi)]:
            self.say(f"the MPI alone, {one}, {two}")
            run = self.launch("host", settings, self.arguments(self.options.tries, self.options.tries, 0))["runs"][0]
            tried.append({"allgather": one, "alltoall": two, "settings": settings,
                          "allgather_s": figures.mean(run["allgather_avoidable"]), "alltoall_s": run["mpi"]["alltoall"]})
        return tried

    def contenders(self, tried):
        allgather = min(tried, key=lambda one: one["allgather_s"])
        alltoall = min(tried, key=lambda one: one["alltoall_s"])
        name, of_alltoall = ALGORITHMS[self.options.mpi][0], ALGORITHMS[self.options.mpi][1]
        best = {key: value for key, value in allgather["settings"].items() if key != of_alltoall}
        best |= {key: value for key, value in alltoall["settings"].items() if key != name}
        return allgather["allgather_s"], [("host", {}), ("host, best", best), ("longshore", self.longshore())]

    def say(self, what):
        if not self.options.quiet:
            print(f"\r\x1b[K{what}" if sys.stderr.isatty() else what, end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    def turns(self, contenders, pairs, late_s, steps, allgathers):
        turns = []
        for turn in range(pairs):
            at, launches = turn % len(contenders), {}
            for name, settings in contenders[at:] + contenders[:at]:  # who begins changes
                self.say(f"turn {turn + 1} of {pairs}, {'somebody' if late_s else 'nobody'} late: {name}")
                launches[name] = self.launch(name, settings, self.arguments(steps, allgathers, 1e3 * late_s))
            turns.append(launches)
        return turns

    def run(self):
        o = self.options
        with self.nodes:
            if o.dpus:
                return self.through_dpus()
            tried = self.calibrate()
            base, contenders = self.contenders(tried)
            result = {"mpi": o.mpi, "computes": o.compute, "nodes": o.nodes, "ranks_per_node": o.ranks_per_node, "rate": o.rate if o.nodes > 1 else None,
                      "tried": tried, "base_s": base, "best": contenders[1][1],
                      "on_time": self.turns(contenders, o.pairs_on_time, 0, o.tries, o.tries),
                      "late": self.turns(contenders, o.pairs, base, o.steps, o.allgathers or o.steps)}
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        return result


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(SOURCES / "build"), metavar="FOLDER", help="where tddft was built")
    parser.add_argument("--mpi", choices=tuple(ALGORITHMS), default="openmpi")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ranks-per-node", type=int, default=2, metavar="N")
    parser.add_argument("--rate", default="1gbit", help="of each link, as tc has it (default: 1gbit)")
    parser.add_argument("--steps", type=int, default=40, help="of a run (default: 40)")
    parser.add_argument("--allgathers", type=int, default=0, metavar="N", help="of a run (default: one a step)")
    parser.add_argument("--pairs", type=int, default=3, help="turns with late ranks (default: 3)")
    parser.add_argument("--pairs-on-time", type=int, default=1, metavar="N", help="turns with nobody late (default: 1)")
    parser.add_argument("--tries", type=int, default=4, metavar="N", help="allgathers with which an algorithm is tried (default: 4)")
    parser.add_argument("--block", default="12M", help="what a rank gives to an allgather (default: 12M)")
    parser.add_argument("--size", default="40", help="points, which decide the halos and alltoalls (default: 40)")
    parser.add_argument("--states", type=int, default=8)
    parser.add_argument("--compute-ms", type=float, default=200, help="of a step (default: 200)")
    parser.add_argument("--compute", action="store_true", help="compute the physics in place of sleeping: for as many ranks as there are cores")
    parser.add_argument("--late-chance", type=float, default=0.06, metavar="P", help="that a rank is late in a call (default: 0.06)")
    parser.add_argument("--dpus", action="store_true", help="each node has a DPU: bytes, counters and results, and no times")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Longshore, may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write all samples")
    parser.add_argument("--picture", metavar="FILE", help="draw them (PNG; needs matplotlib: 'make venv')")
    parser.add_argument("--report", nargs="+", metavar="FILE", help="measure nothing: print and draw what --json wrote, of one or several runs")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    options = parser.parse_args(arguments)
    if min(options.nodes, options.ranks_per_node, options.pairs, options.pairs_on_time, options.tries - 2, options.steps - 2) < 1:
        parser.error("needs a node, a rank, a turn of each kind, three tries and three steps at least")
    if options.report is None and options.allgathers not in (0, *range(options.steps, 100 * options.steps + 1)):
        parser.error("--allgathers: one to a hundred in each step")
    if bad := [setting for setting in options.set if "=" not in setting]:
        parser.error(f"--set: '{bad[0]}' is not NAME=VALUE")
    refuse_what_cannot_be_written(parser, options.json, options.picture)
    return options


def main():
    options = parse(sys.argv[1:])
    end_by_signals()
    try:
        if options.report:
            studies = [json.loads(Path(path).read_text(encoding="utf-8")) for path in options.report]
        else:
            studies = [{"machine": provenance()} | Study(options).run()]
            if options.json:
                Path(options.json).write_text(json.dumps(studies[0], indent=1) + "\n", encoding="utf-8")
        for study in studies:
            print("\n".join(figures.report_dpus(study) if "dpus" in study else figures.report(study)))
        unequal = not all(map(figures.is_same, studies))
        studies = [study for study in studies if "dpus" not in study]
        if options.picture and studies:
            figures.draw(studies, options.picture)
        if unequal:
            sys.exit("study: results differ, see above")
    except (OSError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
        sys.exit(f"study: {error}")


if __name__ == "__main__":
    main()
