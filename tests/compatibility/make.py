#!/usr/bin/env python3
"""Prints docs/compatibility.md: every MPI function, and what becomes of it under Longshore. Exit code
77: an MPI's headers are missing.

Nothing is listed by hand that the sources know: which functions there are is read from the MPIs' headers, which ones the
shim defines from src/mpi/entry_points.inc, which it offloads from src/base/collectives.inc, and who tests one from the tests.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import collectives  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPIS = {"Open MPI 4.1.4": ("mpicc.openmpi", "#include <mpi.h>\n#include <mpi-ext.h>\n"),
        "MPICH 4.0.2": ("mpicc.mpich", "#include <mpi.h>\n")}
NAMED_MAX = 6
TESTS = ("tests/mpi", "tests/applications", "examples/fft", "lab/bench")

# What the shim does in functions that it defines and does not offload, by what the name begins with; first match holds.
SEEN = [
    (r"(Init|Init_thread)$", "the ranks agree on offload; service processes start"),
    (r"Session_init$", "before MPI_Init: the job runs with plain MPI, and says so"),
    (r"Finalize$", "open operations finish, statistics are written, service processes go"),
    (r"Abort$", "what the rank has written behind is written"),
    (r"(Comm_dup|Comm_dup_with_info|Comm_split|Comm_split_type|Comm_create|Comm_create_group|Cart_create|Cart_sub|"
     r"Graph_create|Dist_graph_create|Dist_graph_create_adjacent|Intercomm_merge)$",
     "the new communicator is offloaded, too"),
    (r"Comm_set_name$", "the statistics count its calls under that name"),
    (r"(Start|Startall)$", "starts offloaded and other persistent requests alike"),
    (r"(Wait|Test|Request_get_status)", "moves offloaded operations on; requests of both kinds may be mixed"),
    (r"Request_free$", "an error for a nonblocking collective that is active, as MPI says; else as ever"),
    (r"(Alloc|Free)_mem$", "memory that ranks and service processes of the node map (info null; else the MPI's)"),
    (r"Cancel$", "an error for a collective, as MPI says; else as ever"),
]

# Functions that the shim does not define, or only times, which a reader may look for here: what becomes of them.
LEFT = [
    (r"(Barrier|Ibarrier|Barrier_init)$", "Synchronisation"),
    (r"(I?reduce|I?allreduce|I?reduce_scatter|I?reduce_scatter_block|I?scan|I?exscan)(_init)?$", "Reductions"),
    (r"I?neighbor_", "Neighbourhood collectives"),
    (r"Comm_(idup|create_from_group|spawn|join|accept|connect)|Intercomm_create|Session_|Comm_get_parent",
     "Communicators that are not offloaded: collectives on them are MPI's"),
    (r"(B|S|R|I|Ib|Is|Ir|Im|M)?(send|recv|probe|sendrecv|sendrecv_replace|mprobe|mrecv)(_init)?$|P(send|recv)_init|"
     r"(Pready|Parrived|Buffer_|Get_count|Get_elements|Test_cancelled|Isendrecv)", "Point-to-point"),
    (r"(R?put|R?get|R?accumulate|R?get_accumulate|Fetch_and_op|Compare_and_swap)$|Win_", "One-sided"),
    (r"(File_|Register_datarep)", "Files"),
    (r"(Type_|Pack|Unpack|Get_address|Address|Aint_)", "Datatypes"),
    (r"(Comm_|Group_|Cart|Graph|Topo|Dims|Dist_graph|Attr_|Keyval|Errhandler|Add_error|Error_|Intercomm)",
     "Communicators, groups, topologies, attributes, error handlers"),
    (r"", "The rest: environment, info, tools interface, dynamic processes, conversion"),
]


def functions(compiler, source):
    """The MPI_ and MPIX_ functions that a program can call; None if there is no such compiler."""
    try:
        done = subprocess.run([compiler, "-E", "-P", "-x", "c", "-"], input=source, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return set(re.findall(r"\b(?:int|double|MPI_\w+)\s+(MPIX?_[A-Z]\w*)\s*\(", done.stdout)) if done.returncode == 0 else None


def expanded(text):
    """With the calls that tests/mpi writes by macros: INIT(Alltoall)(...), CALL(Alltoall, alltoall, ...)."""
    text = re.sub(r"\bINIT\((\w+)\)\(", r"MPI_\1_init(MPIX_\1_init(", text)
    if "MPI_##Name##_c(" in text:
        text = re.sub(r"\bCALL\((\w+), (\w+),", r"MPI_\1_c(MPI_I\2_c(MPI_\1_init_c(", text)
    return text


def sources():
    for folder in TESTS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".c", ".h", ".f", ".f90", ".F90", ".py") and path.name != "fake_host.cc":
                yield path, expanded(path.read_text(encoding="utf-8", errors="replace"))


def tested_by(texts, name):
    """Names of the test programs that call it, in C or Fortran (which knows no case) or mpi4py."""
    short = name.split("_", 1)[1]
    called = re.compile(rf"\b{name}\s*\(", re.IGNORECASE)
    found = {path.stem for path, text in texts
             if (called.search(text) if path.suffix != ".py" else re.search(rf"\.{short}\(", text))}
    names = sorted(found)
    return ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} more" if names[NAMED_MAX:] else "") or "-"


def heading(name):
    short = name.split("_", 1)[1]
    for pattern, title in LEFT:
        if re.match(pattern, short, re.IGNORECASE):
            return title
    raise AssertionError(name)


def document(headers):
    there = {mpi: functions(*how) for mpi, how in MPIS.items()} if headers is None else headers
    everything = set().union(*there.values())
    entries = collectives.entries(timed=False)
    calls = {f"MPI_{form}" for name in collectives.FAMILIES for form in (name.capitalize(), "I" + name)}
    texts = list(sources())

    def base(name):  # the call under whose name the statistics count it
        return re.sub(r"^MPIX_", "MPI_", re.sub(r"_c$", "", name)).removesuffix("_init")

    def row(name, *cells):
        marks = ["yes" if name in there[mpi] else "-" for mpi in MPIS]
        return "| " + " | ".join([f"`{name}`", *cells, *marks, tested_by(texts, name)]) + " |"

    offloaded = [name for name in entries if base(name) in calls]
    seen = [name for name in entries if name not in offloaded]
    lines = [INTRODUCTION]
    columns = " | ".join(MPIS)
    lines += ["## Offloaded", "", OFFLOADED, "", f"| function | {columns} | tested by |",
              "|---|" + "---|" * (len(MPIS) + 1)]
    lines += [row(name) for name in offloaded]
    lines += ["", "## Seen", "", f"| function | what happens | {columns} | tested by |",
              "|---|---|" + "---|" * (len(MPIS) + 1)]
    for name in seen:
        short = name.split("_", 1)[1].removesuffix("_c")
        what = next(text for pattern, text in SEEN if re.match(pattern, short))
        lines.append(row(name, what))
    rest = {}
    for name in sorted(everything - set(entries)):
        rest.setdefault(heading(name), []).append(name)
    lines += ["", "## Not seen", "", NOT_SEEN, ""]
    for _, title in LEFT:
        names = rest.pop(title, [])
        if not names:
            continue
        plain = [n for n in names if not n.startswith("MPIX_") and not n.endswith("_c")]
        more = len(names) - len(plain)
        lines += [f"**{title}** ({len(names)}): " + ", ".join(f"`{n.split('_', 1)[1]}`" for n in plain)
                  + (f", and {more} large-count or vendor forms" if more else "") + ".", ""]
    lines += ["## Extensions of the MPIs", "", EXTENSIONS]
    return "\n".join(lines).rstrip() + "\n"


INTRODUCTION = """# Compatibility

