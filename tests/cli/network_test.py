"""Servers, workers and ranks on hosts of their own, with links of 100 Mbit/s between them that can be cut."""

import time
import unittest

from command_line import PAPER, SIGNVOTE, Case, main, summary, write_toml
from generated_data import mnist
from network_lab import Lab
from server_and_workers import Certificates, Server, Worker
from waiting import TIMEOUT, Over, wait_until, with_enough_rounds

MBIT = 100
PARAMETERS = 582_026
FRAMES = 1.5  # at most so many times the payload: headers, TLS, what is lost and sent again
SETTINGS = {**PAPER, "data": mnist(), "batches": "8,24", "rounds": 8, "initial_rounds": 3, "threads": 1}


@unittest.skipIf(Lab.available(), Lab.available())
class Network(Case):
    def setUp(self):
        super().setUp()
        self.lab = Lab(hosts=3, mbit=MBIT)
        self.addCleanup(self.lab.close)

    def write(self, settings):
        return write_toml(self.folder / "run.toml", settings)

    def local(self, settings):
        out = self.folder / "local"
        self.succeed("train", "--config", self.write(settings), "--out", out)
        return summary(out)["model_sha256"]

    def start(self, settings):
        """The server on host 0, a worker on each of the others."""
        names = [f"worker-{m}" for m in range(2)]
        address = self.lab.address(0)
        certificates = Certificates(self.folder / "keys", names, address)
        server = Server(self.folder, self.write(settings), certificates, host=address, prefix=self.lab.command(0, []))
        workers = []
        for host, name in enumerate(names, 1):
            prefix = self.lab.command(host, [])
            data = settings["data"]
            workers.append(Worker(name, self.folder, server, certificates, data, "--threads", 1, prefix=prefix))
        for program in (server, *workers):
            self.addCleanup(program.close)
            program.start()
        return server, workers

    def finish(self, server, workers):
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        return summary(server.state)

    def moved(self, before):
        now = [self.lab.counters(host) for host in range(3)]
        return [{way: now[h][way] - before[h][way] for way in ("rx", "tx")} for h in range(3)]

    def counters(self):
        return [self.lab.counters(host) for host in range(3)]

    def joins(self, server):
        return server.log.read_text().count(" joins as worker ")

    def leaves(self, server, name):
        return server.log.read_text().count(f"{name} left\n")

    def test_server_and_workers_move_what_they_should(self):
        expected = self.local(SETTINGS)
        before = self.counters()
        result = self.finish(*self.start(SETTINGS))
        moved = self.moved(before)
        self.assertEqual(result["model_sha256"], expected)
        up, down = (result[f"bits_per_parameter_{way}"] * PARAMETERS / 8 * SETTINGS["rounds"] for way in ("up", "down"))
        for way, payload in (("tx", up), ("rx", down + 4 * PARAMETERS)):  # down: the model first
            both = moved[1][way] + moved[2][way]
            self.assertGreater(both, 2 * payload)
            self.assertLess(both, FRAMES * 2 * payload + 300_000)
            self.assertAlmostEqual(moved[0]["rx" if way == "tx" else "tx"] / both, 1, delta=0.1)

    @with_enough_rounds(30)
    def test_a_link_is_cut_and_joined_again(self, rounds):
        settings = {**SETTINGS, "rounds": rounds, "eval_every": rounds}
        server, workers = self.start(settings)

        def cut(host, until):
            server.wait_for_rounds(1, alive=workers)
            self.lab.cut(host)
            before = server.rounds()
            until()
            after = server.rounds()
            if after == rounds:
                raise Over("the link was cut too late")
            self.assertLessEqual(after, before + 1)  # all are waited for; a ballot may have been on its way
            self.lab.join(host)
            server.wait_for_rounds(1, alive=workers)

        start = time.monotonic()
        cut(1, until=lambda: time.sleep(2))
        if time.monotonic() - start < 15:  # what nobody acknowledges for 20 s ends a connection
            self.assertEqual(self.joins(server), 2)  # TCP has gone on where it was
        joins, lefts = self.joins(server), self.leaves(server, "worker-1")
        cut(
            2,
            until=lambda: wait_until(
                "the server misses the worker",
                lambda: self.leaves(server, "worker-1") > lefts,
                alive=[server, *workers],
            ),
        )
        self.assertGreater(self.joins(server), joins)
        self.assertEqual(self.finish(server, workers)["model_sha256"], self.local(settings))

    def test_ranks_move_what_they_should(self):
        settings = {**SETTINGS, "batches": "8,24,4,4"}
        expected = self.local(settings)
        before = self.counters()
        out = self.folder / "mpi"
        result = self.lab.mpirun(
            [SIGNVOTE, "train", "--config", self.write(settings), "--engine", "mpi", "--out", out],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(summary(out)["model_sha256"], expected)
        # One of three ranks has two of the four workers. A ballot on another's shard is at least its signs where
        # present: at most a byte for eight coordinates, and hardly less than half of that.
        for host, moved in enumerate(self.moved(before)):
            payload = settings["rounds"] * PARAMETERS / 8 * 2 / 3
            self.assertGreater(moved["tx"], payload, host)
            self.assertLess(moved["tx"], 6 * payload, host)


if __name__ == "__main__":
    main()
