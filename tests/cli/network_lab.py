"""Hosts that are network namespaces, joined by links as slow as wanted: for tests and for bench/engines.py.

    with Lab(hosts=4, mbit=100) as lab:
        lab.run(0, ["ping", "-c", "1", lab.address(1)])

Each host has one interface, eth0, into a bridge that lies in a namespace of its own: the machine's own network
is never touched. Needs root. What a killed process left behind, the next Lab removes: names carry the pid.
"""

import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from processes import missing_rights

INTERFACE = "eth0"
_PREFIX = "signvote-lab-"
_NAMESPACES = pathlib.Path("/run/netns")
_HANGING = 300  # seconds; only processes that hang take so long to go
_numbers = itertools.count()


def _started(pid):
    """When a process was started, in ticks since boot; None if there is none. With the pid it is unique."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _do(*command, check=True):
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    if check and result.returncode != 0:
        raise OSError(f"'{' '.join(map(str, command))}' failed: {result.stderr.strip()}")
    return result.stdout


class Lab:
    @staticmethod
    def available():
        """None, or why there can be no lab here. As root only rights may be missing, no tools: those are installed."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        missing = missing_rights("CAP_NET_ADMIN", "CAP_SYS_ADMIN")
        return f"network namespaces need {missing}" if missing else None

    def __init__(self, hosts, mbit=None):
        """`mbit`: megabits a second, each way, of every host's link, or a list of them; None: as fast as the machine
        goes."""
        for tool in ("ip", "tc"):
            if not shutil.which(tool):
                raise OSError(f"there is no '{tool}'; scripts/setup installs it")
        remove_stale()
        self.hosts = hosts
        self.mbit = mbit
        self._name = f"{_PREFIX}{os.getpid()}-{_started(os.getpid())}-{next(_numbers)}"
        self.switch = f"{self._name}-switch"  # the bridge's namespace; its ports are host0, host1, ...
        self.folder = pathlib.Path("/tmp") / self._name  # short: Open MPI puts sockets there
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self):
        self.folder.mkdir(mode=0o700)
        switch = self.switch
        self._add(switch)
        # It would send queries of its own.
        _do("ip", "-n", switch, "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
        _do("ip", "-n", switch, "link", "set", "bridge", "up")
        rates = self.mbit if isinstance(self.mbit, list) else [self.mbit] * self.hosts
        for host, rate in enumerate(rates):
            inside = self.namespace(host)
            port = f"host{host}"
            self._add(inside)
            _do("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", inside)
            _do("ip", "-n", switch, "link", "set", port, "master", "bridge")
            for namespace, interface in ((inside, INTERFACE), (switch, port)):
                # One frame is one frame, as on a wire: the kernel would pass 64 KiB with one header between two
                # namespaces, and count it so.
                _do("ip", "-n", namespace, "link", "set", interface, "gso_max_segs", 1)
                if rate is not None:
                    # A burst of not three frames: what is short must not slip through faster than the line.
                    limit = f"rate {rate}mbit burst 4kb latency 50ms".split()
                    _do("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", *limit)
                _do("ip", "-n", namespace, "link", "set", interface, "up")
            _do("ip", "-n", inside, "link", "set", "lo", "up")
            _do("ip", "-n", inside, "address", "add", f"{self.address(host)}/24", "dev", INTERFACE)

    @staticmethod
    def _add(namespace):
        _do("ip", "netns", "add", namespace)
        # IPv6 greets its neighbours, which would be counted.
        setting = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
        _do("ip", "netns", "exec", namespace, "sh", "-c", f"test ! -e {setting} || echo 1 > {setting}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends whatever still runs on the hosts, and removes them."""
        _remove(self._name)

    def namespace(self, host):
        return f"{self._name}-{host + 1}"  # the last part of its address: see the agent below

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def command(self, host, argv):
        return ["ip", "netns", "exec", self.namespace(host), *map(str, argv)]

    def run(self, host, argv, **options):
        return subprocess.run(self.command(host, argv), **options)

    def popen(self, host, argv, **options):
        """The process is the program's own: `ip` becomes it."""
        return subprocess.Popen(self.command(host, argv), **options)

    def counters(self, host, interface=INTERFACE):
        """Bytes so far as the kernel counts them, frame headers included: {"rx": ..., "tx": ...}."""
        link = json.loads(_do("ip", "-n", self.namespace(host), "-j", "-s", "link", "show", interface))[0]
        return {way: link["stats64"][way]["bytes"] for way in ("rx", "tx")}

    def cut(self, host):
        """Pulls the host's plug at the switch: its address and its connections stay, nothing gets through."""
        _do("ip", "-n", self.switch, "link", "set", f"host{host}", "down")

    def join(self, host):
        _do("ip", "-n", self.switch, "link", "set", f"host{host}", "up")

    def mpi_command(self, argv, ranks=None, env=None, mca=None, interface=INTERFACE):
        """mpirun of `argv` over TCP alone, one rank a host, or ranks[h] on host h; started on host 0.

        All else is as Open MPI does it when nobody asks: `mca` ({name: value}) is there to ask. Its host names are
        the addresses, so nothing has to be looked up. It cannot know that all hosts share this machine's cores, and
        is told what it then does by itself: no rank has a core of its own, and one that waits gives way.
        """
        ranks = [1] * self.hosts if ranks is None else ranks
        agent = self.folder / "agent"
        # Called as ssh would be. A host name of its own each, or Open MPI takes the hosts for one.
        agent.write_text(
            f"#!/bin/sh\nhost=$1\nshift\nexec ip netns exec {self._name}-${{host##*.}} unshare --uts "
            'sh -c "hostname $host && exec $*"\n'
        )
        agent.chmod(0o700)
        hostfile = self.folder / "hosts"
        hostfile.write_text("".join(f"{self.address(h)} slots={n}\n" for h, n in enumerate(ranks) if n))
        settings = {
            "plm_rsh_agent": agent,
            "pml": "ob1",
            "btl": "self,tcp",
            "btl_tcp_if_include": interface,
            "oob_tcp_if_include": interface,
            "orte_tmpdir_base": self.folder,
            "mpi_yield_when_idle": 1,
            **(mca or {}),
        }
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--hostfile", hostfile]
        command += ["-np", sum(ranks)]
        for name, value in settings.items():
            command += ["--mca", name, value]
        for name, value in (env or {}).items():
            command += ["-x", f"{name}={value}"]
        start = 'hostname "$0" && exec "$@"'
        return self.command(0, ["unshare", "--uts", "sh", "-c", start, self.address(0), *command, *argv])

    def mpirun(self, argv, ranks=None, env=None, mca=None, interface=INTERFACE, **options):
        options.setdefault("stdin", subprocess.DEVNULL)  # mpirun would read what is not meant for it
        return subprocess.run(self.mpi_command(argv, ranks, env, mca, interface), **options)


def _remove(name):
    """Everything of the lab called `name`, also if it was only half made or is being removed by someone else."""
    namespaces = [path.name for path in _NAMESPACES.glob(f"{name}-*")]
    for namespace in namespaces:
        deadline = time.monotonic() + _HANGING
        while pids := _do("ip", "netns", "pids", namespace, check=False).split():
            if time.monotonic() > deadline:
                raise OSError(f"processes {', '.join(pids)} do not leave the namespace {namespace}")
            for pid in pids:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
    for namespace in namespaces:
        _do("ip", "netns", "del", namespace, check=False)
        if (_NAMESPACES / namespace).exists():
            raise OSError(f"cannot remove the namespace {namespace}; see ip-netns(8)")
    shutil.rmtree(pathlib.Path("/tmp") / name, ignore_errors=True)


def names():
    """The labs of this machine, of whichever process."""
    found = {path.name.rpartition("-")[0] for path in _NAMESPACES.glob(f"{_PREFIX}*-*")}
    return found | {path.name for path in pathlib.Path("/tmp").glob(f"{_PREFIX}*")}


def remove_stale():
    """Removes the labs whose processes are gone."""
    for name in names():
        pid, started, _ = name.removeprefix(_PREFIX).split("-")
        if _started(pid) != int(started):
            _remove(name)
