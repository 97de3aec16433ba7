"""The files of deploy/ without what starts them: their commands, with other folders, ports and fewer rounds."""

import configparser
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import unittest

import yaml
from command_line import ENVIRONMENT, SIGNVOTE, Case, contents, main, summary, write_toml
from generated_data import mnist
from processes import run_session
from server_and_workers import Certificates, Program, Server, free_port
from waiting import TIMEOUT

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"
SETTINGS = {"batches": "2x4,24", "rounds": 3, "threads": 1}
ON_THE_PATH = {**ENVIRONMENT, "PATH": f"{pathlib.Path(SIGNVOTE).parent}:{os.environ['PATH']}"}


class Started(Server):
    """A server or worker with the arguments that a file of deploy/ gives it."""

    def __init__(self, name, folder, arguments, state, port=None):
        Program.__init__(self, name, folder)
        self.given = arguments
        self.state = state
        self.port = port

    def arguments(self):
        return self.given


class Deploy(Case):
    def test_the_commands_of_compose_train_together(self):
        services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
        self.assertEqual(services.keys(), {"keys", "data", "server", "worker-0", "worker-1", "worker-2"})
        port = free_port()

        def here(text, service):
            text = text.replace("/keys", f"{self.folder}/keys").replace("--host server", "--host localhost")
            text = text.replace("server:7000", f"localhost:{port}").replace("0.0.0.0:7000", f"127.0.0.1:{port}")
            text = re.sub("^/data$", str(mnist()), text)
            return re.sub("^/state", f"{self.folder}/{service}", text)

        (script,) = services["keys"]["command"]
        shell = [*services["keys"]["entrypoint"], here(script, "keys").replace("$$", "$")]
        made_before = {}
        for lost in ("server", "worker-1", None):  # all is made once, also if the first start was cut off
            made = subprocess.run(shell, env=ON_THE_PATH, text=True, capture_output=True, timeout=TIMEOUT)
            self.assertEqual(made.returncode, 0, made.stderr)
            keys = contents(self.folder / "keys")
            self.assertEqual(keys, {**keys, **made_before})
            made_before = {name: key for name, key in keys.items() if lost is None or not name.startswith(lost)}
            if lost:
                (self.folder / f"keys/{lost}.pem").unlink()
        self.assertEqual(services["data"]["command"][:3], ["data", "fetch", "mnist"])

        programs = []
        for name in ("server", "worker-0", "worker-1", "worker-2"):
            arguments = [here(word, name) for word in services[name]["command"]]
            arguments = ["3" if word == "300" else word for word in arguments]
            if name == "server":
                self.assertIn("8,8,240", arguments)
                arguments[arguments.index("8,8,240")] = "4,4,24"
            program = Started(name, self.folder, arguments, self.folder / name / "run", port)
            self.addCleanup(program.close)
            program.start(ready=name == "server")
            programs.append(program)
        for program in programs:
            self.assertEqual(program.wait(), 0, program.tail())
        self.assertEqual(summary(self.folder / "server/run")["rounds"], 3)

    def test_the_service_serves_and_ends_as_systemd_expects(self):
        unit = configparser.RawConfigParser(strict=False, delimiters="=", comment_prefixes="#")
        unit.optionxform = str
        unit.read_string(re.sub(r"\\\n\s*", "", (DEPLOY / "signvote-server@.service").read_text()))
        service = unit["Service"]
        certificates = Certificates(self.folder / "credentials", [])
        write_toml(self.folder / "run.toml", {**SETTINGS, "data": mnist()})
        port = free_port()
        command = service["ExecStart"]
        for name, value in {
            "/etc/signvote/%i/run.toml": self.folder / "run.toml",
            "%S": self.folder,
            "%d": certificates.folder,
            "%i": "digits",
            "${LISTEN}": f"127.0.0.1:{port}",
            "$FLAGS": "--quorum 2/3 --deadline 30s",
        }.items():
            command = command.replace(name, str(value))
        self.assertNotRegex(command, "[%$]")
        program, *arguments = shlex.split(command)
        self.assertEqual(program, "signvote")
        server = Started("server", self.folder, arguments, self.folder / "signvote/digits", port)
        self.addCleanup(server.close)
        server.start()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(), int(service["SuccessExitStatus"]), server.tail())

    def test_the_batch_script_trains_and_goes_on(self):
        if not shutil.which("mpirun"):
            self.skipTest("there is no mpirun")
        tools = self.folder / "tools"
        tools.mkdir()
        srun = tools / "srun"
        srun.write_text('#!/bin/sh\nshift 2\nexec mpirun -n 2 --oversubscribe --bind-to none "$@" </dev/null\n')
        srun.chmod(0o755)
        out = self.folder / "run"
        environment = {
            **ON_THE_PATH,
            "OUT": str(out),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        environment["PATH"] = f"{tools}:{environment['PATH']}"
        command = ["bash", DEPLOY / "train.sbatch", "--data", mnist(), "--batches", "2x4,24", "--rounds", 2]
        first = run_session(command, timeout=TIMEOUT, env=environment)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(summary(out)["rounds"], 2)
        again = run_session(command, timeout=TIMEOUT, env=environment)  # goes on with the same run
        self.assertIn("has finished its 2 rounds", again.stderr)
        for file in out.iterdir():  # as when a node fails before the first save
            if file.name != "config.toml":
                file.unlink()
        anew = run_session(command, timeout=TIMEOUT, env=environment)
        self.assertEqual(anew.returncode, 0, anew.stderr)
        self.assertEqual(summary(out)["rounds"], 2)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_systemd_knows_every_word_of_the_service(self):
        """But for the program and its page, which are not installed here."""
        unit = self.folder / "signvote-server@.service"
        text = (DEPLOY / unit.name).read_text()
        unit.write_text(text.replace("=signvote ", f"={SIGNVOTE} ").replace("Documentation=", "#"))
        result = subprocess.run(["systemd-analyze", "verify", unit], text=True, capture_output=True, timeout=TIMEOUT)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    main()
