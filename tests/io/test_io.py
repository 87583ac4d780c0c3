"""Files that are written behind, with real MPI jobs: the same bytes and answers as without, errors that reach the program
or the user, and writers and ranks that are killed."""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "mpi"))
sys.path.insert(0, str(TESTS / "slow_disk"))
import job  # noqa: E402
import slow_disk  # noqa: E402
from processes import stop  # noqa: E402

PROGRAMS = job.BUILD / "tests" / "io" / job.FLAVOUR
LIBRARY = job.BUILD / "lib" / "liblongshore-io.so"
HISTORIES = int(os.environ.get("LONGSHORE_INTERNAL_TEST_HISTORIES", "1000"))
# Without them UCX leaves mmap alone, so that files that are open for reading, too, are written behind.
NO_HOOKS = {"UCX_MEM_EVENTS": "n", "UCX_MEM_MMAP_HOOK_MODE": "none"}
# Rank 1 does not have the library of files.
ONE_WITHOUT = """rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
test "$rank" = 0 || export LD_PRELOAD=$ONE_WITHOUT_SHIM
exec "$@"
"""
LIMIT_S = 400  # of a job, where other programs have the machine: a thousand histories can take minutes
STEADY_FILES = 200  # of each rank in all, checkpoint.c
LOST = 74  # the exit status of a program that does not know that something was not written


