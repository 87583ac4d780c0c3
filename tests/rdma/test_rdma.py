"""The guest of guest.py itself, and what needs an RDMA device, run in it.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder. Skipped, with the reason, where no guest can be started.

To add a test: a method of a class derived from GuestTest, with self.run_there([...]). All of them share one guest,
which boots once.
"""

import json
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import guest  # noqa: E402
from dpu_tests import TestDpu  # noqa: E402, F401  pylint: disable=unused-import
from guest_test import BUILD, BY_RC, JOB_BY_RC, LIMIT_S, GuestTest  # noqa: E402

MPIS = [mpi for mpi in ("openmpi", "mpich") if (BUILD / f"bin/longshore-dpu-bench-{mpi}").exists()]
# MPICH's UCX would use the device as well; with more spinning processes than cores, its start then takes a minute.
MPI_WITHOUT_DEVICE = {"UCX_TLS": "self,sm"}
SLOWNESS = "20"  # of the fabric's tests there
JOB = BUILD / "tests/mpi/openmpi/mpi_collectives_openmpi"
STRESS = BUILD / "tests/mpi/openmpi/mpi_stress_openmpi"
STRESS_STEPS = "600"  # some ten seconds there
MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "self,vader",
          "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"]


def setUpModule():
    if problem := guest.missing():
        raise unittest.SkipTest(f"no guest can be started here: {problem}")


class TestGuest(GuestTest):
    def test_a_command_brings_back_its_exit_code_output_and_files(self):
        machine = self.machine()
        script = f"echo out; echo err >&2; echo \"$A $(pwd)\" >{machine.results}/file; exit 7"
        done = self.run_there(["sh", "-c", script], status=7, environment={"A": "it's"}, cwd="/usr")
        self.assertEqual((done.stdout, done.stderr), ("out\n", "err\n"))
        self.assertEqual((machine.results / "file").read_text(encoding="utf-8"), "it's /usr\n")

    def test_this_machines_files_are_there_and_cannot_be_changed(self):
        here = Path(__file__).resolve()
        before = here.read_bytes()
        done = self.run_there(["sh", "-c", f"echo changed >{here}; cat {here}; hostname"])
        self.assertEqual(done.stdout, "changed\nguest0\n")
        self.assertEqual(here.read_bytes(), before)

    def test_commands_run_side_by_side(self):
        machine = self.machine()
        waiting = machine.start(["sh", "-c", "while ! [ -e /tmp/beside ]; do sleep 0.1; done; echo seen"])
        self.run_there(["touch", "/tmp/beside"])
        self.assertEqual(self.check(waiting).stdout, "seen\n")

    def test_a_command_that_takes_too_long_is_stopped(self):
        with self.assertRaises(subprocess.TimeoutExpired) as late:
            self.machine().run(["sh", "-c", "echo before; sleep 1000"], limit_s=2)
        self.assertEqual(late.exception.stdout, "before\n")
        self.run_there(["true"])

    def test_it_has_an_rdma_device(self):
        shown = self.run_there(["ibv_devinfo"]).stdout
        self.assertRegex(shown, r"hca_id:\s+rxe0")
        self.assertRegex(shown, r"state:\s+PORT_ACTIVE")

    def test_two_processes_exchange_verified_messages_over_it(self):
        self.ping_pong(self.machine(), self.machine())


