#!/usr/bin/env python3
"""Runs the MPI programs of this folder under the shim and looks into the statistics whether their calls were really
offloaded.      run_programs.py --build DIR --flavour NAME --host fake|real --mpirun PATH [--reduced] [--only PART] [-k WORD]

LONGSHORE_INTERNAL_TEST_ALL=1 ('make test-mpi'): every program in every shape of a job, and more random operations.
Else the programs in which shapes differ run in six of them, the others in two, and what service processes and ranks do in
the same way under every MPI runs under Open MPI alone. Every run has a time limit. MPICH with more ranks than cores needs
about 9 ms per native collective, so its jobs of 8 ranks are few and small.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from collectives import DIRECT, FAMILIES, forced  # noqa: E402

LIMIT_S = 150
WHOLE = bool(os.environ.get("LONGSHORE_INTERNAL_TEST_ALL"))

# What holds where a run says nothing else: small blocks are to be offloaded, too, which the built-in table leaves to the
# MPI. A run that wants the table says so by BUILT_IN.
BUILT_IN = forced("")


class Runner:
    def __init__(self, options):
        self.options = options
        self.runs = self.failures = 0
        self.folder = tempfile.TemporaryDirectory(prefix="longshore-mpi-tests-")
        lib = "tests/mpi/fake/lib" if options.host == "fake" else "lib"
        self.preloaded = [os.path.join(options.build, lib, "liblongshore.so")]
        if options.sanitized:  # before all else in programs that are built so
            found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
            self.preloaded.insert(0, found.stdout.strip())

    def program(self, name):
        return os.path.join(self.options.build, "tests/mpi", self.options.flavour, f"mpi_{name}_{self.options.flavour}")

    def launch(self, ranks, words, settings, preload=True):
        """The words of one application context of an mpirun."""
        variables = [f"{key}={value}" for key, value in (DIRECT | settings).items()]
        if self.options.sanitized:  # the MPIs lose memory of their own
            variables.append("ASAN_OPTIONS=detect_leaks=0")
        if preload:
            variables.append(f"LD_PRELOAD={':'.join(self.preloaded)}")
        return ["-np", str(ranks), "env", *variables, *words]

    def run(self, label, contexts, *, offloaded=True, code=0, expect=None, reject=None,
            more_left=frozenset(), check=None):
        if self.options.k and self.options.k not in label:
            return
        stats = os.path.join(self.folder.name, f"{self.runs}.json")
        command = [self.options.mpirun]
        if self.options.flavour.startswith("openmpi"):
            command += ["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
            if self.options.flavour == "openmpi5":
                # It looks around for networks for more than a second otherwise; test_shim.py lets it.
                command += ["--mca", "pml", "ob1", "--mca", "btl", "self,sm"]
        for i, context in enumerate(contexts):
            command += ([":"] if i else []) + context
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        environment["LONGSHORE_STATS"] = stats
        environment.update(setting.split("=", 1) for setting in self.options.set)
        begin = time.monotonic()
        self.runs += 1
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
            output, status = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired as late:
            output = "".join(part.decode(errors="replace") for part in (late.stdout, late.stderr) if part)
            status = "a time limit"
        problem = None
        if status == "a time limit" or (status != 0) != (code != 0):
            problem = f"ended with {status}"
        elif expect and output.count(expect) != 1:
            problem = f"does not say once: {expect}"
        elif reject and reject in output:
            problem = f"says: {reject}"
        elif offloaded is not None and code == 0:
            problem = self.check_stats(stats, offloaded, more_left)
        if check and not problem:
            with open(stats) as file:
                problem = check(json.load(file), output)
        verdict = "FAILED" if problem else "ok"
        print(f"{verdict:6} {time.monotonic() - begin:6.2f} s  {label}" + (f": {problem}" if problem else ""), flush=True)
        if problem:
            self.failures += 1
            print("    " + "\n    ".join([" ".join(command), *output.splitlines()[-200 if self.options.sanitized else -20:]]), flush=True)

    @staticmethod
    def check_stats(path, offloaded, more_left):
        try:
            with open(path) as file:
                stats = json.load(file)
        except (OSError, ValueError) as error:
            return None if offloaded is False else f"statistics: {error}"
        calls = stats["collectives"].values()
        for call in calls:
            if call["calls"] != call["offloaded"] + call["host"] or call["host"] != sum(call["reasons"].values()):
                return f"statistics do not add up: {call}"
        count = sum(call["offloaded"] for call in calls)
        if offloaded and count == 0:
            return "nothing was offloaded"
        if not offloaded and count > 0:
            return f"{count} calls were offloaded"
        if offloaded and set().union(*(call["reasons"] for call in calls)) - offloaded_may_leave - more_left:
            return f"left to MPI: {[call['reasons'] for call in calls]}"
        return None


# What a job with offload on may still leave to MPI.
offloaded_may_leave = {"one rank", "intercommunicator", "communicator not seen", "argument"}


# What odd and large jobs run.
CORE_PROGRAMS = ("collectives", "rooted", "stress")
FEW_SHAPES = ((1, 0), (2, 0), (4, 0), (3, 2), (4, 2), (8, 4))  # ranks, nodes
PROGRAMS = ("collectives", "rooted", "arrays", "datatypes", "combiners", "alltoallw", "large_count", "persistent", "waits", "errors",
            "communicators", "rendezvous", "unseen", "stress")
# The calls of a program that are all offloaded, by the names that the statistics have for them.
OFFLOADED = {
    "alltoallw": ("MPI_Alltoallw", "MPI_Ialltoallw", "MPI_Ialltoallv"),
    "persistent": [f"MPI_{name.capitalize()}_init" for name in FAMILIES],
    "large_count": [f"MPI_{form}" for name in FAMILIES for form in (name.capitalize(), "I" + name, name.capitalize() + "_init")],
}
OFFLOADED["device"] = OFFLOADED["large_count"]


def all_offloaded(name, ranks):
    def check(stats, _):
        for call in OFFLOADED[name]:
            counted = stats["collectives"].get(call, {"offloaded": 0, "reasons": {}})
            # large_count also uses a communicator that the shim does not see.
            if counted["offloaded"] == 0 or set(counted["reasons"]) - {"one rank", "argument", "communicator not seen"}:
                return f"not all offloaded: {call}: {counted}"
            if counted["bytes_by_service"] + counted["bytes_by_rank"] == 0:
                return f"brought nothing: {call}: {counted}"
        return None
    return check if ranks > 1 and name in OFFLOADED else None


def left_unseen(stats, _):
    """What the MPI serves because of the communicator is counted as such."""
    left = set().union(*(call["reasons"] for call in stats["collectives"].values()))
    return None if {"communicator not seen", "intercommunicator"} <= left else f"left to MPI: {left}"


def programs(runner):
    """The programs, at 1, 2, 3, 4 and 8 ranks, on 1 to 4 emulated nodes."""
    mpich, fake = not runner.options.flavour.startswith("openmpi"), runner.options.host == "fake"
    # Ranks, nodes (0: as the machine is), the largest block.
    shapes = [(1, 0, "1048576"), (2, 0, "1048576"), (3, 0, "1024"), (4, 0, "1024" if mpich else "100000"), (8, 0, "7")]
    if not fake:
        shapes += [(2, 2, "1048576"), (3, 2, "1024"), (4, 2, "100000"), (4, 4, "1024"), (8, 4, "1024")]
        if not WHOLE:
            shapes = [shape for shape in shapes if shape[:2] in FEW_SHAPES]
    for ranks, nodes, max_bytes in shapes:
        settings = {"LONGSHORE_NODES_COUNT": nodes} if nodes else {}
        where = f"{ranks} ranks" + (f", {nodes} nodes" if nodes else "")
        arguments = {"collectives": [max_bytes], "rooted": [max_bytes], "stress": ["1", "60"],
                     "persistent": [f"MPI_{name.capitalize()}_init" for name in FAMILIES],
    "large_count": [] if fake else ["far"]}
        for name in PROGRAMS:
            if ranks == 8 and (name in (*OFFLOADED, "errors", "communicators", "unseen") or (mpich and fake)):
                continue
            if (ranks == 3 or not (WHOLE or (ranks, nodes) in ((2, 0), (4, 2)))) and name not in CORE_PROGRAMS:
                continue
            if mpich and fake and ranks == 4 and name in ("waits", "communicators"):
                continue  # the fake uses native collectives
            if fake and ranks >= 4 and name == "collectives":
                continue  # Open MPI 4.1.4's own MPI_Ialltoallv hangs in place with zero counts on 4 ranks
            words = [runner.program(name), *arguments.get(name, [])]
            if name == "stress" and fake and ranks >= 4:
                words.append("native")  # for the reason above
            runner.run(f"{name}, {where}", [runner.launch(ranks, words, settings)], offloaded=ranks > 1,
                       check=left_unseen if name == "communicators" and ranks > 1 else all_offloaded(name, ranks))


def shared_out(ranks, mpich):
    """A check that small calls went to the MPI, unless that would keep the cores of other ranks, and large ones did not."""
    crowded = mpich and ranks > os.cpu_count()

    def check(stats, _):
        small = {name: call["reasons"].get("small", 0) for name, call in stats["collectives"].items()}
        for name, count in small.items():
            collective = name.removeprefix("MPI_").removeprefix("I").removesuffix("_init").capitalize()
            may = not crowded and collective in ("Alltoall", "Allgather", "Allgatherv", "Bcast", "Gather", "Scatter")
            if count and not may:
                return f"{name}: {count} calls were small"
        if not crowded and not sum(small.values()):
            return "no call was small"
        return None
    return check


def built_in(runner):
    """By the built-in table: some calls of a program go to the MPI and some do not, blocking and open at once. Only
    programs that the MPIs can run alone: what they do in the others is wrong, or not there."""
    mpich = not runner.options.flavour.startswith("openmpi")
    if runner.options.host == "fake":
        return
    more = ("alltoallw", "persistent", "communicators", "rendezvous", "unseen")
    shapes = [(2, 1, CORE_PROGRAMS + more), (2, 2, CORE_PROGRAMS), (4, 1, ("rooted", "stress")), (8, 4, ("stress",))]
    arguments = {"collectives": ["100000"], "rooted": ["100000"], "stress": ["5", "150", "native"]}
    for ranks, nodes, names in shapes:
        for name in names:
            words = [runner.program(name), *arguments.get(name, [])]
            settings = BUILT_IN | {"LONGSHORE_NODES_COUNT": nodes}
            runner.run(f"{name}, {ranks} ranks, {nodes} nodes, built-in table", [runner.launch(ranks, words, settings)],
                       offloaded=None if name in ("communicators", "rendezvous") else True, more_left={"small"},
                       check=shared_out(ranks, mpich) if name in CORE_PROGRAMS else None)


def uncooperative(runner):
    """Every program with all of the work left to the service processes, in smaller jobs."""
    if runner.options.host == "fake":
        return
    for ranks, nodes in ((2, 1), (3, 2), (4, 4), (8, 4)):
        settings = {"LONGSHORE_NODES_COUNT": nodes, "LONGSHORE_WAIT_COOPERATIVE": "off"}
        max_bytes = "100000" if ranks == 2 else "1024"
        arguments = {"collectives": [max_bytes], "rooted": [max_bytes], "stress": ["2", "40"]}
        for name in PROGRAMS:
            if (ranks in (3, 8) or (ranks == 4 and not WHOLE)) and name not in CORE_PROGRAMS:
                continue
            if ranks == 3 and not WHOLE:
                continue
            words = [runner.program(name), *arguments.get(name, [])]
            runner.run(f"{name}, {ranks} ranks, {nodes} nodes, no cooperative wait",
                       [runner.launch(ranks, words, settings)])


def variations(runner):
    collectives = [runner.program("collectives"), "1024"]
    for seed in range(3, 6):
        runner.run(f"stress, seed {seed}", [runner.launch(2, [runner.program("stress"), str(seed), "150"], {})])
    if runner.options.host == "real":
        # A snapshot larger than allowed: alltoall is left to MPI by all ranks, alltoallv has no equal size and goes on.
        runner.run("collectives, no snapshots", [runner.launch(2, collectives, {"LONGSHORE_SNAPSHOT_BYTES_MAX": "0"})],
                   more_left={"large in place"})
        runner.run("stress, strided, 2 nodes", [runner.launch(
            4, [runner.program("stress"), "7", "60"],
            {"LONGSHORE_NODES_COUNT": 2, "LONGSHORE_NODES_PLACEMENT": "strided"})])
    runner.run("thread multiple", [runner.launch(2, [runner.program("communicators"), "multiple"], {})])


def files(runner):
    """MPI-IO, whose own calls come to the shim where they are PMPI_ ones."""
    if runner.options.host == "fake":
        return
    words = [runner.program("files"), os.path.join(runner.folder.name, "file")]
    runner.run("files, 2 ranks", [runner.launch(2, words, {})])
    runner.run("files, 2 ranks, 2 nodes", [runner.launch(2, words, {"LONGSHORE_NODES_COUNT": 2})])
    runner.run("files, thread multiple", [runner.launch(2, [*words, "multiple"], {})])
    for form, finish, beside in file_requests(runner.options.flavour):
        several_file_requests(runner, 3, form, finish, beside)


def file_requests(flavour):
    """What plain MPIs do right with several requests of MPI-IO at once. MPICH's finish in the same order on all ranks only
    where each is waited for alone, or all by MPI_Waitall."""
    for beside in ("nothing", "offloaded", "message", "late"):
        for form in ("all", "at_all"):
            yield form, "waitall", beside
    for form in ("own", "at", "shared"):
        yield form, "waitall", "offloaded"
    for beside in ("nothing", "offloaded"):
        yield "all", "wait", beside
    if flavour.startswith("openmpi"):
        for finish in ("waitany", "waitsome", "testall", "testany", "testsome"):
            yield "all", finish, "offloaded"


def several_file_requests(runner, ranks, form, finish, beside):
    def is_the_programs_alone(stats, _):
        left = set().union(*(call["reasons"] for call in stats["collectives"].values()))
        return f"calls of the MPI's own are counted: {left}" if "communicator not seen" in left else None

    words = [runner.program("file_requests"), os.path.join(runner.folder.name, f"several-{runner.runs}"), form, finish, beside]
    runner.run(f"file requests: {form}, {finish}, {beside} beside them", [runner.launch(ranks, words, {})],
               offloaded=None if beside == "nothing" else True, check=is_the_programs_alone)


def threads(runner):
    if runner.options.host == "fake":
        return  # makes communicators while it holds the shim's lock
    for nodes in (1, 2):
        runner.run(f"threads, {nodes} nodes",
                   [runner.launch(2, [runner.program("threads")], {"LONGSHORE_NODES_COUNT": nodes})])
    # "make test-stress" makes a longer one. On one node ranks move blocks themselves, in whichever thread waits.
    mpich = runner.options.flavour.startswith("mpich")  # makes communicators more slowly where cores are few
    for nodes, steps in ((1, "60" if mpich else "200"), (2, "30" if mpich else "100")):
        runner.run(f"crowd of threads, {nodes} nodes",
                   [runner.launch(2, [runner.program("crowd"), "1", steps], {"LONGSHORE_NODES_COUNT": nodes})])
    unasked = {"OMPI_MPI_THREAD_LEVEL": "3", "MPIR_CVAR_DEFAULT_THREAD_LEVEL": "MPI_THREAD_MULTIPLE"}
    runner.run("threads, unasked", [runner.launch(2, [runner.program("threads"), "unasked"], unasked)])
    runner.run("threads, large elements", [runner.launch(2, [runner.program("threads"), "large"],
                                                         {"LONGSHORE_INTERNAL_PACK_BYTES_MAX": "1000"})])
    runner.run("threads, serialized", [runner.launch(2, [runner.program("threads"), "serialized"], {})])
    if runner.options.flavour.startswith("mpich"):  # a thread of the MPI's own that drives it
        for words in (["waits"], ["persistent"], ["stress", "1", "60"]):
            runner.run(f"{words[0]}, progress thread",
                       [runner.launch(2, [runner.program(words[0]), *words[1:]], {"MPICH_ASYNC_PROGRESS": "1"})])


def stress(runner):
    """4,000 operations; "make test-stress" makes more of them."""
    if runner.options.host == "fake":
        return
    ranks = 2 if runner.options.flavour == "mpich" else 4
    for nodes, seed in ((1, 21), (2, 22)):
        count = 10000 if WHOLE else 2000
        runner.run(f"stress, {count} operations, {ranks} ranks, {nodes} nodes",
                   [runner.launch(ranks, [runner.program("stress"), str(seed), str(count)],
                                  {"LONGSHORE_NODES_COUNT": nodes})])


def agreement(runner):
    collectives = [runner.program("collectives"), "1024"]
    shimmed, plain = runner.launch(1, collectives, {}), runner.launch(1, collectives, {}, preload=False)
    mixed = "some ranks of this job run without Longshore"
    runner.run("mixed, rank 1 without", [shimmed, plain], offloaded=False, expect=mixed)
    runner.run("mixed, rank 0 without", [plain, shimmed], offloaded=False, expect=mixed)
    other_build = runner.launch(1, collectives, {"LONGSHORE_INTERNAL_BUILD": "0.0.9-test"})
    runner.run("another build on rank 1", [shimmed, other_build], offloaded=False,
               expect="another build of Longshore, 0.0.9-test")
    runner.run("another build on rank 0", [other_build, shimmed], offloaded=False, expect="than rank 0, 0.0.9-test")
    runner.run("mixed, the middle without", [shimmed, plain, shimmed], offloaded=False, expect=mixed)
    runner.run("off on all", [runner.launch(2, collectives, {"LONGSHORE_OFFLOAD": "off"})], offloaded=False,
               reject="longshore:")
    # Found by its name in ours, so it must work.
    runner.run("off on all, functions that the MPI lacks",
               [runner.launch(2, [runner.program("large_count"), "small"], {"LONGSHORE_OFFLOAD": "off"})], offloaded=False,
               reject="longshore:")
    # Rank 0's settings hold: rank 1's are not even read.
    other = runner.launch(1, collectives, {"LONGSHORE_EAGER_BYTES": "77", "LONGSHORE_NONSENSE": "1"})
    runner.run("other settings on rank 1", [shimmed, other], reject="NONSENSE")
    runner.run("unknown variable", [runner.launch(2, collectives, {"LONGSHORE_STAT": "1"})], offloaded=False,
               expect="LONGSHORE_STATS")
    runner.run("unknown variable, strict", [runner.launch(2, collectives, {"LONGSHORE_STAT": "1",
                                                                          "LONGSHORE_STRICT": "1"})], code=1,
               expect="the job ends here")
    if runner.options.host == "fake":
        for error, name in ((-2, "other"), (-3, "truncate")):
            fails = {"LONGSHORE_INTERNAL_FAKE_ERROR": error}
            words = [runner.program("offload_errors"), name]
            runner.run(f"errors of offloaded calls, {name}", [runner.launch(2, words, fails)])
            runner.run(f"fatal errors of offloaded calls, {name}", [runner.launch(2, [*words, "fatal"], fails)],
                       code=1, reject="was not fatal")
        runner.run("no service", [runner.launch(2, collectives, {"LONGSHORE_INTERNAL_FAKE_UNAVAILABLE": "1"})],
                   offloaded=False, expect="the fake was told to be unavailable")


def crossed_once(stats, output):
    """A block of the allgather family crosses to every other node once, whatever ranks it has there."""
    payload = int(re.search(r"payload: (\d+) bytes", output)[1])
    crossed = sum(service["bytes_between_nodes"] for service in stats["services"])
    if payload == 0 or crossed != payload * (stats["nodes"] - 1):
        return f"{crossed} bytes between {stats['nodes']} nodes, of {payload} bytes"
    return None


def counted_late(stats, _):
    """By collective: how many notifications were late, parked, and for how long."""
    gathered, exchanged = stats["late"].get("MPI_Allgather"), stats["late"].get("MPI_Alltoall")
    if not gathered or not exchanged:
        return f"not counted: {stats['late']}"
    # Of two ranks on two nodes the last is late by 300 ms and more: nobody else is there to rescue.
    if gathered["parked"] < 1 or not 300_000_000 <= gathered["parked_longest_ns"] <= gathered["parked_ns"]:
        return f"parked: {gathered}"
    if not 1 <= exchanged["late"] <= exchanged["received"] or exchanged["parked"] + exchanged["rescued"]:
        return f"held: {exchanged}"
    for total, name in (("late_arrivals", "late"), ("handed_on", "handed_on"), ("parked", "parked")):
        if stats[total] != sum(one[name] for one in stats["late"].values()) or stats[total] != sum(
                service[total] for service in stats["services"]):
            return f"{total} does not add up: {stats}"
    return None


def handed_on_late(stats, _):
    gathered = stats["late"].get("MPI_Allgather", {})
    if not gathered or gathered["handed_on"] < 1 or gathered["rescued"] + gathered["parked"] < 1:
        return f"not handed on: {stats['late']}"
    return None


def late(runner):
    if runner.options.host == "fake":
        return
    runner.run("late, 2 ranks, 2 nodes", [runner.launch(2, [runner.program("late")], {"LONGSHORE_NODES_COUNT": 2})],
               check=counted_late)
    # Each service process has one rank; what comes to that of the late one is for the other, if that is there.
    runner.run("late, 4 ranks, 2 nodes, 2 service processes", [runner.launch(
        4, [runner.program("late")], {"LONGSHORE_NODES_COUNT": 2, "LONGSHORE_SERVICE_COUNT": 2})], check=handed_on_late)


def crossing(runner):
    if runner.options.host == "fake":
        return
    for ranks, nodes, placement in ((8, 4, "contiguous"), (8, 4, "strided"), (5, 2, "strided")):
        settings = {"LONGSHORE_NODES_COUNT": nodes, "LONGSHORE_NODES_PLACEMENT": placement}
        runner.run(f"crossing, {ranks} ranks, {nodes} nodes, {placement}",
                   [runner.launch(ranks, [runner.program("crossing")], settings)], check=crossed_once)


def errors(runner):
    """Operations that fail, and memory that is not there."""
    runner.run("no request to be had", [runner.launch(2, [runner.program("no_request")], {})])
    runner.run("no memory for a communicator's mark", [runner.launch(2, [runner.program("no_mark")], {})], code=1,
               expect="rank 1 cannot mark a communicator; the job ends here", reject="the program's handler")
    runner.run("no request to be had, by an exception", [runner.launch(2, [runner.program("no_request"), "throw"], {})])
    if runner.options.host == "fake":
        return
    words = [runner.program("offload_errors"), "unreadable"]
    no_memory = [runner.program("no_memory")]
    for ranks, nodes in ((2, 1), (4, 2)):
        settings = {"LONGSHORE_NODES_COUNT": nodes}
        where = f"{ranks} ranks, {nodes} nodes"
        runner.run(f"unreadable memory, {where}", [runner.launch(ranks, words, settings)])
        runner.run(f"no memory to pack in, {where}", [runner.launch(ranks, no_memory, settings)])
    for nodes in (1, 2):
        for word in ("", "forbidden"):
            runner.run(f"in place, 2 ranks, {nodes} nodes, {word or 'peers may read'}",
                       [runner.launch(2, [runner.program("in_place"), word], {"LONGSHORE_NODES_COUNT": nodes})])
    runner.run("unreadable memory, fatal", [runner.launch(2, [*words, "fatal"], {})], code=1, reject="was not fatal",
               expect="longshore: MPI_Iallgather on rank")


def ways_out(runner):
    """Calls that are left by an exception, or by the end of the thread."""
    if runner.options.host == "fake":
        return
    for ranks, nodes in ((2, 1),) if runner.options.reduced else ((2, 1), (3, 2)):
        settings = {"LONGSHORE_NODES_COUNT": nodes}
        for name in ("leaving", "leaving_static"):
            runner.run(f"{name}, {ranks} ranks, {nodes} nodes", [runner.launch(ranks, [runner.program(name)], settings)])
        # MPICH calls an error handler with a lock in its hand, which only a program with MPI_THREAD_MULTIPLE sees.
        levels = ["serialized"] if runner.options.flavour in ("mpich", "mpich5", "abi") else ["serialized", "multiple"]
        for way, level in [("exit", level) for level in levels] + [("jump", level) for level in levels] + [("cancel", "multiple")]:
            runner.run(f"ending, {way}, {level}, {ranks} ranks, {nodes} nodes",
                       [runner.launch(ranks, [runner.program("ending"), way, level], settings)])


def sessions(runner):
    """Programs that begin with a session: they run, on plain MPI, and that is what they are told."""
    if runner.options.host == "fake" or runner.options.flavour == "openmpi":  # Open MPI 4 has none
        return
    for words in ([], ["init"]):
        runner.run(f"sessions, {' '.join(words) or 'alone'}", [runner.launch(2, [runner.program("sessions"), *words], {})], offloaded=False,
                   expect="MPI_Session_init is called before MPI_Init", reject="launcher")


def packed_as_said(ranks):
    """A check of what ranks packed and unpacked, in the program "device" with "count"."""
    def check(stats, output):
        block = int(re.search(r"blocks: (\d+) bytes", output)[1])
        exchanged, gathered = ranks * ranks * block, ranks * block
        wanted = {"packed_bytes": exchanged + 2 * gathered, "unpacked_bytes": exchanged,
                  "device_bytes": exchanged + 2 * gathered, "staging_bytes_max": 2 * exchanged}
        packing = stats["packing"]
        if any(packing[name] != value for name, value in wanted.items()):
            return f"not {wanted}: {packing}"
        if not all(0 < packing[name] < ranks * stats["wall_s"] for name in ("packed_s", "unpacked_s")):
            return f"seconds: {packing}"
        return None
    return check


def device(runner):
    """Buffers in the memory of a device, by stand-ins for the runtimes that there are; whatever way the blocks go."""
    if runner.options.host == "fake":
        return
    libraries = {"CUDA": "libcuda.so.1", "HIP 5": "libamdhip64.so.5", "HIP 6": "libamdhip64.so.6"}

    def one(name, ranks, nodes, way="", settings=None):
        words = [runner.program("device"), os.path.join(runner.options.build, "tests/mpi/device", libraries[name])]
        runner.run(f"device memory, {name}, {ranks} ranks, {nodes} nodes{way}",
                   [runner.launch(ranks, words, {"LONGSHORE_NODES_COUNT": nodes} | (settings or {}))],
                   check=all_offloaded("device", ranks))

    for name in libraries:
        one(name, 2, 1)
    one("CUDA", 2, 2)
    for ranks in (2, 3):
        stand_in = os.path.join(runner.options.build, "tests/mpi/device/libcuda.so.1")
        runner.run(f"device memory, counted, {ranks} ranks",
                   [runner.launch(ranks, [runner.program("device"), stand_in, "count"], {})], check=packed_as_said(ranks))
    if runner.options.flavour == "openmpi" or WHOLE:
        one("CUDA", 4, 2)
        one("CUDA", 4, 2, ", no cooperative wait", {"LONGSHORE_WAIT_COOPERATIVE": "off"})
        one("CUDA", 3, 2, ", hierarchical", HIERARCHICAL)
        one("CUDA", 3, 2, ", through staging memory", STAGING)


def how_moved(**wanted):
    """A check of how ranks reached each other's memory: the counts named, some or none."""
    def check(stats, _):
        memory = stats["memory"]
        if any((memory[name] > 0) != some for name, some in wanted.items()):
            return f"not {wanted}: {memory}"
        return None
    return check


