"""bigsort with one MPI: what it sorts, what it says of bad input, and what becomes of errors and deaths in mid-run.

    LONGSHORE_INTERNAL_TEST_BUILD=build LONGSHORE_INTERNAL_TEST_FLAVOUR=openmpi test_bigsort.py [Test.name]

What needs a mount or namespaces is skipped, and the reason said, where these cannot be made."""

import contextlib
import functools
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

STUDY = Path(__file__).resolve().parents[1] / "study.py"
TESTS = Path(__file__).resolve().parents[3] / "tests"
sys.path[:0] = [str(TESTS / "slow_disk"), str(TESTS / "cluster")]
import cluster  # noqa: E402
import slow_disk  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
MPI = os.environ.get("LONGSHORE_INTERNAL_TEST_FLAVOUR", "openmpi")
SORT, PEER, DATA = BUILD / f"bin/bigsort_{MPI}", BUILD / f"bin/bigsort_peer_{MPI}", BUILD / "bin/bigsort_data"
# Says so when memory is freed that an open operation of MPI uses.
OPEN_BUFFERS = ("env", f"LD_PRELOAD={BUILD}/examples/libopen_buffers_{MPI}.so")
# Before programs on several machines: the task processes of each are on the next.
FAR_TASKS = ("env", f"LD_PRELOAD={BUILD}/lib/liblongshore.so", "LONGSHORE_TASK_NODE=next")
LIMIT_S = 100
FINALIZE_LIMIT_S = 20  # of a rank that is to write its results before, and may wait for a core
WRITE_US = 2000  # of each write in runs that are broken off: long enough to be met


@functools.cache
def no_mounts():
    return slow_disk.missing()


@functools.cache
def no_machines():
    return cluster.missing()


def words(ranks, *options, peers=None, before=()):
    """Of an mpirun. As many peers as ranks where there is an offload. before: words before each program."""
    options = [str(option) for option in options]
    if peers is None:
        peers = ranks if "mpmd" in options or "auto" in options else 0
    first = [f"mpirun.{MPI}"]
    if MPI == "openmpi":
        first += ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    more = [":", "-np", str(peers), *before, str(PEER)] if peers else []
    return [*first, "-np", str(ranks), *before, str(SORT), *options, *more]