class TestTwoGuests(GuestTest):
    @classmethod
    def setUpClass(cls):
        cls.first, cls.second = cls.enterClassContext(guest.boot(2))

    def received(self):
        """Bytes on the first one's link. RDMA goes over the network device here, not past it."""
        counter = self.first.start(["cat", "/sys/class/net/net0/statistics/rx_bytes"])
        return int(self.check(counter).stdout)

    def test_they_exchange_verified_messages_over_their_link(self):
        before = self.received()
        self.ping_pong(self.first, self.second)
        self.assertGreater(self.received() - before, 200 * 4096)

    def test_dpu_bench_moves_data_between_them(self):
        """Two hosts on one, the worker on the other: all that it reads and writes crosses the link."""
        if "openmpi" not in MPIS:
            self.skipTest("no Open MPI")
        words = [BUILD / "bin/longshore-dpu-bench-openmpi", "--workers", "1", "--mover", "verbs", "--nodes", "1",
                 "--patterns", "gather", "--assignments", "cyclic", "--sizes", "1M", "--iterations", "2", "--warmup",
                 "1", "--runs", "1"]
        before = self.received()
        done = self.check(self.first.start(guest.mpirun([self.first, self.second], words, [2, 1]), LIMIT_S))
        self.assertIn("3 on 2 nodes", done.stdout)
        self.assertRegex(done.stdout, "# gather, cyclic: (.|\n)*\n +1M +2 ")
        self.assertGreater(self.received() - before, 4 << 20)  # a block to the root: verified, warm-up, twice

    def test_device_reads_and_writes_the_others_memory_by_the_card(self):
        if not (BUILD / "lib/longshore-ucx.so").exists():
            self.skipTest("no UCX")
        program, results = BUILD / "bin/longshore-device", self.second.results / "device.json"
        far = self.first.start([program, "--listen", "7000"], LIMIT_S, environment=JOB_BY_RC)
        self.wait_until_it_listens(self.first, 7000)
        near = self.check(self.second.start([program, "--to", f"{self.first.address}:7000", "--only", "register,ucx", "--quick", "--json", results],
                                            LIMIT_S, environment=JOB_BY_RC))
        self.check(far)
        self.assertIn(", a card reads and writes\n", near.stdout)
        data = json.loads(results.read_text(encoding="utf-8"))
        self.assertEqual(data["left_out"], [])
        self.assertEqual({row["test"] for row in data["rows"]},
                         {"register memory", "deregister memory", "ucx message", "ucx read time", "ucx read", "ucx write", "ucx both", "ucx messages"})

    def test_an_mpi_job(self):
        """Two ranks on each; Open MPI itself uses TCP."""
        if not JOB.exists() or not (BUILD / "lib/longshore-ucx.so").exists():
            self.skipTest("no Open MPI, or no UCX")
        words = guest.mpirun([self.first, self.second], ["env", f"LD_PRELOAD={BUILD}/lib/liblongshore.so",
                             *(f"{name}={value}" for name, value in JOB_BY_RC.items()), JOB, "65536"], [2, 2])
        self.check_job(self.first, words, {})


class TestVerbsMover(GuestTest):
    def test_its_own_tests(self):
        """Among them: it reads and writes the memory of a process that is stopped."""
        program = BUILD / "bin/dpu_bench_verbs_mover_test"
        if not program.exists():
            self.skipTest("it is not built: no GoogleTest")
        self.assertNotIn("SKIPPED", self.run_there([program]).stdout)

    def run_dpu_bench(self, mpi, *words):
        """The rows; the command verifies every byte."""
        results = self.machine().results / f"{mpi}.jsonl"
        done = self.run_there([BUILD / "bin/longshore", "dpu-bench", "--mpi", mpi, "--mover", "verbs", "--nodes", 1,
                               "--assignments", "cyclic", "--sizes", 70000, "--iterations", 2, "--warmup", 1,
                               "--runs", 1, "--json", results, *words], environment=MPI_WITHOUT_DEVICE)
        self.assertIn(f"# mover   verbs, {guest.DEVICE} port 1, ::ffff:{self.machine().address}\n", done.stdout)
        rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if row["type"] == "row"]

    def test_dpu_bench_moves_every_pattern_by_it(self):
        rows = self.run_dpu_bench("openmpi", "--hosts", 3, "--workers", 2)
        self.assertEqual([row["pattern"] for row in rows], ["bcast", "gather", "allgather-leader", "allgather-multi"])
        self.assertEqual({row["mover"] for row in rows}, {"verbs"})

    def test_dpu_bench_on_mpich_and_on_a_device_by_name(self):
        if "mpich" not in MPIS:
            self.skipTest("no MPICH")
        rows = self.run_dpu_bench("mpich", "--hosts", 2, "--workers", 1, "--patterns", "gather", "--device",
                                  f"{guest.DEVICE}:1")
        self.assertEqual([(row["pattern"], row["mover"]) for row in rows], [("gather", "verbs")])

    def test_dpu_bench_refuses_a_device_that_is_not_there(self):
        done = self.run_there([BUILD / "bin/longshore", "dpu-bench", "--mpi", MPIS[0], "--quick", "--hosts", 2,
                               "--workers", 1, "--mover", "verbs", "--device", "mlx5_7"], status=125,
                              environment=MPI_WITHOUT_DEVICE)
        self.assertEqual(done.stderr.count(f"there is no RDMA device mlx5_7 here, but {guest.DEVICE}"), 1, done.stderr)


