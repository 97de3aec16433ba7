#!/usr/bin/python3
"""Measures signvote side by side with its limits and its rivals: `make bench`.

Prints tables and the goals, writes bench/results/<date>-<commit>.json, and shows what moved against
bench/results/baseline.json. Sections: kernels, server, training, growth, engines, server64, sessions, python,
peers, dashboard.
Everything that is compared runs in turn in this one run, and the best of several repetitions counts: times are of
this machine and this hour, ratios are what lasts.
"""

import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dashboard import dashboard, dashboard_goals
from engines import engine_goals, engines
from peers import peer_goals, peers
from python_tally import python
from server_load import server64, sessions

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BENCH = ROOT / "build" / "bench"
THREADS = os.cpu_count()
MOVED = 0.15  # less is noise here


def run(*command):
    """The JSON objects that a program prints, one a line, and its peak of memory in bytes."""
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"bench: '{' '.join(map(str, command))}' failed: {output.strip()}")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")], usage.ru_maxrss * 1024


def memory_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def kernels(quick):
    rows = []
    sizes = [100_000, 582_026] if quick else [100_000, 582_026, 8_000_000, 100_000_000]
    for size in sizes:
        for workers in (3, 15, 64):
            if 2.4 * workers * size > 0.8 * memory_bytes():
                print(f"kernels: {workers} workers x {size:,} do not fit this machine's memory; left out")
                continue
            rows += run(BENCH / "kernels_bench", THREADS, 0.3 if quick else 1.5, workers, size)[0]
    print("\nKernels: time over that of a plain stream over the same bytes, on the same threads")
    print(f"{'kernel':16}{'N':>12}{'M':>4}{'caches':>8}{'ms':>11}{'stream ms':>11}{'ratio':>7}{'GB/s':>7}")
    for r in rows:
        print(
            f"{r['name']:16}{r['size']:>12,}{r['workers']:>4}{r['caches']:>8}{1e3 * r['seconds']:>11.3f}"
            f"{1e3 * r['stream_seconds']:>11.3f}{r['ratio']:>7.2f}{1e-9 * r['bytes'] / r['seconds']:>7.1f}"
        )
    return rows


def server(quick):
    best = {}
    for _ in range(1 if quick else 3):  # in turn
        rows = run(BENCH / "server_round_bench", THREADS, 1, 15, 582_026)[0]
        rows += run(sys.executable, HERE / "server_round.py", "--repetitions", 7)[0]
        for row in rows:
            if row["name"] not in best or row["seconds"] < best[row["name"]]["seconds"]:
                best[row["name"]] = row
    ours = best["signvote_nobody_abstains"]["seconds"]
    print("\nA server's round, M = 15, N = 582,026: ours from bytes to bytes, the others from unpacked ballots")
    for row in best.values():
        print(f"  {row['name']:26}{1e3 * row['seconds']:>9.2f} ms{row['seconds'] / ours:>8.1f} x")
    return list(best.values())


