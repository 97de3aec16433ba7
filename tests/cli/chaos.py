"""What the chaos tests share: servers and workers that are killed, stopped, cut off from their disk, and started again.

Nothing in the program helps: it is killed at the very moment between a record's sync and its verdict by strace,
which holds fdatasync's return back.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.request

from helper import ENVIRONMENT, SIGNVOTE, TIMEOUT, Over

LONG = os.environ.get("SIGNVOTE_CHAOS") == "long"
HOLD = 1.0  # seconds that strace holds an fdatasync back


class TooLate(AssertionError):
    """Something that was waited for did not come."""


def wait_until(what, condition, seconds=TIMEOUT, alive=()):
    """Waits for a true `condition()` and returns it; gives up early if one of the processes `alive` has ended, which
    is Over if it has ended well."""
    deadline = time.monotonic() + seconds
    while True:
        ended = [process for process in alive if not process.running()]  # before: it may have done it and ended
        if value := condition():
            return value
        for process in ended:
            kind = Over if process.process.returncode == 0 else TooLate
            raise kind(f"{process.name} ended with {process.process.returncode} before {what}: {process.tail()}")
        if time.monotonic() > deadline:
            raise TooLate(f"not in {seconds} s: {what}")
        time.sleep(0.005)


_taken = []  # for as long as this process lives


def free_port():
    """One that is free, and so is the next, as are the metrics'; and no other test is about to take it.

    Not one of those that the kernel gives to clients, if there are others: a worker that tries again and again to
    reach a server that is down would otherwise once in a while be given the server's port, and reach itself.
    """
    lowest, highest = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    usable = [port for port in range(10_000, 65_535) if port + 1 < lowest or port > highest]
    while True:
        port = random.choice(usable or range(10_000, 65_535))
        with contextlib.suppress(OSError), contextlib.ExitStack() as trial:
            for number in (port, port + 1):
                trial.enter_context(socket.create_server(("127.0.0.1", number)))
                mark = socket.socket(socket.AF_UNIX)  # an abstract one, which leaves nothing behind
                mark.bind(f"\0signvote-test-port-{number}")
                _taken.append(mark)
            return port


def write_toml(file, options):
    lines = (f"{name} = {value}" if isinstance(value, (int, float)) else f'{name} = "{value}"'
             for name, value in options.items())  # fmt: skip
    file.write_text("\n".join(lines) + "\n")
    return file


class Certificates:
    """By openssl, as somebody may who does not use ours."""

    def __init__(self, folder, workers, host="127.0.0.1"):
        self.folder = folder
        folder.mkdir()
        self._openssl("req", "-x509", *self._new_key("ca"), "-subj", "/CN=chaos ca", "-days", 2, "-out", "ca.pem")
        self._sign("server", f"subjectAltName=IP:{host},DNS:localhost")
        for name in workers:
            self._sign(name, "extendedKeyUsage=clientAuth")

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], cwd=self.folder, check=True, capture_output=True)

    @staticmethod
    def _new_key(name):
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"

    def _sign(self, name, extension):
        (self.folder / "extension").write_text(extension + "\n")
        self._openssl("req", *self._new_key(name), "-subj", f"/CN={name}", "-out", "request")
        self._openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                      "-days", 2, "-extfile", "extension", "-out", f"{name}.pem")  # fmt: skip

    def of(self, name):
        return ["--cert", self.folder / f"{name}.pem", "--key", self.folder / f"{name}.key"]

    @property
    def authority(self):
        return self.folder / "ca.pem"


class Program:
    """One of the programs of a run, through all its lives; each life's stderr is appended to one file."""

    def __init__(self, name, folder, prefix=()):
        self.name = name
        self.log = folder / f"{name}.log"
        self.process = None
        self.lives = 0
        self._prefix = list(prefix)  # e.g. a lab's ["ip", "netns", "exec", ...]

    def arguments(self):
        raise NotImplementedError

    def start(self):
        assert not self.running(), self.name
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([*self._prefix, SIGNVOTE, *map(str, self.arguments())], env=ENVIRONMENT,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        self.lives += 1
        return self

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9. False: it had ended by itself."""
        self.process.kill()
        return self.process.wait(TIMEOUT) == -signal.SIGKILL

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def wait(self, seconds=TIMEOUT):
        """The exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TooLate(f"{self.name} has not ended in {seconds} s: {self.tail()}") from None

    def close(self):
        if self.running():
            self.process.kill()
            self.process.wait(TIMEOUT)

    def tail(self, lines=10):
        return "\n".join([f"--- {self.log.name}, life {self.lives}", *self.log.read_text().splitlines()[-lines:]])


class Server(Program):
    def __init__(self, folder, config, certificates, *flags, state=None, host="127.0.0.1", port=None, prefix=()):
        super().__init__("server", folder, prefix)
        self.state = state or folder / "state"
        self.config = config
        self.certificates = certificates
        self.flags = flags
        self.host = host
        self.port = free_port() if port is None else port  # 0: any, and the same in later lives
        self.metrics_port = None

    def arguments(self):
        return ["server", "--config", self.config, "--listen", f"{self.host}:{self.port}", "--state", self.state,
                *self.certificates.of("server"), "--client-ca", self.certificates.authority, *self.flags]  # fmt: skip

    def _whereabouts(self):
        """server.json as a file and what it says; None if it is not there."""
        file = self.state / "server.json"
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            return (status.st_ino, status.st_mtime_ns), json.loads(file.read_text())
        return None

    def start(self, ready=True):
        """`ready`: returns when it listens."""
        before = self._whereabouts()
        super().start()
        if ready:
            def new():
                now = self._whereabouts()
                return now if now and (before is None or now[0] != before[0]) else None

            told = wait_until("the server listens", new, alive=[self])[1]
            self.port, self.metrics_port = told["port"], told["metrics_port"]
        return self

    def progress(self):
        """Grows with every record of the journal: the snapshot's round, and the bytes recorded since."""
        best = (-1, 0)
        for file in (self.state / "journal").glob("rounds-*.log"):
            with contextlib.suppress(FileNotFoundError):
                best = max(best, (int(file.stem.partition("-")[2]), file.stat().st_size))
        return best

    def wait_for_growth(self, times=1, alive=()):
        """Returns when the journal has grown so many times. Two quick records may count as one."""
        for _ in range(times):
            before = self.progress()
            wait_until("the journal grows", lambda: self.progress() > before, alive=[self, *alive])

    def rounds(self):
        """How many rounds the journal has: never less than any worker has a verdict of."""
        best = 0
        for file in (self.state / "journal").glob("rounds-*.log"):
            with contextlib.suppress(FileNotFoundError), open(file, "rb") as log:
                count, at, end = int(file.stem.partition("-")[2]), 0, os.fstat(log.fileno()).st_size
                while len(header := log.read(40)) == 40:  # see docs/journal_format.md
                    _, kind, body = struct.unpack_from("<4sIQ", header)
                    at += 40 + body
                    count += kind == 2 and at <= end
                    log.seek(at)
                best = max(best, count)
        return best

    def wait_for_rounds(self, more=1, alive=()):
        """Returns when the journal has so many more rounds, and how many that are."""
        goal = self.rounds() + more
        wait_until(f"round {goal}", lambda: self.rounds() >= goal, alive=[self, *alive])
        return self.rounds()

    def kill_before_verdict(self):
        """kill -9 after a record of the journal was written and synced, before the server can act on it.

        strace holds the thread in fdatasync; the line it then writes says that the sync is done. False: that was
        not so, for the server ended by itself or this machine was too busy to kill it in time.
        """
        trace = self.log.with_suffix(".trace")
        trace.unlink(missing_ok=True)
        command = ["strace", "-f", "-y", "-ttt", "-o", trace, "-e", "trace=fdatasync",
                   "-e", f"inject=fdatasync:delay_exit={HOLD * 1e6:.0f}", "-p", str(self.process.pid)]  # fmt: skip
        # PID TIME fdatasync(FD<FILE>) = 0 (DELAYED); in two parts if threads sync at once.
        held = re.compile(r"^\d+ +(\S+) (?:fdatasync\(\d+<.*/rounds-\d+\.log>\)|<\.\.\. fdatasync resumed>\)) *= 0 "
                          r"\(DELAYED\)$", re.M)  # fmt: skip
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as strace:
            try:
                def found():
                    if strace.poll() not in (None, 0) and self.running():
                        raise OSError(f"strace: {strace.stderr.read().strip()}")
                    stamps = held.findall(trace.read_text()) if trace.exists() else []
                    return not self.running() or (stamps and time.time() < float(stamps[-1]) + HOLD / 2 and stamps[-1])

                stamp = wait_until("strace holds an fdatasync of the journal", found)
                self.process.kill()
                # A clock's reading after the kill: so it was in time.
                in_time = stamp is not True and time.time() < float(stamp) + HOLD
            finally:
                strace.kill()  # or its victim could not go before the time is up
        return self.process.wait(TIMEOUT) == -signal.SIGKILL and in_time

    def metrics(self):
        """What Prometheus would read: {'name{label="value"}': number}. Raises OSError if nobody answers."""
        with urllib.request.urlopen(f"http://{self.host}:{self.metrics_port}/metrics", timeout=TIMEOUT) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in
                (line.rpartition(" ") for line in lines if line and not line.startswith("#"))}  # fmt: skip


