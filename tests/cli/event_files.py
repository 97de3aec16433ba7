"""Reads the event files of --tensorboard, with neither TensorFlow nor protobuf: src/report/event_log.h has their bytes."""

import struct


def _crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _masked(data):
    crc = _crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _records(data):
    while data:
        (length, length_crc) = struct.unpack_from("<QI", data)
        assert length_crc == _masked(data[:8])
        event = data[12 : 12 + length]
        assert struct.unpack_from("<I", data, 12 + length) == (_masked(event),)
        yield event
        data = data[16 + length :]


def _varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _fields(data):
    """A protobuf message as {number: [values]}; texts and messages are bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            code, size = {1: ("<d", 8), 5: ("<f", 4)}[key & 7]
            (value,), at = struct.unpack_from(code, data, at), at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def scalars(folder):
    """Of all event files in their order: [(step, {tag: value})]. Each must begin with the version of the format."""
    steps = []
    for file in sorted(folder.iterdir()):
        assert "tfevents" in file.name, file
        head, *events = (_fields(event) for event in _records(file.read_bytes()))
        assert head[3] == [b"brain.Event:2"], head
        for event in events:
            values = (_fields(value) for value in _fields(event[5][0])[1])
            steps.append((event[2][0], {value[1][0].decode(): value.get(2, [0.0])[0] for value in values}))
    return steps
