#!/usr/bin/env python3
"""Several machines on one: nodes that share nothing but a network.

Each node has its own network, host name, processes, /dev/shm and shared memory segments; files are common, as on a
cluster. The nodes hang on a switch, which is in a namespace, too: nothing of the machine's own network is touched, and
all is gone when the program ends, however it ends. Links can be held to a rate and a delay. mpirun runs on a head node,
which has no ranks, and reaches the others by an agent as it would by ssh.

    cluster.py --nodes 2 --ranks-per-node 2 -- PROGRAM ARGUMENTS
    cluster.py --nodes 2 --rate 1gbit --count -- PROGRAM ARGUMENTS
    cluster.py --nodes 2 --shell                     a shell on node0
    cluster.py --nodes 2 --dpus -- PROGRAM ARGUMENTS
    cluster.py --nodes 2 --spare-core --rate 1gbit --offloads -- PROGRAM ARGUMENTS

With --spare-core each node has a core, or as many as it says, that no rank may use: service processes find it, and what comes
from the network is received there, with and without Longshore. Where there are too few cores for that, all nodes share them
in the same way: on two cores the ranks of two nodes are on the first and their service processes on the second, so that each
is a machine at half speed with a core to spare. With --dpus those cores are the DPU's.

With --dpus each node has a second machine, dpu0, dpu1, ..., on the same switch, in which `longshored listen` runs; the ranks
are told of it (LONGSHORE_DPU). A node and its DPU share no more than two nodes do.

Needs root (or CAP_SYS_ADMIN and CAP_NET_ADMIN), iproute2 and util-linux.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def cpusets():
    """The folder in which groups of cores are made: of control groups of version 2 where this is their root, else of version 1."""
    root = Path("/sys/fs/cgroup")
    try:
        if "cpuset" in (root / "cgroup.controllers").read_text(encoding="ascii").split() and not (root / "cgroup.type").exists():
            return root
    except OSError:
        pass
    return root / "cpuset"


CPUSETS = cpusets()
PORT = 7521  # of the service on a DPU
BUSY_S = 60  # within which what is to happen does, on a machine that is busy with other things
PREFIX = "10.77.0"  # of addresses that nobody outside the namespaces sees
OFFLOADS = ["tx", "rx", "sg", "tso", "gso", "gro"]  # packets of a wire's size: what is counted is what crosses
BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
# What the service of a DPU is told. Its jobs run as users of their own where these may use the build folder.
DPU_CONFIG = f"allow = {PREFIX}.0/24\n" + \
    ("job_users = 70000-70999\n" if all(path.exists() and path.stat().st_mode & 0o001 for path in (BUILD, *BUILD.parents)) else "")
# A larger one lets whole messages pass at no rate at all; a smaller one than two packets halves the rate.
BURST, BURST_OF_LARGE_PACKETS = "64kb", "128kb"
DELAY_LINE = BUILD / "tests/cluster/delay_line"  # where the kernel has no netem


def missing():
    """What keeps a cluster from being made here; empty: nothing."""
    for tool in ("ip", "tc", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is missing (Debian: iproute2, util-linux)"
    # Root in a container may lack the capability all the same.
    tried = subprocess.run(["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "true"],
                           capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"namespaces cannot be made: {tried.stderr.strip()}"


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def microseconds(delay):
    """Of a delay as tc has it: 200us, 1ms."""
    for unit, factor in (("us", 1), ("ms", 1e3), ("s", 1e6)):
        if delay.endswith(unit):
            return float(delay.removesuffix(unit)) * factor
    raise RuntimeError(f"'{delay}' is no delay; as 200us or 1ms")


def end_with_parent():
    """In a child: killed when its parent ends, by whatever."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def remove_group(group):
    """Once the last of its processes, which have been killed, are gone."""
    for _ in range(20 * BUSY_S):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.05)
    return None


