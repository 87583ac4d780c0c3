#!/usr/bin/env python3
"""Long jobs in which something breaks again and again: what they take at the end is what they took after a minute.

    soak.py kills --minutes 30 --every 10       4 ranks on 2 emulated nodes: random operations, every byte checked, a service
                                                process killed every so many seconds
    soak.py links --minutes 10 --every 30       2 machines (namespaces): a link is down for --down seconds every so often, and the
                                                job goes on; then it is cut for good, and the job ends in an error in time
    soak.py --report FILE                       what was written by --json, as a table

Exit code 1, with the reason, for a wrong byte, a hang, or growth of memory, descriptors, mappings or latency.
LONGSHORE_INTERNAL_TEST_BUILD: the build folder.
"""

import argparse
import ctypes
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from collectives import DIRECT  # noqa: E402

BUILD = Path(os.environ.get("LONGSHORE_INTERNAL_TEST_BUILD", "build")).resolve()
TESTS = Path(__file__).resolve().parent.parent
SAMPLE_S = 5
# Of the first minutes after the first, and of as many at the end: no more than that times as much, and so much.
ALLOWED = {"private_kib": (1.15, 8192), "shared_kib": (1.25, 65536), "descriptors": (1.0, 8), "mappings": (1.1, 40),
           "latency_us": (1.5, 100)}
# Small calls, too: the MPIs' own collectives do not bear all that the random operations do.
FORCED = [f"{name}={value}" for name, value in DIRECT.items()]
EXCHANGE = TESTS / "soak/exchange.py"


def end_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def processes_of(mark):
    """{pid: words} of what carries the mark in its environment, or is its copy of longshored, which writes over that."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            is_ours = os.readlink(f"/proc/{name}/exe") == mark.program or mark.text in Path(f"/proc/{name}/environ").read_bytes()
            if is_ours:
                found[int(name)] = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            pass
    return found


class Mark:
    """By which the processes of a job are found."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="longshore-soak-")
        self.program = os.path.join(self.folder.name, "bin/longshored")  # which looks for its parts beside itself
        os.mkdir(os.path.join(self.folder.name, "bin"))
        os.symlink(BUILD / "lib", os.path.join(self.folder.name, "lib"))
        shutil.copy(BUILD / "bin/longshored", self.program)
        self.words = [f"LONGSHORE_INTERNAL_TEST_MARK=soak-{os.getpid()}", f"LONGSHORE_SERVICE_PATH={self.program}",
                      f"LD_PRELOAD={BUILD}/lib/liblongshore.so", *FORCED]
        self.text = self.words[0].encode()


def role_of(words):
    if words[0] == b"longshored:":  # sp 0 node 1, supervisor
        return words[1].decode()
    program = os.path.basename(words[0])
    return "rank" if b"stress" in program or b"exchange.py" in b" ".join(words) else None


def sample(mark):
    """What the processes of each role take, the largest of each."""
    out = {}
    for pid, words in processes_of(mark).items():
        role = role_of(words) if words and words[0] else None
        status = dict(re.findall(r"^(RssAnon|RssShmem):\s+(\d+) kB", read(f"/proc/{pid}/status"), re.M))
        if role is None or len(status) != 2:
            continue
        try:
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue
        taken = {"private_kib": int(status["RssAnon"]), "shared_kib": int(status["RssShmem"]),
                 "descriptors": descriptors, "mappings": read(f"/proc/{pid}/maps").count("\n")}
        for name, value in taken.items():
            out.setdefault(role, {}).setdefault(name, 0)
            out[role][name] = max(out[role][name], value)
    return out


def compare(samples, seconds):
    """[(role, what, then, now, allowed)]: medians of the first minutes after the first, and of as many at the end."""
    window = max(3 * SAMPLE_S, min(180, (seconds - 60) / 3))
    first = [s for s in samples if 60 <= s["at"] < 60 + window] or samples[:3]
    last = [s for s in samples if s["at"] >= seconds - window] or samples[-3:]
    rows = []
    for role in sorted({role for s in samples for role in s["roles"]}):
        for what in sorted({what for s in samples for what in s["roles"].get(role, {})}):
            values = [[s["roles"][role][what] for s in part if what in s["roles"].get(role, {})] for part in (first, last)]
            if all(values):
                then, now = map(statistics.median, values)
                factor, more = ALLOWED[what]
                rows.append((role, what, then, now, then * factor + more))
    return rows


