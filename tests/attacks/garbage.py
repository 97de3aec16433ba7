#!/usr/bin/python3
"""Bytes that are not TLS, or end in the middle of it: noise, plain HTTP, a record that promises more than comes."""

import contextlib
import json
import random
import socket
import time

from stranger import PAUSE, PREFACE, command_line

if __name__ == "__main__":
    flags = command_line(__doc__).parse_args()
    rng = random.Random(0)
    end = time.monotonic() + flags.seconds
    connections = 0
    while time.monotonic() < end or not connections:
        noise = rng.randbytes(rng.randint(1, 1 << 16))
        hello = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"  # a record of TLS, how long it is, and how it begins
        said = rng.choice((noise, b"GET / HTTP/1.1\r\n\r\n", PREFACE, hello, hello + noise))
        with contextlib.suppress(OSError), socket.create_connection(flags.address, 1) as connection:
            connections += 1
            connection.settimeout(0.2)
            connection.sendall(said)
            connection.recv(1)  # until it hangs up: the rest of a record it waits for
        time.sleep(PAUSE)
    print(json.dumps({"connections": connections}))
