"""One suite over all engines, as their users start them: the same settings, the same bytes.

`local` is one process, `mpi` is mpirun with one to three ranks, `grpc` is a server and a process for every worker.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess

from command_line import ENVIRONMENT, SIGNVOTE, Case, main, metrics, summary, write_toml
from generated_data import cifar10, mnist
from processes import end_session, has_ended, run_session, start_session
from server_and_workers import Certificates, Server, Worker, free_port
from waiting import TIMEOUT, Over, wait_until, with_enough_rounds

# What depends on where a run was made, not on what was learnt.
INCIDENTAL = {"engine", "seconds", "samples_per_second", "outside_gradients_share", "bytes_between_ranks"}

# Four unequal workers, one in several parts; gradients with zeros, mixed with momentum; two are missing now and
# then; weights come into force on the way. 582,026 parameters: the last word of a ballot is not full.
UNEQUAL = {
    "data": mnist(),
    "method": "it",
    "batches": "4,20,7,9",
    "micro_batch": 16,
    "absent": "1@3-5,3@8,0@8",
    "sign_of": "lion:0.8,0.9",
    "rounds": 12,
    "step_schedule": "constant",
    "initial_rounds": 4,
    "eval_every": 4,
    "save_every": 5,
    "seed": 3,
    "threads": 1,
}

# The same with a step that rises, then falls, and with weights that decay.
SCHEDULED = {**UNEQUAL, "step_schedule": "cosine", "warmup_rounds": 2, "weight_decay": 0.1}


def mpi_environment():
    return {**ENVIRONMENT, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpi_command(ranks):
    return ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", SIGNVOTE]


def mpirun(ranks, *arguments):
    return run_session([*mpi_command(ranks), *arguments], timeout=TIMEOUT, env=mpi_environment())


class Conformance(Case):
    def write(self, settings):
        return write_toml(self.folder / "run.toml", settings)

    def local(self, settings, name="local"):
        out = self.folder / name
        self.succeed("train", "--config", self.write(settings), "--out", out)
        return out

    def mpi(self, settings, ranks, name=None, resume=None):
        out = resume or self.folder / (name or f"mpi{ranks}")
        where = (
            ["--resume", out, "--rounds", settings["rounds"]]
            if resume
            else ["--config", self.write(settings), "--out", out]
        )
        result = mpirun(ranks, "train", *where, "--engine", "mpi")
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def start_grpc(self, settings, *flags):
        names = [f"worker-{m}" for m in range(len(settings["batches"].split(",")))]
        certificates = Certificates(self.folder / "keys", names)
        server = Server(self.folder, self.write(settings), certificates, *flags)
        self.addCleanup(server.close)
        server.start()
        workers = [Worker(name, self.folder, server, certificates, settings["data"], "--threads", 1) for name in names]
        for worker in workers:
            self.addCleanup(worker.close)
            worker.start()
        return server, workers

    def finish_grpc(self, server, workers):
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        return server.state

    def grpc(self, settings):
        return self.finish_grpc(*self.start_grpc(settings))

    def assert_same(self, out, expected):
        def essence(rows):
            return [{key: value for key, value in row.items() if key not in INCIDENTAL} for row in rows]

        self.assertEqual(essence([summary(out)]), essence([summary(expected)]))
        self.assertEqual(essence(metrics(out)), essence(metrics(expected)))
        self.assertEqual((out / "model.pt").read_bytes(), (expected / "model.pt").read_bytes())
        self.assertEqual((out / "best.pt").read_bytes(), (expected / "best.pt").read_bytes())

    def test_it_gives_the_same_bytes_on_all_engines(self):
        expected = self.local(UNEQUAL)
        self.assertEqual(summary(expected)["absences"], 5)
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.assert_same(self.mpi(UNEQUAL, ranks), expected)
        self.assert_same(self.grpc(UNEQUAL), expected)

    def test_a_schedule_and_decay_give_the_same_bytes_on_all_engines(self):
        expected = self.local(SCHEDULED)
        self.assertNotEqual(summary(expected)["model_sha256"], summary(self.local(UNEQUAL, "plain"))["model_sha256"])
        self.assert_same(self.mpi(SCHEDULED, 3), expected)
        state = self.grpc(SCHEDULED)
        self.assert_same(state, expected)
        self.assertIn(summary(expected)["model_sha256"], self.succeed("journal", state, "verify").stdout)

    def test_mv_gives_the_same_bytes_on_all_engines(self):
        settings = {**UNEQUAL, "method": "mv", "rounds": 6, "sign_of": "gradient"}
        expected = self.local(settings)
        self.assert_same(self.mpi(settings, 2), expected)
        self.assert_same(self.grpc(settings), expected)

    def test_sparse_ballots_give_the_same_bytes_on_all_engines(self):
        """Workers remember what they did not send, over a resume with other ranks too; and two are noisy."""
        settings = {**UNEQUAL, "method": "agree", "sparsity": "0.1", "attack": "noise:2:1"}
        expected = self.local(settings)
        self.assertLess(summary(expected)["bits_per_parameter_up"], 0.7)
        self.assert_same(self.mpi(settings, 3), expected)
        self.assert_same(self.grpc(settings), expected)
        out = self.mpi({**settings, "rounds": 5}, 3, "chain")
        self.succeed("train", "--resume", out, "--rounds", 9, "--engine", "local")
        self.mpi(settings, 2, resume=out)
        self.assertEqual(summary(out)["model_sha256"], summary(expected)["model_sha256"])

    def test_ballots_that_are_thinned_at_random_give_the_same_bytes_on_all_engines(self):
        settings = {**UNEQUAL, "method": "mv", "rounds": 6, "sign_of": "gradient", "sparsity": "random:0.1"}
        expected = self.local(settings)
        self.assert_same(self.mpi(settings, 2), expected)
        self.assert_same(self.grpc(settings), expected)

    def test_agree_gives_the_same_bytes_on_all_engines(self):
        """All defaults, but for so few rounds; and a run that goes on with other ranks."""
        settings = {**UNEQUAL, "method": "agree", "prior_rounds": 2}
        expected = self.local(settings)
        self.assert_same(self.mpi(settings, 3), expected)
        self.assert_same(self.grpc(settings), expected)
        self.assertNotEqual(
            summary(expected)["model_sha256"], summary(self.local({**settings, "method": "mv"}, "mv"))["model_sha256"]
        )

    def test_a_run_that_ends_early_does_so_on_all_engines(self):
        settings = {**UNEQUAL, "rounds": 40, "eval_every": 1, "patience": 2, "step": 0.02, "absent": ""}
        expected = self.local(settings)
        self.assertLess(summary(expected)["rounds"], 40)
        self.assert_same(self.mpi(settings, 3), expected)
        self.assert_same(self.grpc(settings), expected)

    def test_given_weights_give_the_same_bytes_on_all_engines(self):
        settings = {**UNEQUAL, "method": "oracle", "rounds": 3}
        expected = self.local(settings)
        self.assert_same(self.mpi(settings, 3), expected)
        self.assert_same(self.grpc(settings), expected)

    def test_shrink_gives_the_same_bytes_on_all_engines(self):
        """Its weights depend on sums over all coordinates, so ranks must share them, also after a resume."""
        settings = {**UNEQUAL, "method": "shrink", "prior_rounds": 7}
        del settings["initial_rounds"]  # 3 for shrink
        expected = self.local(settings)
        self.assertEqual(summary(expected)["initial_rounds"], 3)
        self.assertEqual(len(summary(expected)["mean_error_rates"]), 4)
        self.assert_same(self.mpi(settings, 3), expected)
        self.assert_same(self.grpc(settings), expected)
        out = self.mpi({**settings, "rounds": 5}, 3, "chain")
        self.mpi({**settings, "rounds": 7}, 2, resume=out)
        self.succeed("train", "--resume", out, "--rounds", 9, "--engine", "local")
        self.mpi(settings, 4, resume=out)
        self.assertEqual(summary(out)["model_sha256"], summary(expected)["model_sha256"])

    def test_batch_norm_gives_the_same_bytes_on_all_engines(self):
        """Another N, 269,722, and a network whose batches are not split."""
        settings = {
            "dataset": "cifar10",
            "data": cifar10(),
            "model": "resnet20",
            "batches": "5,3",
            "rounds": 3,
            "initial_rounds": 1,
            "threads": 1,
        }
        expected = self.local(settings)
        self.assert_same(self.mpi(settings, 2), expected)
        self.assert_same(self.grpc(settings), expected)

    def test_a_run_goes_on_with_other_ranks_and_engines(self):
        expected = self.local(UNEQUAL)
        out = self.mpi({**UNEQUAL, "rounds": 4}, 3, "chain")
        self.assertTrue(list(out.glob("shard-4-*.bin")))
        self.mpi({**UNEQUAL, "rounds": 7}, 2, resume=out)
        self.succeed("train", "--resume", out, "--rounds", 9, "--engine", "local")
        self.assertEqual(list(out.glob("shard-*")), [])
        self.mpi(UNEQUAL, 4, resume=out)
        self.assertEqual(summary(out)["model_sha256"], summary(expected)["model_sha256"])
        self.assertEqual(metrics(out)[-1]["test_loss"], metrics(expected)[-1]["test_loss"])

    @with_enough_rounds(UNEQUAL["rounds"])
    def test_a_server_that_is_asked_to_stop_goes_on_later(self, rounds):
        settings = {**SCHEDULED, "rounds": rounds}
        server, workers = self.start_grpc(settings)
        server.wait_for_rounds(2)
        server.process.send_signal(signal.SIGTERM)
        code = server.wait()
        if code == 0:
            raise Over("it was asked too late")
        self.assertEqual(code, 130, server.tail())
        server.start()
        self.assert_same(self.finish_grpc(server, workers), self.local(settings))


class WalkThrough(Case):
    """docs/tutorial.md's five minutes, typed as they stand there (but for the port, and fewer rounds)."""

    def test_the_three_hashes_agree(self):
        text = (pathlib.Path(__file__).parents[2] / "docs/tutorial.md").read_text()
        script, journal = re.findall(r"```sh\n(.*?)```", text, re.S)
        self.assertEqual((script.count(":7000"), script.count("rounds = 60")), (2, 1))
        script = script.replace(":7000", f":{free_port()}").replace("rounds = 60", "rounds = 6")
        script += journal.replace("--round 25", "--round 3")
        (self.folder / "build").symlink_to(pathlib.Path(SIGNVOTE).parent)
        (self.folder / "cache/signvote").mkdir(parents=True)
        (self.folder / "cache/signvote/mnist").symlink_to(mnist())
        (self.folder / "typed.sh").write_text(script)  # a file, for mpirun would eat what is typed ahead
        result = run_session(
            ["bash", "-e", "typed.sh"],
            timeout=TIMEOUT,
            cwd=self.folder,
            env={**ENVIRONMENT, "XDG_CACHE_HOME": str(self.folder / "cache")},
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        hashes = re.findall(r'"model_sha256": "([0-9a-f]{64})"', result.stdout)
        self.assertEqual((len(hashes), len(set(hashes))), (3, 1), result.stdout + result.stderr)


class DeadRank(Case):
    """A rank that is killed ends the job; --resume goes on from the last save."""

    @with_enough_rounds(24)
    def test_a_killed_rank_ends_the_job_which_can_go_on(self, rounds):
        settings = {**UNEQUAL, "rounds": rounds, "save_every": 3, "eval_every": rounds}
        del settings["absent"]
        config = write_toml(self.folder / "run.toml", settings)
        out = self.folder / "run"
        job = start_session(
            [*mpi_command(3), "train", "--config", config, "--engine", "mpi", "--out", out],
            env=mpi_environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.addCleanup(end_session, job)
        wait_until("there is a save", lambda: (out / "checkpoint.bin").exists() or job.poll() is not None)
        ranks = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_rank(pid, out)]
        if len(ranks) == 3:  # else it may have ended
            with contextlib.suppress(ProcessLookupError):
                os.kill(max(ranks), signal.SIGKILL)
        said, _ = job.communicate(timeout=TIMEOUT)
        if (out / "summary.json").exists():
            raise Over("the job had ended before a rank could be killed")
        self.assertEqual(len(ranks), 3, said)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(said, re.compile("killed|signal 9", re.I))
        wait_until("all ranks end", lambda: all(map(has_ended, ranks)))
        result = mpirun(2, "train", "--resume", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.succeed("train", "--config", config, "--out", self.folder / "local")
        self.assertEqual(summary(out)["model_sha256"], summary(self.folder / "local")["model_sha256"])

    @staticmethod
    def is_rank(pid, out):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode().split("\0")
        except OSError:
            return False
        return words[0] == SIGNVOTE and str(out) in words

    def test_what_makes_no_sense_is_said_once(self):
        def refuse(code, ranks, *arguments, says):
            result = mpirun(ranks, "train", *arguments)
            self.assertEqual(result.returncode, code, result.stderr)
            said = [line for line in result.stderr.splitlines() if line.startswith("signvote: ")]
            self.assertEqual(len(said), 1, result.stderr)
            self.assertIn(says, said[0])

        data = ["--data", mnist(), "--rounds", 2, "--out", self.folder / "x", "--engine", "mpi"]
        refuse(2, 3, "--batches", "4,4", *data, says="3 ranks for 2 workers")
        refuse(2, 2, "--batches", "nonsense", *data, says="--batches")
        refuse(1, 2, "--batches", "4,4", "--data", self.folder, "--engine", "mpi", says="data fetch")
        refuse(2, 2, "--batches", "4,4", *data[:-2], says="add --engine mpi")
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    main()
