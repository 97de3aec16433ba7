#!/usr/bin/env python3
"""Trains the transformer by votes and by plain floats, on the same samples, and compares loss, bytes and time.

    PYTHONPATH=build/python /usr/bin/python3 examples/gpt/compare.py
    sudo ... compare.py --links 1,4,16    # each worker behind a link of so many Mbit/s (network namespaces)

By votes: a server and three workers, programs of their own, over TLS. By floats: one process that takes the same
samples in the same rounds and steps by the mean of their gradients, as an all-reduce without loss would.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import torch
from model import Text, make_gpt
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from train import Signed, gradient_of

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
SIGNVOTE = os.environ.get("SIGNVOTE", str(ROOT / "build/signvote"))
sys.path.append(str(ROOT / "tests/cli"))  # network_lab


def by_floats(optimizer, step, arguments):
    """The test losses by round. The step falls along a cosine, as the server's."""
    gpt = make_gpt(arguments.tiny)
    text = Text(arguments.text, gpt.context)
    x = parameters_to_vector(gpt.parameters()).detach()
    vector_to_parameters(x, gpt.parameters())
    lion, adam = Signed("lion"), torch.optim.Adam([x], betas=(0.9, 0.99))
    losses = {}
    for turn in range(arguments.rounds):
        if turn % arguments.test_every == 0:
            losses[turn] = text.test_loss(gpt)
        total = 0
        for slot, samples in enumerate(arguments.samples):
            gradient, _ = gradient_of(gpt, text.batch(slot, len(arguments.samples), turn, samples))
            total = total + gradient * samples / sum(arguments.samples)
        now = step * (1 + math.cos(math.pi * turn / arguments.rounds)) / 2
        if optimizer == "adam":
            adam.param_groups[0]["lr"] = now
            x.grad = total
            adam.step()
        else:
            x -= now * lion(total).sign()
    losses[arguments.rounds] = text.test_loss(gpt)
    return losses


@contextlib.contextmanager
def hosts(links):
    """The server's address, and what begins a command on a host: 0 is the server's, then come the workers'."""
    if not links:
        yield "localhost", lambda host: []
        return
    from network_lab import Lab

    with Lab(hosts=1 + len(links), mbit=[None, *links]) as lab:
        yield lab.address(0), lambda host: lab.command(host, [])


