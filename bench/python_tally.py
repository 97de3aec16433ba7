#!/usr/bin/python3
"""The tally from Python beside the tally from C++ (tally_bench), on the same ballots, one thread each, in turn.

    PYTHONPATH=build/python /usr/bin/python3 bench/python_tally.py [--quick]
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = 15


def best_in_python(signvote, ballots, size, budget):
    tally = signvote.Tally(workers=WORKERS, end=size, initial_rounds=1)
    verdict = signvote.SignVector(size)
    best, spent, rounds = float("inf"), 0.0, 0
    while rounds < 5 or spent < budget:
        begin = time.perf_counter()
        tally.decide(ballots, out=verdict)
        seconds = time.perf_counter() - begin
        rounds += 1
        if rounds > 2:  # the first is a plain majority, the second warms up
            best, spent = min(best, seconds), spent + seconds
    return best


def python(quick):
    """Rows for bench/run.py, which runs without signvote on its path."""
    sys.path.insert(0, str(ROOT / "build" / "python"))
    try:
        import numpy
        import signvote
    except ImportError as error:
        print(f"\nPython: left out, because {error}")
        return []
    rows = []
    print("\nThe tally from Python and from C++: ms a vote on the same ballots, one thread")
    print(f"{'N':>12}{'M':>4}{'C++':>9}{'Python':>9}{'ratio':>7}")
    for size in (1_000, 582_026):
        random = numpy.random.default_rng(1)
        ballots = [
            signvote.SignVector.from_signs(random.choice(numpy.array([-1, 1, 0], "int8"), size, p=[0.45, 0.45, 0.1]))
            for _ in range(WORKERS)
        ]
        seconds = {"python": [], "cpp": []}
        with tempfile.NamedTemporaryFile() as file:
            for m, ballot in enumerate(ballots):
                message = signvote.encode(signvote.MessageHeader(worker=m, size=size), ballot)
                file.write(struct.pack("<Q", len(message)) + message)
            file.flush()
            command = [ROOT / "build" / "bench" / "tally_bench", file.name, "0.1" if quick else "0.4", WORKERS, size]
            for _ in range(3 if quick else 9):
                seconds["python"].append(best_in_python(signvote, ballots, size, 0.1 if quick else 0.4))
                printed = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
                seconds["cpp"].append(json.loads(printed.stdout)["seconds"])
        ours, theirs = min(seconds["python"]), min(seconds["cpp"])
        print(f"{size:12,}{WORKERS:4}{1e3 * theirs:9.3f}{1e3 * ours:9.3f}{ours / theirs:7.2f}")
        row = {"bench": "python_tally", "name": "decide", "workers": WORKERS, "size": size}
        rows.append({**row, "seconds": ours, "seconds_in_cpp": theirs, "ratio": ours / theirs})
    return rows


if __name__ == "__main__":
    python("--quick" in sys.argv)
