#!/usr/bin/env python3
"""What Longshore gains between machines while ranks compute, and what it takes from them.

The machines are namespaces of this one (cluster.py); launches of the MPI alone, of the MPI with a malloc that keeps its
pages, and with Longshore take turns. What is measured (--what, docs/benchmarks.md says how to read it):

  fft     examples/fft: the whole against computing and exchanging alone: the hidden share
  cost    examples/fft with so much computing that exchanges hide behind it: core seconds per GB, beside plain TCP's
  work    `longshore bench --compute work`: against the least that computing, TCP and the wire allow
  waited  calls that are waited for at once: against the MPI's own

    overlap.py --rate 1gbit                                    2 nodes x 1 rank, fft and cost, Open MPI
    overlap.py --rate 5gbit --delay 200us --mpi mpich --pairs 7 --json result.json
    overlap.py --also LONGSHORE_SERVICE_READS_MAX=32           a further contender with that setting
    overlap.py --spare-core --mpi mpich --beside async,ranks   a core to spare, and what else could be done with it
    overlap.py --build build --build ../other/build            two builds
    overlap.py --report a.json b.json                          the tables of runs with the same options, together

Needs root, as cluster.py does. Every launch checks its results before it is timed.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "examples")]
import cluster  # noqa: E402
import overlap_figures as figures  # noqa: E402
from study_common import end_by_signals, provenance, refuse_what_cannot_be_written, run_job  # noqa: E402

KEPT_PAGES = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4000000000"}
HOST, KEPT, LONGSHORE = "host", "host, kept pages", "longshore"
ASYNC, ALL_CORES = "host, progress thread", "host, ranks on all cores"
SOURCES = Path(__file__).resolve().parents[2]
OFFLOADED = re.compile(r"longshore: (\d+) of \d+ collective calls offloaded")
LAUNCH_LIMIT_S = 300
WORK_TRIED = 10
WORK_FACTOR_MAX = 200  # of examples/fft's computing; where it is not enough the cost cannot be told, and the table says so
TCP_SECONDS, TCP_BYTES_MAX, TCP_BYTES_UNHELD, TCP_ROUNDS = 2, 1 << 30, 1 << 29, 3
WORK_COLLECTIVES, WAITED_COLLECTIVES = "ialltoallv,iallgatherv,ibcast", "alltoallv,allgatherv,bcast"
SAME = ("nodes", "ranks_per_node", "rate", "delay", "mpi", "size", "variables", "precision", "set", "also", "build", "what",
        "spare_core", "beside")
FFT_SECONDS = {"transform": "transform", "compute_alone": "compute_alone", "exchanges_alone": "exchanges_alone",
               "compute": "compute"}


class Contender:
    """Who takes a turn: its name, what its ranks find in their environment, and, if they are not where all others' are, on which
    cores; `ranks_factor`: how many times as many ranks it has; `before`: words before all of its own."""

    def __init__(self, name, build=None, settings=None, cores=None, ranks_factor=1, before=()):
        self.name, self.build, self.settings, self.cores, self.ranks_factor = name, build, dict(settings or {}), cores, ranks_factor
        self.before = list(before)

    @property
    def is_longshore(self):
        return self.build is not None

    def words(self):
        given = dict(self.settings)
        if self.is_longshore:
            given |= {"LD_PRELOAD": f"{self.build}/lib/liblongshore.so", "LONGSHORE_STATS": "-"}
        bound = ["taskset", "-c", ",".join(map(str, self.cores))] if self.cores else []
        return [*self.before, *bound, "env", *(f"{name}={value}" for name, value in given.items())]


class Progress:
    """A line on stderr: what runs, how much is done, how long it will take."""

    def __init__(self, quiet):
        self.quiet, self.done, self.total, self.start = quiet, 0, 0, time.monotonic()

    def expect(self, launches):
        self.total += launches

    def say(self, what):
        if self.quiet:
            return
        passed = time.monotonic() - self.start
        left = f", about {passed / self.done * (self.total - self.done):.0f} s left" if self.done else ""
        line = f"[{self.done + 1}/{self.total}] {what}{left}"
        print(f"\r\x1b[K{line}" if sys.stderr.isatty() else line, end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    def count(self):
        self.done += 1

    def clear(self):
        if not self.quiet and sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def results_of(words, read_results):
    """Runs mpirun's words to their end; returns (what read_results() says, what was printed). read_results: None while there
    is nothing. A job that has its results and does not end is ended."""
    results = None

    def is_over():
        nonlocal results
        results = read_results()
        return results is not None

    try:
        done = run_job(words, LAUNCH_LIMIT_S, is_over=is_over)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"a launch failed: {late}") from None
    results, printed = read_results() if results is None else results, done.stdout + done.stderr
    if results is None or done.returncode != 0:
        raise RuntimeError(f"a launch failed, exit code {done.returncode}: {' '.join(words)}\n{printed}")
    return results, printed


class Measurement:
    def __init__(self, nodes, options, progress):
        self.nodes, self.options, self.progress = nodes, options, progress
        self.program_build = Path(options.build[0]).resolve()
        builds = [Path(build).resolve() for build in options.build]
        # A link that is held says what it could do.
        rate = figures.link_bytes_per_second(options.rate)
        given = {"LONGSHORE_LINK_RATE": f"{round(8 * rate / 1e6)}M"} if rate else {}
        given |= dict(setting.split("=", 1) for setting in options.set)
        self.longshores = [Contender(LONGSHORE if len(builds) == 1 else f"{LONGSHORE}, {name}", build, given)
                           for name, build in zip(options.build, builds)]
        self.longshores += [Contender(f"{LONGSHORE}, {more}", builds[0], given | dict(each.split("=", 1) for each in more.split(",")))
                            for more in options.also]
        self.hosts = [Contender(HOST), *([Contender(KEPT, settings=KEPT_PAGES)] if options.kept_pages else [])]
        self.hosts += [self.beside(what) for what in options.beside]

    def beside(self, what):
        """What somebody could do with the spare core without Longshore."""
        plan = self.nodes.placement
        ranks, services = plan.ranks[0], plan.services[0]
        if what == "async":
            # A core for the thread of each rank of a node, in turn; each node has its own.
            def threads(services):
                return ",".join(str(services[rank % len(services)]) for rank in range(self.options.ranks_per_node))

            cases = " ".join(f"{node.name}) cores={threads(cores)};;" for node, cores in zip(self.nodes.nodes, plan.services))
            script = f'case $(hostname) in {cases} esac; MPIR_CVAR_PROGRESS_THREAD_AFFINITY=$cores exec "$0" "$@"'
            return Contender(ASYNC, settings={"MPIR_CVAR_ASYNC_PROGRESS": 1}, before=["sh", "-c", script])
        # Nodes with cores of their own have different ones: their ranks take all that there are.
        cores = sorted({core for part in (*self.nodes.placement.ranks, *self.nodes.placement.services) for core in part})
        return Contender(ALL_CORES, cores=cores, ranks_factor=(len(ranks) + len(services)) // len(ranks))

    def launch(self, contender, program, arguments, load, may_offload_nothing=False):
        """A program's results by that contender; load(path) of what it has written with --json."""
        with tempfile.TemporaryDirectory(prefix="longshore-overlap-") as folder:
            path = Path(folder) / "result.json"

            def read_results():
                try:
                    return load(path)
                except (OSError, ValueError):
                    return None

            words = self.nodes.mpirun([*contender.words(), str(program), *map(str, arguments), "--json", str(path)],
                                      self.options.ranks_per_node * contender.ranks_factor, mpi=self.options.mpi)
            results, printed = results_of(words, read_results)
        self.progress.count()
        said = OFFLOADED.search(printed)
        if contender.is_longshore and (not said or (int(said[1]) == 0 and not may_offload_nothing)):
            raise RuntimeError(f"{contender.name} has offloaded nothing:\n{printed}")
        return results

    def fft(self, contender, repeats, work=1):
        """A launch of examples/fft: samples of each repeat, the slowest rank's."""
        self.progress.say(f"fft, {contender.name}" + (f", computing x {work}" if work > 1 else ""))
        options = self.options
        result = self.launch(contender, self.program_build / f"bin/fft_{options.mpi}",
                             ["--size", options.size, "--variables", options.variables, "--precision", options.precision,
                              "--repeats", repeats, "--work", work, "--check", "once"],
                             lambda path: json.loads(path.read_text(encoding="utf-8")))
        if not result["passed"]:
            raise RuntimeError(f"fft by {contender.name}: wrong results")
        seconds = {name: result["seconds"][key]["largest_of_ranks"] for name, key in FFT_SECONDS.items()}
        parts = [result["seconds"][key]["mean_of_ranks"] for key in ("post", "wait", "other")]
        seconds["in_mpi"] = [sum(each) for each in zip(*parts)]
        return {"seconds": seconds, "bytes_between_nodes": result["bytes_between_nodes"], "checksum": result["checksum"],
                "work_factor": work}

    def turns(self, contenders, pairs, take):
        """Launches in turns; who begins changes."""
        turns = []
        for i in range(pairs):
            at = i % len(contenders)
            turns.append({contender.name: take(contender) for contender in contenders[at:] + contenders[:at]})
        # More ranks hold other parts of the result.
        same = [contender.name for contender in contenders if contender.ranks_factor == 1]
        checksums = {turn[name]["checksum"] for turn in turns for name in same}
        if len(checksums) > 1:
            raise RuntimeError(f"the contenders' results differ: {checksums}")
        return turns

    def measure_fft(self):
        contenders = self.hosts + self.longshores
        self.progress.expect(self.options.pairs * len(contenders))
        return {"names": [contender.name for contender in contenders],
                "turns": self.turns(contenders, self.options.pairs, lambda one: self.fft(one, self.options.repeats))}

    def measure_cost(self):
        self.progress.expect(3 + self.options.cost_pairs * len(self.longshores) + TCP_ROUNDS)
        work, moved = self.work_factor()
        tcp = [self.exchange_by_tcp(moved / len(self.nodes.nodes)) for _ in range(TCP_ROUNDS)]
        return {"names": [contender.name for contender in self.longshores], "work_factor": work, "tcp": tcp,
                "turns": self.turns(self.longshores, self.options.cost_pairs,
                                    lambda one: self.fft(one, self.options.cost_repeats, work))}

    def work_factor(self):
        """How often the 1-D transforms must be computed for computing to take well over twice as long as the exchanges, by the
        slowest of the contenders; and the bytes between nodes in one transform."""
        slowest, computing = 0, 0
        for contender in (self.hosts[0], self.longshores[0]):
            launch = self.fft(contender, 1)
            slowest = max(slowest, figures.medians_of(launch)["exchanges_alone"])
            computing = figures.medians_of(launch)["compute_alone"]
        wanted = 1.15 * figures.COMPUTING_OVER_EXCHANGES * slowest
        if computing >= wanted:
            return 1, launch["bytes_between_nodes"]
        # How much of computing is packing and unpacking, which is not repeated, another launch tells.
        repeated = (figures.medians_of(self.fft(self.hosts[0], 1, WORK_TRIED))["compute_alone"] - computing) / (WORK_TRIED - 1)
        factor = math.ceil(1 + (wanted - computing) / max(repeated, computing / WORK_FACTOR_MAX))
        return min(factor, WORK_FACTOR_MAX), launch["bytes_between_nodes"]

    def exchange_by_tcp(self, bytes_of_node):
        """Plain TCP between all nodes at once, as many bytes as the program moves or as 2 s of the wire: the mean of the nodes."""
        self.progress.say("plain TCP")
        count, addresses = len(self.nodes.nodes), [node.address for node in self.nodes.nodes]
        rate = figures.link_bytes_per_second(self.options.rate)
        wanted = max(bytes_of_node, min(TCP_BYTES_MAX, rate * TCP_SECONDS) if rate else TCP_BYTES_UNHELD)
        script = str(Path(__file__).resolve().parent / "tcp_exchange.py")
        jobs = []
        try:
            for node in self.nodes.nodes:
                peers = ",".join(address for address in addresses if address != node.address)
                jobs.append(subprocess.Popen([*node.enter(), sys.executable, script, "--bind", node.address, "--peers", peers,
                                              "--bytes", str(int(wanted / (count - 1)))], stdout=subprocess.PIPE, text=True))
            runs = [json.loads(job.communicate(timeout=LAUNCH_LIMIT_S)[0]) for job in jobs]
        finally:
            for job in jobs:
                job.kill()
                job.wait()
        self.progress.count()
        return {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}

    def bench(self, what, arguments, may_offload_nothing=False):
        """Rows of a launch of the benchmark with both contenders, {(collective, bytes): {contender: row}}."""
        contender = self.longshores[0]
        self.progress.say(f"{what}: {' '.join(map(str, arguments))}")

        def load(path):
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

        # It writes rows as it goes: they are complete when it has ended.
        expected = len(arguments[1].split(",")) * len(arguments[3].split(",")) * 2

        def load_all(path):
            rows = [row for row in load(path) if row["type"] == "row"]
            return rows if len(rows) == expected else None

        rows = self.launch(contender, self.program_build / f"bin/longshore-bench-{self.options.mpi}",
                           [*arguments, "--progress", "none", "--contenders", "host,longshore"], load_all,
                           may_offload_nothing)
        table = {}
        for row in rows:
            table.setdefault((row["collective"], row["bytes"]), {})[row["contender"]] = row
        return table

    def measure_work(self):
        options, (nodes, per_node) = self.options, (len(self.nodes.nodes), self.options.ranks_per_node)
        self.progress.expect(2)
        tcp = self.exchange_by_tcp(0)
        cost = (tcp["user_s"] + tcp["system_s"]) / tcp["bytes"]
        rate, rows = figures.link_bytes_per_second(options.rate), []
        found = self.bench("bench --compute work", ["--collectives", options.work_collectives, "--sizes", options.work_sizes, "--compute",
                                                    "work", "--samples", options.bench_samples, "--time-limit", options.time_limit])
        for (collective, size), by in found.items():
            moved = figures.bytes_of_node(collective, size, nodes, per_node)
            computing = 1e-6 * statistics.median(by["host"]["compute_alone_us"] + by["longshore"]["compute_alone_us"])
            wire = moved / rate if rate else 0
            # A node's cores are as many as its ranks, or one: then all ranks' TCP is served on it. Or there is a core for that.
            tcp_s = 0 if options.spare_core else cost * moved / self.cores_of_node()
            rows.append({"collective": collective, "bytes": size, "computing_s": computing, "wire_s": wire if rate else None,
                         "least_s": figures.work_bound(computing, tcp_s, wire),
                         "host_s": 1e-6 * statistics.median(by["host"]["overall_us"]),
                         "longshore_s": 1e-6 * statistics.median(by["longshore"]["overall_us"]),
                         "host_us": by["host"]["overall_us"], "longshore_us": by["longshore"]["overall_us"],
                         "offloaded_share": by["longshore"]["offloaded_share_of_calls"]})
        return {"tcp": tcp, "rows": rows}

    def cores_of_node(self):
        return max(1, len(os.sched_getaffinity(0)) // len(self.nodes.nodes))

    def measure_waited(self):
        options = self.options
        self.progress.expect(1)
        found = self.bench("waited for at once", ["--collectives", options.waited_collectives, "--sizes", options.waited_sizes, "--samples",
                                                  options.bench_samples, "--time-limit", options.time_limit],
                           may_offload_nothing=True)  # the table may leave all of them to the MPI
        rows = []
        for (collective, size), by in found.items():
            medians = {name: [statistics.median(row["pure_us"][i:i + row["iterations_per_turn"]])
                              for i in range(0, len(row["pure_us"]), row["iterations_per_turn"])] for name, row in by.items()}
            rows.append({"collective": collective, "bytes": size, "turns_us": medians,
                         "host_s": 1e-6 * statistics.median(medians["host"]),
                         "longshore_s": 1e-6 * statistics.median(medians["longshore"]),
                         "ratio": statistics.median(medians["longshore"]) / statistics.median(medians["host"]),
                         "ratios": [mine / theirs for mine, theirs in zip(medians["longshore"], medians["host"])],
                         "offloaded_share": by["longshore"]["offloaded_share_of_calls"]})
        return {"rows": rows}


def output_of(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def mpi_version(mpi):
    said = output_of(f"mpirun.{mpi}", "--version")
    found = re.search(r"(?:Version:\s*|\(.*\) )([\d.]+)", said)
    return f"{mpi} {found[1] if found else '(version unknown)'}"


def describe(options):
    return {**provenance(), "mpi": mpi_version(options.mpi)}


def print_report(result):
    machine, options = result["machine"], result["options"]
    nodes = options["nodes"]
    link = f"{options['rate'] or 'not held'}{', delay ' + options['delay'] if options['delay'] else ''}"
    print(f"# {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; {machine['mpi']}; commit {machine['commit']}, "
          f"{machine['date']}")
    print(f"# {nodes} nodes x {options['ranks_per_node']} ranks, links {link}"
          f"{'; ' + ' '.join(options['set']) if options['set'] else ''}")
    if placement := result.get("placement"):
        print(f"# {placement}")
    if "fft" in result:
        turns = result["fft"]["turns"]
        print(f"\n## fft {options['size']}, {options['variables']} variables, {options['precision']}; {len(turns)} turns of "
              f"{options['repeats']} repeats\n")
        print("\n".join(figures.fft_lines(turns, result["fft"]["names"])))
    if "cost" in result:
        cost = result["cost"]
        print(f"\n## cost, computing x {cost['work_factor']}; {len(cost['turns'])} turns of {options['cost_repeats']} repeats\n")
        print("\n".join(figures.cost_lines(cost["turns"], cost["names"], cost["tcp"], nodes)))
    if "work" in result:
        print("\n## bench --compute work; medians\n")
        print("\n".join(figures.work_lines(result["work"]["rows"])))
    if "waited" in result:
        print("\n## calls that are waited for at once; medians of the turns\n")
        print("\n".join(figures.waited_lines(result["waited"]["rows"])))


def merge(results):
    """Several runs of the same thing as one; of `work` and `waited` the last."""
    whole = results[0]
    for more in results[1:]:
        for key in SAME:
            one, other = whole["options"].get(key), more["options"].get(key)
            if one != other:
                raise ValueError(f"the runs differ in {key}: {one} and {other}")
        for part in ("fft", "cost"):
            if part in more:
                whole[part]["turns"] += more[part]["turns"]
        if "cost" in more:
            whole["cost"]["tcp"] += more["cost"]["tcp"]
        for part in ("work", "waited"):
            if part in more:
                whole[part] = more[part]
    return whole


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="fft,cost", metavar="LIST", help="of fft,cost,work,waited (default: fft,cost)")
    parser.add_argument("--nodes", type=int, default=2, help="how many machines (default: 2)")
    parser.add_argument("--ranks-per-node", type=int, default=1, metavar="N", help="ranks on each (default: 1)")
    parser.add_argument("--rate", default="none", help="of each link, as tc has it: 1gbit, 2.5gbit; none (default): not held")
    parser.add_argument("--delay", default="none", help="of what a node sends, as tc has it: 200us; none (default)")
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi", help="default: openmpi")
    parser.add_argument("--size", default="128", help="of the FFT: N or NxNyNz (default: 128)")
    parser.add_argument("--variables", type=int, default=8, metavar="V", help="of the FFT (default: 8)")
    parser.add_argument("--precision", choices=("double", "single"), default="double", help="of the FFT (default: double)")
    parser.add_argument("--pairs", type=int, default=7, metavar="N", help="turns of all contenders (default: 7)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="transforms in a launch (default: 3)")
    parser.add_argument("--cost-pairs", type=int, default=3, metavar="N", help="turns for the cost (default: 3)")
    parser.add_argument("--cost-repeats", type=int, default=5, metavar="N", help="transforms in a launch for the cost (default: 5)")
    parser.add_argument("--work-collectives", default=WORK_COLLECTIVES, metavar="LIST", help=f"default: {WORK_COLLECTIVES}")
    parser.add_argument("--work-sizes", default="256K,1M,4M", metavar="LIST", help="default: 256K,1M,4M")
    parser.add_argument("--waited-collectives", default=WAITED_COLLECTIVES, metavar="LIST", help=f"default: {WAITED_COLLECTIVES}")
    parser.add_argument("--waited-sizes", default="4K,64K,256K,1M,4M", metavar="LIST", help="default: 4K,64K,256K,1M,4M")
    parser.add_argument("--bench-samples", type=int, default=15, metavar="N", help="turns of the benchmark (default: 15)")
    parser.add_argument("--time-limit", type=float, default=10, metavar="S", help="seconds for a row of the benchmark (default: 10)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Longshore, for all its contenders")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=VALUE[,...]", help="a further contender with these settings")
    parser.add_argument("--spare-core", type=int, nargs="?", const=1, default=0, metavar="N",
                        help="a core of each node, or N, for service processes and for no rank (cluster.py --help says how)")
    parser.add_argument("--beside", default="", metavar="LIST",
                        help="with --spare-core, further contenders: async, MPICH with its progress thread there, on that core; ranks, "
                             "the MPI alone with as many more ranks as it has room for")
    parser.add_argument("--no-kept-pages", dest="kept_pages", action="store_false",
                        help="without the contender whose malloc keeps its pages")
    parser.add_argument("--build", action="append", default=[], metavar="DIR",
                        help="whose Longshore takes part; the first has the programs (default: build)")
    parser.add_argument("--json", metavar="FILE", help="write the machine, the options and all samples")
    parser.add_argument("--report", nargs="+", metavar="FILE", help="measure nothing: the tables of these results, together")
    parser.add_argument("--quiet", action="store_true", help="no progress line")
    options = parser.parse_args()
    options.what = options.what.split(",")
    options.build = options.build or [str(cluster.BUILD)]
    options.rate, options.delay = (None if value == "none" else value for value in (options.rate, options.delay))
    for what in options.what:
        if what not in ("fft", "cost", "work", "waited"):
            parser.error(f"--what: '{what}' is none of fft, cost, work, waited")
    for setting in [*options.set, *(each for more in options.also for each in more.split(","))]:
        if "=" not in setting:
            parser.error(f"'{setting}' is no NAME=VALUE")
    if options.nodes < 2:
        parser.error("--nodes: one machine has no link")
    options.beside = [what for what in options.beside.split(",") if what]
    check_spare_core(parser, options)
    refuse_what_cannot_be_written(parser, options.json, None)
    try:
        figures.link_bytes_per_second(options.rate)
    except ValueError as error:
        parser.error(str(error))
    return options


def check_spare_core(parser, options):
    if options.spare_core < 0:
        parser.error("--spare-core: not a number of cores")
    for what in options.beside:
        if what not in ("async", "ranks"):
            parser.error(f"--beside: '{what}' is none of async, ranks")
        if not options.spare_core:
            parser.error("--beside: without --spare-core there is no core for it")
        if what == "async" and options.mpi != "mpich":
            parser.error("--beside async: Open MPI has no such thread; --mpi mpich has")


def measure(options):
    progress = Progress(options.quiet)
    given = {name: value for name, value in vars(options).items() if name not in ("report", "json", "quiet")}
    # Not where this tree lies: results are kept and compared elsewhere.
    given["build"] = [os.path.relpath(build, SOURCES) for build in given["build"]]
    result = {"machine": describe(options), "options": given}
    with cluster.Cluster(options.nodes, options.rate, options.delay, offloads=True, own_cores=not options.spare_core,
                         spare_cores=options.spare_core) as nodes:
        if nodes.placement:
            result["placement"] = str(nodes.placement)
        measurement = Measurement(nodes, options, progress)
        for what in options.what:
            result[what] = getattr(measurement, f"measure_{what}")()
    progress.clear()
    return result


def main():
    options = parse()
    if options.report:
        try:
            return print_report(merge([json.loads(Path(file).read_text(encoding="utf-8")) for file in options.report]))
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"overlap: {error}")
    if problem := cluster.missing():
        sys.exit(f"overlap: {problem}")
    end_by_signals()
    try:
        result = measure(options)
    except RuntimeError as error:
        sys.exit(f"\noverlap: {error}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print_report(result)
    return 0


if __name__ == "__main__":
    main()
