"""The runs of 'longshore assess': each starts the program once, in turns without and with Longshore, and keeps what came of it."""

import contextlib
import filecmp
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ending

KINDS = ("without", "with")
UNSHARED = "unshared"  # with Longshore, and no block of malloc shared: only where a loss is to be explained
SETTINGS = {"without": ["offload=off"], "with": [], UNSHARED: ["memory_alias=off"]}
NAMES = {"without": "without Longshore", "with": "with Longshore", UNSHARED: "with Longshore and memory_alias=off"}
END_LIMIT_S = 60  # that a launcher has to end its ranks when it is asked to: it may wait for a core. Who asks again waits no longer
# Of each call, in the statistics.
COUNTS = ("calls", "offloaded", "bytes", "bytes_host", "bytes_by_service", "bytes_by_rank", "bytes_hidden")
CARRIED = ("posting_s", "waiting_s", "testing_s")
WAITS = ("waiting_s", "mpi_s", "mpi_waits_s", "uncarried_s")  # in which a rank waits for others that are late


class Failure(Exception):
    """Why the comparison stops. `keep`: it names files of the runs, which are left for the user."""

    def __init__(self, words, keep=False):
        super().__init__(words)
        self.keep = keep


def say(text):
    print(f"longshore assess: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def scratch_folder(parent):
    """A folder for what the runs write. Rank 0 writes its statistics there and may be on another machine, so it is made where the
    program is started: most clusters share such folders between machines, and none shares /tmp. It is gone at the end."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="assess-", suffix=".tmp", dir=Path(parent).resolve()))
    except OSError as error:
        where = "the current folder" if parent == "." else parent
        raise ending.Missing(f"no folder can be made in {where} ({error.strerror}): name one that the machines of all ranks share by "
                             "--scratch DIR") from None
    keep = False
    try:
        yield folder
    except Failure as failure:
        keep = failure.keep
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def run_to_end(command, **more):
    """Its exit code. Where this script is asked to end meanwhile, the command is, too, and is waited for."""
    with subprocess.Popen(command, **more) as child:
        try:
            return child.wait()
        except ending.Interrupted as by:
            if by.number != signal.SIGINT:  # Ctrl-C comes to both
                child.send_signal(by.number)
            for end in (child.terminate, child.kill):
                try:
                    child.wait(END_LIMIT_S)
                except (subprocess.TimeoutExpired, ending.Interrupted):
                    end()
            raise


def in_names(path):
    """As --stats and --trace take it, to whom %j and its like mean something."""
    return str(path).replace("%", "%%")


class Job:
    """One MPI job of a run: what it has counted, in seconds of a rank on average. Raises Failure where that cannot be used."""

    def __init__(self, path, of):
        try:
            self.stats = stats = json.loads(path.read_text(encoding="utf-8"))
            if not stats.get("complete", True):
                raise Failure(f"an MPI job of {of} ended without MPI_Finalize")
            self.seconds, self.ranks, self.advice = float(stats["wall_s"]), int(stats["ranks"]), list(stats["advice"])
            if self.seconds <= 0 or self.ranks <= 0:
                raise Failure(f"the statistics of {of} say that {self.ranks} ranks took {self.seconds:.6f} s: nothing can be compared")
            self.counts = {name: {key: row[key] for key in COUNTS} for name, row in stats["collectives"].items()}
            self.carried = self.in_calls(CARRIED)
            self.calls = self.in_calls([*CARRIED, "mpi_s"])
            self.waits = self.mean("mpi_waits_s", "mpi_tests_s")
            self.others = self.mean("uncarried_s", "other_s")
            self.other_calls = {name: row["s"] / self.ranks for name, row in stats["other_calls"].items()}
            self.other_counts = {name: {"calls": row["calls"]} for name, row in stats["other_calls"].items()}
            self.uncarried = {name: self.other_calls[name] for name, row in stats["other_calls"].items() if row["collective"]}
            self.latest_rank = int(stats["latest_rank"])
            self.waits_of_ranks = [sum(rank.get(key, 0) for key in WAITS) for rank in stats["rank_times"]]
        except ValueError:
            raise Failure(f"the statistics of {of} are not whole: is the disk full?") from None
        except (KeyError, TypeError, AttributeError) as error:
            lacks = f"lack {error}" if isinstance(error, KeyError) else "are none"
            raise Failure(f"the statistics of {of} {lacks}: are program and command served by the same Longshore ('longshore "
                          "doctor')?") from None
        self.trace = path.with_name(path.name.replace("stats", "trace", 1))

    def in_calls(self, names):
        return {call: sum(row.get(name, 0) for name in names) / self.ranks for call, row in self.stats["collectives"].items()}

    def mean(self, *names):
        """Of what rank_times has under these names."""
        return sum(rank.get(name, 0) for rank in self.stats["rank_times"] for name in names) / self.ranks


def added(tables):
    """One dictionary, the values of a name added up."""
    sums = {}
    for table in tables:
        for name, value in table.items():
            sums[name] = sums.get(name, 0) + value
    return sums


class Run:
    """One run of the program: its MPI jobs in their order, and copies of the files to compare."""

    def __init__(self, options, folder, kind, turn):
        self.called = f"run {turn + 1} {NAMES[kind]}"
        place = folder / f"{kind}-{turn + 1}"
        place.mkdir()
        work = place / "work" if options.folders else Path.cwd()
        work.mkdir(exist_ok=True)
        if options.setup and run_to_end(options.setup, shell=True, cwd=work, stdout=sys.stderr) != 0:
            raise Failure(f"--setup {options.setup!r} failed before {self.called}")
        # Each job of a script writes a file of its own.
        command = [options.longshore, "run", "-q", "--stats", f"{in_names(place)}/stats-%h-%p.json"]
        for text in options.set + SETTINGS[kind]:
            command += ["--set", text]
        # The trace of one run each: the page has room for no more.
        if options.output and kind in KINDS and turn == options.turns - 1:
            command += ["--trace", f"{in_names(place)}/trace-%h-%p.json"]
        code = run_to_end([*command, "--", *options.command], cwd=work, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        if code != 0:
            left = options.folders and any(work.iterdir())
            raise Failure(f"{self.called} ended with exit code {code}" + (f", see {work}" if left else ""), keep=left)
        # The folder is looked at for the first time: a network file system may show an older list again for a while.
        paths = sorted(place.glob("stats-*.json"), key=lambda path: path.stat().st_mtime_ns)
        if not paths:
            raise Failure(f"no statistics came to {folder.parent}. If a line above says that they cannot be written, rank 0's machine does "
                          "not have that folder: name one that all machines share by --scratch DIR. Else the program is none that calls "
                          "MPI_Finalize, or there is no shim for its MPI ('longshore doctor')")
        self.jobs = [Job(path, self.called) for path in paths]
        ends = [path.stat().st_mtime for path in paths]
        if any(end - job.seconds < end_before for end_before, end, job in zip(ends, ends[1:], self.jobs[1:])):
            raise Failure(f"{self.called} had {len(self.jobs)} MPI jobs at a time, whose times cannot be added up: assess each by itself")
        self.files = []
        for name in options.compare:
            if not (work / name).exists():
                raise Failure(f"--compare {name}: {self.called} has not written it")
            self.files.append(place / f"compare-{len(self.files)}")
            self.files[-1].write_bytes((work / name).read_bytes())

    @property
    def seconds(self):
        """Between MPI_Init and MPI_Finalize: starting the jobs is the launcher's."""
        return sum(job.seconds for job in self.jobs)

    @property
    def longest(self):
        return max(self.jobs, key=lambda job: job.seconds)

    @property
    def calls(self):
        """Seconds in each call of a kind that Longshore carries."""
        return added(job.calls for job in self.jobs)

    @property
    def carried(self):
        """Of these, seconds in calls that it has carried."""
        return sum(sum(job.carried.values()) for job in self.jobs)

    @property
    def waits(self):
        """In waits for requests of the MPI's own, and in tests of them."""
        return sum(job.waits for job in self.jobs)

    @property
    def others(self):
        """In calls that Longshore does not carry."""
        return sum(job.others for job in self.jobs)

    @property
    def other_calls(self):
        """The same by call."""
        return added(job.other_calls for job in self.jobs)

    @property
    def uncarried(self):
        """Of these the collectives."""
        return added(job.uncarried for job in self.jobs)

    @property
    def in_collectives(self):
        return sum(self.calls.values()) + self.waits

    def counts(self, name):
        return added(job.counts.get(name) or job.other_counts.get(name, {}) for job in self.jobs)


def run_once(options, folder, runs, kind, turn):
    """Adds one run to runs[kind]."""
    run = Run(options, folder, kind, turn)
    runs[kind].append(run)
    first = runs["without"][0] if runs["without"] else run
    if len(run.jobs) != len(first.jobs):
        raise Failure(f"the numbers of MPI jobs differ: {len(run.jobs)} in {run.called}, {len(first.jobs)} in {first.called}")
    say(f"{run.seconds:.3f} s" + (f" in {len(run.jobs)} MPI jobs" if len(run.jobs) > 1 else ""))
    for name, mine, other in zip(options.compare, run.files, first.files):
        if not filecmp.cmp(mine, other, shallow=False):
            raise Failure(f"{name} of {run.called} differs from that of the first run "
                          f"without: see {mine} and {other}", keep=True)


def run_all(options, folder):
    runs = {kind: [] for kind in KINDS}
    begin = time.monotonic()
    for turn in range(options.turns):
        for kind in KINDS if turn % 2 == 0 else KINDS[::-1]:
            say(f"turn {turn + 1} of {options.turns}, {NAMES[kind]}")
            run_once(options, folder, runs, kind, turn)
        if turn == 0 and options.turns > 1:
            left = (options.turns - 1) * (time.monotonic() - begin)
            say(f"the other turns will take about {left:.0f} s")
    return runs


def run_unshared(options, folder, runs):
    """As many runs more, with no block of malloc shared."""
    say(f"the program lost outside of MPI, and shared memory may be the reason: {options.turns} more runs {NAMES[UNSHARED]}")
    runs[UNSHARED] = []
    for turn in range(options.turns):
        run_once(options, folder, runs, UNSHARED, turn)
