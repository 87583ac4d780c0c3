"""What `longshore assess` concludes from runs whose times are made up, and that it stops where it must."""

import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
import unittest.mock
from types import SimpleNamespace

from support import SOURCE, CommandTest, clean_environment, write_program

sys.path.insert(0, str(SOURCE / "src" / "tools"))
import assess  # noqa: E402
import expectation  # noqa: E402
import verdict  # noqa: E402

MACHINES = SOURCE / "lab" / "model" / "machines"

# Stands for a program under the shim: writes the statistics that the shim would, with a time taken from a list.
PROGRAM = """import json, os, pathlib, re, sys
off = os.environ.get("LONGSHORE_OFFLOAD") == "off"
unshared = os.environ.get("LONGSHORE_MEMORY_ALIAS") == "off" and "UNSHARED" in os.environ
count = pathlib.Path("count-" + ("off" if off else "unshared" if unshared else "on"))
turn = int(count.read_text()) if count.exists() else 0
count.write_text(str(turn + 1))
wall = float((os.environ["UNSHARED"] if unshared else sys.argv[1 if off else 2]).split(",")[turn])
if wall < 0: sys.exit(9)
row = {"calls": 4, "offloaded": 0 if off else 4, "bytes": 8e6, "bytes_host": 0, "bytes_by_service": 3e6,
       "bytes_by_rank": 1e6, "bytes_hidden": 2e6, "posting_s": .1, "between_s": 1, "waiting_s": .2, "mpi_s": 0}
stats = {"version": 5, "ranks": 2, "wall_s": wall, "share_in_collectives": .4, "advice": [] if off else ["leave a core"],
           "rank_times": [{"waiting_s": .1, "mpi_s": 0, "mpi_waits_s": .05, "uncarried_s": .3, "other_s": .123}] * 2, "collectives": {"MPI_Ialltoall": row},
           "nodes": 1, "latest_rank": -1, "late": {}, "other_calls": {"MPI_Allreduce": {"calls": 6, "s": .6, "collective": True},
           "MPI_Recv": {"calls": 2, "s": .002, "collective": False}}, "communicators": json.loads(os.environ.get("COMMUNICATORS", "[]"))}
stats |= json.loads(os.environ.get("CHANGED_" + ("OFF" if off else "ON"), "{}"))
def write(variable, what):
    name = re.sub("%([%hp])", lambda found: {"%": "%", "h": "host", "p": str(os.getpid())}[found[1]], os.environ[variable])
    if os.path.exists(name): print("longshore:", name, "was there already", file=sys.stderr)
    try: pathlib.Path(name).write_text(os.environ.get("IN_PLACE_OF_" + variable, what))
    except OSError as error: print(f"longshore: cannot write {name}: {error.strerror}", file=sys.stderr)
write("LONGSHORE_STATS", json.dumps(stats))
if "LONGSHORE_TRACE" in os.environ:
    write("LONGSHORE_TRACE", json.dumps({"traceEvents": [{"ph": "M", "name": "thread_name", "pid": 0, "tid": 0, "args": {"name": "rank 0"}},
        {"ph": "X", "cat": "wait", "name": "MPI_Wait", "pid": 0, "tid": 0, "ts": 1, "dur": 5, "args": {}}]}))
pathlib.Path("result").write_text("same" if len(sys.argv) < 4 or off else "other")
"""


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Asks a browser how the page lies in a window and on a telephone.
PROBE = """<pre id=probe></pre><script>onload = () => {
const too_wide = () => document.body.scrollWidth - document.body.clientWidth
const picture = document.querySelector("svg"), around = picture.getBoundingClientRect()
const words = [...picture.querySelectorAll("text")].map(word => word.getBoundingClientRect())
const said = {rows: [...document.querySelectorAll("table")].map(table => table.rows.length), too_wide: too_wide(),
    fetched: performance.getEntriesByType("resource").length,
    lanes: [...picture.querySelectorAll("text")].map(word => word.textContent), bars: picture.querySelectorAll("rect").length,
    width: around.width, outside: words.filter(word => word.right > around.right || word.left < around.left).length,
    touching: words.filter((word, i) => words.some((other, j) => i < j && word.left < other.right && other.left < word.right
        && word.top < other.bottom && other.top < word.bottom)).length}
document.documentElement.style.width = "360px"
said.too_wide_for_a_telephone = too_wide()
document.getElementById("probe").textContent = JSON.stringify(said)
console.log("the console is seen")}</script>"""


