"""The benchmark with forced algorithms taking turns, and longshore tune over it. Nothing is measured here: few turns of
small sizes show that everything is there."""

import json
import os
import re
import shutil
import subprocess

import job

LONGSHORE = job.BUILD / "bin" / "longshore"


class Tune(job.JobTest):
    def longshore(self, command, *arguments, code=0, **settings):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        words = [LONGSHORE, command, "--mpi", job.FLAVOUR, "-n", 2, "--set", f"service_path={self.longshored}",
                 *arguments]
        done = subprocess.run([str(word) for word in words], env=environment | settings, capture_output=True, text=True,
                              timeout=200, stdin=subprocess.DEVNULL)
        if code is not None:
            self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done

    def test_contenders_take_turns(self):
        rows = self.folder / "rows"
        contenders = "host,longshore,mpi,direct,staged,staged-flat,staged-hierarchical"
        self.longshore("bench", "--nodes", 2, "--", "--collectives", "bcast,ialltoall", "--sizes", "1K", "--samples", 2,
                       "--iterations", 3, "--time-limit", 60, "--contenders", contenders, "--json", rows, "--progress", "none")
        rows = [row for row in map(json.loads, rows.read_text().splitlines()) if row["type"] == "row"]
        to_all = ["host", "longshore", "mpi", "direct", "staged-flat", "staged-hierarchical"]
        self.assertEqual([row["contender"] for row in rows if row["collective"] == "bcast"], to_all)
        self.assertEqual([row["contender"] for row in rows if row["collective"] == "ialltoall"],
                         ["host", "longshore", "mpi", "direct", "staged"])
        for row in rows:
            # The turns only, without warming up.
            self.assertEqual(len(row["pure_us"]), 2 * row["iterations_per_turn"], row["contender"])
            if row["contender"] == "longshore":  # 1K is small, by the built-in table, unless ranks keep others' cores
                crowded = not job.FLAVOUR.startswith("openmpi") and os.cpu_count() < 2
                self.assertEqual(row["offloaded_share_of_calls"], int(crowded))
            elif row["contender"] not in ("host", "mpi"):
                self.assertEqual(row["offloaded_share_of_calls"], 1, row["contender"])
        self.longshore("bench", "--", "--contenders", "host,stagde", code=2)
        self.longshore("bench", "--", "--contenders", "host,direct", "--overhead", code=2)

    def test_quick(self):
        table = self.folder / "table"
        done = self.longshore("tune", "--quick", "--collectives", "bcast,alltoallv", "--nodes", "1,2", "-o", table,
                              LONGSHORE_BCAST_ALGORITHM="mpi")
        self.assertEqual(table.read_text(), done.stdout)
        self.assertRegex(done.stdout, r"\A# Written by 'longshore tune' on \d{4}-\d\d-\d\d: .*--quick")
        for word in ("# machine ", "# mpi ", "# ranks      2; nodes 1 2"):
            self.assertIn(word, done.stdout)
        names = {line.split()[0] for line in done.stdout.splitlines() if line and line[0] != "#"}
        self.assertEqual(names, {"bcast", "alltoallv"})
        for algorithm in ("mpi", "direct", "staged-flat", "staged-hierarchical"):
            self.assertRegex(done.stderr, rf"bcast, 2 nodes, 64K bytes:.* {algorithm} \d+\.\d us.* -> ")
        # Not all ranks know the sizes of alltoallv: what is said is the one rule that is written.
        self.assertNotRegex(done.stderr, r"alltoallv, \d nodes?, \w+ bytes:.*->")
        said = set(re.findall(r"alltoallv, \d nodes?, all sizes together -> (\S+)", done.stderr))
        self.assertEqual(said, set(re.findall(r"(?m)^alltoallv .*?(\S+)$", done.stdout)), done.stderr)
        shown = subprocess.run([LONGSHORE, "config", "--algorithms"], env=os.environ | {
            "LONGSHORE_ALGORITHMS_FILE": str(table)}, capture_output=True, text=True, check=True)
        self.assertIn(str(table), shown.stdout)
        self.check_nothing_left()

    def test_help_of_the_benchmark_fits_a_screen(self):
        text = self.longshore("bench", "--help").stdout
        for option in ("--collectives", "--copy-limit", "--imbalance"):
            self.assertIn(f"  {option}", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 120, text)

    def test_the_benchmark_says_the_time_left_and_has_few_sizes_by_default(self):
        def sizes(*words):
            file = self.folder / "rows"
            done = self.longshore("bench", "--host-only", "--", "--collectives", "bcast", "--samples", 1, "--iterations", 1,
                                  "--json", file, "--progress", "bar", *words)
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            return [row["bytes"] for row in rows if row["type"] == "row"], done.stderr

        some, said = sizes()
        self.assertEqual(some, [1 << 10, 16 << 10, 256 << 10, 4 << 20])
        first, *others = re.findall(r"\d/4 bcast .*", said)
        self.assertNotIn("left", first)
        self.assertEqual(len(others), 3, said)
        for text in others:
            self.assertRegex(text, r", \d+ (s|min) left")
        # On a terminal that has the rows, too, both come in one stream: no row behind a bar.
        done = self.longshore("bench", "--host-only", "--", "--collectives", "bcast", "--samples", 1, "--iterations", 1,
                              "--sizes", "1K,2K", "--progress", "bar-among-rows")
        self.assertNotIn("left", done.stderr)
        # What goes back to the beginning of the line is a newline in text that Python has read.
        self.assertEqual(re.findall(r"\] \d/2 bcast (\w+).*\n\x1b\[K +(\w+) host", done.stdout), [("1K", "1K"), ("2K", "2K")], done.stdout)
        self.assertEqual(sizes("--all", "--max", "16")[0], [1, 2, 4, 8, 16])
        self.assertEqual(sizes("--max", "4")[0], [1, 2, 4])
        self.longshore("bench", "--", "--all", "--sizes", "1K", code=2)

    def test_a_table_that_cannot_be_written_is_said_first(self):
        stats = self.folder / "stats"
        stats.write_text("{}")
        for words in ([], ["--from-stats", stats]):
            done = self.longshore("tune", *words, "-o", self.folder / "none" / "table", code=2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("it cannot be written", done.stderr)

    def test_from_stats(self):
        """A program that waits at once: what its statistics say holds in the next run, and only for those calls."""
        before, after, stats = self.folder / "before", self.folder / "after", self.folder / "stats"
        names = ("alltoall", "alltoallv", "gather")
        before.write_text("".join(f"{name} form blocking staged\n{name} form nonblocking direct\n" for name in names))

        def run(table):
            running = job.Job(self, 2, [self.program("at_once")], forced={}, LONGSHORE_STATS=str(stats),
                              LONGSHORE_ALGORITHMS_FILE=str(table))
            self.assertEqual(running.wait(60), 0, running.describe())
            return json.loads(stats.read_text())

        for _ in range(10):  # other processes of this machine may take the ranks' cores
            said = run(before)
            shares = {cell["collective"]: cell["at_once"] / cell["calls"] for cell in said["waited_at_once"]}
            if min(shares["alltoall"], shares["alltoallv"]) >= 0.95:
                break
        self.assertEqual({name: list(said["collectives"][f"MPI_I{name}"]["algorithms"]) for name in names},
                         {name: ["direct"] for name in names})
        done = subprocess.run([LONGSHORE, "tune", "--from-stats", stats, "--algorithms", before, "-o", after],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = run(after)
        self.assertEqual({name: list(said["collectives"][f"MPI_I{name}"]["algorithms"]) for name in names},
                         {"alltoall": ["staged"], "alltoallv": ["staged"], "gather": ["direct"]}, done.stderr)

    def test_check(self):
        table = self.folder / "table"
        table.write_text("bcast bytes 0-4K direct\nbcast bytes 4K- staged-flat\n")
        done = self.longshore("tune", "--quick", "--collectives", "bcast", "--nodes", "2", "--objective", "overlap",
                              "--check", table, code=None)
        self.assertRegex(done.stdout, r"(?m)^bcast +2 +1K  direct ")
        self.assertRegex(done.stdout, r"(?m)^bcast +2 +64K  staged-flat ")
        self.assertRegex(done.stdout, r"geometric mean \d+\.\d+ over 2 points: (ok|MISSED)")
        self.assertEqual(done.returncode, 1 if "MISSED" in done.stdout else 0)

    def test_what_fails_is_left_out(self):
        # A benchmark that fails with one of the algorithms.
        tree = self.folder / "tree"
        for name in ("bin", "lib"):
            (tree / name).mkdir(parents=True)
            for file in (job.BUILD / name).iterdir():
                if file.name.startswith(("longshore", "liblongshore")) and not file.name.endswith(".a"):
                    (tree / name / file.name).symlink_to(file)
        (tree / "bin" / "longshore").unlink()
        shutil.copy(LONGSHORE, tree / "bin")  # a link would lead back
        program = tree / "bin" / f"longshore-bench-{job.FLAVOUR}"
        program.unlink()
        program.write_text(f"""#!/bin/sh
case "$*" in *staged-flat*) echo "longshore-bench: WRONG RESULT" >&2; exit 1;; esac
exec {job.BUILD}/bin/{program.name} "$@"
""")
        program.chmod(0o755)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LONGSHORE_")}
        done = subprocess.run([tree / "bin" / "longshore", "tune", "--mpi", job.FLAVOUR, "-n", "2", "--quick", "--set",
                               f"service_path={self.longshored}", "--collectives", "bcast", "--nodes", "1", "--sizes",
                               "1K"], env=environment, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("bcast, 1 node: staged-flat is left out: longshore-bench: WRONG RESULT", done.stderr)
        self.assertRegex(done.stderr, r"bcast, 1 node, 1K bytes: mpi .* direct .* staged-hierarchical .* -> ")
        self.assertRegex(done.stdout, r"(?m)^bcast  \S")
