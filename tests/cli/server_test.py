"""`server`, `worker` and `journal` as their users call them: what is refused and how, and what a journal is good for.

That runs end in the same bytes as on other engines is conformance_test.py's; what kills do to them, chaos_test.py's.
"""

import copy
import functools
import io
import json
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request

from command_line import PAPER, SIGNVOTE, Case, contents, main, metrics, run, small, summary, write_toml
from generated_data import mnist
from server_and_workers import Certificates, Server, Worker, free_port
from waiting import TIMEOUT, Over, wait_until, with_enough_rounds

SETTINGS = {
    **PAPER,
    "data": mnist(),
    "batches": "4,6",
    "rounds": 6,
    "initial_rounds": 2,
    "save_every": 2,
    "eval_every": 3,
    "threads": 1,
}
NAMES = ("worker-0", "worker-1")


class NetworkCase(Case):
    def server(self, *flags, settings=SETTINGS, **options):
        server = Server(self.folder, write_toml(self.folder / "run.toml", settings), None, *flags, **options)
        self.addCleanup(server.close)
        return server

    def worker(self, name, server, *flags):
        worker = Worker(name, self.folder, server, None, mnist(), "--threads", 1, *flags)
        self.addCleanup(worker.close)
        return worker

    def finish(self, server, *workers):
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))

    def run_all(self, server):
        server.start()
        self.finish(server, *[self.worker(name, server).start() for name in NAMES])
        return server.state

    def fails(self, code, *arguments, says):
        """As refuse, but for a program that may have logged something first."""
        result = run(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(re.findall("^signvote: ", result.stderr, re.M)), 1, result.stderr)
        last = result.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("signvote: "), result.stderr)
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(str(words), last)

    def model_sha256(self, state, *flags):
        result = self.succeed("journal", state, "model", "--out", self.folder / "model.pt", *flags)
        return re.search(r"^model sha256 +(\w{64})$", result.stdout, re.M)[1]


class ServerFlags(Case):
    def command(self, *flags, listen="127.0.0.1:0", **settings):
        return ["server", *small(**settings), "--listen", listen, "--state", self.folder / "state", *flags]

    def test_flags_that_make_no_sense_are_refused(self):
        key = self.folder / "none.key"
        cases = [
            (["server", *small(), "--state", self.folder / "state", "--insecure"], "--listen is required"),
            (["server", *small(), "--listen", "127.0.0.1:0", "--insecure"], "--state is required"),
            (self.command(), "--cert, --key and --client-ca are needed"),
            (self.command("--cert", key, "--key", key), "--cert, --key and --client-ca are needed"),
            (self.command("--insecure", "--cert", key), "--insecure does without"),
            (self.command("--insecure", "--client-ca", key), "--insecure does without"),
            (self.command("--insecure", "--deadline", "5s"), "--deadline needs a smaller --quorum"),
            (self.command("--insecure", "--quorum", "3/3", "--deadline", "5s"), "--deadline needs a smaller --quorum"),
            (self.command("--insecure", "--quorums", "2/3"), "did you mean --quorum?"),
            (self.command("--insecure", rounds=0), "--rounds is '0'"),
            (self.command("--insecure", listen="127.0.0.1:65535"), "give a --metrics-port"),
        ]
        cases += [
            (self.command("--insecure", "--quorum", quorum), f"--quorum is '{quorum}'; write K/3")
            for quorum in ("0/3", "4/3", "2/4", "x", "2/", "2/3/3")
        ]
        cases += [
            (self.command("--insecure", "--quorum", "2/3", "--deadline", time), f"--deadline is '{time}'; write a time")
            for time in ("s", "0s", "5d", "nan", "1e99h")
        ]
        cases += [
            (self.command("--insecure", "--metrics-port", port), f"--metrics-port is '{port}'; write a port, or off")
            for port in ("x", "65536")
        ]
        cases += [
            (self.command("--insecure", "--keep", keep), f"--keep is '{keep}'; write a whole number")
            for keep in ("-1", "1.5")
        ]
        cases += [
            (self.command("--insecure", listen=listen), f"--listen is '{listen}'")
            for listen in ("localhost", ":7000", "127.0.0.1:65536")
        ]
        self.refuse_each(2, cases)
        self.assertEqual(contents(self.folder), {})

    def test_without_tls_it_listens_only_on_loopback(self):
        self.refuse(2, *self.command("--insecure", listen="0.0.0.0:0"), says=["--listen is '0.0.0.0:0'", "without TLS"])
        self.assertEqual(contents(self.folder), {})

    def test_a_bad_allow_list_is_refused(self):
        (self.folder / "allow.toml").write_text("alice = 0\nbob = 3\n")
        self.refuse(
            2,
            *self.command("--insecure", "--allow", self.folder / "allow.toml"),
            says=["allow.toml:2: 'bob' must be the number of a worker, from 0 to 2"],
        )
        self.refuse(
            2, *self.command("--insecure", "--allow", self.folder / "none.toml"), says=["none.toml", "No such file"]
        )
        self.assertEqual(list(contents(self.folder)), ["allow.toml"])

    def test_data_that_cannot_serve_is_refused(self):
        self.refuse(1, *self.command("--insecure", data=self.folder / "none"), says="signvote data fetch mnist")
        self.refuse(2, *self.command("--insecure", batches="4,501,4"), says="holds only 500 samples")


