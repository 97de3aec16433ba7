"""A real server with 64 workers that only vote (vote_load), on the loopback: rounds a second, memory, and where the time goes."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIGNVOTE = ROOT / "build" / "signvote"
LOAD = ROOT / "build" / "bench" / "vote_load"
WORKERS = 64
SIZE = 582_026
PHASES = ("wait", "decide", "journal", "publish", "step")


def tiny_mnist(folder):
    """Zeros in MNIST's format: nobody learns here."""
    folder.mkdir()
    for part, count in (("train", 640), ("t10k", 10)):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, count, 28, 28) + bytes(784 * count))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count))
        )
    return folder


def standing(port, pid):
    """Where a server stands: rounds, and the seconds so far by phase and of the processor."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    seconds = {name: float(value) for name, value in re.findall(r'signvote_seconds_total\{phase="(\w+)"\} (\S+)', text)}
    rounds = re.search(r"^signvote_rounds_total (\S+)", text, re.M)
    return {"rounds": float(rounds.group(1)) if rounds else 0, "cpu": cpu_seconds(pid), **seconds}


def peak_bytes(pid):
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()).group(1))


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def certificates(folder):
    for arguments in (
        ["new-ca", folder],
        ["server", folder, "--host", "127.0.0.1"],
        ["worker", folder, *(word for m in range(WORKERS) for word in ("--name", f"worker-{m}"))],
    ):
        subprocess.run([SIGNVOTE, "certs", *map(str, arguments)], check=True, capture_output=True)
    return folder


def measure(folder, data, certs, rounds):
    """One run. Figures are taken before the last rounds are over: then the server ends."""
    state = folder / "state"
    tls = (
        ["--cert", certs / "server.pem", "--key", certs / "server.key", "--client-ca", certs / "ca.pem"]
        if certs
        else []
    )
    command = [
        SIGNVOTE,
        "server",
        "--data",
        data,
        "--batches",
        f"{WORKERS}x1",
        "--rounds",
        rounds,
        "--initial-rounds",
        rounds // 2,
        "--eval-every",
        rounds,
        "--save-every",
        rounds,
        "--listen",
        "127.0.0.1:0",
        "--metrics-port",
        0,
        "--state",
        state,
        *(tls or ["--insecure"]),
    ]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not (state / "server.json").exists():
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"bench: the server does not listen: {(folder / 'log').read_text()[-1000:]}")
            time.sleep(0.05)
        ports = json.loads((state / "server.json").read_text())
        load = subprocess.Popen(
            [LOAD, f"127.0.0.1:{ports['port']}", str(WORKERS), str(SIZE), *([certs] if certs else [])],
            stdout=subprocess.PIPE,
            text=True,
        )
        first, last, peak = None, None, 0
        while load.poll() is None:
            try:
                last = standing(ports["metrics_port"], server.pid)
                peak = peak_bytes(server.pid)
            except (OSError, AttributeError):  # it has ended
                pass
            if not first and last and last["rounds"] >= 2:  # the models have been fetched
                first = last
            time.sleep(0.1)
        row = json.loads(load.stdout.read())
        server.wait(60)
        if server.returncode != 0:
            sys.exit(f"bench: the server failed: {(folder / 'log').read_text()[-1000:]}")
        per_round = {
            name: (last[name] - first.get(name, 0)) / (last["rounds"] - first["rounds"])
            for name in (*PHASES, "cpu")
            if name in last
        }
        return row | {"peak_bytes": peak, "seconds_per_round": per_round}
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def server64(quick):
    if not LOAD.exists():
        sys.exit(f"bench: there is no {LOAD}; cmake --build build")
    rounds = 40 if quick else 150
    best = {}
    with tempfile.TemporaryDirectory() as temporary:
        temporary = Path(temporary)
        data = tiny_mnist(temporary / "data")
        certs = certificates(temporary / "certs")
        for repetition in range(1 if quick else 3):  # in turn
            for name, keys in (("TLS", certs), ("without TLS", None)):
                folder = temporary / f"{name}-{repetition}"
                folder.mkdir()
                row = measure(folder, data, keys, rounds) | {"bench": "server64", "name": name}
                if name not in best or row["rounds_per_second"] > best[name]["rounds_per_second"]:
                    best[name] = row
    print(f"\nA server with {WORKERS} workers that only vote, N = {SIZE:,}; both sides on this machine's cores")
    print(
        f"{'':14}{'rounds/s':>9}{'ms a round':>12}{'KB a ballot':>13}{'Mbit/s in':>11}{'peak MiB':>10}{'CPU ms':>9}   "
        "ms a round, by phase"
    )
    for row in best.values():
        spent = {name: 1e3 * seconds for name, seconds in row["seconds_per_round"].items()}
        parts = ", ".join(f"{phase} {spent[phase]:.1f}" for phase in PHASES)
        print(
            f"{row['name']:14}{row['rounds_per_second']:>9.2f}{1e3 / row['rounds_per_second']:>12.1f}"
            f"{row['ballot_bytes'] / 1e3:>13.1f}{8e-6 * WORKERS * row['ballot_bytes'] * row['rounds_per_second']:>11.0f}"
            f"{row['peak_bytes'] / 2**20:>10.0f}{spent['cpu']:>9.1f}   {parts}"
        )
    return list(best.values())
