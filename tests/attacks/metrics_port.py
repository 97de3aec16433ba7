#!/usr/bin/python3
"""Against /metrics: a crowd of connections that say nothing, and beside them large bodies that nobody wants."""

import contextlib
import json
import socket
import time

from stranger import PAUSE, command_line

PIECE = bytes(1 << 16)

if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--count", type=int, default=40, help="how many say nothing at a time")
    parser.add_argument("--megabytes", type=int, default=600, help="of each body")
    flags = parser.parse_args()
    size = flags.megabytes << 20
    request = f"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
    end = time.monotonic() + flags.seconds
    connections, crowd = 0, []
    while time.monotonic() < end or not connections:
        with contextlib.suppress(OSError):  # nobody takes it, or any more of it
            if len(crowd) == flags.count:
                crowd.pop(0).close()
            crowd.append(socket.create_connection(flags.address, 1))
            connections += 1
            with socket.create_connection(flags.address, 1) as connection:
                connections += 1
                connection.sendall(request)
                for _ in range(size // len(PIECE)):
                    if time.monotonic() < end:
                        connection.sendall(PIECE)
                connection.recv(1)
        time.sleep(PAUSE)
    print(json.dumps({"connections": connections}))
