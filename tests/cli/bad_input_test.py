"""What the program is asked wrongly: one line that says so, the right exit code, and nothing left behind."""

import fcntl
import os
import re
import shutil
import subprocess

from command_line import ENVIRONMENT, PAPER, SIGNVOTE, Case, contents, flags, main, small, summary
from generated_data import mnist
from processes import missing_rights
from waiting import TIMEOUT


class Usage(Case):
    """One or two of a kind; tests/run/config_test.cpp has all the values that make no sense."""

    def refuse_train(self, cases):
        """Each of these flags is refused before `train` makes a folder."""
        self.refuse_each(2, [(["train", *arguments], says) for arguments, says in cases], cwd=self.folder)
        self.assertEqual(contents(self.folder), {})

    def test_unknown_words_are_refused_with_the_nearest_known(self):
        self.refuse_each(
            2,
            [
                (["train", "--round", 3], "unknown flag '--round'; did you mean --rounds?"),
                (["train", "--batch_mode=4"], "unknown flag '--batch_mode'; did you mean --batch-mode?"),
                (["train", "--qqqqqqqqqqq"], "unknown flag '--qqqqqqqqqqq'; see signvote train --help"),
                (["train", "twice"], "unknown argument 'twice'; see signvote train --help"),
                (["trian"], "unknown argument 'trian'; did you mean train?"),
                (["reproduce", "figure2"], "unknown argument 'figure2'; did you mean figure1?"),
                (
                    ["train", "--dataset", "MNIST"],
                    "neither mnist, cifar10 nor a folder or a .txt file; did you mean mnist?",
                ),
                (["train", "--model", "resnet18"], "did you mean resnet20?"),
            ],
        )

    def test_words_of_other_programs_are_told_what_they_are_called_here(self):
        train = {
            "--lr": "it is called --step here",
            "--learning-rate=0.1": "'--learning-rate'; it is called --step here",
            "--epochs": "it is called --rounds here",
            "--steps": "it is called --rounds here",
            "--batch-size": "it is called --batches here, which are each worker's own: 15x64 is",
            "--batch_size": "it is called --batches here",
            "--device": "everything is computed on CPUs",
            "--gpu": "everything is computed on CPUs",
            "--cuda": "everything is computed on CPUs",
            "--optimizer": "--method says how votes are weighed",
            "--momentum": "it is called --sign-of here, e.g. momentum:0.9",
            "--weight_decay": "did you mean --weight-decay?",
            "--world-size": "mpirun -n 3 signvote train --engine mpi",
            "--num-workers": "it is called --workers here, which vote; --threads says",
            "-o": "it is called --out here",
            "--checkpoint": "it is called --resume here",
            "--verbose": "there is one amount of output",
        }
        cases = [(["train", flag, "1"], says) for flag, says in train.items()]
        cases += [
            (["server", "--resume", "x"], "it is called --state here"),
            (["server", "--port", "7000"], "it is called --listen here"),
            (["worker", "--server", "x"], "it is called --connect here"),
            (["worker", "--batch-size", "4"], "it is called --batch here"),
            (["worker", "--lr", "1"], "a worker gets the run's settings from its server"),
            (["worker", "--seed", "1"], "a worker gets the run's settings from its server"),
            (["eval", "--lr", "1"], "see signvote eval --help"),
        ]
        self.refuse_each(2, cases)

    def test_missing_words_are_asked_for(self):
        self.refuse_each(
            2,
            [
                ([], "see signvote --help"),
                (["reproduce"], "see signvote reproduce --help"),
                (["eval"], "model is required"),
                (["train", "--rounds"], "--rounds needs a value; see signvote train --help"),
                (["train", "--out", ""], "--out is empty"),
                (["train", "--rounds", 1, "--rounds", 2], "--rounds is given more than once"),
                (["journal", "x"], "a subcommand is missing: verify, list, model, backup, restore"),
                (["data"], "a subcommand is missing: fetch"),
            ],
        )

    def test_numbers_out_of_range_are_refused(self):
        self.refuse_train(
            [(["--rounds", value], f"--rounds is '{value}'; it must be a whole number from 1") for value in (0, "abc")]
        )
        self.refuse_train(
            [(["--step", value], f"--step is '{value}'; it must be a number") for value in ("nan", "-1e-4")]
        )
        self.refuse_train(
            [
                (["--step-schedule", "sine"], "take constant, cosine, linear, wsd"),
                (["--warmup-rounds", 8, "--rounds", 8], "--warmup-rounds is 8"),
                (["--weight-decay", 3000], "--weight-decay 3000 is not below 1"),
            ]
        )
        self.refuse_train([(["--batch-mode", 5], "from 1 to 4"), (["--seed", -1], "--seed is '-1'")])
        self.refuse(2, "reproduce", "figure1", "--batch-modes", "1,5", says="--batch-modes")

    def test_batches_that_make_no_sense_are_refused(self):
        self.refuse_train(
            [(["--batches", value], f"--batches is '{value}'; write sizes like 14x4,904") for value in ("", "4,,4")]
        )
        self.refuse_train(
            [
                (["--batches", "60000x1,60000x1"], "more than 65536 workers"),
                (["--batch-mode", 4, "--batches", "15x4"], "--batch-mode and --batches are both given"),
                (["--workers", 4, "--batches", "3x4"], "--workers is 4 but the batches 3x4 are those of 3 workers"),
                (
                    ["--workers", 4, "--batch-mode", 4],
                    "--workers is 4 but the batches 14x4,904 are those of 15 workers",
                ),
                (small(batches="4,501,4"), "worker 1 has a batch of 501 but holds only 500 samples"),
            ]
        )

    def test_unknown_choices_are_refused_with_the_known_ones(self):
        self.refuse_train(
            [([f"--{name}", "other"], f"--{name} is 'other'; take ") for name in ("method", "engine", "loss")]
        )
        self.refuse_train(
            [(["--partition", value], f"partition is '{value}'; ") for value in ("all", "labels:0", "dirichlet:-1")]
        )

    def test_absences_that_make_no_sense_are_refused(self):
        self.refuse_train(
            [(["--absent", value], f"--absent is '{value}'; write it like 2@5-9,0@12") for value in ("x", "-1@3")]
        )
        self.refuse_train([(small(absent="0@1,3@2"), "--absent names worker 3; there are 3, from 0 to 2")])

    def test_a_dashboard_that_others_could_reach_needs_certificates(self):
        both = ["--dashboard-cert", "x.pem", "--dashboard-key", "x.key"]
        self.refuse_train(
            [
                (["--dashboard", "0.0.0.0:0"], ["--dashboard-cert", "loopback"]),
                (["--dashboard", "nowhere"], "--dashboard is 'nowhere'"),
                (["--dashboard", "--dashboard-cert", "x.pem"], "--dashboard-key"),
                (both, "give that as well"),
            ]
        )
        self.refuse(1, "train", *small(), "--dashboard", "127.0.0.1:0", *both, says="x.pem", cwd=self.folder)

    def test_an_engine_of_several_programs_is_not_started_by_train(self):
        self.refuse_train(
            [(["--engine", "grpc"], ["--engine grpc is started in parts", "signvote server", "signvote worker"])]
        )

    def test_a_figure_that_the_data_cannot_serve_is_refused(self):
        figure = ["reproduce", "figure1", "--data", mnist(), "--rounds", 1, "--out", self.folder / "figure"]
        self.refuse(2, *figure, says="a batch of 154")
        self.assertEqual(contents(self.folder), {})


