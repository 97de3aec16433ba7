"""A server of Flower with 15 clients, and ours with 15 workers, all over TLS: rounds in which gradients cost nothing, and
what a kill -9 of the server costs. Part of peers.py.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy

from server_load import certificates, cpu_seconds, peak_bytes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from network_lab import Lab  # noqa: E402

BUILD = Path(os.environ.get("SIGNVOTE_BUILD") or ROOT / "build")
DEBIAN_PYTHON = "/usr/bin/python3"  # the one for which signvote's package was built
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "signvote"
CLIENTS = 15
SIZE = 582_026
MOST_SECONDS = 900  # of one run


def servers(quick, folder):
    clients, size, rounds = (3, 25_450, 6) if quick else (CLIENTS, SIZE, 24)
    python, version = flower_python()
    best = {}
    with Lab(hosts=2) as lab:
        certs = certificates(folder / "certs", 0, clients, lab.address(0))
        for repetition in range(1 if quick else 2):  # in turn
            for name in ["signvote", "flower"] if python else ["signvote"]:
                row = rounds_of(
                    lab, folder / f"{name}-{repetition}", certs, clients, size, rounds, name == "flower" and python
                )
                row |= {"bench": "peers_server", "name": name, "workers": clients, "size": size}
                kept = best.setdefault(name, row)
                for field in ("seconds", "wire_bytes", "server_cpu_seconds", "peak_bytes", "after_kill_seconds"):
                    kept[field] = min(kept[field], row[field])
    if python:
        best["flower"]["version"] = version
    show(list(best.values()))
    return list(best.values())


def rounds_of(lab, folder, certs, clients, size, rounds, flower=None):
    """A run of our server and its workers, or of Flower's if `flower` is a Python that has it. The server is killed
    half-way."""
    folder.mkdir()
    address = f"{lab.address(0)}:7000"
    if flower:
        program = [flower, "-B", HERE / "peer_flower.py", address, "--certs", certs, "--size", size]
        server = [*program, "--clients", clients, "--rounds", rounds]
    else:
        program = [DEBIAN_PYTHON, "-B", HERE / "peer_worker.py", address, "--certs", certs]
        first = folder / "first.npy"
        numpy.save(first, numpy.zeros(size, "float32"))
        server = [BUILD / "signvote", "server", "--parameters", first, "--state", folder / "state"]
        server += ["--workers", clients, "--rounds", rounds, "--step", "1e-4", "--listen", address]
        server += ["--cert", certs / "server.pem", "--key", certs / "server.key", "--client-ca", certs / "ca.pem"]
    federation = Federation(lab, folder, server, lambda number: [*program, "--client", number], clients)
    try:
        return of_lives(federation.run(rounds // 2), federation)
    finally:
        federation.close()


class Federation:
    """A server on host 0 and its clients on host 1. A client that fails is started again, as a supervisor would."""

    def __init__(self, lab, folder, server, client, clients):
        self.lab, self.folder, self.server_command, self.client_command = lab, folder, server, client
        self.marks_file = folder / "marks"
        self.marks_file.touch()
        self.server = None
        self.clients = [None] * clients
        self.failures = 0

    def start(self, host, command, output):
        environment = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": str(BUILD / "python")}
        with open(output, "a") as file, open(f"{output}.log", "a") as log:
            return self.lab.popen(host, command, stdin=subprocess.DEVNULL, stdout=file, stderr=log, env=environment)

    def start_server(self):
        self.server = self.start(0, self.server_command, self.folder / "server")
        while not self.lab.run(0, ["ss", "-ltnH", "sport = :7000"], capture_output=True).stdout:
            if self.server.poll() == 0:
                return  # it has listened, and is done already
            if self.server.poll() is not None:
                sys.exit(f"bench: a server does not listen: {self.words_of('server')}")
            time.sleep(0.02)

    def words_of(self, name):
        return (self.folder / f"{name}.log").read_text()[-2000:]

    def run(self, kill_at):
        """The first client's marks, of each life of the server; it is killed once, in round kill_at."""
        lives, read, deadline = [[]], 0, time.monotonic() + MOST_SECONDS
        self.start_server()
        while self.server.poll() is None:
            for number, client in enumerate(self.clients):
                if client is None or client.poll():
                    self.failures += client is not None
                    output = self.marks_file if number == 0 else self.folder / f"client-{number}"
                    self.clients[number] = self.start(1, self.client_command(number), output)
            lines = self.marks_file.read_text().splitlines(keepends=True)[read:]
            for line in lines:
                if line.endswith("\n"):
                    read += 1
                    mark = json.loads(line)
                    lives[-1].append(mark | self.standing())
                    if mark["round"] >= kill_at and len(lives) == 1:
                        lives.append([])
                        self.killed = time.monotonic()
                        self.server.kill()
                        self.server.wait()
                        self.start_server()
            if time.monotonic() > deadline:
                sys.exit(f"bench: a server was not done in {MOST_SECONDS} s: {self.words_of('server')}")
            time.sleep(0.01)
        if self.server.returncode != 0:
            sys.exit(f"bench: a server failed: {self.words_of('server')}")
        return lives

    def standing(self):
        """What the server has taken so far; nothing new once it has ended."""
        try:
            self.taken = {"cpu": cpu_seconds(self.server.pid), "peak_bytes": peak_bytes(self.server.pid)}
        except (OSError, AttributeError):
            pass
        return self.taken

    def close(self):
        for process in (self.server, *self.clients):
            if process:
                process.kill()
                process.wait()


