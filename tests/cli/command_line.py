"""The program as a user runs it from a command line, what its run folders hold, and how a test of it begins.

The program is $SIGNVOTE, else the one in build/. It sees a home folder of its own, so that no test touches the
user's cache.
"""

import concurrent.futures
import faulthandler
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

from generated_data import mnist
from scratch import SCRATCH
from waiting import TIMEOUT

SIGNVOTE = os.environ.get("SIGNVOTE", str(pathlib.Path(__file__).parents[2] / "build/signvote"))
FILES = {"config.toml", "metrics.jsonl", "checkpoint.bin", "best.pt", "model.pt", "summary.json"}
# The only values that may differ from one run to its repetition.
TIMING = {"seconds", "samples_per_second", "outside_gradients_share"}

ENVIRONMENT = {**os.environ, "HOME": str(SCRATCH / "home"), "XDG_CACHE_HOME": str(SCRATCH / "home/cache")}


def flags(options):
    """{"initial_rounds": 5} as ["--initial-rounds", "5"]."""
    return [text for name, value in options.items() for text in ("--" + name.replace("_", "-"), str(value))]


def run(*arguments, timeout=TIMEOUT, **options):
    return subprocess.run(
        [SIGNVOTE, *map(str, arguments)],
        text=True,
        capture_output=True,
        timeout=timeout,
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


# The paper's method and a constant step, so that a run can be made longer. What the defaults do is a test of its own.
PAPER = {"method": "it", "sign_of": "gradient", "step": 1e-3, "step_schedule": "constant"}


def small(**options):
    """Flags of a run of three workers that takes a second; `options` override its own."""
    options = {"data": mnist(), "batches": "3x4", "rounds": 4, **PAPER, **options}
    return flags({name: value for name, value in options.items() if value is not None})


def write_toml(file, options):
    lines = (
        f"{name} = {value}" if isinstance(value, (int, float)) else f'{name} = "{value}"'
        for name, value in options.items()
    )
    file.write_text("\n".join(lines) + "\n")
    return file


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


def contents(folder):
    """Every file below a folder with what it holds."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH))
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


SKIPPED = 77  # the exit code by which ctest knows that nothing was tested


def main():
    """Runs the tests of the suite that calls it, and lists those that were skipped, as tests/skipped.py expects. If it
    takes so long that ctest will soon end it, its stack tells what it waits for."""
    faulthandler.dump_traceback_later(4 * TIMEOUT - 60, repeat=True, file=sys.__stderr__)
    result = unittest.main(exit=False).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id().removeprefix('__main__.')}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and len(result.skipped) >= result.testsRun else 0)
