"""The documentation: links lead somewhere, files and options that it names are there. And the template for sbatch runs."""

import os
import re
import shutil
import subprocess

from support import COMMAND, SOURCE, CommandTest, clean_environment, write_program

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(r"`((?:cmake|docs|examples|include|packaging|src|tests)/[\w./*{},-]+)`")
# A script that a line of code, or a text between backquotes, begins with.
STARTED_SCRIPT = re.compile(r"(?m)(?:^ *|`)((?:examples|tests)/[\w./-]+\.(?:py|sh))(?= |$)")
# 'longshore SUBCOMMAND' and what follows it, up to the program that it starts, another command, or a comment.
CALL = re.compile(r"(?:^|[ /`(])longshore ([a-z][a-z-]+)([^`#;|&]*)", re.M)
STARTED = re.compile(r" (?:mpirun|mpiexec|srun|python3|longshore|\./|[A-Z]+ARGUMENTS)")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def pages():
    return [*SOURCE.glob("*.md"), *(page for folder in ("docs", "examples") for page in (SOURCE / folder).rglob("*.md"))]


def anchors(text):
    """What a link to a heading of this page ends with."""
    words = (line.lstrip("#").strip().lower() for line in text.splitlines() if re.match("#+ ", line))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in words}


def dead_links(page):
    """Links of a page to files or headings that are not there. Addresses of other sites are not looked up."""
    dead = []
    without_code = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", without_code)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or heading and file.suffix == ".md" and heading not in anchors(file.read_text()):
            dead.append(f"{page.name}: {target}")
    return dead


def missing_files(text):
    """Files and folders that a text names between backquotes and that are not there; * and {a,b} as in a shell."""
    missing = []
    for name in NAMED_FILE.findall(text):
        head, *alternatives = re.split(r"\{([^}]*)\}", name, maxsplit=1)
        names = [head + one + alternatives[1] for one in alternatives[0].split(",")] if alternatives else [head]
        missing += [one for one in names if not any(SOURCE.glob(one.rstrip("/.")))]
    return missing


def options_of_commands(text):
    """(subcommand, whether behind its own '--', option) for each option in the calls of the command that a text shows."""
    found = set()
    for subcommand, rest in CALL.findall(re.sub(r" *\\\n *", " ", text)):
        own, _, behind = STARTED.split(rest)[0].partition(" -- ")
        found |= {(subcommand, False, option) for option in OPTION.findall(own)}
        found |= {(subcommand, True, option) for option in OPTION.findall(behind)}
    return found


class Pages(CommandTest):
    def test_files_that_they_name_are_there(self):
        looked_at = [page for page in pages() if page.name != "CHANGELOG.md"]
        self.assertGreater(sum(len(NAMED_FILE.findall(page.read_text())) for page in looked_at), 100)
        self.assertEqual([(page.name, missing_files(page.read_text())) for page in looked_at if missing_files(page.read_text())], [])
        self.assertEqual(missing_files("`src/none.cc` `docs/{install,none}.md` `src/mpi/*.none` `src/mpi/` `README.md`"),
                         ["src/none.cc", "docs/none.md", "src/mpi/*.none"])

    def test_scripts_that_they_start_can_be_started(self):
        started = {(page.name, script) for page in pages() for script in STARTED_SCRIPT.findall(page.read_text())}
        self.assertGreater(len(started), 5)
        self.assertEqual([one for one in sorted(started) if not os.access(SOURCE / one[1], os.X_OK)], [])

    def test_options_that_they_name_are_there(self):
        shown = {(page.name, *one) for page in pages() for one in options_of_commands(page.read_text())}
        self.assertGreater(len(shown), 50)
        helps = {}
        for subcommand in {subcommand for _, subcommand, _, _ in shown}:
            # The build's own command: of 'bench' it also says what the benchmark understands.
            done = subprocess.run([COMMAND, subcommand, "--help"], env=clean_environment(), capture_output=True, text=True, timeout=60)
            own, _, behind = done.stdout.partition("\nBench arguments, after --:\n")
            helps[subcommand, False], helps[subcommand, True] = set(OPTION.findall(own)), set(OPTION.findall(behind))
        self.assertEqual([(page, subcommand, option) for page, subcommand, behind, option in sorted(shown)
                          if option not in helps[subcommand, behind] and not (behind and not helps[subcommand, True])], [])
        self.assertEqual(options_of_commands("x\n    longshore bench -n 2 \\\n  --none -- --list  # --comment\n`longshore run --log a ./p --own`"),
                         {("bench", False, "-n"), ("bench", False, "--none"), ("bench", True, "--list"), ("run", False, "--log")})


class BenchmarkHelp(CommandTest):
    def test_it_is_in_the_words_of_the_command(self):
        done = subprocess.run([COMMAND, "bench", "--help"], env=clean_environment(), capture_output=True, text=True, timeout=60)
        own, _, behind = done.stdout.partition("\nBench arguments, after --:\n")
        if not behind:
            self.skipTest("the benchmark is not built")
        self.assertIn("\nUsage: longshore bench -- [OPTIONS]\n", behind)
        self.assertNotIn("UINT:SIZE", behind)  # a type of the parser's, which says nothing to a reader
        self.assertRegex(behind, r"--sizes LIST +these sizes, as 64K,1M \(default: 1K,16K,256K,4M\)\n")


class Links(CommandTest):
    def test_none_is_dead(self):
        self.assertGreater(sum(len(LINK.findall(page.read_text())) for page in pages()), 50)
        self.assertEqual([link for page in pages() for link in dead_links(page)], [])

    def test_a_dead_one_is_found(self):
        page = self.root / "page.md"
        (self.root / "other.md").write_text("# What `it` is, in *short*\n")
        page.write_text("[a](other.md) [b](other.md#what-it-is-in-short) [c](https://example.org/none) `[d](none)`\n"
                        "[e](none.md) [f](other.md#none) [g](#none)\n")
        self.assertEqual(dead_links(page), ["page.md: none.md", "page.md: other.md#none", "page.md: #none"])

    def test_pages_begin_with_what_they_are_for(self):
        for page in pages():
            if page.name == "CHANGELOG.md":
                continue
            lines = [line for line in page.read_text().splitlines() if line.strip()]
            self.assertTrue(lines[0].startswith("# "), page)
            self.assertRegex(lines[1], r"^[^#|\-]", f"{page} begins without a sentence that says what it is for")
            if page.parent == SOURCE / "docs":
                self.assertRegex(lines[1], r"^For (users|developers|administrators|readers)\b", f"{page} does not say for whom it is")


class Sbatch(CommandTest):
    def test_it_starts_the_program_under_longshore(self):
        self.make_shim()
        write_program(self.root / "bin" / "srun", '#!/bin/sh\necho "srun $* LONGSHORE_STATS=$LONGSHORE_STATS"\n')
        template = SOURCE / "packaging" / "longshore.sbatch"
        done = subprocess.run(["bash", template], cwd=self.root, capture_output=True, text=True, timeout=60, env={
            "PATH": f"{self.root}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "77", "PROGRAM": "./a b"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"srun --mpi=pmix --cpu-bind=cores ./a b LONGSHORE_STATS={self.root}/stats-77.json\n")

    def test_without_longshore_it_says_so(self):
        done = subprocess.run([shutil.which("bash"), SOURCE / "packaging" / "longshore.sbatch"], cwd=self.root, capture_output=True,
                              text=True, timeout=60, env={"PATH": str(self.root / "none"), "SLURM_JOB_ID": "77"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("longshore is not on PATH", done.stderr)
