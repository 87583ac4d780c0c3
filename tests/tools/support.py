"""What the tests of the longshore command share: a private installation, and running the command in it."""

import fcntl
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import tempfile
import termios
import time
import unittest

LIMIT_S = 200  # of a command, on a machine that is busy with other things
COMMAND = os.environ.get("LONGSHORE_INTERNAL_TEST_COMMAND", "")
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def clean_environment(**more):
    """The current environment without any setting, and with LD_PRELOAD only if `more` has it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_") and k != "LD_PRELOAD"}
    return kept | more


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class CommandTest(unittest.TestCase):
    """Each test gets the command alone in a folder of its own, with bin/, lib/ and libexec/ and nothing else in them."""

    def setUp(self):
        if not COMMAND:
            self.fail("set LONGSHORE_INTERNAL_TEST_COMMAND to the longshore command")
        folder = tempfile.TemporaryDirectory(prefix="longshore-test-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "bin").mkdir()
        (self.root / "lib").mkdir()
        self.command = self.root / "bin" / "longshore"
        shutil.copy(COMMAND, self.command)
        # Subcommands that are programs of their own belong to it.
        shutil.copytree(pathlib.Path(COMMAND).parents[1] / "libexec", self.root / "libexec")

    @property
    def shim(self):
        return self.root / "lib" / "liblongshore.so"

    def make_shim(self):
        """An empty library in the shim's place: what `run` needs is only that it loads."""
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        subprocess.run([compiler, "-shared", "-x", "c", "-", "-o", self.shim], input=b"int longshore_test;", check=True)

    def longshore(self, *arguments, expect=0, **environment):
        """Runs the command; returns the finished process with text output. `expect`: its exit code, None for any."""
        done = subprocess.run([self.command, *map(str, arguments)], env=clean_environment(**environment),
                              cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        if expect is not None:
            self.assertEqual(done.returncode, expect, f"longshore {arguments}\n{done.stdout}{done.stderr}")
        return done

    def interrupted(self, number, begun, *arguments, **environment):
        """Sends the command that signal as soon as the file `begun` is there; returns what it says on standard error."""
        begun.unlink(missing_ok=True)
        started = subprocess.Popen([self.command, *map(str, arguments)], cwd=self.root, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(**environment))
        while not begun.exists():
            self.assertIsNone(started.poll())
            time.sleep(0.01)
        started.send_signal(number)
        said = started.communicate(timeout=LIMIT_S)[1]
        self.assertEqual(started.returncode, 128 + number, said)
        return said

    def shown(self, columns, *arguments, errors=False, **environment):
        """What is read on a terminal of so many columns; standard error only if `errors` says so."""
        terminal, other_end = pty.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        command = subprocess.Popen([self.command, *map(str, arguments)], env=clean_environment(**environment), cwd=self.root,
                                   stdin=subprocess.DEVNULL, stdout=other_end, stderr=other_end if errors else subprocess.DEVNULL)
        os.close(other_end)
        text = b""
        try:
            while part := os.read(terminal, 65536):
                text += part
        except OSError:  # as Linux says that nobody has the other end any more
            pass
        os.close(terminal)
        command.wait(LIMIT_S)
        return text.decode().replace("\r\n", "\n")
