"""A worker of a signvote server, whose gradients cost nothing, beside Flower's client: see bench/peers.py."""

import argparse
import pathlib

import numpy

import signvote
from peer_marks import mark


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--certs", type=pathlib.Path, required=True, help="folder made by signvote certs")
    parser.add_argument("--client", type=int, metavar="NUMBER", required=True)
    options = parser.parse_args()
    name = options.certs / f"worker-{options.client}"
    with signvote.Worker(
        options.address, ca=str(options.certs / "ca.pem"), cert=f"{name}.pem", key=f"{name}.key"
    ) as worker:
        size = len(worker.join())
        # Nobody abstains, which is more bytes than in training.
        gradient = numpy.random.default_rng(options.client).standard_normal(size).astype("float32")
        for number in worker:
            if options.client == 0:
                mark(number)
            worker.vote(gradient, samples=64, loss=0.0)


if __name__ == "__main__":
    main()
