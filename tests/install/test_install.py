"""Installs into a folder, moves that, and uses it as users do: programs of each MPI, another user, a link in PATH, what
finds headers, completes arguments and loads modules; takes it away again; and what is refused."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["LONGSHORE_INTERNAL_TEST_BUILD"])
FLAVOURS = os.environ["LONGSHORE_INTERNAL_TEST_FLAVOURS"].split()
HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
NOBODY = 65534
AS_ROOT = os.getuid() == 0


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LONGSHORE_", "MAKE", "MFLAGS"))}
    kept.pop("LD_PRELOAD", None)
    return kept | more


def run(*words, expect=0, **options):
    options.setdefault("env", environment())
    done = subprocess.run([*map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250, **options)
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def make(target, *variables, **options):
    """The project's Makefile, whose build/ is the one that is tested."""
    return run("make", "--no-print-directory", "-C", SOURCE, target, *variables, **options)


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


class Folder(unittest.TestCase):
    """A folder for each test, which every user may enter."""

    def setUp(self):
        if BUILD != SOURCE / "build":
            self.skipTest("the Makefile installs what is in build/")
        folder = tempfile.TemporaryDirectory(prefix="longshore-install-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.folder.chmod(0o755)
        self.addCleanup(run, "chmod", "-R", "u+w", self.folder)

    def install(self, *variables, name="first", **options):
        tree = self.folder / name
        make("install", f"PREFIX={tree}", *variables, **options)
        return tree


class Moved(Folder):
    """The tree as it is used: installed under a strict umask, moved, and read-only."""

    def setUp(self):
        super().setUp()
        first = self.install(preexec_fn=lambda: os.umask(0o077))
        self.tree = self.folder / "moved" / "longshore"
        self.tree.parent.mkdir(mode=0o755)
        first.rename(self.tree)
        self.protect()

    def protect(self):
        run("chmod", "-R", "a-w", self.tree)

    def compile(self, flavour, mpicc=None):
        """A program that finds the header by pkg-config, in the folder of the test."""
        flags = run("pkg-config", "--cflags", "longshore",
                    env=environment(PKG_CONFIG_PATH=str(self.tree / "lib" / "pkgconfig"))).stdout.split()
        self.assertIn(f"-I{self.tree}/lib/pkgconfig/../../include", flags)
        program = self.folder / f"exchange_{flavour}"
        run(mpicc or f"mpicc.{flavour}", *flags, HERE / "exchange.c", "-o", program, "-ldl")
        return program

    def job(self, command, flavour, program, before=(), mpirun=None, **options):
        as_root = ["--allow-run-as-root"] if AS_ROOT and not before else []
        launch = [*as_root, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if flavour == "openmpi" else []
        return run(*before, *command, mpirun or f"mpirun.{flavour}", *launch, "-np", 2, program, cwd="/", **options)

    def carries(self, *arguments, **options):
        """The job's one call was carried, and right. Nodes that are emulated need a service process: longshored was found."""
        done = self.job(*arguments, **options)
        self.assertEqual(done.stdout.strip(), "offloaded 1 wrong 0", done.stderr)
        self.assertNotIn("plain MPI", done.stderr)
        return done

    def test_programs_of_each_mpi(self):
        bin_folder = self.folder / "links"
        bin_folder.mkdir()
        (bin_folder / "longshore").symlink_to(self.tree / "bin" / "longshore")
        self.assertTrue(FLAVOURS)
        for flavour in FLAVOURS:
            program = self.compile(flavour)
            self.assertEqual(self.job([], flavour, program).stdout.strip(), "offloaded 0 wrong 0")
            stats = self.folder / f"stats_{flavour}"
            self.carries([self.tree / "bin" / "longshore", "run", "--nodes", 2, "--stats", stats, "--"], flavour, program)
            self.assertTrue(stats.read_text())
            path = f"{bin_folder}:{os.environ['PATH']}"
            self.carries(["longshore", "run", "--nodes", 2, "--"], flavour, program, env=environment(PATH=path))

    @unittest.skipUnless((BUILD / "mpi5").is_dir(), "no current MPIs ('make mpis')")
    def test_programs_of_current_mpis(self):
        """Those of PyPI, and the standard ABI: the shim of each is found."""
        looked = 0
        for name, wrapper, core in (("mpich", "mpicc_abi", "abi"), ("mpich", "mpicc", "mpich"), ("openmpi", "mpicc", "openmpi")):
            folder = BUILD / "mpi5" / name / "bin"
            if not (folder / wrapper).exists():
                continue
            with self.subTest(f"{name} {wrapper}"):
                program = self.compile(name, folder / wrapper)
                done = self.carries([self.tree / "bin" / "longshore", "run", "--nodes", 2, "--"], name, program, mpirun=folder / "mpirun")
                self.assertIn(f"shim liblongshore-{core}.so", done.stderr)
                looked += 1
        self.assertGreater(looked, 0)

    @unittest.skipUnless(AS_ROOT and shutil.which("setpriv"), "needs root and setpriv to become another user")
    def test_another_user(self):
        home = self.folder / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        for flavour in FLAVOURS:
            program = self.compile(flavour)
            self.carries([self.tree / "bin" / "longshore", "run", "--nodes", 2, "--"], flavour, program, before=become,
                         env=environment(HOME=str(home), TMPDIR=str(home)))
        (home / "closed").mkdir(mode=0o555)
        done = run(*become, self.tree / "bin" / "longshore", "run", "--stats", home / "closed" / "file", "true", expect=125)
        self.assertIn("cannot be written (Permission denied)", done.stderr)

    def test_other_library_folders(self):
        """What packagers do: lib64, or a folder for each architecture."""
        machine = run("cc", "-print-multiarch").stdout.strip()
        flavour = FLAVOURS[0]
        program = self.compile(flavour)
        for name in ["lib64", *([f"lib/{machine}"] if machine else [])]:
            with self.subTest(name):
                run("chmod", "-R", "u+w", self.tree)
                now = next(path.parent for path in self.tree.rglob("liblongshore.so"))
                (self.tree / name).mkdir(parents=True, exist_ok=True)
                for path in now.glob("*.so"):
                    path.rename(self.tree / name / path.name)
                self.protect()
                self.carries([self.tree / "bin" / "longshore", "run", "--nodes", 2, "--"], flavour, program)
                checks = run(self.tree / "bin" / "longshore", "doctor", expect=None).stdout
                self.assertNotIn("is missing", checks)
                self.assertNotIn("built without OpenSSL", checks)
        # Preloaded by way of a link, as a site may put one into a folder that all programs know.
        link = self.folder / "liblongshore.so"
        link.symlink_to(next(self.tree.rglob("liblongshore.so")))
        env = environment(LD_PRELOAD=str(link), LONGSHORE_NODES_COUNT="2")
        if flavour == "openmpi":
            self.carries([], flavour, program, env=env)

    def test_a_library_folder_that_is_configured(self):
        """An installation of a build with -DCMAKE_INSTALL_LIBDIR=lib64. It is only configured: what it installs are the programs of
        the build that is tested, which look into lib64 as well."""
        build, tree = self.folder / "build", self.folder / "other"
        run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_LIBDIR=lib64", "-DBUILD_TESTING=OFF")
        for name in ("bin", "lib", "libexec", "share"):
            shutil.rmtree(build / name, ignore_errors=True)
            (build / name).symlink_to(BUILD / name)
        run("cmake", "--install", build, "--prefix", tree, "--component", "host")
        self.assertFalse((tree / "lib").exists())
        env = environment(PKG_CONFIG_PATH=str(tree / "lib64" / "pkgconfig"))
        preload = run("pkg-config", "--variable=preload", "longshore", env=env).stdout.strip()
        self.assertEqual(os.path.realpath(preload), str(tree / "lib64" / "liblongshore.so"))
        module = next((tree / "share" / "modulefiles" / "longshore").iterdir()).read_text()
        self.assertIn("/lib64/pkgconfig", module)
        for flavour in FLAVOURS:
            self.carries([tree / "bin" / "longshore", "run", "--nodes", 2, "--"], flavour, self.compile(flavour))
        (tree / "lib64" / "liblongshore.so").unlink()
        self.assertIn("liblongshore.so is not there", run(tree / "bin" / "longshore", "run", "true", expect=125).stderr)

    def test_says_what_is_missing(self):
        flavour = FLAVOURS[0]
        program = self.compile(flavour)
        run("chmod", "-R", "u+w", self.tree)
        (self.tree / "bin" / "longshored").unlink()
        done = self.job([self.tree / "bin" / "longshore", "run", "--"], flavour, program)
        self.assertEqual(done.stdout.strip(), "offloaded 0 wrong 0")
        said = [line for line in done.stderr.splitlines() if "plain MPI" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn(f"cannot start {self.tree}/bin/longshored: No such file", said[0])
        core = self.tree / "lib" / f"liblongshore-{flavour}.so"
        core.unlink()
        for options in ([], ["-q"]):
            done = self.job([self.tree / "bin" / "longshore", "run", *options, "--"], flavour, program)
            self.assertEqual(done.stdout.strip(), "offloaded 0 wrong 0")
            said = [line for line in done.stderr.splitlines() if "longshore" in line]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertRegex(said[0], f"^longshore: {program} uses .* and {core} is not there, so it runs with plain MPI; "
                                      "install Longshore again, from a build that had this MPI's headers$")
        # Started otherwise, the program itself says so.
        env = environment(LD_PRELOAD=str(self.tree / "lib" / "liblongshore.so"))
        said = [line for line in self.job([], flavour, program, env=env).stderr.splitlines() if "longshore" in line]
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], f"is not there: no {core} .*; the job runs with plain MPI$")
        (self.tree / "lib" / "liblongshore.so").unlink()
        done = run(self.tree / "bin" / "longshore", "run", "true", expect=125)
        self.assertEqual(done.stderr, f"longshore: {self.tree}/lib/liblongshore.so is not there; "
                                      "install Longshore again, all of it\n")

    def test_nothing_leads_into_the_build(self):
        looked = 0
        for path in self.tree.rglob("*"):
            if path.is_dir():
                continue
            looked += 1
            if path.read_bytes()[:4] == b"\x7fELF":
                dynamic = run("readelf", "-d", path).stdout
                self.assertNotIn(str(BUILD), dynamic, path)
                self.assertNotIn("not found", run("ldd", path).stdout, path)
            elif path.name != "longshored.service":
                self.assertNotIn(str(SOURCE).encode(), path.read_bytes(), path)
                self.assertNotIn(str(self.folder).encode(), path.read_bytes(), path)
        self.assertGreater(looked, 15)

    def test_every_user_may_read_it(self):
        for path in [self.tree, *self.tree.rglob("*")]:
            mode = path.stat().st_mode
            self.assertEqual(mode & 0o444, 0o444, path)
            if path.is_dir() or path.parent.name == "bin":
                self.assertEqual(mode & 0o111, 0o111, path)

    def test_simulate_finds_its_machines(self):
        tree = self.install()
        said = run(tree / "bin/longshore", "simulate", "--machine", "mpcdf-bf3", "--nodes", "2", "--ranks-per-node", "2",
                   "--services", "1", "--sizes", "4K").stdout
        self.assertIn("mpcdf-bf3", said)

    def test_cmake_package(self):
        project = self.folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(p C)\nfind_package(Longshore 0.1 REQUIRED)\n"
            "add_library(p OBJECT p.c)\ntarget_link_libraries(p PRIVATE Longshore::longshore)\n"
            "add_executable(tasks tasks.c)\ntarget_link_libraries(tasks PRIVATE Longshore::task)\n"
            "if(NOT EXISTS ${Longshore_PRELOAD} OR NOT EXISTS ${Longshore_COMMAND})\nmessage(FATAL_ERROR missing)\nendif()\n")
        (project / "p.c").write_text("#include <longshore.h>\nlongshore_counters counters;\n")
        # There is no such plug-in: the library is linked, and says so.
        (project / "tasks.c").write_text("#include <longshore_task.h>\nint main(void) { longshore_pool* pool;\n"
                                         'return longshore_open_pool("no_such_plug_in", &pool) == 0; }\n')
        run("cmake", "-S", project, "-B", project / "b", f"-DCMAKE_PREFIX_PATH={self.tree}")
        run("cmake", "--build", project / "b")
        run(project / "b" / "tasks")
        flags = run("pkg-config", "--cflags", "--libs", "longshore-task",
                    env=environment(PKG_CONFIG_PATH=str(self.tree / "lib" / "pkgconfig"))).stdout.split()
        run("cc", project / "tasks.c", *flags, "-o", project / "tasks")
        run(project / "tasks")

    def test_completion(self):
        script = self.tree / "share" / "bash-completion" / "completions" / "longshore"
        self.assertEqual(script.read_text(), run(self.tree / "bin" / "longshore", "completion").stdout)

        def completes(*words):
            quoted = " ".join(f"'{word}'" for word in ("longshore", *words))
            text = (f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _longshore; "
                    'printf "%s\\n" "${COMPREPLY[@]}"')
            return run("bash", "--norc", "-c", text, cwd=self.tree).stdout.split()

        helped = run(self.tree / "bin" / "longshore", "--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0]
        names = [line.split()[0] for line in helped.splitlines()]
        self.assertGreaterEqual(len(names), 8)
        self.assertEqual(sorted(completes("")), sorted([*names, "--help", "--version"]))
        for name in names:
            shown = run(self.tree / "bin" / "longshore", name, "--help").stdout.split("Bench arguments, after --")[0]
            known = set(re.findall(r"^ +(?:-\w,)?(--[\w-]+)", shown, re.M))
            self.assertTrue(known)
            self.assertEqual(known - set(completes(name, "--")), set(), name)
        self.assertEqual(completes("bench", "--mpi", ""), ["openmpi", "mpich"])
        self.assertEqual(completes("run", "--set", "chunk_b"), ["chunk_bytes="])
        self.assertEqual(completes("run", "--stats", "sh"), ["share"])
        self.assertIn("true", completes("run", "tru"))
        self.assertIn("true", completes("run", "--service", "2", "tru"))
        self.assertEqual(completes("run", "true", "sh"), ["share"])

    @unittest.skipUnless(pathlib.Path("/usr/share/modules/init/bash").exists(), "no environment-modules")
    def test_module(self):
        text = (f"source /usr/share/modules/init/bash; module use {self.tree}/share/modulefiles; module load longshore && "
                "longshore --version && command -v longshore && pkg-config --variable=preload longshore && man -w longshore")
        said = run("bash", "-c", text).stdout.splitlines()
        self.assertEqual(said[1], str(self.tree / "bin" / "longshore"))
        self.assertEqual(os.path.realpath(said[2]), str(self.tree / "lib" / "liblongshore.so"))
        self.assertEqual(said[3], str(self.tree / "share" / "man" / "man1" / "longshore.1"))


class Components(Folder):
    def test_unit_has_the_prefix_that_is_given(self):
        staged = self.folder / "staged"
        self.addCleanup(shutil.rmtree, staged, True)
        install = ("cmake", "--install", BUILD, "--prefix", "/opt/longshore", "--component")
        run(*install, "dpu", env=environment(DESTDIR=str(staged)))
        self.assertEqual([p.name for p in staged.iterdir()], ["opt"])
        tree = staged / "opt" / "longshore"
        names = files_below(tree)
        self.assertIn("bin/longshored", names)
        self.assertNotIn("bin/longshore", names)
        self.assertFalse([name for name in names if name.startswith(("include/", "lib/liblongshore"))])
        unit = (tree / "share" / "longshore" / "longshored.service").read_text()
        self.assertEqual(unit.count("/opt/longshore/bin/longshored listen"), 3)
        self.assertNotIn("@", unit)
        # The other component beside it, on the same list.
        run(*install, "host", env=environment(DESTDIR=str(staged)))
        self.assertLess(set(names), set(files_below(tree)))
        make("uninstall", "PREFIX=/opt/longshore", f"DESTDIR={staged}")
        self.assertEqual(files_below(staged), [])
        self.assertFalse(tree.exists())

    def test_uninstall_leaves_what_is_not_ours(self):
        tree = self.folder / "first"
        (tree / "bin").mkdir(parents=True)
        (tree / "lib").mkdir()
        self.install()
        listed = (tree / "share" / "longshore" / "installed").read_text().split()
        self.assertEqual(sorted(name for name in listed if not name.endswith("/")), files_below(tree))
        self.install()  # once more, over it
        (tree / "share" / "man" / "man1" / "other.1").write_text("of somebody else")
        make("uninstall", f"PREFIX={tree}")
        self.assertEqual(files_below(tree), ["share/man/man1/other.1"])
        self.assertEqual(sorted(p.name for p in tree.iterdir()), ["bin", "lib", "share"])  # bin and lib were there before

    @staticmethod
    def when_built():
        """Of what building changes; tests that run beside this one make files of their own there."""
        return [(BUILD / name).stat().st_mtime_ns for name in (".ninja_log", ".ninja_deps", "CMakeCache.txt", "bin", "lib")]

    def test_nothing_is_built(self):
        newest = self.when_built()
        self.install()
        self.assertEqual(self.when_built(), newest)
        self.assertFalse(list(BUILD.glob("install_manifest*")))


class Refused(Folder):
    def refuses(self, done, text):
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len([line for line in lines if not line.startswith("make")]), 1, done.stderr)
        self.assertIn(text, lines[0])
        self.assertIn("nothing was", lines[0])

    def test_uninstall_of_what_was_never_installed(self):
        done = make("uninstall", f"PREFIX={self.folder}", expect=2)
        self.refuses(done, "Longshore was not installed with PREFIX=")

    def test_list_that_leads_elsewhere(self):
        tree = self.install()
        outside = self.folder / "outside"
        outside.write_text("stays")
        with (tree / "share" / "longshore" / "installed").open("a") as listed:
            listed.write("bin/../../outside\n")
        self.refuses(make("uninstall", f"PREFIX={tree}", expect=2), "which is not below")
        self.assertTrue(outside.exists())
        self.assertTrue((tree / "bin" / "longshore").exists())

    def test_a_path_that_cannot_be_preloaded(self):
        for name in ("soft ware", "soft:ware"):
            done = make("install", f"PREFIX={self.folder / name}/longshore", expect=2)
            self.assertIn("LD_PRELOAD cannot hold a path with a space or a colon", done.stderr)
            # Neither there nor where a path that was taken for two would lead.
            self.assertEqual(list(self.folder.iterdir()), [])
            # The pages are not preloaded.
            make("install", "COMPONENT=doc", f"PREFIX={self.folder / name}")
            self.assertTrue((self.folder / name / "share" / "longshore" / "installed").exists())
            make("uninstall", f"PREFIX={self.folder / name}")
            self.assertEqual(list(self.folder.iterdir()), [])
            tree = self.install(name="tree").rename(self.folder / name)
            done = run(tree / "bin" / "longshore", "doctor", expect=1)
            self.assertRegex(done.stdout, "fail +shim .*LD_PRELOAD cannot hold a path with a space or a colon\n *-> move the folder")
            self.assertIn("move the folder", run(tree / "bin" / "longshore", "run", "true", expect=125).stderr)
            shutil.rmtree(tree)

    def test_prefix_that_cannot_be_written(self):
        (self.folder / "file").write_text("no folder")
        (self.folder / "half").mkdir()
        (self.folder / "half" / "share").write_text("no folder")
        for prefix in ("file/below", "half", "/proc/longshore"):
            done = make("install", f"PREFIX={self.folder / prefix}", expect=2)
            self.refuses(done, "cannot be written: use sudo, or another PREFIX")
        self.assertEqual(files_below(self.folder), ["file", "half/share"])

    def test_component_that_there_is_not(self):
        tree = self.folder / "tree"
        said = "there is no component {}, but doc, dpu, host"
        for name in ("hots", "host dpu"):
            self.refuses(make("install", f"COMPONENT={name}", f"PREFIX={tree}", expect=2), said.format(name))
        done = run("cmake", "--install", BUILD, "--prefix", tree, "--component", "hots", expect=1)
        self.assertIn(said.format("hots"), done.stderr)
        self.assertFalse(tree.exists())

    def test_no_prefix(self):
        self.refuses(make("install", "PREFIX=", expect=2), "PREFIX is empty")
        self.refuses(make("uninstall", "PREFIX=", expect=2), "PREFIX is empty")

    def test_characters_of_a_prefix(self):
        for name in ("it's", 'a"b', "a`b`", "a#b", "-b"):
            with self.subTest(name):
                variables = f"PREFIX={self.folder}/{name}/tree", f"DESTDIR={self.folder}/staged"
                make("install", "COMPONENT=dpu", *variables)
                unit = self.folder / "staged" / f"{self.folder}/{name}/tree"[1:] / "share/longshore/longshored.service"
                self.assertTrue(unit.exists())
                make("uninstall", *variables)
                self.assertEqual(files_below(self.folder), [])
        shutil.rmtree(self.folder / "staged")
        for name in ("a;b", "a[b", "a]b", "a\\b"):
            with self.subTest(name):
                self.refuses(make("install", "COMPONENT=dpu", f"PREFIX={self.folder}/{name}", expect=2), f"{self.folder}/{name}: CMake takes no")
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_no_build_folder_or_half_a_build(self):
        shutil.copy(SOURCE / "Makefile", self.folder)
        (self.folder / "packaging").mkdir()
        shutil.copy(SOURCE / "packaging" / "install.sh", self.folder / "packaging")
        words = ["make", "--no-print-directory", "-C", self.folder, "install", f"PREFIX={self.folder}/tree"]
        self.refuses(run(*words, expect=2), "run 'make build' first")
        # A list that names a file which is not there: part of the targets were built.
        shutil.copytree(BUILD / "packaging", self.folder / "build" / "packaging",
                        ignore=shutil.ignore_patterns("CMakeFiles"))
        text = (BUILD / "packaging" / "cmake_install.cmake").read_text()
        text = text.replace(str(BUILD / "packaging"), f"{self.folder}/build/packaging")
        (self.folder / "build" / "cmake_install.cmake").write_text(text)
        with (self.folder / "build" / "packaging" / "installed.txt").open("a") as listed:
            listed.write("host|bin|/nowhere/longshore-missing\n")
        self.refuses(run(*words, expect=2), "/nowhere/longshore-missing is not built")
        self.assertFalse((self.folder / "tree").exists())

    def test_results_that_could_not_be_written(self):
        """Before the job starts, and leaving what was there."""
        longshore = BUILD / "bin" / "longshore"
        kept = self.folder / "kept"
        kept.write_text("as it was")
        started = self.folder / "started"
        for option in ("--stats", "--trace"):
            for path, why in ((self.folder, "Is a directory"), (self.folder / "none" / "file", "No such file or directory"),
                              ("/proc/file", "No such file or directory")):
                done = run(longshore, "run", option, path, "--", "touch", started, expect=125)
                self.assertIn(f"longshore: {option} {path}: it cannot be written ({why})", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
            self.assertFalse(started.exists())
            run(longshore, "run", option, self.folder / "new", "--", "true")
            self.assertFalse((self.folder / "new").exists())
            run(longshore, "run", option, kept, "--", "true")
            self.assertEqual(kept.read_text(), "as it was")

    def test_ranks_that_ask_at_once_whether_results_can_be_written(self):
        words = [BUILD / "bin" / "longshore", "run", "--stats", self.folder / "new", "--", "true"]
        for _ in range(5):
            asking = [subprocess.Popen([*map(str, words)], env=environment(), stderr=subprocess.PIPE) for _ in range(8)]
            said = [(one.communicate()[1], one.returncode) for one in asking]
            self.assertEqual({code for _, code in said}, {0}, said)
        self.assertEqual(list(self.folder.iterdir()), [])
