"""A run with a server, while its programs are killed, stopped and starved: it ends as if nothing had happened.

SIGNVOTE_CHAOS=long is the long form; see chaos.py for the seed.
"""

import os
import time
import unittest

from chaos import LONG, Certificates, ChaosPlan, Server, SmallDisk, Worker, wait_until, write_toml
from helper import Case, main, mnist, summary

NAMES = [f"worker-{m}" for m in range(4)]
# Kills wait for records of the journal, on average two and some between them: the rounds must outlast them.
KILLS = {"worker": 26, "server": 12, "before_verdict": 14} if LONG else {"worker": 3, "server": 1, "before_verdict": 2}
ROUNDS = 8 * sum(KILLS.values())


@unittest.skipIf(os.geteuid() != 0, "strace -p and mount need root")
class Chaos(Case):
    def begin(self, *flags, rounds, state=None):
        """Four workers and their server, started; the settings are in self.config."""
        self.config = write_toml(self.folder / "run.toml",
                                 {"batches": "4,9,4,12", "rounds": rounds, "initial_rounds": 5, "eval_every": rounds,
                                  "save_every": 7, "threads": 1, "data": mnist()})  # fmt: skip
        certificates = Certificates(self.folder / "keys", NAMES)
        self.server = Server(self.folder, self.config, certificates, *flags, state=state)
        self.workers = [Worker(name, self.folder, self.server, certificates, mnist()) for name in NAMES]
        self.programs = [self.server, *self.workers]
        for program in self.programs:
            self.addCleanup(program.close)
        for program in self.programs:
            program.start()

    def finish(self):
        """All end well, and by themselves."""
        for program in self.programs:
            self.assertEqual(program.wait(), 0, program.tail())
        return summary(self.server.state)

    def assert_as_if_nothing_had_happened(self):
        out = self.folder / "local"
        self.succeed("train", "--config", self.config, "--engine", "local", "--out", out)
        self.assertEqual(self.finish()["model_sha256"], summary(out)["model_sha256"])

    def test_kills_do_not_change_a_bit(self):
        plan = ChaosPlan(len(NAMES), **KILLS)
        self.begin(rounds=ROUNDS)
        with plan.told(self.programs):
            done = plan.carry_out(self.server, self.workers)
            self.assertEqual({**done, "before_verdict": 0}, {**KILLS, "before_verdict": 0})
            # A busy machine may come too late now and then.
            self.assertGreaterEqual(done["before_verdict"], 10 if LONG else 1)
            self.assert_as_if_nothing_had_happened()

    def test_a_quorum_goes_on_without_the_dead(self):
        plan = ChaosPlan(len(NAMES) - 1, worker=2, server=1)
        self.begin("--quorum", "2/4", "--deadline", "500ms", rounds=24)
        with plan.told(self.programs):
            self.server.wait_for_growth(2)
            dead = self.workers.pop()
            self.assertTrue(dead.kill())
            self.programs.remove(dead)
            plan.carry_out(self.server, self.workers)
            self.assertEqual(self.finish()["rounds"], 24)

    def test_all_wait_for_a_stopped_worker(self):
        plan = ChaosPlan(len(NAMES))
        self.begin(rounds=20)
        with plan.told(self.programs):
            self.server.wait_for_growth(2)
            self.workers[1].stop()
            time.sleep(1)  # its ballot may be on its way
            before = self.server.progress()
            time.sleep(4)
            self.assertEqual(self.server.progress(), before)
            self.assertTrue(self.server.running())
            self.workers[1].go_on()
            self.assert_as_if_nothing_had_happened()

    def test_a_quorum_goes_on_without_a_stopped_worker(self):
        plan = ChaosPlan(len(NAMES))
        self.begin("--quorum", "2/4", "--deadline", "500ms", rounds=24)
        with plan.told(self.programs):
            self.server.wait_for_growth(2)
            self.workers[1].stop()
            self.server.wait_for_growth(4)
            self.workers[1].go_on()
            self.assertEqual(self.finish()["rounds"], 24)

    def test_a_full_disk_ends_the_server_until_there_is_space(self):
        plan = ChaosPlan(len(NAMES))
        disk = SmallDisk(self.folder / "disk", 256)
        self.addCleanup(disk.close)
        self.begin(rounds=30, state=disk.folder / "state")
        with plan.told(self.programs):
            self.server.wait_for_growth(3)
            disk.fill()
            self.assertEqual(self.server.wait(), 1, self.server.tail())
            said = [line for line in self.server.log.read_text().splitlines() if line.startswith("signvote: ")]
            self.assertEqual(len(said), 1, said)
            self.assertIn("No space left on device", said[0])
            self.assertIn(str(disk.folder), said[0])
            disk.free()
            self.server.start()
            self.assert_as_if_nothing_had_happened()

    def test_metrics_while_it_runs(self):
        self.begin(rounds=20)
        self.server.wait_for_growth()
        self.assertTrue(wait_until("there are metrics", self.server.metrics, alive=[self.server]))
        self.assert_as_if_nothing_had_happened()


if __name__ == "__main__":
    main()
