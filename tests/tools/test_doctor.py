"""longshore doctor: its verdicts, its exit code, its JSON."""

import json
import unittest

from support import CommandTest, write_program


class Doctor(CommandTest):
    def checks(self, expect, **environment):
        whole = json.loads(self.longshore("doctor", "--json", expect=expect, **environment).stdout)
        self.assertEqual(whole["ok"], expect == 0)
        return {check["name"]: check for check in whole["checks"]}

    def install_all(self):
        self.make_shim()
        for flavour in ["openmpi", "mpich"]:
            (self.root / "lib" / f"liblongshore-{flavour}.so").touch()
        write_program(self.root / "lib" / "longshored", "#!/bin/sh\n")
        write_program(self.root / "tools" / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 9.8.7'\n")
        return {"PATH": f"{self.root}/tools:/usr/bin:/bin"}

    def test_missing_parts_fail_and_say_what_to_do(self):
        checks = self.checks(1)
        for name in ["shim", "longshored"]:
            self.assertEqual(checks[name]["verdict"], "fail")
            self.assertIn("make build", checks[name]["advice"])

    def test_parts_that_are_there_pass(self):
        environment = self.install_all()
        if not self.kernel_is_able():
            self.skipTest("SKIP: this sandbox refuses what doctor checks")
        checks = self.checks(0, **environment)
        self.assertIn("Open MPI 9.8.7", checks["mpi"]["found"])
        self.assertIn("liblongshore-mpich.so", checks["shim"]["found"])

    def kernel_is_able(self):
        whole = json.loads(self.longshore("doctor", "--json", expect=None).stdout)
        checks = {check["name"]: check for check in whole["checks"]}
        return all(checks[name]["verdict"] != "fail" for name in checks if name not in ["mpi", "shim", "longshored"])

    def test_no_mpi_fails(self):
        checks = self.checks(1, PATH="/nowhere")
        self.assertEqual(checks["mpi"]["verdict"], "fail")

    def test_a_shim_that_does_not_load_fails(self):
        environment = self.install_all()
        self.shim.write_text("not a library")
        self.assertEqual(self.checks(1, **environment)["shim"]["verdict"], "fail")

    def test_an_mpi_without_its_part_of_the_shim_is_a_warning(self):
        environment = self.install_all()
        write_program(self.root / "tools" / "mpirun.mpich", "#!/bin/sh\n")
        (self.root / "lib" / "liblongshore-mpich.so").unlink()
        whole = json.loads(self.longshore("doctor", "--json", expect=None, **environment).stdout)
        check = next(check for check in whole["checks"] if check["name"] == "shim")
        self.assertEqual(check["verdict"], "warn")
        self.assertIn("none for mpich", check["found"])

    def test_bad_settings_fail(self):
        environment = self.install_all()
        checks = self.checks(1, LONGSHORE_SERVICE_CUONT="2", **environment)
        self.assertIn("LONGSHORE_SERVICE_COUNT", checks["settings"]["found"])

    def test_a_named_service_must_exist(self):
        environment = self.install_all()
        checks = self.checks(1, LONGSHORE_SERVICE_PATH="/nowhere/longshored", **environment)
        self.assertIn("LONGSHORE_SERVICE_PATH", checks["longshored"]["advice"])

    def test_every_line_has_a_verdict(self):
        checks = self.checks(1)
        for name in ["machine", "cores", "mpi", "shim", "longshored", "settings", "peer copy", "memfd", "memory",
                     "limits", "unix sockets", "futex", "pidfd", "idle class"]:
            self.assertIn(checks[name]["verdict"], ["ok", "warn", "fail"])
            self.assertNotEqual(checks[name]["found"], "")
            self.assertEqual(checks[name]["advice"] == "", checks[name]["verdict"] == "ok", name)
        text = self.longshore("doctor", expect=1).stdout
        for name in checks:
            self.assertRegex(text, rf"(?m)^(ok|warn|fail) +{name} ")
        self.assertIn("Longshore will not work here", text)


if __name__ == "__main__":
    unittest.main()
