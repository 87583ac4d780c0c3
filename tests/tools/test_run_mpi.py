"""What `longshore run` says of the MPI that its command uses."""

import os
import shutil
import subprocess

from support import CommandTest, write_program

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


class Uses(CommandTest):
    def setUp(self):
        super().setUp()
        self.make_shim()
        for core in ("openmpi", "mpich", "abi"):
            (self.root / "lib" / f"liblongshore-{core}.so").touch()
        self.libraries = self.root / "libraries"
        self.libraries.mkdir()

    def compile(self, code, output, *flags):
        subprocess.run([COMPILER, "-x", "c", "-", "-o", output, f"-L{self.libraries}", "-Wl,--no-as-needed", *flags],
                       input=code, text=True, check=True)

    def library(self, file, *flags):
        """Under its own name in a folder that only LD_LIBRARY_PATH leads to."""
        self.compile("int MPI_Init(void) { return 0; }", self.libraries / file, "-shared", f"-Wl,-soname,{file}", *flags)

    def program(self, name, *libraries):
        path = self.root / name
        self.compile("int main(void) { return 0; }", path, "-Wl,--allow-shlib-undefined",
                     *(f"-l:{library}" for library in libraries))
        return f"./{name}"

    def says(self, *command, options=(), **environment):
        """The lines that the command's own tool says before it starts."""
        done = self.longshore("run", *options, "--", *command, expect=None, LD_LIBRARY_PATH=str(self.libraries),
                              **environment)
        return [line for line in done.stderr.splitlines() if line.startswith("longshore:")]

    def test_each_mpi(self):
        for file, name, core in (("libmpi.so.40", "Open MPI", "openmpi"), ("libmpich.so.12", "MPICH", "mpich"),
                                 ("libmpi.so.12", "MPICH", "mpich"), ("libmpi_abi.so.1", "the MPI ABI", "abi")):
            self.library(file)
            self.assertEqual(self.says(self.program("program", file)),
                             [f"longshore: ./program uses {name} ({file}): shim liblongshore-{core}.so"])

    def test_through_another_library(self):
        self.library("libmpich.so.12")
        self.library("libsolver.so", "-l:libmpich.so.12")
        # What the name looks like does not matter.
        self.library("libmpi_cxx.so.40")
        program = self.program("program", "libmpi_cxx.so.40", "libsolver.so")
        self.assertIn("uses MPICH (libmpich.so.12)", "".join(self.says(program)))

    def test_the_launcher_of_another_mpi_is_refused(self):
        self.library("libmpi.so.40")
        program = self.program("program", "libmpi.so.40")
        write_program(self.root / "mpirun", '#!/bin/sh\n[ "$1" = --version ] && echo "HYDRA build details:" && exit\necho started\n')
        for options, code, wanted in (([], 125, "or --force"), (["--force"], 0, "because of --force")):
            done = self.longshore("run", *options, "./mpirun", "-np", 2, program, LD_LIBRARY_PATH=str(self.libraries), expect=code)
            self.assertIn("./mpirun is the launcher of MPICH, but ./program uses Open MPI", done.stderr)
            self.assertIn(wanted, done.stderr)
            self.assertEqual(done.stdout, "started\n" if options else "")

    def test_finds_the_program_among_the_words(self):
        for file in ("libmpi.so.40", "libmpich.so.12"):
            self.library(file)
        self.program("mpirun.other", "libmpi.so.40")
        self.program("plain")
        self.program("program", "libmpich.so.12")
        path = f"{self.root}:/usr/bin:/bin"
        mine = ["longshore: {} uses MPICH (libmpich.so.12): shim liblongshore-mpich.so"]
        # A launcher may have another one; an option's value is no program.
        for before in ([], ["./mpirun.other", "-np", "2"], ["env", "A=./program", "./mpirun.other", "--x=./program"],
                       ["./plain"]):
            for program in ("./program", str(self.root / "program"), "program"):
                self.assertEqual(self.says(*before, program, "--", "./plain", PATH=path), [mine[0].format(program)])

    def test_library_path(self):
        # The same name leads to another library, which needs another MPI.
        for file in ("libmpi.so.40", "libmpich.so.12"):
            self.library(file)
        self.library("libsolver.so", "-l:libmpich.so.12")
        program = self.program("program", "libsolver.so")
        self.assertIn("MPICH", "".join(self.says(program)))
        self.library("libsolver.so", "-l:libmpi.so.40")
        self.assertIn("Open MPI", "".join(self.says(program)))
        # A launcher may know where it lies.
        (self.libraries / "libmpi.so.40").unlink()
        self.assertIn("Open MPI", "".join(self.says(program)))

    def test_found_at_run_time(self):
        write_program(self.root / "script", "#!/bin/sh\nexit 0\n")
        for command in (["./script"], ["sh", "-c", "true"], [self.program("plain")]):
            lines = self.says(*command)
            self.assertEqual(len(lines), 1)
            self.assertIn("found at run time", lines[0])
        said = self.longshore("run", "sh", "-c", "echo $LONGSHORE_INTERNAL_SAY_MPI").stdout
        self.assertEqual(said, "1\n")  # so that the program says it then
        self.assertEqual(self.longshore("run", "-q", "sh", "-c", "echo $LONGSHORE_INTERNAL_SAY_MPI").stdout, "\n")
        # Nothing will run: then only that is said.
        self.assertRegex("".join(self.says("./nowhere")), r"^longshore: \./nowhere: not found; [^:]*$")

    def test_without_a_core(self):
        for file in ("libmpi.so.20", "libmpi_abi.so.1"):
            self.library(file)
        lines = self.says(self.program("program", "libmpi.so.20"))
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"libmpi\.so\.20.*no shim.*plain MPI; Longshore serves Open MPI 4 and 5")
        (self.root / "lib" / "liblongshore-abi.so").unlink()
        # A warning, so it is not silenced.
        program = self.program("program", "libmpi_abi.so.1")
        for file, said in (("libmpi_abi.so.1", "install Longshore again, from a build that had MPICH 5"),
                           ("libmpi.so.40", "install Longshore again, from a build that had this MPI's headers")):
            self.library(file)
            core = self.root / "lib" / ("liblongshore-abi.so" if "abi" in file else "liblongshore-openmpi.so")
            core.unlink(missing_ok=True)
            lines = self.says(self.program("program", file), options=["--quiet"])
            self.assertEqual(len(lines), 1)
            self.assertIn(f"{core} is not there, so it runs with plain MPI; {said}", lines[0])
        (self.root / "CMakeCache.txt").touch()  # where it is a build folder, it has to be built
        self.assertRegex("".join(self.says(program)), r" liblongshore-openmpi\.so is not built.*install its headers, then 'make build'$")
        lines = self.says(self.program("program", "libmpi_abi.so.1"))
        self.assertRegex("".join(lines), r" liblongshore-abi\.so is not built.*'make mpis build'$")

    def test_quiet_and_off(self):
        self.library("libmpich.so.12")
        program = self.program("program", "libmpich.so.12")
        self.assertEqual(self.says(program, options=["--quiet"]), [])
        self.assertEqual(self.says(program, options=["-q"]), [])
        self.assertEqual(self.says("sh", "-c", "true", options=["-q"]), [])
        self.assertEqual(self.says(program, options=["--set", "offload=off"]), [])

    def test_a_sanitizer_is_loaded_before_the_shim(self):
        self.library("libmpich.so.12")
        self.library("libasan.so.8")
        self.compile("#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv(\"LD_PRELOAD\")); }", self.root / "program",
                     "-l:libmpich.so.12", "-l:libasan.so.8")
        self.program("other", "libmpich.so.12")
        asan = f"{self.libraries}/libasan.so.8"
        write_program(self.root / "mpirun", '#!/bin/sh\necho "mpirun: $LD_PRELOAD"\nfor word; do [ "$word" = -- ] && break; shift; done\nshift\n"$@"\n')
        said = "longshore: ./program has a sanitizer (libasan.so.8), which is loaded first"
        for before in ([], ["./mpirun", "-np", 2, "--"]):
            done = self.longshore("run", "--", *before, "./program", "./program", LD_LIBRARY_PATH=str(self.libraries))
            self.assertEqual(done.stdout.splitlines()[-1], f"{asan}:{self.shim}")
            self.assertEqual(done.stderr.count(said), 1, done.stderr)
        # The launcher has the shim alone, for which nothing is new.
        self.assertEqual(done.stdout.splitlines()[0], f"mpirun: {self.shim}")
        self.assertNotIn("sanitizer", "".join(self.says("./program", options=["-q"])))
        self.assertNotIn("sanitizer", "".join(self.says("./other")))
        # The user has done it.
        done = self.longshore("run", "./program", LD_LIBRARY_PATH=str(self.libraries), LD_PRELOAD=asan)
        self.assertEqual(done.stdout.splitlines()[-1], f"{asan}:{self.shim}")
        # Both programs of one command.
        words = self.longshore("run", "-q", "echo", "./program", ":", "-np", 1, "./program", LD_LIBRARY_PATH=str(self.libraries)).stdout
        self.assertEqual(words, f"env LD_PRELOAD={asan}:{self.shim} ./program : -np 1 env LD_PRELOAD={asan}:{self.shim} ./program\n")

    def test_starts_nothing(self):
        # A program without a loader would run if it were asked for its libraries by being started.
        self.compile("#include <stdio.h>\nint main(void) { fclose(fopen(\"ran\", \"w\")); }", self.root / "static", "-static")
        self.says("sh", "-c", "true", "./static")
        self.assertFalse((self.root / "ran").exists())
        self.library("libmpich.so.12")
        self.compile("#include <stdio.h>\nint main(void) { fclose(fopen(\"ran\", \"w\")); }", self.root / "program",
                     "-l:libmpich.so.12")
        self.assertIn("uses MPICH", "".join(self.says("true", "./program")))
        self.assertFalse((self.root / "ran").exists())
