"""How the studies of all examples begin, run their jobs and end, and what their files say of where and when."""
import contextlib
import datetime
import importlib.util
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

END_LIMIT_S = 60  # of an mpirun that is asked to end: it may wait for a core, and who kills it leaves its ranks behind
FINALIZE_LIMIT_S = 15  # of a job that has done all that is wanted
LOOK_S = 0.5  # how often that is looked at


def refuse_what_cannot_be_written(parser, results, picture):
    """Ends by `parser.error` where the file of results or the picture (None: not asked for) could not be written at the
    end, so that nobody measures for an hour in vain.  Creates and changes nothing."""
    for name in filter(None, (results, picture)):
        path = Path(name)
        place = path if path.exists() else path.parent
        if path.is_dir() or not os.access(place, os.W_OK):
            parser.error(f"{name}: it cannot be written; name a file in a folder of yours")
    if picture and importlib.util.find_spec("matplotlib") is None:
        parser.error("pictures need matplotlib: 'make venv' installs it beside the build")


def run_job(words, limit_s, env=None, is_over=None):
    """As subprocess.run, but that an mpirun whose job is not awaited to its end is asked to end: it takes its ranks and its own
    folders with it.  `is_over` says whether the job has done all that is wanted of it: one that does not end soon after that is
    ended, with return code 0, as MPICH 4.0.2 over TCP hangs in its own MPI_Finalize.  Raises subprocess.TimeoutExpired after
    `limit_s` seconds."""
    end, over, job = time.monotonic() + limit_s, False, None
    try:
        with signals_held_back():
            job = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while True:
            try:
                out, err = job.communicate(timeout=LOOK_S if is_over else limit_s)
                return subprocess.CompletedProcess(words, job.returncode, out, err)
            except subprocess.TimeoutExpired:
                if not over and is_over and is_over():
                    end, over = time.monotonic() + FINALIZE_LIMIT_S, True
                elif over and time.monotonic() > end:
                    return subprocess.CompletedProcess(words, 0, *ask_to_end(job))
                elif time.monotonic() > end:
                    raise subprocess.TimeoutExpired(words, limit_s) from None
    except BaseException:
        if job:
            ask_to_end(job)
        raise


def ask_to_end(job):
    """What it has printed."""
    job.terminate()
    try:
        return job.communicate(timeout=END_LIMIT_S)
    except subprocess.TimeoutExpired:
        job.kill()
        return job.communicate()


class Signals:
    """Those that ask a study to end."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    are_held_back, came = False, 0

    @classmethod
    def on_signal(cls, number, _):
        cls.came = cls.came or number
        if not cls.are_held_back:
            cls.end()

    @classmethod
    def end(cls):
        for number in cls.NUMBERS:
            signal.signal(number, signal.SIG_IGN)  # once is enough
        sys.exit(128 + cls.came)


def end_by_signals():
    """From now on a signal that asks the study to end does so by way of what takes jobs, machines and folders down, with exit
    code 128 + its number."""
    for number in Signals.NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as below nohup
            signal.signal(number, Signals.on_signal)


@contextlib.contextmanager
def signals_held_back():
    """One that comes while a process is started waits until it is known who that is: else nobody could end it."""
    Signals.are_held_back = True
    try:
        yield
    finally:
        Signals.are_held_back = False
    if Signals.came:
        Signals.end()


def provenance():
    """Of which machine the results of this run are, of when (UTC) and of which commit: for the file that holds them."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    try:
        described = subprocess.run(["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"],
                                   capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        described = ""
    return {"cpu": model[1] if model else platform.machine(), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "commit": described or "unknown", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
