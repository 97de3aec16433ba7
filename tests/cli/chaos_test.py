"""A run with a server, while its programs are killed, stopped and starved: it ends as if nothing had happened.

SIGNVOTE_CHAOS=long is the long form; see chaos.py for the seed.
"""

import contextlib
import time
import unittest

from chaos import LONG, Certificates, ChaosPlan, Server, SmallDisk, TooLate, Worker, wait_until, write_toml
from helper import Case, Over, main, mnist, summary, with_enough_rounds
from processes import missing_rights

NAMES = [f"worker-{m}" for m in range(4)]
KILLS = {"worker": 26, "server": 12, "before_verdict": 14} if LONG else {"worker": 3, "server": 1, "before_verdict": 2}


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
        """All end well, and by themselves. A worker that came back too late to hear of the end is told it by the
        server, started again."""
        for _ in range(10):
            self.assertEqual(self.server.wait(), 0, self.server.tail())
            try:
                for worker in self.workers:
                    self.assertEqual(worker.wait(5), 0, worker.tail())
                return summary(self.server.state)
            except TooLate as problem:
                late = problem
                self.server.start(ready=False)
        raise late

    def assert_as_if_nothing_had_happened(self):
        out = self.folder / "local"
        self.succeed("train", "--config", self.config, "--engine", "local", "--out", out)
        self.assertEqual(self.finish()["model_sha256"], summary(out)["model_sha256"])

    @with_enough_rounds(8 * sum(KILLS.values()))  # kills wait for two and some records of the journal each
    def test_kills_do_not_change_a_bit(self, rounds):
        missing = missing_rights("CAP_SYS_PTRACE")
        kills = {**KILLS, "before_verdict": 0} if missing else KILLS
        plan = ChaosPlan(len(NAMES), **kills)
        self.begin(rounds=rounds)
        with plan.told(self.programs):
            done = plan.carry_out(self.server, self.workers)
            self.assertEqual({**done, "before_verdict": 0}, {**kills, "before_verdict": 0})
            # A busy machine may come too late now and then.
            if not missing and done["before_verdict"] < (10 if LONG else 1):
                raise Over(f"only {done['before_verdict']} kills fell between a sync and its verdict")
            self.assert_as_if_nothing_had_happened()
        if missing:
            self.skipTest(f"all but the kills before a verdict, which strace -p needs {missing} for")

    @with_enough_rounds(24)
    def test_a_quorum_goes_on_without_the_dead(self, rounds):
        plan = ChaosPlan(len(NAMES) - 1, worker=2, server=1)
        self.begin("--quorum", "2/4", "--deadline", "200ms", rounds=rounds)
        with plan.told(self.programs):
            self.server.wait_for_rounds(2)
            dead = self.workers.pop()
            self.programs.remove(dead)
            if not dead.kill():
                raise Over(dead.tail())
            plan.carry_out(self.server, self.workers)
            self.assertEqual(self.finish()["rounds"], rounds)

    @with_enough_rounds(20)
    def test_all_wait_for_a_stopped_worker(self, rounds):
        plan = ChaosPlan(len(NAMES))
        self.begin(rounds=rounds)
        with plan.told(self.programs):
            self.server.wait_for_rounds(2)
            self.workers[1].stop()
            before = self.server.rounds()
            time.sleep(3)  # in which others would be many rounds further
            after = self.server.rounds()
            if after == rounds:
                raise Over("the worker was stopped too late")
            self.assertLessEqual(after, before + 1)  # its ballot may have been on its way
            self.assertTrue(self.server.running())
            self.workers[1].go_on()
            self.assert_as_if_nothing_had_happened()

    @with_enough_rounds(24)
    def test_a_quorum_goes_on_without_a_stopped_worker(self, rounds):
        plan = ChaosPlan(len(NAMES))
        self.begin("--quorum", "2/4", "--deadline", "200ms", rounds=rounds)
        with plan.told(self.programs):
            self.server.wait_for_rounds(2)
            self.workers[1].stop()
            self.server.wait_for_rounds(4)
            self.workers[1].go_on()
            self.assertEqual(self.finish()["rounds"], rounds)

    @unittest.skipIf(missing_rights("CAP_SYS_ADMIN"), "mount needs CAP_SYS_ADMIN")
    @with_enough_rounds(30)
    def test_a_full_disk_ends_the_server_until_there_is_space(self, rounds):
        plan = ChaosPlan(len(NAMES))
        disk = SmallDisk(self.folder / "disk", 256)
        self.addCleanup(disk.close)
        self.begin(rounds=rounds, state=disk.folder / "state")
        with plan.told(self.programs):
            self.server.wait_for_rounds(1)
            disk.fill()
            code = self.server.wait()
            if code == 0:
                raise Over("the disk was full too late")
            self.assertEqual(code, 1, self.server.tail())
            said = [line for line in self.server.log.read_text().splitlines() if line.startswith("signvote: ")]
            self.assertEqual(len(said), 1, said)
            self.assertIn("No space left on device", said[0])
            self.assertIn(str(disk.folder), said[0])
            disk.free()
            self.server.start()
            self.assert_as_if_nothing_had_happened()

    @with_enough_rounds(20)
    def test_metrics_while_it_runs(self, rounds):
        self.begin(rounds=rounds)

        def some():
            with contextlib.suppress(OSError):  # it may be about to end
                return self.server.metrics()["signvote_round"]

        wait_until("there are metrics of a round", some, alive=[self.server])
        self.assert_as_if_nothing_had_happened()


if __name__ == "__main__":
    main()