For users who look for a function: what becomes of each one of the MPI under Longshore. This page is made from the sources and the MPIs' headers by
`tests/compatibility/make.py`; a test fails when they no longer agree. C and Fortran (`mpif.h`, `use mpi`, `use mpi_f08`)
take the same way, and so do programs that find MPI by `dlopen`. The columns are the MPIs of Debian 12; Open MPI 5, MPICH 5
and programs of the standard ABI of MPI 5 are served by the same sources and run a part of the same tests.
"""

OFFLOADED = """Carried by service processes, blocking, nonblocking, persistent and large-count forms, with any datatype and
`MPI_IN_PLACE`, on intracommunicators made by the functions under "Seen". MPI serves a call itself where all ranks can
know that it is better or needed, and the statistics count it with the reason: offload is off, one rank,
intercommunicator, communicator not seen (see "Not seen"), an argument that MPI refuses, a rule of
[selection](selection.md), no room for another group (a node has 512, of communicators and persistent requests), an
in-place alltoall larger than `LONGSHORE_SNAPSHOT_BYTES_MAX`. Why no rank goes another way than its peers:
[decision 20](decisions/0020-no-rank-leaves-alone.md). MPIX_ names are Open MPI 4's of the persistent collectives."""

NOT_SEEN = """The program's calls of these go to its MPI as if Longshore were not there. Where statistics or a trace are asked
for, blocking ones and posts of reductions and barriers (`src/statistics/other_calls.inc`) are counted and timed; else they
cost one jump."""


EXTENSIONS = """**Fault tolerance** (`MPIX_Comm_revoke`, `MPIX_Comm_shrink` and their kind; Open MPI 5 under `mpirun --with-ft ulfm`): all
collectives are the MPI's, decided on rank 0 in `MPI_Init`, which says so. Service processes would wait for a dead member of a communicator.
Without `--with-ft` Open MPI ends a job whose rank dies, and so does MPICH, with Longshore as without.

**Looking at requests** (`MPIX_Request_is_complete`, `MPIX_Stream_progress`, `MPIX_Async_start` of MPICH 4.3 and 5): take offloaded requests, too. From that
release on MPICH moves offloaded operations on whenever it makes progress, as Open MPI does.

**Waits on a stream** (`MPIX_Wait_enqueue`, `MPIX_Waitall_enqueue` of MPICH): take requests of `MPIX_Isend_enqueue` and `MPIX_Irecv_enqueue` alone; a collective's,
offloaded or not, ends the program on an assertion of MPICH. Communicators of `MPIX_Stream_comm_create` are not seen: collectives on them are
MPICH's."""


def untested(headers):
    """Functions that the shim defines, that an MPI here has, and that no test calls."""
    texts = list(sources())
    return [name for name in collectives.entries(timed=False)
            if any(name in found for found in headers.values()) and tested_by(texts, name) == "-"]


def headers_of_all():
    """The functions of each MPI, and which MPIs' headers are missing."""
    headers = {mpi: functions(*how) for mpi, how in MPIS.items()}
    return headers, [mpi for mpi, found in headers.items() if not found]


def main():
    headers, missing = headers_of_all()
    if missing:
        print(f"SKIP: no headers of {', '.join(missing)}", file=sys.stderr)
        return 77
    print(document(headers), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
