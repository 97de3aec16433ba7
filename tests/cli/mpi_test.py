"""signvote train --engine mpi where something is wrong: on one rank or on all, and in the files a crash leaves."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess

from command_line import ENVIRONMENT, FILES, PAPER, SIGNVOTE, Case, contents, flags, main, summary
from generated_data import mnist
from processes import end_session, run_session, start_session
from waiting import TIMEOUT, Over, wait_until, with_enough_rounds

# 582,026 parameters in 9095 words; weights come into force on the way.
OPTIONS = {
    **PAPER,
    "data": mnist(),
    "batches": "4,20,7,9",
    "micro_batch": 16,
    "rounds": 12,
    "initial_rounds": 2,
    "eval_every": 4,
    "seed": 3,
    "threads": 1,
}


def mpirun(*parts):
    """A job of several parts, as on machines that differ: each is (ranks, arguments of `signvote train`)."""
    command = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    for ranks, arguments in parts:
        command += ["-n", str(ranks), SIGNVOTE, "train", *map(str, arguments), "--engine", "mpi", ":"]
    return run_session(
        command[:-1], TIMEOUT, env={**ENVIRONMENT, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    )


class Job(Case):
    def options(self, **changes):
        return flags({**OPTIONS, "out": self.folder / "run", **changes})

    def finish(self, *parts):
        result = mpirun(*parts)
        self.assertEqual(result.returncode, 0, result.stderr)

    def refuse_job(self, code, *parts, says):
        """Exit code `code`, and one line of ours among mpirun's."""
        result = mpirun(*parts)
        self.assertEqual(result.returncode, code, result.stderr)
        said = [line for line in result.stderr.splitlines() if "signvote: " in line]
        self.assertEqual(len(said), 1, result.stderr)
        for words in says:
            self.assertIn(str(words), said[0])


class OneRank(Job):
    def test_one_rank_has_no_config(self):
        """Before MPI has begun on that rank, while the others wait there."""
        (self.folder / "here.toml").write_text("rounds = 2\n")
        there = ["--config", self.folder / "there.toml", *self.options(rounds=2)]
        here = ["--config", self.folder / "here.toml", *self.options(rounds=2)]
        self.refuse_job(1, (1, here), (1, there), says=["signvote: rank 1: ", "there.toml"])
        self.refuse_job(1, (1, there), (2, here), says=["signvote: cannot read", "there.toml"])
        self.refuse_job(1, (1, here), (2, there), says=["signvote: rank 1: ", "there.toml"])
        self.assertFalse((self.folder / "run").exists())

    def test_one_rank_has_no_run_to_resume(self):
        out = self.train("run", rounds=2)
        before = contents(out)
        self.refuse_job(
            2,
            (1, ["--resume", out, "--rounds", 4]),
            (1, ["--resume", self.folder / "other", "--rounds", 4]),
            says=["signvote: rank 1: ", "holds no run"],
        )
        self.assertEqual(contents(out), before)

    def test_one_rank_has_no_data(self):
        self.refuse_job(
            1,
            (1, self.options(rounds=1)),
            (1, self.options(rounds=1, data=self.folder)),
            says=["signvote: rank 1: ", "data fetch"],
        )
        self.assertFalse((self.folder / "run").exists())
        self.finish((2, self.options(rounds=1)))  # the same command, with the data where it should be

    def test_one_rank_has_other_settings(self):
        for name, here, there in (("rounds", 2, 3), ("save_every", 1, 2), ("eval_every", 1, 2), ("seed", 4, 5)):
            self.refuse_job(
                2,
                (1, self.options(**{name: here})),
                (2, self.options(**{name: there})),
                says=["signvote: rank 1: ", f"{name} = '{there}' and not {name} = '{here}'"],
            )
        self.assertFalse((self.folder / "run").exists())

    def test_one_rank_may_have_its_own_data_folder_and_threads(self):
        data = shutil.copytree(mnist(), self.folder / "data")
        self.finish((1, self.options(rounds=3)), (1, self.options(rounds=3, data=data, threads=2)))
        local = self.folder / "local"
        self.succeed("train", *self.options(rounds=3, out=local))
        self.assertEqual(summary(self.folder / "run")["model_sha256"], summary(local)["model_sha256"])


class AllRanks(Job):
    def test_shards_that_no_rank_can_write_are_named_once(self):
        """Said by rank 0 for the first of them. A folder stands in the way, which is not ours to remove."""
        for name in ("shard-2-193984-388032.bin.tmp", "shard-2-388032-582026.bin.tmp"):
            (self.folder / "run" / name / "inside").mkdir(parents=True)
        self.refuse_job(
            1, (3, self.options(rounds=4, save_every=2)), says=["signvote: rank 1: ", "shard-2-193984-388032.bin"]
        )
        self.assertFalse((self.folder / "run/checkpoint.bin").exists())
        for name in ("shard-2-193984-388032.bin.tmp", "shard-2-388032-582026.bin.tmp"):
            shutil.rmtree(self.folder / "run" / name)
        self.finish((3, ["--resume", self.folder / "run"]))

    def test_other_commands_speak_for_themselves_though_a_launcher_starts_them(self):
        """Workers may be started by a launcher; they are no ranks of one program."""
        for rank in "012":
            launched = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": rank}
            result = subprocess.run(
                [SIGNVOTE, "eval", self.folder / "nothing.pt"],
                text=True,
                capture_output=True,
                timeout=TIMEOUT,
                env={**ENVIRONMENT, **launched},
            )
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"\Asignvote: [^\n]+nothing.pt[^\n]+\n\Z")


