"""Programs that start programs, so that none outlives its test; and what this process may do."""

import os
import pathlib
import signal
import subprocess
import time


def start_session(command, **options):
    """A program in a session of its own, with nothing to read. To be ended with end_session."""
    return subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, start_new_session=True, **options
    )


def _state_and_session(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, _, _, session = file.read().rpartition(")")[2].split()[:4]
            return state, int(session)
    except OSError:  # it has gone
        return "Z", 0


def has_ended(pid):
    """A zombie has: there may be nobody to reap it in a container."""
    return _state_and_session(pid)[0] == "Z"


def _members(session):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        state, number = _state_and_session(pid)
        if state != "Z" and number == session:
            yield int(pid)


def end_session(process):
    """kill -9 of whatever is left of a session. (Not by process group: mpirun gives every rank one of its own.)"""
    while members := list(_members(process.pid)):
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    process.wait()


def run_session(command, timeout, **options):
    """As subprocess.run with its output captured as text; nothing of it is left if the time is up."""
    process = start_session(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    finally:
        end_session(process)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


# Their bits in /proc/self/status.
_RIGHTS = {"CAP_NET_ADMIN": 12, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21}


def missing_rights(*names):
    """None, or which of these capabilities are not there. Whoever has them has no excuse."""
    held = int(pathlib.Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0], 16)
    return " and ".join(name for name in names if not held >> _RIGHTS[name] & 1) or None
