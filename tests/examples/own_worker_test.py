"""examples/own_worker.cpp as its users run it: three of them, of unequal strength, and a server, over TLS.

own_worker_test.py SMALL_SERVER OWN_WORKER
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

SERVER, WORKER = sys.argv.pop(1), sys.argv.pop(1)
TIMEOUT = 300  # seconds; only a program that hangs takes so long


class OwnWorker(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, *command):
        process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def output(self, process):
        said, _ = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0, said)
        return said

    def test_three_workers_train_one_model(self):
        server = self.start(SERVER, self.folder, 200)
        deadline = time.monotonic() + TIMEOUT
        while not (self.folder / "server.json").exists():
            self.assertIsNone(server.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        port = json.loads((self.folder / "server.json").read_text())["port"]
        certs = self.folder / "certs"
        workers = [
            self.start(
                WORKER,
                f"127.0.0.1:{port}",
                certs / f"worker-{m}.pem",
                certs / f"worker-{m}.key",
                certs / "ca.pem",
                samples,
            )
            for m, samples in enumerate((2, 2, 60))
        ]
        said = [self.output(process) for process in (*workers, server)]
        accuracies = {re.search(r"accuracy after 200 rounds: ([0-9.]+) %", text)[1] for text in said}
        self.assertEqual(len(accuracies), 1, said)
        self.assertGreater(float(accuracies.pop()), 60)

    def test_what_makes_no_sense_is_said(self):
        for arguments in ([], ["127.0.0.1:1", "/nowhere", "/nowhere", "/nowhere", "4"]):
            result = subprocess.run([WORKER, *arguments], capture_output=True, text=True, timeout=TIMEOUT)
            self.assertIn(result.returncode, (1, 2))
            self.assertRegex(result.stderr, r"\A[^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()
