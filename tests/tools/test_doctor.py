"""longshore doctor: its verdicts, its exit code, its JSON."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading

from support import COMMAND, CommandTest, write_program


class Doctor(CommandTest):
    def checks(self, expect, **environment):
        whole = json.loads(self.longshore("doctor", "--json", expect=expect, **environment).stdout)
        self.assertEqual(whole["ok"], expect == 0)
        return {check["name"]: check for check in whole["checks"]}

    def mpis(self, **environment):
        """Of each MPI its verdict, what was found and the advice."""
        whole = json.loads(self.longshore("doctor", "--json", expect=None, **environment).stdout)
        return [(one["verdict"], one["found"], one["advice"]) for one in whole["checks"] if one["name"] == "mpi"]

    def install_all(self):
        self.make_shim()
        for flavour in ["openmpi", "mpich"]:
            (self.root / "lib" / f"liblongshore-{flavour}.so").touch()
        write_program(self.root / "lib" / "longshored", "#!/bin/sh\n")
        self.install_mpirun("tools/mpirun", "mpirun (Open MPI) 9.8.7")
        return {"PATH": f"{self.root}/tools"}

    def install_mpirun(self, path, version):
        write_program(self.root / path, f"#!/bin/sh\necho '{version}'\n")
        return self.root / path

    def test_missing_parts_fail_and_say_what_to_do(self):
        checks = self.checks(1)
        for name in ["shim", "longshored"]:
            self.assertEqual(checks[name]["verdict"], "fail")
            self.assertIn("install Longshore again", checks[name]["advice"])

    def test_parts_that_are_there_pass(self):
        environment = self.install_all()
        if not self.kernel_is_able():
            self.skipTest("SKIP: this sandbox refuses what doctor checks")
        checks = self.checks(0, **environment)
        self.assertEqual(checks["mpi"]["found"], "Open MPI 9.8.7 (mpirun): liblongshore-openmpi.so")
        self.assertIn("liblongshore-mpich.so", checks["shim"]["found"])

    def test_the_network_is_wanted_but_not_needed(self):
        environment = self.install_all()
        network = self.checks(0, **environment)["network"]
        self.assertEqual(network["verdict"], "warn")
        self.assertIn("plain MPI", network["found"])
        self.assertIn("libssl-dev", network["advice"])
        self.assertIn("LONGSHORE_UCX_ROOT", self.checks(0, **environment, LONGSHORE_NETWORK="ucx")["network"]["advice"])
        part = self.root / "lib" / "longshore-tcp.so"
        part.write_text("not a library")
        self.assertEqual(self.checks(0, **environment)["network"]["verdict"], "warn")
        self.assertNotIn("tcp", self.checks(0, **environment)["shim"]["found"])

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

    def test_each_mpi_and_the_cores_that_serve_it(self):
        environment = self.install_all()
        # Beside the command, where 'make mpis' puts it, and with the library of the common ABI.
        hydra = "HYDRA build details:\n    Version:            7.8.9"
        current = self.install_mpirun("mpi5/mpich/bin/mpirun", hydra)
        (self.root / "tools" / "mpirun.openmpi").symlink_to("mpirun")
        self.install_mpirun("tools/mpirun.mpich", "Fast MPI 1.0")
        self.assertEqual(self.mpis(**environment), [
            ("ok", "Open MPI 9.8.7 (mpirun, mpirun.openmpi): liblongshore-openmpi.so", ""),
            ("warn", "Fast MPI 1.0 (mpirun.mpich): no shim", "its programs run without offload; Longshore serves "
             "Open MPI 4 and 5, MPICH 4 and 5, and the MPI-5 ABI"),
            ("ok", f"MPICH 7.8.9 ({current}): liblongshore-mpich.so", "")])
        (self.root / "mpi5" / "mpich" / "lib").mkdir()
        (self.root / "mpi5" / "mpich" / "lib" / "libmpi_abi.so.1").touch()
        both = f"MPICH 7.8.9 ({current}): liblongshore-mpich.so, liblongshore-abi.so"
        verdict, found, advice = self.mpis(**environment)[-1]
        self.assertEqual((verdict, found), ("warn", f"{both} (missing) for programs of mpicc_abi"))
        self.assertIn("install Longshore again, from a build that had MPICH 5", advice)
        (self.root / "CMakeCache.txt").touch()  # where it was built
        verdict, found, advice = self.mpis(**environment)[-1]
        self.assertEqual((verdict, found), ("warn", f"{both} (not built) for programs of mpicc_abi"))
        self.assertIn("make mpis build", advice)
        (self.root / "lib" / "liblongshore-abi.so").touch()
        self.assertEqual(self.mpis(**environment)[-1], ("ok", f"{both} for programs of mpicc_abi", ""))

    def test_an_mpi_without_its_part_of_the_shim_is_a_warning(self):
        environment = self.install_all()
        self.install_mpirun("tools/mpirun.mpich", "HYDRA build details:\n    Version: 7.8.9")
        (self.root / "lib" / "liblongshore-mpich.so").unlink()
        verdict, found, advice = self.mpis(**environment)[-1]
        self.assertEqual((verdict, found), ("warn", "MPICH 7.8.9 (mpirun.mpich): liblongshore-mpich.so (missing)"))
        self.assertEqual(advice, "its programs run without offload; install Longshore again, from a build that had this MPI's headers")

    def test_bad_settings_fail(self):
        environment = self.install_all()
        checks = self.checks(1, LONGSHORE_SERVICE_CUONT="2", **environment)
        self.assertIn("LONGSHORE_SERVICE_COUNT", checks["settings"]["found"])

    def test_a_named_service_must_exist(self):
        environment = self.install_all()
        checks = self.checks(1, LONGSHORE_SERVICE_PATH="/nowhere/longshored", **environment)
        self.assertIn("LONGSHORE_SERVICE_PATH", checks["longshored"]["advice"])

    def dpu(self, setting, **environment):
        checks = json.loads(self.longshore("doctor", "--json", expect=None, LONGSHORE_DPU=setting, **environment).stdout)
        return {check["name"]: check for check in checks["checks"]}["dpu"]

    def test_a_dpu_is_asked_where_one_is_named(self):
        self.assertNotIn("dpu", self.checks(1))
        check = self.dpu("nobody=dpu")
        self.assertEqual(check["verdict"], "fail")
        self.assertIn("names no DPU for the host", check["found"])
        with socket.create_server(("127.0.0.1", 0)) as listener:
            at = f"127.0.0.1:{listener.getsockname()[1]}"
            # It takes the connection and says nothing.
            self.assertEqual(self.dpu(at, LONGSHORE_LIMIT_S="1")["found"], f"{at}: no answer within 1 s (LONGSHORE_LIMIT_S)")
        check = self.dpu(at)
        self.assertEqual((check["verdict"], check["found"]), ("fail", f"{at}: Connection refused"))
        self.assertIn("longshored listen", check["advice"])

    def test_what_is_no_dpu_is_told_from_one(self):
        for said in (b"SSH-2.0-OpenSSH_9.2\r\n", b""):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                def answer():
                    with listener.accept()[0] as connection:
                        connection.sendall(said)
                        connection.shutdown(socket.SHUT_WR)
                        connection.recv(100)
                server = threading.Thread(target=answer)
                server.start()
                check = self.dpu(f"127.0.0.1:{listener.getsockname()[1]}")
                server.join()
            self.assertIn("no longshored of this version", check["found"])
            self.assertIn("install the same Longshore", check["advice"])

    def test_a_dpu_that_takes_ranks(self):
        program = pathlib.Path(COMMAND).parent / "longshored"
        for allow, verdict in (("127.0.0.0/8", "ok"), ("10.0.0.0/8", "fail")):
            config = self.root / "longshored.conf"
            config.write_text(f"address = 127.0.0.1\nport = 0\nallow = {allow}\n")
            with subprocess.Popen([program, "listen", "--config", config], stderr=subprocess.PIPE, text=True) as service:
                port = service.stderr.readline().rsplit(":", 1)[1].strip()
                check = self.dpu(f"127.0.0.1:{port}")
                service.terminate()
                service.communicate(timeout=60)
            self.assertEqual(check["verdict"], verdict, check)
            self.assertIn("takes ranks of" if verdict == "ok" else "`allow` of the DPU's service", check["found"])

    def test_how_a_dpu_would_reach_memory(self):
        build = pathlib.Path(COMMAND).parent.parent
        parts = [(build / "lib/longshore-ucx.so", "", "exports no memory"),
                 (build / "tests/dpu/ucx-exports.so", "exports memory here", "")]
        with subprocess.Popen([build / "bin/longshored", "listen", "--address", "127.0.0.1", "--port", "0"],
                              stderr=subprocess.PIPE, text=True) as service:
            at = f"127.0.0.1:{service.stderr.readline().rsplit(':', 1)[1].strip()}"
            for part, can, cannot in filter(lambda row: row[0].exists(), parts):
                for mode in ("auto", "direct", "staging"):
                    with self.subTest(part=part.name, mode=mode):
                        check = self.dpu(at, LONGSHORE_INTERNAL_NETWORK=str(part), LONGSHORE_MEMORY_MODE=mode,
                                         LONGSHORE_UCX_TLS="tcp,self")
                        self.assertIn("takes ranks of", check["found"])
                        self.assertEqual(check["verdict"], "fail" if mode == "direct" and cannot else "ok", check)
                        self.assertIn("LONGSHORE_MEMORY_MODE=staging" if mode == "staging" else can or cannot, check["found"])
                        if mode == "auto" and cannot:
                            self.assertRegex(check["found"], r"UCX \d+\.\d+")
            service.terminate()
            service.communicate(timeout=60)

    def test_an_allocator_that_is_preloaded(self):
        library = self.root / "allocator.so"
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", library], check=True,
                       input=b"void* __libc_malloc(unsigned long); void* malloc(unsigned long n) { return __libc_malloc(n); }")
        check = self.checks(1, LD_PRELOAD=str(library))["shared blocks"]
        self.assertEqual(check["verdict"], "warn", check)
        self.assertIn(f"malloc is that of {library}, whose blocks are not shared", check["found"])
        self.assertIn("LD_PRELOAD", check["advice"])
        self.assertNotIn("malloc", self.checks(1)["shared blocks"]["found"])
        # Longshore's own library shows a malloc, too.
        shutil.copy(library, self.root / "liblongshore.so")
        self.assertNotIn("malloc", self.checks(1, LD_PRELOAD=str(self.root / "liblongshore.so"))["shared blocks"]["found"])

    def test_every_line_has_a_verdict(self):
        checks = self.checks(1)
        for name in ["machine", "cores", "mpi", "shim", "longshored", "settings", "peer copy", "shared blocks", "memfd", "memory",
                     "limits", "unix sockets", "futex", "pidfd", "idle class"]:
            self.assertIn(checks[name]["verdict"], ["ok", "warn", "fail"])
            self.assertNotEqual(checks[name]["found"], "")
            self.assertEqual(checks[name]["advice"] == "", checks[name]["verdict"] == "ok", name)
        text = self.longshore("doctor", expect=1).stdout
        for name in checks:
            self.assertRegex(text, rf"(?m)^(ok|warn|fail) +{name} ")
        self.assertIn("Longshore will not work here", text)
        self.assertRegex(text, r"\d+ failed, \d+ warnings?\n")
        self.assertEqual(text.endswith(" 1 warning\n"), text.count("\nwarn ") == 1, text)
