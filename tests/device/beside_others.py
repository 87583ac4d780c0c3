#!/usr/bin/env python3
"""What 'longshore device' measures of a network beside what two other programs measure of the same one in the same run, in
turns: ping_pong.c, by Open MPI over TCP, and ucx_perftest by UCX over TCP, where UCX has it. The rows that 'longshore device' itself
measures by UCX are over TCP, too, and stand beside ucx_perftest's.

    beside_others.py                       over the loopback of this machine
    beside_others.py --machines            over the links of two machines that are namespaces (needs root)
    beside_others.py --machines --rate 1gbit

Prints a table (Markdown). A row is right where the spread of both programs overlaps (least to most of all samples), or the
means differ by no more than --within. Exit code: 0 all rows that are compared are right; 1 one is not; 77 no Open MPI.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))
import cluster  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
DEVICE = BUILD / "bin/longshore-device"
PING_PONG = BUILD / "tests/device/ping_pong"
LIMIT_S = 200
PORT = 7611
# Of ucx_perftest: the test, how many it has under way, the column of its CSV that has the mean of all, and how that becomes our unit (its
# MB are 2^20 bytes). It has no test that reads and writes at once.
LATENCY, BANDWIDTH, RATE = (3, 1.0), (5, 2**20 / 1e9), (7, 1.0)
UCX = {"network polling": ("tag_lat", 1, *LATENCY), "network to": ("tag_bw", 1, *BANDWIDTH),
       "ucx message": ("ucp_am_lat", 1, *LATENCY), "ucx read time": ("ucp_get", 1, *LATENCY), "ucx read": ("ucp_get", 16, *BANDWIDTH),
       "ucx write": ("ucp_put_bw", 16, *BANDWIDTH), "ucx messages": ("ucp_am_bw", 16, *RATE)}
# How the two send large messages is theirs, and not the network's: Open MPI by default has the receiver ask for them, and then carries the two
# ways of `network both` one after the other; UCX has it asked, too, and by default sends 8 KiB at a time.
SENT_UNASKED = {"OMPI_MCA_btl_tcp_flags": "1"}
IN_LONG_SEGMENTS = {"UCX_RNDV_THRESH": "inf", "UCX_TCP_TX_SEG_SIZE": "256K", "UCX_TCP_RX_SEG_SIZE": "256K"}
SIZES = {"network polling": (1, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20), "network to": (1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20),
         "ucx message": (8, 4 << 10), "ucx read time": (8, 64 << 10), "ucx read": (1 << 10, 64 << 10, 1 << 20),
         "ucx write": (1 << 10, 64 << 10, 1 << 20), "ucx messages": (8,)}


class Loopback:
    """Both ends are on this machine."""
    address, interface = "127.0.0.1", "lo"
    near, far = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @staticmethod
    def mpirun(words):
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2",
                "--mca", "btl_tcp_if_include", "lo", *words]


class Machines(cluster.Cluster):
    """Two namespaces, the near end in the first."""
    interface = "net0"

    def __init__(self, rate):
        super().__init__(2, rate=rate, offloads=True)
        self.near, self.far = self.nodes[0].enter(), self.nodes[1].enter()
        self.address = self.nodes[1].address

    def mpirun(self, words):
        return super().mpirun(words, 1)


def finish(process):
    """Ends a far end that has not ended by itself."""
    if process.poll() is None:
        process.kill()
    process.communicate()


def by_ucx(place, program, prefix=""):
    """The environment for UCX over TCP, of ucx_perftest's own library."""
    settings = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": place.interface, "UCX_WARN_UNUSED_ENV_VARS": "n"} | IN_LONG_SEGMENTS
    environment = os.environ | settings | {prefix + name: value for name, value in settings.items()}
    library = Path(program).parents[1] / "lib"
    if (library / "libucp.so.0").exists():
        environment["LD_LIBRARY_PATH"] = str(library)
    return environment


def device(place, effort, ucx_program):
    tests, environment = "network", None
    if ucx_program:
        # It reads UCX's settings as service processes do, with a prefix.
        tests, environment = "network,ucx", by_ucx(place, ucx_program, "LONGSHORE_")
    with tempfile.TemporaryDirectory(prefix="longshore-beside-") as folder:
        results = Path(folder) / "results.json"
        far = subprocess.Popen([*place.far, DEVICE, "--listen", f"{place.address}:{PORT}"], stdout=subprocess.PIPE, text=True,
                               env=environment)
        try:
            far.stdout.readline()
            subprocess.run([*place.near, DEVICE, "--only", tests, "--to", f"{place.address}:{PORT}", "--json", results, *effort],
                           check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S, env=environment)
            return json.loads(results.read_text(encoding="utf-8"))["rows"]
        finally:
            finish(far)


