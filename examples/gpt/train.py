#!/usr/bin/env python3
"""A worker that trains a small transformer on its own part of a text, through a server that tallies the votes.

    /usr/bin/python3 examples/gpt/train.py --write gpt.npy          # once, for the server
    build/signvote server --parameters gpt.npy --workers 3 --rounds 600 --step 1e-3 ...
    /usr/bin/python3 examples/gpt/train.py localhost:7000 --samples 24 --ca ca.pem --cert ... --key ...

README.md has the whole of it.
"""

import argparse
import sys

import numpy as np
import torch
from model import Text, make_gpt
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import signvote


class Signed:
    """What a worker signs: its gradient, its momentum, or Lion's mix of both."""

    BETAS = {"gradient": (0, 0), "momentum": (0.9, 0.9), "lion": (0.9, 0.99)}

    def __init__(self, sign_of):
        self.now, self.later = self.BETAS[sign_of]
        self.momentum = 0

    def __call__(self, gradient):
        signed = self.now * self.momentum + (1 - self.now) * gradient
        self.momentum = self.later * self.momentum + (1 - self.later) * gradient
        return signed


def gradient_of(gpt, windows):
    """The mean over the windows, and the sum of their losses."""
    gpt.zero_grad()
    loss = gpt.loss(windows)
    loss.backward()
    return parameters_to_vector([parameter.grad for parameter in gpt.parameters()]) / len(windows), loss.item()


def work(worker, gpt, text, arguments):
    x = worker.join()  # the server's model: an array that the worker steps in place
    vector_to_parameters(torch.from_numpy(x), gpt.parameters())  # views of it, so the transformer steps too
    signed = Signed(arguments.sign_of)
    for turn in worker:
        if arguments.test_every and turn % arguments.test_every == 0:
            loss = text.test_loss(gpt)
            print(f"round {turn}: loss {loss:.4f}", flush=True)
            worker.report(loss=loss)
        windows = text.batch(worker.slot, arguments.workers, turn, arguments.samples)
        gradient, loss = gradient_of(gpt, windows)
        worker.vote(signed(gradient), samples=arguments.samples, loss=loss)
    if worker.finished and arguments.test_every:
        print(f"round {worker.round}: loss {text.test_loss(gpt):.4f}\nIt writes:")
        print(gpt.write("def ", 300, torch.Generator().manual_seed(0)))


def main():
    parser = argparse.ArgumentParser(description="A worker of a signvote server that trains a small transformer.")
    parser.add_argument("address", nargs="?", metavar="HOST:PORT")
    parser.add_argument("--write", metavar="FILE", help="write the transformer's first parameters, and end")
    for name in ("ca", "cert", "key"):
        parser.add_argument(f"--{name}", metavar="PEM", help="as signvote certs makes them")
    parser.add_argument("--text", metavar="FILE", help="to learn from [the source of Python's standard library]")
    parser.add_argument("--samples", type=int, default=8, help="windows of the text that it takes each round [8]")
    parser.add_argument("--workers", type=int, default=3, help="of the run; each has its own part of the text [3]")
    parser.add_argument("--sign-of", choices=Signed.BETAS, default="lion", help="[lion]")
    parser.add_argument("--test-every", type=int, default=0, metavar="ROUNDS", help="test the model; 0: never [0]")
    parser.add_argument("--tiny", action="store_true", help="a transformer of 30,000 parameters instead of 1,300,000")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a worker is a core here
    gpt = make_gpt(arguments.tiny)
    if arguments.write:
        np.save(arguments.write, parameters_to_vector(gpt.parameters()).detach().numpy())
        return
    if not arguments.address:
        parser.error("give the HOST:PORT of the server")
    text = Text(arguments.text, gpt.context)
    tls = {name: getattr(arguments, name) for name in ("ca", "cert", "key")}
    try:
        with signvote.Worker(arguments.address, **tls, log=lambda line: print(line, file=sys.stderr)) as worker:
            work(worker, gpt, text, arguments)
    except signvote.Error as error:
        sys.exit(f"train.py: {error}")


if __name__ == "__main__":
    main()
