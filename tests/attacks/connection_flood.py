#!/usr/bin/python3
"""Connections that say nothing, as many as this process may have: each costs the server an open file."""

import json
import resource
import socket
import time

from stranger import command_line

if __name__ == "__main__":
    parser = command_line(__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many at a time")
    flags = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    end = time.monotonic() + flags.seconds
    opened, crowd = 0, []
    while time.monotonic() < end or not opened:
        if len(crowd) == flags.count:
            crowd.pop(0).close()
            time.sleep(0.01)
        try:
            crowd.append(socket.create_connection(flags.address, 1))
            opened += 1
        except OSError:  # it does not listen, or nobody takes the connection: for now
            time.sleep(0.1)
    print(json.dumps({"connections": opened}))
