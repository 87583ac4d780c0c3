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
END_LIMIT_S = 10  # that a launcher has to end its ranks when it is asked to


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


class Run:
    """One run of the program: its wall time, its statistics, its trace and copies of the files to compare."""

    def __init__(self, options, folder, kind, turn):
        self.kind, self.turn = kind, turn
        self.place = folder / f"{kind}-{turn + 1}"
        self.place.mkdir()
        work = self.place / "work" if options.folders else Path.cwd()
        work.mkdir(exist_ok=True)
        if options.setup and run_to_end(options.setup, shell=True, cwd=work, stdout=sys.stderr) != 0:
            raise Failure(f"--setup {options.setup!r} failed before run {turn + 1} {kind} Longshore")
        stats, trace = self.place / "stats.json", self.place / "trace.json"
        command = [options.longshore, "run", "-q", "--stats", in_names(stats)]
        for text in options.set:
            command += ["--set", text]
        if kind == "without":
            command += ["--set", "offload=off"]
        # The trace of one run each: the page has room for no more.
        if options.output and turn == options.turns - 1:
            command += ["--trace", in_names(trace)]
        begin = time.monotonic()
        code = run_to_end([*map(str, command), "--", *options.command], cwd=work, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        self.wall_s = time.monotonic() - begin
        if code != 0:
            left = options.folders and any(work.iterdir())
            raise Failure(f"run {turn + 1} {kind} Longshore ended with exit code {code}" + (f", see {work}" if left else ""), keep=left)
        if not stats.exists():
            raise Failure(f"no statistics came to {folder.parent}. Either rank 0's machine does not have that folder: name one that all "
                          "machines share by --scratch DIR. Or the program is none that calls MPI_Finalize, or there is no shim for "
                          "its MPI ('longshore doctor')")
        self.stats = json.loads(stats.read_text(encoding="utf-8"))
        self.trace = trace if trace.exists() else None
        self.files = []
        for name in options.compare:
            if not (work / name).exists():
                raise Failure(f"--compare {name}: run {turn + 1} {kind} Longshore has not written it")
            self.files.append(self.place / f"compare-{len(self.files)}")
            self.files[-1].write_bytes((work / name).read_bytes())

    @property
    def seconds(self):
        """Between MPI_Init and MPI_Finalize: starting the job is the launcher's."""
        return self.stats["wall_s"]


def run_all(options, folder):
    runs = {kind: [] for kind in KINDS}
    begin = time.monotonic()
    for turn in range(options.turns):
        for kind in KINDS if turn % 2 == 0 else KINDS[::-1]:
            say(f"turn {turn + 1} of {options.turns}, {kind} Longshore")
            run = Run(options, folder, kind, turn)
            runs[kind].append(run)
            say(f"{run.seconds:.3f} s")
            if run.files:
                first = runs[KINDS[0]][0] if runs[KINDS[0]] else run
                for name, mine, other in zip(options.compare, run.files, first.files):
                    if not filecmp.cmp(mine, other, shallow=False):
                        raise Failure(f"{name} of run {turn + 1} {kind} Longshore differs from that of the first run "
                                      f"without: see {mine} and {other}", keep=True)
        if turn == 0 and options.turns > 1:
            left = (options.turns - 1) * (time.monotonic() - begin)
            say(f"the other turns will take about {left:.0f} s")
    return runs