def memory(runner):
    """Buffers whose memory comes and goes, shared ones and others; and shared memory that is used up."""
    if runner.options.host == "fake" or runner.options.set:
        return
    for ranks, nodes, seed in ((2, 1, 1), (2, 2, 2), (4, 2, 3)):
        words = [runner.program("memory"), str(seed), "400" if ranks == 2 else "100"]
        settings = {"LONGSHORE_NODES_COUNT": nodes}
        runner.run(f"memory, {ranks} ranks, {nodes} nodes", [runner.launch(ranks, words, settings)],
                   check=how_moved(shared_bytes_max=True, shared_refused=False, adopted_bytes=False))
    words = [runner.program("memory"), "4", "400"]
    runner.run("memory, moved by service processes",
               [runner.launch(2, words, {"LONGSHORE_WAIT_COOPERATIVE": "off"})], check=how_moved(mapped_by_ranks=False))
    runner.run("memory, none of it shared", [runner.launch(2, [*words, "plain"], {"LONGSHORE_MEMORY_ALIAS": "off"})],
               check=how_moved(peer_copied_by_ranks=True, shared_bytes_max=False))
    for ranks, nodes in ((2, 1), (3, 2)):
        adopt = {"LONGSHORE_MEMORY_ALIAS": "adopt-at-once", "LONGSHORE_NODES_COUNT": nodes}
        runner.run(f"memory, adopted at once, {ranks} ranks, {nodes} nodes",
                   [runner.launch(ranks, [runner.program("memory"), "5", "150"], adopt)],
                   check=how_moved(adopted_bytes=True))
    runner.run("memory, shared memory used up", [runner.launch(2, [*words, "scarce"], {"LONGSHORE_MEMORY_SHARED_BYTES_MAX": "1M"})],
               check=how_moved(peer_copied_by_ranks=True, mapped_by_ranks=True, shared_refused=True),
               expect="did not fit into the shared memory of their ranks (LONGSHORE_MEMORY_SHARED_BYTES_MAX=1M)")


