"""signvote and signvote-compute: the first answers at once, because it loads little, and hands over what computes."""

import os
import pathlib
import shutil
import subprocess

from command_line import ENVIRONMENT, SIGNVOTE, Case, contents, flags, main, small, start
from generated_data import mnist
from waiting import TIMEOUT

COMPUTE = pathlib.Path(SIGNVOTE).with_name("signvote-compute")


def start_and_finish(command, **options):
    return subprocess.run(
        list(map(str, command)), text=True, capture_output=True, timeout=TIMEOUT, env=ENVIRONMENT, **options
    )


class Front(Case):
    def test_loads_neither_torch_nor_grpc_nor_mpi(self):
        libraries = start_and_finish(["ldd", SIGNVOTE]).stdout
        self.assertIn("libcrypto", libraries)
        for name in ("torch", "grpc", "protobuf", "mpi", "blas"):
            self.assertNotIn(name, libraries)

    def test_errors_need_no_other_program(self):
        alone = shutil.copy(SIGNVOTE, self.folder / "signvote")
        for arguments, says in (
            (["train", "--rounds", 0], "--rounds is '0'"),
            (["train", "--resume", self.folder], "holds no run"),
            (["reproduce", "figure1", "--partition", "x"], "--partition is 'x'"),
            (["eval", self.folder], "holds no run"),
            (["server", "--listen", "x", "--state", self.folder / "state", "--insecure"], "--listen is 'x'"),
            (["worker", "--connect", "127.0.0.1:7000", "--insecure"], "--insecure needs a --name"),
            (["journal", self.folder, "model", "--out", "x.pt"], "holds no run"),
        ):
            result = start_and_finish([alone, *arguments], stdin=subprocess.DEVNULL)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(says, result.stderr)
        self.assertEqual(list(contents(self.folder)), ["signvote"])

    def test_says_so_if_the_other_program_is_missing(self):
        alone = shutil.copy(SIGNVOTE, self.folder / "signvote")
        result = start_and_finish([alone, "train", *small(), "--out", self.folder / "run"], stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(
            result.stderr,
            f"signvote: cannot start '{self.folder}/signvote-compute': No such file or directory; install it beside signvote\n",
        )


class Compute(Case):
    def test_does_all_commands_by_itself(self):
        for arguments in (["--version"], ["certs", "new-ca", self.folder / "certs"]):
            result = start_and_finish([COMPUTE, *arguments], stdin=subprocess.DEVNULL)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        out = self.folder / "run"
        result = start_and_finish(
            [COMPUTE, "train", *flags({"data": mnist(), "batches": "2x4", "rounds": 1}), "--out", out],
            stdin=subprocess.DEVNULL,
        )
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_takes_the_place_of_the_process(self):
        """Its words are still those it was started with."""
        process = start("worker", "--connect", "127.0.0.1:1", "--insecure", "--name", "worker-0")  # waits for a server
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        while os.readlink(f"/proc/{process.pid}/exe") != str(COMPUTE.resolve()):
            self.assertIsNone(process.poll())
        words = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
        self.assertEqual(words[:4], [SIGNVOTE, "worker", "--connect", "127.0.0.1:1"])


if __name__ == "__main__":
    main()
