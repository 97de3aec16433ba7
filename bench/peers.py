"""signvote beside what people would use instead, with the same model, data and processors: see docs/peers.md.

`ddp` has PyTorch's DDP with its own communication hooks, four ranks on hosts with slow links: a step's time and bytes
(peer_ddp.py steps), and accuracy over time (peer_ddp.py train). `federated` has a server of Flower with 15 clients,
and ours with 15 workers, all over TLS: rounds in which gradients cost nothing, and what a kill of the server costs.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

from server_load import certificates, cpu_seconds, peak_bytes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from network_lab import Lab  # noqa: E402

DEBIAN_PYTHON = "/usr/bin/python3"  # the one with python3-torch
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "signvote"
RANKS = 4
CLIENTS = 15
SIZE = 582_026
TARGET = 0.97
# The best of those tried: see docs/peers.md.
RATES = {"float": 0.1, "fp16": 0.1, "powersgd": 0.1, "signvote": 1e-3}
NAMES = {"float": "DDP float32", "fp16": "fp16_compress_hook", "powersgd": "PowerSGD rank 1", "signvote": "signvote"}
MOST_SECONDS = 900  # of one run


def peers(quick):
    if why := Lab.available():
        print(f"peers: {why}; left out")
        return []
    with tempfile.TemporaryDirectory() as folder:
        return ddp_steps(quick) + ddp_training(quick) + federated(quick, Path(folder))


def run_ddp(lab, what, method, *flags):
    """What rank 0 says: a rank on each host of the lab."""
    ranks = []
    try:
        for rank in range(RANKS):
            program = [DEBIAN_PYTHON, "-B", HERE / "peer_ddp.py", what, "--method", method, "--rank", rank, *flags]
            program += ["--ranks", RANKS, "--meet", f"{lab.address(0)}:29500"]
            output = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            ranks.append(lab.popen(rank, ["env", "GLOO_SOCKET_IFNAME=eth0", *program], stdout=output, text=True))
        said = ranks[0].communicate(timeout=MOST_SECONDS)[0]
        if any(rank.wait(60) for rank in ranks):
            sys.exit(f"bench: 'peer_ddp.py {what} --method {method}' failed; see above")
    finally:
        for rank in ranks:
            rank.kill()
    return json.loads(said)


def data_flags(quick):
    return ["--small"] if quick else ["--data", CACHE / "mnist"]


def ddp_steps(quick):
    rows = []
    for mbit in (100,) if quick else (100, 10):
        best = {}
        with Lab(hosts=RANKS, mbit=mbit) as lab:
            for _ in range(1 if quick else 2):  # in turn
                for method in RATES:
                    told = run_ddp(lab, "steps", method, "--steps", 3 if quick else 10, *data_flags(quick))
                    line = 8 * told["sent_bytes"] / (1e6 * mbit)
                    row = {
                        "bench": "peers_steps",
                        "name": method,
                        "network": f"{mbit} Mbit/s",
                        "workers": RANKS,
                        "seconds": told["seconds"][0],
                        "median_seconds": told["seconds"][len(told["seconds"]) // 2],
                        # Computing may hide behind waiting, so that this takes off too much; not more than can be.
                        "communication_seconds": max(told["seconds"][0] - told["alone_seconds"][0], line),
                        "sent_bytes": told["sent_bytes"],
                    }
                    kept = best.setdefault(method, row)
                    for field in ("seconds", "median_seconds", "communication_seconds", "sent_bytes"):
                        kept[field] = min(kept[field], row[field])
        for method, row in best.items():
            row["fewer_bytes"] = row["sent_bytes"] / best["signvote"]["sent_bytes"]
            row["speedup"] = row["communication_seconds"] / best["signvote"]["communication_seconds"]
        rows += best.values()
    print(f"\nA step of {RANKS} ranks of DDP on Gloo, a sample each, and how many times as much as ours it takes")
    print(
        f"{'network':12}{'':22}{'bytes a rank':>13}{'times':>7}{'communication ms':>18}{'times':>7}{'median step':>13}"
    )
    for r in rows:
        print(
            f"{r['network']:12}{NAMES[r['name']]:22}{r['sent_bytes']:>13,.0f}{r['fewer_bytes']:>7.2f}"
            f"{1e3 * r['communication_seconds']:>18.1f}{r['speedup']:>7.2f}{1e3 * r['median_seconds']:>13.1f}"
        )
    return rows


def ddp_training(quick):
    mbit, steps = 10, 6 if quick else 100
    flags = ["--steps", steps, "--test-every", 3 if quick else 5, *data_flags(quick)]
    best = {}
    with Lab(hosts=RANKS, mbit=mbit) as lab:
        for repetition in range(1 if quick else 2):  # in turn
            for method, rate in RATES.items():
                if repetition > 0 and method in ("float", "fp16"):
                    continue  # the line dominates them, whoever else wants the processor
                curve = run_ddp(lab, "train", method, "--lr", rate, *flags)["curve"]
                if method not in best or curve[-1][1] < best[method][-1][1]:
                    best[method] = curve
    ours = reached(best["signvote"]) or best["signvote"][-1]
    rows = []
    for method, curve in best.items():
        there = reached(curve)
        rows.append(
            {
                "bench": "peers_training",
                "name": method,
                "network": f"{mbit} Mbit/s",
                "workers": RANKS,
                "steps_to_target": there and there[0],
                "seconds_to_target": there and there[1],
                "accuracy_after_equal_steps": curve[-1][2],
                "accuracy_after_equal_time": max((point[2] for point in curve if point[1] <= ours[1]), default=None),
                "seconds": curve[-1][1],
                "curve": curve,
            }
        )
    print(f"\nMNIST, {RANKS} ranks on links of {mbit} Mbit/s, {steps} steps of {RANKS} x 64 samples")
    print(f"{'':22}{'accuracy':>9}{'seconds':>9}{'97 % at step':>14}{'at second':>11}{'when ours was there':>21}")
    for r in rows:
        there = (
            f"{r['steps_to_target']:>14}{r['seconds_to_target']:>11.1f}"
            if r["steps_to_target"]
            else f"{'-':>14}{'-':>11}"
        )
        then = r["accuracy_after_equal_time"]
        print(
            f"{NAMES[r['name']]:22}{100 * r['accuracy_after_equal_steps']:>8.2f}%{r['seconds']:>9.1f}{there}"
            + (f"{100 * then:>20.2f}%" if then else f"{'not yet tested':>21}")
        )
    return rows


def reached(curve):
    """The first (step, seconds, accuracy) at the target, or None."""
    return next((point for point in curve if point[2] >= TARGET), None)


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
        environment = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0", "PYTHONPATH": str(ROOT / "build" / "python")}
        with open(output, "a") as file, open(f"{output}.log", "a") as log:
            return self.lab.popen(host, command, stdin=subprocess.DEVNULL, stdout=file, stderr=log, env=environment)

    def start_server(self):
        self.server = self.start(0, self.server_command, self.folder / "server")
        while not self.lab.run(0, ["ss", "-ltnH", "sport = :7000"], capture_output=True).stdout:
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


def federated(quick, folder):
    clients, size, rounds = (3, 25_450, 6) if quick else (CLIENTS, SIZE, 24)
    python, version = flower_python()
    best = {}
    with Lab(hosts=2) as lab:
        address = f"{lab.address(0)}:7000"
        certs = certificates(folder / "certs", 0, clients, lab.address(0))
        first = folder / "first.npy"
        numpy.save(first, numpy.zeros(size, "float32"))

        def flower(*flags):
            return [python, "-B", HERE / "peer_flower.py", address, "--certs", certs, "--size", size, *flags]

        def worker(number):
            return [DEBIAN_PYTHON, "-B", HERE / "peer_worker.py", address, "--certs", certs, "--client", number]

        def ours(state):
            tls = ["--cert", certs / "server.pem", "--key", certs / "server.key", "--client-ca", certs / "ca.pem"]
            run = ["--parameters", first, "--workers", clients, "--rounds", rounds, "--step", "1e-4"]
            return [ROOT / "build" / "signvote", "server", *run, "--state", state, "--listen", address, *tls]

        for repetition in range(1 if quick else 2):  # in turn
            for name in ["signvote", "flower"] if python else ["signvote"]:
                here = folder / f"{name}-{repetition}"
                here.mkdir()
                if name == "signvote":
                    federation = Federation(lab, here, ours(here / "state"), worker, clients)
                else:
                    server = flower("--clients", clients, "--rounds", rounds)
                    federation = Federation(lab, here, server, lambda number: flower("--client", number), clients)
                try:
                    row = of_lives(federation.run(rounds // 2), federation) | {
                        "bench": "peers_server",
                        "name": name,
                        "version": version if name == "flower" else None,
                        "workers": clients,
                        "size": size,
                    }
                finally:
                    federation.close()
                kept = best.setdefault(name, row)
                for field in ("seconds", "wire_bytes", "server_cpu_seconds", "peak_bytes", "after_kill_seconds"):
                    kept[field] = min(kept[field], row[field])
    show_federated(list(best.values()))
    return list(best.values())


def show_federated(rows):
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


def peer_goals(rows):
    """(name, values, bound, more is better), as in run.py."""

    def of(bench, name, network=None):
        chosen = [r for r in rows if r["bench"] == bench and r["name"] == name and r.get("network") == network]
        return chosen[0] if chosen else None

    wanted = []
    for method, bound in (("float", 10), ("fp16", 1), ("powersgd", 1)):
        row = of("peers_steps", method, "100 Mbit/s")
        wanted.append(
            (
                f"less communication time than {NAMES[method]}, 100 Mbit/s, times",
                [row["speedup"]] if row else [],
                bound,
                True,
            )
        )
    flower, ours = of("peers_server", "flower"), of("peers_server", "signvote")
    for words, field, bound in (
        ("fewer bytes a round than Flower, times", "wire_bytes", 20),
        ("less time a round than Flower, gradients aside, times", "seconds", 10),
        ("less of its server's processor a round than Flower, times", "server_cpu_seconds", 10),
    ):
        wanted.append((words, [flower[field] / ours[field]] if flower and ours[field] else [], bound, True))
    trained = {r["name"]: r["seconds_to_target"] for r in rows if r["bench"] == "peers_training"}
    own = trained.pop("signvote", None)
    there = [seconds / own for seconds in trained.values() if seconds] if own else []
    return wanted + [("97 % on MNIST at 10 Mbit/s sooner than the best of them, times", there, 1, True)]


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