def of_lives(lives, federation):
    """One row of the first client's marks, of the server's life until it was killed, and of the one after."""
    before, after = lives
    killed_in = before[-1]["round"]
    again = [mark for mark in after if mark["round"] > killed_in]
    row = {
        "rounds_lost": max(0, killed_in - after[0]["round"]),
        "clients_that_failed": federation.failures,
        "back_seconds": again[0]["seconds"] - federation.killed,
    }
    for prefix, marks in (("", before), ("after_kill_", after)):
        first, last = marks[1], marks[-1]  # not the round before which the model is fetched
        rounds = last["round"] - first["round"]
        row |= {
            f"{prefix}seconds": (last["seconds"] - first["seconds"]) / rounds,
            f"{prefix}wire_bytes": sum(last[way] - first[way] for way in ("rx", "tx")) / rounds,
            f"{prefix}server_cpu_seconds": (last["cpu"] - first["cpu"]) / rounds,
            f"{prefix}peak_bytes": last["peak_bytes"],
        }
    return row


def show(rows):
    print(
        f"\nA server and {rows[0]['workers']} workers over TLS, {rows[0]['size']:,} parameters, gradients for nothing"
    )
    print(f"{'':26}{'round ms':>10}{'server CPU ms':>15}{'MB moved':>10}{'peak MiB':>10}   after kill -9 of the server")
    for r in rows:
        for prefix in ("", "after_kill_"):
            print(
                f"{r['name'] if not prefix else '  after its kill':26}{1e3 * r[prefix + 'seconds']:>10.1f}"
                f"{1e3 * r[prefix + 'server_cpu_seconds']:>15.1f}{1e-6 * r[prefix + 'wire_bytes']:>10.2f}"
                f"{r[prefix + 'peak_bytes'] / 2**20:>10.0f}"
                + (
                    f"   {r['rounds_lost']} rounds lost, {r['clients_that_failed']} clients failed, "
                    f"a new round after {r['back_seconds']:.1f} s"
                    if prefix
                    else ""
                )
            )


def flower_python():
    """The Python of an environment with flwr, which is made if there is none; None, and a word why, if it cannot be."""
    folder = CACHE / "peers"
    python = folder / "bin" / "python"
    has_flower = [python, "-c", "from importlib.metadata import version; print(version('flwr'))"]
    if not python.exists() or subprocess.run(has_flower, capture_output=True).returncode != 0:
        subprocess.run([DEBIAN_PYTHON, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--retries", 1, "--timeout", 15, "flwr", "numpy"]
        pip = subprocess.run([str(part) for part in pip], capture_output=True, text=True)
        if pip.returncode != 0:
            print(
                f"peers: Flower cannot be installed from PyPI, so it is left out: {pip.stderr.strip().splitlines()[-1]}"
            )
            return None, None
    return python, subprocess.run(has_flower, capture_output=True, text=True, check=True).stdout.strip()
