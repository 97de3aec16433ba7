#!/usr/bin/env python3
"""Plain PyTorch: DistributedDataParallel on MNIST, and one line that makes it vote instead of averaging.

Four processes train one network. Three take 4 samples a step and one takes 128, as unequal machines would. The same
program runs twice: with DDP as it is, which adds up float32 gradients, and with signvote.ddp.register.

    build/signvote data fetch mnist
    PYTHONPATH=build/python /usr/bin/python3 examples/ddp_mnist.py
"""

import argparse
import os
import pathlib
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import signvote.ddp

BATCHES = [4, 4, 4, 128]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "signvote" / "mnist"


def read_idx(path):
    """An IDX file: two zero bytes, a type (8: bytes), the number of dimensions, each as 4 bytes, and the values."""
    data = path.read_bytes()
    shape = np.frombuffer(data, ">u4", count=data[3], offset=4)
    return torch.from_numpy(np.frombuffer(data, "u1", offset=4 + 4 * data[3]).reshape(shape).copy())


def samples(folder, name):
    """Images as rows of 784 values, and labels. Without a folder: noise around ten patterns, one for each label."""
    if folder is None:
        random = torch.Generator().manual_seed(int(name == "train"))
        patterns = torch.randn(10, 784, generator=torch.Generator().manual_seed(7))
        labels = torch.randint(10, (2000,), generator=random)
        return patterns[labels] + 3 * torch.randn(2000, 784, generator=random), labels
    images = read_idx(folder / f"{name}-images-idx3-ubyte").flatten(1).float()
    return (images - 33.3) / 78.6, read_idx(folder / f"{name}-labels-idx1-ubyte").long()


def train(rank, arguments, method, meeting_place):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting_place}", rank=rank, world_size=len(BATCHES))
    images, labels = samples(arguments.data, "train")
    torch.manual_seed(arguments.seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)))
    if method != "float":
        vote = signvote.ddp.register(model, method=method, initial_rounds=20)  # the one line
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 if method == "float" else 1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / arguments.steps)
    random = torch.Generator().manual_seed(1000 * arguments.seed + rank)
    for _ in range(arguments.steps):
        batch = torch.randint(len(labels), (BATCHES[rank],), generator=random)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
        schedule.step()

    if rank == 0:
        images, labels = samples(arguments.data, "t10k")
        accuracy = (model.module(images).argmax(1) == labels).float().mean().item()
        size = sum(parameter.numel() for parameter in model.parameters())
        ring = 2 * 4 * size * (len(BATCHES) - 1) / len(BATCHES)  # an all-reduce of float32, from each rank
        sent = ring if method == "float" else vote.bytes_sent / arguments.steps
        print(f"{method:>6}: accuracy {100 * accuracy:5.2f} %, {sent:9,.0f} bytes a step from each rank", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--methods", nargs="+", default=["float", "mv", "it"], help="float, mv, it [all three]")
    parser.add_argument("--data", type=pathlib.Path, default=CACHE, help=f"folder of MNIST's IDX files [{CACHE}]")
    parser.add_argument("--generated", action="store_true", help="use generated data instead")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.generated:
        arguments.data = None
    elif not (arguments.data / "train-images-idx3-ubyte").exists():
        parser.error(f"there is no MNIST in {arguments.data}: run `build/signvote data fetch mnist`, or --generated")
    for method in arguments.methods:
        with tempfile.TemporaryDirectory() as folder:
            # Forks, because they end at once. In PyTorch 1.13, destroy_process_group and the end of a Python that was
            # spawned wait for Gloo's threads, which may wait for Python's lock: for ever.
            ranks = (arguments, method, f"{folder}/ranks")
            torch.multiprocessing.start_processes(train, ranks, len(BATCHES), start_method="fork")


if __name__ == "__main__":
    main()
