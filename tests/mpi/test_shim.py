"""Which shim core serves the MPI of a program: its own. Where there is none, or another's lies in its place, the job runs
on plain MPI and says why, once."""

import json
import os
import shutil
import subprocess

import job

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
CORE = os.environ["LONGSHORE_INTERNAL_TEST_CORE"]


class Shim(job.JobTest):
    def setUp(self):
        super().setUp()
        self.lib = self.folder / "lib"
        self.lib.mkdir()
        for library in (job.BUILD / "lib").glob("liblongshore*.so"):
            shutil.copy(library, self.lib)
        (self.folder / "bin").mkdir()
        self.longshored.rename(self.folder / "bin" / "longshored")
        self.longshored = self.folder / "bin" / "longshored"
        self.core = self.lib / f"liblongshore-{CORE}.so"

    def run_job(self):
        """The lines that Longshore says in a job of two ranks, and how many calls were offloaded."""
        stats = self.folder / "stats.json"
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        words = [*job.mpirun(2), "env", f"LD_PRELOAD={self.lib / 'liblongshore.so'}", f"LONGSHORE_STATS={stats}",
                 self.program("collectives"), "1024"]
        done = subprocess.run(words, env=kept, capture_output=True, text=True, timeout=2 * job.BUSY_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if "longshore: " in line]
        if not stats.exists():
            return lines, 0
        return lines, sum(call["offloaded"] for call in json.loads(stats.read_text())["collectives"].values())

    def test_its_own(self):
        lines, offloaded = self.run_job()
        self.assertEqual(lines, [])
        self.assertGreater(offloaded, 0)

    def check_refused(self, why):
        lines, offloaded = self.run_job()
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], why)
        self.assertIn("plain MPI", lines[0])
        self.assertEqual(offloaded, 0)

    def test_none(self):
        self.core.unlink()
        self.check_refused(rf"libmpi.*is not there: no {self.core}")

    def test_another_kind(self):
        others = [path for path in self.lib.glob("liblongshore-*.so")
                  if path not in (self.core, self.lib / "liblongshore-io.so")]
        if not others:
            self.skipTest("SKIP: there is only one core")
        for other in others:
            with self.subTest(other=other.name):
                shutil.copy(other, self.core)
                # Open MPI's handles are symbols, which no other MPI has: the loader finds out.
                self.check_refused(r"undefined symbol: ompi_" if other.name.endswith("-openmpi.so")
                                   else rf"{self.core} is made for another kind of MPI")

    def test_another_version(self):
        shutil.copy(job.BUILD / "lib" / "liblongshore.so", self.core)
        self.check_refused("does not belong")

    def test_an_unknown_mpi(self):
        code = "int {0}MPI_Init(int* a, char*** b) {{ return 0; }}\nint {0}MPI_Finalize(void) {{ return 7; }}\n"
        library = self.folder / "libmpi.so.99"
        subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", library, f"-Wl,-soname,{library.name}"],
                       input=code.format("") + code.format("P"), text=True, check=True)
        program = self.folder / "program"
        subprocess.run([COMPILER, "-x", "c", "-", "-x", "none", library, "-o", program, f"-Wl,-rpath,{self.folder}"],
                       input="int MPI_Init(int*, char***); int MPI_Finalize(void);\n"
                             "int main(int c, char** v) { MPI_Init(&c, &v); return MPI_Finalize(); }", text=True, check=True)
        for rank, lines in (("0", 1), ("1", 0), (None, 1)):
            environment = {"LD_PRELOAD": str(self.lib / "liblongshore.so")} | ({"PMI_RANK": rank} if rank else {})
            done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=job.BUSY_S)
            self.assertEqual((done.returncode, done.stdout), (7, ""), done.stderr)
            self.assertEqual(done.stderr.count(f"longshore: there is no shim for this MPI, {library}"), lines, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), lines, done.stderr)
        done = subprocess.run([program], env=environment | {"LONGSHORE_OFFLOAD": "off"}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (7, ""))
