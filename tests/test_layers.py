"""Every room includes only the rooms that its row of the table in ARCHITECTURE.md names."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (".cc", ".h", ".c", ".inc", ".S")
# Where an #include is looked up, and the programs that are put together with the wing for DPUs.
FOLDERS = ("src", "include", "lab")
ENTRIES = {"src/longshored/main.cc"}


def room_of(path):
    """Of a path below the project: "base", "lab/model", "include"; None: it is in no room."""
    parts = path.parts
    if parts[0] == "lab" and len(parts) > 2:
        return f"lab/{parts[1]}"
    return parts[1] if parts[0] == "src" and len(parts) > 2 else "include" if parts[0] == "include" else None


def includes():
    """(file, what it includes), both as paths below the project."""
    for top in FOLDERS:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            for name in re.findall(r'^\s*#\s*include "([^"]+)"', path.read_text(encoding="utf-8"), re.M):
                found = [Path(folder) / name for folder in FOLDERS if (ROOT / folder / name).exists()]
                yield path.relative_to(ROOT), found[0] if found else None


def table():
    """The rooms that a room may include."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", text, re.M)
    return {room: set(re.findall(r"`([^`]+)`", last)) for room, last in rows}


class Layers(unittest.TestCase):
    def test_includes(self):
        allowed = table()
        wrong, used = [], {room: set() for room in allowed}
        for source, included in includes():
            here, there = room_of(source), included and room_of(included)
            if there is None or here == there:
                continue
            self.assertIn(here, allowed, f"{source} is in a room that ARCHITECTURE.md does not have")
            used[here].add(there)
            if there not in allowed[here]:
                wrong.append(f"{source} includes {included}, but {here} may not use {there}")
        self.assertEqual(wrong, [])
        unused = {room: rooms - used[room] for room, rooms in allowed.items() if rooms - used[room]}
        self.assertEqual(unused, {}, "ARCHITECTURE.md allows what nobody needs")

    def test_there_is_no_circle(self):
        left = table()
        while left:
            free = [room for room, rooms in left.items() if not rooms & left.keys()]
            self.assertTrue(free, f"these rooms use each other: {left}")
            for room in free:
                del left[room]

    def test_the_product_does_not_know_the_laboratory_nor_the_wing(self):
        for source, included in includes():
            here, there = room_of(source), included and room_of(included)
            if there is None or here == there or here.startswith("lab/"):
                continue
            self.assertFalse(there.startswith("lab/"), f"{source} includes {included}")
            if there == "dpu":
                self.assertIn(str(source), ENTRIES, f"{source} includes {included}")
