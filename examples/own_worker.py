#!/usr/bin/env python3
"""A worker of your own, in PyTorch: a network that only this file knows, trained together with workers on other
machines, through a server that tallies the votes. The connection is by TLS; it may break, and the server may be
started again.

    export PYTHONPATH=build/python
    /usr/bin/python3 examples/own_worker.py --write first.npy          # once, for the server
    build/signvote server --parameters first.npy --workers 3 --rounds 200 --step 2e-3 ...
    /usr/bin/python3 examples/own_worker.py localhost:7000 --samples 60 \
      --ca ca.pem --cert worker-0.pem --key worker-0.key               # one for each worker

docs/python.md has the whole of it.
"""

import argparse
import sys

import numpy as np
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import signvote


def make_network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def draw(samples, random):
    """Ten patterns of black and white pixels. A sample is one of them with 30 % of its pixels flipped."""
    patterns = torch.rand(10, 64, generator=torch.Generator().manual_seed(7)) < 0.3
    labels = torch.randint(10, (samples,), generator=random)
    flipped = torch.rand(samples, 64, generator=random) < 0.3
    return (patterns[labels] ^ flipped).float(), labels


def accuracy(network):
    pixels, labels = draw(5000, torch.Generator().manual_seed(99))
    with torch.no_grad():
        return (network(pixels).argmax(1) == labels).float().mean().item()


def work(worker, samples):
    network = make_network()
    x = worker.join()  # the server's model: an array that the worker steps in place
    vector_to_parameters(torch.from_numpy(x), network.parameters())  # views of it, so the network steps too
    print(f"worker {worker.slot}: {worker.rounds} rounds, {samples} samples each", flush=True)
    random = torch.Generator().manual_seed(1000 + worker.slot)
    for _ in worker:
        pixels, labels = draw(samples, random)
        network.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(pixels), labels, reduction="sum")
        loss.backward()
        gradient = parameters_to_vector(parameter.grad for parameter in network.parameters())
        worker.vote(gradient, samples=samples, loss=loss.item())
    if worker.finished:
        print(f"accuracy after {worker.round} rounds: {100 * accuracy(network):.1f} %")


def main():
    parser = argparse.ArgumentParser(description="A worker of a signvote server, with a network of its own.")
    parser.add_argument("address", nargs="?", metavar="HOST:PORT")
    parser.add_argument("--write", metavar="FILE", help="write the network's first parameters, and end")
    for name in ("ca", "cert", "key"):
        parser.add_argument(f"--{name}", metavar="PEM", help="as signvote certs makes them")
    parser.add_argument("--samples", type=int, default=8, help="that this worker takes each round [8]")
    arguments = parser.parse_args()
    if arguments.write:
        np.save(arguments.write, parameters_to_vector(make_network().parameters()).detach().numpy())
        return
    if not arguments.address:
        parser.error("give the HOST:PORT of the server")
    tls = {name: getattr(arguments, name) for name in ("ca", "cert", "key")}
    try:
        with signvote.Worker(arguments.address, **tls, log=lambda line: print(line, file=sys.stderr)) as worker:
            work(worker, arguments.samples)
    except signvote.Error as error:
        sys.exit(f"own_worker.py: {error}")


if __name__ == "__main__":
    main()