class Soak:
    def __init__(self, words, mark, options):
        self.options, self.mark, self.samples = options, mark, []
        self.output = tempfile.TemporaryFile("w+")
        self.begin = time.monotonic()
        self.process = subprocess.Popen(words, stdout=self.output, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=end_with_parent)

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def seconds(self):
        return time.monotonic() - self.begin

    def look(self):
        roles = sample(self.mark)
        if latencies := re.findall(r"^soak: .* ([\d.]+) us$", self.text(), re.M):
            roles.setdefault("job", {})["latency_us"] = float(latencies[-1])
        self.samples.append({"at": self.seconds(), "roles": roles})

    def show(self, what):
        if sys.stderr.isatty() and not self.options.quiet:
            whole = self.options.minutes * 60
            print(f"\r{min(100, 100 * self.seconds() / whole):3.0f} % of {self.options.minutes:g} min, {what}   ",
                  end="", file=sys.stderr)

    def run(self, seconds, every_s, disturb):
        """Until then, or until the job ends. `disturb` is called every so often, and gives what it did."""
        next_sample, next_event, did, count = 0.0, float(every_s), "", 0  # count: of what was done
        while self.process.poll() is None and self.seconds() < seconds:
            if self.seconds() >= next_sample:
                self.look()
                next_sample += SAMPLE_S
            if self.seconds() >= next_event and self.seconds() < seconds - every_s / 2:
                did = disturb()
                count += did != ""
                next_event += every_s
            self.show(f"{count} times{did and ', last: ' + did}")
            time.sleep(0.2)
        return count

    def end(self, limit_s):
        """The exit status; None: it hangs."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if self.process.poll() is None:
                for pid in processes_of(self.mark):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except OSError:
                        pass
                self.process.kill()


def kills(options):
    mark = Mark()
    flavour, draw = options.mpi, random.Random(options.seed)
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    launch = (["mpirun.mpich", "-np", "2"] if flavour == "mpich" else
              ["mpirun.openmpi", *as_root, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", "4"])
    seconds = options.minutes * 60
    words = [*launch, "env", *mark.words, "LONGSHORE_NODES_COUNT=2",
             "LONGSHORE_SERVICE_RESTARTS_MAX=1000", f"LONGSHORE_INTERNAL_TEST_SECONDS={seconds}", "LONGSHORE_STATS=-",
             str(BUILD / f"tests/mpi/{flavour}/mpi_stress_{flavour}"), str(options.seed), "1000000000"]
    soak = Soak(words, mark, options)

    def kill():
        found = [pid for pid, words in processes_of(soak.mark).items() if role_of(words) == "sp"]
        if not found:
            return ""
        victim = draw.choice(found)
        os.kill(victim, signal.SIGKILL)
        return f"killed {victim}"

    count = soak.run(seconds, options.every, kill)
    status = soak.end(120)
    problems = []
    if count < options.minutes * 60 / options.every / 2:
        problems.append(f"only {count} service processes were there to be killed")
    if status is None:
        problems.append("the job hangs")
    elif status != 0 or "stress: ok" not in soak.text():
        problems.append(f"the job ended with {status}")
    return soak, {"killed": count, "status": status}, problems


def links(options):
    sys.path.insert(0, str(TESTS / "cluster"))
    import cluster

    if why := cluster.missing():
        print(f"soak: SKIP: {why}", file=sys.stderr)
        sys.exit(77)
    mark = Mark()
    with cluster.Cluster(2, offloads=True) as nodes:
        words = nodes.mpirun(["env", *mark.words,
                              f"LONGSHORE_LIMIT_S={options.limit}", "/usr/bin/python3", str(EXCHANGE), str(options.seed)], 2)
        soak = Soak(words, mark, options)
        port = f"port-{nodes.nodes[1].name}"

        def outage():
            nodes.switch.run("ip", "link", "set", port, "down")
            time.sleep(options.down)
            nodes.switch.run("ip", "link", "set", port, "up")
            return f"the link was down for {options.down:g} s"

        count = soak.run(options.minutes * 60, options.every, outage)
        problems = [] if soak.process.poll() is None else [f"the job ended with {soak.process.poll()} before the link was cut"]
        nodes.switch.run("ip", "link", "set", port, "down")
        cut = time.monotonic()

        def some_rank():
            return any(role_of(words) == "rank" for words in processes_of(soak.mark).values() if words and words[0])

        allowed = 6 * options.limit + 10  # six times the limit is said (docs/deployment.md), and MPI_Abort takes its time
        while not problems and some_rank() and time.monotonic() - cut < allowed:
            time.sleep(0.1)
        took = time.monotonic() - cut
        if not problems and some_rank():
            problems.append(f"ranks were there {took:.0f} s after the cut, with a limit of {options.limit} s")
        if not problems and "has not answered" not in soak.text():
            problems.append("nobody says that a machine has not answered")
        soak.process.kill()  # mpirun waits for its daemon on the other side
        soak.end(10)
    return soak, {"outages": count, "ended_after_cut_s": took}, problems


def report(result):
    print(f"{result['what']}: {result['seconds']:.0f} s, " +
          ", ".join(f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}"
                    for name, value in result["events"].items()))
    print(f"{'':12} {'':12} {'after 1 min':>12} {'at the end':>12} {'allowed':>12}")
    for role, what, then, now, allowed in result["rows"]:
        print(f"{role:12} {what:12} {then:12.0f} {now:12.0f} {allowed:12.0f}{'  GROWS' if now > allowed else ''}")
    for problem in result["problems"]:
        print(f"soak: {problem}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("kills", "links"))
    parser.add_argument("--minutes", type=float, help="how long (kills: 30, links: 10)")
    parser.add_argument("--every", type=float, help="seconds between two of what is done to the job (kills: 10, links: 30)")
    parser.add_argument("--down", type=float, default=2, help="seconds for which a link is down (2)")
    parser.add_argument("--limit", type=int, default=5, help="LONGSHORE_LIMIT_S of the job (5)")
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write what was seen")
    parser.add_argument("--report", type=Path, help="show what was written")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    if options.report:
        result = json.loads(options.report.read_text())
        report(result)
        return bool(result["problems"])
    if options.what is None:
        parser.error("say what: kills or links")
    options.minutes = options.minutes or (30 if options.what == "kills" else 10)
    options.every = options.every or (10 if options.what == "kills" else 30)
    soak, events, problems = {"kills": kills, "links": links}[options.what](options)
    rows = compare(soak.samples, options.minutes * 60)
    problems += [f"{what} of a {role} grows: {then:.0f}, {now:.0f}" for role, what, then, now, allowed in rows if now > allowed]
    for line in soak.text().splitlines():
        if "is wrong" in line or "wrong at" in line or "plain MPI" in line:
            problems.append(line)
    if problems:
        print("\n".join(soak.text().splitlines()[-40:]))
    result = {"what": options.what, "mpi": options.mpi, "seconds": soak.seconds(), "events": events, "rows": rows,
              "problems": problems, "samples": soak.samples}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    report(result)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
