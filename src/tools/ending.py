"""How a script of the command ends: what a user does, or a disk that is full, is said in a line and not as a traceback."""

import contextlib
import os
import signal
import sys


NOT_READY = 125  # as tools/tools.h has it


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


@contextlib.contextmanager
def whole_file(path):
    """Gives a name to write to, in the same folder; at the end that becomes `path`. A script that is interrupted, or fails, leaves
    what was there before. What is no plain file, as /dev/stdout, is written to at once."""
    if os.path.exists(path) and not os.path.isfile(path):
        yield path
        return
    folder, name = os.path.split(os.path.realpath(path))
    part = os.path.join(folder, f".{os.getpid()}-{name}")  # with its suffix, which says what is drawn
    try:
        yield part
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
