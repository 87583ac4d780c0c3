"""Subcommands, exit codes and suggestions of the longshore command."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import time
import unittest

from support import COMMAND, SOURCE, CommandTest, clean_environment, write_program

sys.path.insert(0, str(SOURCE / "tests"))
from collectives import NAMES  # noqa: E402

SUBCOMMANDS = ["run", "assess", "env", "doctor", "config", "status", "bench", "tune", "dpu-bench", "simulate", "timeline"]


class Help(CommandTest):
    def test_version(self):
        self.assertRegex(self.longshore("--version").stdout, r"^longshore \d+\.\d+\.\d+\n$")

    def test_every_help_has_usage_examples_and_exit_codes(self):
        for arguments in [["--help"]] + [[name, "--help"] for name in SUBCOMMANDS]:
            text = self.longshore(*arguments).stdout
            for part in ["Usage: longshore", "Examples:\n", "Exit code"]:
                self.assertIn(part, text, arguments)
            self.assertLess(max(map(len, text.splitlines())), 121, arguments)

    def test_no_subcommand_is_a_usage_error_with_help(self):
        self.assertIn("Subcommands:", self.longshore(expect=2).stderr)

    def test_misspelt_words_get_a_suggestion(self):
        for arguments, wanted in [(["rnu"], "did you mean run?"), (["docter"], "did you mean doctor?"),
                                  (["--verson"], "did you mean --version?"),
                                  (["stat"], "did you mean status?"), (["sim"], "did you mean simulate?"),
                                  (["config", "--jsn"], "did you mean --json?"),
                                  (["run", "--servce", "2", "true"], "did you mean --service?"),
                                  (["run", "--servce=2", "true"], "did you mean --service?"),
                                  (["bench", "--host-olny"], "did you mean --host-only?"),
                                  (["dpu-bench", "--quik"], "did you mean --quick?")]:
            self.assertIn(wanted, self.longshore(*arguments, expect=125 if arguments[0] == "run" else 2).stderr)

    def test_help_of_a_subcommand(self):
        self.assertEqual(self.longshore("help").stdout, self.longshore("--help").stdout)
        self.assertEqual(self.longshore("help", "help").stdout, self.longshore("--help").stdout)
        self.assertEqual(self.longshore("help", "run").stdout, self.longshore("run", "--help").stdout)
        self.longshore("help", "rnu", expect=2)
        self.assertIn("unknown subcommand top", self.longshore("top", "--help", expect=2).stderr)

    def test_a_value_that_is_missing_or_none_is_said_plainly(self):
        self.assertIn("longshore run: --nodes needs a value: K\n", self.longshore("run", "--nodes", expect=125).stderr)
        self.assertIn("longshore timeline: --from: abc is no number from 0 on\n",
                      self.longshore("timeline", "x", "--from", "abc", expect=2).stderr)

    def test_a_full_disk_is_said(self):
        self.make_shim()
        for arguments in ["help"], ["run", "--help"], ["env"], ["config"], ["status"], ["doctor", "--json"], ["completion"]:
            with open("/dev/full", "w") as full:
                done = subprocess.run([self.command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                      env=clean_environment())
            self.assertIn("No space left on device", done.stderr, arguments)
            self.assertEqual(done.returncode, 1, arguments)

    def test_what_is_nothing_like_a_subcommand_gets_no_suggestion(self):
        self.assertNotIn("did you mean", self.longshore("frobnicate", expect=2).stderr)
        self.assertNotIn("did you mean", self.longshore("s", expect=2).stderr)
        self.assertNotIn("did you mean", self.longshore("run", "--bogus", "true", expect=125).stderr)


class NarrowTerminal(CommandTest):
    """What is read on a terminal keeps to its columns; elsewhere, lines are as they were written."""

    def test_the_benchmarks_own_help_fits(self):
        built = sorted(pathlib.Path(COMMAND).parent.glob("longshore-bench-*"))
        if not built:
            self.skipTest("there is no benchmark")
        (self.root / "bin" / built[0].name).symlink_to(built[0])
        text = self.shown(80, "bench", "--help")
        self.assertIn("Bench arguments, after --:", text)
        self.assertIn("What else it can measure, one at a time:", text)
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        self.assertEqual(text.split(), self.shown(200, "bench", "--help").split())

    def test_lines_fit(self):
        for arguments in (["run", "--help"], ["--help"], ["config"], ["doctor"], ["tune", "--help"],
                          ["status", "--help"], ["device", "--help"], ["simulate", "--help"], ["dpu-bench", "--help"]):
            with self.subTest(arguments):
                text = self.shown(80, *arguments)
                lines = [line for line in text.splitlines() if "/" not in line]  # a path stays whole
                self.assertGreater(len(lines), 10)
                self.assertEqual([line for line in lines if len(line) > 80], [])
        wide = self.shown(200, "run", "--help")
        self.assertEqual(wide, self.longshore("run", "--help").stdout)
        self.assertEqual(self.shown(80, "run", "--help").split(), wide.split())


class Run(CommandTest):
    def setUp(self):
        super().setUp()
        self.make_shim()

    def seen(self, *options, **environment):
        """The environment that a program started by `run` sees."""
        return dict(line.split("=", 1)
                    for line in self.longshore("run", "-q", *options, "env", **environment).stdout.splitlines() if "=" in line)

    def test_options_become_settings(self):
        (self.root / "rules").write_text("bcast mpi\n")
        seen = self.seen("--service", 2, "--nodes=3", "--placement", "strided", "--stats", "-", "--trace", "t.json",
                         "--log", "info", "--algorithms", "rules", "--set", "chunk_bytes=8K", "--set", "LONGSHORE_EAGER_BYTES=0")
        settings = {name: value for name, value in seen.items() if name.startswith("LONGSHORE_")}
        self.assertEqual(settings, {
            "LONGSHORE_SERVICE_COUNT": "2", "LONGSHORE_NODES_COUNT": "3", "LONGSHORE_NODES_PLACEMENT": "strided",
            "LONGSHORE_STATS": "-", "LONGSHORE_TRACE": str(self.root / "t.json"), "LONGSHORE_LOG": "info",
            "LONGSHORE_ALGORITHMS_FILE": str(self.root / "rules"), "LONGSHORE_CHUNK_BYTES": "8K", "LONGSHORE_EAGER_BYTES": "0"})

    def test_nothing_but_the_shim_is_set_without_options(self):
        seen = self.seen()
        self.assertEqual(seen["LD_PRELOAD"], str(self.shim))
        self.assertFalse([name for name in seen if name.startswith("LONGSHORE_")])

    def test_an_existing_preload_stays_before_the_shim(self):
        other = self.root / "lib" / "other.so"
        shutil.copy(self.shim, other)
        self.assertEqual(self.seen(LD_PRELOAD=str(other))["LD_PRELOAD"], f"{other}:{self.shim}")
        for listed in (f"{self.shim}:{other}", f"{other}:{self.shim}", f"{other} {self.shim}"):
            self.assertEqual(self.seen(LD_PRELOAD=listed)["LD_PRELOAD"], listed)

    def test_exit_codes(self):
        self.longshore("run", "sh", "-c", "exit 7", expect=7)
        self.longshore("run", expect=125)
        self.longshore("run", "--", expect=125)
        self.longshore("run", "--set", expect=125)
        self.assertIn("PATH", self.longshore("run", "no-such-program", expect=127).stderr)
        self.longshore("run", "./no-such-program", expect=127)
        plain = self.root / "plain"
        plain.write_text("text")
        self.assertIn("chmod", self.longshore("run", plain, expect=126).stderr)
        self.assertIn("is a folder", self.longshore("run", self.root, expect=126).stderr)
        write_program(plain, "#!/no/such/interpreter\n")
        self.assertIn("interpreter", self.longshore("run", plain, expect=126).stderr)

    def test_arguments_of_the_command_are_its_own(self):
        words = ["--help", "--service", "-n", "4", "--", "-x", "", "a b"]
        program = "import sys; print(sys.argv[1:])"
        for mark in [[], ["--"]]:
            done = self.longshore("run", "--service", 2, *mark, sys.executable, "-c", program, *words)
            self.assertEqual(done.stdout.strip(), str(words))

    def test_bad_settings_stop_before_the_command(self):
        for arguments, environment, wanted in [
                (["--service", 99], {}, "LONGSHORE_SERVICE_COUNT=99 is not valid: it must be a number from 0 to 16"),
                (["--set", "chunk_byte=8K"], {}, "did you mean LONGSHORE_CHUNK_BYTES?"),
                (["--set", "chunk_bytes"], {}, "NAME=VALUE"),
                ([], {"LONGSHORE_LGO": "info"}, "did you mean LONGSHORE_LOG?"),
                ([], {"LONGSHORE_LOG": "loud"}, "it must be warn, info, debug or trace")]:
            done = self.longshore("run", *arguments, "echo", "started", expect=125, **environment)
            self.assertIn(wanted, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_bad_algorithms_stop_before_the_command(self):
        rules = self.root / "rules"
        rules.write_text("# mine\nbcast  nodes 1  direct\n")
        for arguments, environment, wanted in [
                (["--algorithms", "rules"], {}, f"LONGSHORE_ALGORITHMS_FILE: {rules}:2:1: bcast has no rule for ppn 1, "
                                                "nodes 2, bytes 0-"),
                (["--algorithms", "none"], {}, f"LONGSHORE_ALGORITHMS_FILE: {self.root}/none: No such file"),
                (["--set", "bcast_algorithm=staged"], {}, "LONGSHORE_BCAST_ALGORITHM=staged is not valid: it must be mpi, "
                                                          "direct, staged-flat or staged-hierarchical"),
                ([], {"LONGSHORE_GATHER_ALGORITM": "mpi"}, "did you mean LONGSHORE_GATHER_ALGORITHM?")]:
            done = self.longshore("run", *arguments, "echo", "started", expect=125, **environment)
            self.assertIn(wanted, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_one_file_for_two_things_is_refused(self):
        for first, second in (("out", "out"), ("out", self.root / "out")):
            done = self.longshore("run", "--stats", first, "--trace", second, "echo", "started", expect=125)
            self.assertIn("name the same file", done.stderr)
            self.assertEqual(done.stdout, "")
        self.longshore("run", "--stats", "out-%j/stats", "--trace", "out-%j/trace", "true")
        self.longshore("run", "--stats", "/dev/null", "--trace", "/dev/null", "true")

    def test_one_file_is_one_however_it_is_named(self):
        (self.root / "link").symlink_to(self.root)
        (self.root / "folder").mkdir()
        for same in ("./out", "folder/../out", "link/out"):
            self.assertIn("name the same file", self.longshore("run", "--stats", "out", "--trace", same, "true", expect=125).stderr, same)
        for arguments, environment in ((["--trace", "out"], {"LONGSHORE_STATS": "out"}),
                                       (["--set", "stats=out", "--trace", "out"], {}),
                                       ([], {"LONGSHORE_STATS": "out", "LONGSHORE_TRACE": str(self.root / "out")}),
                                       (["--set", "trace=out"], {"LONGSHORE_STATS": "out"})):
            done = self.longshore("run", *arguments, "echo", "started", expect=125, **environment)
            self.assertIn(f"name the same file, {self.root}/out: give each its own", done.stderr)
            self.assertEqual(done.stdout, "")
        # An option goes before the environment.
        self.longshore("run", "--stats", "other", "--trace", "out", "true", LONGSHORE_STATS="out")

    def test_files_to_write_behind(self):
        library = self.root / "lib" / "liblongshore-io.so"
        shutil.copy(self.shim, library)
        seen = self.seen("--write-behind", "out/*.ckpt", "--write-behind", "/x/[ab].h5", "--write-behind", "strict")
        self.assertEqual(seen["LONGSHORE_WRITE_BEHIND"], f"{self.root}/out/*.ckpt:/x/[ab].h5:strict")
        self.assertEqual(seen["LD_PRELOAD"], f"{self.shim}:{library}")

    def test_patterns_of_files_that_make_no_sense_stop_before_the_command(self):
        for patterns, wanted in [([""], "--write-behind '': name files"), (["/x/a:b"], "'/x/a:b': a pattern cannot have a colon"),
                                 (["/x/"], "'/x/': it names a folder"), (["strict"], "--write-behind strict: name files, too"),
                                 ([f"/x/{i}" for i in range(17)], "'/x/16': there are more patterns than 16")]:
            words = [word for pattern in patterns for word in ("--write-behind", pattern)]
            done = self.longshore("run", *words, "echo", "started", expect=125)
            self.assertIn(wanted, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_open_mpi_hands_on_to_other_hosts(self):
        shown = '#!/bin/sh\n[ "$1" = --version ] && echo "mpirun ({})" && exit\necho "$@"\n'
        write_program(self.root / "mpirun", shown.format("Open MPI) 4.1.4"))
        words = ["./mpirun", "--hostfile", "hosts", "-x", "LONGSHORE_LOG", "./program"]
        said = self.longshore("run", "-q", "--log", "info", "--stats", "-", *words).stdout.split()
        self.assertEqual(said[-5:], words[1:])
        added = said[:-5]
        self.assertEqual(sorted(zip(added[::2], added[1::2])), [("-x", "LD_PRELOAD"), ("-x", "LONGSHORE_STATS")])
        self.assertEqual(self.longshore("run", "./mpirun", "-np", 2, "./program").stdout.split(), ["-np", "2", "./program"])
        write_program(self.root / "mpirun", shown.format("HYDRA build"))
        self.assertEqual(self.longshore("run", *words).stdout.split(), words[1:])

    def test_env_prints_what_run_sets(self):
        text = self.longshore("env", "--stats", "it's.json", "--service", 2).stdout
        shown = subprocess.run(["sh", "-c", text.replace(str(self.shim), "") + 'echo "$LONGSHORE_STATS $LONGSHORE_SERVICE_COUNT"'],
                               capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown, f"{self.root}/it's.json 2\n")
        self.assertIn(f"export LD_PRELOAD='{self.shim}'\n", text)
        self.longshore("env", "--service", 99, expect=2)
        # What rank 0's environment does not decide for all is said, behind the last command.
        said = self.longshore("env", "--set", "offload=off", "--set", "chunk_bytes=64K").stdout.splitlines()
        self.assertEqual([line.split(":")[0] for line in said if line.startswith("#")], ["# LONGSHORE_OFFLOAD"])
        self.assertTrue(said[-1].startswith("# LONGSHORE_OFFLOAD: each process reads its own"), said)

    def test_a_missing_shim_says_how_to_build_it(self):
        self.shim.unlink()
        self.assertIn("install Longshore again", self.longshore("run", "true", expect=125).stderr)
        (self.root / "CMakeCache.txt").touch()  # where it is a build folder, there is no need to
        self.assertIn("make build", self.longshore("run", "true", expect=125).stderr)


class Config(CommandTest):
    def test_shows_default_and_current_value(self):
        rows = {row["name"]: row for row in json.loads(
            self.longshore("config", "--json", LONGSHORE_SNAPSHOT_BYTES_MAX="131072").stdout)}
        self.assertLessEqual(len(rows), 38)
        self.assertEqual(rows["LONGSHORE_SNAPSHOT_BYTES_MAX"]["value"], "128K")
        self.assertEqual(rows["LONGSHORE_SNAPSHOT_BYTES_MAX"]["default"], "256M")
        for row in rows.values():
            self.assertEqual(set(row), {"name", "value", "default", "unit", "allowed", "meaning", "of_each_process"})

    def test_text_and_markdown_have_every_setting(self):
        names = [row["name"] for row in json.loads(self.longshore("config", "--json").stdout)]
        text = self.longshore("config", LONGSHORE_LOG="info").stdout
        self.assertIn("LONGSHORE_LOG=info  (set)\n", text)
        markdown = self.longshore("config", "--markdown").stdout
        for name in names:
            self.assertRegex(text, f"(?m)^{name}=")
            self.assertIn(f"| `{name}` |", markdown)
        self.assertEqual(len(markdown.splitlines()), len(names) + 2)

    def test_one_form_at_a_time(self):
        self.longshore("config", "--json", "--man", expect=2)
        self.longshore("config", "--json", "--algorithms", expect=2)

    def test_shows_the_algorithms_as_a_file_that_reads_back(self):
        def rules(text):
            return [line.split() for line in text.splitlines() if not line.startswith("#")]

        built_in = self.longshore("config", "--algorithms").stdout
        self.assertIn("# Built in.\n", built_in)
        self.assertEqual({words[0] for words in rules(built_in)}, {name.lower() for name in NAMES})
        mine = self.root / "mine"
        mine.write_text("bcast bytes 64K- staged-flat\nbcast bytes 0-64K mpi # small\n")
        text = self.longshore("config", "--algorithms", LONGSHORE_ALGORITHMS_FILE=str(mine),
                              LONGSHORE_GATHER_ALGORITHM="staged").stdout
        self.assertIn(f"# From {mine}\n", text)
        self.assertIn("# LONGSHORE_GATHER_ALGORITHM forces staged for gather.\n", text)
        self.assertEqual([words for words in rules(text) if words[0] == "bcast"], [
            ["bcast", "bytes", "64K-", "staged-flat"], ["bcast", "bytes", "0-64K", "mpi"]])
        self.assertEqual([words for words in rules(text) if words[0] != "bcast"],
                         [words for words in rules(built_in) if words[0] != "bcast"])
        again = self.root / "again"
        again.write_text(text)
        self.assertEqual(rules(self.longshore("config", "--algorithms", LONGSHORE_ALGORITHMS_FILE=str(again)).stdout),
                         rules(text))
        mine.write_text("bcast mpi\nbcast mpi\n")
        done = self.longshore("config", "--algorithms", expect=2, LONGSHORE_ALGORITHMS_FILE=str(mine))
        self.assertIn(f"{mine}:2:1: this rule never holds: the one of line 1", done.stderr)
        self.assertEqual(rules(done.stdout), rules(built_in))

    def test_bad_settings_are_reported(self):
        done = self.longshore("config", expect=2, LONGSHORE_LGO="info")
        self.assertIn("did you mean LONGSHORE_LOG?", done.stderr)
        self.assertIn("LONGSHORE_LOG=warn", done.stdout)


class Status(CommandTest):
    def test_lists_service_processes(self):
        program = self.root / "bin" / "longshored"
        shutil.copy(sys.executable, program)
        before = time.time()
        process = subprocess.Popen([program, "-c", "input()", "--role", "supervisor"], stdin=subprocess.PIPE,
                                   env=clean_environment(PYTHONHOME=sys.base_prefix))
        after = time.time()
        try:
            rows = self.wait_for(process.pid)
            self.assertEqual(rows[0]["role"], "supervisor")
            started = time.mktime(time.strptime(rows[0]["started"], "%Y-%m-%d %H:%M:%S"))
            self.assertGreater(started, before - 2)  # it is told in whole seconds, from a clock of hundredths
            self.assertLess(started, after + 1)
            # It has no node's memory, so no job is shown for it.
            self.assertRegex(self.longshore("status").stdout, rf"(?m)^ +{process.pid}  supervisor ")
            jobs = json.loads(self.longshore("status", "--json").stdout)["jobs"]
            self.assertFalse([job for job in jobs for node in job["nodes"] if node["supervisor"] == process.pid])
        finally:
            process.communicate(b"\n", timeout=60)
        self.assertFalse([row for row in self.rows() if row["pid"] == process.pid])

    def rows(self):
        return json.loads(self.longshore("status", "--json").stdout)["processes"]

    def wait_for(self, pid):
        """The row of a process that was started just now: its name is right only after it has executed."""
        for _ in range(600):
            rows = [row for row in self.rows() if row["pid"] == pid]
            if rows:
                return rows
            time.sleep(0.1)
        self.fail(f"status does not show process {pid}")

    @unittest.skipIf(os.geteuid() != 0, "SKIP: becoming another user needs root")
    def test_says_so_when_there_is_none(self):
        # Another user: tests of the service may run at the same time as this one.
        self.root.chmod(0o755)
        nobody = pwd.getpwnam("nobody").pw_uid
        done = subprocess.run([self.command, "status"], user=nobody, env=clean_environment(), capture_output=True,
                              text=True, timeout=60, check=True)
        self.assertIn("No service process of yours runs on this machine.", done.stdout)


class Bench(CommandTest):
    def setUp(self):
        super().setUp()
        self.make_shim()
        # An mpirun that shows how it was called.
        self.tools = self.root / "tools"
        for flavour in ["openmpi", "mpich"]:
            write_program(self.tools / f"mpirun.{flavour}", f'#!/bin/sh\necho {flavour} "$LD_PRELOAD" "$@"\n')
        self.path = f"{self.tools}:/usr/bin:/bin"

    def make_bench(self, flavour):
        write_program(self.root / "bin" / f"longshore-bench-{flavour}", '#!/bin/sh\necho "the benchmark: $@"\n')

    def bench(self, *arguments, expect=0):
        return self.longshore("bench", *arguments, expect=expect, PATH=self.path)

    def test_launches_the_flavour_under_the_shim(self):
        self.make_bench("openmpi")
        self.make_bench("mpich")
        words = self.bench("--mpi", "openmpi", "-n", 3, "--", "--op", "alltoall").stdout.split()
        self.assertEqual(words[:4], ["openmpi", str(self.shim), "-np", "3"])
        self.assertIn("--oversubscribe", words)
        self.assertEqual("--allow-run-as-root" in words, os.geteuid() == 0)
        self.assertEqual(words[-3:], [str(self.root / "bin" / "longshore-bench-openmpi"), "--op", "alltoall"])
        words = self.bench("--mpi", "mpich", "-n3").stdout.split()
        self.assertEqual(words, ["mpich", str(self.shim), "-np", "3", str(self.root / "bin" / "longshore-bench-mpich")])

    def test_copy_limit_launches_each_flavour(self):
        self.make_bench("openmpi")
        self.make_bench("mpich")
        first, second = [line.split() for line in
                         self.bench("copy-limit", "-n", 2, "--", "--json", "x").stdout.splitlines() if line]
        self.assertEqual(first[0], "openmpi")
        self.assertEqual(first[-4:], [str(self.root / "bin" / "longshore-bench-openmpi"), "--copy-limit", "--json", "x"])
        self.assertEqual(second, ["mpich", str(self.shim), "-np", "2", str(self.root / "bin" / "longshore-bench-mpich"),
                                  "--copy-limit", "--json", "x", "--json-append"])
        one = self.bench("copy-limit", "--mpi", "mpich", "-n2").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in one], ["mpich"])
        self.assertIn("copy-limit", self.bench("--help").stdout)

    def test_copy_limit_stops_at_a_failure(self):
        self.make_bench("openmpi")
        self.make_bench("mpich")
        write_program(self.tools / "mpirun.openmpi", "#!/bin/sh\nexit 3\n")
        self.assertNotIn("mpich", self.bench("copy-limit", expect=3).stdout)

    def test_breakdown_is_handed_on(self):
        self.make_bench("mpich")
        words = self.bench("--breakdown", "-n2", "--", "--sizes", "1M").stdout.split()
        self.assertEqual(words[-3:], ["--breakdown", "--sizes", "1M"])
        self.bench("--plot", "picture.png", expect=2)

    def test_breakdown_draws_what_was_written(self):
        self.make_bench("mpich")
        (self.root / "venv" / "bin").mkdir(parents=True)
        write_program(self.root / "venv" / "bin" / "python", '#!/bin/sh\necho python "$@"\n')
        self.assertIn("breakdown.py is not there", self.bench("--breakdown", "--plot", "p.png", expect=125).stderr)
        script = self.root / "share" / "longshore" / "breakdown.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.touch()
        measured, drawn = self.bench("--breakdown", "--plot", "p.png", "--", "--json", "r.json").stdout.splitlines()
        self.assertTrue(measured.endswith("--breakdown --json r.json"))
        self.assertEqual(drawn, f"python {script} r.json --output p.png")
        measured, drawn = self.bench("--breakdown", "--plot", "p.png").stdout.splitlines()
        file = measured.split("--json ")[1]
        self.assertEqual(drawn, f"python {script} {file} --output p.png")
        self.assertFalse(os.path.exists(file))

    def test_takes_the_flavour_that_is_there(self):
        self.make_bench("mpich")
        self.assertTrue(self.bench().stdout.startswith("mpich "))

    def test_host_only_leaves_the_shim_out(self):
        self.make_bench("mpich")
        self.assertEqual(self.bench("--host-only").stdout.split()[:2], ["mpich", "-np"])

    def test_a_narrow_terminal_gets_fewer_columns(self):
        self.make_bench("mpich")
        path = f"{self.tools}:/usr/bin:/bin"
        self.assertIn("longshore-bench-mpich --narrow --sizes 1M", self.shown(80, "bench", "-n2", "--", "--sizes", "1M", PATH=path))
        self.assertNotIn("--narrow", self.shown(200, "bench", "-n2", "--", "--sizes", "1M", PATH=path))

    def test_a_bar_is_where_the_rows_are(self):
        self.make_bench("mpich")
        words = ["bench", "-n2", "--", "--sizes", "1M"]
        path = f"{self.tools}:/usr/bin:/bin"
        self.assertIn(" --progress bar-among-rows --sizes 1M", self.shown(200, *words, errors=True, PATH=path))
        self.assertNotIn("--progress", self.shown(200, *words, PATH=path))

    def test_help_shows_that_of_the_benchmark(self):
        self.assertIn("not built yet", self.bench("--help").stdout)
        self.make_bench("mpich")
        text = self.bench("--help").stdout
        self.assertIn("--host-only", text)
        self.assertIn("the benchmark: --help", text)

    def test_errors(self):
        self.assertIn("make build", self.bench(expect=125).stderr)
        self.make_bench("mpich")
        self.assertIn("openmpi: longshore-bench is not built", self.bench("--mpi", "openmpi", expect=125).stderr)
        self.bench("--mpi", "other", expect=2)
        self.bench("-n", 0, expect=2)
        self.bench("--service", 99, expect=2)
        self.shim.unlink()
        self.bench(expect=125)
        self.bench("--host-only")


class Sharing(CommandTest):
    def test_tells_what_sharing_costs(self):
        text = self.longshore("tune", "--sharing", expect=0).stdout
        self.assertTrue(text.startswith("us per MB (medians of 7 parts of 8.4 MB)\n"), text)
        self.assertRegex(text, r"\d+\.\d  to copy from it, mapped\n")
        self.assertRegex(text, "8 ranks: .* alltoalls|loses nothing")


class Tune(CommandTest):
    """tests/mpi/test_tune.py runs it; here a benchmark that only lists its collectives."""

    def tune(self, *arguments, expect=0, **environment):
        return self.longshore("tune", *arguments, expect=expect, PATH=f"{self.root / 'tools'}:/usr/bin:/bin", **environment)

    def setUp(self):
        super().setUp()
        self.make_shim()
        write_program(self.root / "tools" / "mpirun.mpich", "#!/bin/sh\necho 'no slots' >&2\nexit 3\n")
        write_program(self.root / "bin" / "longshore-bench-mpich", "#!/bin/sh\nprintf 'bcast\\nibcast\\ngather\\n'\n")

    def test_errors(self):
        self.assertIn("no collective 'gather'; there are: bcast\n",
                      self.tune("--mpi", "mpich", "--collectives", "bcast,gather", expect=2).stderr)
        self.assertIn("-n 5", self.tune("--mpi", "mpich", "-n", 4, "--nodes", "1,5", expect=2).stderr)
        self.assertIn("cannot be written", self.tune("--mpi", "mpich", "-o", "no/table", expect=2).stderr)
        self.tune("-n", 1, expect=2)
        self.tune("--objective", "speed", expect=2)
        self.tune("--sizes", "0", expect=2)
        self.tune("--check", "file", "--output", "other", expect=2)
        self.tune("--set", "chunk_bytes=1", expect=2)
        self.assertIn("no-such-file: No such file",
                      self.tune("--mpi", "mpich", "--check", "no-such-file", expect=2).stderr)
        self.shim.unlink()
        self.tune("--mpi", "mpich", expect=125)

    def test_a_signal_ends_the_launcher_too(self):
        write_program(self.root / "tools" / "mpirun.mpich", "#!/bin/sh\ntrap 'echo over >ended; exit 1' TERM INT HUP\n"
                                                            "echo >runs\nwhile :; do sleep 0.1; done\n")
        (self.root / "tmp").mkdir()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            (self.root / "ended").unlink(missing_ok=True)
            said = self.interrupted(number, self.root / "runs", "tune", "--mpi", "mpich", "--quick", "-n", 2, "--nodes", 1,
                                    PATH=f"{self.root / 'tools'}:/usr/bin:/bin", TMPDIR=str(self.root / "tmp"))
            self.assertIn("longshore: interrupted", said)
            self.assertTrue((self.root / "ended").exists())
            self.assertEqual(list((self.root / "tmp").iterdir()), [])

    def test_says_what_fails_and_writes_nothing(self):
        done = self.tune("--mpi", "mpich", "--quick", "-n", 2, "--nodes", "2", "-o", "table", expect=1)
        self.assertIn("bcast, 2 nodes: staged-hierarchical is left out: no slots", done.stderr)
        self.assertIn("nothing was measured", done.stderr)
        self.assertFalse((self.root / "table").exists())
        self.assertEqual(done.stdout, "")


class TuneFromStats(CommandTest):
    """No MPI and no shim are needed for it."""

    def stats(self, *cells, **collectives):
        path = self.root / "stats"
        path.write_text(json.dumps({"collectives": collectives, "waited_at_once": [
            {"call": "MPI_I" + cell[0], "collective": cell[0], "nodes": 2, "ranks_per_node": 4, "bytes_first": 1024,
             "bytes_last": 2047, "calls": cell[1], "at_once": cell[2]} for cell in cells]}))
        return path

    def test_calls_that_were_waited_for_at_once_get_the_rules_of_blocking_ones(self):
        table = self.root / "before"
        table.write_text("bcast form blocking mpi\nbcast form nonblocking direct\n")
        done = self.longshore("tune", "--from-stats", self.stats(("bcast", 40, 40), ("gather", 40, 1)), "--algorithms", table,
                              "-o", "after", expect=0)
        self.assertEqual((self.root / "after").read_text(), done.stdout)
        self.assertRegex(done.stdout, r"\A# Written by 'longshore tune' on \d{4}-\d\d-\d\d: .*--from-stats")
        self.assertIn("# bcast, 2 nodes, 4 ranks per node, 1K-2K bytes: 40 of 40 calls were waited for at once: they get the "
                      "rules for blocking calls\n", done.stdout)
        self.assertIn("gather, 2 nodes, 4 ranks per node, 1K-2K bytes: 1 of 40 calls were waited for at once: not nearly all; "
                      "they keep their rules\n", done.stderr)
        rules = [line.split() for line in done.stdout.splitlines() if line.startswith("bcast")]
        self.assertIn("bcast form nonblocking ppn 4 nodes 2 bytes 1K-2K mpi".split(), rules)
        self.assertEqual(sum(rule[-1] == "mpi" for rule in rules), 2)
        shown = self.longshore("config", "--algorithms", LONGSHORE_ALGORITHMS_FILE="after", expect=0).stdout
        self.assertEqual([line.split() for line in shown.splitlines() if line.startswith("bcast")], rules)
        self.assertNotIn("nothing changes", done.stderr)

    def test_persistent_calls_keep_theirs(self):
        table = self.root / "before"
        table.write_text("bcast form blocking mpi\nbcast form nonblocking direct\n")
        done = self.longshore("tune", "--from-stats", self.stats(("bcast", 40, 40), MPI_Bcast_init={}), "--algorithms", table,
                              expect=0)
        self.assertIn("the program has persistent ones", done.stderr)
        self.assertIn("nothing changes", done.stderr)

    def test_nothing_to_change_is_said(self):
        table = self.root / "same"
        table.write_text("bcast bytes 0-8K mpi\nbcast direct\n")
        done = self.longshore("tune", "--from-stats", self.stats(("bcast", 40, 40)), "--algorithms", table, expect=0)
        self.assertIn("the rules for blocking calls are the same", done.stderr)
        self.assertIn("nothing changes", done.stderr)
        self.assertIn("no nonblocking call was carried", self.longshore("tune", "--from-stats", self.stats(), expect=0).stderr)

    def test_errors_say_what_to_do(self):
        self.assertIn("missing: No such file or directory; 'longshore run --stats FILE' writes it",
                      self.longshore("tune", "--from-stats", "missing", expect=2).stderr)
        for text, why in (("bcast mpi\n", "it is no JSON"), ("{}", "it is not what 'longshore run --stats FILE'")):
            (self.root / "bad").write_text(text)
            done = self.longshore("tune", "--from-stats", "bad", "-o", "table", expect=2)
            self.assertIn(f"bad: {why}", done.stderr)
            self.assertFalse((self.root / "table").exists())
            self.assertEqual(done.stdout, "")
        stats = self.stats(("bcast", 40, 40))
        self.assertIn("missing: No such file",
                      self.longshore("tune", "--from-stats", stats, "--algorithms", "missing", expect=2).stderr)
        self.assertIn("cannot be written", self.longshore("tune", "--from-stats", stats, "-o", "no/table", expect=2).stderr)
        self.longshore("tune", "--from-stats", stats, "--check", "table", expect=2)
        self.longshore("tune", "--algorithms", "table", expect=2)


class Simulate(CommandTest):
    SMALL = ["--nodes", 2, "--ranks-per-node", 4, "--services", 2, "--iterations", 1]

    def setUp(self):
        super().setUp()
        machines = self.root / "share" / "longshore" / "machines"
        machines.mkdir(parents=True)
        self.machine = machines / "mpcdf-bf3.toml"
        shutil.copy(SOURCE / "lab" / "model" / "machines" / "mpcdf-bf3.toml", self.machine)

    def test_rows_and_json(self):
        out = self.root / "out.json"
        done = self.longshore("simulate", *self.SMALL, "--sizes", "16K,64K", "--placement", "contiguous,strided",
                              "--against", "host", "--overlap", "--json", out)
        results = json.loads(out.read_text())
        self.assertEqual(len(results["rows"]), 2 * 2 * 3)
        # A head, and a line for each placement of each size.
        self.assertEqual(len(done.stdout.splitlines()), 4 + 2 * 2 + len(results["rows"]))
        self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])
        self.assertEqual({row["who"] for row in results["rows"]}, {"longshore", "pairwise", "linear"})
        for row in results["rows"]:
            self.assertLess(row["least_us"], row["mean_us"])
            # Each node takes in 4 x 4 blocks; frames and headers are little beside them.
            self.assertAlmostEqual(row["bytes_between_nodes"] / (2 * 16 * row["bytes"]), 1, delta=0.02)
        sources = results["machine"]["values"]
        self.assertIn("fitted to row 5", sources["memory.rate"]["source"])
        again = self.root / "again.json"
        self.longshore("simulate", *self.SMALL, "--sizes", "64K", "--json", again)
        self.assertEqual([row["mean_us"] for row in json.loads(again.read_text())["rows"]],
                         [row["mean_us"] for row in results["rows"]
                          if (row["who"], row["bytes"], row["placement"]) == ("longshore", 65536, "contiguous")])

    def test_a_row_fits_eighty_columns(self):
        for collective, sizes in (("bcast", "64K"), ("ialltoallv", "64,1M")):
            said = self.longshore("simulate", *self.SMALL, "--collective", collective, "--sizes", sizes, "--against", "host",
                                  "--overlap", "--seeds", "1,2", "--set", "link.rate=100 Mb/s").stdout
            rows = [line for line in said.splitlines() if not line.startswith("#")]
            self.assertEqual({len(line) for line in rows}, {len(rows[0])}, said)
            self.assertLessEqual(len(rows[0]), 80)

    def test_host_that_goes_on_beside_computing(self):
        hidden = {}
        for progress in ["calls", "thread", "tests"]:
            out = self.root / "out.json"
            done = self.longshore("simulate", *self.SMALL, "--sizes", "256K", "--against", "linear", "--overlap",
                                  "--progress", progress, "--test-every", 20, "--json", out)
            results = json.loads(out.read_text())
            self.assertEqual(results["progress"], progress)
            self.assertEqual(results.get("test_every_us"), 20 if progress == "tests" else None)
            self.assertEqual("# ranks call MPI_Test after each 20 us of computing" in done.stdout, progress == "tests")
            self.assertEqual("progress thread" in done.stdout, progress == "thread")
            hidden[progress] = next(row["overlap_percent"] for row in results["rows"] if row["who"] == "linear")
        self.assertGreater(hidden["thread"], hidden["calls"] + 10)
        self.assertGreater(hidden["tests"], hidden["calls"] + 10)

    def test_ways_of_the_bytes(self):
        means = {}
        for memory, algorithm, groups in [("alias", "direct", "world"), ("staging", "direct", "world"), ("alias", "staged", "world"),
                                          ("alias", "direct", "columns")]:
            out = self.root / "out.json"
            self.longshore("simulate", *self.SMALL, "--memory", memory, "--algorithm", algorithm, "--groups", groups,
                           "--set", "dpu.memory_rate=5 GB/s", "--json", out)
            results = json.loads(out.read_text())
            self.assertEqual([results[key] for key in ("memory", "algorithm", "groups")], [memory, algorithm, groups])
            means[memory, algorithm, groups] = results["rows"][0]["mean_us"]
        # Staged bytes pass the DPU's slow memory, too; columns have a quarter of the blocks.
        direct = means.pop(("alias", "direct", "world"))
        self.assertLess(means.pop(("alias", "direct", "columns")), direct / 2)
        self.assertGreater(min(means.values()), direct)

    def test_computing_of_a_given_length(self):
        out = self.root / "out.json"
        self.longshore("simulate", *self.SMALL, "--compute", 100_000, "--against", "linear", "--json", out)
        results = json.loads(out.read_text())
        self.assertEqual(results["compute_us"], 100_000)
        ours, theirs = ((row["together_us"] - 100_000) / row["mean_us"] for row in results["rows"])
        self.assertLess(ours, 0.1)
        self.assertGreater(theirs, 0.9)

    def test_late_ranks(self):
        out = self.root / "out.json"
        self.longshore("simulate", "--nodes", 2, "--ranks-per-node", 4, "--collective", "allgather", "--iterations", 20,
                       "--set", "jitter.late=25 %", "--set", "jitter.late_by=1 ms", "--json", out)
        late = json.loads(out.read_text())["rows"][0]["late"]
        self.assertEqual(late["ranks"], 20 * 2 * 4)
        self.assertTrue(0 < late["late"] < late["ranks"], late)
        self.assertLessEqual(late["covered"], late["late"])

    def test_dpu_bench_on_a_machine(self):
        out = self.root / "out.json"
        said = self.longshore("simulate", "dpu-bench", "--machine", "mpcdf-bf3", "--nodes", 2, "--hosts", 8, "--workers", "1,2,4",
                              "--sizes", "64K", "--json", out).stdout
        rows = json.loads(out.read_text())["rows"]
        # Four patterns, both assignments but for one.
        self.assertEqual(len(rows), 7 * 3)
        self.assertEqual(len(said.splitlines()), 3 + len(rows))
        self.assertEqual([line for line in said.splitlines() if len(line) > 80], [])
        for row in rows:
            efficiency = 100 * row["reference_us"] / max(row["reference_us"], row["pure_comm_us"])
            self.assertAlmostEqual(row["efficiency_percent"], efficiency, places=3)
        for arguments, wanted in [(["--workers", 9], "workers"), (["--machine", "none"], "none"), (["--set", "x=1"], "no \"x\""),
                                  (["--nodes", 0], "--nodes"), (["--nodes", 65, "--hosts", 65, "--workers", 1], "64 ports")]:
            words = [] if "--hosts" in arguments else ["--hosts", 8]
            words += [] if "--machine" in arguments else ["--machine", "mpcdf-bf3"]
            self.assertIn(wanted, self.longshore("simulate", "dpu-bench", *words, *arguments, expect=2).stderr)

    def test_steps_on_a_machine(self):
        out = self.root / "out.json"
        small = ["steps", "--nodes", 2, "--ranks-per-node", 2, "--services", 1, "--compute", 1000, "--halo", "64K", "--allgather", "64K"]
        said = self.longshore("simulate", *small, "--late", 50, "--late-by", "5000,5000", "--seeds", "1,2", "--against",
                              "ring/pairwise,doubling/linear", "--json", out).stdout
        rows = json.loads(out.read_text())["rows"]
        self.assertEqual(len(rows), 6)
        self.assertEqual(len(said.splitlines()), 4 + 2 * len(rows))
        self.assertEqual([line for line in said.splitlines() if len(line) > 80], [])
        # Who is late does not depend on who carries.
        late = {(row["seed"], row["parts_ms"]["late"]) for row in rows}
        self.assertEqual(len(late), 2)
        for row in rows:
            self.assertGreater(row["mpi_ms"], 0)
            self.assertEqual(row["parts_ms"]["compute"], 1)
        for arguments, wanted in [(["--against", "ring"], "as ring/pairwise"), (["--against", "linear/ring"], "linear is no allgather"),
                                  (["--late-by", "5"], "the least and the most"), (["--late-by", "5,4"], "at most so much"),
                                  (["--late", 101], "--late"), (["--steps", 0], "at least one step"), (["--halo", 0], "1 B"),
                                  (["--services", 3], "--services")]:
            words = small if arguments[0] not in small else [word for at, word in enumerate(small)
                                                             if arguments[0] not in (word, small[at - 1])]
            self.assertIn(wanted, self.longshore("simulate", *words, *arguments, expect=2).stderr, arguments)

    def test_what_is_not_there_is_not_begun(self):
        """Memory is estimated before: of all forms, of the host's ranks, too."""
        many = ["--nodes", 4096, "--ranks-per-node", 32, "--set", "switch.ports=4096"]
        mirrored = ["--mirrored", "--set", "jitter.entry=0 us", "--set", "jitter.cost=0 %"]
        for arguments in ([*many], ["steps", *many, "--allgather", "64K", "--halo", "64K"], [*many, *mirrored, "--against", "linear"],
                          ["dpu-bench", "--machine", "mpcdf-bf3", "--nodes", 4096, "--hosts", 4_000_000, "--workers", 2,
                           "--set", "switch.ports=4096", "--set", "node.cores=1024"]):
            said = self.longshore("simulate", *arguments, expect=1)
            self.assertRegex(said.stderr, r"longshore simulate[a-z -]*: this needs about \d+\.\d GB of memory, and \d+\.\d GB are free")
            self.assertEqual(said.stdout, "")
        self.assertIn("at most 128 ranks, and here there are 256", self.longshore(
            "simulate", "--nodes", 16, "--ranks-per-node", 16, "--sharing", "max-min", expect=2).stderr)

    def test_what_takes_long_is_said_and_shown(self):
        # A terminal is told how far it is; one that has not 20 s of work is told no more.
        for arguments, label in ((["steps", "--nodes", 2, "--ranks-per-node", 2, "--services", 1, "--against", "ring/pairwise"], "ring/pairwise, seed 1"),
                                 (["dpu-bench", "--machine", "mpcdf-bf3", "--nodes", 2, "--hosts", 8, "--workers", "1,2", "--sizes", "1K"],
                                  "gather, 2 workers, 1024 B"),
                                 ([*self.SMALL, "--sizes", "4K,16K"], "longshore, 2 service processes, 16384 B, contiguous")):
            said = self.shown(80, "simulate", *arguments, errors=True)
            self.assertRegex(said, rf"\[#+\.*\] \d+ s left: {label}")
            self.assertNotIn("this takes about", said)
        # Ended as soon as it has said so.
        for arguments in (["steps", "--steps", 3000], ["dpu-bench", "--machine", "mpcdf-bf3", "--nodes", 32, "--hosts", 1024, "--workers", "64,128"],
                          ["--nodes", 16, "--ranks-per-node", 8, "--sharing", "max-min"]):
            with subprocess.Popen([self.command, "simulate", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True, cwd=self.root, env=clean_environment()) as started:
                said = started.stderr.readline()
                started.kill()
            self.assertRegex(said, r"longshore simulate[a-z -]*: this takes about \d+ (s|minutes|hours) of a core and \d+\.\d GB")

    def test_service_processes_by_default(self):
        for ranks, services in [(1, 1), (2, 2), (8, 4)]:
            out = self.root / "out.json"
            self.longshore("simulate", "--nodes", 2, "--ranks-per-node", ranks, "--sizes", "4K", "--json", out)
            self.assertEqual(json.loads(out.read_text())["rows"][0]["services"], services)

    def test_values_can_be_set(self):
        times = []
        for rate in ["13.92 GB/s", "1 GB/s"]:
            out = self.root / "out.json"
            self.longshore("simulate", *self.SMALL, "--set", f"pcie.rate={rate}", "--json", out)
            results = json.loads(out.read_text())
            times.append(results["rows"][0]["mean_us"])
            self.assertEqual(results["machine"]["values"]["pcie.rate"]["source"], "given on the command line")
        self.assertGreater(times[1], 4 * times[0])

    def test_simulate_runs_service_processes_on_hosts(self):
        machine = self.root / "hosts.toml"
        shipped = self.machine.read_text()
        machine.write_text(shipped[:shipped.index("[dpu]")] + shipped[shipped.index("[mpi]"):])
        out = self.root / "o.json"
        said = self.longshore("simulate", *self.SMALL, "--machine", machine, "--against", "linear", "--json", out).stdout
        self.assertIn("service processes on hosts", said)
        results = json.loads(out.read_text())
        self.assertEqual(results["services_on"], "host")
        self.assertNotIn("dpu.cores", results["machine"]["values"])
        self.assertIn("has no DPU: service processes run on cores of its hosts there (--services-on host)",
                      self.longshore("simulate", *self.SMALL, "--machine", machine, "--services-on", "dpu", expect=2).stderr)
        shared = self.longshore("simulate", *self.SMALL, "--machine", machine, "--set", "node.cores=4").stdout
        self.assertIn("service processes on hosts, on cores of ranks", shared)

    def test_errors_say_what_to_do(self):
        for arguments, wanted in [(["--machine", "none"], "known here (mpcdf-bf3)"),
                                  (["--nodes", 65], "64 ports"), (["--ranks-per-node", 33], "32 cores"),
                                  (["--services", 17], "between 1 and 16"), (["--collective", "reduce"], "expected is"),
                                  (["--against", "ring"], "not for ialltoallv"), (["--against", "x"], "not known"),
                                  (["--set", "pcie.rate=1"], "it is given in MB/s, GB/s, Mb/s or Gb/s"),
                                  (["--sizes", "2G"], "1 GiB"), (["--iterations", 0], "at least one"),
                                  (["--handover", "twice"], "as-built"), (["--progress", "never"], "tests"),
                                  (["--test-every", 0], "--test-every"), (["--overlap", "--compute", 5], "--compute"),
                                  (["--memory", "staging", "--handover", "once"], "nothing is copied between ranks"),
                                  (["--collective", "allgather", "--nodes", 3, "--against", "doubling"], "a power of two"),
                                  (["--ranks-per-node", 2, "--services", 4], "4 (--services) and 2 (--ranks-per-node)"), (["--plott", "x"], "did you mean --plot?")]:
            self.assertIn(wanted, self.longshore("simulate", *arguments, expect=2).stderr, arguments)
        broken = self.root / "broken.toml"
        lines = self.machine.read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("ports"))
        lines[at] = "ports = 64"
        broken.write_text("\n".join(lines))
        self.assertIn(f"{broken}:{at + 1}: switch.ports has to say where it comes from",
                      self.longshore("simulate", "--machine", broken, expect=2).stderr)

    def test_a_file_that_cannot_be_written_is_said_before_the_simulation(self):
        write_program(self.root / "share" / "longshore" / "simulate.py", "")
        write_program(self.root / "venv" / "bin" / "python", "#!/bin/sh\n")
        small = ["--nodes", 2, "--ranks-per-node", 2]
        for option, arguments in (("--json", small), ("--plot", small), ("--json", ["steps", *small, "--services", 1]),
                                  ("--json", ["dpu-bench", "--machine", "mpcdf-bf3", "--nodes", 2, "--hosts", 8, "--workers", 1])):
            said = self.longshore("simulate", *arguments, option, "no/file", expect=1)
            self.assertIn(f"longshore: {option} no/file: it cannot be written (No such file or directory)", said.stderr)
            self.assertEqual(said.stdout, "", arguments)

    def test_hands_results_to_the_script(self):
        script = self.root / "share" / "longshore" / "simulate.py"
        missing = self.longshore("simulate", *self.SMALL, "--plot", "p.png", expect=125).stderr
        self.assertIn(f"{script} is not there", missing)
        write_program(script, "")
        write_program(self.root / "venv" / "bin" / "python", '#!/bin/sh\n[ "$1" = -c ] || echo "the venv: $@"\n')
        done = self.longshore("simulate", *self.SMALL, "--json", "o.json", "--plot", "p.png")
        self.assertEqual(done.stdout.splitlines()[-1], f"the venv: {script} o.json p.png")

    def test_a_picture_is_drawn_whole_or_not_at_all(self):
        for path in ("../../lab/model/simulate.py", "ending.py"):
            shutil.copy(SOURCE / "src" / "tools" / path, self.root / "share" / "longshore")
        # In matplotlib's place: draws half a picture, and waits.
        modules = self.root / "modules" / "matplotlib"
        modules.mkdir(parents=True)
        (modules / "__init__.py").write_text("def use(_):\n    pass\n")
        (modules / "ticker.py").write_text("LogLocator = NullFormatter = dict\n")
        (modules / "pyplot.py").write_text(
            "import pathlib, time, unittest.mock\n\n\ndef savefig(path, **_):\n    pathlib.Path(path).write_text('half')\n"
            "    pathlib.Path('begun').touch()\n    time.sleep(50)\n\n\ndef subplots(*_, **__):\n"
            "    return unittest.mock.Mock(savefig=savefig), [[unittest.mock.Mock()]]\n")
        temporary, drawn = self.root / "tmp", self.root / "drawn"
        temporary.mkdir()
        drawn.mkdir()
        for number, before in ((signal.SIGTERM, None), (signal.SIGHUP, "whole"), (signal.SIGINT, "whole")):
            if before is not None:
                (drawn / "p.png").write_text(before)
            self.interrupted(number, self.root / "begun", "simulate", *self.SMALL, "--sizes", "4K", "--plot", "drawn/p.png",
                             PYTHONPATH=str(modules.parent), TMPDIR=str(temporary))
            self.assertEqual(list(temporary.iterdir()), [])
            self.assertEqual([path.read_text() for path in drawn.iterdir()], [] if before is None else [before])


