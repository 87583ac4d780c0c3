#!/usr/bin/env python3
"""A guest with an RDMA device, on a machine without one: QEMU emulates the processor, Linux the device (Soft-RoCE).

The guest sees this machine's files as they are, so what was built here runs there unchanged; what it writes is gone
with it, but for its folder of results. It is root, has the device rxe0 on its network device net0 (address 10.78.0.1),
and ends with the program that started it, however that ends. Two can be joined by a link (10.78.0.1 and 10.78.0.2).

    guest.py -- COMMAND ARGUMENTS                          in the current folder
    guest.py --results FOLDER -- sh -c 'ibv_devinfo >FOLDER/devices'
    guest.py --shell

Emulated time says nothing about hardware: never quote a figure measured there. From Python:

    with guest.boot() as (machine,):
        done = machine.run(["ibv_devinfo"])                returncode, stdout, stderr

Needs qemu-system-x86, busybox-static and iproute2; Debian's kernel is downloaded once, into the build folder.
"""

import argparse
import contextlib
import ctypes
import os
import platform
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernel  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", Path(__file__).resolve().parents[2] / "build")).resolve()
QEMU = "qemu-system-x86_64"
NETWORK = "10.78.0"
DEVICE = "rxe0"
SHELL_PORT = 2222
CORES, MEMORY_MIB = 2, 2048
BOOT_LIMIT_S = 120
RUN_LIMIT_S = 60
LAST_LINES = 80  # of its console, when it ended: a kernel that stops says so in sixty
GRACE_S = 20  # beyond a command's limit until the guest itself is taken for dead


class GuestError(Exception):
    """The guest did not boot, or ended; not a failure of what ran in it."""


def is_static(program):
    with open(program, "rb") as file:
        return b"/ld-linux" not in file.read(4096)


def missing():
    """What keeps a guest from being started here; empty: nothing. The first call may download the kernel."""
    if platform.machine() != "x86_64":
        return "the guest is an x86-64 one, and runs this machine's programs"
    for tool, package in ((QEMU, "qemu-system-x86"), ("busybox", "busybox-static"), ("rdma", "iproute2")):
        if shutil.which(tool) is None:
            return f"{tool} is missing (Debian: {package})"
    if not is_static(shutil.which("busybox")):
        return "busybox needs shared libraries (Debian: busybox-static does not)"
    try:
        kernel.kernel(BUILD / "guest")
    except kernel.Missing as error:
        return str(error)
    return ""


def end_with_parent():
    """In a child: killed when its parent ends, by whatever."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


# The first process of the guest, in the initial file system: busybox. It lays a memory file system over this machine's
# files and hands over to the agent there.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
for module in /modules/*; do insmod $module; done
p9() { mkdir -p "$2"; mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,$3 $1 "$2"; }
p9 files /files ro,cache=loose
mount -t tmpfs tmpfs /changes
mkdir /changes/upper /changes/work
mount -t overlay -o lowerdir=/files,upperdir=/changes/upper,workdir=/changes/work overlay /root
@writable@
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount -t devtmpfs devtmpfs /root/dev
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
chroot /root /bin/sh @agent@
poweroff -f
"""

# Gives the other guest's mpirun a shell. Reads "NUMBER SECONDS" from a serial line, runs FOLDER/NUMBER/script for so
# long at most, answers "NUMBER STATUS".
AGENT = """
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
busybox nc -ll -p @port@ -e sh &
exec 3<>/dev/ttyS1
stty raw -echo <&3
hostname @name@
printf '127.0.0.1 localhost\\n@addresses@' >/etc/hosts
ip link set lo up
ip link set @link@ name net0
ip link set net0 mtu 9000 up
ip address add @address@/24 dev net0
rdma link add @device@ type rxe netdev net0
ports=/sys/class/infiniband/@device@/ports/1
for i in $(seq 300); do
    if grep -qs ACTIVE $ports/state && grep -qs ffff $ports/gids/1; then echo ready >&3; break; fi
    sleep 0.1
done
while read -r number limit <&3; do
    (
        cd @folder@/$number
        timeout -k 5 $limit sh ./script </dev/null >stdout 2>stderr
        echo $number $? >&3
    ) &
done
"""


def filled(text, **values):
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def address(number):
    return f"{NETWORK}.{number + 1}"


class Running:
    """A command in a guest."""

    def __init__(self, guest, number, words, limit_s):
        self.guest, self.number, self.words, self.limit_s = guest, number, words, limit_s
        self.started = time.monotonic()

    def wait(self):
        """The finished command, as subprocess.run has it; raises its TimeoutExpired, or GuestError."""
        status = self.guest.wait_for(self.number, self.started + self.limit_s + GRACE_S)
        folder = self.guest.folder / str(self.number)
        out, err = ((folder / name).read_text(encoding="utf-8", errors="replace") for name in ("stdout", "stderr"))
        if status in (124, 137) and time.monotonic() >= self.started + self.limit_s:
            raise subprocess.TimeoutExpired(self.words, self.limit_s, out, err)
        return subprocess.CompletedProcess(self.words, status, out, err)