def processes_of(program, job):
    """Numbers of the job's processes that run a program; not of those that clean up."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            if (folder / "cmdline").read_bytes().split(b"\0")[0] != str(program).encode():
                continue
            pid = int(folder.name)
            if (folder / "comm").read_text().strip() != "bigsort_cleaner" and str(job).encode() in (folder / "environ").read_bytes():
                found.append(pid)
    return found


def all_processes():
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def holds_cycle_file(pid, folder):
    """Open for writing, that is: it is a process that writes temporary files."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                flags = int(re.search(r"flags:\t(\d+)", Path(f"/proc/{pid}/fdinfo/{name}").read_text()).group(1), 8)
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if path.startswith(str(folder)) and "/cycle" in path and flags & os.O_ACCMODE == os.O_WRONLY:
                    return True
    return False


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()

    def run_words(self, command, status=0):
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        said = done.stdout + done.stderr
        if status == 0:
            self.assertEqual(done.returncode, 0, said)
        else:
            self.assertNotEqual(done.returncode, 0, said)
        return said

    def sort(self, ranks, *options, status=0, peers=None):
        if "--temporary" not in options:
            options = ("--temporary", self.temporary, *options)
        return self.run_words(words(ranks, *options, peers=peers), status)

    def refused(self, text, *options, ranks=2, peers=None):
        said = self.sort(ranks, *options, status=None, peers=peers)
        self.assertRegex(said, text)
        self.assert_clean()

    def assert_clean(self, folder=None):
        """Soon: who removes files after a death is another process."""
        end = time.monotonic() + LIMIT_S
        while (left := os.listdir(folder or self.temporary)) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(left, [])

    def to_file(self):
        """Words before a program whose errors are to be found in a file: an mpirun that has ended hands nothing on, and who cleans
        up says why after that, where it has waited for a core."""
        (self.folder / "said").unlink(missing_ok=True)
        return ["sh", "-c", f'exec "$@" 2>>"{self.folder}/said"', "sh"]

    def assert_said(self, text, said):
        """By the job, or in that file."""
        end, file = time.monotonic() + LIMIT_S, self.folder / "said"
        while not re.search(text, all_said := said + (file.read_text() if file.exists() else "")):
            self.assertLess(time.monotonic(), end, f"{text} is not in:\n{all_said}")
            time.sleep(0.02)

    def kill_writer(self, command, folder, text):
        """The process that writes temporary files is killed while it does; the job says it, ends and leaves nothing."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
            try:
                end = time.monotonic() + LIMIT_S
                victims = []
                while not victims and time.monotonic() < end and job.poll() is None:
                    victims = [pid for pid in all_processes() if holds_cycle_file(pid, folder)] if self.ranks_that_sort() else []
                self.assertEqual(len(victims), 1)
                os.kill(victims[0], signal.SIGKILL)
                said = job.communicate(timeout=LIMIT_S)[0]
            finally:
                job.kill()
        self.assertNotEqual(job.returncode, 0)
        self.assert_said(text, said)
        self.assert_clean()

    def ranks_that_sort(self):
        """Those that are beyond their bin: a peer makes the files of a cycle before it gets the first page."""
        folders = set()
        for file in self.temporary.glob("*/cycle*"):
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_size > 0:
                    folders.add(file.parent)
        return len(folders)

    def mount(self, backing, *options):
        if no_mounts():
            self.skipTest(no_mounts())
        mount = slow_disk.Mount(backing, *options)
        self.addCleanup(mount.close)
        return mount


class Sorts(Case):
    def sort_file(self, ranks, total, *options, values="uniform"):
        """A file, by another program's judgement. Returns what --json says."""
        given, output, result = self.folder / "in", self.folder / "out", self.folder / "json"
        self.run_words([DATA, "generate", given, "--total", str(total), "--values", values, "--seed", "7"])
        self.sort(ranks, "--input", given, "--output", output, "--json", result, *options)
        said = self.run_words([DATA, "check", output, "--input", given])
        self.assertIn(f"{total // 8} values in ascending order", said)
        self.assert_clean()
        self.assertEqual(sorted(os.listdir(self.folder)), ["in", "json", "out", "temporary"])
        return json.loads(result.read_text())

    def test_sizes_that_do_not_divide(self):
        for offload, *sizes in (("none", 2, 8 * 12_345, 72, 360), ("mpmd", 2, 8 * 12_345, 72, 360), ("auto", 1, 8 * 65_536, 4096, 65_536),
                                ("none", 3, 8 * 1_001, 512, 1024), ("mpmd", 2, 8, 64, 128), ("auto", 3, 8 * 100, 4096, 8192)):
            ranks, total, page, dram = sizes
            with self.subTest(offload=offload, ranks=ranks, total=total, page=page, dram=dram):
                self.sort_file(ranks, total, "--page", page, "--dram", dram, "--offload", offload)

    def test_uneven_values(self):
        self.sort_file(3, 8 * 40_000, "--page", 512, "--dram", 4096, "--offload", "mpmd", values="skewed")
        self.sort_file(3, 8 * 40_000, "--page", 512, "--dram", 4096, values="few")

    def test_threads_and_files_ahead(self):
        self.sort_file(2, 1 << 20, "--page", 4096, "--dram", "32K", "--threads", 3, "--offload", "mpmd", "--files-max", 1)
        self.sort_file(2, 1 << 20, "--page", 4096, "--dram", "32K", "--threads", 2, "--offload", "mpmd", "--files-max", 1000)

    def test_cycles_are_those_of_the_paper(self):
        """64 MiB on a rank in pages of 8 KiB are 8,192 pages; here the pages are of 8 bytes."""
        for fan_in, cycles in ((16, 4), (32, 3), (64, 3), (128, 2)):
            with self.subTest(fan_in=fan_in):
                result = self.sort_file(1, 8192 * 8, "--page", 8, "--dram", 8 * fan_in)
                self.assertEqual((result["cycles"], result["pages_of_fullest_rank"]), (cycles, 8192))

    def test_values_are_unsigned(self):
        """What would be negative as signed integers comes last; help says which they are."""
        values = (1 << 63, 1, (1 << 64) - 1, 0)
        (self.folder / "in").write_bytes(struct.pack("=4Q", *values))
        self.sort(2, "--input", self.folder / "in", "--output", self.folder / "out")
        self.assertEqual(struct.unpack("=4Q", (self.folder / "out").read_bytes()), tuple(sorted(values)))
        self.assertIn("unsigned 64-bit integers", self.run_words([SORT, "--help"]))
        self.assertIn("unsigned 64-bit integers", self.run_words([DATA, "generate", "--help"]))

    def test_an_empty_input(self):
        (self.folder / "in").touch()
        self.sort(2, "--input", self.folder / "in", "--offload", "mpmd")
        self.assert_clean()

    def test_values_that_are_made_are_those_of_the_generator(self):
        self.run_words([DATA, "generate", self.folder / "in", "--total", "80000", "--seed", "3"])
        made = re.search("hash sum ([0-9a-f]+)", self.sort(2, "--total", 80_000, "--seed", 3)).group(1)
        self.assertIn(made, self.sort(1, "--input", self.folder / "in"))


