"""Processes that tests meddle with."""

import os
import signal
import time
from pathlib import Path

LIMIT_S = 60  # on a machine that is busy with other things


def stop(pid):
    """Stops a process until SIGCONT. kill() alone returns before it stops: the thread that is told has to run first, and on
    a busy machine the others may go on for a long time meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + LIMIT_S
    while not is_stopped(pid):
        if time.monotonic() > end:
            raise TimeoutError(f"process {pid} does not stop within {LIMIT_S} s")
        time.sleep(0.001)


def is_stopped(pid):
    """Whether all of its threads are."""
    return all(state_of(task) in "TXZ" for task in Path(f"/proc/{pid}/task").iterdir())


def state_of(task):
    """The letter of proc(5), of a thread's folder. X: it has gone."""
    try:
        return (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"