class Guest:
    """One guest; boot() makes it. `folder` is common to it and this machine, and so are `writable` ones."""

    def __init__(self, number=0, link=None, writable=(), shell=False):
        self.number, self.name, self.address = number, f"guest{number}", address(number)
        self.link = link
        self.folder = Path(tempfile.mkdtemp(prefix="longshore-guest-")).resolve()
        self.results = self.folder / "results"
        self.results.mkdir()
        self.commands, self.done, self.unread, self.is_ready, self.process = 0, {}, b"", False, None
        try:
            folders = [self.folder, *(Path(folder).resolve() for folder in writable)]
            self._write_files(folders, "eth0" if link else "dummy0")
            self.line, theirs = socket.socketpair()
            with theirs, open(self.folder / "console", "wb") as console:
                self.process = subprocess.Popen(
                    self._words(folders, theirs.fileno(), link, shell), pass_fds=[theirs.fileno()],
                    stdin=None if shell else subprocess.DEVNULL, stdout=None if shell else console, stderr=console,
                    preexec_fn=end_with_parent)
        except BaseException:
            self.close()
            raise

    def _words(self, folders, line, link, shell):
        root = kernel.kernel(BUILD / "guest")
        words = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CORES), "-m", str(MEMORY_MIB),
                 "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                 "-kernel", str(root / "kernel"), "-initrd", str(self.folder / "initial"),
                 "-append", "console=ttyS0 quiet panic=-1 tsc=reliable",
                 "-serial", f"file:{self.folder / 'log'}",
                 "-chardev", f"socket,id=agent,fd={line}", "-serial", "chardev:agent"]
        if shell:
            words += ["-chardev", "stdio,id=shell,signal=off", "-serial", "chardev:shell"]
        for tag, path, how in [("files", "/", "readonly=on"),
                               *((f"folder{i}", path, "readonly=off") for i, path in enumerate(folders))]:
            path = str(path).replace(",", ",,")
            words += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap,{how}",
                      "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        if link:
            side = "on" if self.number == 0 else "off"
            words += ["-netdev", f"stream,id=link,server={side},addr.type=unix,addr.path={link}",
                      "-device", f"virtio-net-pci,netdev=link,mac=52:54:00:00:00:{self.number + 1:02x}"]
        return words

    def _write_files(self, folders, link):
        agent = self.folder / "agent"
        addresses = "".join(f"{address(i)} guest{i}\\n" for i in range(2))
        agent.write_text(filled(AGENT, name=self.name, addresses=addresses, link=link, address=self.address,
                                device=DEVICE, folder=self.folder, port=SHELL_PORT), encoding="utf-8")
        mounts = "\n".join(f"p9 folder{i} {shlex.quote(f'/root{path}')} rw" for i, path in enumerate(folders))
        root = self.folder / "root"
        for name in ("bin", "proc", "files", "changes", "root"):
            (root / name).mkdir(parents=True)
        shutil.copytree(kernel.kernel(BUILD / "guest") / "modules", root / "modules")
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        (root / "init").write_text(filled(INIT, writable=mounts, agent=agent), encoding="utf-8")
        (root / "init").chmod(0o755)
        with open(self.folder / "initial", "wb") as archive:
            names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
            subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=root, input=names.encode(), stdout=archive,
                           stderr=subprocess.DEVNULL, check=True, timeout=60)
        shutil.rmtree(root)

    def _last_words(self):
        text = ""
        for name in ("console", "log"):
            with contextlib.suppress(FileNotFoundError):
                text += (self.folder / name).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-LAST_LINES:]) or "it said nothing"

    def _listen(self, deadline, what):
        """Takes what the agent says next; raises GuestError at the deadline or the guest's end."""
        if not select.select([self.line], [], [], max(0, deadline - time.monotonic()))[0]:
            raise GuestError(f"{self.name}: {what}: nothing heard in time. Its console:\n{self._last_words()}")
        try:
            heard = self.line.recv(4096)
        except ConnectionError:
            heard = b""
        if not heard:
            raise GuestError(f"{self.name}: {what}: it has ended. Its console:\n{self._last_words()}")
        *lines, self.unread = (self.unread + heard).split(b"\n")
        for line in lines:
            words = line.decode("ascii", errors="replace").split()
            if words == ["ready"]:
                self.is_ready = True
            elif len(words) == 2:
                self.done[int(words[0])] = int(words[1])

    def wait_until_ready(self, deadline):
        while not self.is_ready:
            self._listen(deadline, "boot")

    def wait_for(self, number, deadline):
        while number not in self.done:
            self._listen(deadline, f"command {number}")
        return self.done[number]

    def start(self, words, limit_s=RUN_LIMIT_S, environment=None, cwd="/"):
        """Starts a command; others may run beside it. Nothing of this machine's environment but PATH goes with it."""
        self.commands += 1
        folder = self.folder / str(self.commands)
        folder.mkdir()
        words = [str(word) for word in words]
        variables = {"PATH": os.environ["PATH"], "HOME": "/root", "LC_ALL": "C.UTF-8"} | (environment or {})
        (folder / "script").write_text(
            f"cd {shlex.quote(str(cwd))} || exit\n" +
            "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in variables.items()) +
            f"exec {shlex.join(words)}\n", encoding="utf-8")
        try:
            self.line.sendall(f"{self.commands} {limit_s}\n".encode("ascii"))
        except BrokenPipeError:
            raise GuestError(f"{self.name}: {words[0]}: it has ended. Its console:\n{self._last_words()}") from None
        return Running(self, self.commands, words, limit_s)

    def run(self, words, limit_s=RUN_LIMIT_S, **how):
        """The finished command: returncode, stdout, stderr. Not finished in time: subprocess.TimeoutExpired."""
        return self.start(words, limit_s, **how).wait()

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.line.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_all(count, stack, **how):
    """Guests that are ready, closed with `stack`. Those of a link boot side by side."""
    deadline = time.monotonic() + BOOT_LIMIT_S
    guests, link = [], None
    if count > 1:
        link = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="longshore-link-"))) / "link"
    for i in range(count):
        while i > 0 and not link.exists():  # the first one listens, the second one calls once
            if time.monotonic() > deadline or guests[0].process.poll() is not None:
                raise GuestError(f"{guests[0].name}: no link. Its console:\n{guests[0]._last_words()}")
            time.sleep(0.02)
        guests.append(Guest(i, link, **how))
        stack.callback(guests[-1].close)
    for guest in guests:
        guest.wait_until_ready(deadline)
    return guests


