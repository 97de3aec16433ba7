"""A user's own model and data, which nobody here has seen: through docs/own_model.md as written, on all engines, and
what is refused."""

import hashlib
import json
import os
import pathlib
import random
import re
import struct
import zlib

import numpy
import torch

from command_line import ENVIRONMENT, SIGNVOTE, Case, config, main, metrics, run, summary
from conformance_test import mpi_command, mpi_environment
from processes import run_session
from server_and_workers import Server, Worker, free_port
from waiting import TIMEOUT

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (SOURCE / "docs/own_model.md").read_text()


class Everything(torch.nn.Module):
    """BatchNorm, dropout, tied and frozen parameters, a buffer of another type, and view()."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(12, dtype=torch.bool))
        self.first = torch.nn.Linear(12, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.drop = torch.nn.Dropout(0.2)
        self.middle = torch.nn.Linear(16, 16, bias=False)
        self.again = torch.nn.Linear(16, 16, bias=False)
        self.again.weight = self.middle.weight
        self.frozen = torch.nn.Parameter(torch.ones(16), requires_grad=False)
        self.last = torch.nn.Linear(16, 3)

    def forward(self, x):
        x = self.drop(self.norm(self.first(x.view(x.size(0), -1) * self.mask)))
        return self.last(torch.relu(self.again(torch.relu(self.middle(x)))) * self.frozen)


class Dropout(torch.nn.Module):
    def __init__(self, outputs=3):
        super().__init__()
        self.first = torch.nn.Linear(12, 16)
        self.last = torch.nn.Linear(16, outputs)

    def forward(self, x):
        x = torch.relu(self.first(x.flatten(1)))
        return self.last(torch.nn.functional.dropout(x, 0.3, self.training))


class Smoothed(Dropout):
    @torch.jit.export
    def loss(self, output, target):
        return torch.nn.functional.cross_entropy(output, target, label_smoothing=0.1)


class Counting(Dropout):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return self.last(torch.relu(self.first(x)))


class Letters(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = torch.nn.Embedding(256, 8)
        self.memory = torch.nn.GRU(8, 16, batch_first=True)
        self.out = torch.nn.Linear(16, 256)

    def forward(self, tokens):
        return self.out(self.memory(self.letters(tokens))[0])


def png(height, width, pixel):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + bytes(pixel) * width for _ in range(height))
    head = struct.pack(">2I5B", width, height, 8, 2 if len(pixel) == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class OwnCase(Case):
    def export(self, module, name="net.pt"):
        torch.manual_seed(5)
        path = self.folder / name
        torch.jit.script(module()).save(str(path))
        return path

    def arrays(self, name="flowers", **changes):
        """Three classes of 12 numbers; `changes` replace files."""
        folder = self.folder / name
        folder.mkdir()
        rng = numpy.random.default_rng(7)
        for part, rows in ("train", 300), ("test", 90):
            y = rng.integers(0, 3, rows)
            x = rng.normal(size=(rows, 12)) + 2 * numpy.eye(3).repeat(4, axis=1)[y]
            numpy.save(folder / f"{part}_x.npy", changes.get(f"{part}_x", x.astype("float32")))
            numpy.save(folder / f"{part}_y.npy", changes.get(f"{part}_y", y))
        return folder

    def own(self, name, model, data, *flags, rounds=8, batches="4,40,7"):
        out = self.folder / name
        settings = ["--batches", batches, "--micro-batch", 16, "--initial-rounds", 3, "--rounds", rounds]
        settings += ["--step-schedule", "constant"]  # so that a run can be made longer
        self.succeed("train", "--model", model, "--dataset", data, "--out", out, *settings, *flags)
        return out


def unseen(seed):
    """A program in place of the page's flowers.py, with a model and data that nobody has seen."""
    draw = random.Random(seed)
    classes, width, train, test = (draw.randint(*span) for span in ((2, 7), (4, 40), (240, 500), (50, 150)))
    shape = draw.choice([(draw.randint(4, 30),), (draw.randint(1, 4), draw.randint(5, 12), draw.randint(5, 12))])
    kind, norm = ("Linear", "BatchNorm1d") if len(shape) == 1 else ("Conv2d", "BatchNorm2d")
    parts = [f"{kind}({shape[0]}, {width}{', 3' if kind == 'Conv2d' else ''})"]
    parts += draw.choice([[], [f"{norm}({width})"], [f"Dropout({draw.uniform(0.1, 0.5)})"]])
    parts += [draw.choice(["ReLU()", "Tanh()", "GELU()"])]
    parts += (
        ["AdaptiveAvgPool2d(2)", "Flatten()", f"Linear({4 * width}, {classes})"]
        if kind == "Conv2d"
        else [f"Linear({width}, {classes})"]
    )
    return f"""
import os, numpy, torch

class Flowers(torch.nn.Sequential):
    def __init__(self):
        super().__init__({', '.join("torch.nn." + part for part in parts)})

if __name__ == "__main__":
    torch.manual_seed({seed})
    torch.jit.script(Flowers()).save("flowers.pt")
    random = numpy.random.default_rng({seed})
    centres = random.normal(size=({classes}, {', '.join(map(str, shape))}))
    os.makedirs("flowers", exist_ok=True)
    for part, rows in ("train", {train}), ("test", {test}):
        y = random.integers(0, {classes}, rows)
        y[:{classes}] = numpy.arange({classes})
        x = centres[y] + random.normal(size=(rows, {', '.join(map(str, shape))}))
        numpy.save(f"flowers/{{part}}_x.npy", x.astype("float32"))
        numpy.save(f"flowers/{{part}}_y.npy", y)
"""


