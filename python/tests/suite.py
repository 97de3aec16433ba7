"""Runs the tests of a file, and tells ctest and tests/skipped.py what was skipped."""

import sys
import unittest


def main():
    program = unittest.main(exit=False, verbosity=2)
    for test, reason in program.result.skipped:
        print(f"SKIPPED {test.id().removeprefix('__main__.')}: {reason}", file=sys.stderr)
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if program.result.testsRun == len(program.result.skipped) else 0)
