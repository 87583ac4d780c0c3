"""Which packages the Makefile's groups install, how, and what they leave as it was: over a system of stand-ins."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# What the script may find on its PATH beside the stand-ins.
SYSTEM = ("bash", "sh", "env", "grep", "id", "readlink", "rm", "mv", "chmod", "ln", "cat", "touch", "mkdir", "make", "sed",
          "echo")

STANDINS = {
    "dpkg-query": 'grep -qx "${@: -1}" "$LONGSHORE_INTERNAL_TEST_ROOT/installed" && echo "install ok installed"',
    "apt-get": '''root=$LONGSHORE_INTERNAL_TEST_ROOT
        [ "$1" = install ] || exit 0
        sh "$root/usr/sbin/policy-rc.d"; echo "policy $?" >>"$root/log"
        for word; do
            case $word in -*|install) ;; *) echo "$word" >>"$root/installed"; echo "apt $word" >>"$root/log" ;; esac
        done
        if grep -q mpich "$root/installed" && [ -n "$TAKES_OVER" ]; then
            ln -sf mpirun.mpich "$root/bin/mpirun"; ln -sf mpicc.mpich "$root/bin/mpicc"
        fi
        exit ${FAILS:-0}''',
    "update-alternatives": 'echo "alternatives $*" >>"$LONGSHORE_INTERNAL_TEST_ROOT/log"',
    "deb-systemd-helper": 'echo "helper $*" >>"$LONGSHORE_INTERNAL_TEST_ROOT/log"',
    "mpirun.openmpi": "", "mpirun.mpich": "", "mpicc.mpich": "", "mpicc.openmpi": "",
}


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-packages-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.bin = self.root / "bin"
        self.bin.mkdir()
        (self.root / "usr" / "sbin").mkdir(parents=True)
        for name in SYSTEM:
            found = next((p for p in (pathlib.Path(f) / name for f in ("/usr/bin", "/bin")) if p.exists()), None)
            self.assertTrue(found, name)
            (self.bin / name).symlink_to(found)
        self.installed = self.root / "installed"
        self.installed.write_text("")
        self.has("dpkg-query", "apt-get", "update-alternatives", "deb-systemd-helper")

    def has(self, *names):
        for name in names:
            (self.bin / name).write_text("#!/usr/bin/env bash\n" + STANDINS[name] + "\n")
            (self.bin / name).chmod(0o755)

    def deps(self, target, *variables, expect=0, **more):
        done = subprocess.run(["make", "--no-print-directory", "-C", SOURCE, target, *variables], capture_output=True, text=True,
                              timeout=200, env={"PATH": str(self.bin), "LONGSHORE_INTERNAL_TEST_ROOT": str(self.root), **more})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def log(self, kind):
        log = self.root / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line.removeprefix(kind + " ") for line in lines if line.startswith(kind + " ")]

    def test_building_needs_one_mpi_and_no_tests(self):
        self.deps("deps")
        self.assertIn("libopenmpi-dev", self.log("apt"))
        self.assertIn("libcli11-dev", self.log("apt"))
        for name in ("mpich", "slurmd", "libgtest-dev", "hpcc", "cp2k"):
            self.assertNotIn(name, self.log("apt"))
        self.assertIn("all packages are there", self.deps("deps"))

    def test_an_mpi_that_is_there_is_enough(self):
        self.has("mpicc.mpich")
        self.deps("deps")
        self.assertIn("libcli11-dev", self.log("apt"))
        self.assertNotIn("libopenmpi-dev", self.log("apt"))

    def test_a_plain_mpicc_is_enough_and_is_found(self):
        """After a `module load`, where names have no suffix: the wrapper says whose it is."""
        cmake = shutil.which("cmake")
        script = self.root / "find.cmake"
        script.write_text(f"cmake_minimum_required(VERSION 3.25)\ninclude({SOURCE}/cmake/find_mpicc.cmake)\nforeach(flavour openmpi mpich)\n"
                          "longshore_find_mpicc(${flavour} found)\nmessage(\"${flavour}=${found}\")\nendforeach()\n")
        said = {"openmpi": 'case $1 in --showme:version) echo "mpicc: Open MPI 4.1.4 (Language: C)";; *) echo gcc; exit 1;; esac',
                "mpich": 'case $1 in -v) echo "mpicc for MPICH version 4.0.2";; *) echo "gcc: unrecognized" >&2; exit 1;; esac',
                "other": 'echo "an MPI of its own"'}
        for name, text in said.items():
            (self.bin / "mpicc").write_text(f"#!/usr/bin/env bash\n{text}\n")
            (self.bin / "mpicc").chmod(0o755)
            done = subprocess.run([cmake, "-P", script], capture_output=True, text=True, timeout=200, env={"PATH": str(self.bin)})
            for flavour in ("openmpi", "mpich"):
                wanted = self.bin / "mpicc" if flavour == name else ""
                self.assertRegex(done.stderr, rf"(?m)^{flavour}={wanted}(LONGSHORE_MPICC_{flavour}-NOTFOUND)?$", name)
        self.deps("deps")
        self.assertNotIn("libopenmpi-dev", self.log("apt"))

    def test_groups_add_to_each_other(self):
        self.deps("deps-test")
        wanted = set(self.log("apt"))
        for target in ("deps", "deps-demo"):
            self.installed.write_text("")
            (self.root / "log").unlink()
            self.deps(target)
            self.assertLess(set(self.log("apt")), wanted)

    def test_the_mpi_that_the_demo_is_asked_for(self):
        self.deps("deps-demo")
        self.assertNotIn("libmpich-dev", self.log("apt"))
        self.assertIn("hpcc", self.log("apt"))
        self.deps("deps-demo", "MPI=mpich")
        self.assertLess({"mpich", "libmpich-dev", "libopenmpi-dev"}, set(self.log("apt")))  # hpcc is Debian's, with Open MPI
        for target in ("deps-demo", "demo"):
            self.assertIn("demo: MPI=mpihc is neither openmpi nor mpich\n", self.deps(target, "MPI=mpihc", expect=2))

    def test_a_demo_without_its_mpi_says_so(self):
        project = self.root / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(p NONE)\n" +
            "".join(f"include({SOURCE}/cmake/{name}.cmake)\n" for name in ("python", "test_groups")) +
            f"add_subdirectory({SOURCE}/examples examples)\n")
        subprocess.run(["cmake", "-G", "Ninja", "-S", project, "-B", project / "b"], check=True, capture_output=True, timeout=200)
        done = subprocess.run(["cmake", "--build", project / "b", "--target", "demo-mpich"], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 1)
        self.assertIn("or no mpich with its headers (Debian: libmpich-dev)", done.stdout + done.stderr)

    def test_no_service_is_started(self):
        self.installed.write_text("munge\n")  # the machine's own
        self.deps("deps-test")
        self.assertEqual(self.log("policy"), ["101"])
        self.assertEqual(self.log("helper"), ["disable slurmd.service", "disable slurmctld.service"])
        self.assertEqual(list((self.root / "usr" / "sbin").iterdir()), [])

    def test_a_policy_that_is_there_comes_back_even_after_a_failure(self):
        policy = self.root / "usr" / "sbin" / "policy-rc.d"
        policy.write_text("exit 0  # of the machine\n")
        self.deps("deps-test", expect=2, FAILS="1")
        self.assertEqual(self.log("policy"), ["101"])
        self.assertEqual(policy.read_text(), "exit 0  # of the machine\n")
        self.assertEqual(list(policy.parent.iterdir()), [policy])

    def test_the_choice_of_an_mpi_stays(self):
        self.has("mpirun.openmpi", "mpicc.openmpi")
        (self.bin / "mpirun").symlink_to("mpirun.openmpi")
        (self.bin / "mpicc").symlink_to("mpicc.openmpi")
        self.has("mpirun.mpich", "mpicc.mpich")
        said = self.deps("deps-test", TAKES_OVER="yes")
        self.assertEqual(self.log("alternatives"),
                         [f"--set mpirun {self.bin}/mpirun.openmpi", f"--set mpi {self.bin}/mpicc.openmpi"])
        self.assertIn("mpirun is mpirun.openmpi again", said)

    def test_the_choice_is_not_touched_without_need(self):
        self.has("mpirun.openmpi", "mpicc.openmpi")
        (self.bin / "mpirun").symlink_to("mpirun.openmpi")
        self.deps("deps-test")
        self.assertEqual(self.log("alternatives"), [])

    def test_elsewhere_it_names_what_to_install(self):
        (self.bin / "dpkg-query").unlink()
        said = self.deps("deps")
        self.assertRegex(said, re.compile(r"Fedora \(untested\): dnf install .*openmpi-devel"))
        self.assertIn("SUSE (untested): zypper install", said)
        self.assertEqual(self.log("apt"), [])

    def test_skipped(self):
        self.assertIn("skipped", self.deps("deps", DEPS="skip"))
        self.assertEqual(self.log("apt"), [])
