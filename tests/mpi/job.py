"""MPI jobs under Longshore for the tests that meddle with their processes. Each test has a copy of longshored of its
own, so it finds its service processes by their program and no other job's."""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from collectives import DIRECT  # noqa: E402

BUILD = pathlib.Path(os.environ["LONGSHORE_INTERNAL_TEST_BUILD"])
FLAVOUR = os.environ["LONGSHORE_INTERNAL_TEST_FLAVOUR"]
SHIM = BUILD / "lib" / "liblongshore.so"
BUSY_S = 60  # within which what is to happen does, on a machine that is busy with other things
MARK = "LONGSHORE_INTERNAL_TEST_MARK"  # in the environment of everything a job starts


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def program_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def mpirun(ranks):
    """The words before the program."""
    program = os.environ.get("LONGSHORE_INTERNAL_TEST_MPIRUN", f"mpirun.{FLAVOUR}")
    if not FLAVOUR.startswith("openmpi"):
        return [program, "-np", str(ranks)]
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [program, *as_root, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", str(ranks)]


def undocumented(stats):
    """The names in a file of LONGSHORE_STATS that its page does not have. Names that the program gives (calls, reasons) are not looked at."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "statistics.md").read_text()

    def names_of(value, key=""):
        if isinstance(value, list):
            return {name for one in value for name in names_of(one)}
        if not isinstance(value, dict):
            return set()
        own = set() if key in ("reasons", "algorithms", "passed") else {name for name in value if not name.startswith("MPI_")}
        return own.union(*(names_of(one, name) for name, one in value.items()))

    return {name for name in names_of(stats) if f"`{name}`" not in page}


class Job:
    """One mpirun, started at once; its output goes to a file."""

    def __init__(self, test, ranks, words, *, nodes=0, before=(), preload=(SHIM,), forced=DIRECT, piped=False, **settings):
        self.test = test
        self.begin = time.monotonic()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        settings = {"LONGSHORE_SERVICE_PATH": str(test.longshored), MARK: test.folder.name,
                    **({"LONGSHORE_NODES_COUNT": str(nodes)} if nodes else {}), **forced, **settings}
        self.command = [*mpirun(ranks), *map(str, before), "env", *(f"{k}={v}" for k, v in settings.items()),
                        f"LD_PRELOAD={':'.join(map(str, preload))}", *map(str, words)]
        self.output_path = test.folder / f"output-{len(os.listdir(test.folder))}"
        with open(self.output_path, "wb") as file:
            # `piped`: as into a pager.
            reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file) if piped else None
            output = reader.stdin if reader else file
            self.process = subprocess.Popen(self.command, env=kept | {MARK: test.folder.name}, stdout=output,
                                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        if reader:
            reader.stdin.close()
            test.addCleanup(reader.wait)
        self.reader = reader

    @property
    def output(self):
        return self.output_path.read_text(errors="replace")

    def wait(self, limit_s):
        """The exit status, or None if it does not end in time."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def describe(self):
        return " ".join(self.command) + "\n" + self.output[-4000:]


class Steady(Job):
    """tests/mpi/steady.cc, which runs until it is told to stop."""

    def __init__(self, test, ranks, *, block=256 * 1024, alone=False, **more):
        self.ranks = ranks
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="steady-", dir=test.folder))
        super().__init__(test, ranks, [test.program("steady"), self.folder, block] + ["alone"] * alone, **more)

    def steps(self):
        """The steps that every rank has made."""
        try:
            found = (self.folder / "progress").read_bytes()
        except OSError:
            found = b""
        return struct.unpack(f"={self.ranks}Q", found.ljust(8 * self.ranks, b"\0"))

    def wait_for_steps(self, more):
        """Until every rank has made so many more steps than the fastest has now."""
        wanted = max(self.steps()) + more
        self.test.wait_for(lambda: min(self.steps()) >= wanted, lambda: f"{more} more steps\n{self.describe()}")

    def hold(self, rank):
        """Returns when that rank has ended a step and enters nothing more."""
        (self.folder / f"sleep.{rank}").touch()
        self.test.wait_for((self.folder / f"asleep.{rank}").exists, self.describe)

    def release(self, rank):
        (self.folder / f"asleep.{rank}").unlink()
        (self.folder / f"sleep.{rank}").unlink()

    def pause(self):
        """Returns when all ranks have ended a step and wait."""
        (self.folder / "pause").touch()
        self.test.wait_for((self.folder / "paused").exists, self.describe)
        (self.folder / "paused").unlink()

    def resume(self):
        (self.folder / "pause").unlink()

    def status(self):
        """What `longshore status` says of this job, None if nothing; and of all processes of jobs on this machine."""
        done = subprocess.run([BUILD / "bin" / "longshore", "status", "--json"], capture_output=True, text=True, timeout=BUSY_S,
                              check=True)
        said = json.loads(done.stdout)
        own = [one for one in said["jobs"] if str(self.folder) in one["program"]]
        self.test.assertLessEqual(len(own), 1, done.stdout)
        return own[0] if own else None, said["processes"]

    def finish(self):
        """The exit status of the job that is told to stop."""
        (self.folder / "stop").touch()
        return self.wait(BUSY_S)


class JobTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ls-test-"))
        self.longshored = self.folder / "longshored"
        shutil.copy(BUILD / "bin" / "longshored", self.longshored)
        self.addCleanup(shutil.rmtree, self.folder)
        # What is found there is this test's, whatever else runs on this machine.
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        environment = unittest.mock.patch.dict(os.environ, TMPDIR=str(self.temporary))
        environment.start()
        self.addCleanup(environment.stop)
        self.addCleanup(self.end_everything)
        self.files_before = self.own_files()

    def program(self, name):
        return BUILD / "tests" / "mpi" / FLAVOUR / f"mpi_{name}_{FLAVOUR}"

    def by_tcp(self):
        """Settings with which emulated nodes reach each other by TCP."""
        part = BUILD / "lib" / "longshore-tcp.so"
        if not part.exists():
            self.skipTest("built without OpenSSL")
        if not (self.folder / part.name).exists():
            (self.folder / part.name).symlink_to(part)
        return {"LONGSHORE_INTERNAL_NETWORK_ALWAYS": 1, "LONGSHORE_NETWORK": "tcp"}

    def by_ucx(self):
        """Settings with which emulated nodes reach each other by UCX."""
        part = BUILD / "lib" / "longshore-ucx.so"
        if not part.exists():
            self.skipTest("built without UCX")
        return {"LONGSHORE_INTERNAL_NETWORK_ALWAYS": "1", "LONGSHORE_INTERNAL_NETWORK": str(part), "LONGSHORE_UCX_TLS": "tcp,self"}

    def services(self, role=b"sp"):
        own = str(self.longshored)
        return [pid for pid in processes() if program_of(pid) == own and words_of(pid)[1:2] == [role]]

    def ranks(self, name):
        own = os.path.realpath(self.program(name))
        mark = f"{MARK}={self.folder.name}".encode()
        found = []
        for pid in processes():
            if program_of(pid) != own:
                continue
            try:
                if mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
            except OSError:
                pass
        return found

    def everything(self):
        """All that still runs of this test's jobs: service processes by program, the rest by environment."""
        own, mark = str(self.longshored), f"{MARK}={self.folder.name}".encode()
        found = []
        for pid in processes():
            if pid == os.getpid():
                continue
            try:
                if program_of(pid) == own or mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
            except OSError:
                pass
        return found

    def end_everything(self):
        for pid in self.everything():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def own_files(self):
        """Its memory has no names: check.symbols sees that it makes none in /dev/shm."""
        return set(self.temporary.glob("*longshore*"))

    def wait_for(self, condition, what):
        """Returns what the condition gives. `what` may be a function that makes the text."""
        end = time.monotonic() + BUSY_S
        while not (result := condition()):
            if time.monotonic() > end:
                self.fail(f"not within {BUSY_S} s: {what() if callable(what) else what}")
            time.sleep(0.005)
        return result

    def check_nothing_left(self, limit_s=BUSY_S):
        def gone():
            return not self.everything()
        end = time.monotonic() + limit_s
        while not gone() and time.monotonic() < end:
            time.sleep(0.02)
        left = [(pid, program_of(pid), b" ".join(words_of(pid)).decode()) for pid in self.everything()]
        self.assertFalse(left, f"processes still run {limit_s} s after the job")
        self.assertFalse(self.own_files() - self.files_before, "files were left behind")
