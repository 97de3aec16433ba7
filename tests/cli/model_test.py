"""model.pt in Python: torch.load reads what signvote wrote, as data and not as a program (weights_only, which newer
PyTorch has by default), and signvote reads what torch.save wrote."""

import hashlib
import json
import unittest

from command_line import Case, main, summary
from generated_data import cifar10, mnist

try:
    import torch
except ImportError:
    torch = None

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def sha256(state):
    return hashlib.sha256(
        b"".join(tensor.numpy().tobytes() for name, tensor in state.items() if name.split(".")[-1] not in STATISTICS)
    ).hexdigest()


@unittest.skipIf(torch is None, "needs python3-torch")
class Model(Case):
    def test_torch_loads_and_saves_a_cnn(self):
        run = self.train("run", rounds=3)
        state = torch.load(run / "model.pt", weights_only=True)
        self.assertEqual(
            {name: tuple(tensor.shape) for name, tensor in state.items()},
            {
                "conv1.weight": (32, 1, 5, 5),
                "conv1.bias": (32,),
                "conv2.weight": (64, 32, 5, 5),
                "conv2.bias": (64,),
                "fc1.weight": (512, 1024),
                "fc1.bias": (512,),
                "fc2.weight": (10, 512),
                "fc2.bias": (10,),
            },
        )
        self.assertTrue(all(tensor.dtype == torch.float32 for tensor in state.values()))
        self.assertEqual(sum(tensor.numel() for tensor in state.values()), summary(run)["parameters"])
        self.assertEqual(sha256(state), summary(run)["model_sha256"])

        saved = self.folder / "saved.pt"
        torch.save(dict(state), saved)
        result = json.loads(self.succeed("eval", saved, "--data", mnist(), "--json").stdout)
        self.assertEqual(result["model_sha256"], summary(run)["model_sha256"])
        self.assertEqual(result["test_accuracy"], summary(run)["test_accuracy"])

        shorter = {name: tensor for name, tensor in state.items() if name != "fc2.bias"}
        for name, other in {
            "shape": {**state, "fc2.bias": torch.zeros(11)},
            "missing": shorter,
            "more": {**state, "fc3.bias": torch.zeros(10)},
            "nothing": {},
        }.items():
            torch.save(other, saved)
            with self.subTest(name):
                self.refuse(1, "eval", saved, "--data", mnist(), says=["saved.pt", "fits none of signvote's models"])
        torch.save([1, 2, 3], saved)
        self.refuse(1, "eval", saved, "--data", mnist(), says=["saved.pt", "is not a model"])

        torch.save({**state, "fc2.bias": torch.zeros(11)}, run / "model.pt")
        self.refuse(1, "eval", run, says=["'fc2.bias' has the shape [11], not [10]"])

    def test_torch_loads_a_resnet20(self):
        run = self.train("run", dataset="cifar10", data=cifar10(), model="resnet20", batches="2,4", rounds=2)
        state = torch.load(run / "model.pt", weights_only=True)
        self.assertEqual(sha256(state), summary(run)["model_sha256"])
        self.assertEqual(
            sum(tensor.numel() for name, tensor in state.items() if name.split(".")[-1] not in STATISTICS),
            summary(run)["parameters"],
        )
        self.assertGreater(state["bn1.num_batches_tracked"].item(), 0)
        self.assertGreater(state["bn1.running_mean"].abs().sum().item(), 0)
        # The statistics in the file are those of the last test.
        result = json.loads(self.succeed("eval", run / "model.pt", "--data", cifar10(), "--json").stdout)
        self.assertEqual((result["model"], result["dataset"]), ("resnet20", "cifar10"))
        self.assertEqual(result["test_accuracy"], summary(run)["test_accuracy"])
        self.assertEqual(result["model_sha256"], summary(run)["model_sha256"])


if __name__ == "__main__":
    main()