@contextlib.contextmanager
def boot(count=1, **how):
    """A list of one guest, or of two that are joined. A boot that fails is tried once more, and said so."""
    with contextlib.ExitStack() as stack:
        try:
            guests = start_all(count, stack, **how)
        except GuestError as error:
            print(f"guest: boots again: {error}", file=sys.stderr)
            stack.close()
            guests = start_all(count, stack, **how)
        yield guests


def mpirun(guests, words, ranks):
    """The words for the first guest that start `words` under Open MPI with so many ranks on each guest in turn."""
    hosts, agent = guests[0].folder / "hosts", guests[0].folder / "start-there"
    hosts.write_text("".join(f"{guest.name} slots={count}\n" for guest, count in zip(guests, ranks)), encoding="ascii")
    # What it starts instead of ssh: AGENT [OPTIONS] HOST COMMAND.
    agent.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1\nshift\n'
                     f'echo "$*" | exec busybox nc $host {SHELL_PORT}\n', encoding="ascii")
    agent.chmod(0o755)
    return ["mpirun.openmpi", "--allow-run-as-root", "--hostfile", hosts, "--mca", "plm_rsh_agent", agent,
            "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl", "self,vader,tcp",
            "--mca", "btl_tcp_if_include", "net0", "--mca", "oob_tcp_if_include", "net0",
            "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none", "--map-by", "slot",
            "-np", str(sum(ranks)), *words]


def shell_words():
    size = shutil.get_terminal_size()
    script = f"stty sane rows {size.lines} cols {size.columns}; exec {os.environ.get('SHELL', 'sh')} -i"
    return ["setsid", "sh", "-c", f"exec sh -c {shlex.quote(script)} <>/dev/ttyS2 >&0 2>&0"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", metavar="FOLDER", action="append", default=[],
                        help="a folder that the guest may write into; can be given again")
    parser.add_argument("--time-limit", metavar="S", type=int, default=600, help="for the command (default: 600)")
    parser.add_argument("--shell", action="store_true", help="a shell in the guest instead of a command")
    parser.add_argument("command", nargs="*", help="what runs there")
    options = parser.parse_args()
    if options.shell == bool(options.command):
        parser.error("give either a command or --shell")
    for folder in options.results:
        Path(folder).mkdir(parents=True, exist_ok=True)
    if problem := missing():
        sys.exit(f"guest: no guest can be started here: {problem}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    words, limit_s = (shell_words(), 86400) if options.shell else (options.command, options.time_limit)
    try:
        with boot(writable=options.results, shell=options.shell) as (guest,):
            terminal = {name: os.environ[name] for name in ("TERM",) if name in os.environ}
            done = guest.run(words, limit_s, environment=terminal, cwd=os.getcwd())
    except subprocess.TimeoutExpired as late:
        print(late.stdout, end="")
        print(late.stderr, end="", file=sys.stderr)
        sys.exit(f"guest: stopped after {limit_s} s")
    except GuestError as error:
        sys.exit(f"guest: {error}")
    print(done.stdout, end="", flush=True)
    print(done.stderr, end="", file=sys.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
