"""docs/compatibility.md says what the sources and the MPIs' headers say, and tests call what the shim defines."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make  # noqa: E402


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.headers, missing = make.headers_of_all()
        if missing:
            raise unittest.SkipTest(f"no headers of {', '.join(missing)}")

    def test_the_page_is_what_the_sources_say(self):
        page = (make.ROOT / "docs/compatibility.md").read_text(encoding="utf-8")
        self.assertEqual(page.splitlines(), make.document(self.headers).splitlines(), "run 'make compatibility'")

    def test_every_function_of_the_shim_is_called_by_a_test(self):
        self.assertEqual(make.untested(self.headers), [])