FLAT, HIERARCHICAL = forced("staged", shared="staged-flat"), forced("staged", shared="staged-hierarchical")
STAGING = {"LONGSHORE_MEMORY_MODE": "staging"}
# All that has no room in two slots goes in pieces, and what no slot is free for waits.
SMALL = {"LONGSHORE_STAGING_BYTES": "64K", "LONGSHORE_CHUNK_BYTES": "1M"}


def went(settings, *, ranks, nodes, cooperative):
    """A check that the calls went the way they were forced to, by the figures of those who moved the bytes."""
    names = {name for key, name in settings.items() if key.endswith("_ALGORITHM")} or {"direct"}
    # On one node, waiting ranks may be so quick that nothing is left to service processes.
    surely = nodes > 1 or not cooperative

    def wrong(bytes_counted, some):
        return bytes_counted == 0 and surely if some else bytes_counted > 0

    def check(stats, _):
        used = set().union(*(call["algorithms"] for call in stats["collectives"].values()))
        if not used <= names | {"mpi"}:
            return f"algorithms: {used}"
        if stats["staged"] != sum(service["bytes_staged"] for service in stats["services"]):
            return f"staged does not add up: {stats}"
        landed = sum(call["bytes_landed"] for call in stats["collectives"].values())
        if stats["landed"] != landed or stats["written_by_service"] != landed + stats["read_by_service"]:
            return f"landed does not add up: {stats}"
        if wrong(stats["staged"], "LONGSHORE_MEMORY_MODE" in settings or nodes > 1):
            return f"staged: {stats['staged']} bytes"
        if wrong(landed, "staged-hierarchical" in used and ranks > nodes):
            return f"landed: {landed} bytes"
        return None
    return check


