"""A rank that is killed takes the whole job with it, soon and with an exit code that says so.

mpi_death_test.py COMMAND...: what starts `mpi_engine_test forever` in several ranks.
"""
import os
import signal
import subprocess
import sys
import time


def runs(pid):
    """A zombie does not: there may be nobody to reap it in a container."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


job = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    pids = []
    while len(pids) < 3:
        line = job.stdout.readline()
        assert line, f"the job ended by itself, with {job.wait()}"
        if line.startswith("pid "):
            pids.append(int(line.split()[1]))
    start = time.monotonic()
    os.kill(pids[1], signal.SIGKILL)
    rest, _ = job.communicate(timeout=30)
    print(f"ended {time.monotonic() - start:.1f} s after the kill, with {job.returncode}:\n{rest}")
    assert job.returncode != 0
    for pid in pids:
        while runs(pid):
            assert time.monotonic() < start + 30, f"the rank with pid {pid} still runs"
            time.sleep(0.1)
finally:
    if job.poll() is None:
        job.kill()