class Checker(Case):
    def check(self, values, text, given=(1, 2, 3)):
        for name, some in (("in", given), ("out", values)):
            (self.folder / name).write_bytes(struct.pack(f"={len(some)}Q", *some))
        self.assertIn(text, self.run_words([DATA, "check", self.folder / "out", "--input", self.folder / "in"], status=None))

    def test_finds_what_is_wrong(self):
        self.check((1, 3, 2), "value 2 is smaller")
        self.check((1, 2), "has 2 values")
        self.check((1, 2, 3, 3), "has 4 values")
        self.check((1, 2, 4), "are not those of")
        self.check((1, 1, 4), "are not those of")
        (self.folder / "out").write_bytes(b"12345678123")
        self.assertIn("cut off", self.run_words([DATA, "check", self.folder / "out"], status=None))


class BadInput(Case):
    def test_options(self):
        self.refused("two pages", "--total", "1M", "--page", "8K", "--dram", "8K")
        self.refused("must be a multiple of the page", "--total", "1M", "--page", "8K", "--dram", "20K")
        self.refused("whole values", "--total", "1M", "--page", "100", "--dram", "20K")
        self.refused("multiple of 8", "--total", "1001")
        self.refused("give --total SIZE, or --input", "--page", "8K")
        self.refused("none|mpmd|tasks|auto", "--total", "1M", "--offload", "sideways", peers=2)
        self.refused("open files", "--total", "1M", "--page", "8", "--dram", "1G")

    def test_a_rank_that_may_open_too_few_files_says_so_itself(self):
        options = ["--temporary", self.temporary, "--total", "4M", "--page", "8K", "--dram", "4M"]
        few = ["sh", "-c", 'ulimit -n 200 && exec "$@"', "sh"]
        said = self.run_words([*words(1, *options), ":", "-np", "1", *few, *words(1, *options)[-1 - len(options):]], status=None)
        self.assertRegex(said, "rank 1: .*open files")
        self.assert_clean()

    def test_an_input_that_is_cut_off(self):
        given = self.folder / "in"
        given.write_bytes(b"x" * 1003)
        self.refused("cut off", "--input", given)

    def test_files(self):
        given = self.folder / "in"
        given.write_bytes(b"x" * 800)
        self.refused("--total says 1600", "--input", given, "--total", 1600)
        self.refused("No such file", "--input", self.folder / "nothing")
        self.refused("No such file", "--total", "1M", "--temporary", self.folder / "nowhere")
        self.refused("cannot make .*/out.unfinished: No such file", "--total", "1M", "--output", self.folder / "nowhere/out")

    def test_a_folder_that_only_the_second_rank_lacks_is_named(self):
        there, lacks = (["--total", "1M", "--temporary", folder] for folder in (self.temporary, self.folder / "nowhere"))
        said = self.run_words([*words(1, *there), ":", *words(1, *lacks)[-2 - len(lacks) - 1:]], status=None)
        self.assertRegex(said, "bigsort: rank 1: .*nowhere.*No such file")
        self.assert_clean()

    def test_a_study_that_is_ended_leaves_nothing(self):
        # On a disk of its own: other tests sort at the same time.
        words = [sys.executable, STUDY, "--mpi", MPI, "--systems", "disk", "--scratch", self.folder, "--total", "256M", "--contenders", "none,mpmd"]
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number), subprocess.Popen(words, env=os.environ | {"TMPDIR": str(self.folder)}, stdout=subprocess.PIPE,
                                                               stderr=subprocess.STDOUT, text=True) as job:
                found, limit = [], time.monotonic() + LIMIT_S
                while job.poll() is None and time.monotonic() < limit and not (found := self.temporaries()):
                    time.sleep(0.01)
                self.assertTrue(found, "nothing was sorted")
                job.send_signal(number)
                said = job.communicate(timeout=LIMIT_S)[0]
                self.assertEqual(job.returncode, 128 + number, said)
                self.assertNotIn("Traceback", said)
            self.assertEqual(list(self.folder.glob("bigsort-study-*")), [])

    def temporaries(self):
        """Files that the study's rank has begun to write."""
        return list(self.folder.glob("bigsort-study-*/*"))

    def test_a_study_looks_at_its_file_first(self):
        done = subprocess.run([sys.executable, STUDY, "--json", self.folder / "nowhere/study.json"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, "it cannot be written" in done.stderr), (2, True), done.stderr)

    def test_peers(self):
        self.refused("2 ranks need a peer each, there are 1", "--total", "1M", "--offload", "mpmd", peers=1)
        self.refused("no peer on another node", "--total", "1M", "--offload", "mpmd", "--placement", "other-node")
        self.refused("on the peer's side", "--total", "1M", "--offload", "mpmd", "--peer-temporary", "/nowhere")
        alone = [*words(2)[:-2], "2", PEER] if MPI == "mpich" else [*words(2)[:-1], PEER]
        self.assertIn("writes for bigsort", self.run_words(alone, status=None))

    def test_no_space(self):
        mount = self.mount(self.temporary, "--space", 3_000_000)
        said = self.sort(2, "--temporary", mount.path, "--total", "2M", status=None)
        self.assertRegex(said, r"no space for the temporary files in .*: they need 4\d+ bytes, \d+ are free")
        self.assert_clean()
        self.sort(2, "--temporary", mount.path, "--total", "1M")


