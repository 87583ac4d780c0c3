"""Mounts of slow_disk for tests and studies: use Mount in a with statement."""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
PROGRAM = BUILD / "tests/slow_disk/slow_disk"
LIMIT_S = 60  # on a machine that is busy with other things


def missing():
    """What keeps a mount from being made here; empty: nothing."""
    if not PROGRAM.exists():
        return f"{PROGRAM} is not built (Debian: libfuse3-dev)"
    if shutil.which("fusermount3") is None:
        return "fusermount3 is missing (Debian: fuse3)"
    try:
        with tempfile.TemporaryDirectory() as backing, Mount(backing):
            return ""
    except RuntimeError as problem:
        return str(problem)


def end_with_parent():
    """In a child: ended when its parent ends, by whatever."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


class Mount:
    """One client of a folder. `path`: where it is seen; counts(): what has been called so far."""

    def __init__(self, backing, *options):
        self.path = Path(tempfile.mkdtemp(prefix="longshore-test-mount-"))
        self.process = subprocess.Popen([PROGRAM, "--backing", backing, "--mount", self.path, *map(str, options)],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        end = time.monotonic() + LIMIT_S
        while not os.path.ismount(self.path):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                said = self.process.communicate()[1].strip()
                self.path.rmdir()
                raise RuntimeError(f"slow_disk cannot mount: {said or 'it does not begin'}")
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def counts(self):
        return json.loads(os.getxattr(self.path, "user.slow_disk.counts"))

    def close(self):
        subprocess.run(["fusermount3", "-u", "-z", self.path], check=False, capture_output=True)
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        self.path.rmdir()
