"""What the project's tables say, for tests and scripts: the collectives (src/base/collectives.inc) and the functions that
the shim defines (src/mpi/entry_points.inc)."""

import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def rows(macro, columns):
    text = (ROOT / "src/base/collectives.inc").read_text(encoding="utf-8")
    return [[word.strip() for word in row.split(",")]
            for row in re.findall(rf"^{macro}\((.*)\)$", text, re.M) if row.count(",") == columns - 1]


TABLE = rows("LONGSHORE_COLLECTIVE", 6)
# "ALLTOALL", as in the names of settings.
NAMES = tuple(row[0] for row in TABLE)
# Of those, the ones in which a rank gives the same block to all.
SHARED = tuple(row[0] for row in TABLE if row[4] == "1")
# "alltoall", as in MPI_I<name>, with those that are carried as another.
FAMILIES = tuple([row[2] for row in TABLE] + [row[1] for row in rows("LONGSHORE_CARRIED_AS", 4)])


def forced(algorithm, shared=None, names=NAMES):
    """The settings by which one algorithm carries every call of those collectives; it may have another name where the
    block is the same for all."""
    return {f"LONGSHORE_{name}_ALGORITHM": shared if shared and name in SHARED else algorithm for name in names}


# Small blocks are to be offloaded, too, which the built-in table leaves to the MPI.
DIRECT = forced("direct")


def entries(timed=True):
    """The MPI functions that the shim defines, in order; without those that it only times, if asked to."""
    only_timed = set() if timed else timed_calls()
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    found = subprocess.run([compiler, "-E", "-P", "-x", "c", "-I", ROOT / "src", "-DLONGSHORE_ENTRY(name)=name",
                           ROOT / "src/mpi/entry_points.inc"], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in found if name not in only_timed]


def timed_calls():
    """The MPI functions that the shim defines only to take their time for the statistics."""
    text = (ROOT / "src/statistics/other_calls.inc").read_text(encoding="utf-8")
    return {f"MPI_{name}" for name in re.findall(r"^LONGSHORE_OTHER_CALL\((\w+),", text, re.M)}
