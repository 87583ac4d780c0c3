"""The MPI programs of this folder under the shim; the statistics say whether their calls were really offloaded.

LONGSHORE_INTERNAL_TEST_BUILD, _FLAVOUR, _MPIRUN: the build folder, which MPI, and its mpirun. _HOST=fake: over a fake host library.
_SET="NAME=VALUE ...": in the environment of all jobs. _SANITIZED=1: what runs is built with the address sanitizer.

LONGSHORE_INTERNAL_TEST_ALL=1 ('make test-mpi'): every program in every shape of a job, and more random operations. Else the
programs in which shapes differ run in six of them, the others in two, and what service processes and ranks do in the same way under
every MPI runs under Open MPI alone. Every run has a time limit. MPICH with more ranks than cores needs about 9 ms per native
collective, so its jobs of 8 ranks are few and small.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from collectives import DIRECT, FAMILIES, forced  # noqa: E402
BUILD = Path(os.environ["LONGSHORE_INTERNAL_TEST_BUILD"])
FLAVOUR, MPIRUN = os.environ["LONGSHORE_INTERNAL_TEST_FLAVOUR"], os.environ["LONGSHORE_INTERNAL_TEST_MPIRUN"]
FAKE = os.environ.get("LONGSHORE_INTERNAL_TEST_HOST") == "fake"
SET = dict(setting.split("=", 1) for setting in os.environ.get("LONGSHORE_INTERNAL_TEST_SET", "").split())
SANITIZED = bool(os.environ.get("LONGSHORE_INTERNAL_TEST_SANITIZED"))
PRELOADED = [BUILD / ("tests/mpi/fake/lib" if FAKE else "lib") / "liblongshore.so"]
if SANITIZED:  # before all else in programs that are built so
    PRELOADED.insert(0, subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip())
SAID_MAX = 40_000 if SANITIZED else 4000  # of an output, where a job fails
OPENMPI = FLAVOUR.startswith("openmpi")
LIMIT_S = 150
WHOLE = bool(os.environ.get("LONGSHORE_INTERNAL_TEST_ALL"))

# What holds where a run says nothing else: small blocks are to be offloaded, too, which the built-in table leaves to the
# MPI. A run that wants the table says so by BUILT_IN.
BUILT_IN = forced("")
not_over_the_fake = unittest.skipIf(FAKE, "the fake host library moves nothing")
the_same_under_every_mpi = unittest.skipUnless(FLAVOUR == "openmpi" or WHOLE, "as under Open MPI")


def program(name):
    return BUILD / f"tests/mpi/{FLAVOUR}/mpi_{name}_{FLAVOUR}"


def launch(ranks, words, settings, preload=True):
    """The words of one application context of an mpirun."""
    variables = [f"{key}={value}" for key, value in (DIRECT | settings).items()]
    if SANITIZED:  # the MPIs lose memory of their own
        variables.append("ASAN_OPTIONS=detect_leaks=0")
    if preload:
        variables.append(f"LD_PRELOAD={':'.join(map(str, PRELOADED))}")
    return ["-np", str(ranks), "env", *variables, *map(str, words)]


# What a job with offload on may still leave to MPI.
MAY_BE_LEFT = {"one rank", "intercommunicator", "communicator not seen", "argument"}

# What odd and large jobs run.
CORE_PROGRAMS = ("collectives", "rooted", "stress")
FEW_SHAPES = ((1, 0), (2, 0), (4, 0), (3, 2), (4, 2), (8, 4))  # ranks, nodes (0: as the machine is)
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


def how_moved(**wanted):
    """A check of how ranks reached each other's memory: the counts named, some or none."""
    def check(stats, _):
        memory = stats["memory"]
        if any((memory[name] > 0) != some for name, some in wanted.items()):
            return f"not {wanted}: {memory}"
        return None
    return check


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