def ping_pong(place, samples, seconds):
    words = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", str(PING_PONG), str(samples), str(seconds)]
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | SENT_UNASKED
    done = subprocess.run(place.mpirun(words), stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines()]


def find_ucx():
    """Of UCX's package, or of a system's; None: there is none."""
    found = sorted((BUILD / "ucx").glob("lib/python*/site-packages/libucx/bin/ucx_perftest"))
    return str(found[0]) if found else shutil.which("ucx_perftest")


def ucx_once(program, place, test, size, count):
    name, under_way, column, factor = UCX[test]
    environment = by_ucx(place, program)
    words = [program, "-t", name, "-s", str(size), "-n", str(count), "-O", str(under_way), "-w", "5", "-f", "-v", "-p", str(PORT)]
    far = subprocess.Popen([*place.far, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    end = time.monotonic() + LIMIT_S
    try:
        # It does not say when it listens: the near end tries until it does.
        while True:
            done = subprocess.run([*place.near, *words, place.address], capture_output=True, text=True, timeout=LIMIT_S, env=environment,
                                  check=False)
            if done.returncode == 0:
                break
            if far.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"ucx_perftest: {done.stdout}{done.stderr}")
            time.sleep(0.02)
    finally:
        finish(far)
    fields = re.findall(r"(?m)^ *([\d.]+(?:,[\d.]+)+)$", done.stdout)[-1].split(",")
    return float(fields[column]) * factor


def ucx(program, place, samples, seconds):
    rows = []
    for test, sizes in SIZES.items():
        for size in sizes:
            # As many as take so long at 1 GB/s and 20 us a message.
            count = max(10, int(seconds / (2e-5 + size * 1e-9)))
            rows.append({"test": test, "bytes": size, "samples": [ucx_once(program, place, test, size, count) for _ in range(samples)]})
    return rows


def say(what):
    print(f"beside_others.py: measures with {what}", file=sys.stderr, flush=True)


def collect(into, who, rows):
    for row in rows:
        into.setdefault((row["test"], row["bytes"]), {}).setdefault(who, []).extend(row["samples"])


def shown(samples):
    return f"{statistics.median(samples):.4g} [{min(samples):.4g} .. {max(samples):.4g}]" if samples else "-"


def agree(ours, theirs, within):
    if max(min(ours), min(theirs)) <= min(max(ours), max(theirs)):
        return True
    one, other = statistics.median(ours), statistics.median(theirs)
    return max(one, other) / min(one, other) <= within


def compare(found, within):
    """Prints the table; returns the rows that are not right."""
    wrong = []
    print("| test | bytes | longshore device | Open MPI | beside | ucx_perftest | beside |\n|---|---|---|---|---|---|---|")
    for (test, size), by in found.items():
        if "device" not in by:
            wrong.append(f"{test}, {size} bytes, is not measured by longshore device")
            continue
        ours, cells = by["device"], []
        for who in ("mpi", "ucx"):
            theirs = by.get(who)
            if not theirs:
                cells += ["-", "-"]
                continue
            right = agree(ours, theirs, within)
            cells += [shown(theirs), f"{statistics.median(ours) / statistics.median(theirs):.2f}{'' if right else ' (!)'}"]
            if not right:
                wrong.append(f"{test}, {size} bytes, {who}")
        print(f"| {test} | {size} | {shown(ours)} | {' | '.join(cells)} |")
    return wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", action="store_true", help="two namespaces instead of the loopback")
    parser.add_argument("--rate", help="of their links, as 1gbit")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one turn of short samples: it shows that all works")
    parser.add_argument("--within", type=float, default=1.5, help="how many times as much one may be (default: 1.5)")
    return parser.parse_args()


def main():
    options = arguments()
    if not PING_PONG.exists() or shutil.which("mpirun.openmpi") is None:
        print("beside_others.py: SKIP: no Open MPI")
        return 77
    if options.machines and cluster.missing():
        print(f"beside_others.py: SKIP: {cluster.missing()}")
        return 77
    program, found = find_ucx(), {}
    if program is None:
        print("beside_others.py: no ucx_perftest ('make ucx' brings it)")
    samples, seconds = (2, 0.005) if options.quick else (7, 0.05)
    with Machines(options.rate) if options.machines else Loopback() as place:
        for _ in range(1 if options.quick else options.turns):
            say("longshore device")
            collect(found, "device", device(place, ["--quick"] if options.quick else [], program))
            say("Open MPI")
            collect(found, "mpi", ping_pong(place, samples, seconds))
            if program:
                say("ucx_perftest")
                collect(found, "ucx", ucx(program, place, 1 if options.quick else 3, seconds))
    wrong = compare(found, options.within)
    for one in wrong:
        print(f"beside_others.py: not alike: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
