"""How the studies of all examples begin, run their jobs and end."""
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

END_LIMIT_S = 10  # of an mpirun that is asked to end


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


def run_job(words, limit_s, env=None):
    """As subprocess.run, but that an mpirun whose job is not awaited to its end is asked to end: it takes its ranks and its own
    folders with it.  Raises subprocess.TimeoutExpired after `limit_s` seconds."""
    with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        try:
            out, err = job.communicate(timeout=limit_s)
        except BaseException:
            job.terminate()
            try:
                job.communicate(timeout=END_LIMIT_S)
            except subprocess.TimeoutExpired:
                job.kill()
            raise
    return subprocess.CompletedProcess(words, job.returncode, out, err)


def end_by_signals():
    """From now on a signal that asks the study to end does so by way of what takes jobs, machines and folders down, with exit
    code 128 + its number."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number, _):
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)  # once is enough
        sys.exit(128 + number)

    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:  # as below nohup
            signal.signal(number, end)
