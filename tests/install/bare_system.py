"""The packages on bare systems: each .deb is installed by apt into a Debian that has nothing but what the package asks for
(and the MPI programs that are run there), in a mount namespace, and used there as a user would; the tarball and the wheel in one
that has the libraries which the .deb asks for.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder, with the packages. Skipped, with the reason, where that cannot be done.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HPCC_INPUT = HERE.parent / "applications/hpccinf.txt"
PACKAGES = pathlib.Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve() / "packages"
LIMIT_S = 900
# What the system has for itself, and no more, while something runs in it.
ENTER = """set -e
mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"; mount -t tmpfs tmpfs "$0/tmp"; mount -t tmpfs tmpfs "$0/run"
exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@" """
EXCHANGE = """
from mpi4py import MPI
import array
world = MPI.COMM_WORLD
rank, size, count = world.rank, world.size, 100_000
send = array.array("q", [rank * 1000 + to for to in range(size) for _ in range(count)])
recv = array.array("q", bytes(8 * count * size))
for _ in range(5):
    world.Ialltoall([send, MPI.LONG], [recv, MPI.LONG]).wait()
assert recv == array.array("q", [of * 1000 + rank for of in range(size) for _ in range(count)])
print("exchanged", size)
"""


class System:
    """A Debian as this machine's, with packages of it, or .deb files."""

    def __init__(self, folder, *packages):
        self.root = folder / "root"
        release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
        names = ", ".join(pathlib.Path(one).name for one in packages)
        print(f"making a bare Debian with {names}", flush=True)
        made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase",
                               "--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount",
                               *(f"--include={name}" for name in packages), release["VERSION_CODENAME"], self.root],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if made.returncode != 0:
            raise AssertionError(f"{names} cannot be installed into a bare system:\n{made.stderr[-4000:]}")

    def run(self, *words, expect=0):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, self.root, *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode != expect:
            raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def files(self, lent):
        """What has to do with Longshore; the packages themselves were lent to the system by their paths, below that folder."""
        all_names = (str(p.relative_to(self.root)) for p in self.root.rglob("*"))
        return {name for name in all_names if "longshore" in name and not name.startswith(str(lent).lstrip("/"))}


RUN = ("run", "--stats", "-", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2")
OFFLOADED = r"longshore: [1-9]\d* of \d+ collective calls offloaded"


def setUpModule():
    if not list(PACKAGES.glob("*.deb")):
        raise FileNotFoundError(f"there are no .deb packages in {PACKAGES}: make packages")
    if os.getuid() != 0:
        raise unittest.SkipTest("only root can make a system and enter it")
    if not shutil.which("mmdebstrap"):
        raise unittest.SkipTest("there is no mmdebstrap")


class Bare(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longshore-bare-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def deb(self, package):
        return next(PACKAGES.glob(f"{package}_*.deb"))

    def system(self, package, *more):
        return System(self.folder, self.deb(package), *more)

    def check_exchange(self, system, longshore, python="python3"):
        """A program of mpi4py, carried."""
        (system.root / "root/exchange.py").write_text(EXCHANGE)
        said = system.run(longshore, *RUN, python, "/root/exchange.py")
        self.assertIn("exchanged 2", said)
        self.assertRegex(said, OFFLOADED)

    def purge(self, system, *packages):
        system.run("dpkg", "--purge", *packages)
        left = {name for name in system.files(PACKAGES) if not name.startswith(("var/log/", "var/cache/"))}
        self.assertEqual(left, set())

    def test_host(self):
        system = self.system("longshore", "openmpi-bin", "hpcc", "python3-mpi4py")
        with self.subTest("a first look"):
            self.assertIn("usage", system.run("longshore", "--help").lower())
            self.assertIn("Open MPI", system.run("longshore", "doctor"))
        with self.subTest("mpi4py"):
            self.check_exchange(system, "longshore")
        with self.subTest("hpcc"):
            shutil.copy(HPCC_INPUT, system.root / "root/hpccinf.txt")
            said = system.run("sh", "-c", 'cd /root && exec "$@"', "sh", "longshore", *RUN, "hpcc")
            self.assertRegex(said, OFFLOADED)
            self.assertIn("\nSuccess=1\n", (system.root / "root/hpccoutf.txt").read_text())
        self.purge(system, "longshore")

    def test_tarball_and_wheel(self):
        depends = subprocess.run(["dpkg-deb", "-f", self.deb("longshore"), "Depends"], capture_output=True, text=True, check=True).stdout
        libraries = [one.split()[0] for one in depends.split(", ")]
        system = System(self.folder, *libraries, "openmpi-bin", "python3-mpi4py", "python3-venv")
        with self.subTest("tarball"):
            shutil.unpack_archive(next(PACKAGES.glob("*.tar.gz")), system.root / "opt")
            self.check_exchange(system, "/" + str(next(system.root.glob("opt/**/bin/longshore")).relative_to(system.root)))
        with self.subTest("wheel"):
            wheel = next(PACKAGES.glob("*.whl"))
            shutil.copy(wheel, system.root / "root")
            system.run("python3", "-m", "venv", "--system-site-packages", "/root/venv")
            system.run("/root/venv/bin/pip", "install", "--no-index", f"/root/{wheel.name}")
            self.check_exchange(system, "/root/venv/bin/longshore", "/root/venv/bin/python")

    def test_dpu_and_documentation(self):
        system = self.system("longshore-dpu", next(PACKAGES.glob("longshore-doc_*.deb")))
        self.assertIn("address", system.run("longshored", "listen", "--check", "--address", "127.0.0.1"))
        system.run("test", "-s", "/usr/share/doc/longshore/docs/install.md")
        self.purge(system, "longshore-dpu", "longshore-doc")