def by_votes(method, arguments, folder):
    """The test losses by round, what the model writes at the end, and the run's summary."""
    names = [f"worker-{slot}" for slot in range(len(arguments.samples))]
    certs = folder / "certs"
    tiny = ["--tiny"] if arguments.tiny else []

    def run(*command):
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)

    def tls(name):
        return ["--cert", certs / f"{name}.pem", "--key", certs / f"{name}.key"]

    with hosts(arguments.links) as (server, on), contextlib.ExitStack() as ends:
        programs = []

        def start(host, name, command):
            log = ends.enter_context(open(folder / f"{name}.log", "w"))
            process = subprocess.Popen([*on(host), *map(str, command)], stdout=log, stderr=log)
            ends.callback(process.wait)
            ends.callback(process.kill)
            programs.append((name, process))

        def some_run():
            """False when all have ended well."""
            for name, process in programs:
                if process.poll():
                    sys.exit(f"compare.py: {name} failed:\n{(folder / f'{name}.log').read_text()}")
            time.sleep(0.05)
            return any(process.poll() is None for _, process in programs)

        run(SIGNVOTE, "certs", "new-ca", certs)
        run(SIGNVOTE, "certs", "server", certs, "--host", server)
        run(SIGNVOTE, "certs", "worker", certs, *[word for name in names for word in ("--name", name)])
        run(sys.executable, HERE / "train.py", "--write", folder / "gpt.npy", *tiny)
        flags = ["--parameters", folder / "gpt.npy", "--workers", len(names), "--rounds", arguments.rounds]
        flags += ["--step", arguments.step, "--method", method, "--listen", f"{server}:0"]
        flags += ["--client-ca", certs / "ca.pem", *tls("server")]
        start(0, "server", [SIGNVOTE, "server", "--state", folder / "run", *flags])
        while not (folder / "run/server.json").exists():
            some_run()
        port = json.loads((folder / "run/server.json").read_text())["port"]
        for slot, (name, samples) in enumerate(zip(names, arguments.samples)):
            flags = ["--samples", samples, "--workers", len(names), "--sign-of", arguments.sign_of, *tiny]
            flags += ["--text", arguments.text] if arguments.text else []
            flags += ["--test-every", arguments.test_every] if name == names[-1] else []
            flags += ["--ca", certs / "ca.pem", *tls(name)]
            start(1 + slot, name, [sys.executable, HERE / "train.py", f"{server}:{port}", *flags])
        while some_run():
            pass
    said = (folder / f"{names[-1]}.log").read_text()
    losses = {int(turn): float(loss) for turn, loss in re.findall(r"^round (\d+): loss (\S+)$", said, re.M)}
    return losses, said.partition("\nIt writes:\n")[2], json.loads((folder / "run/summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description="Votes beside floats: loss, bytes and time of a small transformer.")
    parser.add_argument("--text", metavar="FILE", help="to learn from [the source of Python's standard library]")
    parser.add_argument("--samples", default="2,6,24", help="of each worker in a round [2,6,24]")
    parser.add_argument("--rounds", type=int, default=600, help="[600]")
    parser.add_argument("--methods", default="agree", help="of the vote, or none: '' [agree]")
    parser.add_argument("--floats", default="adam,lion", help="optimizers of plain floats, or none: '' [adam,lion]")
    parser.add_argument("--sign-of", choices=Signed.BETAS, default="lion", help="[lion]")
    parser.add_argument("--step", type=float, default=1e-3, help="of votes and of Lion [1e-3]")
    parser.add_argument("--adam-step", type=float, default=3e-3, help="[3e-3]")
    parser.add_argument("--links", default="", help="Mbit/s of each worker, e.g. 1,4,16 (as root) [this machine's]")
    parser.add_argument("--test-every", type=int, default=100, metavar="ROUNDS", help="[100]")
    parser.add_argument("--tiny", action="store_true", help="a transformer of 30,000 parameters")
    arguments = parser.parse_args()
    arguments.samples = [int(number) for number in arguments.samples.split(",")]
    arguments.links = [float(number) for number in arguments.links.split(",") if number]
    torch.set_num_threads(1)
    size = sum(parameter.numel() for parameter in make_gpt(arguments.tiny).parameters())
    print(f"{size:,} parameters, samples {arguments.samples}, {arguments.rounds} rounds")
    print(f"{'':14}{'bytes a round, up + down':>26}{'seconds':>9}  test loss after rounds")

    def row(name, losses, sent, seconds):
        told = "  ".join(f"{turn}: {loss:.3f}" for turn, loss in losses.items() if turn > 0)
        print(f"{name:14}{sent:26,.0f}{seconds:9.0f}  {told}", flush=True)

    for optimizer in filter(None, arguments.floats.split(",")):
        start = time.monotonic()
        losses = by_floats(optimizer, arguments.adam_step if optimizer == "adam" else arguments.step, arguments)
        row(f"float {optimizer}", losses, 2 * 4 * size, time.monotonic() - start)
    sample = ""
    for method in filter(None, arguments.methods.split(",")):
        with tempfile.TemporaryDirectory(prefix="signvote-gpt-") as folder:
            start = time.monotonic()
            losses, sample, summary = by_votes(method, arguments, pathlib.Path(folder))
            bits = summary["bits_per_parameter_up"] + summary["bits_per_parameter_down"]
            row(f"votes, {method}", losses, bits * size / 8, time.monotonic() - start)
    if sample:
        print(f"\nIt writes:\n{sample}")


if __name__ == "__main__":
    main()