def cores_of(node, nodes, cores):
    """Those of one of so many nodes: an equal share, or with more nodes than cores one that neighbours have, too."""
    share = len(cores) // nodes
    return cores[node * share:(node + 1) * share] if share else [cores[node * len(cores) // nodes]]


class Placement:
    """Where the ranks of each of so many nodes run, and which cores no rank uses; `spare`: how many those are.

    ranks, services: lists of cores, by node. sharers: how many nodes have the same cores; each is a machine at 1/sharers of
    their speed, if all of them compute.
    """

    def __init__(self, nodes, cores, spare):
        share = len(cores) // nodes
        self.sharers = 1 if share > spare else nodes
        if len(cores) <= spare:
            raise RuntimeError(f"{spare} of {len(cores)} cores to spare leave none for ranks")
        parts = [cores[i * share:(i + 1) * share] for i in range(nodes)] if self.sharers == 1 else [cores] * nodes
        self.ranks, self.services = [part[:-spare] for part in parts], [part[-spare:] for part in parts]

    def __str__(self):
        speed = f"at 1/{self.sharers} speed" if self.sharers > 1 else "at full speed"
        ranks, spare = len(self.ranks[0]), len(self.services[0])
        return f"machines {speed}, each with {ranks} core{'s' * (ranks > 1)} for ranks and {spare if spare > 1 else 'a'} " \
               f"core{'s' * (spare > 1)} to spare"


class Machine:
    """A set of namespaces, held by a process that sleeps in them and dies with this one."""

    def __init__(self, name, folder, address=None):
        self.name, self.address, self.cores = name, address, []
        # The shell is the first process of its namespace: when it is killed, the kernel kills the others.
        script = "\n".join([
            "set -e",
            f"hostname {name}",
            "mount --make-rprivate /",
            "mount -t proc proc /proc",
            "mount -t sysfs sysfs /sys",  # its network devices, for libraries that look there
            "mount -t tmpfs tmpfs /dev/shm",
            f"mount --bind {folder}/hosts /etc/hosts",
            "ip link set lo up",
            # Not the machine's own: one that paces by what it measures (BBR) leaves a link that tbf holds half idle.
            "echo reno >/proc/sys/net/ipv4/tcp_congestion_control || true",
            "echo ready",
            "exec sleep infinity",
        ])
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=end_with_parent)
        with self.holder.stdout as said:  # ends where a command fails, so that this does not wait for ever
            if said.readline() != "ready\n":
                self.close()
                raise RuntimeError(f"{name} did not start")
        self.pid = int(Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()[0])

    def enter(self):
        """The words before a command that is to run there."""
        return [*self.cores, "nsenter", "--target", str(self.pid), "--net", "--uts", "--ipc", "--mount", "--pid", "--"]

    def enter_network(self):
        """The words before a command that has its network and name, and sees the other machines' processes."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--"]

    def run(self, *words):
        return run(*self.enter(), *words)

    def processes(self):
        """Numbers of all that run there, as they are outside; not the first one, which holds the machine, nor those that have
        ended and wait for somebody to ask how (nobody does: that first one only sleeps)."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if int(folder.name) == self.pid or not (folder / "ns/pid").samefile(f"/proc/{self.pid}/ns/pid"):
                    continue
                if (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z":
                    found.append(int(folder.name))
            except OSError:
                continue  # gone meanwhile
        return found

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Listener:
    """`longshored listen` in a machine of its own. It ends with that machine, jobs and all."""

    def __init__(self, machine, folder, config=""):
        self.machine, self.log_path, self.config_path = machine, folder / f"{machine.name}.log", folder / f"{machine.name}.conf"
        self.write_config(config)
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([*machine.enter(), str(BUILD / "bin/longshored"), "listen", "--config",
                                             str(self.config_path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + BUSY_S
        while "listening at" not in self.log():
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                raise RuntimeError(f"longshored does not listen in {machine.name}: {self.log().strip()}")
            time.sleep(0.02)

    @property
    def address(self):
        return f"{self.machine.name}:{PORT}"

    @property
    def pid(self):
        """Of longshored, as it is outside: what was started is what has entered the machine for it."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def write_config(self, config):
        """Of lines as longshored.conf has them; read at the start, and at SIGHUP."""
        self.config_path.write_text(f"address = {self.machine.address}\nport = {PORT}\n{config}\n")

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def close(self):
        try:
            os.kill(self.pid, signal.SIGKILL)  # what was started waits for it
        except (OSError, IndexError):
            self.process.kill()  # it has ended, or has not begun
        self.process.wait()


class Cluster:
    """Nodes node0, node1, ... with a link each to one switch. Use it in a with statement.

    rate: of each link in each direction, as tc says it ("1gbit"); delay: of what a node sends, as tc says it ("100us").
    None: as they come. Where the kernel has no netem, delays are made by a program that takes time of a core (delay_line.c):
    compare with a delay of "0us" then.
    offloads: packets of up to 64 KB, which cost little time of a core; without them, of a wire's size, so that what is
    counted is what crosses: then two cores are busy with packets at 1 Gb/s in both directions. own_cores: no core is two
    nodes', as on machines; with more nodes than cores nodes share one each, and none sees another; needs cgroup cpusets.
    spare_cores: so many cores of each node are for no rank, but for its service processes, or its DPU (see Placement); not
    together with own_cores. dpus: each node has one, `dpus` in their order, with a service that `dpu_config` configures.
    """

    def __init__(self, nodes, rate=None, delay=None, offloads=False, own_cores=False, dpus=False, dpu_config=DPU_CONFIG,
                 spare_cores=0):
        self.placement = Placement(nodes, sorted(os.sched_getaffinity(0)), spare_cores) if spare_cores else None
        self.folder = Path(tempfile.mkdtemp(prefix="longshore-test-cluster-"))
        self.machines, self.nodes, self.dpus, self.groups, self.offloads, self.lines = [], [], [], [], offloads, []
        try:
            names = [f"node{i}" for i in range(nodes)] + ["head"] + [f"dpu{i}" for i in range(nodes if dpus else 0)]
            addresses = {name: f"{PREFIX}.{i + 1}" for i, name in enumerate(names)}
            (self.folder / "hosts").write_text(
                "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items()))
            self.switch = self._add("switch")
            self.has_netem = subprocess.run([*self.switch.enter(), "tc", "qdisc", "add", "dev", "lo", "root", "netem"],
                                            capture_output=True, check=False).returncode == 0
            self.switch.run("ip", "link", "add", "bridge", "type", "bridge")
            self.switch.run("ip", "link", "set", "bridge", "up")
            for name in names:
                machine = self._add(name, addresses[name])
                # mpirun's own talk is not what is held back.
                self._plug(machine, *((None, None) if name == "head" else (rate, delay)))
            self.nodes, self.head = self.machines[1:nodes + 1], self.machines[nodes + 1]
            if own_cores:
                self._share_cores()
            elif self.placement:
                self._spare_cores(self.machines[nodes + 2:])
            for machine in self.machines[nodes + 2:]:
                self.dpus.append(Listener(machine, self.folder, dpu_config))
            self.settings = {"LONGSHORE_DPU": self._write_map()} if dpus else {}
            self._write_agent()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _add(self, name, address=None):
        self.machines.append(Machine(name, self.folder, address))
        return self.machines[-1]

    def _plug(self, node, rate, delay):
        port = f"port-{node.name}"
        if delay and not self.has_netem:
            self._lay_delay_line(node, port, delay)
            delay = None
        else:
            run(*self.switch.enter_network(), "ip", "link", "add", port, "type", "veth", "peer", "name", "net0", "netns",
                str(node.pid))
        self.switch.run("ip", "link", "set", port, "master", "bridge", "up")
        node.run("ip", "address", "add", f"{node.address}/24", "dev", "net0")
        node.run("ip", "link", "set", "net0", "up")
        for machine, device in ((self.switch, port), (node, "net0")):
            if not self.offloads and shutil.which("ethtool"):
                machine.run("ethtool", "-K", device, *[word for name in OFFLOADS for word in (name, "off")])
            if rate:
                machine.run("tc", "qdisc", "add", "dev", device, *self._holding(rate))
        if delay:
            parent = ["parent", "1:1"] if rate else ["root"]
            node.run("tc", "qdisc", "add", "dev", "net0", *parent, "netem", "delay", delay)

    def _lay_delay_line(self, node, port, delay):
        if not DELAY_LINE.exists():
            raise RuntimeError(f"delays need netem, which this kernel has not, or {DELAY_LINE}, which is not built")
        near = f"line-{node.name}"
        self.lines.append(subprocess.Popen([*self.switch.enter_network(), str(DELAY_LINE), near, port, str(microseconds(delay))],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=end_with_parent))
        if self.lines[-1].stdout.readline() != b"ready\n":
            raise RuntimeError(f"{DELAY_LINE} does not start")
        run(*self.switch.enter_network(), "ip", "link", "set", port, "txqueuelen", "10000")
        run(*self.switch.enter_network(), "ip", "link", "set", near, "txqueuelen", "10000", "netns", str(node.pid), "name", "net0")

    def _share_cores(self):
        cores = sorted(os.sched_getaffinity(0))
        for i, node in enumerate(self.nodes):
            mine = cores_of(i, len(self.nodes), cores)
            node.cores = self._confine(node, mine)
            self._receive_on(node, mine)

    def _spare_cores(self, dpus):
        """Ranks are bound to their cores, as a user binds them; their node has the others, too."""
        plan = self.placement
        for i, node in enumerate(self.nodes):
            mine = plan.ranks[i] if dpus else plan.ranks[i] + plan.services[i]
            bound = ["taskset", "-c", ",".join(map(str, plan.ranks[i]))]
            # Without control groups all cores are everybody's, which is the same where the nodes share them.
            needs_group = plan.sharers == 1 or dpus or CPUSETS.is_dir()
            node.cores = [*(self._confine(node, mine) if needs_group else []), *bound]
            self._receive_on(dpus[i] if dpus else node, plan.services[i])
        for machine, cores in zip(dpus, plan.services):
            machine.cores = self._confine(machine, cores)

    def _confine(self, machine, cores):
        """The words before what is to have these cores only, by a cpuset: an affinity does not bind service processes, which look
        for spare cores beyond what their ranks are bound to."""
        if not CPUSETS.is_dir():
            raise RuntimeError("nodes cannot have cores of their own: there are no control groups of cores here (cpuset)")
        of_version_2 = (CPUSETS / "cgroup.subtree_control").exists()
        if of_version_2:
            (CPUSETS / "cgroup.subtree_control").write_text("+cpuset")
        group = CPUSETS / f"{self.folder.name}-{machine.name}"
        group.mkdir()
        self.groups.append(group)
        if not of_version_2:  # which has those of the group above
            (group / "cpuset.mems").write_text((CPUSETS / "cpuset.mems").read_text())
        (group / "cpuset.cpus").write_text(",".join(map(str, cores)))
        enter = self.folder / f"enter-{machine.name}"
        enter.write_text(f'#!/bin/sh\necho $$ >{group}/cgroup.procs && exec "$@"\n')
        enter.chmod(0o755)
        return [str(enter)]

    @staticmethod
    def _receive_on(machine, cores):
        """What comes in is received by these cores, in order. Left alone it is received by whichever core has sent it, and
        packets of one stream that two cores have sent overtake each other, which no wire lets them: TCP takes that for a
        loss, and calls of 1 MiB at 1 Gb/s took 1.4 times as long in every other launch."""
        mask = f"{sum(1 << core for core in cores):x}"
        commas = ",".join(mask[max(0, i - 8):i] for i in reversed(range(len(mask), 0, -8)))
        machine.run("sh", "-c", f"echo {commas} >/sys/class/net/net0/queues/rx-0/rps_cpus || true")

    def set_rate(self, rate):
        """Holds all links to another rate; they were held to one from the start."""
        for node in self.nodes:
            for machine, device in ((self.switch, f"port-{node.name}"), (node, "net0")):
                machine.run("tc", "qdisc", "change", "dev", device, *self._holding(rate))

    def _holding(self, rate):
        """The words that hold a link to a rate, after tc qdisc add or change dev DEVICE."""
        return ["root", "handle", "1:", "tbf", "rate", rate, "burst", BURST_OF_LARGE_PACKETS if self.offloads else BURST,
                "latency", "200ms"]

    def _write_map(self):
        """Which DPU serves which node, as a setting."""
        path = self.folder / "dpus"
        path.write_text("# host dpu\n" + "".join(f"{node.name} {dpu.address}\n" for node, dpu in zip(self.nodes, self.dpus)))
        return f"@{path}"

    def _write_agent(self):
        """What mpirun starts instead of ssh: AGENT [OPTIONS] HOST COMMAND."""
        machines = [*self.nodes, *(dpu.machine for dpu in self.dpus)]
        cases = "".join(f"    {machine.name}) exec {' '.join(machine.enter())} sh -c \"$*\";;\n" for machine in machines)
        self.agent = self.folder / "agent"
        self.agent.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
                              'host=$1\nshift\ncase $host in\n' + cases +
                              '    *) echo "no such node: $host" >&2; exit 255;;\nesac\n')
        self.agent.chmod(0o755)

    def mpirun(self, words, per_node, strided=False, mpi="openmpi", on_dpus=False):
        """The words that start `words` under that MPI's mpirun, per_node ranks on each node, or a list of how many; on_dpus: on
        each DPU, too, after the nodes."""
        machines = [*self.nodes, *(dpu.machine for dpu in self.dpus if on_dpus)]
        counts = [per_node] * len(machines) if isinstance(per_node, int) else per_node
        count = str(sum(counts))
        if mpi == "mpich":
            # Its mpirun goes round the nodes as they are listed.
            hosts = self.folder / "hosts-mpich"
            lines = [f"{machine.name}:{1 if strided else ranks}" for machine, ranks in zip(machines, counts)]
            hosts.write_text("\n".join(lines) + "\n")
            return [*self._mpirun("mpich"), "-f", str(hosts), "-np", count, *words]
        slots = list(zip(machines, counts))
        return [*self._mpirun("openmpi", slots), "--map-by", "node" if strided else "slot", "-np", count, *words]

    def mpirun_of(self, ranks, mpi="openmpi"):
        """The words that start one job of `ranks`: of each (its machine, its words), where nodes are numbered from 0, and DPUs
        after them."""
        machines = [*self.nodes, *(dpu.machine for dpu in self.dpus)]
        counts = [sum(machine == i for machine, _ in ranks) for i in range(len(machines))]
        words = self._mpirun(mpi, [(machine, count) for machine, count in zip(machines, counts) if count])
        for i, (machine, program) in enumerate(ranks):
            name = machines[machine].name + (f":{counts[machine]}" if mpi == "openmpi" else "")
            words += [*([":"] if i else []), "-np", "1", "-host", name, *program]
        return words

    def _mpirun(self, mpi, slots=()):
        """Its words before those of any program; `slots`: (machine, how many), for Open MPI."""
        start = [*self.head.enter_network(), f"mpirun.{mpi}"]
        if mpi == "mpich":
            return [*start, "-launcher", "ssh", "-launcher-exec", str(self.agent), "-iface", "net0"]
        hosts = self.folder / "hosts-openmpi"
        hosts.write_text("".join(f"{machine.name} slots={count}\n" for machine, count in slots))
        return [*start, "--allow-run-as-root", "--hostfile", str(hosts), "--mca", "plm_rsh_agent", str(self.agent),
                "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl_tcp_if_include", "net0",
                "--mca", "oob_tcp_if_include", "net0", "--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"]

    def link_bytes(self):
        """{node: (sent, received)} of the nodes' links since they were made, headers and all."""
        counts = {}
        for node in self.nodes:
            stats = json.loads(node.run("ip", "-s", "-j", "link", "show", "net0"))[0]["stats64"]
            counts[node.name] = (stats["tx"]["bytes"], stats["rx"]["bytes"])
        return counts

    def link_payload(self):
        """{node: bytes} that it has received by its link, without the headers of TCP over IPv4 and its bare acknowledgements."""
        payload = {}
        for node in self.nodes:
            received = json.loads(node.run("ip", "-s", "-j", "link", "show", "net0"))[0]["stats64"]["rx"]
            payload[node.name] = received["bytes"] - 66 * received["packets"]
        return payload

    def close(self):
        for dpu in self.dpus:
            dpu.close()
        for line in self.lines:
            line.kill()
            line.wait()
            line.stdout.close()
        for machine in reversed(self.machines):
            machine.close()
        for group in self.groups:
            remove_group(group)
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2, help="how many (default: 2)")
    parser.add_argument("--ranks-per-node", type=int, default=2, metavar="N", help="ranks on each (default: 2)")
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi", help="default: openmpi")
    parser.add_argument("--strided", action="store_true", help="consecutive ranks on different nodes")
    parser.add_argument("--rate", help="of each link, as tc has it: 1gbit")
    parser.add_argument("--delay", help="of each link, as tc has it: 100us")
    parser.add_argument("--offloads", action="store_true", help="large packets: for times, not for counts of bytes")
    parser.add_argument("--own-cores", action="store_true", help="no core is two nodes'; with more nodes than cores: one for each")
    parser.add_argument("--spare-core", type=int, nargs="?", const=1, default=0, metavar="N",
                        help="a core of each node, or N, for service processes and for no rank; see above")
    parser.add_argument("--dpus", action="store_true", help="a DPU for each node")
    parser.add_argument("--count", action="store_true", help="afterwards: bytes on each link")
    parser.add_argument("--shell", action="store_true", help="a shell on node0 instead of mpirun")
    parser.add_argument("command", nargs="*", help="what the ranks run")
    options = parser.parse_args()
    if not options.shell and not options.command:
        parser.error("nothing to run: give a program, or --shell")
    if options.spare_core < 0 or options.spare_core and options.own_cores:
        parser.error("--spare-core: a number of cores, and not together with --own-cores")
    if problem := missing():
        sys.exit(f"cluster: {problem}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        run_in_cluster(options)
    except RuntimeError as error:
        sys.exit(f"cluster: {error}")


def run_in_cluster(options):
    with Cluster(options.nodes, options.rate, options.delay, options.offloads, options.own_cores, options.dpus,
                 spare_cores=options.spare_core) as cluster:
        if cluster.placement:
            print(f"cluster: {cluster.placement}", file=sys.stderr)
        # By env: no mpirun hands on what it was not told to.
        set_all = ["env", *(f"{name}={value}" for name, value in cluster.settings.items())] if cluster.settings else []
        words = [*cluster.nodes[0].enter(), *set_all, os.environ.get("SHELL", "sh")] if options.shell else \
            cluster.mpirun([*set_all, *options.command], options.ranks_per_node, options.strided, options.mpi)
        before = cluster.link_bytes()
        status = subprocess.run(words, check=False).returncode
        if options.count:
            for name, (sent, received) in cluster.link_bytes().items():
                print(f"{name}: sent {sent - before[name][0]}, received {received - before[name][1]} bytes")
    sys.exit(status)


if __name__ == "__main__":
    main()