def algorithms(runner):
    """What service processes do in other ways than directly: every algorithm forced, and all through staging memory."""
    if runner.options.host == "fake":
        return
    # Ranks, nodes, cooperative wait; programs.
    shapes = [(2, 1, False, ("datatypes",)), (4, 1, True, ("stress",)), (4, 2, True, ("collectives",)),
              (4, 2, False, ("rooted", "stress")), (3, 3, False, ("collectives",)), (8, 4, True, ("stress",))]
    arguments = {"collectives": ["20000"], "rooted": ["20000"], "stress": ["3", "40"]}
    ways = {"flat": FLAT, "hierarchical": HIERARCHICAL, "through staging memory": STAGING,
            "hierarchical, through little staging memory": HIERARCHICAL | STAGING | SMALL}
    for ranks, nodes, cooperative, names in shapes:
        where = f"{ranks} ranks, {nodes} nodes" + ("" if cooperative else ", no cooperative wait")
        shape = {"LONGSHORE_NODES_COUNT": nodes, "LONGSHORE_WAIT_COOPERATIVE": "on" if cooperative else "off"}
        for way, settings in ways.items():
            for name in names:
                words = [runner.program(name), *arguments.get(name, [])]
                runner.run(f"{name}, {where}, {way}", [runner.launch(ranks, words, settings | shape)],
                           check=went(settings, ranks=ranks, nodes=nodes, cooperative=cooperative))


