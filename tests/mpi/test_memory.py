"""The heap is a guest: what programs do with memory, and what users and sites allow them, goes on as with plain MPI."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import job

MIB = 1 << 20


class Habits(job.JobTest):
    def run_habit(self, what, *, ranks=2, before=(), code=0, **settings):
        running = job.Job(self, ranks, [self.program("habits"), what], before=before, **settings)
        self.assertEqual(running.wait(60), code, running.describe())
        return running

    def test_habits(self):
        # MPICH's UCX puts a madvise of its own in the place of everybody's.
        for what in ("maps_little", "locks_all", "locks_first", "forks_without_pages", "forks_while_threads_write",
                     "reads_what_is_zero", "grows_slowly", *["discards"] * job.FLAVOUR.startswith("openmpi")):
            with self.subTest(what=what):
                running = self.run_habit(what)
                said = [line for line in running.output.splitlines() if "longshore:" in line]
                self.assertEqual(said, [], running.output)

    def test_the_heap_is_closed(self):
        running = self.run_habit("closes_all")
        self.assertIn("did not fit into the shared memory of their ranks", running.output)  # nor can it grow any more

    def test_a_core_holds_no_memory_of_others(self):
        if pathlib.Path("/proc/sys/kernel/core_pattern").read_text().startswith("|"):
            self.skipTest("cores go to a program here")
        line = f'cd "{self.folder}" && ulimit -c unlimited && exec "$0" "$@"'
        running = job.Job(self, 2, [self.program("habits"), "dumps_core"], before=["bash", "-c", line])
        self.assertNotIn(running.wait(60), (0, None), running.describe())
        cores = list(self.folder.glob("core*"))
        self.assertEqual(len(cores), 1, running.describe())
        self.assertLess(cores[0].stat().st_size, 1024 * MIB)

    def test_every_limit(self):
        """Where plain MPI runs, Longshore does: with its service processes, or with a word why not."""
        limits = {"data": "-d 2000000", "file": "-f 1000", "no files": "-f 0", "locked": "-l 64", "descriptors": "-n 128",
                  "no stack limit": "-s unlimited", "addresses": "-v 4000000", "queues": "-q 0"}
        if os.environ.get("LONGSHORE_INTERNAL_TEST_ALL"):
            limits |= {"core": "-c 0", "signals": "-i 4000", "resident": "-m 500000", "stack": "-s 2048", "time": "-t 600",
                       "processes": "-u 4000", "priority": "-r 0", "nice": "-e 0"}
        for name, limit in limits.items():
            with self.subTest(limit=name):
                before = ["bash", "-c", f'ulimit {limit} && exec "$0" "$@"']
                running = job.Job(self, 2, [self.program("habits"), "exchanges"], before=before)
                if running.wait(60) == 0:
                    continue
                # Open MPI's own files are too large for a limit on files; once its mpirun has said that all was well all the same.
                plain = [job.Job(self, 2, [self.program("habits"), "exchanges"], before=before, preload=()).wait(60) for _ in range(3)]
                self.assertNotEqual(plain, [0, 0, 0], "plain MPI bears it\n" + running.describe())
        self.check_nothing_left()

    def test_half_of_the_memory(self):
        """In a control group of less than the heaps would like to keep."""
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        roots = [(words[1], words[2]) for words in mounts if words[2] == "cgroup2" or
                 (words[2] == "cgroup" and "memory" in words[3].split(","))]
        for root, kind in roots:
            group = pathlib.Path(root) / self.folder.name
            limit = "memory.max" if kind == "cgroup2" else "memory.limit_in_bytes"
            try:
                group.mkdir()
            except OSError:
                continue
            try:
                try:
                    (group / limit).write_text(str(400 * MIB))
                except OSError:
                    continue
                line = f'echo $$ >"{group}/cgroup.procs" && exec "$0" "$@"'
                for what in ("exchanges", "forks_while_threads_write", "reads_what_is_zero"):
                    self.run_habit(what, before=["bash", "-c", line])
                return
            finally:
                self.wait_for(lambda: not (group / "cgroup.procs").read_text(), lambda: "a group that is left")
                group.rmdir()
        self.skipTest("no control group of our own here")

    def test_no_growth_on_plain_mpi(self):
        running = self.run_habit("exchanges", LONGSHORE_SERVICE_PATH="/nonexistent/longshored")
        self.assertIn("plain MPI", running.output)


class Frees(job.JobTest):
    """Blocks go to libc's own functions by another way than their names, or to those of an allocator that the program brings."""

    def run_program(self, *words):
        running = job.Job(self, 2, [self.program(words[0]), *words[1:]])
        self.assertEqual(running.wait(60), 0, running.describe())
        self.assertNotIn("longshore:", running.output, running.output)

    def test_by_libcs_handle(self):
        for what in ("frees", "grows", "shrinks", "churns"):
            with self.subTest(what=what):
                self.run_program("other_frees", what)

    def test_by_a_plug_in_that_finds_libc_first(self):
        plug_in = job.BUILD / "tests" / "mpi" / "deep_plug_in.so"
        for what in ("frees", "grows", "shrinks", "churns"):
            with self.subTest(what=what):
                self.run_program("other_frees", what, plug_in)

    def test_by_an_allocator_of_the_programs_own(self):
        if not os.path.exists(self.program("other_allocator")):
            self.skipTest("no jemalloc to build with ('make deps-test' installs it)")
        self.run_program("other_allocator")
        stats = self.folder / "stats.json"
        running = job.Job(self, 2, [self.program("other_allocator")], LONGSHORE_LOG="info", LONGSHORE_STATS=str(stats))
        self.assertEqual(running.wait(60), 0, running.describe())
        self.assertIn("the program brings an allocator of its own", running.output)
        counted = json.loads(stats.read_text())
        self.assertEqual(counted["memory"]["malloc_not_shared"], 2)
        self.assertIn("blocks of malloc are not shared on 2 ranks, since the program brings an allocator of its own", str(counted["advice"]))

    def test_by_python(self):
        library = "libmpi.so.40" if job.FLAVOUR.startswith("openmpi") else "libmpich.so.12"
        program = (f"import ctypes\nctypes.CDLL('{library}', ctypes.RTLD_GLOBAL)\n"
                   "ours, libc = ctypes.CDLL(None), ctypes.CDLL('libc.so.6')\n"
                   "for f in (ours.malloc, libc.realloc): f.restype = ctypes.c_void_p\n"
                   "ours.MPI_Init(None, None)\n"
                   "def is_shared(at):\n"
                   "    ranges = [line.split()[0].split('-') for line in open('/proc/self/maps') if 'longshore-heap' in line]\n"
                   "    return any(int(begin, 16) <= at < int(end, 16) for begin, end in ranges)\n"
                   "for _ in range(100):\n"
                   "    block = ours.malloc(ctypes.c_size_t(1 << 20))\n"
                   "    assert is_shared(block)\n"
                   "    ctypes.memset(block, 7, 1 << 20)\n"
                   "    block = libc.realloc(ctypes.c_void_p(block), ctypes.c_size_t(3 << 20))\n"
                   "    assert ctypes.string_at(block, 1 << 20) == b'\\7' * (1 << 20)\n"
                   "    libc.free(ctypes.c_void_p(block))\n"
                   "    libc.free(ctypes.c_void_p(ours.malloc(ctypes.c_size_t(1 << 20))))\n"
                   "ours.MPI_Finalize()\n")
        running = job.Job(self, 2, [sys.executable, "-c", program])
        self.assertEqual(running.wait(60), 0, running.describe())


class Forks(job.JobTest):
    """A child has what its parent had at one instant."""

    def test_forks(self):
        for what in ("on_thread_stack", "on_context_stack", "open_on_own_stack", "in_order", "with_open_operations",
                     "while_another_thread_forks", "again_and_again"):
            with self.subTest(what=what):
                stats = self.folder / f"{what}.json"
                running = job.Job(self, 2, [self.program("forks"), what], LONGSHORE_STATS=str(stats))
                self.assertEqual(running.wait(90), 0, running.describe())
                self.assertGreater(json.loads(stats.read_text())["memory"]["private_bytes_max"], 0)
                self.assertNotIn("longshore:", running.output, running.output)


class Alone(unittest.TestCase):
    """Programs that are not part of a job: nothing is made for them."""

    def test_no_heap_without_a_job(self):
        program = job.BUILD / "tests" / "mpi" / job.FLAVOUR / f"mpi_habits_{job.FLAVOUR}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        done = subprocess.run([program, "has_no_heap"], env=environment | {"LD_PRELOAD": str(job.SHIM)},
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "habits: ok\n"), done.stderr)
