"""Waiting for an event, never for a time: a test passes on a machine of any speed, and fails if a program hangs."""

import contextlib
import faulthandler
import functools
import signal
import sys
import time

TIMEOUT = 300  # seconds; only a program that hangs takes so long, sanitizers or not


class TooLate(AssertionError):
    """Something that was waited for did not come."""


class Over(Exception):
    """The program had finished before the test could do to it what it wanted to."""


@contextlib.contextmanager
def ends_in_time(seconds=TIMEOUT):
    """What is done within ends after so long, in the main thread: by TooLate and everybody's stack, and where no signal
    is looked for (in code that is not Python's) with the whole process."""

    def ring(*_):
        faulthandler.dump_traceback(sys.__stderr__)
        raise TooLate(f"not over in {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + 60, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def exits_in_time(seconds=TIMEOUT):
    """This process ends in so long, or SIGALRM ends it: what libraries do at the exit no exception can end."""
    faulthandler.dump_traceback_later(seconds - 10, file=sys.__stderr__)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def wait_until(what, condition, seconds=TIMEOUT, alive=()):
    """Waits for a true `condition()` and returns it; gives up early if one of the programs `alive` has ended, which
    is Over if it has ended well."""
    deadline = time.monotonic() + seconds
    while True:
        ended = [program for program in alive if not program.running()]  # before: it may have done it and ended
        if value := condition():
            return value
        for program in ended:
            kind = Over if program.process.returncode == 0 else TooLate
            raise kind(f"{program.name} ended with {program.process.returncode} before {what}: {program.tail()}")
        if time.monotonic() > deadline:
            raise TooLate(f"not in {seconds} s: {what}")
        time.sleep(0.005)


def with_enough_rounds(rounds):
    """A test of something that happens to a program while it runs: test(self, rounds), with twice the rounds each
    time that those were Over too soon. A busy machine may let it be so once in a while."""

    def decorate(test):
        @functools.wraps(test)
        def attempts(self):
            for factor in (1, 2, 4, 8):
                try:
                    return test(self, factor * rounds)
                except Over as over:
                    why = over
                    self.doCleanups()
                    self.setUp()
            raise AssertionError(f"even with {factor * rounds} rounds: {why}") from why

        return attempts

    return decorate