def staging(runner):
    """Memory modes: which one holds, blocks larger than the staging memory, staging memory that cannot be had."""
    if runner.options.host == "fake":
        return
    words = [runner.program("collectives"), "1048576"]
    nodes = {"LONGSHORE_NODES_COUNT": 2}
    runner.run("collectives, larger than the staging memory", [runner.launch(2, words, nodes | STAGING | SMALL)],
               check=went(STAGING, ranks=2, nodes=2, cooperative=True))
    little = [runner.program("collectives"), "1024"]
    closed = nodes | {"LONGSHORE_MEMORY_INACCESSIBLE": 1}
    runner.run("collectives, memory inaccessible", [runner.launch(2, little, closed)],
               check=went(STAGING, ranks=2, nodes=2, cooperative=True))
    runner.run("collectives, memory inaccessible, directly all the same",
               [runner.launch(2, little, closed | {"LONGSHORE_MEMORY_MODE": "direct"})], check=nothing_staged)
    # Private memory is limited to 8 GiB.
    for way, settings in {"staging": STAGING, "flat": FLAT, "hierarchical": HIERARCHICAL}.items():
        limited = ["sh", "-c", 'ulimit -d 8388608; exec "$@"', "sh", *little]
        runner.run(f"collectives, no memory for staging, {way}",
                   [runner.launch(4, limited, nodes | settings | {"LONGSHORE_STAGING_BYTES": "16G"})],
                   expect="a service process cannot have 16G of staging memory", check=nothing_staged)


    # A rank that lands its own block reads it itself, and ends as in any program.
    for way, settings in {"staging": STAGING, "flat": FLAT,
                          "hierarchical": HIERARCHICAL | {"LONGSHORE_WAIT_COOPERATIVE": "off"}}.items():
        runner.run(f"unreadable memory, {way}", [runner.launch(4, [runner.program("offload_errors"), "unreadable"],
                                                               nodes | settings)])


