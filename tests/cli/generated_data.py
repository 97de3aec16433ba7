"""Small data sets in the formats of the real ones, the same in every run and on every machine."""

import functools
import random
import struct

from scratch import SCRATCH


def _idx(kind, shape, content):
    return struct.pack(f">I{len(shape)}I", kind << 8 | len(shape), *shape) + content


def _separable_images(count):
    """Noise with a bright square whose place tells the label, in a black frame as MNIST's digits have one: pixels
    that are always zero make gradients that are zero, and so abstentions."""
    rng = random.Random(count)
    labels = bytes(i % 10 for i in range(count))
    images = bytearray()
    for label in labels:
        image = bytearray(28 * 28)
        for y in range(4, 24):
            image[28 * y + 4 : 28 * y + 24] = bytes(byte >> 2 for byte in rng.randbytes(20))
        for y in range(8):
            at = 28 * (4 + y + 6 * (label // 4)) + 4 + 4 * (label % 4)
            image[at : at + 8] = b"\xff" * 8
        images += image
    return bytes(images), labels


@functools.cache
def mnist():
    """A folder of MNIST's format: 1500 images to train and 300 to test."""
    folder = SCRATCH / "mnist"
    folder.mkdir()
    for part, count in (("train", 1500), ("t10k", 300)):
        images, labels = _separable_images(count)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(_idx(8, (count, 28, 28), images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(_idx(8, (count,), labels))
    return folder


@functools.cache
def cifar10():
    """A folder of CIFAR-10's format: 5 x 8 images to train and 20 to test, all noise."""
    folder = SCRATCH / "cifar10"
    folder.mkdir()
    rng = random.Random(10)
    for name, count in [(f"data_batch_{i}.bin", 8) for i in range(1, 6)] + [("test_batch.bin", 20)]:
        (folder / name).write_bytes(b"".join(bytes([i % 10]) + rng.randbytes(3072) for i in range(count)))
    return folder