class ErrorsInMidRun(Case):
    OPTIONS = ("--total", "1M", "--page", "4K", "--dram", "32K")

    def fails(self, failure, text, *options, ranks=1):
        mount = self.mount(self.temporary, "--fail", failure)
        said = self.sort(ranks, "--temporary", mount.path, *self.OPTIONS, *options, status=None)
        self.assertRegex(said, text)
        self.assert_clean()

    def test_a_full_disk(self):
        self.fails("write@200=ENOSPC", r"cannot write .*/bigsort-[^/]*/cycle0-\d+: No space left on device")
        self.fails("write@20=ENOSPC", r"cannot write .*/bin: No space left on device")
        self.fails("write@100-=ENOSPC", "No space left on device", ranks=2)

    def test_a_full_disk_at_the_peer(self):
        self.fails("write@200=ENOSPC", r"cannot write \(on the peer's side\) .*/cycle0-\d+: No space left", "--offload", "mpmd")
        self.fails("close@20=EDQUOT", r"cannot close \(on the peer's side\) .*/cycle0-\d+: Disk quota", "--offload", "mpmd")
        self.fails("open@20=EIO", r"cannot open \(on the peer's side\) .*/cycle0-\d+: Input/output", "--offload", "mpmd",
                   "--files-max", 4)

    def test_a_full_disk_at_the_peer_of_long_pages(self):
        """They are on their way while the peer fails: it may not free what they are received into."""
        mount = self.mount(self.temporary, "--fail", "write@80=ENOSPC")
        said = self.sort(1, "--temporary", mount.path, "--total", "64M", "--page", "64K", "--dram", "4M", "--offload", "mpmd", status=None)
        self.assertRegex(said, r"cannot write \(on the peer's side\) .*/cycle0-\d+: No space left")
        self.assert_clean()

    def test_memory_outlives_open_operations(self):
        nothing, peer_fails, rank_fails = (), ("--fail", "write@100=ENOSPC"), ("--fail", "read@40-=EIO")
        for rank, peer, text, *more in ((nothing, peer_fails, r"cannot write \(on the peer's side\)"),
                                        (rank_fails, nothing, "cannot read .*Input/output"),
                                        (nothing, ("--latency", "write=4000000"), "has not acknowledged", "--peer-limit", 1)):
            with self.subTest(text):
                ranks, peers = self.mount(self.temporary, *rank), self.mount(self.temporary, *peer)
                command = words(1, *self.OPTIONS, "--offload", "mpmd", "--temporary", ranks.path, "--peer-temporary", peers.path, *more,
                                before=OPEN_BUFFERS)
                said = self.run_words(command, status=None)
                self.assertRegex(said, text)
                self.assertNotIn("open_buffers", said)
                self.assert_clean()

    def test_a_file_that_cannot_be_read(self):
        self.fails("read@2-=EIO", r"cannot read .*: Input/output error")

    # The mount makes it slow, so that a process can be met while it writes.
    def killed(self, program, text, ranks=1, by=signal.SIGKILL, sizes=("--page", "4K", "--dram", "32K")):
        mount = self.mount(self.temporary, "--latency", f"write={WRITE_US}")
        mark = f"BIGSORT_TEST={self.folder}"
        command = ["env", mark, *words(ranks, "--temporary", mount.path, "--total", "16M", *sizes,
                                       "--offload", "mpmd", before=self.to_file())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
            try:
                end = time.monotonic() + LIMIT_S
                while self.ranks_that_sort() < ranks and time.monotonic() < end and job.poll() is None:
                    time.sleep(0.02)
                victims = processes_of(program, mark)
                self.assertEqual(len(victims), ranks)
                os.kill(victims[0], by)
                said = job.communicate(timeout=LIMIT_S)[0]
            finally:
                job.kill()
        self.assertNotEqual(job.returncode, 0)
        self.assert_said(text, said)
        self.assert_clean()

    def test_a_peer_that_is_stopped(self):
        """Its pages are so long that MPI sends none of them before the peer asks for it."""
        self.killed(PEER, r"the peer has not acknowledged a page of .*/cycle0-\d+ for 1 s", by=signal.SIGSTOP,
                    sizes=("--page", "256K", "--dram", "2M", "--peer-limit", "1"))

    def test_a_peer_that_dies(self):
        self.killed(PEER, r"(rank|the peer of rank) 0 ended before its time while .*/cycle\d-\d+ was being written")
        self.killed(PEER, r"ended before its time while .*/cycle\d-\d+ was being written", ranks=2)

    def test_a_rank_that_dies(self):
        self.killed(SORT, r"(rank|the peer of rank) 0 ended before its time while .*/cycle\d-\d+ was being written")

    def test_a_peer_that_is_silent(self):
        mount = self.mount(self.temporary, "--latency", "write=4000000")
        fast = self.mount(self.temporary)
        said = self.sort(1, "--temporary", fast.path, "--peer-temporary", mount.path, *self.OPTIONS, "--offload", "mpmd",
                         "--peer-limit", 1, status=None)
        self.assertRegex(said, r"the peer has not acknowledged a page of .*/cycle0-0 for 1 s")
        self.assert_clean()


class Offload(Case):
    def counts(self, *options, peers=None):
        """Calls on the rank's mount and on its peer's."""
        mounts = self.mount(self.temporary), self.mount(self.temporary)
        self.sort(1, "--temporary", mounts[0].path, "--peer-temporary", mounts[1].path, "--total", "1M", "--page", "4K",
                  "--dram", "32K", *options, peers=peers)
        self.assert_clean()
        return [mount.counts() for mount in mounts]

    def test_the_peer_writes_and_the_rank_reads(self):
        """256 pages in three cycles: 32, 4 and 1 files. The rank writes its bin, and the output."""
        alone, idle = self.counts("--offload", "none", peers=1)
        rank, peer = self.counts("--offload", "mpmd")
        self.assertEqual((idle["open"], idle["write"]), (0, 0))
        self.assertEqual((peer["open"], peer["write"], peer["close"], peer["read"]), (37, 3 * 256, 37, 0))
        self.assertEqual((peer["bytes_written"], rank["write"]), (3 << 20, alone["write"] - 3 * 256))
        self.assertEqual(rank["open"], alone["open"] - 37)

    def test_auto_takes_the_quicker(self):
        """Where the rank's own writes take 5 ms and the peer's none, and the other way round."""
        slow, fast = self.mount(self.temporary, "--latency", "write=5000"), self.mount(self.temporary)
        for rank, peer, offloads in ((slow, fast, 1), (fast, slow, 0)):
            path = self.folder / "json"
            for _ in range(5):  # until the quicker one does not wait for a core when it is tried
                self.sort(1, "--temporary", rank.path, "--peer-temporary", peer.path, "--total", "1M", "--page", "4K", "--dram", "16K",
                          "--offload", "auto", "--json", path)
                result = json.loads(path.read_text())
                tried = result["trial_of_rank_0_s"]
                self.assertEqual(result["offloaded_ranks"], tried["by_peer"] < 0.95 * tried["by_itself"], tried)
                self.assertGreater(tried["by_itself" if offloads else "by_peer"], 4 * 256 * 5e-3)  # four cycles of 256 pages
                if result["offloaded_ranks"] == offloads:
                    break
            self.assertEqual(result["offloaded_ranks"], offloads, tried)


class Tasks(Case):
    """A job of one process has no task processes: a rank that is alone has a peer beside it, which sleeps."""

    LONGSHORE = [str(BUILD / "bin/longshore"), "run", "-q", "--"]
    DEFAULTS = {"--total": "1M", "--page": "8K", "--dram": "128K", "--offload": "tasks"}

    def sort_with(self, before, options=None, temporary=None, status=0, ranks=1, peers=1):
        result = self.folder / "json"
        given = {"--temporary": temporary or self.temporary, **self.DEFAULTS, "--json": result, **(options or {})}
        command = [*before, *words(ranks, *[word for pair in given.items() for word in pair], peers=peers)]
        said = self.run_words(command, status)
        self.assert_clean()
        return said if status is None else json.loads(result.read_text())

    def test_inline_without_longshore(self):
        self.assertEqual(self.sort_with([])["tasks_of_rank_0"]["processes"], 0)

    def test_in_task_processes_without_a_copy(self):
        """128 pages in two cycles of 16 pages, four to a task; the page of a task that is set up is not counted."""
        tasks = self.sort_with(self.LONGSHORE)["tasks_of_rank_0"]
        self.assertEqual((tasks["processes"], tasks["bytes_copied"], tasks["bytes_mapped"]), (1, 0, 2 << 20))
        self.sort_with(self.LONGSHORE, {"--page": 72, "--dram": 360, "--total": 80_000}, ranks=2, peers=0)
        self.sort_with(self.LONGSHORE, {"--offload": "auto", "--dram": "64K"}, ranks=2, peers=0)

    def test_a_full_disk(self):
        for before in ([], self.LONGSHORE):
            mount = self.mount(self.temporary, "--fail", "write@200=ENOSPC")
            said = self.sort_with(before, temporary=mount.path, status=None)
            self.assertRegex(said, r"cannot write \(by a task\) .*/cycle\d-\d+: No space left")

    def test_a_task_process_that_dies(self):
        mount = self.mount(self.temporary, "--latency", f"write={WRITE_US}")
        command = [*self.LONGSHORE, *words(1, "--temporary", mount.path, "--offload", "tasks", "--dram", "128K", "--total", "16M", peers=1)]
        self.kill_writer(command, mount.path, r"cannot write .*/cycle\d-\d+ by a task")


class Machines(Case):
    """Ranks and the processes beside them on machines in namespaces."""

    def setUp(self):
        super().setUp()
        if no_machines():
            self.skipTest(no_machines())

    def words_on(self, nodes, options, ranks=1, before=(), on_dpus=False):
        """As many peers as ranks, one process on each machine; ranks come first."""
        given = {"--temporary": self.temporary, "--total": "1M", "--page": "4K", "--dram": "32K", **options}
        begin = nodes.mpirun([], 1, mpi=MPI, on_dpus=on_dpus)[:-1]
        sort = [SORT, *(word for pair in given.items() for word in pair)]
        return [str(word) for word in (*begin, ranks, *before, *sort, ":", "-np", ranks, *before, PEER)]

    def run_on(self, words, expected=None):
        """What a job says that succeeds, or whose error is `expected`. MPICH 4.0.2 hangs in some MPI_Finalize between machines,
        when all has been said."""
        last = re.compile(expected or "  checked: ")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
            watch = threading.Timer(LIMIT_S, job.kill)
            watch.start()
            said = []
            for line in job.stdout:
                said.append(line)
                if MPI == "mpich" and last.search(line):
                    watch.cancel()
                    watch = threading.Timer(FINALIZE_LIMIT_S, job.kill)
                    watch.start()
            watch.cancel()
        said = "".join(said)
        self.assertRegex(said, last)
        if MPI != "mpich":
            self.assertEqual(job.returncode != 0, expected is not None, said)
        return said

    def test_placements(self):
        with cluster.Cluster(4) as nodes:
            said = self.run_on(self.words_on(nodes, {"--offload": "mpmd", "--placement": "other-node"}, ranks=2))
            self.assertIn("--placement other-node", said)
            self.assert_clean()
            self.run_on(self.words_on(nodes, {"--offload": "mpmd", "--placement": "same-host"}, ranks=2), "no peer on the same node")
            self.assert_clean()

    def test_a_dpu(self):
        with cluster.Cluster(1, dpus=True) as nodes:
            said = self.run_on(self.words_on(nodes, {"--offload": "mpmd", "--placement": "dpu"}, on_dpus=True))
            self.assertIn("--placement dpu", said)
            self.assert_clean()

    def test_by_tasks_on_another_node(self):
        """The task process writes where the rank says that it sees the folder."""
        rank, other = self.mount(self.temporary), self.mount(self.temporary)
        with cluster.Cluster(2, offloads=True) as nodes:
            result = self.folder / "json"
            self.run_on(self.words_on(nodes, {"--temporary": rank.path, "--peer-temporary": other.path, "--offload": "tasks",
                                              "--json": result}, before=FAR_TASKS))
            self.assert_clean()
        tasks = json.loads(result.read_text())["tasks_of_rank_0"]
        self.assertEqual((tasks["processes"], tasks["bytes_mapped"]), (1, 0))
        self.assertEqual((other.counts()["write"], other.counts()["read"]), (3 * 256, 0))

    def test_a_full_disk(self):
        """Of the machine that writes: said by the rank, and nothing stays."""
        for offload, text, before in (("mpmd", r"cannot write \(on the peer's side\) .*/cycle0-\d+: No space left", ()),
                                      ("tasks", r"cannot write \(by a task\) .*/cycle0-\d+: No space left", FAR_TASKS)):
            with self.subTest(offload):
                rank, other = self.mount(self.temporary), self.mount(self.temporary, "--fail", "write@100=ENOSPC")
                with cluster.Cluster(2, offloads=True) as nodes:
                    words_here = self.words_on(nodes, {"--temporary": rank.path, "--peer-temporary": other.path, "--offload": offload,
                                                       "--placement": "other-node"}, before=before)
                    self.run_on(words_here, text)
                    self.assert_clean()

    def test_a_writer_that_dies(self):
        """A peer, and a task process, on another machine."""
        for offload, text, before in (("mpmd", r"ended before its time while .*/cycle\d-\d+ was being written", self.to_file()),
                                      # By the task that it was at, or by the next one, which finds nothing of those before.
                                      ("tasks", r"cannot write .*/cycle\d-\d+ by a task|cannot go on with .* of a process that died", FAR_TASKS)):
            with self.subTest(offload):
                mount = self.mount(self.temporary, "--latency", f"write={WRITE_US}")
                with cluster.Cluster(2, offloads=True) as nodes:
                    command = self.words_on(nodes, {"--temporary": mount.path, "--offload": offload, "--placement": "other-node",
                                                    "--total": "16M"}, before=before)
                    self.kill_writer(command, mount.path, text)
