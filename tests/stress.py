#!/usr/bin/python3
"""Runs every test of a build many times beside busy loops, and reports which wavered: stress.py BUILD_FOLDER

From the environment: STRESS_REPEAT, how often each is run (20); STRESS_BUSY, how many busy loops (6); STRESS_JOBS, how
many tests at once (two for each core, because many wait); STRESS_TESTS, a regular expression of ctest's that names
those to run (all). Property tests take 20 examples each time instead of 100, unless RC_PARAMS says otherwise.

The report is printed and kept in BUILD_FOLDER/stress/report.txt, beside the output of each failure. An interrupt ends
it early, with a report of the passes that were finished. Exit code 1: something failed, or it ended early.
"""

import collections
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import xml.etree.ElementTree

PATIENCE = 20  # seconds that interrupted tests have to clean up

# It ends with the process that started it, however that ends.
BUSY_LOOP = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def busy_loops(count):
    command = [sys.executable, "-c", BUSY_LOOP, str(os.getpid())]
    loops = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_ctest(command):
    """In a process group of its own, so that an interrupt reaches this process first, and then every test."""
    ctest = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    try:
        return ctest.wait()
    except KeyboardInterrupt:
        os.killpg(ctest.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            ctest.wait(PATIENCE)
        raise
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(ctest.pid, signal.SIGKILL)
        ctest.wait()


def outcome(case):
    """Of a test in ctest's report: passed, skipped or failed."""
    skip = case.find("skipped")
    if case.get("status") == "run":
        return "passed"
    return "skipped" if skip is not None and skip.get("message", "").startswith("SKIP_") else "failed"


class Record:
    """What a test did in all passes."""

    def __init__(self):
        self.seconds = []
        self.outcomes = collections.Counter()


def one_pass(number, ctest, folder, records):
    file = folder / "pass.xml"
    file.unlink(missing_ok=True)
    run_ctest([*ctest, "--output-junit", file])
    if not file.exists():
        sys.exit(f"stress: ctest has left no report of pass {number}")
    for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
        name = case.get("name")
        record = records[name]
        record.outcomes[outcome(case)] += 1
        record.seconds.append(float(case.get("time")))
        if outcome(case) == "failed":
            log = folder / f"{name.replace('/', '_')}.{number}.log"
            log.write_text(case.findtext("system-out") or "")
    file.unlink()


def report(records, passes, wanted, busy, folder):
    failures = sum(record.outcomes["failed"] for record in records.values())
    lines = [f"{'test':36}{'runs':>6}{'failed':>8}{'skipped':>9}{'median s':>10}{'longest s':>11}"]
    worst_first = sorted(records.items(), key=lambda item: (-item[1].outcomes["failed"], -max(item[1].seconds)))
    for name, record in worst_first:
        failed, skipped = record.outcomes["failed"], record.outcomes["skipped"]
        median, longest = statistics.median(record.seconds), max(record.seconds)
        lines.append(f"{name:36}{len(record.seconds):>6}{failed:>8}{skipped:>9}{median:>10.1f}{longest:>11.1f}")
    lines.append(f"{len(records)} tests, {passes} of {wanted} passes beside {busy} busy loops: {failures} failures")
    if failures:
        lines.append(f"What they printed is in {folder}")
    (folder / "report.txt").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))
    return failures


def main():
    build = pathlib.Path(sys.argv[1])
    repeat = int(os.environ.get("STRESS_REPEAT") or 20)
    busy = int(os.environ.get("STRESS_BUSY") or 6)
    jobs = int(os.environ.get("STRESS_JOBS") or 2 * os.cpu_count())
    ctest = ["ctest", "--test-dir", build, "--no-tests=error", "--parallel", str(jobs)]
    ctest += ["--test-output-size-failed", str(1 << 30)]
    if tests := os.environ.get("STRESS_TESTS"):
        ctest += ["--tests-regex", tests]
    folder = (build / "stress").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # What wavers is found by repeating; counterexamples are make test's to find.
    os.environ.setdefault("RC_PARAMS", "max_success=20")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    records = collections.defaultdict(Record)
    passes = 0
    with busy_loops(busy), contextlib.suppress(KeyboardInterrupt):
        for passes in range(repeat):
            print(f"stress: pass {passes + 1} of {repeat}", flush=True)
            one_pass(passes + 1, ctest, folder, records)
        passes = repeat
    failures = report(records, passes, repeat, busy, folder)
    sys.exit(1 if failures or passes < repeat else 0)


if __name__ == "__main__":
    main()
