"""Servers with many workers that only vote (vote_load), on the loopback: rounds a second, memory, where the time goes.

`server64` is the program, `signvote server`, with 64 workers. `sessions` is its engine without a model
(load_server) with as many workers as it holds.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIGNVOTE = ROOT / "build" / "signvote"
LOAD = ROOT / "build" / "bench" / "vote_load"
LOAD_SERVER = ROOT / "build" / "bench" / "load_server"
PHASES = ("wait", "decide", "journal", "publish", "step")
AT_ONCE = 256  # workers that connect at the same time; of 2,000 some handshakes took longer than the 10 s they may
MOST_SECONDS = 300  # of one run


class Ended(Exception):
    """The run did not hold; the text says what gave."""


def tiny_mnist(folder):
    """Zeros in MNIST's format: nobody learns here."""
    folder.mkdir()
    for part, count in (("train", 640), ("t10k", 10)):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, count, 28, 28) + bytes(784 * count))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count))
        )
    return folder


def standing(port, server, load):
    """Where a run stands: rounds, sessions, ballots, refusals; the seconds so far by phase and of the processor."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    values = re.findall(r"^signvote_(\w+?)(?:_total)?(?:\{\w+=\"([^\"]*)\"\})? (\S+)$", text, re.M)
    found = {"refused": {}, "rounds": 0}
    for name, label, value in values:
        if name == "seconds":
            found[label] = float(value)
        elif name == "refused":
            found[name] |= {label: int(float(value))} if label else {}
        elif not label or label == "counted":
            found[name] = float(value)
    return found | {"cpu": cpu_seconds(server.pid), "load_cpu": cpu_seconds(load.pid)}


def peak_bytes(pid):
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()).group(1))


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def certificates(folder, first, end, host="127.0.0.1"):
    """Those of worker-FIRST to worker-(END - 1), and of an authority and a server if there are none."""
    names = [word for m in range(first, end) for word in ("--name", f"worker-{m}")]
    commands = [["worker", folder, *names]]
    if not folder.exists():
        commands = [["new-ca", folder], ["server", folder, "--host", host], *commands]
    for arguments in commands:
        subprocess.run([SIGNVOTE, "certs", *map(str, arguments)], check=True, capture_output=True)
    return folder


def real_server(state, data, certs, workers, rounds):
    tls = ["--insecure"]
    if certs:
        tls = ["--cert", certs / "server.pem", "--key", certs / "server.key", "--client-ca", certs / "ca.pem"]
    return [
        SIGNVOTE,
        "server",
        "--data",
        data,
        "--batches",
        f"{workers}x1",
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
        *tls,
    ]


def start(command, folder, **options):
    with open(folder / "log", "w") as log:
        return subprocess.Popen([str(part) for part in command], **({"stdout": log, "stderr": log} | options))


def measure(folder, server_command, workers, size, certs, seconds):
    """One run, in at most so many seconds. Figures are taken before the last rounds are over: then the server ends."""
    deadline = time.monotonic() + seconds
    state, load = folder / "state", None
    (folder / "load").mkdir()
    server = start(server_command, folder)
    try:
        while not (state / "server.json").exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise Ended(f"the server does not listen: {last_line(folder)}")
            time.sleep(0.05)
        ports = json.loads((state / "server.json").read_text())
        load = start(
            [LOAD, f"127.0.0.1:{ports['port']}", workers, size, AT_ONCE, *([certs] if certs else [])],
            folder / "load",
            stdout=subprocess.PIPE,
        )
        first, last, peak = None, {}, 0
        while load.poll() is None:
            if time.monotonic() > deadline:
                raise Ended(f"not done in {seconds} s; {so_far(last)}")
            try:
                last = standing(ports["metrics_port"], server, load)
                peak = peak_bytes(server.pid)
            except (OSError, AttributeError):  # it has ended
                pass
            if not first and last.get("rounds", 0) >= 2:  # the models have been fetched
                first = last
            time.sleep(max(0.1, workers / 2000))  # the text of /metrics has a line for each worker, which is work too
        if load.returncode != 0:
            raise Ended(f"{last_line(folder / 'load')}; {so_far(last)}")
        row = json.loads(load.stdout.read())
        try:
            if server.wait(60) != 0:
                raise Ended(f"the server failed: {last_line(folder)}")
        except subprocess.TimeoutExpired:
            raise Ended("the server does not end") from None
        rounds = last["rounds"] - first["rounds"]
        per_round = {
            name: (last[name] - first.get(name, 0)) / rounds for name in (*PHASES, "cpu", "load_cpu") if name in last
        }
        return row | {"peak_bytes": peak, "seconds_per_round": per_round, "refused": last["refused"]}
    finally:
        for process in (load, server):
            if process and process.poll() is None:
                process.kill()
                process.wait()


def so_far(last):
    sessions_now, rounds = last.get("workers_connected", 0), last.get("rounds", 0)
    return f"last seen: {sessions_now:.0f} sessions, {rounds:.0f} rounds, refused {last.get('refused')}"


def last_line(folder):
    return ((folder / "log").read_text().splitlines() or ["nothing is said"])[-1]


def server64(quick):
    workers, size = 64, 582_026
    rounds = 40 if quick else 150
    best = {}
    with tempfile.TemporaryDirectory() as temporary:
        temporary = Path(temporary)
        data = tiny_mnist(temporary / "data")
        certs = certificates(temporary / "certs", 0, workers)
        for repetition in range(1 if quick else 3):  # in turn
            for name, keys in (("TLS", certs), ("without TLS", None)):
                folder = temporary / f"{name}-{repetition}"
                folder.mkdir()
                command = real_server(folder / "state", data, keys, workers, rounds)
                try:
                    row = measure(folder, command, workers, size, keys, MOST_SECONDS) | {
                        "bench": "server64",
                        "name": name,
                    }
                except Ended as error:
                    sys.exit(f"bench: {error}")
                if name not in best or row["rounds_per_second"] > best[name]["rounds_per_second"]:
                    best[name] = row
    print(f"\nA server with {workers} workers that only vote, N = {size:,}; both sides on this machine's cores")
    print(
        f"{'':14}{'rounds/s':>9}{'ms a round':>12}{'KB a ballot':>13}{'Mbit/s in':>11}{'peak MiB':>10}{'CPU ms':>9}   "
        "ms a round, by phase"
    )
    for row in best.values():
        spent = {name: 1e3 * seconds for name, seconds in row["seconds_per_round"].items()}
        parts = ", ".join(f"{phase} {spent[phase]:.1f}" for phase in PHASES)
        print(
            f"{row['name']:14}{row['rounds_per_second']:>9.2f}{1e3 / row['rounds_per_second']:>12.1f}"
            f"{row['ballot_bytes'] / 1e3:>13.1f}{8e-6 * workers * row['ballot_bytes'] * row['rounds_per_second']:>11.0f}"
            f"{row['peak_bytes'] / 2**20:>10.0f}{spent['cpu']:>9.1f}   {parts}"
        )
    return list(best.values())


def sessions(quick):
    """256 and 1,000 sessions, then twice as many each time up to 8,000, until something gives or a run takes too long.

    vote_load fails if a session ends before the run does: a row stands for sessions that all stayed.
    """
    size = 100_000
    counts = [64, 256] if quick else [256, 1_000, 2_000, 4_000, 8_000]
    rows = []
    print(f"\nA server that holds many sessions over TLS, N = {size:,}; both sides on this machine's cores")
    print(
        f"{'sessions':>8}{'rounds/s':>10}{'peak MiB':>10}{'CPU ms':>9}{'us each':>9}{'load ms':>9}{'join s':>8}"
        f"{'again':>7}{'refused':>9}   ms a round, by phase"
    )
    with tempfile.TemporaryDirectory() as temporary:
        temporary, made = Path(temporary), 0
        for workers in counts:
            certs, made = certificates(temporary / "certs", made, workers), workers
            try:
                runs = [hold(temporary, workers, size, certs) for _ in range(1 if quick or workers > 1_000 else 3)]
            except Ended as error:
                print(f"{workers:>8}  does not hold: {error}")
                rows.append({"bench": "sessions", "workers": workers, "size": size, "ended": str(error)})
                break
            row = max(runs, key=lambda run: run["rounds_per_second"])
            row["tried_again"] = sum(run["tried_again"] for run in runs)  # in all of them, not in the best alone
            row["refused"] = sum((Counter(run["refused"]) for run in runs), Counter())
            rows.append(row)
            spent = {name: 1e3 * seconds for name, seconds in row["seconds_per_round"].items()}
            parts = ", ".join(f"{phase} {spent[phase]:.1f}" for phase in PHASES if phase in spent)
            print(
                f"{workers:>8}{row['rounds_per_second']:>10.2f}{row['peak_bytes'] / 2**20:>10.0f}{spent['cpu']:>9.1f}"
                f"{1e3 * spent['cpu'] / workers:>9.0f}{spent['load_cpu']:>9.1f}{row['join_seconds']:>8.1f}"
                f"{row['tried_again']:>7}{sum(row['refused'].values()):>9}   {parts}",
                flush=True,
            )
    return rows


def hold(temporary, workers, size, certs):
    """One run, in a folder of its own that is removed, because its journal is large."""
    with tempfile.TemporaryDirectory(dir=temporary) as folder:
        folder = Path(folder)
        (folder / "state").mkdir()
        rounds = max(12, min(100, 40_000 // workers))
        command = [LOAD_SERVER, folder / "state", workers, size, rounds, certs]
        return measure(folder, command, workers, size, certs, MOST_SECONDS) | {"bench": "sessions"}
