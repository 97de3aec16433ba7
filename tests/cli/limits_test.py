"""Limits of the system that are too small: one line before anything begins, or the right result."""

import os
import re
import resource
import shutil
import subprocess

from command_line import ENVIRONMENT, PAPER, SIGNVOTE, Case, contents, main, run, small, summary, write_toml
from generated_data import mnist
from server_and_workers import Server, Worker
from waiting import TIMEOUT

MEGABYTE = 1 << 20
NOBODY_ELSE = 64_999  # a user who has no other processes


def limited(**limits):
    """What a child does before it becomes the program."""

    def apply():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    return apply


class Limits(Case):
    def commands(self):
        """All that compute. None of them may begin."""
        out = self.folder / "out"
        return [
            ["train", *small(), "--out", out],
            ["eval", self.folder / "model.pt", "--data", mnist()],
            ["server", *small(), "--insecure", "--listen", "127.0.0.1:0", "--state", out],
            ["worker", "--insecure", "--name", "worker-0", "--connect", "127.0.0.1:1", "--data", mnist()],
            ["reproduce", "figure1", "--data", mnist(), "--rounds", 1, "--out", out],
        ]

    def refuse_all(self, says, **limits):
        for command in self.commands():
            self.refuse(1, *command, says=says, preexec_fn=limited(**limits))
        self.assertEqual(contents(self.folder), {})

    def test_too_few_open_files_are_named(self):
        self.refuse_all(["open files, but the limit is 12;", "ulimit -n"], NOFILE=12)

    def test_too_little_memory_is_named(self):
        for megabytes in (500, 700, 900):
            self.refuse_all(["the limit is", f"{megabytes} MB", "ulimit -v"], AS=megabytes * MEGABYTE)

    def asked_for(self, *command):
        """How many files and megabytes the program says it needs, each when it has too little of it."""
        said = {}
        for limits, words in (({"NOFILE": 12}, r"needs (\d+) open files"), ({"AS": 500 * MEGABYTE}, r"about (\d+) MB")):
            result = run(*command, preexec_fn=limited(**limits))
            said[next(iter(limits))] = int(re.search(words, result.stderr)[1])
        return said["NOFILE"], said["AS"]

    def test_what_a_training_asks_for_is_enough(self):
        expected = self.sha256("free")
        for threads in (1, 4):
            out = self.folder / str(threads)
            command = ["train", *small(threads=threads), "--out", out]
            files, megabytes = self.asked_for(*command)
            self.succeed(*command, preexec_fn=limited(NOFILE=files, AS=megabytes * MEGABYTE))
            self.assertEqual(summary(out)["model_sha256"], expected)

    def test_what_a_server_and_its_workers_ask_for_is_enough(self):
        settings = {**PAPER, "data": mnist(), "batches": "4,6", "rounds": 4, "threads": 1}
        expected = self.sha256("local", **settings)

        def with_what_it_asks_for(program):
            files, megabytes = self.asked_for(*program.arguments())
            program.prefix = ["prlimit", f"--nofile={files}:{files}", f"--as={megabytes * MEGABYTE}"]
            self.addCleanup(program.close)
            program.start()
            return program

        config = write_toml(self.folder / "run.toml", settings)
        server = with_what_it_asks_for(Server(self.folder, config, None))
        workers = [
            with_what_it_asks_for(Worker(f"worker-{m}", self.folder, server, None, mnist(), "--threads", 1))
            for m in range(2)
        ]
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        self.assertEqual(summary(server.state)["model_sha256"], expected)

    def test_too_few_threads_are_named(self):
        if os.geteuid() != 0:
            self.skipTest("a limit of processes must be that of another user, which needs root")
        self.folder.chmod(0o755)
        (self.folder / "out").mkdir()
        os.chown(self.folder / "out", NOBODY_ELSE, NOBODY_ELSE)
        program = shutil.copy(SIGNVOTE, self.folder / "signvote")  # where anybody can run it
        shutil.copy(SIGNVOTE + "-compute", self.folder)

        def train(threads):
            return subprocess.run(
                [program, "train", *small(threads=threads), "--out", self.folder / f"out/{threads}"],
                text=True,
                capture_output=True,
                timeout=TIMEOUT,
                cwd="/",
                env=ENVIRONMENT,
                user=NOBODY_ELSE,
                group=NOBODY_ELSE,
                extra_groups=[],
                preexec_fn=limited(NPROC=16),
            )

        result = train(1024)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"\Asignvote: [^\n]*of 1024 threads: [^\n]*--threads[^\n]*\n\Z")
        self.assertFalse((self.folder / "out/1024").exists())
        result = train(2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(summary(self.folder / "out/2")["model_sha256"], self.sha256("free", threads=2))


if __name__ == "__main__":
    main()