def nothing_staged(stats, _):
    return f"{stats['staged']} bytes were staged" if stats["staged"] else None


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-mpi-tests-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_job(self, label, contexts, *, offloaded=True, code=0, expect=None, reject=None, more_left=frozenset(), check=None):
        with self.subTest(label):
            begin = time.monotonic()
            output = self.output_of(contexts, code)
            print(f"{time.monotonic() - begin:6.2f} s  {label}", file=sys.stderr, flush=True)
            if expect:
                self.assertEqual(output.count(expect), 1, output[-SAID_MAX:])
            if reject:
                self.assertNotIn(reject, output)
            if offloaded is not None and code == 0:
                self.check_stats(offloaded, more_left)
            if check:
                self.assertIsNone(check(json.loads((self.folder / "stats.json").read_text()), output), output[-SAID_MAX:])

    def output_of(self, contexts, code):
        """Of an mpirun that ends with that exit code, or with any but 0."""
        command = [MPIRUN]
        if OPENMPI:
            command += ["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
            if FLAVOUR == "openmpi5":
                # It looks around for networks for more than a second otherwise; test_shim.py lets it.
                command += ["--mca", "pml", "ob1", "--mca", "btl", "self,sm"]
        for i, context in enumerate(contexts):
            command += ([":"] if i else []) + context
        stats = self.folder / "stats.json"
        stats.unlink(missing_ok=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        environment |= {"LONGSHORE_STATS": str(stats)} | SET
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as late:
            output = "".join(part.decode(errors="replace") for part in (late.stdout, late.stderr) if part)
            self.fail(f"not in time: {' '.join(command)}\n{output[-SAID_MAX:]}")
        said = f"ended with {done.returncode}: {' '.join(command)}\n{done.stdout[-SAID_MAX:]}{done.stderr[-SAID_MAX:]}"
        self.assertEqual(done.returncode != 0, code != 0, said)
        return done.stdout + done.stderr

    def check_stats(self, offloaded, more_left):
        try:
            calls = json.loads((self.folder / "stats.json").read_text())["collectives"].values()
        except (OSError, ValueError):
            self.assertFalse(offloaded, "there are no statistics")
            return
        for call in calls:
            self.assertEqual(call["calls"], call["offloaded"] + call["host"], call)
            self.assertEqual(call["host"], sum(call["reasons"].values()), call)
        self.assertEqual(sum(call["offloaded"] for call in calls) > 0, offloaded, list(calls))
        if offloaded:
            left = set().union(*(call["reasons"] for call in calls))
            self.assertLessEqual(left, MAY_BE_LEFT | more_left)

    def several_file_requests(self, ranks, form, finish, beside):
        def is_the_programs_alone(stats, _):
            left = set().union(*(call["reasons"] for call in stats["collectives"].values()))
            return f"calls of the MPI's own are counted: {left}" if "communicator not seen" in left else None

        words = [program("file_requests"), self.folder / f"several-{form}-{finish}-{beside}", form, finish, beside]
        self.run_job(f"file requests: {form}, {finish}, {beside} beside them", [launch(ranks, words, {})],
                     offloaded=None if beside == "nothing" else True, check=is_the_programs_alone)

    def ways_out(self, shapes):
        """Calls that are left by an exception, or by the end of the thread."""
        for ranks, nodes in shapes:
            settings = {"LONGSHORE_NODES_COUNT": nodes}
            for name in ("leaving", "leaving_static"):
                self.run_job(f"{name}, {ranks} ranks, {nodes} nodes", [launch(ranks, [program(name)], settings)])
            # MPICH calls an error handler with a lock in its hand, which only a program with MPI_THREAD_MULTIPLE sees.
            levels = ["serialized"] if FLAVOUR in ("mpich", "mpich5", "abi") else ["serialized", "multiple"]
            for way, level in [("exit", level) for level in levels] + [("jump", level) for level in levels] + [("cancel", "multiple")]:
                self.run_job(f"ending, {way}, {level}, {ranks} ranks, {nodes} nodes",
                             [launch(ranks, [program("ending"), way, level], settings)])

    def sessions(self):
        """Programs that begin with a session: they run, on plain MPI, and that is what they are told."""
        if FLAVOUR == "openmpi":
            self.skipTest("Open MPI 4 has none")
        for words in ([], ["init"]):
            self.run_job(f"sessions, {' '.join(words) or 'alone'}", [launch(2, [program("sessions"), *words], {})], offloaded=False,
                         expect="MPI_Session_init is called before MPI_Init", reject="launcher")


# Ranks and nodes that Calls tries, so that `make test` has each kind of shape with one MPI; OtherShapes, in `make test-all`, has the
# rest.
SHAPES_HERE = {(2, 0), (4, 0)} if FLAVOUR.startswith("mpich") else {(1, 0), (3, 2), (4, 2), (8, 4)}
BUILT_IN_HERE = {(2, 1)} if FLAVOUR.startswith("mpich") else {(2, 2), (4, 1), (8, 4)}


class Shaped(Programs):
    def programs(self, is_here):
        """The programs, at 1, 2, 3, 4 and 8 ranks, on 1 to 4 emulated nodes."""
        mpich = not OPENMPI
        # Ranks, nodes, the largest block.
        shapes = [(1, 0, "1048576"), (2, 0, "1048576"), (3, 0, "1024"), (4, 0, "1024" if mpich else "100000"), (8, 0, "7")]
        if not FAKE:
            shapes += [(2, 2, "1048576"), (3, 2, "1024"), (4, 2, "100000"), (4, 4, "1024"), (8, 4, "1024")]
            if not WHOLE:
                shapes = [shape for shape in shapes if shape[:2] in FEW_SHAPES]
        for ranks, nodes, max_bytes in shapes:
            if is_here != (FAKE or (ranks, nodes) in SHAPES_HERE):
                continue
            settings = {"LONGSHORE_NODES_COUNT": nodes} if nodes else {}
            where = f"{ranks} ranks" + (f", {nodes} nodes" if nodes else "")
            arguments = {"collectives": [max_bytes], "rooted": [max_bytes], "stress": ["1", "60"],
                         "persistent": [f"MPI_{name.capitalize()}_init" for name in FAMILIES],
                         "large_count": ["far"]}
            for name in PROGRAMS:
                if ranks == 8 and (name in (*OFFLOADED, "errors", "communicators", "unseen") or (mpich and FAKE)):
                    continue
                if (ranks == 3 or not (WHOLE or (ranks, nodes) in ((2, 0), (4, 2)))) and name not in CORE_PROGRAMS:
                    continue
                if mpich and FAKE and ranks == 4 and name in ("waits", "communicators"):
                    continue  # the fake uses native collectives
                if FAKE and ranks >= 4 and name == "collectives":
                    continue  # Open MPI 4.1.4's own MPI_Ialltoallv hangs in place with zero counts on 4 ranks
                words = [program(name), *arguments.get(name, [])]
                if name == "stress" and FAKE and ranks >= 4:
                    words.append("native")  # for the reason above
                self.run_job(f"{name}, {where}", [launch(ranks, words, settings)], offloaded=ranks > 1,
                             check=left_unseen if name == "communicators" and ranks > 1 else all_offloaded(name, ranks))

    def built_in(self, is_here):
        """By the built-in table: some calls of a program go to the MPI and some do not, blocking and open at once. Only
        programs that the MPIs can run alone: what they do in the others is wrong, or not there."""
        more = ("datatypes", "alltoallw", "large_count", "persistent", "communicators", "rendezvous", "unseen")
        shapes = [(2, 1, CORE_PROGRAMS + more), (2, 2, CORE_PROGRAMS), (4, 1, ("rooted", "stress")), (8, 4, ("stress",))]
        if FAKE:
            shapes = [shape for shape in shapes if shape[:2] == (2, 1)]
        arguments = {"collectives": ["100000"], "rooted": ["100000"], "stress": ["5", "150", "native"],
                     "datatypes": ["native"], "large_count": ["far"]}
        for ranks, nodes, names in shapes:
            for name in names if is_here == (FAKE or (ranks, nodes) in BUILT_IN_HERE) else ():
                words = [program(name), *arguments.get(name, [])]
                settings = BUILT_IN | {"LONGSHORE_NODES_COUNT": nodes}
                self.run_job(f"{name}, {ranks} ranks, {nodes} nodes, built-in table", [launch(ranks, words, settings)],
                             offloaded=None if name in ("communicators", "rendezvous") else True, more_left={"small"},
                             check=shared_out(ranks, not OPENMPI) if name in CORE_PROGRAMS else None)

    def stress(self, nodes):
        """2,000 operations; "make test-stress" makes more of them."""
        ranks, seed = 2 if FLAVOUR == "mpich" else 4, 20 + nodes
        count = 10000 if WHOLE else 2000
        self.run_job(f"stress, {count} operations, {ranks} ranks, {nodes} nodes",
                     [launch(ranks, [program("stress"), str(seed), str(count)], {"LONGSHORE_NODES_COUNT": nodes})])


@not_over_the_fake
class OtherShapes(Shaped):
    """Those that Calls leaves out."""

    def test_programs(self):
        self.programs(is_here=False)

    def test_built_in(self):
        self.built_in(is_here=False)

    def test_stress(self):
        self.stress(2 if FLAVOUR.startswith("mpich") else 1)


class Calls(Shaped):
    """What depends on the MPI."""

    def test_programs(self):
        self.programs(is_here=True)

    def test_built_in(self):
        self.built_in(is_here=True)

    @not_over_the_fake
    def test_stress(self):
        self.stress(1 if FLAVOUR.startswith("mpich") else 2)

    @not_over_the_fake
    def test_ways_out(self):
        self.ways_out(((2, 1), (3, 2)))

    @not_over_the_fake
    def test_sessions(self):
        self.sessions()

    def test_variations(self):
        collectives = [program("collectives"), "1024"]
        for seed in range(3, 6):
            self.run_job(f"stress, seed {seed}", [launch(2, [program("stress"), str(seed), "150"], {})])
        if not FAKE:
            # A snapshot larger than allowed: alltoall is left to MPI by all ranks, alltoallv has no equal size and goes on.
            self.run_job("collectives, no snapshots", [launch(2, collectives, {"LONGSHORE_SNAPSHOT_BYTES_MAX": "0"})],
                         more_left={"large in place"})
            self.run_job("stress, strided, 2 nodes", [launch(
                4, [program("stress"), "7", "60"],
                {"LONGSHORE_NODES_COUNT": 2, "LONGSHORE_NODES_PLACEMENT": "strided"})])
        self.run_job("thread multiple", [launch(2, [program("communicators"), "multiple"], {})])

    @not_over_the_fake
    def test_threads(self):
        for nodes in (1, 2):
            self.run_job(f"threads, {nodes} nodes",
                         [launch(2, [program("threads")], {"LONGSHORE_NODES_COUNT": nodes})])
        # 'make test-stress' makes a longer one. On one node ranks move blocks themselves, in whichever thread waits; where cores
        # are few MPICH makes communicators more slowly.
        for nodes, steps in ((1, "200" if OPENMPI else "60"), (2, "100" if OPENMPI else "30")):
            self.run_job(f"crowd of threads, {nodes} nodes",
                         [launch(2, [program("crowd"), "1", steps], {"LONGSHORE_NODES_COUNT": nodes})])
        unasked = {"OMPI_MPI_THREAD_LEVEL": "3", "MPIR_CVAR_DEFAULT_THREAD_LEVEL": "MPI_THREAD_MULTIPLE"}
        self.run_job("threads, unasked", [launch(2, [program("threads"), "unasked"], unasked)])
        self.run_job("threads, large elements", [launch(2, [program("threads"), "large"],
                                                             {"LONGSHORE_INTERNAL_PACK_BYTES_MAX": "1000"})])
        self.run_job("threads, serialized", [launch(2, [program("threads"), "serialized"], {})])
        if FLAVOUR.startswith("mpich"):  # a thread of the MPI's own that drives it
            for words in (["waits"], ["persistent"], ["stress", "1", "60"]):
                self.run_job(f"{words[0]}, progress thread",
                             [launch(2, [program(words[0]), *words[1:]], {"MPICH_ASYNC_PROGRESS": "1"})])

    def test_no_request(self):
        self.run_job("no request to be had", [launch(2, [program("no_request")], {})])
        self.run_job("no memory for a communicator's mark", [launch(2, [program("no_mark")], {})], code=1,
                     expect="rank 1 cannot mark a communicator; the job ends here", reject="the program's handler")
        self.run_job("no request to be had, by an exception", [launch(2, [program("no_request"), "throw"], {})])

    @not_over_the_fake
    def test_errors(self):
        """Operations that fail, and memory that is not there."""
        words = [program("offload_errors"), "unreadable"]
        no_memory = [program("no_memory")]
        for ranks, nodes in ((2, 1), (4, 2)):
            settings = {"LONGSHORE_NODES_COUNT": nodes}
            where = f"{ranks} ranks, {nodes} nodes"
            self.run_job(f"unreadable memory, {where}", [launch(ranks, words, settings)])
            self.run_job(f"no memory to pack in, {where}", [launch(ranks, no_memory, settings)])
        for nodes in (1, 2):
            for word in ("", "forbidden"):
                self.run_job(f"in place, 2 ranks, {nodes} nodes, {word or 'peers may read'}",
                             [launch(2, [program("in_place"), word], {"LONGSHORE_NODES_COUNT": nodes})])
        self.run_job("unreadable memory, fatal", [launch(2, [*words, "fatal"], {})], code=1, reject="was not fatal",
                     expect="longshore: MPI_Iallgather on rank")

    def test_agreement(self):
        collectives = [program("collectives"), "1024"]
        shimmed, plain = launch(1, collectives, {}), launch(1, collectives, {}, preload=False)
        mixed = "some ranks of this job run without Longshore"
        self.run_job("mixed, rank 1 without", [shimmed, plain], offloaded=False, expect=mixed)
        self.run_job("mixed, rank 0 without", [plain, shimmed], offloaded=False, expect=mixed)
        other_build = launch(1, collectives, {"LONGSHORE_INTERNAL_BUILD": "0.0.9-test"})
        self.run_job("another build on rank 1", [shimmed, other_build], offloaded=False,
                     expect="another build of Longshore, 0.0.9-test")
        self.run_job("another build on rank 0", [other_build, shimmed], offloaded=False, expect="than rank 0, 0.0.9-test")
        self.run_job("mixed, the middle without", [shimmed, plain, shimmed], offloaded=False, expect=mixed)
        self.run_job("off on all", [launch(2, collectives, {"LONGSHORE_OFFLOAD": "off"})], offloaded=False,
                     reject="longshore:")
        # Found by its name in ours, so it must work.
        self.run_job("off on all, functions that the MPI lacks",
                     [launch(2, [program("large_count"), "small"], {"LONGSHORE_OFFLOAD": "off"})], offloaded=False,
                     reject="longshore:")
        # Rank 0's settings hold: rank 1's are not even read.
        other = launch(1, collectives, {"LONGSHORE_EAGER_BYTES": "77", "LONGSHORE_NONSENSE": "1"})
        self.run_job("other settings on rank 1", [shimmed, other], reject="NONSENSE")
        self.run_job("unknown variable", [launch(2, collectives, {"LONGSHORE_STAT": "1"})], offloaded=False,
                     expect="LONGSHORE_STATS")
        self.run_job("unknown variable, strict", [launch(2, collectives, {"LONGSHORE_STAT": "1",
                                                                              "LONGSHORE_STRICT": "1"})], code=1,
                     expect="the job ends here")
        if FAKE:
            for error, name in ((-2, "other"), (-3, "truncate")):
                fails = {"LONGSHORE_INTERNAL_FAKE_ERROR": error}
                words = [program("offload_errors"), name]
                self.run_job(f"errors of offloaded calls, {name}", [launch(2, words, fails)])
                self.run_job(f"fatal errors of offloaded calls, {name}", [launch(2, [*words, "fatal"], fails)],
                             code=1, reject="was not fatal")
            self.run_job("no service", [launch(2, collectives, {"LONGSHORE_INTERNAL_FAKE_UNAVAILABLE": "1"})],
                         offloaded=False, expect="the fake was told to be unavailable")

    @not_over_the_fake
    def test_files(self):
        """MPI-IO, whose own calls come to the shim where they are PMPI_ ones."""
        words = [program("files"), self.folder / "file"]
        self.run_job("files, 2 ranks", [launch(2, words, {})])
        self.run_job("files, 2 ranks, 2 nodes", [launch(2, words, {"LONGSHORE_NODES_COUNT": 2})])
        self.run_job("files, thread multiple", [launch(2, [*words, "multiple"], {})])
        for form, finish, beside in file_requests(FLAVOUR):
            self.several_file_requests(3, form, finish, beside)

    @the_same_under_every_mpi
    @unittest.skipIf(FAKE or SET, "other memory")
    def test_memory(self):
        """Buffers whose memory comes and goes, shared ones and others; and shared memory that is used up."""
        for ranks, nodes, seed in ((2, 1, 1), (2, 2, 2), (4, 2, 3)):
            words = [program("memory"), str(seed), "400" if ranks == 2 else "100"]
            settings = {"LONGSHORE_NODES_COUNT": nodes}
            self.run_job(f"memory, {ranks} ranks, {nodes} nodes", [launch(ranks, words, settings)],
                         check=how_moved(shared_bytes_max=True, shared_refused=False, adopted_bytes=False))
        words = [program("memory"), "4", "400"]
        self.run_job("memory, moved by service processes",
                     [launch(2, words, {"LONGSHORE_WAIT_COOPERATIVE": "off"})], check=how_moved(mapped_by_ranks=False))
        self.run_job("memory, none of it shared", [launch(2, [*words, "plain"], {"LONGSHORE_MEMORY_ALIAS": "off"})],
                     check=how_moved(peer_copied_by_ranks=True, shared_bytes_max=False))
        for ranks, nodes in ((2, 1), (3, 2)):
            adopt = {"LONGSHORE_MEMORY_ALIAS": "adopt-at-once", "LONGSHORE_NODES_COUNT": nodes}
            self.run_job(f"memory, adopted at once, {ranks} ranks, {nodes} nodes",
                         [launch(ranks, [program("memory"), "5", "150"], adopt)],
                         check=how_moved(adopted_bytes=True))
        self.run_job("memory, shared memory used up", [launch(2, [*words, "scarce"], {"LONGSHORE_MEMORY_SHARED_BYTES_MAX": "1M"})],
                     check=how_moved(peer_copied_by_ranks=True, mapped_by_ranks=True, shared_refused=True),
                     expect="did not fit into the shared memory of their ranks (LONGSHORE_MEMORY_SHARED_BYTES_MAX=1M)")


@not_over_the_fake
@the_same_under_every_mpi
class Ways(Programs):
    """The ways that blocks can go, which are the same under every MPI."""

    def test_uncooperative(self):
        """Every program with all of the work left to the service processes, in smaller jobs."""
        for ranks, nodes in ((2, 1), (3, 2), (4, 4), (8, 4)):
            settings = {"LONGSHORE_NODES_COUNT": nodes, "LONGSHORE_WAIT_COOPERATIVE": "off"}
            max_bytes = "100000" if ranks == 2 else "1024"
            arguments = {"collectives": [max_bytes], "rooted": [max_bytes], "stress": ["2", "40"]}
            for name in PROGRAMS:
                if (ranks in (3, 8) or (ranks == 4 and not WHOLE)) and name not in CORE_PROGRAMS:
                    continue
                if ranks == 3 and not WHOLE:
                    continue
                words = [program(name), *arguments.get(name, [])]
                self.run_job(f"{name}, {ranks} ranks, {nodes} nodes, no cooperative wait",
                             [launch(ranks, words, settings)])

    def test_crossing(self):
        for ranks, nodes, placement in ((8, 4, "contiguous"), (8, 4, "strided"), (5, 2, "strided")):
            settings = {"LONGSHORE_NODES_COUNT": nodes, "LONGSHORE_NODES_PLACEMENT": placement}
            self.run_job(f"crossing, {ranks} ranks, {nodes} nodes, {placement}",
                         [launch(ranks, [program("crossing")], settings)], check=crossed_once)

    def test_late(self):
        self.run_job("late, 2 ranks, 2 nodes", [launch(2, [program("late")], {"LONGSHORE_NODES_COUNT": 2})],
                     check=counted_late)
        # Each service process has one rank; what comes to that of the late one is for the other, if that is there.
        self.run_job("late, 4 ranks, 2 nodes, 2 service processes", [launch(
            4, [program("late")], {"LONGSHORE_NODES_COUNT": 2, "LONGSHORE_SERVICE_COUNT": 2})], check=handed_on_late)

    def test_algorithms(self):
        """What service processes do in other ways than directly: every algorithm forced, and all through staging memory."""
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
                    words = [program(name), *arguments.get(name, [])]
                    self.run_job(f"{name}, {where}, {way}", [launch(ranks, words, settings | shape)],
                                 check=went(settings, ranks=ranks, nodes=nodes, cooperative=cooperative))

    def test_staging(self):
        """Memory modes: which one holds, blocks larger than the staging memory, staging memory that cannot be had."""
        words = [program("collectives"), "1048576"]
        nodes = {"LONGSHORE_NODES_COUNT": 2}
        self.run_job("collectives, larger than the staging memory", [launch(2, words, nodes | STAGING | SMALL)],
                     check=went(STAGING, ranks=2, nodes=2, cooperative=True))
        little = [program("collectives"), "1024"]
        closed = nodes | {"LONGSHORE_MEMORY_INACCESSIBLE": 1}
        self.run_job("collectives, memory inaccessible", [launch(2, little, closed)],
                     check=went(STAGING, ranks=2, nodes=2, cooperative=True))
        self.run_job("collectives, memory inaccessible, directly all the same",
                     [launch(2, little, closed | {"LONGSHORE_MEMORY_MODE": "direct"})], check=nothing_staged)
        # Private memory is limited to 8 GiB.
        for way, settings in {"staging": STAGING, "flat": FLAT, "hierarchical": HIERARCHICAL}.items():
            limited = ["sh", "-c", 'ulimit -d 8388608; exec "$@"', "sh", *little]
            self.run_job(f"collectives, no memory for staging, {way}",
                         [launch(4, limited, nodes | settings | {"LONGSHORE_STAGING_BYTES": "16G"})],
                         expect="a service process cannot have 16G of staging memory", check=nothing_staged)
        # A rank that lands its own block reads it itself, and ends as in any program.
        for way, settings in {"staging": STAGING, "flat": FLAT,
                              "hierarchical": HIERARCHICAL | {"LONGSHORE_WAIT_COOPERATIVE": "off"}}.items():
            self.run_job(f"unreadable memory, {way}", [launch(4, [program("offload_errors"), "unreadable"],
                                                                   nodes | settings)])

    def test_landing(self):
        """Blocks that land once on a node are written by its service processes once, not once for each rank."""
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
            self.run_job(f"landing, {ranks} ranks, {nodes} nodes, {way}",
                         [launch(ranks, [program("landing"), *argument],
                                      settings | {"LONGSHORE_NODES_COUNT": nodes})], check=look(way))

    def test_times(self):
        """When blocks moved, of ranks on one node."""
        for ranks in (2, 3):
            self.run_job(f"times, {ranks} ranks", [launch(ranks, [program("times")], {})])


@not_over_the_fake
class Device(Programs):
    def test_device(self):
        """Buffers in the memory of a device, by stand-ins for the runtimes that there are; whatever way the blocks go."""
        libraries = {"CUDA": "libcuda.so.1", "HIP 5": "libamdhip64.so.5", "HIP 6": "libamdhip64.so.6"}

        def one(name, ranks, nodes, way="", settings=None):
            words = [program("device"), BUILD / "tests/mpi/device" / libraries[name]]
            self.run_job(f"device memory, {name}, {ranks} ranks, {nodes} nodes{way}",
                         [launch(ranks, words, {"LONGSHORE_NODES_COUNT": nodes} | (settings or {}))],
                         check=all_offloaded("device", ranks))

        for name in libraries:
            one(name, 2, 1)
        one("CUDA", 2, 2)
        for ranks in (2, 3):
            stand_in = BUILD / "tests/mpi/device/libcuda.so.1"
            self.run_job(f"device memory, counted, {ranks} ranks",
                         [launch(ranks, [program("device"), stand_in, "count"], {})], check=packed_as_said(ranks))
        if FLAVOUR == "openmpi" or WHOLE:
            one("CUDA", 4, 2)
            one("CUDA", 4, 2, ", no cooperative wait", {"LONGSHORE_WAIT_COOPERATIVE": "off"})
            one("CUDA", 3, 2, ", hierarchical", HIERARCHICAL)
            one("CUDA", 3, 2, ", through staging memory", STAGING)


@not_over_the_fake
class Reduced(Programs):
    """For another release of an MPI that has been tested: two ranks, what depends on the MPI, each program once."""

    def test_ways_out(self):
        self.ways_out(((2, 1),))

    def test_sessions(self):
        self.sessions()

    def test_reduced(self):
        arguments = {"collectives": ["100000"], "rooted": ["100000"], "stress": ["1", "60"]}
        for name in PROGRAMS:
            self.run_job(f"{name}, 2 ranks", [launch(2, [program(name), *arguments.get(name, [])], {})])
        for name in ("collectives", "unseen", "communicators"):
            self.run_job(f"{name}, 2 ranks, 2 nodes", [launch(2, [program(name), *arguments.get(name, [])],
                                                                  {"LONGSHORE_NODES_COUNT": 2})])
        self.run_job("threads", [launch(2, [program("threads")], {})])
        if FLAVOUR == "mpich5":
            for level in ("single", "multiple"):
                self.run_job(f"looked at, thread {level}", [launch(2, [program("looked_at"), level], {})])
        for beside in ("offloaded", "message", "late"):
            self.several_file_requests(3, "all", "waitall", beside)
        collectives = [program("collectives"), "1024"]
        self.run_job("no cooperative wait", [launch(2, collectives, {"LONGSHORE_WAIT_COOPERATIVE": "off"})])
        shimmed, plain = launch(1, collectives, {}), launch(1, collectives, {}, preload=False)
        mixed = "some ranks of this job run without Longshore"
        self.run_job("mixed, rank 1 without", [shimmed, plain], offloaded=False, expect=mixed)
        self.run_job("mixed, rank 0 without", [plain, shimmed], offloaded=False, expect=mixed)
        other_build = launch(1, collectives, {"LONGSHORE_INTERNAL_BUILD": "0.0.9-test"})
        self.run_job("another build on rank 1", [shimmed, other_build], offloaded=False,
                     expect="another build of Longshore, 0.0.9-test")
        self.run_job("another build on rank 0", [other_build, shimmed], offloaded=False, expect="than rank 0, 0.0.9-test")
        later = launch(1, ["sh", "-c", 'sleep 0.5; exec "$@"', "sh", *collectives], {})
        self.run_job("rank 0 starts later", [later, shimmed])
        self.run_job("rank 1 starts later", [shimmed, later])
        if not OPENMPI:
            # Two nodes to the MPI and its launcher, with a proxy each; one to us.
            self.run_job("two nodes of hydra", [["-launcher", "fork", "-hosts", "one,two", "-ppn", "1",
                                               *launch(2, collectives, {})]])
        self.run_job("off on all", [launch(2, collectives, {"LONGSHORE_OFFLOAD": "off"})], offloaded=False,
                     reject="longshore:")
        self.run_job("no memory to pack in", [launch(2, [program("no_memory")], {})])
        stand_in = BUILD / "tests/mpi/device/libcuda.so.1"
        self.run_job("device memory", [launch(2, [program("device"), stand_in], {})], check=all_offloaded("device", 2))
        unreadable = [program("offload_errors"), "unreadable"]
        self.run_job("unreadable memory", [launch(2, unreadable, {})])
        self.run_job("unreadable memory, fatal", [launch(2, [*unreadable, "fatal"], {})], code=1,
                     reject="was not fatal")
