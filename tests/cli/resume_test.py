"""signvote train --resume: to the same bytes after any kind of end, and refused where it would not be."""

import fcntl
import functools
import os
import random
import re
import shlex
import signal
import time

from command_line import (
    FILES,
    SIGNVOTE,
    Case,
    config,
    contents,
    main,
    metrics,
    run,
    small,
    start,
    summary,
    without_timing,
)
from generated_data import mnist
from server_and_workers import Certificates
from waiting import TIMEOUT, Over, with_enough_rounds

# Unequal batches, one of several parts; the initial phase ends on the way; saves and tests fall apart; every
# round has another step; workers remember.
OPTIONS = {
    "batches": "4,20,7",
    "micro_batch": 16,
    "threads": 2,
    "initial_rounds": 5,
    "eval_every": 2,
    "save_every": 3,
    "step_schedule": "cosine",
    "warmup_rounds": 2,
    "weight_decay": 0.1,
    "sign_of": "momentum:0.9",
    "sparsity": "0.2",
}


def files_after(rounds):
    """Of a run that was saved then."""
    return FILES | {f"memory-{rounds}-{worker}.bin" for worker in range(3)}


@functools.cache
def whole(rounds):
    """A run with OPTIONS that nobody interrupted."""
    out = mnist().parent / f"whole-{rounds}"
    result = run("train", *small(**OPTIONS, rounds=rounds), "--out", out)
    assert result.returncode == 0, result.stderr
    return out


class Interrupted(Case):
    def assert_same_as_whole(self, out, rounds):
        expected = whole(rounds)
        self.assertEqual(set(os.listdir(out)), files_after(rounds))
        self.assertEqual(without_timing(summary(out)), without_timing(summary(expected)))
        self.assertEqual(without_timing(metrics(out)), without_timing(metrics(expected)))
        self.assertEqual(config(out), config(expected))
        for model in ("model.pt", "best.pt"):
            self.assertEqual((out / model).read_bytes(), (expected / model).read_bytes())

    def wait_for_lines(self, process, count):
        """Lets the run get `count` lines of progress further."""
        for line in process.stderr:
            count -= line.startswith("round ")
            if count == 0:
                break

    def end(self, process):
        _, stderr = process.communicate(timeout=TIMEOUT)
        return stderr

    @with_enough_rounds(24)
    def test_kill_9_at_random_moments_changes_no_byte(self, rounds):
        rng = random.Random(2)
        out = self.folder / "run"
        arguments = ["train", *small(**OPTIONS, rounds=rounds), "--out", out]
        kills = 0
        while not (out / "summary.json").exists():
            process = start(*arguments)
            self.addCleanup(process.kill)
            if kills < 4:
                self.wait_for_lines(process, rng.randint(1, 3))
                time.sleep(rng.uniform(0, 0.05))
                process.kill()
            stderr = self.end(process)
            self.assertIn(process.returncode, (0, -signal.SIGKILL), stderr)
            kills += process.returncode != 0
            arguments = ["train", "--resume", out]
        if kills < 2:
            raise Over(f"only {kills} kills before the end")
        self.assert_same_as_whole(out, rounds)

    def stop(self, kind, out, rounds, *shows, **options):
        """Asks a run to stop. Returns the rounds it has done, and what it says to type to go on."""
        process = start("train", *shows, *small(**options, rounds=rounds), "--out", out)
        self.addCleanup(process.kill)
        self.wait_for_lines(process, 2)
        process.send_signal(kind)
        stderr = self.end(process)
        if process.returncode == 0:
            raise Over("it was asked too late")
        self.assertEqual(process.returncode, 130, stderr)
        said = re.fullmatch(
            rf"stopped and saved after round (\d+) of {rounds}; go on with: {re.escape(SIGNVOTE)} (train .*)",
            stderr.splitlines()[-1],
        )
        self.assertTrue(said, stderr)
        return int(said[1]), shlex.split(said[2])

    def ended_by(self, kind, rounds):
        out = self.folder / f"a run, ended by {kind.name}"
        done, go_on = self.stop(kind, out, rounds, **OPTIONS)
        self.assertEqual(set(os.listdir(out)), files_after(done) - {"summary.json"})
        self.succeed("eval", out)  # the model as it is now

        before = contents(out)
        if done > 1:
            self.refuse(2, *go_on, "--rounds", rounds + 1, says=["cosine", f"begin anew with --rounds {rounds + 1}"])
        self.assertEqual(contents(out), before)
        resumed = self.succeed(*go_on)
        first_round = re.search(rf"^round +(\d+)/{rounds}", resumed.stderr, re.MULTILINE)[1]
        self.assertEqual(int(first_round), done + 1)
        self.assert_same_as_whole(out, rounds)

    @with_enough_rounds(24)
    def test_wsd_may_get_other_rounds_before_its_decay(self, rounds):
        options = {"batches": "4,9", "step_schedule": "wsd", "warmup_rounds": 2, "weight_decay": 0.1}
        out = self.folder / "run"
        done, go_on = self.stop(signal.SIGINT, out, rounds, **options)
        if done > rounds - rounds // 5:
            raise Over("its decay has begun")
        other = 2 * done + 3
        self.succeed(*go_on, "--rounds", other)
        expected = self.train("at_once", **options, rounds=other)
        self.assertEqual(without_timing(summary(out)), without_timing(summary(expected)))

    @with_enough_rounds(24)
    def test_what_shows_the_run_is_said_again(self, rounds):
        certificates = Certificates(self.folder / "of the page", [])
        cert, key = map(str, certificates.of("server")[1::2])
        shows = ["--dashboard", "127.0.0.1:0", "--dashboard-cert", cert, "--dashboard-key", key, "--tensorboard"]
        out = self.folder / "run"
        _, go_on = self.stop(signal.SIGINT, out, rounds, *shows, batches="4,9")
        self.assertEqual(go_on, ["train", "--resume", str(out), *shows])
        self.assertIn("dashboard at https://", self.succeed(*go_on).stderr)

    @with_enough_rounds(24)
    def test_ctrl_c_saves_and_says_how_to_go_on(self, rounds):
        self.ended_by(signal.SIGINT, rounds)

    @with_enough_rounds(24)
    def test_sigterm_saves_and_says_how_to_go_on(self, rounds):
        self.ended_by(signal.SIGTERM, rounds)