class Stopped(Job):
    @with_enough_rounds(40)
    def test_a_stopped_job_says_the_whole_command_to_go_on(self, rounds):
        """mpirun's part of it too. One rank is asked to stop: mpirun itself would leave them all only a second."""
        command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none"]
        environment = {**ENVIRONMENT, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        out = self.folder / "run"
        job = start_session(
            [*command, SIGNVOTE, "train", *self.options(rounds=rounds, save_every=rounds, out=out), "--engine", "mpi"],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(end_session, job)
        wait_until(
            "a test", lambda: (file := out / "metrics.jsonl").exists() and file.stat().st_size or job.poll() is not None
        )
        for rank in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = rank.read_bytes().decode().split("\0")
                if words[0] == SIGNVOTE and str(out) in words:
                    os.kill(int(rank.parent.name), signal.SIGTERM)
                    break
        _, stderr = job.communicate(timeout=TIMEOUT)
        if (out / "summary.json").exists():
            raise Over("it was asked too late")
        said = re.search(rf"saved after round \d+ of {rounds}; go on with: (.*)", stderr)
        self.assertTrue(said, stderr)
        self.assertEqual(shlex.split(said[1]), [*command, SIGNVOTE, "train", "--resume", str(out)])
        result = run_session(["sh", "-c", said[1]], TIMEOUT, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(summary(out)["rounds"], rounds)

    @with_enough_rounds(40)
    def test_slurm_is_told_how_to_start_it(self, rounds):
        """A rank of Slurm's, alone: that is all of it that there is here."""
        out = self.folder / "run"
        rank = subprocess.Popen(
            [SIGNVOTE, *map(str, ["train", *self.options(rounds=rounds, out=out), "--engine", "mpi"])],
            env={**ENVIRONMENT, "SLURM_STEP_NUM_TASKS": "3"},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(rank.kill)
        for line in rank.stderr:
            if line.startswith("round "):
                break
        rank.terminate()
        _, stderr = rank.communicate(timeout=TIMEOUT)
        if rank.returncode == 0:
            raise Over("it was asked too late")
        said = stderr.splitlines()[-1].partition("; go on with: ")[2]
        self.assertEqual(
            shlex.split(said), ["srun", "--mpi=pmix", "-n", "3", SIGNVOTE, "train", "--resume", str(out)], stderr
        )


class CrashWindow(Job):
    """Killed between its shards and the checkpoint that names them, or between that and the removal of old ones."""

    def setUp(self):
        super().setUp()
        self.out = self.folder / "run"
        self.finish((3, self.options(rounds=4)))
        self.assertEqual(self.shards(), {"shard-4-193984-388032.bin", "shard-4-388032-582026.bin"})
        # Of four ranks: one of theirs begins where that of the second of two does, and ends elsewhere.
        longer = self.folder / "longer"
        self.finish((4, self.options(rounds=5, out=longer)))
        self.stale = {path.name for path in longer.glob("shard-*")}
        self.assertIn("shard-5-291008-436544.bin", self.stale)
        for name in self.stale:
            shutil.copy(longer / name, self.out)
        shutil.copy(longer / "shard-5-291008-436544.bin", self.out / "shard-5-436544-582026.bin.tmp")
        (self.out / "shard-notes.txt").write_text("mine")
        with open(self.out / "metrics.jsonl", "a") as file:
            file.write('{"round": 5}\n')

    def shards(self):
        return {name for name in os.listdir(self.out) if name.startswith("shard-")}

    def test_a_killed_job_goes_on_to_the_same_bytes(self):
        self.finish((2, ["--resume", self.out, "--rounds", 12, "--save-every", 1]))
        local = self.folder / "local"
        self.succeed("train", *self.options(out=local))
        self.assertEqual(summary(self.out)["model_sha256"], summary(local)["model_sha256"])
        self.assertEqual((self.out / "model.pt").read_bytes(), (local / "model.pt").read_bytes())
        self.assertEqual(set(os.listdir(self.out)), FILES | {"shard-12-291008-582026.bin", "shard-notes.txt"})

    def test_a_missing_shard_is_named(self):
        """Only the second of two ranks needs it."""
        (self.out / "shard-4-388032-582026.bin").unlink()
        before = contents(self.out)
        resume = ["--resume", self.out, "--rounds", 12, "--save-every", 1]
        self.refuse_job(1, (2, resume), says=["signvote: rank 1: ", "shard-4-388032-582026.bin"])
        self.assertEqual(contents(self.out), before)
        self.refuse(1, "train", *resume, "--engine", "local", says="shard-4-388032-582026.bin")
        self.assertEqual(contents(self.out), before)


if __name__ == "__main__":
    main()