class Page(html.parser.HTMLParser):
    """Which tags a page has, how they nest, and what it would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href")]

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Assess(CommandTest):
    def setUp(self):
        super().setUp()
        self.make_shim()
        data = self.root / "share" / "longshore"
        data.mkdir(parents=True)
        for name in ("assess.py", "assessed_runs.py", "ending.py", "expectation.py", "verdict.py", "timeline_lanes.py", "timeline_svg.py"):
            shutil.copy(SOURCE / "src" / "tools" / name, data)
        write_program(self.root / "program.py", PROGRAM)
        (self.root / "tmp").mkdir()

    def left(self):
        """What is there of the folders that runs have written in."""
        return [path.name for folder in (self.root, self.root / "tmp") for path in folder.iterdir() if path.name.startswith(("assess-", "longshore-"))]

    def assess(self, without, longshore, *options, more=(), expect=0, communicators=(), script=None, **environment):
        """With times that the runs shall have taken; `script` starts the program, whose command line it is given."""
        for name in ("off", "on", "unshared"):
            (self.root / f"count-{name}").unlink(missing_ok=True)
        if script:
            write_program(self.root / "script", f"#!/bin/sh\n{script}\n")
        return self.longshore("assess", *options, *(["./script"] if script else []), sys.executable, self.root / "program.py", without,
                              longshore, *more, expect=expect, PYTHONDONTWRITEBYTECODE="1", COMMUNICATORS=json.dumps(communicators),
                              **environment)

    def test_verdicts(self):
        for without, longshore, wanted in (
                ("2,2.1,2", "1.5,1.6,1.5", "GAIN: with Longshore the program took 25 % less time"),
                ("2,2.1,2", "2.4,2.5,2.4", "LOSS: with Longshore the program took 20 % longer"),
                ("2,2.1,2", "2,2.1,2.01", "NO DIFFERENCE"),
                # Each turn is a gain, but one run without was as quick as one with.
                ("2,2.4,1.7", "1.8,2.0,1.6", "UNCERTAIN")):
            done = self.assess(without, longshore)
            self.assertIn(wanted, done.stdout)
            self.assertRegex(done.stdout, r"(?m)^MPI_Ialltoall +4 +4 +8.0 +50 % +0.150 +0.150$")
            self.assertRegex(done.stdout, r"(?m)^MPI_Allreduce +6 +0.300 +0.300$")
            self.assertRegex(done.stdout, r"(?m)^other MPI calls +0.123 +0.123$")
            self.assertIn("What would change it: leave a core.", done.stdout)
            self.assertIn("the other turns will take about", done.stderr)

    def test_the_times_of_the_table_add_up(self):
        # Of the run of the median time: 0.15 s in the call, 0.05 in waits, 0.423 in others.
        lines = self.assess("3,2,2.5", "1.7,1.5,1.6").stdout.splitlines()
        times = [[float(word) for word in line.split()[-2:]] for line in lines[1:7]]
        self.assertEqual([line[:20].split("  ")[0].strip() for line in lines[1:7]],
                         ["MPI_Ialltoall", "waits, tests in MPI", "MPI_Allreduce", "other MPI calls", "outside of MPI", "MPI_Init to Finalize"])
        self.assertEqual(times[-1], [2.5, 1.6])
        for column in zip(*times):
            self.assertAlmostEqual(sum(column[:-1]), column[-1], delta=0.003)
        self.assertIn("the collectives that it carries and waits took 8.0 % of the time, 0.200 s of a rank; with it 0.200 s", "\n".join(lines))

    def test_calls_of_many_kinds_fit_a_screen(self):
        row = {"calls": 2, "offloaded": 1, "bytes": 0, "bytes_host": 0, "bytes_by_service": 0, "bytes_by_rank": 0, "bytes_hidden": 0}
        changed = json.dumps({"collectives": {f"MPI_Call{i}": row | {"mpi_s": .01 * (i + 1)} for i in range(11)},
                              "other_calls": {f"MPI_Other{i}": {"calls": 2, "s": .06 + .002 * i, "collective": True} for i in range(9)}})
        done = self.assess("2", "1", "--turns", 1, CHANGED_OFF=changed, CHANGED_ON=changed)
        self.assertEqual(re.findall(r"(?m)^MPI_Call(\d+) ", done.stdout), [str(10 - i) for i in range(6)])
        # 0.15 s of two ranks; of others 0.423 s of a rank less the four longest.
        self.assertRegex(done.stdout, r"(?m)^5 more calls +0.075 +0.075$")
        self.assertEqual(re.findall(r"(?m)^MPI_Other(\d+) ", done.stdout), [str(8 - i) for i in range(4)])
        self.assertRegex(done.stdout, r"(?m)^other MPI calls +0.277 +0.277$")
        self.assertLess(len(done.stdout.splitlines()), 24)

    def test_a_program_that_can_gain_nothing_is_told_so(self):
        others = {"MPI_Allreduce": {"calls": 800, "s": 1.0, "collective": True}, "MPI_Send": {"calls": 3, "s": 1.5, "collective": False}}
        nothing = "Nothing was offloaded, and nothing can be gained by offloading today: "
        for made, words in (({}, "its collective is MPI_Allreduce (800 calls, 0.500 s of a rank), which the MPI serves."),
                            ({"MPI_Barrier": {"calls": 2, "s": .2, "collective": True}},
                             "its collectives are MPI_Allreduce (800 calls, 0.500 s of a rank) and MPI_Barrier (2 calls, 0.100 s of a rank), ")):
            changed = json.dumps({"collectives": {}, "advice": [], "other_calls": others | made})
            done = self.assess("2", "2", "--turns", 1, CHANGED_OFF=changed, CHANGED_ON=changed)
            self.assertEqual(done.stdout.count(nothing + words), 1, done.stdout)
            self.assertNotIn("other calls than collectives", done.stdout)
            self.assertNotIn("What would change it", done.stdout)
        changed = json.dumps({"collectives": {}, "advice": [], "other_calls": {}})
        done = self.assess("2", "2", "--turns", 1, CHANGED_OFF=changed, CHANGED_ON=changed)
        self.assertIn(nothing + "the program calls none of the collectives that Longshore carries.", done.stdout)

    def test_collectives_that_are_not_carried_are_named_where_they_decide(self):
        rows = [{"waiting_s": .01, "mpi_s": 0, "mpi_waits_s": 0, "uncarried_s": .3, "other_s": 0}] * 2
        for seconds, words in ((.6, "MPI_Allreduce (6 calls, 0.300 s of a rank), which Longshore does not carry, other calls, or computing,"),
                               (.01, "other calls than collectives, or computing,")):
            others = {"MPI_Allreduce": {"calls": 6, "s": seconds, "collective": True}}
            changed = json.dumps({"rank_times": rows, "other_calls": others, "collectives": {
                "MPI_Alltoall": {"calls": 2, "offloaded": 2, "bytes": 0, "bytes_host": 0, "bytes_by_service": 0, "bytes_by_rank": 0,
                                 "bytes_hidden": 0, "mpi_s": .01}}})
            done = self.assess("2", "2", "--turns", 1, CHANGED_OFF=changed, CHANGED_ON=changed)
            self.assertIn(f"So little can hardly be improved: {words} decide how long it takes.", done.stdout)

    def test_late_ranks_and_tuning_are_in_the_report(self):
        waits = [{"waiting_s": one, "uncarried_s": 0.1} for one in (0.1, 0.9)]
        done = self.assess("2", "1", "--turns", 1, CHANGED_OFF=json.dumps({"latest_rank": 0, "rank_times": waits}))
        self.assertIn("Without Longshore rank 0 waited least, 0.200 s, another 1.000 s: it seems to come last (estimated).", done.stdout)
        self.assertIn("Carried calls took 15 % of the time, by algorithms of the built-in table: 'longshore tune'", done.stdout)
        done = self.assess("2", "2", "--turns", 1)  # 0.15 s are less than a tenth of it
        self.assertNotIn("longshore tune", done.stdout)
        self.assertNotIn("waited", done.stdout)

    def test_a_loss_outside_of_mpi_is_tried_without_shared_memory(self):
        shared = json.dumps({"memory": {"shared_bytes_max": 1 << 26}})
        for times, wanted in (("2,2.1,2", "The loss comes from large blocks of malloc, which are shared memory with Longshore: with "
                                          "LONGSHORE_MEMORY_ALIAS=off, in 3 more runs, it took 2.000 s."),
                              ("2.4,2.5,2.4", "not seen to be the reason: with LONGSHORE_MEMORY_ALIAS=off, in 3 more runs, it took 2.400 s.")):
            done = self.assess("2,2.1,2", "2.4,2.5,2.4", "-o", "page.html", CHANGED_ON=shared, UNSHARED=times)
            self.assertIn("LOSS: with Longshore the program took 20 % longer", done.stdout)
            self.assertIn(wanted, done.stdout)
            self.assertIn(wanted, html.unescape((self.root / "page.html").read_text()))
            self.assertEqual((self.root / "count-unshared").read_text(), "3")
        # What ran before them stays true where they fail.
        done = self.assess("2,2.1,2", "2.4,2.5,2.4", CHANGED_ON=shared, UNSHARED="2,-1")
        self.assertIn("whether shared memory is the reason is not known: run 2 with Longshore and memory_alias=off ended with exit code 9", done.stderr)
        self.assertIn("LOSS", done.stdout)
        self.assertNotIn("MEMORY_ALIAS", done.stdout)

    def test_no_other_result_is_tried_without_shared_memory(self):
        shared = {"memory": {"shared_bytes_max": 1 << 26}}
        slow = {"collectives": {"MPI_Ialltoall": {"calls": 4, "offloaded": 4, "bytes": 0, "bytes_host": 0, "bytes_by_service": 0,
                                                  "bytes_by_rank": 0, "bytes_hidden": 0, "waiting_s": 1.2}}}
        for without, longshore, options, changed in (
                ("2,2.1,2", "1.5,1.6,1.5", (), shared), ("2,2.1,2", "2.4,2.5,2.4", (), {}), ("2", "2.4", ("--turns", 1), shared),
                ("2,2.1,2", "2.4,2.5,2.4", ("--set", "memory_alias=allocate"), shared),
                ("2,2.1,2", "2.4,2.5,2.4", (), shared | slow)):  # the time went in calls
            done = self.assess(without, longshore, *options, CHANGED_ON=json.dumps(changed), UNSHARED="-1")
            self.assertFalse((self.root / "count-unshared").exists())
            self.assertNotIn("MEMORY_ALIAS", done.stdout)

    def test_one_turn_proves_nothing(self):
        done = self.assess("2", "1", "--turns", 1)
        self.assertIn("UNCERTAIN: one run of each kind, -50 % of time with Longshore", done.stdout)
        self.assertNotIn("GAIN", done.stdout)

    def test_the_order_changes(self):
        order = [line.split(", ")[1] for line in self.assess("2,2,2", "1,1,1").stderr.splitlines() if "turn " in line and " of 3" in line]
        self.assertEqual([word.split()[0] for word in order], ["without", "with", "with", "without", "without", "with"])

    def test_stops_at_a_failure(self):
        done = self.assess("2,-1,2", "1,1,1", expect=1)
        self.assertIn("run 2 without Longshore ended with exit code 9; stopped", done.stderr)
        self.assertEqual((self.root / "count-off").read_text(), "2")
        self.assertNotIn("GAIN", done.stdout)
        done = self.assess("2,2", "1,1", "--turns", 2, "--setup", "false", expect=1)
        self.assertIn("--setup 'false' failed before run 1", done.stderr)
        done = self.longshore("assess", "true", expect=1)
        self.assertIn("no statistics came to", done.stderr)
        self.assertIn("none that calls MPI_Finalize", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(self.left(), [])
        # What a run has written in a folder of its own is the user's.
        script = self.root / "fails"
        write_program(script, "#!/bin/sh\n[ $1 = 0 ] || echo said >log\nexit 3\n")
        for writes in (0, 1):
            done = self.longshore("assess", "--folders", script, writes, expect=1)
            written = [str(folder) for folder in self.root.glob("assess-*.tmp/without-1/work") if (folder / "log").exists()]
            self.assertEqual(re.findall(r"exit code 3(?:, see (\S+))?; stopped", done.stderr), written or [""])
            self.assertEqual(len(self.left()), writes)

    # A machine of its own in one thing: what others have in $TMPDIR, as in a /tmp that is not shared, is not there.
    ELSEWHERE = ("unshare", "--mount", "--map-root-user", "sh", "-c", 'mount -t tmpfs none "$TMPDIR" && exec "$@"', "sh")

    def test_ranks_on_another_machine(self):
        environment = {"TMPDIR": str(self.root / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
        if subprocess.run([*self.ELSEWHERE, "true"], env=clean_environment(**environment), capture_output=True, check=False).returncode:
            self.skipTest("no namespace can be made here")
        command = [*self.ELSEWHERE, sys.executable, self.root / "program.py", "2", "1"]
        self.assertIn("one run of each kind, -50 %", self.longshore("assess", "--turns", 1, *command, **environment).stdout)
        (self.root / "count-off").unlink()
        done = self.longshore("assess", "--turns", 1, "--scratch", "tmp", *command, expect=1, **environment)
        self.assertRegex(done.stderr, rf"cannot write {self.root}/tmp/assess-")
        self.assertRegex(done.stderr, rf"no statistics came to {self.root}/tmp\. If a line above says that they cannot be written, rank 0's machine does not have that folder")
        self.assertEqual(self.left(), [])

    def test_a_command_that_starts_several_jobs(self):
        # Times that such a script can have.
        done = self.assess(".002,.004", ".002,.001", "--turns", 1, "-o", "page.html", script='"$@" && "$@"')
        self.assertRegex(done.stdout, r"(?m)^MPI_Ialltoall +8 +8 +16.0 +50 % +0.300 +0.300$")
        self.assertRegex(done.stdout, r"(?m)^MPI_Allreduce +12 +0.600 +0.600$")
        self.assertRegex(done.stdout, r"(?m)^MPI_Init to Finalize +0.006 +0.003$")
        self.assertIn("The command starts 2 MPI jobs, and their times are added up. The longest took 0.004 s of 0.006 s without and 0.002 s of "
                      "0.003 s with", done.stdout)
        self.assertEqual(done.stdout.count("leave a core"), 1)
        self.assertIn("longshore assess: 0.006 s in 2 MPI jobs\n", done.stderr)
        self.assertNotIn("was there already", done.stderr)
        self.assertIn("<svg", (self.root / "page.html").read_text())
        done = self.assess(".002,.004", ".002,.001", "--turns", 1, "--machine", MACHINES / "mpcdf-bf3.toml", script='"$@" && "$@"')
        self.assertIn("nothing can be said about mpcdf-bf3: the command starts several MPI jobs", done.stderr)
        # The second says that it took a minute, and so had begun before the first ended.
        done = self.assess(".001,60", "1,1", script='"$@" && "$@"', expect=1)
        self.assertIn("run 1 without Longshore had 2 MPI jobs at a time, whose times cannot be added up: assess each by itself; stopped", done.stderr)
        done = self.assess(".002,.001", ".001", script='"$@" && { [ -z "$LONGSHORE_OFFLOAD" ] || "$@"; }', expect=1)
        self.assertIn("the numbers of MPI jobs differ: 1 in run 1 with Longshore, 2 in run 1 without Longshore; stopped", done.stderr)
        self.assertEqual(self.left(), [])

    def test_statistics_that_cannot_be_used(self):
        of = "the statistics of run 1 without Longshore"
        for text, wanted in (('{"ranks": 2, "wal', f"{of} are not whole: is the disk full?"), ("", f"{of} are not whole"),
                             ('{"ranks": 2}', f"{of} lack 'wall_s'"), ("[]", f"{of} are none"),
                             ('{"ranks": 2, "wall_s": 0.0, "advice": []}', f"{of} say that 2 ranks took 0.000000 s"),
                             ('{"ranks": 0, "wall_s": 1.0, "advice": []}', f"{of} say that 0 ranks took 1.000000 s"),
                             ('{"complete": false}', "an MPI job of run 1 without Longshore ended without MPI_Finalize")):
            done = self.assess("2", "1", "--turns", 1, expect=1, IN_PLACE_OF_LONGSHORE_STATS=text)
            self.assertRegex(done.stderr, f"(?m)^longshore assess: {re.escape(wanted)}.*; stopped$")
            self.assertNotIn("Traceback", done.stderr)
            self.assertEqual(self.left(), [])
        done = self.assess("2", "1", "--turns", 1, "-o", "page.html", IN_PLACE_OF_LONGSHORE_TRACE='{"traceEv')
        self.assertIn("the trace of run 1 with Longshore cannot be read: the page has no time line of it", done.stderr)
        self.assertIn("UNCERTAIN", done.stdout)
        self.assertNotIn("<svg", (self.root / "page.html").read_text())

    def test_srun_without_an_allocation(self):
        write_program(self.root / "srun", '#!/bin/sh\n[ "$1" != --jobid=7 ] || shift\nexec "$@"\n')
        for more, job, wanted in (([], "", True), ([], "7", False), (["--jobid=7"], "", False)):
            (self.root / "count-off").unlink(missing_ok=True)
            (self.root / "count-on").unlink(missing_ok=True)
            done = self.longshore("assess", "--turns", 1, "./srun", *more, sys.executable, "program.py", "2", "1", SLURM_JOB_ID=job,
                                  PYTHONDONTWRITEBYTECODE="1")
            said = "longshore assess: each of the 2 runs waits for an allocation of its own, perhaps of other nodes: have all in one by 'salloc"
            self.assertEqual(said in done.stderr, wanted, done.stderr)

    def test_a_job_that_is_submitted(self):
        write_program(self.root / "sbatch", "#!/bin/sh\necho submitted >>log\n")
        done = self.longshore("assess", "./sbatch", "job.sh", expect=125)
        self.assertIn("./sbatch comes back before its job has run: let the batch script itself call 'longshore assess", done.stderr)
        self.assertFalse((self.root / "log").exists())
        self.longshore("assess", "./sbatch", "--wait", "job.sh", expect=1)
        self.assertTrue((self.root / "log").exists())

    def test_where_runs_write(self):
        (self.root / "50%p").mkdir()  # what means something in the name of a file for statistics
        self.assertIn("UNCERTAIN", self.assess("2", "1", "--turns", 1, "--scratch", "50%p", "-o", "page.html").stdout)
        self.assertIn("<svg", (self.root / "page.html").read_text())
        self.assertEqual(list((self.root / "50%p").iterdir()), [])
        done = self.assess("2", "1", "--scratch", "no-such-folder", expect=125)
        self.assertIn("no folder can be made in no-such-folder (No such file or directory): name one that the machines of all ranks "
                      "share by --scratch DIR", done.stderr)

    def test_a_signal_ends_the_program_too(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            # A launcher that takes its time, and then says that it has ended.
            script = self.root / "launcher.py"
            script.write_text("import os, signal, sys, time\ndef end(number, _):\n    print('ended by', number, flush=True)\n"
                              "    sys.exit(1)\nfor number in (1, 2, 15):\n    signal.signal(number, end)\n"
                              "print('runs', flush=True)\nwhile True:\n    signal.pause()\n")
            started = subprocess.Popen([self.command, "assess", sys.executable, script], cwd=self.root, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                       env=clean_environment(PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(self.root / "tmp")))
            while (line := started.stderr.readline()) != "runs\n":
                self.assertNotEqual(line, "", "ended before its program ran")
            # Ctrl-C is for all processes of the terminal, the others are sent to one.
            (os.killpg if number == signal.SIGINT else os.kill)(started.pid, number)
            said = started.communicate(timeout=60)[1]
            self.assertEqual(started.returncode, 128 + number, said)
            self.assertIn(f"ended by {int(number)}\n", said)
            self.assertIn("longshore assess: interrupted", said)
            self.assertNotIn("Traceback", said)
            self.assertEqual(self.left(), [])

    def test_a_full_disk_is_said(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([self.command, "assess", "--turns", "1", sys.executable, "program.py", "2", "1"], cwd=self.root,
                                  stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                  env=clean_environment(PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(self.root / "tmp")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not be written: No space left on device", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(self.left(), [])

    def test_compares_files(self):
        self.assess("2,2", "1,1", "--turns", 2, "--compare", "result")
        done = self.assess("2,2", "1,1", "--turns", 2, "--compare", "result", more=["x"], expect=1)
        self.assertIn("result of run 1 with Longshore differs", done.stderr)
        self.assertIn("has not written it", self.assess("2", "1", "--turns", 1, "--compare", "none", expect=1).stderr)

    def test_folders_of_their_own(self):
        # Each folder is empty: the program always finds itself in its first run.
        self.assess("2,-1", "1,-1", "--turns", 2, "--folders")
        self.assertFalse((self.root / "count-off").exists())

    def test_page_fetches_nothing(self):
        for _ in range(2):
            self.assess("2,2.1,2", "1.5,1.6,1.5", "-o", "page.html", more=())
        text = (self.root / "page.html").read_text()
        self.assertTrue((self.root / "page.html.old").exists())
        page = Page()
        page.feed(text)
        self.assertEqual(page.open, [])
        self.assertEqual(page.fetched, [])
        self.assertEqual(page.tags.count("svg"), 1)
        # One above the other, on one scale.
        self.assertLess(text.index(">without Longshore</text>"), text.index(">with Longshore</text>"))
        self.assertNotIn("http", text)
        self.assertIn("GAIN: with Longshore the program took 25 % less time", text)

    @unittest.skipUnless(BROWSER, "no browser: install Debian's package chromium")
    def test_page_in_a_browser(self):
        self.assess("2,2", "1.5,1.5", "--turns", 2, "-o", "page.html", more=["--a-long-option-of-the-program=" + 60 * "x"],
                    CHANGED_ON=json.dumps({"advice": ["look at /" + 90 * "y"]}))
        text = (self.root / "page.html").read_text()
        self.assertIn("</body>", text)
        (self.root / "page.html").write_text(text.replace("</body>", f"{PROBE}</body>"))
        shown = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.root}/browser", "--dump-dom",
                                "--enable-logging=stderr", "--proxy-server=127.0.0.1:1", "--window-size=1200,900", f"file://{self.root}/page.html"],
                               env=clean_environment(HOME=str(self.root)), capture_output=True, text=True, timeout=60, check=True)
        # What a page does wrong its console says.
        console = [line.split("] ", 1)[1] for line in shown.stderr.splitlines() if ":CONSOLE" in line]
        self.assertEqual([line.split(", source")[0] for line in console], ['"the console is seen"'], shown.stderr)
        said = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', shown.stdout, re.DOTALL)[1])
        self.assertEqual(said["rows"], [7, 3])  # with heads: by call, by turn
        self.assertEqual((said["too_wide"], said["too_wide_for_a_telephone"], said["fetched"]), (0, 0, 0), said)
        self.assertGreater(said["width"], 900)
        self.assertEqual((said["outside"], said["touching"]), (0, 0), said)
        self.assertEqual([word for word in said["lanes"] if word.endswith("Longshore") or word.startswith("rank")],
                         ["without Longshore", "rank 0", "with Longshore", "rank 0"])
        self.assertGreater(said["bars"], 4)

    def test_what_to_expect_on_a_machine(self):
        def call(seconds, calls=4, offloaded=4, between=0.0, total=8e6):
            return {"calls": calls, "offloaded": offloaded, "bytes": total, "bytes_host": 0, "posting_s": 0, "waiting_s": 0,
                    "between_s": between, "mpi_s": seconds}

        world = {"name": "MPI_COMM_WORLD", "ranks": 2, "collectives": {
            "MPI_Ialltoall": call(2, between=4), "MPI_Allgatherv": call(1), "MPI_Bcast": call(.5, offloaded=0), "MPI_Gather": call(.25)}}
        machine = MACHINES / "mpcdf-bf3.toml"
        done = self.assess("2", "1", "--turns", 1, "--machine", machine, "-o", "page.html", communicators=[world])
        # 8 MB in 4 calls of 2 ranks: 2 calls of each, with 2 blocks of 1 MB; of a broadcast 2 MB.
        hidden = re.search(r"(?m)^MPI_Ialltoall +MPI_COMM_WORLD +2 +1000000 +2 +1000000 +([0-9.]+) +(linear|pairwise) +([0-9.]+)$", done.stdout)
        self.assertTrue(hidden, done.stdout)
        # A second of computing hides what service processes move, and nothing of what the host's MPI does.
        wire_us = 1e6 / 13920
        self.assertGreater(float(hidden[1]), wire_us)
        self.assertLess(float(hidden[3]), wire_us / 4)
        self.assertRegex(done.stdout, r"(?m)^MPI_Allgatherv +MPI_COMM_WORLD +2 +1000000 +2 +- ")
        # What was left to the MPI here is left to it there.
        kept = re.search(r"(?m)^MPI_Bcast +MPI_COMM_WORLD +2 +2000000 +2 +- +([0-9.]+) +\S+ +([0-9.]+)$", done.stdout)
        self.assertEqual(kept[1], kept[2])
        self.assertIn("Left out of it are calls that took 0.125 s of a rank here: MPI_Gather on MPI_COMM_WORLD (2 ranks): the model does "
                      "not have it.", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^EXPECTED (GAIN|NO CLEAR DIFFERENCE) on mpcdf-bf3, 2 nodes of 1 rank: .*off by 15 %")
        page = Page()
        page.feed((self.root / "page.html").read_text())
        self.assertEqual((page.open, page.fetched), ([], []))
        self.assertIn("<h2>What to expect on mpcdf-bf3, 2 nodes of 1 rank</h2>", (self.root / "page.html").read_text())

    def test_a_machine_of_which_nothing_can_be_said(self):
        done = self.assess("2", "1", "--turns", 1, "--machine", "no-such-machine", expect=125)
        self.assertIn("longshore assess: --machine: no-such-machine: neither a file nor a machine that is known", done.stderr)
        self.assertFalse((self.root / "count-off").exists(), "the program ran before the machine was looked at")
        (self.root / "bad.toml").write_text("name = 'bad'\n")
        done = self.assess("2", "1", "--turns", 1, "--machine", "bad.toml", expect=125)
        self.assertIn("bad.toml", done.stderr)
        machine = MACHINES / "thor-bf3.toml"
        done = self.assess("2", "1", "--turns", 1, "--machine", machine, "--machine-nodes", 3)
        self.assertIn("nothing can be said about thor-bf3: --machine-nodes 3: 2 ranks cannot be shared out", done.stderr)
        self.assertNotIn("EXPECTED", done.stdout)
        done = self.assess("2", "1", "--turns", 1, "--machine", machine)
        self.assertIn("EXPECTED on thor-bf3, 2 nodes of 1 rank: nothing can be said", done.stdout)
        done = self.longshore("assess", "--machine-nodes", 2, "true", expect=125)
        self.assertIn("--machine", done.stderr)

    def test_errors(self):
        self.assertIn("no COMMAND given", self.longshore("assess", expect=125).stderr)
        self.longshore("assess", "--turns", 0, "true", expect=125)
        self.assertIn("cannot be written", self.longshore("assess", "-o", "no/page.html", "true", expect=125).stderr)
        os.unlink(self.root / "share" / "longshore" / "assess.py")
        self.assertIn("is not there", self.longshore("assess", "true", expect=125).stderr)


class Verdict(unittest.TestCase):
    def test_one_turn_is_said(self):
        self.assertIn("one turn only", verdict.words(verdict.judge([2.0], [1.0]), "it"))

    def test_unrest_makes_it_uncertain(self):
        self.assertEqual(verdict.judge([2, 2], [1.8, 1.8], unrest=0.12)[0], "unsure")
        self.assertEqual(verdict.judge([2, 2], [1.8, 1.8], unrest=0.02)[0], "gain")


class Report(unittest.TestCase):
    def test_late_ranks(self):
        def job(latest_rank, *waits, **late):
            return SimpleNamespace(latest_rank=latest_rank, waits_of_ranks=waits, stats={"late": late})

        none, first, last = job(-1), job(0, 0.2, 1.0), job(1, 1.0, 0.2)
        self.assertEqual(assess.late_ranks(none, none), [])
        self.assertEqual(assess.late_ranks(none, last), ["Without Longshore no rank waited so much less than another."])
        self.assertEqual(assess.late_ranks(first, last), [
            "Without Longshore rank 0 waited least, 0.200 s, another 1.000 s: it seems to come last (estimated)."])
        self.assertEqual(assess.late_ranks(first, first), [
            "Without Longshore rank 0 waited least, too, 0.200 s, another 1.000 s."])
        for count, wanted in ((5, []), (30, ["With Longshore 30 of 100 announcements to other nodes came before"])):
            rows = job(-1, alltoall={"received": 60, "late": count}, bcast={"received": 40, "late": 0})
            self.assertEqual([sentence[:60] for sentence in assess.late_ranks(none, rows)], [one[:60] for one in wanted])

    def test_whose_table_it_is(self):
        with unittest.mock.patch.dict(os.environ, clear=True):
            for setting, built_in in (("", True), ("algorithms_file=table", False), ("LONGSHORE_ALGORITHMS_FILE=", True),
                                      ("Alltoall_Algorithm=staged", False), ("algorithms=x", True), ("service_count=2", True)):
                self.assertEqual(assess.table_is_built_in(SimpleNamespace(set=[setting])), built_in, setting)
            os.environ["LONGSHORE_ALLGATHERV_ALGORITHM"] = "direct"
            self.assertFalse(assess.table_is_built_in(SimpleNamespace(set=[])))


class Expected(unittest.TestCase):
    def demand(self, ranks):
        counts = {"calls": 1, "offloaded": 1, "bytes": 64, "bytes_host": 0, "between_s": 0, "posting_s": 0, "waiting_s": 0, "mpi_s": 0}
        return expectation.Demand("MPI_Alltoall", {"ranks": ranks, "name": ""}, counts, 32, None)

    def test_nodes(self):
        self.assertEqual(expectation.nodes_for(32, 1, 32, 0), 2)
        self.assertEqual(expectation.nodes_for(64, 1, 20, 0), 4)
        self.assertEqual(expectation.nodes_for(64, 8, 32, 0), 8)
        self.assertEqual(expectation.nodes_for(7, 2, 32, 0), 7)
        self.assertEqual(expectation.nodes_for(32, 1, 32, 16), 16)
        self.assertRaises(expectation.Refused, expectation.nodes_for, 32, 1, 32, 5)
        self.assertRaises(expectation.Refused, expectation.nodes_for, 1, 1, 32, 0)

    def test_where_ranks_of_smaller_communicators_are(self):
        self.assertEqual(self.demand(32).shape(4, 8), (4, 8, "world"))
        self.assertEqual(self.demand(4).shape(4, 8), (4, 8, "columns"))
        self.assertEqual(self.demand(16).shape(4, 8), (2, 8, "world"))
        self.assertIsNone(self.demand(8).shape(4, 8))
        self.assertIsNone(self.demand(12).shape(4, 8))

    def test_the_error_is_that_of_the_documentation(self):
        text = (SOURCE / "docs" / "simulation.md").read_text().split("## Beside machines that are there")[1].split("\n## ")[0]
        # The last figure before the two of what is hidden.
        errors = [abs(int(one)) / 100 for one in re.findall(r"(?m)^\| \dx\d \|.* \| ([-+]?\d+) % \| \d+ \| \d+ \|$", text)]
        self.assertEqual(len(errors), expectation.ROWS)
        self.assertEqual(sum(one <= expectation.ERROR for one in errors), expectation.NEARER)
        self.assertEqual(sum(one <= expectation.SPREAD for one in errors), expectation.NEAR)
        self.assertEqual(max(errors), expectation.WORST)
