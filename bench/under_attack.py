#!/usr/bin/python3
"""How much the attacks of a stranger (tests/attacks/) slow an honest run: bench/under_attack.py

A server and three workers, one thread each, have one core, which they use up: what an attack costs the server is lost to
the rounds. The attacker has another core, as if it had a machine of its own. Rounds a second are measured in windows in
turn: nobody attacks; somebody attacks the server; for comparison, the same against a bare TLS server (Python's asyncio
and OpenSSL) on the run's core, which does not know the stranger's authority and refuses it as well. Each attack is
compared with the window before it, and the median of these ratios counts, because the machine's load may drift.

The program is $SIGNVOTE, else the one in build/.
"""

import argparse
import asyncio
import json
import os
import pathlib
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/cli"))

from command_line import write_toml
from generated_data import mnist
from server_and_workers import Certificates, Server, Worker, free_port
from waiting import wait_until

NAMES = ("worker-0", "worker-1", "worker-2")
ATTACKS = ("rapid_reset", "huge_headers", "large_messages", "connection_flood")
TICK = os.sysconf("SC_CLK_TCK")


def bare_server(port, certificates, authority):
    """Refuses everybody whose certificate `authority` has not signed, and after 10 s those who say nothing."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.set_alpn_protocols(["h2"])

    async def serve():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # what strangers do is no news
        hang_up = lambda _, writer: writer.close()
        async with await asyncio.start_server(
            hang_up, "127.0.0.1", port, ssl=context, ssl_handshake_timeout=10
        ) as server:
            print("ready", flush=True)
            await server.serve_forever()

    asyncio.run(serve())


class Bench:
    def __init__(self, folder, cores, seconds):
        self.cores, self.seconds = cores, seconds
        self.certificates = Certificates(folder / "keys", [*NAMES, "mallory"])
        settings = {"data": mnist(), "batches": "3x8", "rounds": 10**6, "eval_every": 10**6, "threads": 1}
        config = write_toml(folder / "run.toml", settings)
        core = ["taskset", "-c", cores[0]]
        self.server = Server(folder, config, self.certificates, "--keep", 50, prefix=core)
        self.workers = [
            Worker(name, folder, self.server, self.certificates, mnist(), "--threads", 1, prefix=core) for name in NAMES
        ]
        self.bare_port = free_port()
        others = Certificates(folder / "others", []).authority
        bare = [*core, sys.executable, __file__, "--bare", str(self.bare_port), self.certificates.folder, others]
        self.bare = subprocess.Popen(bare, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        for program in (self.server, *self.workers):
            program.start()
        self.server.wait_for_rounds(500, alive=self.workers)  # the first ones are slower
        self.bare.stdout.readline()
        return self

    def __exit__(self, *_):
        self.bare.kill()
        self.bare.wait()
        for program in (*self.workers, self.server):
            program.close()

    def stands(self):
        """When a round is over: the time, rounds, and the server's seconds of a processor."""
        before = self.server.metrics()["signvote_round"]

        def later():
            now = self.server.metrics()["signvote_round"]
            return now if now > before else None

        rounds = wait_until("a round is over", later, alive=[self.server])
        now = time.monotonic()
        fields = pathlib.Path(f"/proc/{self.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return now, rounds, (int(fields[11]) + int(fields[12])) / TICK

    def largest_memory(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def window(self, attack=None, port=None):
        """Rounds a second, the server's processor seconds a second, and connections a second."""
        process = None
        if attack:
            mallory = [*self.certificates.of("mallory"), "--ca", self.certificates.authority]
            process = subprocess.Popen(
                ["taskset", "-c", self.cores[1], sys.executable, "-B", ROOT / f"tests/attacks/{attack}.py"]
                + [f"127.0.0.1:{port}", "--seconds", str(self.seconds + 2)]
                + ([] if attack == "connection_flood" else mallory),
                stdout=subprocess.PIPE,
                text=True,
            )
            time.sleep(1)  # it starts, and so it ends one second after the window
        first = self.stands()
        time.sleep(self.seconds)
        last = self.stands()
        span = last[0] - first[0]
        told = json.loads(process.communicate()[0])["connections"] / (self.seconds + 2) if attack else 0
        return (last[1] - first[1]) / span, (last[2] - first[2]) / span, told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", default=ATTACKS, metavar="ATTACK", help=f"{', '.join(ATTACKS)} (all)")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5, help="of a window")
    parser.add_argument("--cores", default="0,1", help="that of the run, and the attacker's; 0-1,0-1: they share both")
    flags = parser.parse_args()
    windows = {attack: [] for attack in flags.attacks}
    memory = dict.fromkeys(flags.attacks, 0)
    with tempfile.TemporaryDirectory() as folder, Bench(
        pathlib.Path(folder), flags.cores.split(","), flags.seconds
    ) as bench:
        for _ in range(flags.repetitions):
            for attack in flags.attacks:
                before = bench.largest_memory()
                windows[attack].append(
                    (bench.window(), bench.window(attack, bench.server.port), bench.window(attack, bench.bare_port))
                )
                memory[attack] += bench.largest_memory() - before
    print(f"{'':18}{'rounds/s':>10}{'attacked':>10}{'ratio':>8}{'bare TLS':>10}{'CPU ms/s':>10}{'conn./s':>9}{'MB':>6}")
    for attack, rows in windows.items():
        quiet, attacked = (statistics.median(row[which][0] for row in rows) for which in (0, 1))
        ratio, bare = (statistics.median(row[which][0] / row[0][0] for row in rows) for which in (1, 2))
        # What the server computes beyond what its rounds take when nobody attacks.
        extra = statistics.median(row[1][1] - row[0][1] * row[1][0] / row[0][0] for row in rows)
        connections = statistics.median(row[1][2] for row in rows)
        print(
            f"{attack:18}{quiet:>10.2f}{attacked:>10.2f}{ratio:>8.3f}{bare:>10.3f}{1e3 * extra:>10.1f}"
            f"{connections:>9.1f}{memory[attack]:>6.0f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        bare_server(int(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4])
    else:
        main()
