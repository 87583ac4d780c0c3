"""How programs begin and end under Longshore: without MPI_Finalize, by MPI_Abort, with calls open, with children of
their own, as a plug-in, by another job; and what thousands of communicators leave behind. Nothing may hang, and no
process and no memory may stay."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest
import unittest.mock

import job
from processes import state_of, stop

BELIEVES = "OMPI_MCA_orte_allowed_exit_without_sync"
LIMIT_S = 100  # on a machine that is busy with other things


class Life(job.JobTest):
    def life(self, how, *more, ranks=2, code=0, **settings):
        """The job that ended so; code None: with or without an error."""
        self.stats = self.folder / f"stats-{how}.json"
        running = job.Job(self, ranks, [self.program("life"), how, *more], LONGSHORE_STATS=self.stats, **settings)
        status = running.wait(LIMIT_S)
        self.assertIsNotNone(status, "does not end: " + running.describe())
        if code is not None:
            self.assertEqual(bool(status), bool(code), running.describe())
        return running

    def offloaded(self):
        with open(self.stats, encoding="utf-8") as file:
            return sum(call["offloaded"] for call in json.load(file)["collectives"].values())

    def plain(self, how):
        """Whether the program ends with an error without Longshore."""
        done = subprocess.run([*job.mpirun(2), self.program("life"), how], capture_output=True, timeout=LIMIT_S)
        return done.returncode != 0

    def test_what_fails_on_one_rank_ends_the_job(self):
        """Its peers have begun to wait for it by then."""
        for what in ("context", "group"):
            with self.subTest(what=what):
                running = self.life("attribute", code=1, LONGSHORE_INTERNAL_FAIL=f"{what}:1")
                self.assertRegex(running.output, "longshore: rank 1 has no memory .*the job ends here")
                self.check_nothing_left()

    def test_never_calls_mpi(self):
        running = self.life("never", ranks=1)
        self.assertIn("life: ok", running.output)
        self.check_nothing_left()

    def test_exit_without_finalize(self):
        """Here the launcher looks, too, as it does where ctest does not tell it otherwise (cmake/test_environment.cmake)."""
        with unittest.mock.patch.dict(os.environ, {BELIEVES: "0"}):
            running = self.life("exit", code=None)
        if job.FLAVOUR == "openmpi":
            self.assertIn("exiting improperly. There are three reasons", running.output)
            self.assertEqual(running.wait(0), 1)
        self.check_nothing_left()

    @unittest.skipIf(job.FLAVOUR != "openmpi", "another MPI's launcher")
    def test_exit_codes_are_believed_by_a_launcher_that_does_not_hear_of_finalize(self):
        """It gets no core while ranks wait for its answer, which they do for 2 s."""
        with unittest.mock.patch.dict(os.environ, {BELIEVES: "1"}):
            running = job.Job(self, 2, [self.program("guest")], preload=(job.BUILD / "tests/mpi/openmpi/libmpi_held_finalize.so", job.SHIM),
                              HELD_FINALIZE=self.folder)
        self.wait_for(lambda: len(list(self.folder.glob("held.*"))) == 2, running.describe)
        stop(running.process.pid)
        ranks = [pathlib.Path("/proc") / file.suffix[1:] for file in self.folder.glob("held.*")]
        (self.folder / "go").touch()
        self.wait_for(lambda: all(state_of(rank) in "ZX" for rank in ranks), running.describe)
        os.kill(running.process.pid, signal.SIGCONT)
        self.assertEqual(running.wait(LIMIT_S), 0, running.describe())
        self.assertIn("guest: ok", running.output)
        self.check_nothing_left()

    def test_abort(self):
        self.life("abort", code=1)
        self.check_nothing_left()

    def test_init_twice(self):
        self.life("twice", code=self.plain("twice"))
        self.check_nothing_left()

    def test_finalize_with_a_call_that_is_over(self):
        self.assertIn("life: ok", self.life("pending").output)
        self.check_nothing_left()

    def test_finalize_with_a_call_that_never_ends(self):
        self.life("never entered", code=None, LONGSHORE_LIMIT_S="1")
        self.check_nothing_left()

    def test_levels_and_late_callbacks(self):
        for how in ("serialized", "attribute"):
            self.assertIn("life: ok", self.life(how).output)
            self.assertGreater(self.offloaded(), 0)
        self.check_nothing_left()

    def test_children(self):
        running = self.life("children")
        self.assertIn("life: ok", running.output)
        self.assertNotIn("longshore", running.output)
        self.assertGreater(self.offloaded(), 0)
        self.check_nothing_left()

    def check_services_go(self, how):
        """A child that lives on, a copy of a rank, keeps no service process."""
        seen = self.folder / "seen"
        running = job.Job(self, 2, [self.program("life"), how, "600", seen])
        self.wait_for(self.services, running.describe)
        seen.touch()
        self.wait_for(lambda: not self.services() and not self.services(b"supervisor"), "service processes end")
        self.wait_for(lambda: len(self.ranks("life")) == 2, "only the children are left")
        self.end_everything()
        self.assertIsNotNone(running.wait(LIMIT_S))

    def test_a_child_lives_on(self):
        self.check_services_go("leaves a child")

    def test_a_child_lives_on_and_the_rank_just_exits(self):
        self.check_services_go("leaves a child and exits")

    def test_shell_with_the_shim(self):
        line = "echo one | cat; (exit 3); echo $?; true && echo two"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=LIMIT_S,
                              env=os.environ | {"LD_PRELOAD": str(job.BUILD / "lib" / "liblongshore.so")})
        self.assertEqual((done.stdout, done.stderr), ("one\n3\ntwo\n", ""))

    def test_plug_in(self):
        host = job.BUILD / "tests" / "mpi" / "plug_in_host"
        plug_in = self.program("plug_in").with_suffix(".so")
        for scope in ("local", "global"):
            with self.subTest(scope=scope):
                self.stats = self.folder / f"stats-{scope}.json"
                running = job.Job(self, 2, [host, plug_in, scope], LONGSHORE_STATS=self.stats)
                self.assertEqual(running.wait(LIMIT_S), 0, running.describe())
                self.assertIn("plug_in: ok", running.output)
                self.assertGreater(self.offloaded(), 0, running.describe())
        self.check_nothing_left()

    def test_a_program_opens_its_mpi_in_any_way(self):
        """By its name, its path, a link without a version (as mpi4py's wheels do), or a copy with another name."""
        host = job.BUILD / "tests" / "mpi" / "plug_in_host"
        plug_in = self.program("plug_in").with_suffix(".so")
        ldd = subprocess.run(["ldd", plug_in], capture_output=True, text=True, check=True).stdout
        name, path = re.search(r"(libmpi[a-z_]*\.so[.\d]*) => (\S+)", ldd).groups()
        link, copy = self.folder / re.sub(r"\.so.*", ".so", name), self.folder / "solver_mpi.so.7"
        link.symlink_to(path)
        shutil.copy(path, copy)
        for library in (name, path, link, copy):
            for scope in ("local", "global"):
                with self.subTest(library=library, scope=scope):
                    self.stats = self.folder / f"stats-{scope}.json"
                    running = job.Job(self, 2, [host, plug_in, scope, library], LONGSHORE_STATS=self.stats)
                    self.assertEqual(running.wait(LIMIT_S), 0, running.describe())
                    self.assertIn("plug_in: ok", running.output)
                    self.assertGreater(self.offloaded(), 0, running.describe())
                    self.stats.unlink()
        self.check_nothing_left()

    def test_spawn(self):
        plain = subprocess.run([*job.mpirun(2), self.program("spawn"), "2"], capture_output=True, text=True,
                               timeout=LIMIT_S)
        if plain.returncode != 0:
            self.skipTest("this MPI starts no other job here: " + (plain.stderr or plain.stdout)[:200])
        # The launcher's own environment has the shim, so the new job's processes have it too.
        stats = self.folder / "stats.json"
        running = subprocess.run(
            [*job.mpirun(2), self.program("spawn"), "2"], capture_output=True, text=True, timeout=LIMIT_S,
            env=os.environ | job.DIRECT | {
                "LD_PRELOAD": str(job.BUILD / "lib" / "liblongshore.so"), job.MARK: self.folder.name,
                "LONGSHORE_SERVICE_PATH": str(self.longshored), "LONGSHORE_STATS": str(stats)})
        self.assertEqual(running.returncode, 0, running.stdout + running.stderr)
        self.assertIn("spawn: ok", running.stdout)
        self.assertIn("spawned: ok", running.stdout)
        self.check_nothing_left()

    def test_programs_that_start_slowly(self):
        """As from a network file system: longer than anything that runs may take to answer."""
        slow = self.folder / "slow"
        slow.write_text(f'#!/bin/sh\nsleep 4\nexec {self.longshored} "$@"\n')
        slow.chmod(0o755)
        self.life("children", LONGSHORE_SERVICE_PATH=str(slow), LONGSHORE_LIMIT_S="3")
        self.assertGreater(self.offloaded(), 0)
        self.check_nothing_left()

    def test_which_mpi_is_said_when_it_is_known(self):
        """Once, where 'longshore run' could not see it."""
        running = self.life("twice", code=None, LONGSHORE_INTERNAL_SAY_MPI="1")
        self.assertEqual(len(re.findall(r"(?m)^longshore: the program uses lib\S+: shim liblongshore-\w+\.so$", running.output)), 1,
                         running.describe())

    def test_communicators_leave_nothing(self):
        # MPICH's ranks spin while the supervisor wants to answer: fewer.
        shapes = ((2, 1, 1000), (2, 2, 200)) if job.FLAVOUR == "mpich" else ((2, 1, 10_000), (4, 2, 500))
        for ranks, nodes, cycles in shapes:
            running = job.Job(self, ranks, [self.program("growth"), self.longshored, cycles], nodes=nodes)
            self.assertEqual(running.wait(LIMIT_S), 0, running.describe())
            print("".join(line + "\n" for line in running.output.splitlines() if line.startswith("growth: ")), end="")
        self.check_nothing_left()
