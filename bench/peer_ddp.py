#!/usr/bin/python3
"""One rank of PyTorch's DDP on MNIST, with whichever of its communication hooks, or with signvote's vote instead.

bench/peers.py starts one on each host; rank 0 prints JSON, a line for each result. The network is the cnn of
src/learn/models.cpp (582,026 parameters).

steps  how long a step takes: with a sample each, so that it is nearly all communication, and beside it the same
       without any communication; and the bytes that the interface has sent
train  trains with a step that shrinks in proportion to the steps left, and tells accuracy over steps and seconds; the clock stands still while they test
"""

import argparse
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "examples"))
from ddp_mnist import samples  # noqa: E402

import signvote.ddp  # noqa: E402
from peer_marks import moved  # noqa: E402

MOMENTUM = 0.9  # of all: the optimizer's, or what is signed
METHODS = ["float", "fp16", "powersgd", "signvote"]


def make_net(small):
    if small:
        return nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10)),
    )


def set_hook(model, method, plain_steps):
    if method == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif method == "powersgd":
        # From step 2 on, which is the earliest; by default it would send plain floats for 1,000 steps.
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=1, start_powerSGD_iter=plain_steps, orthogonalization_epsilon=1e-8
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif method == "signvote":
        signvote.ddp.register(model, method="agree", sign_of=f"momentum:{MOMENTUM}")


class Rank:
    def __init__(self, options):
        self.options = options
        torch.set_num_threads(1)
        self.images, self.labels = samples(options.data, "train")
        self.tests = samples(options.data, "t10k")
        torch.manual_seed(options.seed)
        if options.method == "powersgd":
            # One bucket: with several on Gloo all ranks wait for ever, probably because they send in different orders.
            dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 30
        self.model = DistributedDataParallel(make_net(options.small))
        set_hook(self.model, options.method, options.plain_steps)
        own = 0 if options.method == "signvote" else MOMENTUM
        parameters = self.model.parameters()
        if options.adam:
            self.optimizer = torch.optim.Adam(parameters, lr=options.lr)
        else:
            self.optimizer = torch.optim.SGD(parameters, lr=options.lr, momentum=own)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 - step / (options.steps + 1))
        self.random = torch.Generator().manual_seed(1000 * options.seed + options.rank)

    def step(self, batch):
        chosen = torch.randint(len(self.labels), (batch,), generator=self.random)
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.images[chosen]), self.labels[chosen]).backward()
        self.optimizer.step()

    def timed(self, count):
        """Seconds of each of so many steps, which all ranks begin together."""
        seconds = []
        for _ in range(count):
            dist.barrier()
            start = time.monotonic()
            self.step(1)
            seconds.append(time.monotonic() - start)
        return seconds

    def steps(self):
        self.timed(4)  # DDP makes its buckets after the first, and PowerSGD begins
        with self.model.no_sync():
            alone = self.timed(self.options.steps)
        before = moved()["tx"]
        seconds = self.timed(self.options.steps)
        dist.barrier()
        sent = (moved()["tx"] - before) / self.options.steps
        self.tell(seconds=sorted(seconds), alone_seconds=sorted(alone), sent_bytes=sent)

    def train(self):
        seconds, curve = 0.0, []
        for number in range(1, self.options.steps + 1):
            start = time.monotonic()
            self.step(self.options.batch)
            self.schedule.step()
            seconds += time.monotonic() - start
            if number % self.options.test_every == 0:
                curve.append((number, seconds, self.accuracy()))
                if curve[-1][2] >= self.options.target:
                    break
        self.tell(curve=curve)

    def accuracy(self):
        """On the whole test set, of which each rank takes its part."""
        right = torch.zeros(())
        images, labels = (part[self.options.rank :: self.options.ranks] for part in self.tests)
        with torch.no_grad():
            for image_part, label_part in zip(images.split(500), labels.split(500)):
                right += (self.model.module(image_part).argmax(1) == label_part).sum()
        dist.all_reduce(right)  # and nobody goes on before the last has tested
        return right.item() / len(self.tests[1])

    def tell(self, **values):
        if self.options.rank == 0:
            print(json.dumps({"method": self.options.method, **values}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["steps", "train"])
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--meet", metavar="ADDRESS:PORT", required=True, help="where rank 0 listens")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="samples of each rank, to train")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--adam", action="store_true", help="take Adam instead of SGD with momentum")
    parser.add_argument("--test-every", type=int, default=10)
    parser.add_argument("--target", type=float, default=1.0, help="the accuracy at which training ends")
    parser.add_argument("--data", type=pathlib.Path, help="folder of MNIST's files; without, generated data")
    parser.add_argument("--plain-steps", type=int, default=2, help="of floats, before PowerSGD begins")
    parser.add_argument("--small", action="store_true", help="a network of 25,450 parameters, to see that it works")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dist.init_process_group("gloo", init_method=f"tcp://{options.meet}", rank=options.rank, world_size=options.ranks)
    rank = Rank(options)
    getattr(rank, options.what)()
    dist.barrier()
    # Not by destroy_process_group: PyTorch 1.13 joins Gloo's threads with the interpreter's lock held, and one that is
    # just freeing a tensor waits for that lock for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