class Stopped(NetworkCase):
    def test_both_say_the_whole_command_to_go_on(self):
        server = self.server("--quorum", "1/2", settings={**SETTINGS, "rounds": 100_000}).start()
        worker = self.worker(NAMES[0], server).start()
        server.wait_for_rounds(alive=[worker])
        for program in (worker, server):
            program.process.terminate()
            self.assertEqual(program.wait(), 130, program.tail())
            said = program.tail(1).partition("; go on with: ")[2]
            self.assertEqual(shlex.split(said), [SIGNVOTE, *map(str, program.arguments())])


class Certificate(Case):
    """Read and checked before anything else happens."""

    def test_bad_certificates_are_refused(self):
        ours = self.folder / "ours"
        self.succeed("certs", "new-ca", ours)
        self.succeed("certs", "server", ours, "--host", "127.0.0.1")
        self.succeed("certs", "worker", ours, "--name", "worker-0")
        (self.folder / "garbage.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        expired = Certificates(self.folder / "expired", [])
        expired.sign("late", "extendedKeyUsage=clientAuth", days=-1)
        pem, key, authority = ours / "server.pem", ours / "server.key", ours / "ca.pem"
        cases = [
            (pem, self.folder / "none.key", authority, ["none.key", "No such file"]),
            (self.folder / "none.pem", key, authority, ["none.pem", "No such file"]),
            (pem, key, self.folder / "none.pem", ["none.pem", "No such file"]),
            (pem, ours / "worker-0.key", authority, ["worker-0.key"]),
            (key, key, authority, ["server.key"]),
            (self.folder / "garbage.pem", key, authority, ["garbage.pem"]),
            (pem, key, self.folder / "garbage.pem", ["garbage.pem"]),
            (pem, key, key, ["server.key"]),
            (expired.folder / "late.pem", expired.folder / "late.key", authority, ["late.pem", "expired"]),
        ]
        state = self.folder / "state"
        server = ["server", *small(), "--listen", "127.0.0.1:0", "--state", state]
        worker = ["worker", "--connect", "127.0.0.1:1"]
        self.refuse_each(
            1,
            [
                ([*server, "--cert", cert, "--key", private, "--client-ca", ca], says)
                for cert, private, ca, says in cases
            ]
            + [([*worker, "--cert", cert, "--key", private, "--ca", ca], says) for cert, private, ca, says in cases],
        )
        self.assertFalse(state.exists())

    def test_a_key_that_everybody_can_read_is_warned_of_once(self):
        ours = self.folder / "ours"
        self.succeed("certs", "new-ca", ours)
        self.succeed("certs", "worker", ours, "--name", "worker-0")
        key = ours / "worker-0.key"
        worker = ["worker", "--connect", "127.0.0.1:1", "--give-up", "1ms", "--ca", ours / "ca.pem"]
        worker += ["--cert", ours / "worker-0.pem", "--key", key]
        self.assertNotIn("can read the private key", run(*worker).stderr)
        key.chmod(0o644)
        self.assertEqual(run(*worker).stderr.count(f"can read the private key '{key}'; do: chmod 600"), 1)

    def test_a_foreign_server_and_a_stranger_are_refused(self):
        ours = Certificates(self.folder / "ours", [*NAMES, "mallory"])
        foreign = Certificates(self.folder / "foreign", NAMES)
        server = Server(self.folder, write_toml(self.folder / "run.toml", SETTINGS), ours)
        self.addCleanup(server.close)
        server.start()
        connect = ["worker", "--connect", f"127.0.0.1:{server.port}", "--data", mnist()]
        NetworkCase.fails(
            self,
            1,
            *connect,
            *ours.of("worker-0"),
            "--ca",
            foreign.authority,
            says="is not signed by the given authority; check the authority (--ca)",
        )
        NetworkCase.fails(
            self,
            1,
            *connect,
            *ours.of("mallory"),
            "--ca",
            ours.authority,
            says="is this worker's name on the server's allow-list",
        )
        shutil.copy(ours.authority, foreign.authority)  # it trusts the server, but not the other way round
        NetworkCase.fails(
            self,
            1,
            *connect,
            *foreign.of("worker-0"),
            "--ca",
            foreign.authority,
            says="its certificate signed by the server's --client-ca and not expired?",
        )
        wait_until(
            "the refusal", lambda: 'signvote_refused_total{reason="tls_handshake"}' in server.metrics(), alive=[server]
        )
        self.assertGreater(server.metrics()['signvote_refused_total{reason="unknown_worker"}'], 0)

    def test_certificates_are_read_again_when_they_change(self):
        """On both sides, though the authority is another one, too; files that do not fit each other are not used."""
        old, new = (Certificates(self.folder / name, NAMES) for name in ("old", "new"))
        used = {who: copy.copy(old) for who in ("server", "worker-0")}  # each reads its own files
        for who, certificates in used.items():
            certificates.folder = self.folder / f"{who}-keys"
            shutil.copytree(old.folder, certificates.folder)

        def replace(who, *files):
            for file in files:
                shutil.copy(new.folder / file, self.folder / "fresh")
                (self.folder / "fresh").rename(used[who].folder / file)

        server = Server(self.folder, write_toml(self.folder / "run.toml", SETTINGS), used["server"])
        first = Worker("worker-0", self.folder, server, used["worker-0"], mnist(), "--threads", 1)
        second = Worker("worker-1", self.folder, server, new, mnist(), "--threads", 1)
        for program in (server, first, second):
            self.addCleanup(program.close)

        def logged(program, words):
            wait_until(words, lambda: words in program.log.read_text(), alive=[server, first])

        server.start()
        first.start()
        logged(server, "worker-0 (")  # and then the round waits for worker-1
        replace("worker-0", "worker-0.key", "worker-0.pem", "ca.pem")
        replace("server", "server.key")
        logged(server, "the changed certificates are not used: ")
        replace("server", "server.pem", "ca.pem")
        logged(server, "the certificates were changed; listens anew")
        second.start()
        NetworkCase.finish(self, server, first, second)
        self.assertIn("the certificates were changed", first.log.read_text())
        self.assertEqual(summary(server.state)["model_sha256"], self.sha256("local", **SETTINGS))


class WorkerFlags(Case):
    def test_flags_that_make_no_sense_are_refused(self):
        def command(*flags, connect="127.0.0.1:7000"):
            return ["worker", "--connect", connect, *flags]

        plain = ["--insecure", "--name", "worker-0"]
        cases = [
            (["worker", *plain], "--connect is required"),
            (command(), "--cert, --key and --ca are needed"),
            (command("--insecure"), "--insecure needs a --name"),
            (command(*plain, "--ca", "ca.pem"), "--insecure does without"),
            (command(*plain, "--batch", "auto"), "--batch auto needs a --round-time"),
            (command(*plain, "--round-time", "5s"), "--round-time needs --batch auto"),
            (command(*plain, "--batch", 4, "--round-time", "5s"), "--round-time needs --batch auto"),
            (command(*plain, "--batch", "auto", "--round-time", "soon"), "--round-time is 'soon'"),
            (command(*plain, "--give-up", "never"), "--give-up is 'never'"),
            (command(*plain, "--threads", -1), "--threads"),
            (command(*plain, "--rounds", 3), "unknown flag '--rounds'"),
            (command(*plain, connect="127.0.0.1:0"), "give the server's port"),
            (command(*plain, connect="192.0.2.1:7000"), "without TLS"),
        ]
        cases += [
            (command(*plain, "--batch", batch), f"--batch is '{batch}'; write a number")
            for batch in ("0", "x", "99999999999")
        ]
        cases += [
            (command(*plain, connect=connect), f"--connect is '{connect}'") for connect in ("localhost", "127.0.0.1:x")
        ]
        self.refuse_each(2, cases)


class Meeting(NetworkCase):
    def test_a_worker_gives_up_where_there_is_no_server(self):
        address = f"127.0.0.1:{free_port()}"
        worker = ["worker", "--connect", address, "--insecure", "--name", "worker-0"]
        self.fails(1, *worker, "--give-up", "1ms", says=f"no server at {address}")

    def test_a_batch_that_the_worker_does_not_have_is_refused(self):
        server = self.server().start()
        self.fails(2, *self.worker("worker-0", server, "--batch", 751).arguments(), says="holds only 750 samples")
        self.assertTrue(server.running())

    def test_ports_and_folders_in_use_are_refused(self):
        first = self.server().start()
        config = write_toml(self.folder / "run.toml", SETTINGS)
        again = ["server", "--config", config, "--insecure", "--listen"]
        elsewhere = ["--state", self.folder / "elsewhere"]
        self.fails(1, *again, f"127.0.0.1:{first.port}", *elsewhere, says=[f"127.0.0.1:{first.port}", "in use"])
        metrics = ["127.0.0.1:0", "--metrics-port", first.metrics_port]
        says = [f"127.0.0.1:{first.metrics_port}", "in use", "--metrics-port"]
        self.fails(1, *again, *metrics, *elsewhere, says=says)
        self.fails(1, *again, "127.0.0.1:0", "--state", first.state, says=[first.state])
        self.assertTrue(first.running())

    def test_metrics_and_health_can_be_read_while_it_runs(self):
        server = self.server().start()
        address = f"http://127.0.0.1:{server.metrics_port}"
        with urllib.request.urlopen(f"{address}/healthz", timeout=TIMEOUT) as answer:
            self.assertEqual((answer.status, answer.read()), (200, b"ok\n"))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/elsewhere", timeout=TIMEOUT)
        self.assertEqual(refused.exception.code, 404)
        before = server.metrics()
        self.assertNotIn("signvote_test_accuracy", before)  # there was no test
        for name in ("round", "workers_connected", "ballots_total", "refused_total"):
            self.assertEqual(before[f"signvote_{name}"], 0)
        first = self.worker("worker-0", server).start()
        wait_until("a ballot", lambda: server.metrics()["signvote_ballot_bytes_total"], alive=[server, first])
        now = server.metrics()
        self.assertEqual(now['signvote_ballots_total{result="counted"}'], 1)
        self.assertEqual(now["signvote_workers_connected"], 1)
        self.assertGreater(now["signvote_ballot_bytes_total"], 582_026 / 8 / 4)
        self.assertEqual(now["signvote_round"], 0)  # it waits for both
        self.finish(server, first, self.worker("worker-1", server).start())

    def test_more_connections_than_it_may_have_open_do_not_end_it(self):
        """gRPC then accepts no other, ever: so the server listens anew, and the run goes on."""
        server = self.server(prefix=["prlimit", "--nofile=64:64"]).start()
        crowd = [socket.create_connection((server.host, server.port), TIMEOUT) for _ in range(100)]
        wait_until("it listens anew", lambda: "listens anew" in server.log.read_text(), alive=[server])
        for stranger in crowd:
            stranger.close()
        self.assertIn("(accept_failed)", server.log.read_text())
        self.finish(server, *[self.worker(name, server).start() for name in NAMES])
        self.assertEqual(summary(server.state)["model_sha256"], self.sha256("local", **SETTINGS))

    def test_it_tells_how_many_workers_it_needs(self):
        (self.folder / "allow.toml").write_text("alice = 0\n")
        server = self.server("--allow", self.folder / "allow.toml").start()
        wait_until("it tells", lambda: "names 1 worker, but a round needs 2" in server.log.read_text(), alive=[server])

    def test_metrics_can_be_turned_off(self):
        server = self.server("--metrics-port", "off")
        server.start(ready=False)
        told = wait_until("it listens", server.whereabouts, alive=[server])[1]
        self.assertNotIn("metrics_port", told)

    def test_a_worker_finds_the_batch_that_fits_its_time(self):
        """No machine does 64 samples in a millisecond, and any does them in a day."""
        server = self.server("--own-batches").start()
        hasty = self.worker("worker-0", server, "--batch", "auto", "--round-time", "1ms").start()
        patient = self.worker("worker-1", server, "--batch", "auto", "--round-time", "24h").start()
        self.finish(server, hasty, patient)
        self.assertRegex(hasty.log.read_text(), r"round 1: 64 samples took \S+ s; takes \d+ from now on")
        patient_says = patient.log.read_text()
        self.assertRegex(patient_says, r"round 1: 64 samples took \S+ s; takes 512 from now on")
        self.assertRegex(patient_says, r"round 2: 512 samples took \S+ s; takes 750 from now on")
        self.assertEqual(self.model_sha256(server.state), summary(server.state)["model_sha256"])
        used = summary(server.state)["batches_used"]
        self.assertLess(used[0], 64)
        self.assertGreater(used[1], 64)
        self.assertRegex(server.log.read_text(), "worker-1 votes with 512 samples from round 2 on")

    def test_a_batch_that_the_settings_do_not_say_is_refused(self):
        server = self.server().start()
        other = self.worker("worker-0", server, "--batch", 10)
        self.fails(1, *other.arguments(), says=["a batch of 10 where the settings say", "--own-batches"])
        self.finish(server, *[self.worker(f"worker-{m}", server).start() for m in range(2)])
        self.assertEqual(summary(server.state)["batches_used"], [4, 6])
        self.assertEqual(summary(server.state)["model_sha256"], self.sha256("local", **SETTINGS))


class State(NetworkCase):
    def test_a_finished_run_goes_on_with_more_rounds(self):
        server = self.server(settings={**SETTINGS, "rounds": 3})
        state = self.run_all(server)
        self.assertEqual(summary(state)["rounds"], 3)
        config = self.folder / "run.toml"
        insecure = ["--listen", "127.0.0.1:0", "--state", state, "--insecure"]
        before = contents(state)
        self.refuse(2, "server", "--config", config, *insecure, "--seed", 5, says=[state, "seed = 0, not 5"])
        self.refuse(
            2, "server", "--config", config, *insecure, "--batches", "4,7", says=[state, "batches = 4,6, not 4,7"]
        )
        self.fails(2, "server", "--config", config, *insecure, "--rounds", 2, says="finished 3 rounds already")
        self.assertEqual(contents(state), before)
        server.flags = ("--rounds", 6)
        self.run_all(server)
        self.assertEqual(summary(state)["model_sha256"], self.sha256("local", **SETTINGS))

    def test_a_finished_run_says_so_at_once(self):
        """Nobody has to come: the workers knew the end before the server ended."""
        server = self.server()
        state = self.run_all(server)
        self.assertFalse((state / "server.json").exists())
        before = contents(state)
        again = self.succeed(*server.arguments())
        self.assertIn(f"'{state}' has finished its 6 rounds; give --rounds with a larger number", again.stdout)
        self.assertIn(summary(state)["model_sha256"], again.stdout)
        self.assertNotIn("listens", again.stderr)
        self.assertEqual(contents(state), before)

    def test_a_finished_run_listens_once_more_if_a_worker_does_not_know_the_end(self):
        server = self.server("--quorum", "2/2").start()
        lost, faithful = (self.worker(name, server) for name in NAMES)
        lost.start()
        voted = 'signvote_ballots_total{result="counted"}'
        wait_until("it has voted", lambda: server.metrics().get(voted), alive=[server, lost])
        lost.kill()
        server.kill()
        server.flags = ("--quorum", "1/2")
        self.finish(server.start(), faithful.start())
        self.assertTrue((server.state / "server.json").exists(), server.tail(40))
        again = self.succeed(*server.arguments())
        self.assertIn("has finished its 6 rounds", again.stderr)
        self.assertIn("some workers may not know it yet", again.stderr)
        self.assertFalse((server.state / "server.json").exists(), again.stderr)

    def test_other_rounds_are_refused_if_a_step_would_change(self):
        server = self.server(settings={**SETTINGS, "rounds": 3, "step_schedule": "linear", "weight_decay": 0.1})
        state = self.run_all(server)
        before = contents(state)
        insecure = ["--listen", "127.0.0.1:0", "--state", state, "--insecure"]
        self.fails(2, "server", *insecure, "--rounds", 6, says=["linear", "begin anew with --rounds 6"])
        self.assertEqual(contents(state), before)
        self.assertIn(summary(state)["model_sha256"], self.succeed("journal", state, "verify").stdout)

    def test_folders_of_another_kind_are_refused(self):
        """A folder of `train` is none of a server, and the other way round."""
        out = self.train("run", rounds=1)
        before = contents(out)
        where = ["--listen", "127.0.0.1:0", "--state", out, "--insecure"]
        for settings in ([], small(rounds=1)):
            self.refuse(2, "server", *settings, *where, says=[out, "without a journal"])
        self.assertEqual(contents(out), before)
        self.refuse(2, "journal", out, "verify", says=[out, "without a journal"])
        state = finished_run()
        before = contents(state)
        self.refuse(2, "train", "--resume", state, says="signvote server --help")
        self.refuse(2, "train", *small(), "--out", state, says=[state, "holds a run already"])
        self.assertEqual(contents(state), before)


@functools.cache
def finished_run():
    """The state of one that nobody changes."""
    case = NetworkCase()
    case.folder = pathlib.Path(tempfile.mkdtemp(dir=mnist().parent))
    try:
        return case.run_all(case.server("--quorum", "2/2"))
    finally:
        case.doCleanups()


class Journal(NetworkCase):
    def test_list_tells_the_files_and_rounds(self):
        told = json.loads(self.succeed("journal", finished_run(), "list", "--json").stdout)
        self.assertEqual((told["rounds"], told["oldest"], told["remarks"]), (6, 0, []))
        self.assertEqual(
            [(file["kind"], file["first"], file["last"]) for file in told["files"]],
            [
                ("base", 0, 0),
                ("verdicts", 0, 2),
                ("verdicts", 2, 4),
                ("verdicts", 4, 6),
                ("snapshot", 6, 6),
                ("rounds", 6, 6),
            ],
        )
        for file in told["files"]:
            self.assertEqual((finished_run() / "journal" / file["file"]).stat().st_size, file["bytes"])
        table = self.succeed("journal", finished_run(), "list").stdout
        self.assertIn("6 rounds; models of rounds 0 to 6 can be had", table)
        self.assertIn("verdicts-", table)

    def test_every_past_model_can_be_had(self):
        state = finished_run()
        before = contents(state)
        for rounds in (1, 4, 6):
            self.assertEqual(
                self.model_sha256(state, "--round", rounds),
                self.sha256(f"local-{rounds}", **{**SETTINGS, "rounds": rounds}),
            )
        self.assertEqual((self.folder / "model.pt").read_bytes(), (state / "model.pt").read_bytes())
        self.assertEqual(self.model_sha256(state), summary(state)["model_sha256"])
        self.model_sha256(state, "--round", 0)
        self.refuse(2, "journal", state, "model", "--round", 7, "--out", self.folder / "7.pt", says="from 0 to 6")
        self.assertFalse((self.folder / "7.pt").exists())
        result = self.succeed("journal", state, "verify")
        self.assertIn(summary(state)["model_sha256"], result.stdout)
        self.assertEqual(self.succeed("journal", "verify", state).stdout, result.stdout)
        self.assertEqual(
            self.succeed("journal", "list", state, "--json").stdout,
            self.succeed("journal", state, "list", "--json").stdout,
        )
        self.assertEqual(contents(state), before)

    def test_journal_flags_that_make_no_sense_are_refused(self):
        state = finished_run()
        self.refuse_each(
            2,
            [
                (["journal"], "see signvote journal --help"),
                (["journal", state], "see signvote journal --help"),
                (["journal", state, "verfy"], "did you mean verify?"),
                (["journal", state, "model"], "--out is required"),
                (
                    ["journal", state, "model", "--out", self.folder / "x.pt", "--round", "x"],
                    "--round is 'x'; write a whole number",
                ),
                (
                    ["journal", state, "model", "--out", self.folder / "x.pt", "--round", -1],
                    "--round is '-1'; write a whole number",
                ),
                (["journal", self.folder, "verify"], [self.folder, "holds no run"]),
                (["journal", self.folder / "none", "list"], [self.folder / "none", "holds no run"]),
            ],
        )
        self.refuse(1, "journal", state, "model", "--out", self.folder / "none/x.pt", says="none/x.pt")
        self.assertEqual(contents(self.folder), {})

    def test_damage_is_named(self):
        for kind in ("base", "verdicts", "snapshot"):
            state = self.folder / kind
            shutil.copytree(finished_run(), state)
            (state / "summary.json").unlink()  # as if it had been killed just before its end
            file = sorted((state / "journal").glob(f"{kind}-*"))[-1]
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
            before = contents(state)
            commands = [["verify"], ["list"], ["model", "--out", self.folder / "x.pt"]]
            self.refuse_each(1, [(["journal", state, *words], file.name) for words in commands])
            self.refuse(1, "server", "--listen", "127.0.0.1:0", "--state", state, "--insecure", says=file.name)
            self.assertEqual(contents(state), before)

    def test_a_server_does_not_begin_anew_where_its_snapshot_is_lost(self):
        state = self.folder / "state"
        shutil.copytree(finished_run(), state)
        (state / "summary.json").unlink()  # as if it had been killed just before its end
        next((state / "journal").glob("snapshot-*")).unlink()
        before = contents(state)
        self.refuse(
            1, "server", "--listen", "127.0.0.1:0", "--state", state, "--insecure", says=["snapshot", "missing"]
        )
        self.assertEqual(contents(state), before)

    def test_the_settings_of_another_run_beside_it_are_refused(self):
        state = self.folder / "state"
        shutil.copytree(finished_run(), state)
        settings = state / "config.toml"
        settings.write_text(settings.read_text().replace("seed = 0", "seed = 1"))
        self.refuse(1, "journal", state, "verify", says=[state, "another run"])

    @with_enough_rounds(12)
    def test_a_flipped_bit_in_a_live_servers_snapshot_reaches_no_worker(self, rounds):
        settings = {**SETTINGS, "rounds": rounds}
        server = self.server(settings=settings).start()
        workers = [self.worker(name, server).start() for name in NAMES]
        server.wait_for_rounds(3, alive=workers)
        for worker in workers:
            worker.kill()
        if not server.kill():
            raise Over(server.tail())
        server.start()  # without workers nothing changes
        file = next((server.state / "journal").glob("snapshot-*"))
        self.assertNotEqual(file.name, "snapshot-0.bin")
        with open(file, "r+b") as snapshot:
            snapshot.seek(1_500_000)
            byte = snapshot.read(1)[0]
            snapshot.seek(1_500_000)
            snapshot.write(bytes([byte ^ 1]))
        self.refuse(1, "journal", server.state, "verify", says=file.name)
        for worker in workers:
            worker.start()
        self.finish(server, *workers)
        self.assertRegex(server.log.read_text(), rf"{file.name}' was damaged between bytes \d+ and \d+")
        self.assertEqual(summary(server.state)["model_sha256"], self.sha256("local", **settings))
        self.succeed("journal", server.state, "verify")

    def test_keep_drops_old_rounds(self):
        state = self.run_all(self.server("--keep", 2))
        told = json.loads(self.succeed("journal", state, "list", "--json").stdout)
        self.assertEqual((told["rounds"], told["oldest"]), (6, 4))
        self.refuse(2, "journal", state, "model", "--round", 3, "--out", self.folder / "3.pt", says="from 4 to 6")
        for rounds in (4, 5, 6):
            self.assertEqual(
                self.model_sha256(state, "--round", rounds), self.model_sha256(finished_run(), "--round", rounds)
            )
        self.succeed("journal", state, "verify")


class Backup(NetworkCase):
    @with_enough_rounds(30)
    def test_of_a_running_server_goes_on_where_that_one_is_gone(self, rounds):
        settings = {**SETTINGS, "rounds": rounds}
        server = self.server(settings=settings).start()
        workers = [self.worker(name, server).start() for name in NAMES]
        server.wait_for_rounds(3, alive=workers)
        file, state = self.folder / "backup.tar", self.folder / "again"
        saved = self.succeed("journal", server.state, "backup", "--out", file).stdout
        server.wait_for_rounds(2, alive=workers)  # so that the workers know at least one that the backup does not
        if not server.kill():
            raise Over(server.tail())
        shutil.rmtree(server.state)
        restored = self.succeed("journal", file, "restore", "--out", state).stdout
        self.assertEqual(saved.partition(":")[2], restored.partition(":")[2])  # rounds, and the model's hash
        self.assertGreaterEqual(int(re.search(r": (\d+) rounds; ", saved)[1]), 3)
        self.assertEqual(self.succeed("journal", state, "verify").stdout.partition(":")[2], saved.partition(":")[2])
        server.state = state
        server.start()
        self.finish(server, *workers)
        self.assertEqual(summary(state)["model_sha256"], self.sha256("local", **settings))
        self.assertEqual([row["round"] for row in metrics(state)], list(range(3, rounds + 1, 3)))
        self.assertIn("ROUNDS WERE LOST", server.log.read_text())

    def test_is_a_tar_file_that_only_its_owner_can_read(self):
        state, file = finished_run(), self.folder / "backup.tar"
        before = contents(state)
        file.write_text("an older one")
        self.succeed("journal", state, "backup", "--out", file)
        self.assertEqual(contents(state), before)
        self.assertEqual(list(contents(self.folder)), ["backup.tar"])
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        subprocess.run(["tar", "xf", file], cwd=self.folder, check=True)
        subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=self.folder, check=True)
        for name, content in contents(self.folder / "journal").items():
            self.assertEqual(content, before[f"journal/{name}"])
        self.succeed("journal", file, "restore", "--out", self.folder / "new/state/")
        self.assertEqual((self.folder / "new/state/journal").stat().st_mode & 0o777, 0o700)
        kept = {name: before[name] for name in before if name.startswith("journal")}
        kept.update({name: before[name] for name in ("config.toml", "metrics.jsonl")})
        self.assertEqual(contents(self.folder / "new/state"), kept)

    def test_what_is_damaged_or_none_is_not_restored(self):
        file, state = self.folder / "backup.tar", self.folder / "state"
        self.succeed("journal", finished_run(), "backup", "--out", file)
        whole = file.read_bytes()
        config = whole.index(b"rounds = 6")
        for content in (
            b"",
            b"no tar file",
            whole[: len(whole) // 2],
            whole[: whole.rindex(b"config.toml")],  # between two files
            whole[: len(whole) // 2] + b"x" + whole[len(whole) // 2 + 1 :],
            whole[:config] + b"rounds = 7" + whole[config + 10 :],
        ):
            file.write_bytes(content)
            self.refuse(1, "journal", file, "restore", "--out", state, says=[file, "is damaged or no backup"])
            self.assertEqual(list(contents(self.folder)), ["backup.tar"])
        file.write_bytes(whole)
        self.refuse(1, "journal", self.folder / "none.tar", "restore", "--out", state, says="none.tar")
        self.refuse(2, "journal", file, "restore", "--out", finished_run(), says="is not an empty folder")
        self.refuse(2, "journal", file, "restore", "--out", file, says="is not an empty folder")
        self.refuse(2, "journal", self.folder, "backup", "--out", file, says=[self.folder, "holds no run"])
        self.refuse(1, "journal", finished_run(), "backup", "--out", self.folder / "none/x.tar", says="none/x.tar")
        self.assertEqual(file.read_bytes(), whole)

    def test_what_no_backup_holds_is_not_unpacked(self):
        """Anybody may have made the file: nothing is written or read but the files of a run."""
        file, state = self.folder / "backup.tar", self.folder / "state"
        self.succeed("journal", finished_run(), "backup", "--out", file)
        whole = file.read_bytes()

        def entry(name, kind=tarfile.REGTYPE, link="", content=b""):
            made = tarfile.TarInfo(name)
            made.type, made.linkname, made.size, made.devmajor, made.devminor = kind, link, len(content), 1, 5
            return lambda archive: archive.addfile(made, io.BytesIO(content))

        sparse = self.folder / "sparse.tar"
        with open(self.folder / "parameters.npy", "wb") as hole:
            hole.truncate(1 << 40)
        subprocess.run(["tar", "-cSf", sparse, "parameters.npy"], cwd=self.folder, check=True)
        (self.folder / "parameters.npy").unlink()
        for add in (
            entry("../outside"),
            entry("/tmp/outside"),
            entry("journal/../../outside"),
            entry("journal/deeper/outside"),
            entry("notes.txt"),
            entry("parameters.npy", tarfile.SYMTYPE, "/etc/passwd"),
            entry("journal", tarfile.SYMTYPE, self.folder.as_posix()),
            entry("parameters.npy", tarfile.LNKTYPE, "config.toml"),
            entry("journal/pipe", tarfile.FIFOTYPE),
            entry("parameters.npy", tarfile.CHRTYPE),
            entry("parameters.npy", tarfile.DIRTYPE),
            entry("parameters.npy", content=b"one that the sums do not know"),
            entry("SHA256SUMS", content=b"0" * 64 + b"  /dev/zero\n"),
            None,
        ):
            if add:
                file.write_bytes(whole)
                with tarfile.open(file, "a") as archive:
                    add(archive)
            else:
                file.write_bytes(sparse.read_bytes())
            before = contents(self.folder)
            self.refuse(1, "journal", file, "restore", "--out", state, says=[file, "is damaged or no backup: "])
            self.assertEqual(contents(self.folder), before)

    def test_a_damaged_journal_is_not_backed_up(self):
        state, file = self.folder / "state", self.folder / "backup.tar"
        shutil.copytree(finished_run(), state)
        snapshot = next((state / "journal").glob("snapshot-*"))
        content = bytearray(snapshot.read_bytes())
        content[len(content) // 2] ^= 1
        snapshot.write_bytes(content)
        self.refuse(1, "journal", state, "backup", "--out", file, says=snapshot.name)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["state"])


if __name__ == "__main__":
    main()