def nothing_staged(stats, _):
    return f"{stats['staged']} bytes were staged" if stats["staged"] else None


def landing(runner):
    """Blocks that land once on a node are written by its service processes once, not once for each rank."""
    if runner.options.host == "fake":
        return
    written, ranks, nodes = {}, 8, 2

    def look(way):
        def check(stats, output):
            payload = int(re.search(r"payload: (\d+) bytes", output)[1])
            written[way] = stats["written_by_service"]
            flat = payload * (ranks - 1)
            if way == "flat" and not flat / 2 < written[way] <= flat:
                return f"{written[way]} bytes written, of {flat}"
            if way == "flat" and stats["staged"] < payload * (nodes - 1):
                return f"{stats['staged']} bytes staged, of {payload}"
            if way == "hierarchical" and (stats["read_by_service"] or not 0 < stats["landed"] <= payload * nodes):
                return f"{stats['landed']} bytes landed, of {payload} on each of {nodes} nodes; {stats}"
            if way == "hierarchical" and "flat" in written and written[way] * 2 > written["flat"]:
                return f"bytes written by service processes: {written}"
            return None
        return check

    for way, settings, argument in (("flat", FLAT, ["buffers"]), ("hierarchical", HIERARCHICAL, [])):
        runner.run(f"landing, {ranks} ranks, {nodes} nodes, {way}",
                   [runner.launch(ranks, [runner.program("landing"), *argument],
                                  settings | {"LONGSHORE_NODES_COUNT": nodes})], check=look(way))