class OutputFiles(CommandTest):
    """That files of --stats, --trace, of pictures and of longshore device are kept is looked at beside their other tests."""

    def test_none_replaces_another(self):
        stats = self.root / "stats"
        stats.write_text(json.dumps({"collectives": {}, "waited_at_once": []}))
        shutil.copy(SOURCE / "lab" / "model" / "machines" / "mpcdf-bf3.toml", self.root)
        machine = ["--machine", "mpcdf-bf3.toml", "--nodes", 2]
        for arguments in (["tune", "--from-stats", stats, "-o"],
                          ["simulate", *machine, "--ranks-per-node", 1, "--services", 1, "--sizes", "1K", "--json"],
                          ["simulate", "steps", *machine, "--ranks-per-node", 2, "--services", 1, "--steps", 1, "--json"],
                          ["simulate", "dpu-bench", *machine, "--hosts", 4, "--workers", 1, "--sizes", "1K", "--json"]):
            with self.subTest(arguments[:2]):
                out = self.root / "out"
                out.mkdir()
                (out / "a").write_text("from before")
                (out / "a.old").write_text("older")
                said = self.longshore(*arguments, out / "a").stderr
                self.assertIn(f"longshore: {out}/a was there already: that file is now {out}/a.old.2\n", said)
                self.assertEqual(sorted(path.name for path in out.iterdir()), ["a", "a.old", "a.old.2"])
                self.assertEqual([(out / name).read_text() for name in ("a.old", "a.old.2")], ["older", "from before"])
                self.assertNotIn("already", self.longshore(*arguments, "/dev/null").stderr)
                shutil.rmtree(out)

    def test_a_folder_in_which_nothing_can_be_renamed_is_said_before(self):
        self.root.chmod(0o755)
        shut = self.root / "shut"
        shut.mkdir()
        (shut / "a").write_text("from before")
        (shut / "a").chmod(0o666)
        shut.chmod(0o555)
        self.addCleanup(shut.chmod, 0o755)
        done = subprocess.run([self.command, "run", "--stats", shut / "a", "true"], env=clean_environment(), capture_output=True, text=True,
                              timeout=60, user="nobody" if os.geteuid() == 0 else None)  # root may write everywhere
        self.assertIn("it cannot be written", done.stderr)
        self.assertEqual(done.returncode, 125)


class Timeline(CommandTest):
    def test_hands_the_trace_to_the_script(self):
        trace = self.root / "trace.json"
        trace.write_text("[]")
        self.assertIn("install Longshore again", self.longshore("timeline", trace, expect=125).stderr)
        script = self.root / "share" / "longshore" / "timeline.py"
        write_program(script, "import sys\nprint(sys.argv[1:])\nsys.exit(3)\n")
        done = self.longshore("timeline", trace, "-o", "p.png", "--text", expect=3)
        self.assertEqual(done.stdout.strip(), str([str(trace), "-o", "p.png", "--text"]))
        write_program(self.root / "venv" / "bin" / "python", '#!/bin/sh\necho "the venv: $@"\n')
        self.assertEqual(self.longshore("timeline", trace).stdout, f"the venv: {script} {trace}\n")
        self.assertEqual(self.longshore("timeline", trace, "--label", "a b", trace, "--label", "c").stdout,
                         f"the venv: {script} {trace} {trace} --label a b --label c\n")

    def test_errors(self):
        self.longshore("timeline", expect=2)
        self.assertIn("--trace", self.longshore("timeline", "none.json", expect=1).stderr)