class Finished(Case):
    def test_a_finished_run_goes_on_only_with_more_rounds(self):
        options = {"batches": "4,9", "initial_rounds": 3, "eval_every": 5, "step_schedule": "constant"}
        out = self.train("run", rounds=5, **options)
        before = contents(out)
        self.refuse(2, "train", "--resume", out, says="finished its 5 rounds")
        self.refuse(2, "train", "--resume", out, "--rounds", 5, says="finished its 5 rounds")
        self.refuse(2, "train", "--resume", out, "--rounds", 4, says="more than --rounds 4")
        self.assertEqual(contents(out), before)

        self.succeed("train", "--resume", out, "--rounds", 10, "--threads", 1, "--save-every", 2)
        at_once = self.train("at_once", rounds=10, **options)
        self.assertEqual(without_timing(summary(out)), without_timing(summary(at_once)))
        self.assertEqual(without_timing(metrics(out)), without_timing(metrics(at_once)))
        self.assertEqual((config(out)["rounds"], config(out)["save_every"]), (10, 2))


class OtherRounds(Case):
    """A run may get other rounds as long as no step that it has done would have been another."""

    def test_wsd_gets_more_before_its_decay_and_none_after(self):
        """Its decay is the last fifth, and begins with the whole step: of 8 rounds all have it, of 10 not the last."""
        out = self.train("run", rounds=8, step_schedule="wsd")
        self.succeed("train", "--resume", out, "--rounds", 10)
        at_once = self.train("at_once", rounds=10, step_schedule="wsd")
        self.assertEqual(without_timing(summary(out)), without_timing(summary(at_once)))
        before = contents(out)
        self.refuse(2, "train", "--resume", out, says="finished its 10 rounds; for more, begin anew")
        self.refuse(2, "train", "--resume", out, "--rounds", 20, says=["wsd", "begin anew with --rounds 20"])
        self.assertEqual(contents(out), before)

    def test_cosine_and_linear_get_none(self):
        for schedule in ("cosine", "linear"):
            with self.subTest(schedule):
                out = self.train(schedule, rounds=3, step_schedule=schedule)
                before = contents(out)
                self.refuse(2, "train", "--resume", out, says="finished its 3 rounds; for more, begin anew")
                advice = ["begin anew with --rounds 5", "choose constant or wsd"]
                self.refuse(2, "train", "--resume", out, "--rounds", 5, says=[schedule, *advice])
                self.assertEqual(contents(out), before)


