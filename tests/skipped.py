#!/usr/bin/python3
"""Lists the tests that were skipped in the last run of ctest, and why: skipped.py BUILD_FOLDER...

A suite passes though some of its tests were skipped, and ctest lists only those of which nothing was left.
"""

import pathlib
import re
import sys

# What a program prints for a test of googletest, and main() of tests/cli/command_line.py for one of Python.
GOOGLETEST = re.compile(r"^\S+: Skipped\n(?P<reason>.*(?:\n.+)*)\n+\[  SKIPPED \] (?P<test>\S+) \(", re.M)
PYTHON = re.compile(r"^SKIPPED (?P<test>\S+): (?P<reason>.*)", re.M)
SUITE = re.compile(r"^\d+/\d+ Testing: (.*)\n", re.M)


def skipped(build):
    """(suite, test, reason) of each, from ctest's own log."""
    log = (build / "Testing/Temporary/LastTest.log").read_text(errors="replace")
    _, *parts = SUITE.split(log)
    for suite, output in zip(parts[::2], parts[1::2]):
        for pattern in (GOOGLETEST, PYTHON):
            for found in pattern.finditer(output):
                yield suite, found["test"], " ".join(found["reason"].split())


def main():
    lines = [
        f"  {build}: {suite}: {test}: {reason}"
        for build in map(pathlib.Path, sys.argv[1:])
        for suite, test, reason in skipped(build)
    ]
    print("\n".join([f"Skipped tests: {len(lines)}", *lines]))


if __name__ == "__main__":
    main()
