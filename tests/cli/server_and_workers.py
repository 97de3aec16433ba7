"""A server and its workers as programs that a test starts, stops, kills and starts again, and waits for."""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import urllib.request

from command_line import ENVIRONMENT, SIGNVOTE
from waiting import TIMEOUT, TooLate, wait_until

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


class Certificates:
    """By openssl, as somebody may who does not use ours."""

    def __init__(self, folder, workers, host="127.0.0.1"):
        self.folder = folder
        folder.mkdir()
        self._openssl(f"req -x509 {self._new_key('ca')} -subj /CN=authority -days 2 -out ca.pem")
        self.sign("server", f"subjectAltName=IP:{host},DNS:localhost")
        for name in workers:
            self.sign(name, "extendedKeyUsage=clientAuth")

    def _openssl(self, arguments):
        subprocess.run(["openssl", *arguments.split()], cwd=self.folder, check=True, capture_output=True)

    @staticmethod
    def _new_key(name):
        return f"-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key"

    def sign(self, name, extension, days=2):
        (self.folder / "extension").write_text(extension + "\n")
        self._openssl(f"req {self._new_key(name)} -subj /CN={name} -out request")
        authority = "-CA ca.pem -CAkey ca.key -CAcreateserial"
        self._openssl(f"x509 -req -in request {authority} -days {days} -extfile extension -out {name}.pem")

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
        self.errors = None  # another file for its stderr
        self.prefix = list(prefix)  # e.g. a lab's ["ip", "netns", "exec", ...]

    def arguments(self):
        raise NotImplementedError

    def start(self):
        assert not self.running(), self.name
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [*self.prefix, SIGNVOTE, *map(str, self.arguments())],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log if self.errors is None else self.errors,
            )
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
    """With TLS, or without if there are no certificates."""

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
        tls = ["--insecure"]
        if self.certificates:
            tls = [*self.certificates.of("server"), "--client-ca", self.certificates.authority]
        where = ["--listen", f"{self.host}:{self.port}", "--state", self.state]
        return ["server", "--config", self.config, *where, *tls, *self.flags]

    def whereabouts(self):
        """server.json as a file and what it says; None if it is not there."""
        file = self.state / "server.json"
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            return (status.st_ino, status.st_mtime_ns), json.loads(file.read_text())
        return None

    def start(self, ready=True):
        """`ready`: returns when it listens."""
        before = self.whereabouts()
        super().start()
        if ready:

            def new():
                now = self.whereabouts()
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
                count, at, end = int(file.stem.partition("-")[2]), 24, os.fstat(log.fileno()).st_size
                log.seek(at)
                while len(header := log.read(48)) == 48:  # see docs/journal_format.md
                    _, kind, body = struct.unpack_from("<4sIQ", header)
                    at += 48 + body
                    count += kind == 3 and at <= end
                    log.seek(at)
                best = max(best, count)
        return best

    def wait_for_rounds(self, more=1, alive=()):
        """Returns when the journal has so many more rounds, and how many that are."""
        goal = self.rounds() + more
        wait_until(f"round {goal}", lambda: self.rounds() >= goal, alive=[self, *alive])
        return self.rounds()

    def metrics(self):
        """What Prometheus would read: {'name{label="value"}': number}. Raises OSError if nobody answers."""
        with urllib.request.urlopen(f"http://{self.host}:{self.metrics_port}/metrics", timeout=TIMEOUT) as answer:
            lines = answer.read().decode().splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        }


class Worker(Program):
    """With TLS, or without if there are no certificates."""

    def __init__(self, name, folder, server, certificates, data, *flags, prefix=()):
        super().__init__(name, folder, prefix)
        self.server = server
        self.certificates = certificates
        self.data = data
        self.flags = flags

    def arguments(self):
        tls = ["--insecure", "--name", self.name]
        if self.certificates:
            tls = [*self.certificates.of(self.name), "--ca", self.certificates.authority]
        return ["worker", "--connect", f"{self.server.host}:{self.server.port}", *tls, "--data", self.data, *self.flags]
