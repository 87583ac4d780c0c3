"""What the tests in the guest share: the guest itself, checks of a command in it and of what its device has sent."""

import atexit
import contextlib
import json
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import guest  # noqa: E402

BUILD = guest.BUILD
LIMIT_S = 120  # what runs in two seconds here takes twenty there, and longer on a machine with other things to do
# UCX by reliable connections on the device and by nothing else. UCX 1.13 connects by the device's IPv6 address, not by
# its IPv4 one, and reads IB_GID_INDEX without the prefix LONGSHORE_ only.
BY_RC = {"UCX_TLS": "rc", "UCX_NET_DEVICES": f"{guest.DEVICE}:1", "UCX_IB_GID_INDEX": "0"}
JOB_BY_RC = {"LONGSHORE_UCX_TLS": BY_RC["UCX_TLS"], "LONGSHORE_UCX_NET_DEVICES": BY_RC["UCX_NET_DEVICES"],
             "UCX_IB_GID_INDEX": BY_RC["UCX_IB_GID_INDEX"], "LONGSHORE_LIMIT_S": "60"} | {
    f"LONGSHORE_{name}_ALGORITHM": "direct" for name in ("ALLTOALL", "ALLTOALLV", "ALLGATHER", "ALLGATHERV", "BCAST")}
PATH_MTU = 4096
MIB = 1 << 20
PING_PONG = ["ibv_rc_pingpong", "--ib-dev", guest.DEVICE, "--gid-idx", "1", "--events", "--chk", "--iters", "200"]
PING_PONG_PORT = 18515


class GuestTest(unittest.TestCase):
    """A test whose commands run in the guest that all of them share."""

    shared = None
    to_close = contextlib.ExitStack()

    @classmethod
    def machine(cls):
        """The guest: as booted by the first test that asks; by the next one, if it has ended since."""
        if GuestTest.shared is None or GuestTest.shared.process.poll() is not None:
            GuestTest.to_close.close()
            (GuestTest.shared,) = GuestTest.to_close.enter_context(guest.boot())
        return GuestTest.shared

    def run_there(self, words, limit_s=LIMIT_S, status=0, **how):
        """The finished command, which must have exited with `status`."""
        return self.check(self.machine().start(words, limit_s, **how), status)

    def wait_until_it_listens(self, machine, port):
        self.check(machine.start(["sh", "-c", f"until ss -Hltn sport = :{port} | grep -q .; do sleep 0.1; done"]))

    def ping_pong(self, first, second):
        """200 messages to and fro, the data verified."""
        server = first.start(PING_PONG, LIMIT_S)
        self.wait_until_it_listens(first, PING_PONG_PORT)
        for running in (second.start([*PING_PONG, first.address], LIMIT_S), server):
            self.assertIn("200 iters", self.check(running).stdout)

    def counters(self, machine):
        """The device's own, by name."""
        folder = f"/sys/class/infiniband/{guest.DEVICE}/ports/1/hw_counters"
        shown = self.check(machine.start(["grep", "-r", "", folder])).stdout
        return {path.rsplit("/", 1)[1]: int(count) for path, count in (line.split(":") for line in shown.split())}

    def packets(self, machine, before):
        """(packets that the device has sent since, sends among what it was asked for)"""
        after = self.counters(machine)
        return after["sent_pkts"] - before["sent_pkts"], after["rdma_sends"] - before["rdma_sends"]

    def check_job(self, machine, words, settings):
        """Starts it: every byte is right, every call carried, and what crossed between its two nodes did so by RDMA."""
        stats, before = machine.results / "stats.json", self.counters(machine)
        stats.unlink(missing_ok=True)
        words = ["env", *(f"{name}={value}" for name, value in settings.items()), f"LONGSHORE_STATS={stats}", *words]
        self.assertIn("collectives: ok", self.check(machine.start(words, LIMIT_S)).stdout)
        sent, sends = self.packets(machine, before)
        told = json.loads(stats.read_text(encoding="utf-8"))
        self.assertEqual((told["ranks"], told["nodes"]), (4, 2))
        for name, counts in told["collectives"].items():
            self.assertEqual((counts["offloaded"], counts["host"]), (counts["calls"], 0), name)
        crossed = {service["node"]: service["bytes_between_nodes"] for service in told["services"]}
        self.assertEqual(sorted(crossed), [0, 1])
        self.assertGreater(min(crossed.values()), MIB // 2)
        self.assertGreater(sent * PATH_MTU, crossed[0] if machine.link else sum(crossed.values()))
        self.assertGreater(sent, 1.2 * sends)  # see TestFabric

    def check(self, running, status=0):
        done = running.wait()
        self.assertEqual(done.returncode, status, f"{done.args}\n{done.stdout}\n{done.stderr}")
        return done


atexit.register(GuestTest.to_close.close)
