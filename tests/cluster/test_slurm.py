"""Jobs that Slurm starts, on two machines which are namespaces of this one, as its users start them.

LONGSHORE_INTERNAL_TEST_BUILD: the build folder. Skipped, with the reason, where there is no Slurm or no cluster.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cluster  # noqa: E402
import slurm  # noqa: E402
from test_cluster import BUILD, check_carried, collectives, longshore_run, program  # noqa: E402

# Open MPI's ranks yield where its mpirun says so; Slurm does not.
SETTINGS = {"OMPI_MCA_btl_tcp_if_include": "net0", "OMPI_MCA_mpi_yield_when_idle": "1"}
# MPICH 4.0.2 hangs in its own MPI_Finalize now and then; its successor was not seen to.
MPIEXEC = BUILD / "mpi5/mpich/bin/mpiexec"
TEMPLATE = Path(__file__).resolve().parents[2] / "packaging/longshore.sbatch"
MPICH_PROGRAM = BUILD / "tests/mpi/mpich5/mpi_collectives_mpich5"


def setUpModule():
    if problem := cluster.missing() or slurm.missing():
        raise unittest.SkipTest(f"no jobs under Slurm: {problem}")


@unittest.skipUnless((BUILD / "lib/longshore-ucx.so").exists(), "built without UCX")
class TestSlurm(unittest.TestCase):
    def start(self, words, stats):
        """What `longshore run` started under Slurm, and its statistics."""
        with cluster.Cluster(2, offloads=True) as nodes, slurm.Slurm(nodes) as batch:
            settings = [f"{name}={value}" for name, value in SETTINGS.items()]
            done = subprocess.run([*batch.enter(), *settings, *words], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done, json.loads(Path(stats).read_text(encoding="utf-8")) if Path(stats).stat().st_size else None

    def check_offloaded(self, words, ranks=4):
        with tempfile.NamedTemporaryFile() as stats:
            done, said = self.start(words(stats.name), stats.name)
        self.assertIn("collectives: ok", done.stdout)
        self.assertEqual(said["ranks"], ranks)
        check_carried(self, said, 2)

    def test_srun(self):
        """As its users start Open MPI: no daemon of the MPI's, ranks told by PMIx who they are."""
        self.check_offloaded(lambda stats: longshore_run(
            stats, "srun", "-N", 2, "--ntasks-per-node=2", "--mpi=pmix", program("collectives", "openmpi"), 65536))

    def test_mpirun_in_an_allocation(self):
        """Open MPI's mpirun asks Slurm for its nodes, and has srun start its daemons there."""
        self.check_offloaded(lambda stats: ["salloc", "-Q", "-N", "2", "--ntasks-per-node=2", *longshore_run(
            stats, "mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", program("collectives", "openmpi"), 65536)])

    def test_the_template_for_sbatch(self):
        """As it is, but for what it says is to be changed: nodes, ranks of each, program."""
        with tempfile.TemporaryDirectory() as folder, cluster.Cluster(2, offloads=True) as nodes, slurm.Slurm(nodes) as batch:
            own = {"PATH": f"{BUILD}/bin:{os.environ['PATH']}", "PROGRAM": program("collectives", "openmpi")}
            settings = [f"{name}={value}" for name, value in (SETTINGS | collectives.DIRECT | own).items()]
            done = subprocess.run([*batch.enter(), *settings, "sbatch", "--wait", "--parsable", "--ntasks-per-node=2",
                                   f"--chdir={folder}", TEMPLATE],
                                  capture_output=True, text=True, timeout=300, check=False)
            files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}
        self.assertEqual(done.returncode, 0, (done.stderr, files))
        job = done.stdout.strip()
        self.assertEqual(set(files), {f"longshore-{job}.out", f"stats-{job}.json"})
        self.assertIn("collectives: ok", files[f"longshore-{job}.out"])
        said = json.loads(files[f"stats-{job}.json"])
        self.assertEqual(said["ranks"], 4)
        check_carried(self, said, 2)

    def test_assess_in_an_allocation(self):
        """All its runs have the same nodes. These do not see the temporary files of the machine where the command runs."""
        with cluster.Cluster(2, offloads=True) as nodes, slurm.Slurm(nodes) as batch, tempfile.TemporaryDirectory() as folder:
            settings = [f"{name}={value}" for name, value in SETTINGS.items()]
            own = Path(folder) / "own"
            own.mkdir()
            apart = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {own} && TMPDIR={own} exec "$@"', "sh"]
            done = subprocess.run([*batch.enter(), *settings, "salloc", "-Q", "-N", "2", "--ntasks-per-node=1", *apart, BUILD / "bin/longshore",
                                   "assess", "--turns", "1", "--setup", 'echo "in $SLURM_JOB_ID on $SLURM_JOB_NODELIST"',
                                   "srun", "--mpi=pmix", program("at_once", "openmpi")],
                                  cwd=folder, capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual([path.name for path in Path(folder).iterdir()], ["own"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        places = [line for line in done.stderr.splitlines() if line.startswith("in ")]
        self.assertEqual(len(places), 2, done.stderr)
        self.assertRegex(places[0], r"^in \d+ on \S+$")
        self.assertEqual(places[0], places[1])
        self.assertIn("MPI_Init to Finalize", done.stdout)
        self.assertNotIn("waits for an allocation", done.stderr)

    @unittest.skipUnless(MPICH_PROGRAM.exists(), "no MPICH 5 (make mpis)")
    def test_mpiexec_in_an_allocation(self):
        """So does MPICH's."""
        self.check_offloaded(lambda stats: ["salloc", "-Q", "-N", "2", "--ntasks-per-node=1", *longshore_run(
            stats, MPIEXEC, "-iface", "net0", "-n", 2, MPICH_PROGRAM, 65536)], ranks=2)

    @unittest.skipUnless(MPICH_PROGRAM.exists(), "no MPICH 5 (make mpis)")
    def test_pmi2_is_plain_mpi_and_said_once(self):
        """There the ranks cannot find out whether all of them have Longshore."""
        with tempfile.NamedTemporaryFile() as stats:
            done, said = self.start(longshore_run(stats.name, "srun", "-N", 2, "--ntasks-per-node=1", "--mpi=pmi2",
                                                  MPICH_PROGRAM, 65536), stats.name)
        self.assertIn("collectives: ok", done.stdout)
        self.assertEqual(done.stderr.count("the ranks cannot agree through this launcher"), 1, done.stderr)
        self.assertIsNone(said)
