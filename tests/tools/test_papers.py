"""The command behind 'make papers', on a job small enough for a test."""

import json
import os
import re
import shutil
import subprocess
import sys

from support import COMMAND, SOURCE, CommandTest

SCRIPT = SOURCE / "lab/model/papers.py"


class Papers(CommandTest):
    def test_a_list_builds_nothing(self):
        """In a source tree where nothing is built yet, and without CMake."""
        shutil.copy(SOURCE / "Makefile", self.root)
        for folder in ("src", "lab"):
            (self.root / folder).symlink_to(SOURCE / folder)
        done = subprocess.run(["make", "papers", "PAPERS=--list --only hidden", "DEPS=skip"], cwd=self.root, text=True,
                              env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")}, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\Ahidden \(row 8\): longshore simulate .*\n\Z")
        self.assertFalse((self.root / "build").exists())

    def papers(self, *arguments, expect=0):
        done = subprocess.run([sys.executable, SCRIPT, "--longshore", COMMAND, *arguments], cwd=self.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def test_table_and_files(self):
        said = self.papers("--quick", "--no-pictures", "--only", "allgatherv,strided,mapping,hidden", "--out", "out").stdout
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line.startswith("|")]
        self.assertEqual([row[0] for row in rows], ["row", "---", "4, 5", "5", "5", "8"])
        self.assertIn("not to be compared", said)
        self.assertEqual((self.root / "out/papers.md").read_text(), said[:said.index("\nEverything")])
        # What each took, and all.
        took = {cells[1].strip(): [float(cell) for cell in cells[2:4]]
                for cells in (line.split("|") for line in (self.root / "out/times.md").read_text().splitlines()[2:])}
        self.assertEqual(sorted(took), ["all", "allgatherv", "hidden"])
        self.assertAlmostEqual(took["all"][1], took["allgatherv"][1] + took["hidden"][1], delta=0.2)
        self.assertGreaterEqual(took["all"][0] + 0.2, max(took["allgatherv"][0], took["hidden"][0]))
        # The figures are those of the files.
        found = json.loads((self.root / "out/allgatherv.json").read_text())["rows"]
        time = {(row["who"], row["placement"]): row["mean_us"] for row in found}
        self.assertEqual(rows[3][3], f"64 KiB: {time['ring', 'strided'] / time['longshore', 'strided']:.2f}")
        # On strided ranks a ring sends each block over the network again and again; the host hides next to nothing.
        self.assertGreater(time["ring", "strided"], 2 * time["ring", "contiguous"])
        percent = dict(re.findall(r"(\w+), 16 KiB: ([0-9.]+) %", rows[5][3]))
        self.assertGreater(float(percent["longshore"]), 80)
        self.assertLess(float(percent["linear"]), 5)

    def test_programs_late_ranks_and_broadcasts(self):
        said = self.papers("--quick", "--no-pictures", "--only", "late6fitted,fft1024,ibcastdpu,staging2", "--out", "out").stdout
        rows = {cells[1]: cells[4] for cells in (line.split("|") for line in said.splitlines()) if len(cells) > 4}
        rows = {row.strip(): said.strip() for row, said in rows.items()}
        # The figures are those of the files.
        runs = [row["late"] for row in json.loads((self.root / "out/late6fitted.json").read_text())["rows"]]
        self.assertEqual(len(runs), 3)
        self.assertIn(f"{sum(100 * run['late'] / run['ranks'] for run in runs) / 3:.2f} %", rows["6"])
        found = {row["who"]: row for row in json.loads((self.root / "out/fft1024.json").read_text())["rows"]}
        total = {who: 26200 + 3 * row["together_us"] + row["mean_us"] for who, row in found.items()}
        self.assertIn(f"{1 - total['longshore'] / min(total['linear'], total['pairwise']):.0%} less time", rows["11, 12"])
        found = {(row["who"], row["bytes"]): row["together_us"] for row in json.loads((self.root / "out/ibcastdpu.json").read_text())["rows"]}
        self.assertIn(f"1024 KiB: {found['longshore', 1 << 20] / found['scatter-ring', 1 << 20] - 1:+.0%} beside scatter-ring", rows["19"])
        self.assertRegex(rows["28"], r"64 KiB: [0-9.]+ ms, [0-9.]+ of the host")

    def test_seeds_of_a_program_spread_about_its_bar(self):
        sys.path.insert(0, str(SCRIPT.parent))
        import papers  # pylint: disable=import-outside-toplevel
        parts = {"halo": 300, "allgather": 900, "alltoall": 300, "allreduce": 100}
        rows = [{"who": who, "parts_ms": {part: factor * ms for part, ms in parts.items()}} for who, factor in
                (("longshore", 1), ("ring/pairwise", 9), ("longshore", 0.5), ("longshore", 1.5))]
        totals = papers.step_totals(papers.Result({"rows": rows}), "longshore")
        for found, known in zip(totals, (160, 80, 240), strict=True):  # 100 steps
            self.assertAlmostEqual(found, known)

    def test_messages_sizes_and_iterations(self):
        said = self.papers("--quick", "--no-pictures", "--only", "message,serviceslarge,ranks256hosts,iterations,staging3cores,push",
                           "--out", "out").stdout
        rows = {cells[1].strip(): cells[4].strip() for cells in (line.split("|") for line in said.splitlines()) if len(cells) > 4}
        # The figures are those of the files.
        found = {name: json.loads((self.root / f"out/{name}.json").read_text())["rows"]
                 for name in ("message", "serviceslarge", "ranks256hosts", "iterations", "push")}
        most = {row["bytes"]: row["most_us"] for row in found["message"] if row["who"] == "binomial"}
        self.assertEqual(rows["1, 2"], f"1 B: {most[1]:.3f} us; 4 MiB: {(4 << 20) / most[4 << 20] / 1e3:.2f} GB/s")
        counts = ", ".join(f"{row['services']}: {row['mean_us'] / 1e3:.1f}" for row in found["serviceslarge"])
        self.assertEqual(rows["3"], f"256 KiB, ms: {counts}")
        self.assertEqual([row["services"] for row in found["serviceslarge"]], [1, 2, 4, 8])
        times = {(row["who"], row["bytes"]): row["mean_us"] for row in found["ranks256hosts"]}
        for size in (32 << 10, 512 << 10):
            self.assertIn(f"{size >> 10} KiB: {times['longshore', size] / 1e3:.2f} ms, ", rows["7"])
            self.assertIn(f"doubling {times['doubling', size] / times['longshore', size]:.2f} times", rows["7"])
        times = {row["bytes"]: row["pure_comm_us"] for row in found["push"] if (row["pattern"], row["workers"]) == ("allgather-multi", 4)}
        self.assertEqual(rows["18"], "; ".join(f"{size >> 10} KiB: {time:.0f} us" for size, time in times.items()))
        self.assertRegex(rows["28"], "^256 KiB, ms: 4: [0-9.]+$")  # a node of 8 ranks cannot have 16 service processes
        for row in found["iterations"]:
            self.assertIn(f"{row['who']}, ms: " + ", ".join(f"{time / 1e3:.2f}" for time in row["iterations_us"]), rows["9"])

    def test_steps_of_a_program(self):
        said = self.papers("--quick", "--no-pictures", "--only", "steps4", "--out", "out").stdout
        rows = json.loads((self.root / "out/steps4.json").read_text())["rows"]
        self.assertEqual([row["who"] for row in rows], ["longshore", "ring/pairwise"])
        for row in rows:
            parts = row["parts_ms"]
            self.assertAlmostEqual(row["mpi_ms"], sum(parts[name] for name in ("halo", "allgather", "alltoall", "allreduce")), places=3)
            self.assertAlmostEqual(row["wall_ms"], row["mpi_ms"] + parts["compute"] + parts["late"], places=3)
        seconds = [row["parts_ms"]["allgather"] / 10 for row in reversed(rows)]
        self.assertIn(f"Allgather {seconds[0]:.1f} to {seconds[1]:.1f}", said)

    def test_list_runs_nothing(self):
        said = self.papers("--list", "--out", "out", "--seeds", "3").stdout
        self.assertIn("--seeds 1,2,3", said)
        self.assertFalse((self.root / "out").exists())

    def test_errors_say_what_to_do(self):
        self.assertIn("there are message, services, ", self.papers("--only", "none", expect=2).stderr)
        self.assertIn("1 or more", self.papers("--seeds", "0", expect=2).stderr)

    def test_a_folder_that_cannot_be_made(self):
        said = self.papers("--quick", "--no-pictures", "--only", "hidden", "--out", "/proc/none", expect=1).stderr
        self.assertIn("/proc/none", said)
        self.assertNotIn("Traceback", said)
