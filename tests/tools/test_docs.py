"""Links in the documentation lead somewhere; the template for sbatch runs."""

import re
import shutil
import subprocess
import unittest

from support import SOURCE, CommandTest, write_program

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


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


class Links(CommandTest):
    def pages(self):
        return [*SOURCE.glob("*.md"), *(SOURCE / "docs").rglob("*.md")]

    def test_none_is_dead(self):
        pages = self.pages()
        self.assertGreater(sum(len(LINK.findall(page.read_text())) for page in pages), 50)
        self.assertEqual([link for page in pages for link in dead_links(page)], [])

    def test_a_dead_one_is_found(self):
        page = self.root / "page.md"
        (self.root / "other.md").write_text("# What `it` is, in *short*\n")
        page.write_text("[a](other.md) [b](other.md#what-it-is-in-short) [c](https://example.org/none) `[d](none)`\n"
                        "[e](none.md) [f](other.md#none) [g](#none)\n")
        self.assertEqual(dead_links(page), ["page.md: none.md", "page.md: other.md#none", "page.md: #none"])

    def test_pages_begin_with_what_they_are_for(self):
        for page in self.pages():
            if page.name == "CHANGELOG.md":
                continue
            lines = [line for line in page.read_text().splitlines() if line.strip()]
            self.assertTrue(lines[0].startswith("# "), page)
            self.assertRegex(lines[1], r"^[^#|\-]", f"{page} begins without a sentence that says what it is for")


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


if __name__ == "__main__":
    unittest.main()