class Guide(OwnCase):
    def type_page(self, flowers=None):
        """Saves what the page says to save, types all its commands, and returns what was printed."""
        build = pathlib.Path(SIGNVOTE).parent
        if not (build / "python/signvote").is_dir():
            self.skipTest("this build is without the Python package")
        saved = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", GUIDE, re.S))
        typed = "".join(re.findall(r"(?<!-->\n)```sh\n(.*?)```", GUIDE, re.S))
        self.assertEqual(len(saved), GUIDE.count("```python"))
        self.assertEqual(GUIDE.count("```sh"), 6)
        if flowers:
            saved["flowers.py"] = flowers
        for name, text in saved.items():
            self.assertIn(f"`{name}`", GUIDE, "the page says where to save it")
            (self.folder / name).write_text(text.replace(":29500", f":{free_port()}"))
        (self.folder / "build").symlink_to(build)
        (self.folder / "docs").symlink_to(SOURCE / "docs")
        (self.folder / "typed.sh").write_text(typed.replace(":7000", f":{free_port()}"))
        result = run_session(["bash", "-e", "typed.sh"], timeout=TIMEOUT, cwd=self.folder, env=ENVIRONMENT)
        self.assertEqual(result.returncode, 0, f"{saved['flowers.py']}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def check(self, said):
        """Three engines have come to the same bytes, and Python to the same accuracy."""
        hashes = re.findall(r'"model_sha256": "([0-9a-f]{64})"', said)
        self.assertEqual((len(hashes), len(set(hashes))), (3, 1), said)
        accuracy = float(re.search(r"^accuracy (\S+)", said, re.M)[1])
        self.assertAlmostEqual(accuracy, summary(self.folder / "runs/local")["test_accuracy"], places=5)
        in_ddp = float(re.search(r"^accuracy in DDP (\S+)", said, re.M)[1])
        return accuracy, in_ddp

    def test_the_page_as_typed(self):
        for accuracy in self.check(self.type_page()):
            self.assertGreater(accuracy, 0.6)
        self.assertIn("norm.weight", torch.load(self.folder / "flowers_ddp.pt"))
        self.assertLess(metrics(self.folder / "runs/text")[-1]["test_loss"], 5.5)

    def test_the_page_with_a_model_and_data_never_seen_here(self):
        seed = int(os.environ.get("SIGNVOTE_SEED") or random.randrange(10**6))
        with self.subTest(SIGNVOTE_SEED=seed):
            self.check(self.type_page(unseen(seed)))


class Engines(OwnCase):
    def check_all(self, model, data, *flags):
        """Local with one and three threads, mpi, a server; and a run that was stopped on the way."""
        expected = self.own("local", model, data, *flags, "--threads", 1)
        sha256 = summary(expected)["model_sha256"]
        self.assertEqual(summary(self.own("threads", model, data, *flags, "--threads", 3))["model_sha256"], sha256)

        resumed = self.own("resumed", model, data, *flags, rounds=3)
        self.succeed("train", "--resume", resumed, "--rounds", 8)
        self.assertEqual(summary(resumed)["model_sha256"], sha256)
        self.assertEqual((resumed / "network.pt").read_bytes(), model.read_bytes())

        repeated = self.folder / "repeated"
        self.succeed("train", "--config", expected / "config.toml", "--out", repeated)
        self.assertEqual((repeated / "model.pt").read_bytes(), (expected / "model.pt").read_bytes())

        settings = ["--config", expected / "config.toml"]
        result = run_session(
            [*mpi_command(2), "train", *settings, "--engine", "mpi", "--out", self.folder / "mpi"],
            timeout=TIMEOUT,
            env=mpi_environment(),
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(summary(self.folder / "mpi")["model_sha256"], sha256)

        server = Server(self.folder, expected / "config.toml", None)
        self.addCleanup(server.close)
        server.start()
        names = [f"worker-{m}" for m in range(3)]
        workers = [Worker(name, self.folder, server, None, data, "--model", model) for name in names]
        for worker in workers:
            self.addCleanup(worker.close)
            worker.start()
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        self.assertEqual(summary(server.state)["model_sha256"], sha256)
        self.assertEqual((server.state / "model.pt").read_bytes(), (expected / "model.pt").read_bytes())
        self.succeed("journal", server.state, "model", "--round", 8, "--out", self.folder / "past.pt")
        self.assertEqual((self.folder / "past.pt").read_bytes(), (expected / "model.pt").read_bytes())
        told = json.loads(self.succeed("eval", expected, "--json").stdout)
        self.assertEqual(told["test_loss"], metrics(expected)[-1]["test_loss"])
        self.assertEqual(told["model_sha256"], sha256)
        return expected

    def test_a_model_with_everything(self):
        out = self.check_all(self.export(Everything), self.arrays())
        module = Everything()
        module.load_state_dict(torch.load(out / "model.pt", weights_only=True))
        parameters = [p.detach().numpy().tobytes() for p in module.parameters() if p.requires_grad]
        self.assertEqual(hashlib.sha256(b"".join(parameters)).hexdigest(), summary(out)["model_sha256"])
        self.assertTrue(torch.equal(module.again.weight, module.middle.weight))
        self.assertTrue(torch.equal(module.frozen, torch.ones(16)))
        data = self.folder / "flowers"
        x, y = (torch.from_numpy(numpy.load(data / f"test_{which}.npy")) for which in "xy")
        right = (module.eval()(x).argmax(1) == y).float().mean().item()
        self.assertAlmostEqual(right, summary(out)["test_accuracy"], places=5)
        self.assertEqual(
            summary(out)["model_file_sha256"], hashlib.sha256((out / "network.pt").read_bytes()).hexdigest()
        )

    def test_a_loss_of_its_own(self):
        out = self.check_all(self.export(Smoothed), self.arrays())
        network, data = torch.jit.load(str(out / "network.pt")), self.folder / "flowers"
        network.load_state_dict(torch.load(out / "model.pt", weights_only=True))
        x, y = (torch.from_numpy(numpy.load(data / f"test_{which}.npy")) for which in "xy")
        told = network.loss(network.eval()(x), y).item()
        self.assertAlmostEqual(told, summary(out)["test_loss"], places=5)

    def test_dropout_in_parts_of_a_batch(self):
        self.check_all(self.export(Dropout), self.arrays())

    def test_a_text(self):
        text = self.folder / "book.txt"
        text.write_text("not all those who wander are lost. " * 100)
        out = self.check_all(self.export(Letters), text, "--context", 16, "--step", "3e-3")
        self.assertLess(metrics(out)[-1]["test_loss"], 5.5)
        self.assertEqual((config(out)["dataset"], config(out)["context"]), ("book.txt", 16))

    def test_regression_has_no_accuracy(self):
        data = self.arrays()
        for part in ("train", "test"):
            x = numpy.load(data / f"{part}_x.npy")
            numpy.save(data / f"{part}_y.npy", x.sum(1))
        out = self.check_all(self.export(lambda: Dropout(1)), data, "--loss", "mse")
        self.assertNotIn("test_accuracy", summary(out))
        self.assertNotIn("test_accuracy", metrics(out)[-1])
        self.assertIn("test loss", self.succeed("train", "--config", out / "config.toml", "--out", out / "x").stdout)
        shown = self.succeed("eval", out).stdout
        self.assertNotIn("accuracy", shown)

    def test_the_modules_own_loss_is_used_unless_another_is_named(self):
        model, data = self.export(Smoothed), self.arrays()
        own = summary(self.own("own", model, data))
        plain = summary(self.own("plain", model, data, "--loss", "cross-entropy"))
        self.assertNotEqual(own["model_sha256"], plain["model_sha256"])
        self.assertIn("test_accuracy", own)


class Data(OwnCase):
    def test_an_image_folder_with_the_built_in_network(self):
        folder = self.folder / "shapes"
        for part in ("train", "test"):
            for label, pixel in (("dark", (20, 0, 0)), ("light", (255, 200, 100))):
                (folder / part / label).mkdir(parents=True)
                for i in range(12):
                    (folder / part / label / f"{i}.png").write_bytes(png(16, 20, [max(0, v - i) for v in pixel]))
        flags = ["--dataset", folder, "--batches", "4,4", "--rounds", 3]
        out = self.folder / "run"
        self.succeed("train", *flags, "--partition", "labels:1", "--out", out)
        measured = summary(out)["normalisation"]
        self.assertEqual((len(measured["mean"]), len(measured["deviation"])), (3, 3))
        self.assertAlmostEqual(measured["mean"][2], (100 - 5.5) / 2 / 255, places=4)
        (folder / "test/light/7.png").write_bytes(png(16, 16, (1, 2, 3)))
        self.refuse(1, "train", *flags, says=["7.png", "all must be alike"])
        (folder / "test/light/7.png").write_bytes(png(16, 20, (1, 2, 3))[:60])
        self.refuse(1, "train", *flags, says=["7.png", "is damaged"])
        (folder / "test/light/7.png").unlink()
        (folder / "train/empty").mkdir()
        self.refuse(1, "train", *flags, says=["train/empty", "has no .png"])

    def test_idx_files_of_any_shape(self):
        folder = self.folder / "letters"
        folder.mkdir()
        rng = numpy.random.default_rng(3)
        for part, rows in ("train", 60), ("test", 20):
            x = rng.integers(0, 255, (rows, 3, 16, 18), dtype="uint8")
            head = struct.pack(">5I", 0x804, *x.shape)
            (folder / f"{part}-images-idx4-ubyte").write_bytes(head + x.tobytes())
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(
                struct.pack(">2I", 0x801, rows) + bytes(i % 26 for i in range(rows))
            )
        self.succeed("train", "--dataset", folder, "--batches", "4,4", "--rounds", 2, "--out", self.folder / "run")
        self.assertEqual(summary(self.folder / "run")["dataset"], "letters")

    def test_tensors_are_as_good_as_arrays(self):
        model, arrays = self.export(Dropout), self.arrays()
        expected = summary(self.own("arrays", model, arrays, rounds=3))
        tensors = self.folder / "tensors"
        tensors.mkdir()
        for file in arrays.iterdir():
            tensor = torch.from_numpy(numpy.load(file))
            if file.stem == "train_x":
                tensor = torch.cat([tensor, tensor])[:300].requires_grad_()  # a part of what is stored
            if file.stem == "train_y":
                tensor = tensor.to(torch.int16)
            if file.stem == "test_y":
                (tensors / file.name).write_bytes(file.read_bytes())  # one may stay an array
            else:
                torch.save(tensor, tensors / f"{file.stem}.pt")
        self.assertEqual(
            summary(self.own("tensors-run", model, tensors, rounds=3))["model_sha256"], expected["model_sha256"]
        )

    def test_bad_tensors_are_named_with_the_reason(self):
        model = self.export(Dropout)
        arrays = self.arrays("good")
        good = {file.stem: torch.from_numpy(numpy.load(file)) for file in sorted(arrays.iterdir())}
        infinite = good["train_x"].clone()
        infinite[9, 2] = torch.inf
        wrong = good["train_y"].clone()
        wrong[17] = -1
        cases = []
        for i, (says, name, content) in enumerate(
            [
                (["train_x.pt", "row 9"], "train_x", infinite),
                (["train_y.pt", "label -1 in row 17"], "train_y", wrong),
                (["train_x.pt", "not contiguous", "x.contiguous()"], "train_x", good["train_x"].T),
                (["train_x.pt", "HalfStorage"], "train_x", good["train_x"].half()),
                (["train_x.pt", "'<f8'"], "train_x", good["train_x"].double()),
                (["test_x.pt", "90 rows", "89"], "test_y", good["test_y"][:-1]),
                (["test_x.pt", "is empty", "(0, 12)"], "test_x", good["test_x"][:0]),
                (["test_y.pt", "no dimensions"], "test_y", torch.tensor(1)),
                (["test_y.pt", "something else than a tensor"], "test_y", {"y": good["test_y"]}),
            ]
        ):
            data = self.folder / f"bad{i}"
            data.mkdir()
            for part, tensor in good.items():
                torch.save(content if part == name else tensor, data / f"{part}.pt")
            cases.append((["train", "--model", model, "--dataset", data, "--batches", "4,4"], says))
        for name, damage in ("cut", lambda file: file[:-9]), (
            "flipped",
            lambda file: file.replace(b"\x80\x02", b"\x80\x04"),
        ):
            data = self.folder / name
            data.mkdir()
            for part, tensor in good.items():
                torch.save(tensor, data / f"{part}.pt")
            (data / "test_x.pt").write_bytes(damage((data / "test_x.pt").read_bytes()))
            cases.append((["train", "--model", model, "--dataset", data], ["test_x.pt", "cannot be used"]))
        torch.save(good["train_x"], arrays / "train_x.pt")
        cases.append((["train", "--model", model, "--dataset", arrays], "both train_x.npy and train_x.pt"))
        self.refuse_each(1, cases)

    def test_bad_data_is_named_with_the_reason(self):
        model = self.export(Dropout)
        good = numpy.load(self.arrays("good") / "train_x.npy")
        labels = numpy.load(self.folder / "good/train_y.npy")
        wrong = labels.copy()
        wrong[17] = -1
        other = labels.copy()
        other[5] = 3
        infinite = good.copy()
        infinite[9, 2] = numpy.inf
        cases = []
        for i, (says, changes) in enumerate(
            [
                (["train_x.npy", "300 rows", "299"], {"train_y": labels[:-1]}),
                (["train_x.npy", "'<f8'", "float32"], {"train_x": good.astype("float64")}),
                (["train_x.npy", "Fortran"], {"train_x": numpy.asfortranarray(good)}),
                (["train_x.npy", "row 9"], {"train_x": infinite}),
                (["train_y.npy", "label -1 in row 17"], {"train_y": wrong}),
                (["test_y.npy", "label 3 in row 5", "0 to 2"], {"test_y": other[:90]}),
                (["shape (12)", "(11)"], {"test_x": good[:90, :11]}),
            ]
        ):
            data = self.arrays(f"bad{i}", **changes)
            cases.append((["train", "--model", model, "--dataset", data, "--batches", "4,4"], says))
        cut = self.arrays("cut")
        (cut / "test_x.npy").write_bytes((cut / "test_x.npy").read_bytes()[:-5])
        cases.append((["train", "--model", model, "--dataset", cut], ["test_x.npy", "truncated"]))
        gone = self.arrays("gone")
        (gone / "test_y.npy").unlink()
        cases.append((["train", "--model", model, "--dataset", gone], "has no test_y.npy"))
        (self.folder / "empty").mkdir()
        cases.append((["train", "--model", model, "--dataset", self.folder / "empty"], "holds no data set"))
        (self.folder / "short.txt").write_text("too short")
        cases.append((["train", "--model", model, "--dataset", self.folder / "short.txt"], "--context 128"))
        self.refuse_each(1, cases)

    def test_settings_that_make_no_sense(self):
        model, data = self.export(Dropout), self.arrays()
        numbers = self.arrays("numbers", train_y=numpy.ones(300, "float32"), test_y=numpy.ones(90, "float32"))
        base = ["train", "--batches", "4,4", "--model", model]
        self.refuse_each(
            2,
            [
                ([*base, "--dataset", numbers], "--loss mse"),
                ([*base, "--dataset", numbers, "--loss", "mse", "--partition", "labels:1"], "iid or shared"),
                ([*base, "--dataset", data, "--partition", "labels:4"], "1 to 3"),
                ([*base, "--dataset", data, "--context", 5], "--context"),
                ([*base, "--dataset", self.folder / "nowhere"], "neither mnist, cifar10 nor a folder"),
                (["train", "--dataset", data, "--batches", "4,4"], "cnn takes images"),
                (["train", "--model", "vgg"], "neither cnn, resnet20, resnet56 nor a file"),
            ],
        )


class Models(OwnCase):
    def test_files_that_cannot_be_trained(self):
        data = self.arrays()
        plain = self.export(Dropout, "plain.pt").read_bytes()
        (self.folder / "cut.pt").write_bytes(plain[: len(plain) // 2])
        (self.folder / "noise.pt").write_bytes(b"no model at all")
        torch.save(Dropout().state_dict(), self.folder / "state.pt")
        self.export(lambda: Dropout().double(), "double.pt")
        self.export(lambda: Dropout().half(), "half.pt")
        self.export(torch.nn.ReLU, "nothing.pt")
        self.export(Counting, "counting.pt")
        self.export(lambda: torch.nn.Linear(7, 3), "narrow.pt")
        self.export(lambda: torch.nn.Linear(12, 2), "few.pt")
        torch.jit.trace(Everything().eval(), torch.zeros(2, 12)).save(str(self.folder / "traced.pt"))
        cases = {
            "cut.pt": "is not a TorchScript module, or is damaged",
            "noise.pt": "is not a TorchScript module, or is damaged",
            "state.pt": "is not a TorchScript module, or is damaged",
            "double.pt": "model.float()",
            "half.pt": "model.float()",
            "nothing.pt": "has no parameters",
            "counting.pt": "'calls'",
            "narrow.pt": "cannot be multiplied",
            "few.pt": "out of bounds",
            "traced.pt": "torch.jit.script",
        }
        base = ["train", "--dataset", data, "--batches", "4,4", "--out", self.folder / "none", "--model"]
        self.refuse_each(1, [([*base, self.folder / name], says) for name, says in cases.items()])
        self.assertFalse((self.folder / "none").exists())

    def test_a_changed_file_is_refused(self):
        data = self.arrays()
        out = self.own("run", self.export(Dropout), data, rounds=2)
        other = self.export(Everything, "other.pt")
        self.refuse(2, "train", "--resume", out, "--model", other, says="leave it out")
        (out / "network.pt").write_bytes(other.read_bytes())
        self.refuse(2, "train", "--resume", out, "--rounds", 4, says="not the model file of this run")

    def test_a_worker_needs_the_same_file(self):
        data, model = self.arrays(), self.export(Dropout)
        other = self.export(Everything, "other.pt")
        out = self.own("run", model, data, rounds=2)
        server = Server(self.folder, out / "config.toml", None)
        self.addCleanup(server.close)
        server.start()
        base = ["worker", "--connect", f"127.0.0.1:{server.port}", "--insecure", "--name", "worker-0"]
        for flags, says in [
            (["--data", data], "with --model"),
            (["--model", model], "with --data"),
            (["--data", data, "--model", other], "not the model file of this run"),
        ]:
            result = run(*base, *flags)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(says, result.stderr)


if __name__ == "__main__":
    main()
