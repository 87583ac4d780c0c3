"""A rank dies under an MPI that goes on without it (Open MPI 5, --with-ft ulfm): nobody waits for it."""

import json

import job


class Dead(job.JobTest):
    FAULT_TOLERANT = ["--with-ft", "ulfm"]

    def test_the_others_go_on(self):
        stats = self.folder / "stats.json"
        running = job.Job(self, 3, [self.program("dead_member")], before=self.FAULT_TOLERANT, LONGSHORE_STATS=stats)
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.assertIn("dead_member: ok\n", running.output)
        self.assertEqual(running.output.count("the job runs with plain MPI"), 1, running.output)
        # One of three is gone, so the keeper writes what each has counted.
        self.wait_for(stats.exists, running.describe)
        counted = json.loads(stats.read_text())
        self.assertFalse(counted["complete"])
        calls = {name: (call["calls"], call["reasons"]) for name, call in counted["collectives"].items()}
        self.assertEqual(calls, {"MPI_Allgather": (5, {"offload off": 5}), "MPI_Ialltoall": (2, {"offload off": 2})})
        self.check_nothing_left()

    def test_not_said_where_offload_is_off(self):
        running = job.Job(self, 3, [self.program("dead_member")], before=self.FAULT_TOLERANT, LONGSHORE_OFFLOAD="off")
        self.assertEqual(running.wait(job.BUSY_S), 0, running.describe())
        self.assertNotIn("longshore:", running.output)
        self.check_nothing_left()
