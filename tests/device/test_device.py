"""longshore device: what it measures is there, both ends of a network say what is wrong, and its files are read again.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import tomllib
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
PROGRAM = BUILD / "bin/longshore-device"
VERBS, UCP = BUILD / "tests/device/fake_verbs", BUILD / "tests/device/fake_ucp"
# Preloaded, but where a sanitizer's library has to be the first one; what passes between two looks at it.
STEADY_CLOCK, STEP_S = BUILD / "tests/device/libsteady_clock.so", 0.005
COMMAND = BUILD / "bin/longshore"
LIMIT_S = 120
REQUEST, MAGIC, VERSION = struct.Struct("<IHHQQ"), 0x4C534456, 4
ECHO, TO_FAR, FROM_FAR, BOTH, END, ECHO_POLLED, UCX = range(1, 8)  # patterns
NETWORK = BUILD / "lib/longshore-ucx.so"
HAS_UCX, EXPORTS = NETWORK.exists(), (UCP / "libucp.so.0").exists()

WITH_STEADY_CLOCK = os.environ | ({"LD_PRELOAD": str(STEADY_CLOCK)} if STEADY_CLOCK.exists() else {})


def run(*words, program=PROGRAM, env=None):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)


class FarEnd:
    """One that listens on loopback, at a port of its own choice."""

    def __init__(self, env=None):
        self.env = env

    def __enter__(self):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen([PROGRAM, "--listen", "127.0.0.1:0"], text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=self.env)
        self.port = int(re.search(r"port (\d+)", self.process.stdout.readline())[1])
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)

    def ends(self):
        _, said = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, said


class Relay:
    """Between a near end and a far end. `asked`: (pattern, bytes, count) of all that the near end asked for, each followed by as
    many bytes as that has; `answered`: how many bytes have come back."""

    def __init__(self, far):
        self.far, self.asked, self.answered = far, [], 0

    def __enter__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.there = threading.Thread(target=self.carry)
        self.there.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)  # nobody may have come
        self.server.close()
        self.there.join()

    def carry(self):
        with contextlib.suppress(OSError), self.server.accept()[0] as near, self.far.connect() as far:
            back = threading.Thread(target=self.carry_back, args=(far, near))
            back.start()
            while len(head := near.recv(REQUEST.size, socket.MSG_WAITALL)) == REQUEST.size:
                magic, _, pattern, size, count = REQUEST.unpack(head)
                if magic != MAGIC:
                    break
                self.asked.append((pattern, size, count))
                far.sendall(head)
                left = {END: 0, FROM_FAR: 8}.get(pattern, size * count)
                while left and (part := near.recv(min(left, 1 << 20))):
                    far.sendall(part)
                    left -= len(part)
            far.shutdown(socket.SHUT_WR)
            back.join()

    def carry_back(self, far, near):
        with contextlib.suppress(OSError):
            while part := far.recv(1 << 20):
                near.sendall(part)
                self.answered += len(part)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="longshore-device-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def measure(self, *words, env=None):
        """Its results; every row of them has sensible samples."""
        done = run("--quick", "--json", self.folder / "a.json", *words, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        data = json.loads((self.folder / "a.json").read_text(encoding="utf-8"))
        for row in data["rows"]:
            self.assertEqual(len(row["samples"]), 2, row)
            self.assertGreater(min(row["samples"]), 0, row)
            self.assertAlmostEqual(row["mean"], sum(row["samples"]) / 2, delta=row["mean"] * 1e-4)
            self.assertIn(row["test"], done.stdout)
        return data

    def assert_figure(self, found, expected, row):
        """Of a run with the steady clock, where there is one."""
        if STEADY_CLOCK.exists():
            self.assertAlmostEqual(found, expected, delta=expected * 1e-4, msg=row)

    def refused(self, text, *words, code=2, program=PROGRAM):
        done = run(*words, program=program)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class Device(Case):
    def test_one_machine(self):
        data = self.measure()
        cores = len(os.sched_getaffinity(0))
        self.assertEqual(data["machine"]["cores"], cores)
        tests = {row["test"] for row in data["rows"]}
        self.assertLessEqual({"memcpy", "process copy", "stream copy", "stream scale", "stream add", "stream triad"}, tests)
        self.assertLessEqual({1, cores}, {row["threads"] for row in data["rows"] if row["test"] == "stream triad"})
        self.assertEqual("wake-up" in tests, cores > 1)
        self.assertEqual(min(row["bytes"] for row in data["rows"] if row["test"] == "memcpy"), 64)
        # It is bound to no core afterwards, and what it started has gone.
        # Where there is no RDMA card, or none that exports memory, that is said, and nothing else where there are two cores.
        said = [what.partition(": ")[0] for what in data["left_out"]]
        self.assertEqual({"registering memory", "exporting memory"}.issuperset(said), cores > 1)
        for what in ("register", "export"):
            self.assertEqual(f"{what} memory" in tests, f"{what}ing memory" not in said)
        self.assertLessEqual({"rank post", "service message", "service read", "service copy", "service finish"}, tests)

    def with_fake_card(self, **more):
        data = self.measure("--only", "register", env=WITH_STEADY_CLOCK | {"LD_LIBRARY_PATH": f"{VERBS}:{UCP}"} | more)
        for row in data["rows"]:
            for sample in row["samples"]:
                self.assert_figure(sample, STEP_S * 1e6, row)
        return [(row["test"], row["bytes"]) for row in data["rows"]], data["left_out"]

    @unittest.skipUnless(EXPORTS, "no headers of UCX 1.15")
    def test_registering_and_exporting_memory(self):
        sizes = (4096, 65536, 1 << 20)
        registered = [(f"{what} memory", size) for size in sizes for what in ("register", "deregister")]
        exported = [("export memory", size) for size in sizes]
        self.assertEqual(self.with_fake_card(), (registered + exported, []))
        self.assertEqual(self.with_fake_card(FAKE_VERBS_REFUSES="65536"),
                         (registered[:2] + exported, ["registering memory: the card refuses 65536 bytes"]))
        self.assertEqual(self.with_fake_card(FAKE_UCP_REFUSES="65536"),
                         (registered + exported[:1],
                          ["exporting memory: UCX exports no memory of 65536 bytes: Unsupported operation"]))

    def test_a_network(self):
        """Each row is of messages of its size, as many as the far end was asked for, and its figure that of one of them in the time
        that passed. By a clock that goes as it is looked at: before and after, when polling also for each message."""
        with FarEnd() as far, Relay(far) as relay:
            data = self.measure("--only", "network", "--to", f"127.0.0.1:{relay.port}", env=WITH_STEADY_CLOCK)
            self.assertEqual(far.ends(), (0, ""))
        self.assertEqual(relay.asked.pop(), (END, 0, 0))
        self.assertEqual(len(relay.asked), 3 * len(data["rows"]))  # a trial, and two samples
        answered = 8
        tests = []
        for at, row in enumerate(data["rows"]):
            pattern, size, _ = relay.asked[3 * at]
            of_trial, *of_samples = [count for one, bytes_each, count in relay.asked[3 * at:3 * at + 3]
                                     if (one, bytes_each) == (pattern, size)]
            self.assertEqual(size, row["bytes"])
            self.assertEqual(len(of_samples), 2)
            answered += sum(8 + (8 if pattern == TO_FAR else size * count) for count in (of_trial, *of_samples))
            for sample, count in zip(row["samples"], of_samples):
                self.assertGreaterEqual(count, 4)
                each_s = STEP_S * (count + 1 if pattern == ECHO_POLLED else 1) / count
                rate = size / each_s / 1e9
                test, figure = {ECHO: ("network latency", each_s * 1e6 / 2), ECHO_POLLED: ("network polling", each_s * 1e6 / 2),
                                TO_FAR: ("network to", rate), FROM_FAR: ("network from", rate), BOTH: ("network both", 2 * rate)}[pattern]
                if row["test"] == "network messages":
                    self.assertEqual((pattern, size), (TO_FAR, 8))
                    test, figure = row["test"], 1 / each_s
                self.assertEqual(row["test"], test)
                self.assert_figure(sample, figure, row)
            tests.append((row["test"], size))
        self.assertEqual(relay.answered, answered)
        latency, rate = [1, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20], [1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20]
        self.assertEqual(tests, [(f"network {what}", size) for what in ("latency", "polling") for size in latency] +
                         [(f"network {what}", size) for size in rate for what in ("to", "from", "both")] + [("network messages", 8)])

    def test_rates_are_bytes_in_the_time_that_passed(self):
        cores = len(os.sched_getaffinity(0))
        data = self.measure("--only", "memcpy,process,stream", env=WITH_STEADY_CLOCK)
        seen = set()
        for row in data["rows"]:
            seen.add(row["test"])
            moved = row["bytes"]
            if row["test"] in ("memcpy", "process copy"):
                moved *= max(1, 65536 // row["bytes"])  # small ones many at once
            else:
                moved *= {"stream copy": 2, "stream scale": 2, "stream add": 3, "stream triad": 3}[row["test"]]
            # Each thread looks at the clock, between the looks of the first one or not.
            figures = [moved / (STEP_S * looks) / 1e9 for looks in range(1, row["threads"] + 1)]
            for sample in row["samples"]:
                self.assert_figure(sample, min(figures, key=lambda figure: abs(figure - sample)), row)  # pylint: disable=cell-var-from-loop
        self.assertLessEqual({"memcpy", "process copy", "stream copy", "stream scale", "stream add", "stream triad"}, seen)
        self.assertLessEqual({1, cores}, {row["threads"] for row in data["rows"] if row["test"] == "stream triad"})

    @unittest.skipUnless(HAS_UCX, "no UCX")
    def test_ucx(self):
        with FarEnd() as far:
            data = self.measure("--only", "network,ucx", "--to", f"127.0.0.1:{far.port}")
            self.assertEqual(far.ends(), (0, ""))
        rows = {(row["test"], row["bytes"]) for row in data["rows"]}
        sizes = [1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20]
        moves = ("ucx read", "ucx write", "ucx both")
        self.assertEqual({row for row in rows if row[0] in moves}, {(test, size) for test in moves for size in sizes})
        self.assertEqual({test for test, _ in rows if test.startswith("ucx")}, {"ucx message", "ucx read time", "ucx messages", *moves})
        self.assertIn(("ucx messages", 8), rows)
        self.assertIn(("network messages", 8), rows)
        self.assertRegex(data["remarks"][0], r"^UCX \d+\.\d+\.\d+, no RDMA card: ")
        self.assertEqual(data["left_out"], [])

    @unittest.skipUnless(HAS_UCX, "no UCX")
    def test_without_ucx_the_rest_is_measured(self):
        nothing = {**os.environ, "LONGSHORE_UCX_TLS": "none_such"}
        for where, said in ((None, "ucx: the far end has none"), (nothing, "ucx: UCX does not start: ")):
            with self.subTest(said=said), FarEnd(env=None if where else nothing) as far:
                data = self.measure("--only", "network,ucx", "--to", f"127.0.0.1:{far.port}", env=where)
                self.assertEqual(far.ends(), (0, ""))
                self.assertFalse([row for row in data["rows"] if row["test"].startswith("ucx")])
                self.assertEqual(len(data["left_out"]), 1)
                self.assertIn(said, data["left_out"][0])

    @unittest.skipUnless(shutil.which("readelf"), "no readelf")
    def test_it_needs_the_c_library_alone(self):
        """So that it runs on a DPU as it is; what else it uses it opens where that is there."""
        done = subprocess.run(["readelf", "--dynamic", PROGRAM], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout))
        if any(name.startswith(("libasan", "libtsan", "libubsan")) for name in needed):
            self.skipTest("a sanitizer's library is there, too")
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if not name.startswith(("libc.so.", "ld-linux"))], [])

    @unittest.skipUnless(HAS_UCX and shutil.which("readelf"), "no UCX or no readelf")
    def test_it_looks_for_ucx_where_the_network_part_does(self):
        """The loader looks by the run path of whoever opens a library, as of whoever is linked with it."""
        found = []
        for path in (PROGRAM, NETWORK):
            said = subprocess.run(["readelf", "--dynamic", path], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
            tags = re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", said)
            found.append([(tag, list(dict.fromkeys(filter(None, folders.split(":"))))) for tag, folders in tags])
        self.assertEqual(*found)

    def test_bad_options(self):
        self.refused("unknown option --bogus", "--bogus")
        self.refused("unknown argument word", "word")
        self.refused("--to needs a value", "--to")
        self.refused("--only sideways: memcpy, process, stream, signals, service", "--only", "memcpy,sideways")
        for test in ("network", "ucx"):
            self.refused(f"--only {test}: --to HOST:PORT says where the far end is", "--only", test)
        self.refused("--to: HOST:PORT is expected", "--to", "nowhere")
        self.refused("1 to 1000", "--repeats", "0")
        self.refused("the far end only answers", "--listen", "0", "--json", "x")
        self.refused("No such file or directory", "--json", self.folder / "no/a.json")
        self.assertIn("Usage:", run("--help").stdout)

    def test_results_that_are_there_already_are_kept(self):
        path = self.folder / "a.json"
        path.write_text("from before", encoding="utf-8")
        done = run("--quick", "--only", "register", "--json", path)
        self.assertIn(f"{path} was there already: that file is now {path}.old", done.stderr)
        self.assertEqual(json.loads(path.read_text(encoding="utf-8"))["longshore_device"], 1)
        self.assertEqual(path.with_suffix(".json.old").read_text(encoding="utf-8"), "from before")

    def test_no_far_end(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self.refused("cannot be reached: Connection refused ('longshore device --listen' must run there)",
                     "--only", "network", "--to", f"127.0.0.1:{port}", code=1)
        self.refused("no.such.host.invalid:1: ", "--only", "network", "--to", "no.such.host.invalid:1", code=1)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.refused("cannot listen at 127.0.0.1", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", code=1)

    # Another program is at the other end, or one that is not of this version, or that is hostile.
    def test_strangers(self):
        cases = [(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 24, "not this version"),
                 (REQUEST.pack(MAGIC, VERSION - 1, 1, 1, 1), "not this version"),
                 (REQUEST.pack(MAGIC, VERSION, 9, 1, 1), "does not do"),
                 (REQUEST.pack(MAGIC, VERSION, 2, 1 << 40, 1), "does not do"),
                 (REQUEST.pack(MAGIC, VERSION, 2, 1 << 20, 1 << 63), "does not do"),
                 (REQUEST.pack(MAGIC, VERSION, 4, (1 << 64) - 1, (1 << 64) - 1), "does not do"),
                 (REQUEST.pack(MAGIC, VERSION, 1, 0, 1), "does not do"),
                 (REQUEST.pack(MAGIC, VERSION, 2, 1 << 20, 100) + b"some", "has gone"),
                 (b"shor", "has gone"), (b"", "has gone")]
        if HAS_UCX:
            cases += [(REQUEST.pack(MAGIC, VERSION, UCX, 64 << 20, 1), "has gone"),
                      (REQUEST.pack(MAGIC, VERSION, UCX, 1 << 20, 1) + b"wo", "has gone"),
                      (REQUEST.pack(MAGIC, VERSION, UCX, 1 << 40, 1), "does not do")]
        for sent, said in cases:
            with self.subTest(sent=sent), FarEnd() as far:
                # It may close before it has been sent, or has read, all.
                with far.connect() as near, contextlib.suppress(OSError):
                    near.sendall(sent)
                    near.shutdown(socket.SHUT_WR)
                    while near.recv(4096):
                        pass
                code, text = far.ends()
                self.assertEqual(code, 1)
                self.assertIn(said, text)

    def test_a_far_end_that_is_another_program(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            near = subprocess.Popen([PROGRAM, "--quick", "--only", "network", "--to", f"127.0.0.1:{server.getsockname()[1]}"],
                                    text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            other, _ = server.accept()
            with other:
                other.sendall(b"220 mail.example ESMTP\r\n")
                _, said = near.communicate(timeout=LIMIT_S)
        self.assertEqual(near.returncode, 1)
        self.assertIn("what answers there is not this version of longshore-device", said)

    @unittest.skipUnless(HAS_UCX, "no UCX")
    def test_a_far_end_that_tells_nonsense_of_its_memory(self):
        yes = struct.pack("<II", MAGIC, 1)
        for memory_bytes, address_bytes, key_bytes in ((64 << 20, 1 << 40, 8), (64 << 20, 8, 1 << 40), (1, 8, 8)):
            with self.subTest(memory_bytes=memory_bytes, address_bytes=address_bytes), socket.create_server(("127.0.0.1", 0)) as server:
                near = subprocess.Popen([PROGRAM, "--quick", "--only", "ucx", "--to", f"127.0.0.1:{server.getsockname()[1]}"],
                                        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                other, _ = server.accept()
                with other:
                    other.recv(24, socket.MSG_WAITALL)
                    other.sendall(yes + struct.pack("<4Q", 4096, memory_bytes, address_bytes, key_bytes))
                    _, said = near.communicate(timeout=LIMIT_S)
                self.assertEqual(near.returncode, 1)
                self.assertIn("the far end has gone", said)


@unittest.skipUnless(COMMAND.exists(), "built without the longshore command")
class Command(Case):
    def run_command(self, *words):
        done = run("device", *words, program=COMMAND)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def results(self, name, remarks=(), cores=4, **means):
        """A file as --json writes it."""
        rows = [{"test": test.replace("_", " "), "unit": unit, "bytes": 1, "threads": 1, "mean": mean, "samples": [mean, mean]}
                for test, (mean, unit) in means.items()]
        path = self.folder / name
        path.write_text(json.dumps({"longshore_device": 1, "rows": rows, "remarks": remarks,
                                    "machine": {"processor": "P", "cores": cores, "sockets": 2, "date": "today"}}), encoding="utf-8")
        return path

    def test_it_starts_the_program(self):
        said = self.run_command("--quick", "--only", "memcpy", "--json", self.folder / "a.json")
        self.assertIn("memcpy", said)
        self.assertLessEqual(max(map(len, (line for line in said.splitlines() if not line.startswith("#")))), 80, said)
        self.assertTrue((self.folder / "a.json").exists())

    def test_side_by_side(self):
        a = self.results("a.json", memcpy=(10, "GB/s"), wake_up=(8, "us"), only_here=(1, "GB/s"))
        b = self.results("b.json", memcpy=(20, "GB/s"), wake_up=(4, "us"))
        said = self.run_command("compare", a, b)
        # Twice the rate and half the time are both twice as quick.
        self.assertRegex(said, r"memcpy +1B? +1 .* 2\.00\n")
        self.assertRegex(said, r"wake up .* 2\.00\n")
        self.assertRegex(said, r"only here .* - +-\n")
        self.assertIn("2 rows in both; geometric mean of B/A: 2.00", said)

    def test_a_picture(self):
        a = self.results("a.json", memcpy=(10, "GB/s"), wake_up=(8, "us"), only_here=(1, "GB/s"))
        b = self.results("b.json", memcpy=(20, "GB/s"), wake_up=(9, "us"))
        picture = self.folder / "battle.png"
        done = run("device", "compare", a, b, "-o", picture, program=COMMAND)
        if done.returncode == 125:
            self.skipTest("no matplotlib")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")

    def test_a_picture_of_one_machine(self):
        """With all kinds of rows, and with one."""
        several = self.results("a.json", memcpy=(10, "GB/s"), stream_triad=(20, "GB/s"), network_latency=(9, "us"), network_to=(1, "GB/s"),
                               ucx_message=(5, "us"), ucx_read=(2, "GB/s"), ucx_both=(3, "GB/s"), ucx_messages=(1e6, "1/s"),
                               register_memory=(40, "us"), rank_post=(400, "ns"))
        for results in (several, self.results("b.json", rank_post=(400, "ns"))):
            picture = self.folder / "one.png"
            done = run("device", "draw", results, "-o", picture, program=COMMAND)
            if done.returncode == 125:
                self.skipTest("no matplotlib")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")
            picture.unlink()
        self.refused("nothing that it draws was measured", "device", "draw", self.results("c.json", other=(1, "us")), "-o", picture, code=1,
                     program=COMMAND)
        self.refused("No such file", "device", "draw", self.folder / "gone", "-o", picture, code=1, program=COMMAND)
        self.refused("-o", "device", "draw", several, program=COMMAND)

    def test_a_machine_file(self):
        results = self.results("a.json", process_copy=(5, "GB/s"), stream_copy=(30, "GB/s"), network_to=(1.25, "GB/s"),
                               network_latency=(20, "us"), network_messages=(1e6, "1/s"), service_message=(500, "ns"),
                               service_send=(200, "ns"), service_read=(250, "ns"))
        written = self.folder / "m.toml"
        self.assertIn("8 of ", self.run_command("machine", results, "-o", written))
        machine = tomllib.loads(written.read_text(encoding="utf-8"))
        self.run_command("machine", results, "-o", written)
        self.assertTrue((self.folder / "m.toml.old").exists())
        self.assertEqual(machine["node"]["cores"]["value"], 4)
        self.assertEqual(machine["memory"]["rate"], {"value": 15, "unit": "GB/s", "source": "measured by longshore device, today, a.json: stream copy"})
        self.assertEqual(machine["memory"]["core_rate"]["value"], 5)
        # The system takes a microsecond for a message.
        self.assertEqual((machine["service"]["message"]["value"], machine["service"]["message"]["unit"]), (1.5, "us"))
        self.assertEqual((machine["service"]["send"]["value"], machine["service"]["read"]["value"]), (1.2, 250))
        self.assertEqual((machine["link"]["latency"]["value"], machine["link"]["latency"]["unit"]), (10, "us"))
        self.assertIn("not measured: as in mpcdf-bf3", machine["pcie"]["rate"]["source"])
        # The way between hosts was measured as a whole, and no DPU was.
        for table in ("switch", "pcie"):
            self.assertEqual(machine[table]["latency"]["value"], 0)
            self.assertIn("part of link.latency", machine[table]["latency"]["source"])
        self.assertNotIn("dpu", machine)
        done = run("simulate", "--machine", written, "--nodes", 2, "--ranks-per-node", 2, "--services", 1, "--sizes", "4K",
                   program=COMMAND)
        self.assertEqual(done.returncode, 0, done.stderr)

    CARD = "UCX 1.19.0, a card reads and writes"

    def machine_of(self, *words):
        return tomllib.loads(self.run_command("machine", *words))

    def value(self, machine, key, expected, source):
        table, name = key.split(".")
        value = machine[table][name]
        factor = {"ns": 1e-3, "us": 1, "MB/s": 1e-3}.get(value.get("unit"), 1)
        self.assertAlmostEqual(value["value"] * factor, expected, places=6, msg=key)
        self.assertIn(source, value["source"], key)

    def test_a_machine_of_several_files(self):
        """A host, its DPU, what is between them, and the network: each value from where it was measured, the rest as in --base."""
        host = self.results("host.json", process_copy=(5, "GB/s"), service_read=(250, "ns"), rank_post=(400, "ns"),
                            network_to=(1, "GB/s"), network_polling=(30, "us"))
        dpu = self.results("dpu.json", cores=8, stream_copy=(60, "GB/s"), service_read=(700, "ns"), service_send=(300, "ns"),
                           rank_look=(90, "ns"), **{"wake-up": (12, "us")})
        bus = self.results("bus.json", remarks=[self.CARD], ucx_read_time=(2, "us"), ucx_read=(26, "GB/s"), ucx_message=(1.75, "us"),
                           network_latency=(21, "us"))
        net = self.results("net.json", remarks=[self.CARD], ucx_read_time=(3.6, "us"), ucx_read=(24, "GB/s"), ucx_messages=(5e6, "1/s"),
                           network_to=(2, "GB/s"))
        machine = self.machine_of(host, "--dpu", dpu, "--host-dpu", bus, "--network", net)
        for key, expected, source in (
                ("node.cores", 4, "host.json"), ("rank.post", 0.4, "host.json: rank post"), ("memory.core_rate", 5, "host.json"),
                ("dpu.cores", 8, "dpu.json"), ("dpu.memory_rate", 60, "dpu.json: stream copy"), ("service.read", 0.7, "dpu.json: service read"),
                ("service.wake_up", 12, "dpu.json"), ("dpu.stand_in_wake_up", 12, "dpu.json"), ("dpu.stand_in_test", 0.09, "dpu.json: rank look"),
                ("service.send", 0.5, "dpu.json: service send and ucx messages"),
                # There and back: the card is passed from either side, each way. A message passes it once.
                ("pcie.latency", 0.5, "bus.json: a quarter of ucx read time"), ("pcie.rate", 26, "bus.json: ucx read"),
                ("dpu.message", 0.75, "bus.json: ucx message less"), ("dpu.session", 20, "bus.json: network latency less"),
                # One way from host to host is 1.8 us, of which both hosts' buses have 1 us.
                ("link.latency", 0.4, "net.json: half of half of ucx read time, less pcie.latency"), ("link.rate", 24, "net.json: ucx read"),
                ("switch.latency", 0, "part of link.latency"), ("switch.ports", 64, "not measured: as in mpcdf-bf3"),
                ("dpu.stand_in_post", 3, "not measured: as in mpcdf-bf3")):
            self.value(machine, key, expected, source)
        self.assertEqual(machine["title"], "P, 4 cores; its DPU: P, 8 cores")
        # Without the DPU's own results nothing of the host's processor says what service processes take there.
        machine = self.machine_of(host, "--dpu", "base")
        self.value(machine, "dpu.cores", 16, "not measured: as in mpcdf-bf3")
        self.value(machine, "service.read", 0.7, "not measured: as in mpcdf-bf3")
        self.value(machine, "link.rate", 1, "host.json: network to")

    def test_a_bus_without_a_card_is_not_measured(self):
        """Its far end's processor moves what is read, so a read says nothing of the bus."""
        host = self.results("host.json", process_copy=(5, "GB/s"))
        bus = self.results("bus.json", ucx_read_time=(40, "us"), ucx_read=(2, "GB/s"), ucx_message=(20, "us"))
        machine = self.machine_of(host, "--host-dpu", bus)
        self.value(machine, "pcie.rate", 13.92, "not measured")
        self.value(machine, "pcie.latency", 0.15, "not measured")
        self.value(machine, "dpu.message", 19.7, "bus.json: ucx message less")

    def test_a_bus_that_the_network_passes_is_as_quick(self):
        net = self.results("net.json", remarks=[self.CARD], ucx_read=(48, "GB/s"))
        machine = self.machine_of(self.results("host.json", process_copy=(5, "GB/s")), "--network", net)
        self.value(machine, "pcie.rate", 48, "not less than link.rate")

    def test_machines_that_cannot_be_made(self):
        host = self.results("host.json", process_copy=(5, "GB/s"))
        self.refused("host.json: nothing of a network in it", "device", "machine", host, "--network", host, code=1, program=COMMAND)
        self.refused("host.json: nothing of a network in it", "device", "machine", host, "--host-dpu", host, code=1, program=COMMAND)
        self.refused("No such file", "device", "machine", host, "--dpu", self.folder / "gone", code=1, program=COMMAND)
        base = self.folder / "base.toml"
        base.write_text(self.run_command("machine", host), encoding="utf-8")
        self.refused("has no DPU, from which values would come", "device", "machine", host, "--base", base, "--dpu", "base", program=COMMAND)
        slow = self.results("slow.json", process_copy=(1e-9, "GB/s"))
        self.refused("memory.core_rate = 1e-09 GB/s: it must be between", "device", "machine", slow, code=1, program=COMMAND)

    def test_files_that_are_not_results(self):
        good = self.results("a.json", memcpy=(10, "GB/s"))
        other = self.results("b.json", wake_up=(4, "us"))
        for name, text, said in (("text", "no JSON", "not results of longshore device"), ("other", "{}", "not results"),
                                 ("later", '{"longshore_device": 2}', "another version"),
                                 ("empty", '{"longshore_device": 1, "machine": {}, "rows": []}', "no results in it")):
            (self.folder / name).write_text(text, encoding="utf-8")
            self.refused(said, "device", "compare", good, self.folder / name, code=1, program=COMMAND)
        self.refused("No such file", "device", "machine", self.folder / "gone", code=1, program=COMMAND)
        self.refused("no row in common", "device", "compare", good, other, code=1, program=COMMAND)
        self.refused("--base nowhere", "device", "machine", good, "--base", "nowhere", program=COMMAND)