def data_of(rank, number, count):
    """What checkpoint.c writes."""
    period = bytes((at * 31 + (at >> 8) * 7 + rank * 101 + number * 13) & 255 for at in range(65536))
    return (period * (count // len(period) + 1))[:count]


class WriteBehind(job.JobTest):
    def setUp(self):
        super().setUp()
        self.files = self.folder / "files"
        self.files.mkdir()

    def start(self, ranks, mode, *words, program="checkpoint", folder=None, patterns=None, before=(), **settings):
        folder = folder or self.files
        settings = {"LONGSHORE_WRITE_BEHIND": patterns or f"{folder}/*.ckpt", "LONGSHORE_INTERNAL_IO_MEMORY": "1",
                    "LONGSHORE_LOG": "info", **settings}
        return job.Job(self, ranks, [PROGRAMS / program, *([mode] if mode else []), folder, *words],
                       before=before, preload=(job.SHIM, LIBRARY), **settings)

    def run_mode(self, ranks, mode, *words, status=0, **more):
        running = self.start(ranks, mode, *words, **more)
        self.assertEqual(running.wait(LIMIT_S), status, running.describe())
        self.check_nothing_left()
        return running.output

    def check_files(self, ranks, what, numbers, count, said=None, folder=None):
        for rank in range(ranks):
            for number in range(numbers):
                path = (folder or self.files) / f"{said or what}.{rank}.{number}.ckpt"
                self.assertEqual(path.read_bytes(), data_of(rank, number, count), path)

    def written(self, output):
        """Files and bytes that were written behind, and what else is said of them."""
        found = re.search(r"written behind: (\d+) files, (\d+) bytes; at most .* for the disk(.*)", output)
        self.assertTrue(found, output)
        return int(found[1]), int(found[2]), found[3]

    # --- the same bytes

    def test_checkpoints(self):
        output = self.run_mode(3, "checkpoints", 1 << 20, 3)
        self.check_files(3, "all", 3, 1 << 20)
        self.assertEqual(self.written(output), (9, 9 << 20, ""))

    def test_more_than_may_wait(self):
        output = self.run_mode(2, "checkpoints", 5_000_000, 2, LONGSHORE_WRITE_BEHIND_BYTES_MAX="1M")
        self.check_files(2, "all", 2, 5_000_000)
        self.assertEqual(self.written(output), (4, 20_000_000, ""))

    def test_relative_paths_and_several_patterns(self):
        running = job.Job(self, 2, [PROGRAMS / "checkpoint", "checkpoints", "files", 1 << 16, 1], before=("env", "-C", self.folder),
                          preload=(job.SHIM, LIBRARY), LONGSHORE_INTERNAL_IO_MEMORY="1", LONGSHORE_LOG="info",
                          LONGSHORE_WRITE_BEHIND=f"{self.folder}/absent/*:{self.files}/all.[0-9].?.ckpt")
        self.assertEqual(running.wait(60), 0, running.describe())
        self.assertEqual(self.written(running.output)[0], 2)
        self.assertIn(f"--write-behind {self.folder}/absent/* matched no file", running.output)
        self.check_files(2, "all", 1, 1 << 16)

    def test_programs_that_change_their_folder(self):
        output = self.run_mode(2, "moving", 1 << 16, 4)
        self.assertEqual(self.written(output), (8, 8 << 16, ""))
        for rank in range(2):
            for number in range(4):
                self.assertEqual((self.files / f"moving.{rank}.{number}.ckpt").read_bytes(), data_of(rank, 0, 1 << 16))

    def test_streams(self):
        output = self.run_mode(2, "streams", 1 << 18, 3, **NO_HOOKS)
        self.check_files(2, "all", 3, 1 << 18)
        files, count, why = self.written(output)
        self.assertEqual((files, why), (6, ""))
        self.assertGreaterEqual(count, 6 << 18)

    def test_streams_that_are_not_closed(self):
        self.start(2, "unclosed", 300_007).wait(120)
        self.check_nothing_left()
        self.check_files(2, "unclosed", 1, 300_007)

    def test_statistics(self):
        path = self.folder / "stats.json"
        disk = self.mount("--rate", 8_000_000, "--burst", 100_000)  # else there may be room at all times
        self.run_mode(2, "checkpoints", 1 << 20, 2, folder=disk, LONGSHORE_STATS=str(path),
                      LONGSHORE_WRITE_BEHIND_BYTES_MAX="1M")
        found = json.loads(path.read_text())["write_behind"]
        self.assertEqual((found["files"], found["bytes"], found["bound_bytes"]), (4, 4 << 20, 1 << 20))
        self.assertEqual((found["refused"], found["passed"]), ("", {}))
        self.assertGreater(found["waiting_bytes_max"], 0)
        self.assertLessEqual(found["waiting_bytes_max"], 1 << 20)
        self.assertGreater(found["waits"], 0)  # for room
        self.assertGreater(found["waited_s"], 0)

    def test_memory_is_taken_before_it_is_needed(self):
        bound = 32 << 20
        running = job.Job(self, 2, [PROGRAMS / "saver", "stdio", self.files, 1000, 1, 600, "wait"], preload=(job.SHIM, LIBRARY),
                          LONGSHORE_INTERNAL_IO_MEMORY="1", LONGSHORE_WRITE_BEHIND=f"{self.files}/*.ckpt",
                          LONGSHORE_WRITE_BEHIND_BYTES_MAX=str(bound))

        def mapped():
            """Bytes of shared memory that the writer has."""
            found = [re.search(r"RssShmem:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text()) for pid in self.writers()]
            return sum(1024 * int(one[1]) for one in found if one)
        self.wait_for(lambda: mapped() >= 2 * bound or running.process.poll() is not None, running.describe)
        self.assertIsNone(running.process.poll(), running.describe())

    def test_a_rank_without_a_queue(self):
        running = job.Job(self, 2, ["sh", "-c", ONE_WITHOUT, "sh", PROGRAMS / "checkpoint", "checkpoints", self.files, 1 << 16, 1],
                          preload=(job.SHIM, LIBRARY), LONGSHORE_INTERNAL_IO_MEMORY="1", LONGSHORE_WRITE_BEHIND=f"{self.files}/*.ckpt",
                          LONGSHORE_STATS=str(self.folder / "stats.json"), ONE_WITHOUT_SHIM=str(job.SHIM))
        self.assertEqual(running.wait(60), 0, running.describe())
        self.check_files(2, "all", 1, 1 << 16)
        self.assertIn("the program writes its files itself: another rank has no queue", running.output)
        self.assertNotIn("matched no file", running.output)
        found = json.loads((self.folder / "stats.json").read_text())["write_behind"]
        self.assertEqual((found["files"], found["refused"]), (0, "another rank has no queue for what it writes"))

    def test_numpy_and_hdf5(self):
        python = "/usr/bin/python3"  # that of make deps-test
        if subprocess.run([python, "-c", "import numpy, h5py"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{python} has no numpy or no h5py (Debian: python3-numpy python3-h5py)")
        linked = subprocess.run(["ldd", PROGRAMS / "saver"], capture_output=True, text=True, check=True).stdout
        library = re.search(r"=> (\S*/libmpi(?:ch)?\.so\S*)", linked)[1]
        plain = self.folder / "plain"
        plain.mkdir()
        for kind, ending in (("numpy", "npy"), ("hdf5", "h5")):
            for folder in (self.files, plain):
                running = job.Job(self, 2, [python, TESTS / "io" / "saver.py", kind, folder, 800_000, 2, 0, "wait", library],
                                  preload=(job.SHIM, LIBRARY), LONGSHORE_INTERNAL_IO_MEMORY="1", LONGSHORE_LOG="info",
                                  LONGSHORE_WRITE_BEHIND=f"{self.files}/*", **NO_HOOKS)
                self.assertEqual(running.wait(120), 0, running.describe())
                if folder == self.files:
                    files, count, why = self.written(running.output)
                    self.assertEqual((files, why), (4, ""), running.describe())
                    self.assertGreater(count, 4 * 800_000)
            names = sorted(path.name for path in plain.glob(f"*.{ending}"))
            self.assertEqual(len(names), 4)
            for name in names:
                self.assertEqual((self.files / name).read_bytes(), (plain / name).read_bytes(), name)

    def test_threads(self):
        output = self.run_mode(2, "threads", 1 << 18)
        self.check_files(2, "thread", 4, 1 << 18)
        self.assertEqual(self.written(output)[:2], (8, 8 << 18))

    def test_other_ranks_see_all(self):
        self.assertIn("opened twice, or by several ranks", self.run_mode(3, "shared", 3 << 18))

    def test_children_names_and_mappings(self):
        output = self.run_mode(2, "family", 1 << 20)
        for name in ("renamed", "link"):
            self.check_files(2, name, 1, 1 << 20)
        self.assertIn("2 shared with a child or another program", output)
        self.assertRegex(output, "2 mapped|2 open for reading, too, where the MPI watches mmap")

    def test_what_is_not_understood_is_left_to_the_program(self):
        path = self.folder / "stats.json"
        self.run_mode(2, "others", 3000, LONGSHORE_STATS=str(path))
        self.check_files(2, "way", 15, 3000)
        found = json.loads(path.read_text())["write_behind"]
        # Of each rank: sendfile, copy_file_range, splice, sendmsg, /proc and asynchronous I/O; three locks; two programs that
        # inherit the descriptor; dprintf; O_SYNC and O_DSYNC.
        self.assertEqual(found["passed"], {"used by another call": 12, "locked": 6, "shared with a child or another program": 4,
                                           "used by stdio": 2, "opened for direct or synchronous writes": 4})
        self.assertEqual(found["files"], 26)  # all but the last

    def test_mpi_io(self):
        output = self.run_mode(3, "mpi_io", 100_000)
        parts = b"".join(data_of(rank, 0, 100_000) for rank in range(3))
        self.assertEqual((self.files / "mpi_io.ckpt").read_bytes(), parts + parts)
        self.assertIn("by several ranks", output)

    def test_what_is_in_memory_passes_through(self):
        folder = pathlib.Path("/dev/shm") / self.folder.name
        folder.mkdir()
        try:
            output = self.run_mode(2, "checkpoints", 1 << 16, 1, folder=folder, LONGSHORE_INTERNAL_IO_MEMORY="")
            self.check_files(2, "all", 1, 1 << 16, folder=folder)
            self.assertIn("; written by the program: 2 in memory", output)
        finally:
            subprocess.run(["rm", "-r", folder], check=True)

    def test_random_histories(self):
        for name in ("behind", "plain"):
            (self.files / name).mkdir()
        seed = int(os.environ.get("LONGSHORE_INTERNAL_TEST_SEED", "1"))
        output = self.run_mode(2, "", seed, HISTORIES // 2, program="histories", patterns=f"{self.files}/behind/*",
                               LONGSHORE_WRITE_BEHIND_BYTES_MAX="1M", **NO_HOOKS)
        files, count, why = self.written(output)
        self.assertGreater(files, HISTORIES, "few files were written behind")
        self.assertGreater(count, 1000 * HISTORIES)
        for said in ("append", "opened twice", "shared with a child"):
            self.assertIn(said, why)

    # --- those who are killed

    def writers(self):
        return self.services(b"writer")

    def kill_writers(self, running, seed, progress, last):
        """At moments of what `progress` counts, up to `last`."""
        draw = random.Random(seed)
        killed = 0
        for _ in range(int(os.environ.get("LONGSHORE_INTERNAL_TEST_MOMENTS", "6"))):
            wanted = min(progress() + draw.randint(1, 2000), last)
            self.wait_for(lambda: progress() >= wanted or running.process.poll() is not None, running.describe)
            for pid in self.writers():
                with contextlib.suppress(ProcessLookupError):  # it dies just now of the signal before
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        return killed

    def test_a_writer_that_is_killed(self):
        running = self.start(2, "steady", 300_007, LONGSHORE_SERVICE_RESTARTS_MAX="1000", LONGSHORE_WRITE_BEHIND_BYTES_MAX="1M")

        def kilobytes():
            return sum(path.stat().st_size for path in self.files.iterdir()) // 1000
        self.assertGreater(self.kill_writers(running, 7, kilobytes, 2 * STEADY_FILES * 300_007 // 1000), 0)
        (self.files / "stop").touch()
        self.assertEqual(running.wait(120), 0, running.describe())
        self.assertIn("was lost (signal 9); it is started again", running.output)
        for rank, numbers in re.findall(r"rank (\d+) wrote (\d+) files", running.output):
            for number in range(int(numbers)):
                self.assertEqual((self.files / f"steady.{rank}.{number}.ckpt").read_bytes(), data_of(int(rank), 0, 300_007))
        self.check_nothing_left()

    def test_random_histories_with_a_writer_that_is_killed(self):
        for name in ("behind", "plain"):
            (self.files / name).mkdir()
        running = self.start(2, "", 1_000_000, HISTORIES // 4, program="histories", patterns=f"{self.files}/behind/*",
                             LONGSHORE_SERVICE_RESTARTS_MAX="1000")
        draw = random.Random(11)
        killed = 0
        while running.process.poll() is None:
            for pid in self.writers():
                if killed == 30:
                    break
                try:
                    for _ in range(draw.randint(0, 400)):  # some time after it has begun
                        pathlib.Path(f"/proc/{pid}/stat").read_text()
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                except OSError:
                    pass
        self.assertEqual(running.wait(LIMIT_S), 0, running.describe())
        self.assertIn("it is started again", running.output)
        self.check_nothing_left()

    def test_a_writer_that_is_not_started_again(self):
        running = self.start(2, "steady", 300_007, LONGSHORE_SERVICE_RESTARTS_MAX="0")
        self.wait_for(lambda: self.writers() and any(self.files.iterdir()), running.describe)
        # What ranks write while it is held up waits.
        for pid in self.writers():
            stop(pid)
        wanted = min(len(list(self.files.iterdir())) + 2, STEADY_FILES)  # more may wait for it
        self.wait_for(lambda: len(list(self.files.iterdir())) >= wanted, running.describe)
        for pid in self.writers():
            os.kill(pid, signal.SIGKILL)
        # Ranks that have begun all their files wait, and hear nothing.
        self.wait_for(lambda: "it is not started again" in running.output or running.process.poll() is not None
                      or len(list(self.files.iterdir())) == 2 * STEADY_FILES, running.describe)
        (self.files / "stop").touch()
        status = running.wait(120)
        self.assertIsNotNone(status, running.describe())
        # Told, unless the writer was held up when it had nothing left to do.
        for path in self.files.glob("*.ckpt") if status == 0 else ():
            self.assertEqual(path.read_bytes(), data_of(int(path.name.split(".")[1]), 0, 300_007))

    def test_ranks_that_are_killed(self):
        self.start(2, "killed", 2_000_000, 2).wait(120)
        self.check_nothing_left()
        self.check_files(2, "all", 2, 2_000_000)
        for rank in range(2):
            self.assertEqual((self.files / f"killed.{rank}.9.ckpt").read_bytes(), data_of(rank, 9, 2_000_000))

    def test_ranks_that_leave(self):
        self.start(3, "left", 2_000_000).wait(120)
        self.check_nothing_left()
        self.check_files(3, "left", 1, 2_000_000)

    # --- errors

    def mount(self, *options):
        why = slow_disk.missing()
        if why:
            self.skipTest(why)
        backing = self.folder / "backing"
        backing.mkdir()
        mount = slow_disk.Mount(backing, *options)
        self.addCleanup(mount.close)
        self.disk = mount
        return mount.path

    def test_a_full_disk_is_told_to_the_program(self):
        disk = self.mount("--space", 1_500_000)
        output = self.run_mode(2, "error", 1 << 20, 3, folder=disk)
        for rank in range(2):
            self.assertRegex(output, rf"rank {rank}: (write|fsync|close): No space left on device")
        self.assertIn("2 told of an error", output)

    def test_a_full_disk_is_told_to_a_stream(self):
        disk = self.mount("--space", 1_500_000)
        output = self.run_mode(2, "stream_error", 1 << 20, 3, folder=disk)
        for rank in range(2):
            self.assertRegex(output, rf"rank {rank}: (fwrite: No space left on device, ferror 1|(fsync|fclose): No space)")

    def test_what_nobody_asked_for_is_told_at_the_end(self):
        disk = self.mount("--fail", "write@1-=EIO", "--latency", "write=200000")
        running = self.start(2, "unasked", 1 << 20, folder=disk)
        status = running.wait(60)
        # One whose close was late may have been told by it.
        told = [f"rank {rank}: close: Input/output error" in running.output for rank in range(2)]
        self.assertEqual(status, 0 if all(told) else LOST, running.describe())
        for rank in range(2):
            line = f"rank {rank}: {disk}/unasked.{rank}.0.ckpt: not all of it could be written: Input/output error"
            self.assertEqual(line in running.output, not told[rank], running.describe())

    def test_strict_tells_at_close(self):
        disk = self.mount("--fail", "write@1-=EDQUOT")
        output = self.run_mode(2, "unasked", 1 << 20, folder=disk, patterns=f"strict:{disk}/*.ckpt")
        for rank in range(2):
            self.assertIn(f"rank {rank}: close: Disk quota exceeded", output)

    def test_a_disk_that_is_for_reading_alone(self):
        disk = self.mount("--read-only")
        (self.folder / "backing" / "present.ckpt").write_text("as it was")
        self.run_mode(2, "read_only", folder=disk)
        self.assertEqual([(path.name, path.read_text()) for path in disk.iterdir()], [("present.ckpt", "as it was")])

    def test_a_disk_that_becomes_one_for_reading_alone(self):
        disk = self.mount("--fail", "write@3-=EROFS")
        output = self.run_mode(2, "error", 1 << 20, 3, folder=disk)
        for rank in range(2):
            self.assertRegex(output, rf"rank {rank}: (write|fsync|close): Read-only file system")
        self.assertIn("2 told of an error", output)

    def check_refused(self, folder, why, **more):
        """Files that cannot be written: the program hears why, and the user which pattern it was."""
        output = self.run_mode(2, "refused", folder=folder, patterns=f"{folder}/*.ckpt:{self.files}/*.none", **more)
        for rank in range(2):
            for call in ("open", "fopen"):
                self.assertIn(f"rank {rank}: {call}: {why}", output)
        self.assertIn(f"--write-behind {folder}/*.ckpt matched only files that could not be opened: {why}", output)
        self.assertIn(f"--write-behind {self.files}/*.none matched no file that was opened", output)

    def test_a_pattern_of_a_folder_that_is_not_there(self):
        self.check_refused(self.files / "absent", "No such file or directory")

    def test_a_pattern_of_a_folder_that_is_a_file(self):
        (self.files / "file").touch()
        self.check_refused(self.files / "file", "Not a directory")

    def test_a_pattern_of_a_folder_that_may_not_be_written_to(self):
        folder = self.files / "closed"
        folder.mkdir(0o500)
        # root may, unless this is taken from it.
        before = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.getuid() == 0 else ()
        self.check_refused(folder, "Permission denied", before=before)
        self.assertFalse(any(folder.iterdir()))

    def test_a_pattern_of_a_disk_that_is_for_reading_alone(self):
        self.check_refused(self.mount("--read-only"), "Read-only file system")

    def test_more_patterns_than_there_may_be(self):
        patterns = ":".join(f"{self.files}/{number}.ckpt" for number in range(17))
        output = self.run_mode(2, "checkpoints", 1 << 16, 1, patterns=patterns)
        self.assertIn("the program writes its files itself: there are more than 16 patterns", output)
        self.check_files(2, "all", 1, 1 << 16)

    def test_few_descriptors(self):
        disk = self.mount("--latency", "write=2000")
        output = self.run_mode(2, "few_descriptors", 10_000, 3, folder=disk)
        files = dict(re.findall(r"rank (\d): (\d+) files", output))
        for rank in range(2):
            for number in range(int(files[str(rank)])):
                path = disk / f"few.{rank}.{number}.ckpt"
                self.assertEqual(path.read_bytes(), data_of(rank, 0, 10_000), path)
        self.assertEqual(self.written(output), (3 * sum(map(int, files.values())), 30_000 * sum(map(int, files.values())), ""))

    def test_more_files_than_the_writer_may_have_open(self):
        limit, count = 200, 100
        disk = self.mount("--latency", "write=5000")
        running = self.start(2, "many_open", 10_000, count, folder=disk, before=("prlimit", f"--nofile={limit}:{limit}"),
                             LONGSHORE_SERVICE_RESTARTS_MAX="1000")
        self.wait_for(lambda: len(list(disk.iterdir())) == 2 * count or running.process.poll() is not None, running.describe)
        killed = 0
        for pid in self.writers():
            os.kill(pid, signal.SIGKILL)  # its successor needs as many
            killed += 1
        self.assertEqual(running.wait(120), 0, running.describe())
        for path in disk.iterdir():
            self.assertEqual(path.read_bytes(), data_of(int(path.name.split(".")[1]), 0, 10_000), path)
        files, _, why = self.written(running.output)
        self.assertRegex(why, r"\d+ too many at once")
        self.assertEqual(files + int(re.search(r"(\d+) too many at once", why)[1]), 2 * count)
        self.assertGreater(files, limit // 2)
        self.assertEqual(killed, 1)
        self.assertIn("it is started again", running.output)
        self.assertIn(f"the limit of open files (RLIMIT_NOFILE) is {limit}; the program writes the others itself", running.output)

    def test_a_folder_that_goes(self):
        self.run_mode(2, "lost_folder", 1 << 16, patterns=f"{self.files}/**")
        self.check_files(2, "after", 1, 1 << 16)

    def test_a_limit_on_the_size_holds(self):
        output = self.run_mode(2, "limited", 1 << 20, 1)
        self.assertEqual((self.files / "error.0.0.ckpt").stat().st_size, 1 << 19)
        self.assertIn("2 limited in size (ulimit -f)", output)

    def test_a_slow_disk_is_not_waited_for(self):
        """As slow as can be: nothing of what the program writes has come to it when all is written and closed."""
        hold = self.folder / "hold"
        hold.touch()
        disk = self.mount("--hold", hold)
        self.addCleanup(hold.unlink, missing_ok=True)  # else its writes wait for ever
        running = self.start(2, "checkpoints", 1 << 20, 2, folder=disk)
        self.wait_for(lambda: "all files are written and closed" in running.output, running.describe)
        self.assertEqual(self.disk.counts()["bytes_written"], 0)
        hold.unlink()
        self.assertEqual(running.wait(LIMIT_S), 0, running.describe())
        self.check_files(2, "all", 2, 1 << 20, folder=disk)
        self.assertEqual(self.disk.counts()["bytes_written"], 4 << 20)

    def status(self, running):
        """What longshore status says of this job's files, as JSON and as lines of words."""
        said = []
        for form in (["--json"], []):
            said.append(subprocess.run([job.BUILD / "bin" / "longshore", "status", *form], capture_output=True, text=True,
                                       timeout=LIMIT_S, check=True).stdout)
        own = [one for one in json.loads(said[0])["jobs"] if str(running.folder) in one["program"]]
        self.assertLessEqual(len(own), 1, said[0])
        files = own[0]["nodes"][0].get("files", []) if own else []  # none yet: no rank has its queue
        pids = [str(one["pid"]) for one in files]
        table = said[1][said[1].find("AT MOST"):]
        return files, [line for line in table.splitlines() if len(line.split()) > 1 and line.split()[1] in pids]

    def test_status_shows_what_waits_and_for_how_long(self):
        count, record = 1 << 20, 64  # bytes: written by each rank, and of what describes a write
        begin, end = self.folder / "begin", self.folder / "end"
        disk = self.mount()
        running = self.start(2, "held", count, folder=disk, LONGSHORE_WRITE_BEHIND_BYTES_MAX="2M", CHECKPOINT_BEGIN=str(begin),
                             CHECKPOINT_END=str(end))
        running.folder = disk
        self.wait_for(lambda: [one["files"] for one in self.status(running)[0]] == [1, 1], running.describe)
        self.assertEqual([(one["waiting_bytes"], one["waiting_for_s"]) for one in self.status(running)[0]], [(0, 0)] * 2)
        stop(self.disk.process.pid)  # a disk as slow as can be
        self.addCleanup(os.kill, self.disk.process.pid, signal.SIGCONT)
        begin.touch()

        def waits():
            """All is in memory: a rank's data in parts, and that its file is closed."""
            files, lines = self.status(running)
            return (files, lines) if all(one["bytes"] == count and one["waiting_for_s"] > 0.2 for one in files) else None
        files, lines = self.wait_for(waits, running.describe)
        parts = count // (2 * count // 8)
        self.assertEqual([(one["waiting_bytes"], one["bound_bytes"], one["files_by_rank"], one["writer_is_lost"]) for one in files],
                         [(count + (parts + 1) * record, 2 * count, 0, False)] * 2)
        self.assertEqual(len(lines), 2, lines)
        for one, line in zip(files, lines):
            self.assertRegex(line, rf"^ +0 +{one['pid']} +1 +1\.0 MB +1\.0 MB +2\.1 MB +\d+\.\d s +0\.00 s +0$")
            self.assertGreaterEqual(float(line.split()[9]), round(one["waiting_for_s"], 1), line)
        os.kill(self.disk.process.pid, signal.SIGCONT)
        self.wait_for(lambda: not any(one["waiting_bytes"] for one in self.status(running)[0]), running.describe)
        self.assertRegex(self.status(running)[1][0], r" 1 +1\.0 MB +0 B +2\.1 MB +- ")
        end.touch()
        self.assertEqual(running.wait(60), 0, running.describe())
        self.check_files(2, "held", 1, count, folder=disk)

    # --- jobs and patterns that are not meant

    def test_several_nodes_are_refused_with_the_reason(self):
        output = self.run_mode(4, "checkpoints", 1 << 16, 1, nodes=2)
        self.assertIn("the program writes its files itself: files are written behind on one node alone", output)
        self.check_files(4, "all", 1, 1 << 16)

    def test_a_job_of_one_rank_is_refused_with_the_reason(self):
        output = self.run_mode(1, "checkpoints", 1 << 16, 1)
        self.assertIn("the program writes its files itself: the job has one rank", output)

    def test_a_library_that_is_not_preloaded_is_told(self):
        running = job.Job(self, 2, [PROGRAMS / "checkpoint", "checkpoints", self.files, 1 << 16, 1],
                          LONGSHORE_WRITE_BEHIND=f"{self.files}/*")
        self.assertEqual(running.wait(60), 0, running.describe())
        self.assertIn("liblongshore-io.so is not preloaded", running.output)

    def test_programs_without_mpi_notice_nothing(self):
        words = ["sh", "-c", "echo one >a.ckpt; echo two >>a.ckpt; cat a.ckpt; exit 7"]
        done = subprocess.run(words, cwd=self.files, capture_output=True, text=True, check=False,
                              env=os.environ | {"LD_PRELOAD": str(LIBRARY), "LONGSHORE_WRITE_BEHIND": "/**"})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "one\ntwo\n", ""))