def times(runner):
    """When blocks moved, of ranks on one node."""
    if runner.options.host == "real":
        for ranks in (2, 3):
            runner.run(f"times, {ranks} ranks", [runner.launch(ranks, [runner.program("times")], {})])


def reduced(runner):
    """For another release of an MPI that has been tested: two ranks, what depends on the MPI, each program once."""
    arguments = {"collectives": ["100000"], "rooted": ["100000"], "stress": ["1", "60"]}
    for name in PROGRAMS:
        runner.run(f"{name}, 2 ranks", [runner.launch(2, [runner.program(name), *arguments.get(name, [])], {})])
    for name in ("collectives", "unseen", "communicators"):
        runner.run(f"{name}, 2 ranks, 2 nodes", [runner.launch(2, [runner.program(name), *arguments.get(name, [])],
                                                              {"LONGSHORE_NODES_COUNT": 2})])
    runner.run("threads", [runner.launch(2, [runner.program("threads")], {})])
    if runner.options.flavour == "mpich5":
        for level in ("single", "multiple"):
            runner.run(f"looked at, thread {level}", [runner.launch(2, [runner.program("looked_at"), level], {})])
    for beside in ("offloaded", "message", "late"):
        several_file_requests(runner, 3, "all", "waitall", beside)
    ways_out(runner)
    sessions(runner)
    collectives = [runner.program("collectives"), "1024"]
    runner.run("no cooperative wait", [runner.launch(2, collectives, {"LONGSHORE_WAIT_COOPERATIVE": "off"})])
    shimmed, plain = runner.launch(1, collectives, {}), runner.launch(1, collectives, {}, preload=False)
    mixed = "some ranks of this job run without Longshore"
    runner.run("mixed, rank 1 without", [shimmed, plain], offloaded=False, expect=mixed)
    runner.run("mixed, rank 0 without", [plain, shimmed], offloaded=False, expect=mixed)
    other_build = runner.launch(1, collectives, {"LONGSHORE_INTERNAL_BUILD": "0.0.9-test"})
    runner.run("another build on rank 1", [shimmed, other_build], offloaded=False,
               expect="another build of Longshore, 0.0.9-test")
    runner.run("another build on rank 0", [other_build, shimmed], offloaded=False, expect="than rank 0, 0.0.9-test")
    later = runner.launch(1, ["sh", "-c", 'sleep 0.5; exec "$@"', "sh", *collectives], {})
    runner.run("rank 0 starts later", [later, shimmed])
    runner.run("rank 1 starts later", [shimmed, later])
    if not runner.options.flavour.startswith("openmpi"):
        # Two nodes to the MPI and its launcher, with a proxy each; one to us.
        runner.run("two nodes of hydra", [["-launcher", "fork", "-hosts", "one,two", "-ppn", "1",
                                           *runner.launch(2, collectives, {})]])
    runner.run("off on all", [runner.launch(2, collectives, {"LONGSHORE_OFFLOAD": "off"})], offloaded=False,
               reject="longshore:")
    runner.run("no memory to pack in", [runner.launch(2, [runner.program("no_memory")], {})])
    stand_in = os.path.join(runner.options.build, "tests/mpi/device/libcuda.so.1")
    runner.run("device memory", [runner.launch(2, [runner.program("device"), stand_in], {})], check=all_offloaded("device", 2))
    unreadable = [runner.program("offload_errors"), "unreadable"]
    runner.run("unreadable memory", [runner.launch(2, unreadable, {})])
    runner.run("unreadable memory, fatal", [runner.launch(2, [*unreadable, "fatal"], {})], code=1,
               reject="was not fatal")


