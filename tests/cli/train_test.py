"""signvote train: its run folder, the same bytes whatever the threads, and what it shows meanwhile."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

from command_line import (
    ENVIRONMENT,
    FILES,
    PAPER,
    SIGNVOTE,
    Case,
    config,
    flags,
    main,
    metrics,
    run,
    small,
    summary,
    without_timing,
)
from generated_data import cifar10, mnist
from waiting import TIMEOUT


class Defaults(Case):
    def test_they_are_those_that_train_to_the_end(self):
        out = self.train("run", rounds=6, **dict.fromkeys(PAPER))
        self.assertEqual(
            {key: summary(out)[key] for key in ("method", "sign_of", "step", "step_schedule", "initial_rounds")},
            {
                "method": "agree",
                "sign_of": "momentum:0.9",
                "step": 4e-4,
                "step_schedule": "cosine",
                "initial_rounds": 5,
            },
        )
        self.assertEqual(config(out)["prior_rounds"], 3)
        again = self.folder / "again"
        self.succeed("train", "--config", out / "config.toml", "--out", again)
        self.assertEqual(summary(again)["model_sha256"], summary(out)["model_sha256"])
        other = self.folder / "other"
        self.succeed("train", "--config", out / "config.toml", "--method", "shrink", "--out", other)
        self.assertEqual((summary(other)["initial_rounds"], config(other)["prior_rounds"]), (3, 30))


class RunFolder(Case):
    def test_a_run_leaves_its_files_summary_and_metrics(self):
        out = self.train("run", batches="4,4,8", rounds=7, eval_every=3, initial_rounds=4, seed=5)
        self.assertEqual(set(os.listdir(out)), FILES)

        result = summary(out)
        expected = {
            "method": "it",
            "dataset": "mnist",
            "model": "cnn",
            "parameters": 582026,
            "workers": 3,
            "batches": "4,4,8",
            "partition": "iid",
            "rounds": 7,
            "step": 0.001,
            "step_schedule": "constant",
            "warmup_rounds": 0,
            "weight_decay": 0.0,
            "initial_rounds": 4,
            "seed": 5,
            "absences": 0,
        }
        self.assertEqual({key: result[key] for key in expected}, expected)
        self.assertRegex(result["model_sha256"], r"\A[0-9a-f]{64}\Z")
        self.assertTrue(0 <= result["test_accuracy"] <= 1)
        self.assertAlmostEqual(result["test_accuracy"] * 300, round(result["test_accuracy"] * 300))  # test images
        for direction in ("up", "down"):
            self.assertTrue(0.1 < result[f"bits_per_parameter_{direction}"] < 1.3, result)
        self.assertGreater(result["samples_per_second"], 0)
        self.assertGreater(result["outside_gradients_share"], 0)
        self.assertLess(result["outside_gradients_share"], 1)
        self.assertGreater(result["seconds"], 7 * 16 / result["samples_per_second"])
        self.assertEqual(len(result["mean_error_rates"]), 3)

        rows = metrics(out)
        self.assertEqual([row["round"] for row in rows], [3, 6, 7])
        for row in rows:
            self.assertEqual(
                set(row),
                {
                    "round",
                    "test_accuracy",
                    "test_loss",
                    "train_loss",
                    "step",
                    "bits_per_parameter_up",
                    "bits_per_parameter_down",
                    "model_sha256",
                    "seconds",
                },
            )
        for key in ("test_accuracy", "bits_per_parameter_up", "bits_per_parameter_down", "model_sha256"):
            self.assertEqual(rows[-1][key], result[key])
        self.assertEqual(rows, sorted(rows, key=lambda row: row["seconds"]))

    def test_the_last_round_is_tested_once(self):
        self.assertEqual([row["round"] for row in metrics(self.train("run", rounds=6, eval_every=3))], [3, 6])

    def test_the_config_repeats_the_run(self):
        # The data folder is given relative to another folder than the repetition starts in.
        first = self.folder / "first"
        self.succeed(
            "train",
            *small(
                data=mnist().name,
                method="mv",
                batches="4,2x5",
                partition="dirichlet:0.5",
                seed=3,
                step=2e-3,
                eval_every=2,
                micro_batch=3,
            ),
            "--out",
            first,
            cwd=mnist().parent,
        )
        second = self.folder / "second"
        self.succeed("train", "--config", first / "config.toml", "--out", second, cwd=self.folder)
        self.assertEqual(summary(second)["model_sha256"], summary(first)["model_sha256"])
        self.assertEqual(config(second), config(first))
        self.assertEqual(config(second)["batches"], "4,2x5")
        self.assertEqual(config(second)["step"], 2e-3)

    def test_flags_override_the_file(self):
        file = self.folder / "settings.toml"
        file.write_text('method = "mv"\nrounds = 9\nseed = 1\nworkers = 3\nbatches = "3x4"\neval-every = 2\n')
        out = self.folder / "run"
        self.succeed(
            "train", "--config", file, *flags({"data": mnist(), "rounds": 2, "seed": 7, "batches": "4,5"}), "--out", out
        )
        result = summary(out)
        self.assertEqual((result["method"], result["rounds"], result["seed"]), ("mv", 2, 7))
        self.assertEqual((result["workers"], result["batches"]), (2, "4,5"))
        self.assertEqual(config(out)["eval_every"], 2)

    def test_every_flag_is_a_key(self):
        shown = set(re.findall(r"^  --([a-z0-9-]+)", run("train", "--help").stdout, re.MULTILINE))
        own = {"config", "resume", "dashboard", "dashboard-cert", "dashboard-key", "tensorboard"}  # change no run
        keys = {
            "dataset": "mnist",
            "data": str(mnist()),
            "model": "cnn",
            "method": "mv",
            "workers": 3,
            "batches": "1,2,3",
            "partition": "shared",
            "absent": "2@1,0@2-9",
            "attack": "flip:1:0.5",
            "sign_of": "lion:0.5,0.9",
            "sparsity": "random:0.5",
            "rounds": 2,
            "step": 0.002,
            "step_schedule": "linear",
            "warmup_rounds": 1,
            "weight_decay": 0.01,
            "initial_rounds": 3,
            "clip": 4.5,
            "prior_rounds": 12,
            "forget": 0.01,
            "eval_every": 1,
            "save_every": 1,
            "patience": 9,
            "seed": 11,
            "threads": 1,
            "micro_batch": 2,
            "engine": "local",
            "loss": "cross-entropy",
            "out": str(self.folder / "run"),
        }
        self.assertEqual(
            shown - own, {key.replace("_", "-") for key in keys} | {"batch-mode", "context", "model-file-sha256"}
        )

        file = self.folder / "all.toml"
        file.write_text("".join(f"{key} = {value!r}\n" for key, value in keys.items()))
        self.succeed("train", "--config", file)
        self.assertEqual(config(self.folder / "run"), {key: keys[key] for key in keys if key != "out"})
        self.assertEqual(
            [(row["round"], row["step"]) for row in metrics(self.folder / "run")], [(1, 0.002), (2, 0.001)]
        )

        file.write_text("batch_mode = 1\nrounds = 1\n")
        out = self.folder / "mode1"
        self.succeed("train", "--config", file, "--data", mnist(), "--out", out)
        self.assertEqual((summary(out)["workers"], summary(out)["batches"]), (15, "15x64"))

    def test_the_default_folder_is_named_after_the_run(self):
        for flags, name in (
            (["--batches", "15x64", "--method", "mv", "--seed", 4], "mnist-cnn-mv-mode1-rounds-1-seed4"),
            (
                ["--batches", "2x4,20", "--partition", "labels:5"],
                "mnist-cnn-agree-2x4-20-partition-labels-5-rounds-1-seed0",
            ),
        ):
            self.succeed("train", "--data", mnist(), "--rounds", 1, *flags, cwd=self.folder)
            self.assertEqual(summary(self.folder / "runs" / name)["rounds"], 1)
            self.refuse(2, "train", "--data", mnist(), "--rounds", 1, *flags, cwd=self.folder, says=[name, "already"])


def best_of(rows):
    """The first of those with the highest accuracy."""
    return max(rows, key=lambda row: row["test_accuracy"])


class Best(Case):
    OPTIONS = {"rounds": 30, "eval_every": 1, "step": 0.02}  # so large that tests jump

    def test_the_best_model_is_kept_beside_the_last(self):
        out = self.train("run", **self.OPTIONS)
        best = best_of(metrics(out))
        self.assertLess(best["round"], 30)
        self.assertEqual(
            summary(out)["best"],
            {
                "round": best["round"],
                "test_accuracy": best["test_accuracy"],
                "test_loss": best["test_loss"],
                "model_sha256": best["model_sha256"],
                "file": "best.pt",
            },
        )
        as_short = self.train("short", **{**self.OPTIONS, "rounds": best["round"]})
        self.assertEqual(summary(as_short)["model_sha256"], best["model_sha256"])
        self.assertEqual((as_short / "model.pt").read_bytes(), (out / "best.pt").read_bytes())
        shown = self.succeed("eval", out / "best.pt", "--json", "--data", mnist()).stdout
        self.assertEqual(json.loads(shown)["test_accuracy"], best["test_accuracy"])

    def test_a_run_ends_when_its_patience_does(self):
        rows = metrics(self.train("whole", **self.OPTIONS))
        last = next(n for n in range(3, 30) if best_of(rows[:n])["round"] == n - 2)  # two tests without a better one
        out = self.folder / "run"
        said = self.succeed("train", *small(**self.OPTIONS, patience=2), "--out", out).stderr
        self.assertIn(f"ends after round {last} of 30", said)
        self.assertEqual(summary(out)["rounds"], last)
        self.assertEqual(without_timing(metrics(out)), without_timing(rows[:last]))
        self.assertEqual(summary(out)["model_sha256"], rows[last - 1]["model_sha256"])
        again = self.succeed("train", "--resume", out).stderr  # nothing is left to do
        self.assertIn(f"ends after round {last} of 30", again)
        self.succeed("train", "--resume", out, "--patience", 0)
        self.assertEqual(without_timing(metrics(out)), without_timing(rows))

    def test_a_loss_that_rises_is_told_once(self):
        # From round 41 on two of three lie, and the majority climbs.
        options = small(rounds=160, eval_every=40, method="mv", attack="late:2:40")
        said = self.succeed("train", *options, "--out", self.folder / "run").stderr
        self.assertEqual(len(re.findall(r"^round \d+: the loss is .* far above its best", said, re.MULTILINE)), 1, said)


class SameBytes(Case):
    def test_threads_do_not_change_a_byte(self):
        # Batches of one, two and three parts, and one of a single sample.
        shas = {
            threads: self.sha256(
                f"threads{threads}", threads=threads, batches="1,40,16,7,17", micro_batch=16, initial_rounds=2
            )
            for threads in (1, 2, 3)
        }
        self.assertEqual(len(set(shas.values())), 1, shas)
        self.assertNotIn(
            self.sha256("seed1", threads=2, batches="1,40,16,7,17", micro_batch=16, initial_rounds=2, seed=1),
            shas.values(),
        )

    def test_methods_differ_after_the_initial_phase_only(self):
        def sha256(method, rounds):
            return self.sha256(f"{method}{rounds}", method=method, rounds=rounds, initial_rounds=3)

        self.assertEqual(len({sha256(method, 3) for method in ("it", "mv", "shrink")}), 1)
        self.assertEqual(len({sha256(method, 5) for method in ("it", "mv", "shrink")}), 3)

    def test_comparators_are_what_they_say(self):
        settings = {"batches": "4,9,2", "rounds": 3, "sign_of": "momentum:0.5"}
        others = "0@1-3,2@1-3"  # the largest batch is worker 1's
        self.assertEqual(
            self.sha256("solo", method="solo", **settings), self.sha256("alone", method="mv", absent=others, **settings)
        )
        equal = {**settings, "batches": "3x5"}
        self.assertEqual(self.sha256("oracle", method="oracle", **equal), self.sha256("mv", method="mv", **equal))
        self.assertNotEqual(
            self.sha256("unequal", method="oracle", **settings), self.sha256("mv3", method="mv", **settings)
        )

    def test_full_precision_learns_and_is_exact(self):
        settings = {"method": "sgd", "step": None, "sign_of": "momentum:0.9", "rounds": 6, "eval_every": 6}
        whole = self.train("whole", **settings, threads=2)
        self.assertEqual(summary(whole)["step"], 0.5)
        self.assertEqual(summary(whole)["bits_per_parameter_up"], 32)
        self.assertEqual(self.sha256("threads", **settings, threads=1), summary(whole)["model_sha256"])
        unequal = self.train("unequal", **{**settings, "batches": "2,60", "rounds": 40, "eval_every": 40})
        self.assertGreater(summary(unequal)["test_accuracy"], 0.9)
        part = self.train("part", **{**settings, "rounds": 3}, step_schedule="constant")
        self.succeed("train", "--resume", part, "--rounds", 6)
        self.assertEqual(self.sha256("constant", **settings, step_schedule="constant"), summary(part)["model_sha256"])
        self.refuse_each(
            2,
            [
                (["train", "--method", "sgd", "--attack", "flip:1"], ["--attack is for methods that vote"]),
                (["train", "--method", "sgd", "--sparsity", "0.1"], ["--sparsity is for methods that vote"]),
                (["train", "--method", "sgd", "--engine", "mpi"], ["in one process"]),
            ],
        )

    def test_a_run_without_weights_says_so_once(self):
        def said(name, **options):
            return self.succeed("train", *small(**options), "--out", self.folder / name).stderr.count("plain majority")

        self.assertEqual(said("never", rounds=3, initial_rounds=3), 1)
        self.assertEqual(said("default", rounds=3), 1)
        self.assertEqual(said("weighted", rounds=4, initial_rounds=3), 0)
        self.assertEqual(said("shrink", rounds=4, method="shrink"), 0)
        self.assertEqual(said("mv", rounds=3, method="mv"), 0)

    def test_every_partition_runs_and_matters(self):
        shas = [
            self.sha256(f"run{i}", rounds=2, partition=rule)
            for i, rule in enumerate(["iid", "shared", "labels:2", "dirichlet:0.5"])
        ]
        self.assertEqual(len(set(shas)), 4, shas)

    def test_threads_do_not_change_a_byte_with_batch_norm(self):
        options = {"dataset": "cifar10", "data": cifar10(), "model": "resnet20", "batches": "2,4", "rounds": 2}
        shas = [self.sha256(f"threads{threads}", threads=threads, **options) for threads in (1, 2)]
        self.assertEqual(shas[0], shas[1])


def on_a_terminal(arguments, columns=100):
    """Runs it with stderr on a pseudo-terminal; returns exit code, stdout and what the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [SIGNVOTE, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**ENVIRONMENT, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    stdout, _ = process.communicate(timeout=TIMEOUT)
    return process.returncode, stdout.decode(), shown.decode().replace("\r\n", "\n")


class Output(Case):
    def test_progress_is_plain_lines_elsewhere_than_on_a_terminal(self):
        result = self.succeed("train", *small(rounds=5, eval_every=2), "--out", self.folder / "run")
        self.assertNotRegex(result.stderr, r"[\r\x1b]")
        self.assertEqual(re.findall(r"^round (\d)/5 ", result.stderr, re.MULTILINE), ["1", "2", "4", "5"])
        self.assertRegex(result.stderr, r"round 5/5 +100 % +accuracy \d+\.\d\d % +loss \d\S+ .*\d (rounds/s|s/round) ")
        self.assertIn(summary(self.folder / "run")["model_sha256"], result.stdout)
        self.assertNotRegex(result.stdout, r"[\r\x1b]|round \d+/")

    def test_progress_is_a_redrawn_line_below_the_tests_on_a_terminal(self):
        code, stdout, shown = on_a_terminal(
            ["train", *small(rounds=8, eval_every=4, initial_rounds=2), "--out", self.folder / "run"]
        )
        self.assertEqual(code, 0, shown)
        introduction, *tests, line, rest = shown.split("\n")
        self.assertIn("3 workers", introduction)
        for round, text in zip((4, 8), tests, strict=True):  # every test stays as a line
            self.assertRegex(text, rf"\rround {round}/8  accuracy \d+\.\d\d %  loss [^\r\n\x1b]*\x1b\[K\Z")
        draws = [
            draw for text in (*tests, line) for draw in text.split("\r")[1:] if "rounds/s" in draw or "s/round" in draw
        ]
        self.assertGreaterEqual(len(draws), 2)  # the first round and the last, at least
        for draw in draws:
            self.assertRegex(draw, r"\Around [1-8]/8 [^\r\n\x1b]*\x1b\[K\Z")
        self.assertIn("100 %", draws[-1])
        self.assertEqual(rest, "")
        self.assertNotRegex(stdout, r"[\r\x1b]")


class Divergence(Case):
    OPTIONS = {"step": 1e12, "rounds": 20, "batches": "3x4"}
    WARNING = (
        r"round (\d+): worker ([012]) abstains, its gradient is NaN or infinite at "
        r"[a-z0-9]+\.(?:weight|bias)\[\d+\] \(coordinate \d+\)"
    )

    def test_divergence_ends_the_run_with_a_message(self):
        result = run("train", *small(**self.OPTIONS), "--out", self.folder / "run")
        self.assertEqual(result.returncode, 1)
        *lines, last = result.stderr.splitlines()
        self.assertRegex(
            last, r"\Asignvote: round \d+: every worker's gradient .* has diverged; try a smaller --step\Z"
        )
        failed = re.search(r"round (\d+):", last)[1]
        warnings = [match.groups() for match in map(re.compile(self.WARNING + r"\Z").match, lines) if match]
        self.assertEqual({worker for round, worker in warnings if round == failed}, {"0", "1", "2"})
        self.assertEqual(result.stdout, "")
        self.assertFalse((self.folder / "run/summary.json").exists())

    def test_warnings_have_lines_of_their_own_on_a_terminal(self):
        code, _, shown = on_a_terminal(["train", *small(**self.OPTIONS), "--out", self.folder / "run"])
        self.assertEqual(code, 1)
        *lines, last, rest = shown.split("\n")
        warnings = [line for line in lines if "abstains" in line]
        self.assertGreaterEqual(len(warnings), 3)
        for line in warnings:  # after the progress line was cleared
            self.assertRegex(line, r"\A(\r[^\r]*)*\r\x1b\[K" + self.WARNING + r"\Z")
        self.assertRegex(last, r"\Asignvote: [^\r\x1b]*\Z")
        self.assertEqual(rest, "")


if __name__ == "__main__":
    main()
