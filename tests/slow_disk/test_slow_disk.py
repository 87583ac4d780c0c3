"""The slow file system: files are what was written, its calls take the time that they are told to take, fail where they
are told to, and are counted. Skipped, with the reason, where nothing can be mounted."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import slow_disk  # noqa: E402
from slow_disk import Mount  # noqa: E402


def setUpModule():
    if problem := slow_disk.missing():
        raise unittest.SkipTest(problem)


class SlowDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.backing = self.folder / "backing"
        self.backing.mkdir()

    def mount(self, *options):
        mount = Mount(self.backing, *options)
        self.addCleanup(mount.close)
        return mount

    @staticmethod
    def write(path, pieces, data=b"x" * 8192):
        """By one call each. Returns the seconds of the calls."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            begin = time.monotonic()
            for _ in range(pieces):
                os.write(file, data)
            return time.monotonic() - begin
        finally:
            os.close(file)

    def wait_for(self, condition, describe):
        end = time.monotonic() + slow_disk.LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), end, describe())
            time.sleep(0.005)

    def error_of(self, path, pieces):
        with self.assertRaises(OSError) as caught:
            self.write(path, pieces)
        return caught.exception.errno

    def test_files_are_what_was_written(self):
        mount = self.mount()
        data = os.urandom(300_001)
        (mount.path / "folder").mkdir()
        (mount.path / "folder/a").write_bytes(data)
        os.rename(mount.path / "folder/a", mount.path / "b")
        self.assertEqual((mount.path / "b").read_bytes(), data)
        self.assertEqual((self.backing / "b").read_bytes(), data)
        os.truncate(mount.path / "b", 5)
        self.assertEqual((self.backing / "b").read_bytes(), data[:5])
        self.assertEqual(sorted(os.listdir(mount.path)), ["b", "folder"])
        os.unlink(mount.path / "b")
        os.rmdir(mount.path / "folder")
        self.assertEqual(os.listdir(self.backing), [])

    def test_calls_are_counted(self):
        counts_path = self.folder / "counts.json"
        mount = Mount(self.backing, "--counts", counts_path)
        try:
            self.write(mount.path / "a", 7)
            (mount.path / "a").read_bytes()
            os.unlink(mount.path / "a")
            counts = mount.counts()
        finally:
            mount.close()
        self.assertEqual({name: counts[name] for name in ("open", "write", "close", "unlink", "bytes_written", "revalidations")},
                         {"open": 2, "write": 7, "close": 2, "unlink": 1, "bytes_written": 7 * 8192, "revalidations": 0})
        self.assertEqual(json.loads(counts_path.read_text())["write"], 7)

    def test_calls_take_time(self):
        mount = self.mount("--latency", "write=20000", "--latency", "open=100000", "--latency", "close=100000")
        begin = time.monotonic()
        self.assertGreaterEqual(self.write(mount.path / "a", 10), 0.2)
        self.assertGreaterEqual(time.monotonic() - begin, 0.4)

    @contextlib.contextmanager
    def in_threads(self, mount):
        """Four writes at once, which have ended when the statement has."""
        threads = [threading.Thread(target=self.write, args=(mount.path / str(i), 1)) for i in range(4)]
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join()

    def test_calls_wait_at_once(self):
        hold = self.folder / "hold"
        hold.touch()
        mount = self.mount("--hold", hold)
        self.addCleanup(hold.unlink, missing_ok=True)  # else they wait for ever
        with self.in_threads(mount):
            self.wait_for(lambda: mount.counts()["under_way"] == 4, mount.counts)
            self.assertEqual(mount.counts()["bytes_written"], 0)
            hold.unlink()
        self.assertEqual({name: mount.counts()[name] for name in ("write", "under_way", "bytes_written")},
                         {"write": 4, "under_way": 0, "bytes_written": 4 * 8192})

    def test_calls_wait_one_by_one(self):
        mount = self.mount("--latency", "write=200000", "--serial")
        begin = time.monotonic()
        with self.in_threads(mount):
            self.wait_for(lambda: mount.counts()["write"] == 4, mount.counts)
            self.assertLessEqual(mount.counts()["under_way"], 1)
        self.assertGreaterEqual(time.monotonic() - begin, 0.8)

    def test_rate(self):
        mount = self.mount("--rate", 4e6, "--burst", 0)
        self.assertGreaterEqual(self.write(mount.path / "a", 20, b"x" * 100_000), 0.5)
        unhurried = self.mount("--rate", 1, "--burst", 1e9)
        self.write(unhurried.path / "b", 20, b"x" * 100_000)  # else it would take weeks
        self.assertEqual(unhurried.counts()["bytes_written"], 2_000_000)

    def test_errors_by_script(self):
        mount = self.mount("--fail", "write@3=ENOSPC", "--fail", "open@4-=EIO", "--fail", "close@3=EDQUOT")
        self.assertEqual(self.error_of(mount.path / "a", 3), errno.ENOSPC)
        self.write(mount.path / "b", 2)
        self.assertEqual(self.error_of(mount.path / "c", 1), errno.EDQUOT)
        for _ in range(2):
            self.assertEqual(self.error_of(mount.path / "d", 1), errno.EIO)
        self.assertEqual(mount.counts()["failures"], 4)

    def test_space(self):
        mount = self.mount("--space", 10 * 8192)
        self.write(mount.path / "a", 6)
        about = os.statvfs(mount.path)
        self.assertEqual(about.f_bavail * about.f_frsize, 4 * 8192)
        self.assertEqual(self.error_of(mount.path / "b", 5), errno.ENOSPC)
        os.unlink(mount.path / "a")
        os.unlink(mount.path / "b")
        self.write(mount.path / "c", 10)

    def test_clients_revalidate_what_another_has_touched(self):
        first, second = self.mount("--revalidate", 300_000), self.mount("--revalidate", 300_000)

        def read(mount):
            begin = time.monotonic()
            data = (mount.path / "a").read_bytes()
            return data, time.monotonic() - begin

        self.write(first.path / "a", 1, b"one")
        self.assertEqual(read(first)[0], b"one")
        self.assertEqual(first.counts()["revalidations"], 0)
        data, seconds = read(second)
        self.assertEqual(data, b"one")
        self.assertGreaterEqual(seconds, 0.3)
        self.write(second.path / "a", 1, b"two")
        self.assertEqual(second.counts()["revalidations"], 1)
        self.assertEqual(read(first)[0], b"two")  # not what it has kept
        self.assertEqual(first.counts()["revalidations"], 1)

    def test_wrong_options(self):
        for words, said in ((["--nonsense", "1"], "unknown option"), ([], "give"), (["--fail", "write@0=EIO"], "--fail wants"),
                            (["--latency", "sleep=1"], "--latency wants"), (["--backing", "/nowhere"], "no folder"),
                            (["--rate", "fast"], "not a number")):
            done = subprocess.run([slow_disk.PROGRAM, *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(said, done.stderr)