def train(folder, rounds, *flags):
    """A run's summary, and its peak of memory."""
    out = Path(folder) / "-".join(re.sub(r"\W", "", str(flag)) for flag in flags)
    _, peak = run(
        ROOT / "build" / "signvote",
        "train",
        "--method",
        "it",
        "--rounds",
        rounds,
        "--initial-rounds",
        max(1, rounds // 2),
        "--eval-every",
        rounds,
        "--threads",
        THREADS,
        "--out",
        out,
        *flags,
    )
    summary = json.loads((out / "summary.json").read_text())
    subprocess.run(["rm", "-r", str(out)], check=True)
    return summary, peak


def training(quick, cifar):
    rows = []
    cases = [("mnist", "cnn", mode, 28, 1) for mode in (1, 2, 3, 4)]
    if cifar:
        cases.append(("cifar10", "resnet20", 1, 32, 3))
    with tempfile.TemporaryDirectory() as folder:
        for dataset, model, mode, side, channels in cases:
            best = {"bench": "training", "dataset": dataset, "model": model, "batch_mode": mode}
            slow = model != "cnn"
            for _ in range(1 if quick or slow else 3):  # in turn
                flags = ["--dataset", dataset, "--model", model, "--batch-mode", mode]
                if dataset == "cifar10":
                    flags += ["--data", cifar]
                summary, peak = train(folder, 4 if slow else 20, *flags)
                plain = run(BENCH / "plain_gradient_bench", model, channels, side, 960, 2 if slow else 5)[0][0]
                share = summary["outside_gradients_share"]
                best["samples_per_second"] = max(best.get("samples_per_second", 0), summary["samples_per_second"])
                best["plain_samples_per_second"] = max(
                    best.get("plain_samples_per_second", 0), plain["samples_per_second"]
                )
                best["outside_gradients_share"] = min(best.get("outside_gradients_share", 1), share)
                best["peak_bytes"] = min(best.get("peak_bytes", math.inf), peak)
            best["speedup"] = best["samples_per_second"] / best["plain_samples_per_second"]
            if dataset == "mnist":
                # What must be there: counters, ballots, parameters and gradients, data, and libtorch at work
                # on the same micro-batches.
                alone = run(BENCH / "plain_gradient_bench", model, channels, side, 64 * THREADS, 3)[1]
                n, m = summary["parameters"], summary["workers"]
                needed = 2 * m * n + m * n / 4 + 4 * n * (1 + THREADS) + 70_000 * 785 + alone
                best["peak_over_needed"] = best["peak_bytes"] / needed
            rows.append(best)
    print("\nA training round against plain libtorch computing one gradient of 960 samples with all cores")
    for r in rows:
        print(
            f"  {r['dataset']:8} {r['model']:9} mode {r['batch_mode']}{r['samples_per_second']:>8.0f} samples/s"
            f"{r['plain_samples_per_second']:>8.0f} plain{r['speedup']:>7.2f} x   all but gradients "
            f"{100 * r['outside_gradients_share']:.1f} %   peak {r['peak_bytes'] / 2**20:.0f} MiB"
        )
    return rows


def growth(quick):
    rows = []
    small = (15, 58_203 if quick else 582_026)
    for name, (workers, size) in {
        "once": small,
        "workers x 10": (10 * small[0], small[1]),
        "size x 10": (small[0], 10 * small[1]),
    }.items():
        result = run(BENCH / "server_round_bench", THREADS, 1, workers, size)[0][0]
        rows.append(
            {
                "bench": "growth",
                "name": name,
                "workers": workers,
                "size": size,
                "seconds": result["seconds"],
                "peak_bytes": result["peak_bytes"],
            }
        )
    print("\nGrowth of the server's round (exponent: 1 is in proportion)")
    for row in rows:
        for key in ("seconds", "peak_bytes"):
            row[f"{key}_exponent"] = math.log10(row[key] / rows[0][key]) if row is not rows[0] else None
        exponents = (
            ""
            if row is rows[0]
            else (f"   time^{row['seconds_exponent']:.2f}" f"   memory^{row['peak_bytes_exponent']:.2f}")
        )
        print(
            f"  {row['name']:14}M {row['workers']:>4}  N {row['size']:>10,}{1e3 * row['seconds']:>10.2f} ms"
            f"{row['peak_bytes'] / 2**20:>9.0f} MiB{exponents}"
        )
    return rows


def goals(rows):
    """What issue 3 asked for: name, measured, bound, whether more is better."""

    def kernel(name, size, caches="cold"):
        return [
            r["ratio"]
            for r in rows
            if r["bench"] == "kernels"
            and r["name"] == name
            and r["size"] == size
            and r["workers"] == 15
            and r["caches"] == caches
        ]

    def rival(name):
        times = {r["name"]: r["seconds"] for r in rows if r["bench"] == "server_round"}
        return [times[name] / times["signvote_nobody_abstains"]] if name in times else []

    mnist = [r for r in rows if r["bench"] == "training" and r["dataset"] == "mnist"]
    wanted = [
        ("vote and count, N = 8,000,000, over its stream", kernel("vote_and_count", 8_000_000), 2.0, False),
        ("vote and count, N = 582,026, over its stream", kernel("vote_and_count", 582_026), 2.5, False),
        ("  the same with its counters in the cache", kernel("vote_and_count", 582_026, "hot"), 2.5, False),
    ]
    wanted += [
        (f"{name}, N = {size:,}, over its stream", kernel(name, size), bound, False)
        for name, bound in (("majority", 1.3), ("pack", 1.2), ("step", 1.2))
        for size in (582_026, 8_000_000)
    ]
    wanted += [
        ("server's round, times as fast as the authors' structure", rival("torch_layers"), 100, True),
        ("server's round, times as fast as flat PyTorch", rival("torch_flat"), 40, True),
        ("MNIST round, times as fast as plain libtorch, worst mode", [r["speedup"] for r in mnist], 1.5, True),
        (
            "all but gradients, share of an MNIST round, worst mode",
            [r["outside_gradients_share"] for r in mnist],
            0.02,
            False,
        ),
        ("peak of memory over what is needed, worst mode", [r["peak_over_needed"] for r in mnist], 1.2, False),
    ]
    wanted += engine_goals(rows) + peer_goals(rows) + dashboard_goals(rows)
    from_python = [r["ratio"] for r in rows if r["bench"] == "python_tally" and r["size"] == 582_026]
    wanted += [("the tally from Python, N = 582,026, over the tally from C++", from_python, 1.1, False)]
    table = []
    for name, values, bound, more in wanted:
        if values:
            value = min(values) if more else max(values)
            table.append(
                {
                    "bench": "goal",
                    "name": name.strip(),
                    "value": value,
                    "bound": bound,
                    "met": value >= bound if more else value <= bound,
                }
            )
            print(
                f"  {'met   ' if table[-1]['met'] else 'MISSED'}  {name:66}{value:>8.3f}  "
                f"(goal {'>=' if more else '<='} {bound})"
            )
    return table


def key(row):
    return tuple(
        str(row.get(field))
        for field in ("bench", "name", "size", "workers", "caches", "dataset", "model", "batch_mode", "network")
    )


def compare(rows, baseline_file):
    """Ratios that moved against the kept baseline; absolute times do not count between two runs."""
    if not baseline_file.exists():
        print(f"\nNo baseline yet; keep this run as one: cp RESULT {baseline_file}")
        return
    baseline = json.loads(baseline_file.read_text())
    before = {key(row): row for row in baseline["rows"]}
    print(f"\nAgainst the baseline of {baseline['date']} ({baseline['commit']}), what moved by more than {MOVED:.0%}:")
    moved = 0
    for row in rows:
        for field in ("ratio", "speedup", "fewer_bytes", "outside_gradients_share", "value"):
            old = before.get(key(row), {}).get(field)
            if field in row and old and abs(row[field] / old - 1) > MOVED:
                moved += 1
                print(
                    f"  {' '.join(part for part in key(row) if part != 'None')}: {field} {old:.3f} -> {row[field]:.3f}"
                )
    if not moved:
        print("  nothing")


def kernels_figure(rows, file):
    """Every kernel's bytes per second beside those of a plain stream, counters and ballots coming from memory."""
    chosen = [r for r in rows if r["bench"] == "kernels" and r["workers"] == 15 and r["caches"] == "cold"]
    sizes = sorted({r["size"] for r in chosen} & {582_026, 8_000_000})
    script = f"""
set terminal pngcairo size 1200,{120 + 380 * len(sizes)} font 'DejaVu Sans,13'
set output '{file}'
set multiplot layout {len(sizes)},1 margins 0.08,0.98,0.06,0.87 spacing 0,0.12
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.9 noborder
set boxwidth 0.9
set grid ytics lc rgb '#dddddd'
set border 3
set tics nomirror
set xtics scale 0
set ytics 10
set yrange [0:*]
set ylabel 'GB/s read and written'
set label 1 'Kernels beside a plain stream over the same memory: {THREADS} threads, M = 15, caches cold' \\
  at screen 0.53,0.975 center font ',15'
set key at screen 0.53,0.945 center horizontal reverse Left
"""
    for size in sizes:
        script += f"$data_{size} << EOD\n"
        for r in chosen:
            if r["size"] == size:
                speeds = [1e-9 * r[f"{what}bytes"] / r[f"{what}seconds"] for what in ("", "stream_")]
                script += f"\"{r['name'].replace('_', ' ')}\" {speeds[0]} {speeds[1]}\n"
        script += f"""EOD
set title 'N = {size:,}' offset 0,-0.5
plot $data_{size} using 2:xtic(1) title 'kernel' lc rgb '#0072B2', '' using 3 title 'plain stream' lc rgb '#bbbbbb'
unset key
unset label
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "threads": THREADS,
        "memory_bytes": memory_bytes(),
        "system": platform.platform(),
    }


def main():
    sections = {
        "kernels": kernels,
        "server": server,
        "training": training,
        "growth": growth,
        "engines": engines,
        "server64": server64,
        "sessions": sessions,
        "python": python,
        "peers": peers,
        "dashboard": dashboard,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*sections, []], help="which to run (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repetitions, to see that it works")
    parser.add_argument("--cifar", metavar="DIR", help="CIFAR-10's folder, to measure resnet20 on it too")
    parser.add_argument("--baseline", type=Path, default=HERE / "results" / "baseline.json")
    parser.add_argument("--figure", type=Path, help="draw the kernels' bytes per second to this PNG file")
    parser.add_argument("--out", type=Path, help="the file to write")
    options = parser.parse_args()

    commit = (
        subprocess.run(
            ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
        ).stdout.strip()
        or "unknown"
    )
    result = {"date": time.strftime("%Y-%m-%d"), "commit": commit, "machine": machine(), "quick": options.quick}
    rows = []
    for name in options.sections or sections:
        arguments = (options.quick, options.cifar) if name == "training" else (options.quick,)
        rows += sections[name](*arguments)
    if options.figure:
        kernels_figure(rows, options.figure)
    print("\nGoals")
    rows += goals(rows)
    compare(rows, options.baseline)
    out = options.out or HERE / "results" / f"{result['date']}-{commit}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**result, "rows": rows}, indent=1) + "\n")
    print(f"\nWritten to {out}")


if __name__ == "__main__":
    main()
