"""A rank that is killed takes the whole job with it, with an exit code that says so.

mpi_death_test.py COMMAND...: what starts `mpi_engine_test forever` in several ranks.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from processes import end_session, has_ended, start_session  # noqa: E402
from waiting import TIMEOUT, wait_until  # noqa: E402


def too_late(*_):
    raise TimeoutError(f"not in {TIMEOUT} s: {waits_for}")


waits_for = "all ranks begin"
signal.signal(signal.SIGALRM, too_late)
signal.alarm(TIMEOUT)
job = start_session(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    pids = []
    while len(pids) < 3:
        line = job.stdout.readline()
        assert line, f"the job ended by itself, with {job.wait()}"
        if line.startswith("pid "):
            pids.append(int(line.split()[1]))
    start = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    waits_for = "the job ends with its rank"
    rest, _ = job.communicate()
    print(f"ended {time.monotonic() - start:.1f} s after the kill, with {job.returncode}:\n{rest}")
    assert job.returncode != 0
    wait_until("all ranks end", lambda: all(map(has_ended, pids)))
finally:
    end_session(job)
