"""What the attacks share: their command line, TLS with a certificate, and HTTP/2 by hand, frame by frame, because a
library would refuse to send what they send. They go to this machine only, and end after --seconds, once
they have made a connection.

    tests/attacks/rapid_reset.py 127.0.0.1:7000 --cert mallory.pem --key mallory.key --ca ca.pem --seconds 10

Each prints what came of it as one JSON object: how many `connections` it made; those with a certificate also in how
many of them the server `spoke` HTTP/2, and how many bytes they could send.
"""

import argparse
import ipaddress
import json
import socket
import ssl
import struct
import time

PAUSE = 0.05  # seconds between two connections: this is not about a flood of handshakes
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4
CANCEL = 8


def frame(kind, flags, stream, content=b""):
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _length(number):
    """With a prefix of 7 bits, as HPACK (RFC 7541) writes it."""
    if number < 127:
        return bytes([number])
    out, number = bytearray([127]), number - 127
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes([*out, number])


def header(name, value, size=None):
    """A literal, without indexing; `size`: how long it says that the value is."""
    return b"\0" + _length(len(name)) + name + _length(len(value) if size is None else size) + value


REQUEST = b"".join(
    header(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":path", b"/signvote.v1.Vote/Session"),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)


class Connection:
    """TLS, then HTTP/2. OSError is raised where the server has hung up, or does not take any more."""

    def __init__(self, address, context):
        self.sent = 0
        self.spoke = False
        self.window = {0: 65535}  # how many bytes of DATA the server takes, by stream; 0: in all
        self._first_window = 65535
        self._unread = b""
        self._socket = context.wrap_socket(socket.create_connection(address, 10), server_hostname="localhost")
        self._socket.settimeout(10)

    def close(self):
        self._socket.close()

    def send(self, *frames):
        data = b"".join(frames)
        self._socket.sendall(data)
        self.sent += len(data)

    def begin(self):
        self.send(PREFACE, frame(SETTINGS, 0, 0))

    def open(self, stream):
        self.window[stream] = self._first_window
        self.send(frame(HEADERS, END_HEADERS, stream, REQUEST))

    def read(self, seconds):
        """Takes in what the server has sent, and waits that long if it is nothing."""
        self._socket.settimeout(seconds or 1e-3)
        try:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the server has hung up")
        except TimeoutError:
            data = b""
        finally:
            self._socket.settimeout(10)
        self._unread += data
        while len(self._unread) >= 9:
            size = int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < 9 + size:
                break
            kind, flags, stream = struct.unpack_from(">BBI", self._unread, 3)
            self._take(kind, flags, stream, self._unread[9 : 9 + size])
            self._unread = self._unread[9 + size :]

    def _take(self, kind, flags, stream, content):
        self.spoke = True
        if kind == WINDOW_UPDATE:
            self.window[stream] = self.window.get(stream, self._first_window) + int.from_bytes(content, "big")
        elif kind == SETTINGS and not flags & ACK:
            for at in range(0, len(content), 6):
                name, value = struct.unpack_from(">HI", content, at)
                if name == 4:  # the first window of a stream
                    for open_stream in self.window.keys() - {0}:
                        self.window[open_stream] += value - self._first_window
                    self._first_window = value
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, content))


def _on_this_machine(text):
    host, _, port = text.rpartition(":")
    if not ipaddress.ip_address(host).is_loopback:
        raise argparse.ArgumentTypeError("only a server on this machine is attacked, e.g. 127.0.0.1:7000")
    return host, int(port)


def command_line(about):
    """What all attacks take."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("address", metavar="HOST:PORT", type=_on_this_machine)
    parser.add_argument("--seconds", type=float, default=10)
    return parser


def main(attack, about):
    """Runs `attack(connection, over)` on one connection after the other until the time is up: then over() is true."""
    parser = command_line(about)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--ca", required=True)
    flags = parser.parse_args()
    context = ssl.create_default_context(cafile=flags.ca)
    context.check_hostname = False
    context.load_cert_chain(flags.cert, flags.key)
    context.set_alpn_protocols(["h2"])
    result = {"connections": 0, "spoke": 0, "bytes": 0}
    end = time.monotonic() + flags.seconds

    def over():
        return time.monotonic() > end

    while not (over() and result["connections"]):
        connection = None
        try:
            connection = Connection(flags.address, context)
            result["connections"] += 1
            connection.begin()
            attack(connection, over)
        except OSError:  # refused, or cut off: ssl's errors are of this kind too
            time.sleep(PAUSE)
        finally:
            if connection:
                result["spoke"] += connection.spoke
                result["bytes"] += connection.sent
                connection.close()
    print(json.dumps(result))
