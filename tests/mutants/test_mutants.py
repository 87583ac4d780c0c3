"""The lists of mutants still fit the sources."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import SRC, mutants, pattern_of  # noqa: E402


class Lists(unittest.TestCase):
    def test_every_mutant_can_be_planted(self):
        for name in ("mutants.txt", "checks.txt"):
            found = mutants(name)
            self.assertGreater(len(found), 50)
            gone = [m["name"] for m in found if pattern_of(m["old"], (SRC / m["file"]).read_text()) is None]
            self.assertEqual(gone, [], name)