class Worker(Program):
    def __init__(self, name, folder, server, certificates, data, *flags, prefix=()):
        super().__init__(name, folder, prefix)
        self.server = server
        self.certificates = certificates
        self.data = data
        self.flags = flags

    def arguments(self):
        return ["worker", "--connect", f"{self.server.host}:{self.server.port}", *self.certificates.of(self.name),
                "--ca", self.certificates.authority, "--data", self.data, *self.flags]  # fmt: skip


class SmallDisk:
    """A file system of its own that can be filled. Needs CAP_SYS_ADMIN."""

    def __init__(self, folder, megabytes):
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "signvote-chaos", folder], check=True)

    def fill(self):
        """To the last byte."""
        with open(self.folder / "filler", "ab", buffering=0) as filler, contextlib.suppress(OSError):
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)) == size:
                        pass

    def free(self):
        (self.folder / "filler").unlink()

    def close(self):
        subprocess.run(["umount", "--lazy", self.folder], check=True)
        shutil.rmtree(self.folder)


@dataclasses.dataclass
class Kill:
    victim: str  # worker, server, before_verdict
    worker: int  # if it is one
    records: int  # of the journal to wait for before it
    pause: float  # seconds from then on: it shall fall anywhere in a round
    down: float  # seconds to the restart


class ChaosPlan:
    """Whom to kill when, all from one seed, which a failure tells: SIGNVOTE_CHAOS_SEED=... repeats the plan.
    (Not the run: what the threads and the network are at by then is chance.)"""

    def __init__(self, workers, **kills):
        """`kills`: how many of each victim."""
        self.seed = int(os.environ.get("SIGNVOTE_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
        rng = random.Random(self.seed)
        victims = [victim for victim, count in kills.items() for _ in range(count)]
        rng.shuffle(victims)
        self.kills = [Kill(victim, rng.randrange(workers), records=rng.randint(1, 3), pause=rng.random() / 20,
                           down=rng.choice((0, rng.random() / 2))) for victim in victims]  # fmt: skip

    @contextlib.contextmanager
    def told(self, programs=()):
        """A failure inside tells the seed, and what the programs said last."""
        try:
            yield self
        except BaseException as problem:
            problem.add_note(f"SIGNVOTE_CHAOS_SEED={self.seed}")
            for program in programs:
                if program.log.exists():
                    problem.add_note(program.tail())
            raise

    def carry_out(self, server, workers):
        """Kills and restarts. Returns how many of each victim were killed while they ran."""
        done = dict.fromkeys((kill.victim for kill in self.kills), 0)
        for kill in self.kills:
            server.wait_for_growth(kill.records)
            time.sleep(kill.pause)
            victim = workers[kill.worker] if kill.victim == "worker" else server
            killed = server.kill_before_verdict() if kill.victim == "before_verdict" else victim.kill()
            if victim.process.returncode == 0:
                raise Over(f"{victim.name} had ended before it could be killed")
            done[kill.victim] += killed
            time.sleep(kill.down)
            victim.start()
        return done