class Refused(Case):
    def test_other_settings_are_refused(self):
        out = self.train("run", rounds=2)
        before = contents(out)
        for flag, value, change in (
            ("--seed", 1, "seed = 0, not 1"),
            ("--step", 1, "step = 0.001, not 1"),
            ("--batches", "3x5", "batches = 3x4, not 3x5"),
            ("--workers", 4, "workers = 3, not 4"),
            ("--attack", "flip:1", "attack = (none), not flip:1"),
            ("--out", self.folder / "other", f"out = {out}, not {self.folder / 'other'}"),
        ):
            self.refuse(2, "train", "--resume", out, "--rounds", 4, flag, value, says=[out, f"{change}; leave it out"])
        self.refuse(2, "train", "--resume", out / "model.pt", says="is a file; give the folder of the run")
        self.refuse(2, "train", "--resume", out, "--config", out / "config.toml", says="leave --config out")
        self.assertEqual(contents(out), before)

        edited = (out / "config.toml").read_text().replace("seed = 0", "seed = 1")
        (out / "config.toml").write_text(edited)
        self.refuse(2, "train", "--resume", out, "--rounds", 4, says=["config.toml", "other settings"])
        self.assertEqual(contents(out), {**before, "config.toml": edited.encode()})

    def test_a_folder_without_a_run_is_refused(self):
        self.refuse(2, "train", "--resume", self.folder, says="holds no run")
        self.refuse(2, "train", "--resume", self.folder / "nothing", says="holds no run")
        self.assertEqual(contents(self.folder), {})

    def test_two_at_once_are_refused(self):
        out = self.train("run", rounds=2)
        before = contents(out)
        held = os.open(out, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        self.refuse(1, "train", "--resume", out, "--rounds", 4, says="another process")
        self.assertEqual(contents(out), before)
        os.close(held)
        self.succeed("train", "--resume", out, "--rounds", 4)

    def test_a_damaged_checkpoint_is_named(self):
        out = self.train("run", rounds=2)
        before = contents(out)
        good = before["checkpoint.bin"]
        middle = len(good) // 2
        damages = {
            "empty": b"",
            "cut in half": good[:middle],
            "another magic": b"X" + good[1:],
            "a bit flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        }
        for name, bad in damages.items():
            with self.subTest(name):
                (out / "checkpoint.bin").write_bytes(bad)
                self.refuse(1, "train", "--resume", out, "--rounds", 4, says="checkpoint.bin'")
                self.assertEqual(contents(out), {**before, "checkpoint.bin": bad})

        (out / "checkpoint.bin").write_bytes(good)
        self.succeed("train", "--resume", out, "--rounds", 4)
        self.assertEqual(summary(out)["model_sha256"], self.sha256("at_once", rounds=4))

    def test_a_damaged_row_of_metrics_is_named(self):
        out = self.train("run", rounds=3, eval_every=1)
        rows = (out / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(len(rows), 3)
        for bad in ("", "{", rows[1][:-9], '{"test_accuracy": 0.5}', '{"round": "2"}', "[2]"):
            with self.subTest(bad):
                (out / "metrics.jsonl").write_text("\n".join([rows[0], bad, rows[2]]) + "\n")
                before = contents(out)
                self.refuse(1, "train", "--resume", out, "--rounds", 4, says=["metrics.jsonl' is damaged in line 2"])
                self.assertEqual(contents(out), before)

    def test_metrics_are_cut_back_to_the_round_that_was_saved(self):
        options = {"rounds": 4, "eval_every": 1, "save_every": 1}
        out = self.train("run", **options)
        rows = (out / "metrics.jsonl").read_text().splitlines()
        later, torn = rows[3].replace('"round":4', '"round":5'), rows[3][:20]
        (out / "metrics.jsonl").write_text("\n".join([*rows, later, torn]))
        self.succeed("train", "--resume", out, "--rounds", 6)
        expected = self.train("at_once", **{**options, "rounds": 6})
        self.assertEqual(without_timing(metrics(out)), without_timing(metrics(expected)))


if __name__ == "__main__":
    main()