# A ctest case each; by hand, all.
GROUPS = {
    "calls": (programs, built_in, variations, threads, stress, errors, ways_out, sessions, agreement, files, memory),
    "ways": (uncooperative, crossing, late, algorithms, staging, landing, times),
    "device": (device,),
}
SAME_EVERYWHERE = (*GROUPS["ways"], memory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--flavour", required=True, choices=("openmpi", "mpich", "openmpi5", "mpich5", "abi"))
    parser.add_argument("--host", required=True, choices=("fake", "real"))
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--only", choices=(*GROUPS, *(part.__name__ for parts in GROUPS.values() for part in parts)),
                        help="a part, or a group of parts")
    parser.add_argument("--reduced", action="store_true", help="few jobs, small ones")
    parser.add_argument("--sanitized", action="store_true", help="what runs is built with the address sanitizer")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="in the environment of all jobs")
    parser.add_argument("-k", help="only runs whose label contains this")
    runner = Runner(parser.parse_args())
    begin = time.monotonic()
    for part in (reduced,) if runner.options.reduced else (part for parts in GROUPS.values() for part in parts):
        if runner.options.only != part.__name__ and part in SAME_EVERYWHERE and runner.options.flavour != "openmpi" and not WHOLE:
            continue
        if runner.options.only in (None, part.__name__) or part in GROUPS.get(runner.options.only, ()):
            part(runner)
    print(f"{runner.runs} runs, {runner.failures} failed, {time.monotonic() - begin:.0f} s")
    return 1 if runner.failures or runner.runs == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
