"""The .deb packages: what they say of themselves, installed into a root of their own by dpkg, used, and removed again; and
the tarball, unpacked anywhere."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "tools")]
from test_docs import dead_links  # noqa: E402
from test_install import BUILD, FLAVOURS, SOURCE, environment, files_below, make, run  # noqa: E402

EXCHANGE = pathlib.Path(__file__).resolve().parent / "exchange.c"


@unittest.skipUnless(BUILD == SOURCE / "build" and shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"),
                     "the Makefile packages what is in build/, with dpkg-dev")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make("packages")
        cls.made = {re.match("[a-z-]+?(?=[_-]0)", p.name)[0]: p for p in (BUILD / "packages").glob("*.deb")}
        cls.tarball = next((BUILD / "packages").glob("*.tar.gz"))

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-deb-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def field(self, package, name):
        return run("dpkg-deb", "-f", self.made[package], name).stdout.strip()

    def use(self, root):
        """A program of each MPI, offloaded by what is in this tree."""
        for flavour in FLAVOURS:
            with self.subTest(mpi=flavour):
                program = self.folder / f"exchange-{flavour}"
                run(f"mpicc.{flavour}", f"-I{root}/usr/include", "-o", program, EXCHANGE)
                launch = [f"mpirun.{flavour}", "-np", "2"]
                if flavour == "openmpi":
                    launch[1:1] = ["--allow-run-as-root", "--oversubscribe"]
                done = run(root / "usr/bin/longshore", "run", "--stats", "-", *launch, program)
                self.assertRegex(done.stdout + done.stderr, r"longshore: [1-9]\d* of \d+ collective calls offloaded")

    def test_what_they_say(self):
        self.assertEqual(set(self.made), {"longshore", "longshore-dpu", "longshore-doc"})
        for package, other in (("longshore", "longshore-dpu"), ("longshore-dpu", "longshore")):
            depends = self.field(package, "Depends")
            self.assertIn("libc6", depends)
            self.assertNotRegex(depends, "mpi|mpich|ucx|libucp")  # a machine has one MPI, or none
            self.assertEqual(self.field(package, "Conflicts"), other)
            self.assertNotIn("//", run("dpkg-deb", "-c", self.made[package]).stdout)
        self.assertIn("mpich", self.field("longshore", "Recommends"))
        self.assertEqual(self.field("longshore-doc", "Architecture"), "all")
        self.assertEqual(self.field("longshore-doc", "Depends"), "")

    def test_the_documentation(self):
        root = self.folder / "doc"
        run("dpkg-deb", "-x", self.made["longshore-doc"], root)
        pages = root / "usr/share/doc/longshore"
        self.assertEqual([name for name in files_below(root) if not name.startswith("usr/share/doc/longshore/")], [])
        self.assertTrue((pages / "examples/fft/main.cc").exists())
        self.assertEqual(len(list(pages.glob("docs/*.md"))), len(list((SOURCE / "docs").glob("*.md"))))
        self.assertEqual([link for page in pages.rglob("*.md") for link in dead_links(page)], [])

    @unittest.skipUnless(os.getuid() == 0, "dpkg installs as root")
    def test_installed_used_and_removed(self):
        root = self.folder / "root"
        (root / "var/lib/dpkg/info").mkdir(parents=True)
        (root / "var/lib/dpkg/updates").mkdir()
        (root / "var/lib/dpkg/status").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", "--log=/dev/null"]
        run(*dpkg, "-i", self.made["longshore"])
        self.use(root)
        refused = run(*dpkg, "-i", self.made["longshore-dpu"], expect=None)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("conflict", refused.stderr)
        run(*dpkg, "-i", self.made["longshore-doc"])
        self.assertTrue((root / "usr/share/doc/longshore/docs/install.md").exists())
        run(*dpkg, "--purge", "longshore-doc")
        run(*dpkg, "--purge", "longshore")
        self.assertEqual([name for name in files_below(root) if not name.startswith("var/")], [])
        run(*dpkg, "-i", self.made["longshore-dpu"])
        self.assertIn("ExecStart=/usr/bin/longshored ", (root / "usr/share/longshore/longshored.service").read_text())
        said = run(root / "usr/bin/longshored", "listen", "--check", "--address", "127.0.0.1").stdout
        self.assertIn("address", said)

    def test_the_tarball_works_anywhere(self):
        run("tar", "xzf", self.tarball, "-C", self.folder)
        trees = [p.parents[2] for p in self.folder.rglob("usr/bin/longshore")]
        self.assertEqual(len(trees), 1)
        self.use(trees[0])

    def test_nothing_built(self):
        copy = self.folder / "clone"
        copy.mkdir()
        shutil.copy(SOURCE / "Makefile", copy)
        done = subprocess.run(["make", "--no-print-directory", "-C", copy, "packages"], capture_output=True, text=True,
                              timeout=200, check=False, env=environment())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("packages: nothing is built here: run 'make build' first", done.stderr)
