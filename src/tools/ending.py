"""How a script of the command ends: what a user does, or a disk that is full, is said in a line and not as a traceback."""

import contextlib
import errno
import os
import signal
import sys


NOT_READY = 125  # as tools/tools.h has it
KEPT_FILES_MAX = 10_000  # as base/output_file.h


class Interrupted(Exception):
    """A signal has asked the script to end."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


class Missing(Exception):
    """A part that the script needs is not there; in words."""


def interrupt(number, _):
    raise Interrupted(number)


def forget_stdout():
    """So that Python, at its end, does not try again to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def names_a_stream(path):
    return path.startswith(("/dev/std", "/dev/fd/", "/proc/"))


def keep_old(path):
    """As base/output_file.h has it: a file that is not empty becomes PATH.old, PATH.old.2 and so on, which is said."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return
    names = (f"{path}.old" + (f".{i}" if i > 1 else "") for i in range(1, KEPT_FILES_MAX + 1))
    old = next((name for name in names if not os.path.lexists(name)), None)
    if old is None:
        raise FileExistsError(errno.EEXIST, f"there are {KEPT_FILES_MAX} older files beside it, as {path}.old; remove some", path)
    os.rename(path, old)
    print(f"longshore: {path} was there already: that file is now {old}", file=sys.stderr)


@contextlib.contextmanager
def whole_file(path):
    """Gives a name to write to, in the same folder; at the end that becomes `path`, and what was there before is kept (keep_old).
    A script that is interrupted, or fails, leaves that where it was. What is no plain file, as /dev/stdout, is written to at once."""
    if names_a_stream(path) or (os.path.exists(path) and not os.path.isfile(path)):
        yield path
        return
    folder, name = os.path.split(os.path.realpath(path))
    part = os.path.join(folder, f".{os.getpid()}-{name}")  # with its suffix, which says what is drawn
    try:
        yield part
        keep_old(os.path.join(folder, name))
        os.replace(part, os.path.join(folder, name))
    except OSError as error:
        if error.filename == part:
            error.filename = path  # the name that the user knows
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def run(name, main):
    """Calls main() and returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as below nohup
            signal.signal(number, interrupt)
    try:
        code = main()
        sys.stdout.flush()
        return code or 0
    except Interrupted as by:
        print(f"longshore {name}: interrupted", file=sys.stderr)
        return 128 + by.number
    except Missing as missing:
        print(f"longshore {name}: {missing}", file=sys.stderr)
        return NOT_READY
    except BrokenPipeError:  # as into a pager that was left
        forget_stdout()
        return 128 + signal.SIGPIPE
    except OSError as error:
        forget_stdout()
        print(f"longshore {name}: {error.filename or 'the output could not be written'}: {error.strerror}", file=sys.stderr)
        return 1
