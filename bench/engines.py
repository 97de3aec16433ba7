"""A round of the mpi engine against MPI_Allreduce of float32 gradients: bytes on the wire and time.

Four ranks, one a host in network namespaces with links of 100 Mbit/s, and four on one host over its loopback. The
bytes are the kernel's counts of the interfaces, so headers, acknowledgements and what was sent twice are in them.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "cli"))
from network_lab import INTERFACE, Lab  # noqa: E402

PROGRAM = HERE.parent / "build" / "bench" / "mpi_round_bench"
RANKS = 4
MBIT = 100

# What Open MPI chooses by itself is the rival; the algorithms it could have chosen are there so that nobody can say
# the rival was weak.
RIVALS = {"allreduce": None, "allreduce, recursive doubling": 3, "allreduce, ring": 4, "allreduce, segmented ring": 5}
NETWORKS = {f"{MBIT} Mbit/s": ({"hosts": RANKS, "mbit": MBIT}, INTERFACE, None),
            "loopback": ({"hosts": 1}, "lo", [RANKS])}


def measure(lab, interface, ranks, mode, size, rounds, algorithm):
    """What rank 0 printed, and the bytes that all hosts sent meanwhile."""
    def sent():
        return sum(lab.counters(host, interface)["tx"] for host in range(lab.hosts))

    mca = {"coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": algorithm} if algorithm else None
    before = sent()
    result = lab.mpirun([PROGRAM, mode, size, rounds], ranks, mca=mca, interface=interface, stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT, text=True, timeout=1800)
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or len(rows) != 1:
        sys.exit(f"bench: '{PROGRAM.name} {mode} {size} {rounds}' failed: {result.stdout.strip()}")
    return rows[0], sent() - before


def round_of(lab, interface, ranks, name, size, quick):
    """One row. Two runs of unequal length: in their difference the traffic of starting and ending cancels."""
    mode = "vote" if name == "vote" else "allreduce"
    few, many = (1, 2 if quick else 3) if mode == "allreduce" and size > 1e6 else (2, 6 if quick else 12)
    arguments = lab, interface, ranks, mode, size
    _, short_bytes = measure(*arguments, few, RIVALS.get(name))
    row, long_bytes = measure(*arguments, many, RIVALS.get(name))
    wire_bytes = (long_bytes - short_bytes) / (many - few)
    # Of a vote the program takes off what the ranks compute when they do nothing else. Computing may hide behind
    # waiting, so that this takes off too much: but no less than the line needs. An allreduce is taken as a whole.
    communication = row.get("communication_best_seconds", row["best_seconds"])
    line = 8 * wire_bytes / RANKS / (1e6 * lab.mbit) if lab.mbit else 0
    return {"bench": "engines", "name": name, "size": size, "workers": RANKS, "rounds": many,
            "seconds": row["best_seconds"], "median_seconds": row["median_seconds"],
            "communication_seconds": max(communication, line), "payload_bytes": RANKS * row["payload_bytes_per_rank"],
            "wire_bytes": wire_bytes}


def engines(quick):
    if why := Lab.available():
        print(f"engines: {why}; left out")
        return []
    if not PROGRAM.exists():
        sys.exit(f"bench: there is no {PROGRAM}; it needs Open MPI: scripts/setup")
    rows = []
    for network, (options, interface, ranks) in NETWORKS.items():
        with Lab(**options) as lab:
            for size in (582_026,) if quick else (582_026, 10_000_000):
                best = {}
                for _ in range(1 if quick else 2):  # in turn
                    for name in ("vote", *RIVALS):
                        row = round_of(lab, interface, ranks, name, size, quick) | {"network": network}
                        kept = best.setdefault(name, row)
                        for field in ("seconds", "median_seconds", "communication_seconds", "wire_bytes"):
                            kept[field] = min(kept[field], row[field])
                for name in RIVALS:
                    for ratio, field in (("fewer_bytes", "wire_bytes"), ("speedup", "communication_seconds"),
                                         ("round_speedup", "seconds")):
                        best[name][ratio] = best[name][field] / best["vote"][field]
                rows += best.values()
    print(f"\nA round of {RANKS} ranks by MPI over TCP, and how many times as much an allreduce of float32 takes")
    print(f"{'network':12}{'N':>12}  {'':31}{'MB on the wire':>15}{'times':>7}{'communication ms':>18}{'times':>7}"
          f"{'whole round ms':>16}{'times':>7}{'median':>9}")
    for r in rows:
        times = [f"{r[field]:.1f}" if field in r else "" for field in ("fewer_bytes", "speedup", "round_speedup")]
        print(f"{r['network']:12}{r['size']:>12,}  {r['name']:31}{1e-6 * r['wire_bytes']:>15.3f}{times[0]:>7}"
              f"{1e3 * r['communication_seconds']:>18.2f}{times[1]:>7}{1e3 * r['seconds']:>16.2f}{times[2]:>7}"
              f"{1e3 * r['median_seconds']:>9.2f}")
    return rows


def engine_goals(rows):
    """(name, values, bound, more is better), as in run.py: against Open MPI's own choice, and its best algorithm."""
    wanted = []
    for size in (582_026, 10_000_000):
        rivals = {r["name"]: r for r in rows if r["bench"] == "engines" and r["name"] != "vote"
                  and r["size"] == size and r["network"] != "loopback"}
        own = [rivals["allreduce"]] if rivals else []
        for what, words, field, bound in (("bytes", "fewer bytes", "fewer_bytes", 25),
                                          ("time", "less communication time", "speedup", 20)):
            wanted += [(f"vote at {MBIT} Mbit/s, N = {size:,}, times {words}", [r[field] for r in own], bound, True),
                       (f"  the same against the best allreduce, N = {size:,}, {what}",
                        [r[field] for r in rivals.values()], bound, True)]
    return wanted