class ConfigFile(Case):
    def test_errors_name_the_line_and_what_is_first(self):
        cases = {
            "round": ("rounds = 3\nround = 4\n", "round.toml:2: unknown key 'round'; did you mean 'rounds'?"),
            "syntax": ("rounds = 3\n\nseed = = 4\n", "syntax.toml:3: "),
            "value": ("seed = 1\nrounds = 0\n", "value.toml:2: rounds: "),
            "twice": ("seed = 1\nseed = 2\n", "twice.toml:2: "),
            "list": ("rounds = [3]\n", "list.toml:1: rounds: must be a number or a string"),
            "table": ("[train]\nrounds = 3\n", "table.toml:1: unknown key 'train'; settings stand outside of tables"),
            "first": ("zebra = 1\nalpha = 2\n", "first.toml:1: unknown key 'zebra'"),
            "value_first": ("rounds = 0\nzebra = 1\n", "value_first.toml:1: rounds: "),
            "key_first": ("zebra = 1\nrounds = 0\n", "key_first.toml:1: unknown key 'zebra'"),
            "first_value": ("threads = -1\nrounds = 0\n", "first_value.toml:1: threads: "),
            "lr": ("seed = 1\nlr = 0.1\n", "lr.toml:2: unknown key 'lr'; it is called 'step' here"),
            "epochs": ("epochs = 3\n", "epochs.toml:1: unknown key 'epochs'; it is called 'rounds' here"),
            "size": ("batch_size = 3\n", "size.toml:1: unknown key 'batch_size'; it is called 'batches' here"),
            "device": ('device = "cuda"\n', "device.toml:1: unknown key 'device'; everything is computed on CPUs"),
        }
        for name, (text, _) in cases.items():
            (self.folder / f"{name}.toml").write_text(text)
        before = contents(self.folder)
        self.refuse_each(
            2, [(["train", "--config", f"{name}.toml"], says) for name, (_, says) in cases.items()], cwd=self.folder
        )
        self.refuse(1, "train", "--config", "none.toml", says=["none.toml", "No such file"], cwd=self.folder)
        self.assertEqual(contents(self.folder), before)


