"""The attacks of tests/attacks/ on a server with three workers: the run goes on, to the right hash, in as much memory.

How much slower it is, nobody asserts here: a test that depends on a time would waver.
"""

import json
import os
import pathlib
import subprocess
import sys

from command_line import Case, main, summary, write_toml
from generated_data import mnist
from processes import end_session, start_session
from server_and_workers import Certificates, Server, Worker
from waiting import TIMEOUT, Over, wait_until, with_enough_rounds

ATTACKS = pathlib.Path(__file__).parents[1] / "attacks"
NAMES = ("worker-0", "worker-1", "worker-2")
SECONDS = 3
MOST_MEMORY = 100 << 20


class Attacks(Case):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.folder / "keys", [*NAMES, "mallory"])

    def begin(self, rounds, *flags, prefix=(), **options):
        """A server and its workers in the middle of a run; a test has been made, which takes memory too."""
        self.settings = {
            "data": mnist(),
            "batches": "4,6,8",
            "rounds": rounds,
            "initial_rounds": 2,
            "eval_every": 5,
            "threads": 1,
            **options,
        }
        self.server = Server(
            self.folder, write_toml(self.folder / "run.toml", self.settings), self.certificates, *flags, prefix=prefix
        )
        self.workers = [
            Worker(name, self.folder, self.server, self.certificates, mnist(), "--threads", 1) for name in NAMES
        ]
        for program in (self.server, *self.workers):
            self.addCleanup(program.close)
            program.start()
        wait_until("a test", lambda: "accuracy" in self.server.log.read_text(), alive=[self.server, *self.workers])

    def attack(self, name, *flags, seconds=SECONDS):
        """Returns what it tells of itself, and what the server's largest memory became meanwhile."""
        before = self.largest_memory()
        address = f"{self.server.host}:{self.server.port}"
        attack = start_session(
            [sys.executable, "-B", ATTACKS / f"{name}.py", address, *flags, "--seconds", seconds],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(end_session, attack)
        told, _ = attack.communicate(timeout=TIMEOUT)
        self.assertEqual(attack.returncode, 0, name)
        if not self.server.running():
            self.assertEqual(self.server.process.returncode, 0, self.server.tail(40))
            raise Over(f"the run ended during {name}")
        return json.loads(told), self.largest_memory() - before

    def largest_memory(self):
        pid = self.server.whereabouts()[1]["pid"]
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
        except FileNotFoundError:
            raise Over("the run ended") from None
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def finish(self):
        for program in (self.server, *self.workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        self.assertEqual(summary(self.server.state)["model_sha256"], self.sha256("local", **self.settings))

    @with_enough_rounds(150)
    def test_a_certificate_that_is_not_on_the_list_gets_nowhere(self, rounds):
        self.begin(rounds)
        mallory = [*self.certificates.of("mallory"), "--ca", self.certificates.authority]
        for name in ("rapid_reset", "huge_headers", "large_messages"):
            told, memory = self.attack(name, *mallory)
            self.assertGreater(told["connections"], 0, name)
            self.assertEqual(told["spoke"], 0, f"{name}: no byte of HTTP/2 is for strangers")
            self.assertLess(memory, MOST_MEMORY, name)
        try:
            refusals = self.server.metrics()['signvote_refused_total{reason="unknown_worker"}']
        except OSError:
            raise Over("the run ended") from None
        self.assertGreater(refusals, 0)
        self.finish()
        log = self.server.log.read_text().splitlines()
        refused = [line for line in log if "'mallory' is not on the server's allow-list (unknown_worker)" in line]
        self.assertTrue(refused)
        audit = [json.loads(line) for line in (self.server.state / "audit.log").read_text().splitlines()]
        events = [line["event"] for line in audit]
        self.assertGreaterEqual(events.count("joined"), 3)
        self.assertEqual(events.count("left"), events.count("joined"))
        strangers = [line for line in audit if line.get("reason") == "unknown_worker" and line["event"] == "refused"]
        self.assertEqual(len(strangers), len(refused))
        self.assertIn("mallory", strangers[0]["why"])

    @with_enough_rounds(150)
    def test_a_flood_of_connections_does_not_end_the_run(self, rounds):
        self.begin(rounds, prefix=["prlimit", "--nofile=128:256"], save_every=10 * rounds)
        self.attack("connection_flood", "--count", 300)
        self.assertIn("listens anew", self.server.log.read_text())
        self.finish()

    def test_a_log_that_nobody_reads_does_not_stop_the_run(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:  # it is full
            pass
        os.set_blocking(writer, True)
        settings = {"data": mnist(), "batches": "4,6,8", "rounds": 6, "eval_every": 1, "threads": 1}
        server = Server(self.folder, write_toml(self.folder / "run.toml", settings), self.certificates)
        server.errors = writer
        self.addCleanup(server.close)
        server.start()
        os.close(writer)
        workers = [Worker(name, self.folder, server, self.certificates, mnist(), "--threads", 1) for name in NAMES]
        for worker in workers:
            self.addCleanup(worker.close)
            worker.start()
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        self.assertEqual(summary(server.state)["model_sha256"], self.sha256("local", **settings))


if __name__ == "__main__":
    main()
