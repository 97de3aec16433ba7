"""A server of Flower (FedAvg), or one of its clients, whose gradients cost nothing: see bench/peers.py.

It runs in an environment that has flwr and NumPy. start_server and start_client are what Flower calls its older way,
but the quicker: one process on each side, and a stream between them that nobody has to poll.
"""

import argparse
import pathlib

import numpy
from flwr.client import NumPyClient, start_client
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerConfig, start_server
from flwr.server.strategy import FedAvg

from peer_marks import mark


class Client(NumPyClient):
    def __init__(self, number, size):
        self.first = number == 0
        self.trained = numpy.random.default_rng(number).standard_normal(size).astype("float32")

    def fit(self, parameters, config):
        if self.first:
            mark(config["round"])
        return [self.trained], 64, {}


def serve(options):
    keys = [(options.certs / name).read_bytes() for name in ("ca.pem", "server.pem", "server.key")]
    strategy = FedAvg(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        min_fit_clients=options.clients,
        min_available_clients=options.clients,
        on_fit_config_fn=lambda number: {"round": number},
        initial_parameters=ndarrays_to_parameters([numpy.zeros(options.size, "float32")]),
    )
    config = ServerConfig(num_rounds=options.rounds)
    start_server(server_address=options.address, config=config, strategy=strategy, certificates=tuple(keys))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--certs", type=pathlib.Path, required=True, help="folder made by signvote certs")
    parser.add_argument("--size", type=int, required=True, help="parameters of the model")
    parser.add_argument("--client", type=int, metavar="NUMBER", help="be this client, and not the server")
    parser.add_argument("--clients", type=int)
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    if options.client is None:
        serve(options)
    else:
        client = Client(options.client, options.size).to_client()
        authority = (options.certs / "ca.pem").read_bytes()
        start_client(server_address=options.address, client=client, root_certificates=authority)


if __name__ == "__main__":
    main()