class Pipes(Case):
    def test_what_is_no_file_is_refused_at_once(self):
        """Nobody writes to the pipe, so whoever opened it to read would wait for ever."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        state = self.folder / "state"
        server = ["server", *small(), "--listen", "127.0.0.1:0", "--state", state]
        worker = ["worker", "--connect", "127.0.0.1:1"]
        plain = self.folder / "plain"
        plain.write_text("")
        self.refuse_each(
            1,
            [
                (command, [file, "is not a file"])
                for file in (pipe, "/dev/zero")
                for command in (
                    ["train", "--config", file],
                    [*server, "--insecure", "--config", file],
                    [*server, "--cert", file, "--key", plain, "--client-ca", plain],
                    [*worker, "--cert", plain, "--key", file, "--ca", plain],
                    ["eval", file],
                )
            ],
        )
        self.refuse(2, *server, "--insecure", "--allow", pipe, says=[pipe, "is not a file"])
        self.assertFalse(state.exists())


class DataFiles(Case):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        shutil.copytree(mnist(), self.data)

    def refuse_data(self, says):
        before = contents(self.folder)
        self.refuse(
            1, "train", *small(data=self.data), "--out", self.folder / "run", says=[*says, "signvote data fetch mnist"]
        )
        self.assertEqual(contents(self.folder), before)

    def test_missing_files_are_named(self):
        (self.data / "t10k-labels-idx1-ubyte").unlink()
        self.refuse_data([self.data, "has no t10k-labels-idx1-ubyte"])
        shutil.rmtree(self.data)
        self.refuse_data([self.data, "is not a folder"])
        self.refuse(
            1, "train", "--out", self.folder / "run", says=["cache/signvote/mnist", "signvote data fetch mnist"]
        )

    def test_truncated_files_are_named(self):
        os.truncate(self.data / "train-images-idx3-ubyte", 1000)
        self.refuse_data(["train-images-idx3-ubyte", "is truncated: 1000 bytes of 1176016"])

    def test_labels_in_place_of_images_are_refused(self):
        shutil.copy(self.data / "train-labels-idx1-ubyte", self.data / "train-images-idx3-ubyte")
        self.refuse_data(["train-images-idx3-ubyte", "is a label file"])

    def test_images_of_another_size_are_told_what_fits(self):
        images = bytearray((self.data / "train-images-idx3-ubyte").read_bytes())
        images[8:16] = (14).to_bytes(4, "big") + (56).to_bytes(4, "big")
        (self.data / "train-images-idx3-ubyte").write_bytes(images)
        self.refuse_data(["14 x 56 pixels, not 28 x 28", "for data of your own, give the folder as --dataset"])
        tests = bytearray((self.data / "t10k-images-idx3-ubyte").read_bytes())
        tests[8:16] = images[8:16]
        (self.data / "t10k-images-idx3-ubyte").write_bytes(tests)
        own = ["train", "--dataset", self.data, "--batches", "4,4", "--rounds", 1, "--out", self.folder / "own"]
        self.refuse(2, *own, says=["at least 16 x 16 pixels, not 14 x 56", "take --model resnet20"])
        self.succeed(*own, "--model", "resnet20")

    def test_fewer_labels_than_images_are_refused(self):
        shutil.copy(self.data / "t10k-labels-idx1-ubyte", self.data / "train-labels-idx1-ubyte")
        self.refuse_data(["1500 images", "300 labels"])


class OutFolder(Case):
    def test_a_folder_with_a_run_in_it_is_refused(self):
        out = self.train("run", rounds=1)
        before = contents(out)
        self.refuse(2, "train", *small(seed=1), "--out", out, says=[out, "holds a run already", "--resume"])
        self.assertEqual(contents(out), before)

    def test_a_folder_that_another_process_has_locked_is_left_alone(self):
        """As two that begin in it at once: the lock comes before the first look, and before the first file."""
        lock = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.refuse(1, "train", *small(), "--out", self.folder, says=[self.folder, "another process is at work"])
        self.assertEqual(contents(self.folder), {})

    def test_a_folder_below_a_file_is_refused(self):
        (self.folder / "file").write_text("mine")
        self.refuse(1, "train", *small(), "--out", self.folder / "file/run", says=["file/run", "Not a directory"])
        self.refuse(1, "train", *small(), "--out", self.folder / "file", says=["file"])
        self.assertEqual(contents(self.folder), {"file": b"mine"})

    def test_a_folder_without_permission_to_write_is_refused(self):
        self.folder.chmod(0o755)
        (self.folder / "locked").mkdir(0o555)
        (self.folder / "closed").mkdir(0o700)
        program = shutil.copy(SIGNVOTE, self.folder / "signvote")  # where anybody can run it
        shutil.copy(SIGNVOTE + "-compute", self.folder)
        before = contents(self.folder)
        as_nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        for out in ("locked", "locked/run", "closed/run")[: 3 if as_nobody else 2]:
            with self.subTest(out):
                result = subprocess.run(
                    [program, "train", *small(), "--out", self.folder / out],
                    text=True,
                    capture_output=True,
                    timeout=TIMEOUT,
                    cwd="/",
                    env=ENVIRONMENT,
                    **as_nobody,
                )
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stderr, r"\Asignvote: [^\n]*" + out + r"[^\n]*Permission denied[^\n]*\n\Z")
                self.assertEqual(contents(self.folder), before)


class FullDisk(Case):
    def test_the_run_can_go_on_once_there_is_room(self):
        # In a mount namespace of its own, so that nothing stays mounted.
        missing = missing_rights("CAP_SYS_ADMIN")
        namespace = ["unshare", "--mount", "--map-root-user"] if missing else ["unshare", "--mount"]
        script = """set -e
            mount -t tmpfs -o size=1m none "$1"
            train="--batches 3x4 --rounds 4 --eval-every 1 --save-every 2 $5"
            "$2" train --data "$3" $train --out "$1/run" || echo "code $?"
            ls "$1/run"
            mount -o remount,size=64m "$1"
            "$2" train --resume "$1/run"
            cat "$1/run/summary.json" > "$4" """
        trial = subprocess.run(
            [*namespace, "mount", "-t", "tmpfs", "none", self.folder], text=True, capture_output=True
        )
        if missing and trial.returncode != 0:
            self.skipTest(f"a small disk needs {missing}, or: {trial.stderr.strip()}")
        (self.folder / "disk").mkdir()
        (self.folder / "saved").mkdir()
        arguments = [
            self.folder / "disk",
            SIGNVOTE,
            mnist(),
            self.folder / "saved/summary.json",
            " ".join(flags(PAPER)),
        ]
        result = subprocess.run(
            [*namespace, "sh", "-c", script, "sh", *arguments],
            text=True,
            capture_output=True,
            timeout=TIMEOUT,
            env=ENVIRONMENT,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith("signvote: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertRegex(errors[0], r"run/(best\.pt|checkpoint\.bin).*No space left on device; free some space")
        self.assertEqual(result.stdout.split()[:4], ["code", "1", "config.toml", "metrics.jsonl"])
        self.assertEqual(summary(self.folder / "saved")["model_sha256"], self.sha256("whole"))

    def test_results_that_cannot_be_printed_are_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [SIGNVOTE, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, env=ENVIRONMENT
            )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Asignvote: [^\n]*No space left on device\n\Z")


class Help(Case):
    def test_every_command_has_help_with_examples(self):
        for command in (
            [],
            ["train"],
            ["reproduce", "figure1"],
            ["reproduce", "table"],
            ["data", "fetch"],
            ["eval"],
            ["server"],
            ["worker"],
            ["journal"],
            ["inspect"],
            ["report"],
            ["certs"],
            ["certs", "new-ca"],
            ["certs", "server"],
            ["certs", "worker"],
            ["completion"],
        ):
            result = self.succeed(*command, "--help")
            self.assertEqual(result.stderr, "")
            examples = re.findall(r"^  (?:source <\()?(signvote .*)", result.stdout, re.M)
            self.assertGreaterEqual(len(examples), 2, result.stdout)
            for example in examples:
                self.assertTrue(example.startswith(" ".join(["signvote", *command])), example)
        for command in ("reproduce", "data"):
            self.assertIn("Subcommands:", self.succeed(command, "--help").stdout)

    def test_the_version_is_printed(self):
        self.assertRegex(self.succeed("--version").stdout, r"\Asignvote \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    main()