class TestFabric(GuestTest):
    """The fabric between machines, with UCX on the device."""

    def run_fabric(self, name, *words):
        program = BUILD / f"bin/ucx_{name}_test_system"
        if not program.exists():
            self.skipTest(f"{program.name} is not built: no UCX, or no GoogleTest")
        before = self.counters(self.machine())
        environment = BY_RC | {"UCX_LOG_LEVEL": "info", "LONGSHORE_INTERNAL_TEST_SLOWNESS": SLOWNESS}
        shown = self.run_there([program, *words], 2 * LIMIT_S, environment=environment).stdout
        connections = re.findall(r"ep_cfg\[\d+\]: (.*)", shown)
        self.assertTrue(connections, shown)
        for connection in connections:
            self.assertIn(f"am(rc_verbs/{guest.DEVICE}:1)", connection)
        sent, sends = self.packets(self.machine(), before)
        # Acknowledgements, and messages of several packets: datagrams, by which it connects, have neither.
        self.assertGreater(sent, 1.2 * sends)
        self.assertNotIn("SKIPPED", shown)
        return int(re.search(r"\[  PASSED  \] (\d+) test", shown)[1])

    def test_contracts_of_a_fabric(self):
        """Those that concern other nodes, and waiting."""
        cases = ("Message*/ucx", "ReadFromAnotherNode/ucx", "ReadFromAnotherNode/ucx_staging", "PollWaits*/ucx",
                 "LostPeer*/ucx")
        words = "--gtest_filter=" + ":".join(f"*.{case}" for case in cases)
        self.assertEqual(self.run_fabric("conformance", words), len(cases))

    def test_credits_and_successors(self):
        self.assertGreaterEqual(self.run_fabric("fabric"), 3)

    def test_an_mpi_job_of_two_nodes(self):
        """Emulated ones: their service processes talk by UCX alone."""
        if not JOB.exists() or not (BUILD / "lib/longshore-ucx.so").exists():
            self.skipTest("no Open MPI, or no UCX")
        words = [BUILD / "bin/longshore", "run", *MPIRUN, "-np", "4", JOB, "65536"]
        settings = JOB_BY_RC | {"LONGSHORE_NODES_COUNT": "2", "LONGSHORE_INTERNAL_NETWORK_ALWAYS": "1"}
        self.check_job(self.machine(), words, settings)

    def test_a_killed_service_process_of_a_job_that_chose_ucx_comes_back(self):
        """The node's TCP port is closed by then: its successor has none, and needs none. In the emulated guest the
        service processes still connect three seconds after they have begun: the other one closes an endpoint
        that has not connected, where UCX 1.13 would end the process."""
        if not STRESS.exists() or not (BUILD / "lib/longshore-ucx.so").exists():
            self.skipTest("no Open MPI, or no UCX")
        script = ('"$@" & job=$!; while kill -0 $job && [ "$(pgrep -fc "longshored[:] sp")" != 2 ]; do sleep 0.2; done; sleep 3; '
                  'kill -KILL $(pgrep -fo "longshored[:] sp"); wait $job')
        settings = JOB_BY_RC | {"LONGSHORE_NODES_COUNT": "2", "LONGSHORE_INTERNAL_NETWORK_ALWAYS": "1"}
        words = [BUILD / "bin/longshore", "run", *MPIRUN, "-np", "4", STRESS, "1", STRESS_STEPS]
        words = ["env", *(f"{name}={value}" for name, value in settings.items()), *words]
        done = self.run_there(["sh", "-c", script, "sh", *words])
        self.assertIn("stress: ok", done.stdout)
        self.assertIn("started again", done.stderr)


class TestEnd(unittest.TestCase):
    def test_a_guest_that_ends_is_told_of_with_its_console(self):
        with guest.boot() as (machine,):
            folder, pid = machine.folder, machine.process.pid
            crash = machine.start(["sh", "-c", "echo c >/proc/sysrq-trigger"])
            with self.assertRaisesRegex(guest.GuestError, "has ended(.|\n)*sysrq"):
                crash.wait()
        self.assertFalse(folder.exists())
        self.assertFalse(Path(f"/proc/{pid}").exists())

    def test_it_ends_with_a_program_that_is_killed(self):
        script = ("import guest, time\n"
                  "machine = guest.Guest()\n"
                  "print(machine.process.pid, machine.folder, flush=True)\n"
                  "time.sleep(60)")
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                              cwd=Path(__file__).resolve().parent) as program:
            pid, folder = program.stdout.readline().split()
            program.kill()
        end = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(Path(f"/proc/{pid}").exists())
        subprocess.run(["rm", "-r", folder], check=True)

    def test_a_boot_that_fails_is_tried_once_more(self):
        class Dead(guest.Guest):
            made = 0

            def _words(self, *arguments):
                Dead.made += 1
                return ["sh", "-c", "echo no such emulator >&2; exit 1"]

        alive, guest.Guest = guest.Guest, Dead
        self.addCleanup(setattr, guest, "Guest", alive)
        with self.assertRaisesRegex(guest.GuestError, "no such emulator"):
            with guest.boot():
                pass
        self.assertEqual(Dead.made, 2)
