"""The vote in PyTorch's DDP beside the engine `local`: from the same gradients the same model after every step."""

import hashlib
import pathlib
import sys

import numpy
import torch
from torch.nn.parallel import DistributedDataParallel

import signvote.ddp
from command_line import Case, main, metrics, summary, write_toml

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python/tests"))
from ranks import run_ranks  # noqa: E402

INPUTS, OUTPUTS, ROUNDS, STEP = 40, 16, 30, 1 / 64
BATCHES = [4, 8, 16, 32]
CLASS_OF = [3, 0, 2, 1]  # what --partition labels:1 gives each worker; its batch fits no other class


class Exact(torch.nn.Module):
    """On whole numbers, with parameters that are multiples of the step: all sums are exact, so that those of the ranks
    are those of the engine, in whatever order."""

    def __init__(self):
        super().__init__()
        random = numpy.random.default_rng(4)
        self.linear = torch.nn.Linear(INPUTS, OUTPUTS)
        for parameter in self.linear.parameters():
            parameter.data = torch.from_numpy(random.integers(-20, 21, parameter.shape).astype("float32") * STEP)
        self.register_buffer(
            "goals", torch.from_numpy(random.integers(-8, 9, (len(BATCHES), OUTPUTS)).astype("float32"))
        )

    def forward(self, x):
        return self.linear(x)

    @torch.jit.export
    def loss(self, output, target):
        return ((output - self.goals[target]) ** 2).sum() / len(target)


def train(rank, method, file, data):
    """Trains on all samples of one class. Returns the hash of the model after each step."""
    x, y = (numpy.load(data / f"train_{part}.npy") for part in "xy")
    own = y == CLASS_OF[rank]
    x, y = torch.from_numpy(x[own]), torch.from_numpy(y[own])
    module = torch.jit.load(str(file))
    model = DistributedDataParallel(module)
    signvote.ddp.register(model, method, initial_rounds=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP)
    hashes = []
    for _ in range(ROUNDS):
        optimizer.zero_grad()
        module.loss(model(x), y).backward()
        optimizer.step()
        parameters = [p.detach().numpy().tobytes() for p in model.parameters()]
        hashes.append(hashlib.sha256(b"".join(parameters)).hexdigest())
    return hashes


class Engine(Case):
    def test_ranks_and_the_local_engine_take_the_same_steps(self):
        data = self.folder / "exact"
        data.mkdir()
        random = numpy.random.default_rng(3)
        y = numpy.repeat(CLASS_OF, BATCHES)  # so that each worker takes its whole class in each round
        x = random.integers(-2, 3, (len(y), INPUTS))
        for part in ("train", "test"):
            numpy.save(data / f"{part}_x.npy", x.astype("float32"))
            numpy.save(data / f"{part}_y.npy", y)
        file = self.folder / "exact.pt"
        torch.jit.script(Exact()).save(str(file))
        seen = set()
        for method in ("mv", "it", "shrink", "agree"):
            settings = {"method": method, "initial_rounds": 5, "sign_of": "gradient", "partition": "labels:1"}
            settings |= {"batches": ",".join(map(str, BATCHES)), "rounds": ROUNDS, "eval_every": 1, "step": STEP}
            settings |= {"step_schedule": "constant", "model": str(file), "dataset": str(data)}
            out = self.folder / method
            self.succeed("train", "--config", write_toml(self.folder / "run.toml", settings), "--out", out)
            expected = [row["model_sha256"] for row in metrics(out)]
            self.assertEqual(len(set(expected)), ROUNDS, "it moves in every round")
            for hashes in run_ranks(len(BATCHES), train, method, file, data):
                self.assertEqual(hashes, expected, method)
            seen.add(summary(out)["model_sha256"])
        self.assertEqual(len(seen), 4, "weights matter here")


if __name__ == "__main__":
    main()
