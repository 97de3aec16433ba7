"""What the end-to-end tests share: running the program as a user does, on small data of the real formats.

The program is $SIGNVOTE, else the one in build/. It sees a home folder of its own, so that no test touches the
user's cache.
"""

import atexit
import concurrent.futures
import functools
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import tomllib
import unittest

SIGNVOTE = os.environ.get("SIGNVOTE", str(pathlib.Path(__file__).parents[2] / "build/signvote"))
TIMEOUT = 300  # seconds; only a program that hangs takes so long, sanitizers or not

FILES = {"config.toml", "metrics.jsonl", "checkpoint.bin", "model.pt", "summary.json"}
# The only values that may differ from one run to its repetition.
TIMING = {"seconds", "samples_per_second", "outside_gradients_share"}

_scratch = pathlib.Path(tempfile.mkdtemp(prefix="signvote-cli-"))
atexit.register(shutil.rmtree, _scratch, ignore_errors=True)
_scratch.chmod(0o755)

ENVIRONMENT = {**os.environ, "HOME": str(_scratch / "home"), "XDG_CACHE_HOME": str(_scratch / "home/cache")}


def _idx(kind, shape, content):
    return struct.pack(f">I{len(shape)}I", kind << 8 | len(shape), *shape) + content


def _separable_images(count):
    """Noise with a bright square whose place tells the label."""
    rng = random.Random(count)
    labels = bytes(i % 10 for i in range(count))
    images = bytearray()
    for label in labels:
        image = bytearray(byte >> 2 for byte in rng.randbytes(28 * 28))
        for y in range(8):
            at = (y + 5 * (label // 4)) * 28 + 6 * (label % 4)
            image[at : at + 8] = b"\xff" * 8
        images += image
    return bytes(images), labels


def mnist():
    """A folder of MNIST's format: the first images of the real one if it is in the user's cache."""
    folder = _scratch / "mnist"
    if folder.exists():
        return folder
    folder.mkdir()
    cache = (
        pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "signvote/mnist"
    )
    for part, count in (("train", 1500), ("t10k", 300)):
        try:
            with open(cache / f"{part}-images-idx3-ubyte", "rb") as file:
                images = file.read(16 + count * 784)[16:]
            with open(cache / f"{part}-labels-idx1-ubyte", "rb") as file:
                labels = file.read(8 + count)[8:]
        except FileNotFoundError:
            images, labels = _separable_images(count)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(_idx(8, (count, 28, 28), images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(_idx(8, (count,), labels))
    return folder


def cifar10():
    """A folder of CIFAR-10's format: 5 x 8 images to train and 20 to test, all noise."""
    folder = _scratch / "cifar10"
    if folder.exists():
        return folder
    folder.mkdir()
    rng = random.Random(10)
    for name, count in [(f"data_batch_{i}.bin", 8) for i in range(1, 6)] + [("test_batch.bin", 20)]:
        (folder / name).write_bytes(b"".join(bytes([i % 10]) + rng.randbytes(3072) for i in range(count)))
    return folder


def flags(options):
    """{"initial_rounds": 5} as ["--initial-rounds", "5"]."""
    return [text for name, value in options.items() for text in ("--" + name.replace("_", "-"), str(value))]


def run(*arguments, **options):
    return subprocess.run(
        [SIGNVOTE, *map(str, arguments)],
        text=True,
        capture_output=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
        **options,
    )


def start(*arguments):
    """The program in the background; its stderr is a pipe of lines."""
    return subprocess.Popen(
        [SIGNVOTE, *map(str, arguments)],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )


def small(**options):
    """Flags of a run of three workers that takes a second; `options` go before its own."""
    options = {"data": mnist(), "batches": "3x4", "rounds": 4, **options}
    return flags({name: value for name, value in options.items() if value is not None})


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def config(folder):
    return tomllib.loads((folder / "config.toml").read_text())


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def without_timing(value):
    if isinstance(value, list):
        return [without_timing(row) for row in value]
    return {key: entry for key, entry in value.items() if key not in TIMING}


class Over(Exception):
    """The program had finished before the test could do to it what it wanted to."""


def with_enough_rounds(rounds):
    """A test of something that happens to a program while it runs: test(self, rounds), with twice the rounds each
    time that those were Over too soon. A busy machine may let it be so once in a while."""

    def decorate(test):
        @functools.wraps(test)
        def attempts(self):
            for factor in (1, 2, 4, 8):
                try:
                    return test(self, factor * rounds)
                except Over as over:
                    why = over
                    self.doCleanups()
                    self.setUp()
            raise AssertionError(f"even with {factor * rounds} rounds: {why}") from why

        return attempts

    return decorate


def contents(folder):
    """Every file below a folder with what it holds."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=_scratch))
        self.addCleanup(shutil.rmtree, self.folder)

    def succeed(self, *arguments, **options):
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def train(self, name, **options):
        """Trains in the folder `name` and returns its path."""
        out = self.folder / name
        self.succeed("train", *small(**options), "--out", out)
        return out

    def sha256(self, name, **options):
        return summary(self.train(name, **options))["model_sha256"]

    def refuse(self, code, *arguments, says=(), **options):
        """Exit code `code`, one line on stderr with all the words in `says`, nothing on stdout."""
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, code, f"{arguments}: {result.stderr}")
        self.assertEqual(result.stdout, "", arguments)
        self.assertRegex(result.stderr, r"\Asignvote: [^\n]+\n\Z", arguments)
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(str(words), result.stderr, arguments)

    def refuse_each(self, code, cases, **options):
        """The same for many (arguments, says), several at a time: most of it is starting the program."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda case: self.refuse(code, *case[0], says=case[1], **options), cases))


main = unittest.main
