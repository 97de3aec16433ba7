"""The lab itself: its links are as slow as they say, its counters count, and it leaves nothing behind."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from command_line import Case, main
import network_lab
from network_lab import Lab
from processes import has_ended
from waiting import TIMEOUT, wait_until

RECEIVE = """
import socket, time
server = socket.create_server(("", 7000))
print("ready", flush=True)
connection, _ = server.accept()
count = 0
while data := connection.recv(1 << 16):
    count += len(data)
print(count, time.monotonic())
"""
# From before the first byte leaves to after the last has come: a busy machine can only make that longer.
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7000)) as connection:
    print(time.monotonic(), flush=True)
    connection.sendall(bytes(int(sys.argv[2])))
"""

ALLREDUCE = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, n = atoi(argv[1]), rounds = atoi(argv[2]);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float *in = malloc(4 * n), *out = malloc(4 * n);
  for (int i = 0; i < n; ++i) in[i] = rank + 1;
  for (int r = 0; r < rounds; ++r) MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("ranks %d sum %g\n", ranks, out[n - 1]);
  MPI_Finalize();
}
"""


def python(code, *arguments):
    return [sys.executable, "-c", code, *map(str, arguments)]


@unittest.skipIf(Lab.available(), Lab.available())
class Network(Case):
    def make(self, **options):
        made = Lab(**options)
        self.addCleanup(made.close)
        return made

    def send(self, lab, routes, size):
        """`size` bytes over each of the routes (from, to) at once; no two to one host. Returns the seconds."""
        pipe = {"stdout": subprocess.PIPE, "text": True}
        receivers = [lab.popen(to, python(RECEIVE), **pipe) for _, to in routes]
        for receiver in receivers:
            self.assertEqual(receiver.stdout.readline(), "ready\n")
        senders = [lab.popen(source, python(SEND, lab.address(to), size), **pipe) for source, to in routes]
        begun = [float(sender.communicate(timeout=TIMEOUT)[0]) for sender in senders]
        lines = [receiver.communicate(timeout=TIMEOUT)[0].split() for receiver in receivers]
        for process in senders + receivers:
            self.assertEqual(process.wait(TIMEOUT), 0)
        self.assertEqual([int(count) for count, _ in lines], [size] * len(routes))
        return max(float(end) for _, end in lines) - min(begun)

    def pings(self, lab, source, to, seconds=0.5):
        """Whether a connection is answered in that time; a refusal is an answer."""
        code = "import socket, sys\nsocket.create_connection((sys.argv[1], 1), timeout=float(sys.argv[2]))"
        result = lab.run(source, python(code, lab.address(to), seconds), capture_output=True, text=True)
        return "ConnectionRefusedError" in result.stderr

    def assert_pings(self, lab, source, to):
        wait_until(f"host {source} reaches host {to}", lambda: self.pings(lab, source, to))

    @staticmethod
    def wait_for_program(pid, name):
        """`ip` takes a moment to become it."""
        wait_until(f"{pid} is {name}", lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() == name + "\n")

    def test_a_link_is_as_slow_as_it_says_and_its_bytes_are_counted(self):
        lab = self.make(hosts=3, mbit=40)
        size = 1_000_000
        seconds = 8 * size / 40e6
        before = [lab.counters(host) for host in range(3)]
        self.assertGreaterEqual(self.send(lab, [(0, 1)], size), 0.8 * seconds)
        moved = [{way: lab.counters(h)[way] - before[h][way] for way in ("rx", "tx")} for h in range(3)]
        for count in (moved[0]["tx"], moved[1]["rx"]):
            # Every frame of 1514 bytes carries 1448; what is lost is sent again.
            self.assertGreaterEqual(count, size * 1514 / 1448)
            self.assertLess(count, 1.5 * size)
        for count in (moved[0]["rx"], moved[1]["tx"]):
            self.assertGreater(count, 0)  # acknowledgements
            self.assertLess(count, 0.2 * size)
        self.assertLess(sum(moved[2].values()), 1000)  # who has which address?

    def test_a_host_has_one_link_whomever_it_talks_to(self):
        lab = self.make(hosts=3, mbit=40)
        size = 1_000_000
        self.assertGreaterEqual(self.send(lab, [(0, 1), (0, 2)], size), 0.8 * 2 * 8 * size / 40e6)

    def test_up_and_down_are_both_limited(self):
        for way in ("up", "down"):
            with self.subTest(way):
                lab = self.make(hosts=2, mbit=40)
                for host in range(2):  # the other way's limits go
                    link = (lab.switch, f"host{host}") if way == "up" else (lab.namespace(host), "eth0")
                    subprocess.run(["tc", "-n", link[0], "qdisc", "del", "dev", link[1], "root"], check=True)
                self.assertGreaterEqual(self.send(lab, [(0, 1)], 1_000_000), 0.8 * 8 / 40)

    def test_a_link_without_a_limit_has_none(self):
        lab = self.make(hosts=2)
        self.send(lab, [(0, 1)], 1_000_000)
        self.assertGreaterEqual(lab.counters(1)["rx"], 1_000_000)
        self.assertNotIn("tbf", lab.run(0, ["tc", "qdisc"], capture_output=True, text=True, check=True).stdout)

    def test_links_may_be_unequal(self):
        lab = self.make(hosts=3, mbit=[None, 40, 8])
        limits = [lab.run(host, ["tc", "qdisc"], capture_output=True, text=True).stdout for host in range(3)]
        self.assertNotIn("tbf", limits[0])
        self.assertIn("rate 40Mbit", limits[1])
        self.assertIn("rate 8Mbit", limits[2])
        self.assertGreaterEqual(self.send(lab, [(0, 2)], 200_000), 0.8 * 8 * 200_000 / 8e6)

    def test_a_host_is_cut_off_and_joins_again(self):
        lab = self.make(hosts=3, mbit=100)
        self.assert_pings(lab, 0, 1)
        lab.cut(1)
        self.assertFalse(self.pings(lab, 0, 1))
        self.assertFalse(self.pings(lab, 1, 2))
        self.assert_pings(lab, 0, 2)
        lab.join(1)
        self.assert_pings(lab, 0, 1)
        self.assert_pings(lab, 1, 2)

    def test_nothing_is_left_behind(self):
        with Lab(hosts=2, mbit=10) as made:
            name = made.folder.name
            self.assertIn(name, network_lab.names())
            process = made.popen(1, ["sleep", "1000"])
            self.wait_for_program(process.pid, "sleep")
            self.assertNotEqual(made.namespace(0), made.namespace(1))
        self.assertEqual(process.wait(TIMEOUT), -signal.SIGKILL)
        self.assertNotIn(name, network_lab.names())
        self.assertNotIn(name, subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout)

    def test_the_lab_of_a_killed_process_is_removed_by_the_next(self):
        code = (
            "import sys, time\n"
            f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
            "from network_lab import Lab\n"
            "made = Lab(hosts=2, mbit=10)\n"
            "process = made.popen(0, ['sleep', '1000'], stdout=2)\n"
            "print(made.folder.name, process.pid, flush=True)\n"
            "time.sleep(1000)\n"
        )
        with subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True) as maker:
            try:
                name, pid = maker.stdout.readline().split()
                with Lab(hosts=1):
                    self.assertIn(name, network_lab.names())  # the living keep theirs
                    self.wait_for_program(pid, "sleep")
            finally:
                maker.kill()
        with Lab(hosts=1) as another:
            self.assertNotIn(name, network_lab.names())
            self.assertNotEqual(name, another.folder.name)
        # Whoever inherited it may not have asked for its exit code yet.
        wait_until(f"{pid} has ended", lambda: has_ended(pid))

    def test_mpi_ranks_talk_over_the_links(self):
        source = self.folder / "allreduce.c"
        source.write_text(ALLREDUCE)
        program = self.folder / "allreduce"
        subprocess.run(["mpicc", "-O1", source, "-o", program], check=True)
        lab = self.make(hosts=4, mbit=1000)
        size = 500_000

        def tx(rounds):
            before = [lab.counters(host)["tx"] for host in range(4)]
            result = lab.mpirun([program, size, rounds], capture_output=True, text=True, timeout=TIMEOUT)
            # Not that stderr is empty: Open MPI warns there if the agent is quicker than its own setpgid().
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, "ranks 4 sum 10\n")
            return [lab.counters(host)["tx"] - before[host] for host in range(4)]

        once, more = tx(1), tx(4)
        for host in range(4):
            # No allreduce of R ranks moves less than 2 (R - 1) / R of its bytes out of each; nor should any move
            # more than twice, as recursive doubling does, and headers.
            self.assertGreater((more[host] - once[host]) / 3, 1.5 * 4 * size)
            self.assertLess((more[host] - once[host]) / 3, 2.5 * 4 * size)

    def test_mpi_ranks_have_their_environment_and_host_names(self):
        lab = self.make(hosts=2)
        result = lab.mpirun(
            ["sh", "-c", "echo $(hostname) $SIGNVOTE_LAB"],
            ranks=[1, 2],
            env={"SIGNVOTE_LAB": "here"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), ["10.77.0.1 here", "10.77.0.2 here", "10.77.0.2 here"])
        self.assertFalse(re.match(r"10\.77", os.uname().nodename))


if __name__ == "__main__":
    main()
