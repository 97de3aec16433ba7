#!/usr/bin/python3
"""signvote beside what people would use instead, with the same model, data and processors: docs/peers.md.

PyTorch's DDP with its own communication hooks, four ranks on hosts with slow links: a step's time and bytes
(peer_ddp.py steps), and accuracy over time (peer_ddp.py train). Then servers, in peer_rounds.py. Run by bench/run.py;
by itself it only checks, on something tiny, that all of it works.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from peer_rounds import BUILD, CACHE, DEBIAN_PYTHON, HERE, MOST_SECONDS, Lab, certificates, rounds_of, servers

RANKS = 4
TARGET = 0.97
# How each trains: the best of what was tried, which docs/peers.md tells. (PowerSGD needs more steps, and takes less
# time for each.)
ADAM = ["--adam", "--lr", 2e-3]
TRAINING = {
    "float": [*ADAM, "--steps", 100],
    "fp16": [*ADAM, "--steps", 100],
    "powersgd": [*ADAM, "--steps", 200],
    "signvote": ["--lr", 2e-3, "--steps", 100],
}
NAMES = {"float": "DDP float32", "fp16": "fp16_compress_hook", "powersgd": "PowerSGD rank 1", "signvote": "signvote"}


def peers(quick):
    if why := Lab.available():
        print(f"peers: {why}; left out")
        return []
    with tempfile.TemporaryDirectory() as folder:
        return ddp_steps(quick) + ddp_training(quick) + servers(quick, Path(folder))


def run_ddp(lab, what, method, *flags):
    """What rank 0 says: a rank on each host of the lab."""
    environment = ["env", "GLOO_SOCKET_IFNAME=eth0", f"PYTHONPATH={BUILD / 'python'}"]
    ranks = []
    try:
        for rank in range(lab.hosts):
            program = [DEBIAN_PYTHON, "-B", HERE / "peer_ddp.py", what, "--method", method, "--rank", rank, *flags]
            program += ["--ranks", lab.hosts, "--meet", f"{lab.address(0)}:29500"]
            output = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            ranks.append(lab.popen(rank, [*environment, *program], stdout=output, text=True))
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
            for _ in range(2 if mbit == 100 and not quick else 1):  # in turn
                for method in TRAINING:
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
    mbit = 10
    quick_flags = ["--steps", 6, "--test-every", 3]  # the last of two equal flags counts
    curves = {}
    with Lab(hosts=RANKS, mbit=mbit) as lab:
        for method, flags in TRAINING.items():
            flags = [*flags, "--test-every", 5, *(quick_flags if quick else []), *data_flags(quick)]
            curves[method] = run_ddp(lab, "train", method, *flags)["curve"]
    ours = curves["signvote"]
    there = reached(ours) or ours[-1]
    rows = []
    for method, curve in curves.items():
        step, seconds, _ = reached(curve) or (None, None, None)
        rows.append(
            {
                "bench": "peers_training",
                "name": method,
                "network": f"{mbit} Mbit/s",
                "workers": RANKS,
                "steps_to_target": step,
                "seconds_to_target": seconds,
                "accuracy_after_equal_steps": next(point[2] for point in curve if point[0] == ours[-1][0]),
                "accuracy_after_equal_time": max((point[2] for point in curve if point[1] <= there[1]), default=None),
                "curve": curve,
            }
        )
    print(f"\nMNIST, {RANKS} ranks on links of {mbit} Mbit/s, {RANKS} x 64 samples a step")
    print(
        f"{'':22}{f'step {ours[-1][0]}':>9}{'97 % at step':>14}{'second':>9}   when ours was there ({there[1]:.0f} s)"
    )
    for r in rows:
        times = (
            f"{r['steps_to_target']:>14}{r['seconds_to_target']:>9.1f}"
            if r["steps_to_target"]
            else f"{'-':>14}{'-':>9}"
        )
        then = r["accuracy_after_equal_time"]
        then = f"{100 * then:.2f} %" if then else "not yet tested"
        print(f"{NAMES[r['name']]:22}{100 * r['accuracy_after_equal_steps']:>7.2f} %{times}   {then}")
    return rows


def reached(curve):
    """The first (step, seconds, accuracy) at the target, or None."""
    return next((point for point in curve if point[2] >= TARGET), None)


def peer_goals(rows):
    """(name, values, bound, more is better), as in run.py."""

    def of(bench, name, network=None):
        chosen = [r for r in rows if r["bench"] == bench and r["name"] == name and r.get("network") == network]
        return chosen[0] if chosen else None

    wanted = []
    for method, bound in (("float", 10), ("fp16", 1)):
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


def check():
    """Exit code 77: it cannot be tried here."""
    if why := Lab.available():
        print(f"SKIPPED bench/peers: {why}")
        sys.exit(77)
    with Lab(hosts=2, mbit=100) as lab, tempfile.TemporaryDirectory() as folder:
        step = run_ddp(lab, "steps", "signvote", "--steps", 2, *data_flags(True))
        curve = run_ddp(lab, "train", "powersgd", "--steps", 4, "--test-every", 2, *data_flags(True))["curve"]
        certs = certificates(Path(folder) / "certs", 0, 2, lab.address(0))
        row = rounds_of(lab, Path(folder) / "run", certs, clients=2, size=1000, rounds=8)
    assert 1000 < step["sent_bytes"] < 4 * 25_450, step
    assert [point[0] for point in curve] == [2, 4], curve
    assert row["rounds_lost"] == row["clients_that_failed"] == 0 < row["wire_bytes"], row


if __name__ == "__main__":
    check()
