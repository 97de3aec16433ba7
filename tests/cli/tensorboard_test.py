"""--tensorboard: event files with the numbers of metrics.jsonl, each step once, also when a run goes on."""

import shutil
import struct

from command_line import Case, main, metrics, small, write_toml
from event_files import scalars
from server_and_workers import Server, Worker
from generated_data import mnist

TAGS = {
    "test/accuracy": "test_accuracy",
    "test/loss": "test_loss",
    "train/loss": "train_loss",
    "train/step": "step",
    "bits_per_parameter/up": "bits_per_parameter_up",
    "bits_per_parameter/down": "bits_per_parameter_down",
}


def as_float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Tensorboard(Case):
    def assert_as_metrics(self, out):
        rows = metrics(out)
        events = scalars(out / "tensorboard")
        self.assertEqual([step for step, _ in events], [row["round"] for row in rows])
        for row, (_, values) in zip(rows, events):
            for tag, key in TAGS.items():
                self.assertEqual(values[tag], as_float32(row[key]), tag)
            self.assertTrue(all(tag.startswith("weight/worker ") for tag in set(values) - set(TAGS)), values)
        return events

    def test_a_run_that_goes_on_adds_a_file_and_repeats_no_step(self):
        out = self.folder / "run"
        flags = small(method="agree", initial_rounds=2, rounds=4, eval_every=2, save_every=1)
        self.succeed("train", *flags, "--tensorboard", "--out", out)
        first = self.assert_as_metrics(out)
        self.assertEqual(set(first[-1][1]), {*TAGS, "weight/worker 0", "weight/worker 1", "weight/worker 2"})
        files = set((out / "tensorboard").iterdir())
        killed = self.folder / "killed"
        shutil.copytree(out, killed)
        self.succeed("train", "--resume", out, "--rounds", 8, "--tensorboard")
        self.assertEqual(len(set((out / "tensorboard").iterdir()) - files), 1)
        self.assertEqual([step for step, _ in self.assert_as_metrics(out)], [2, 4, 6, 8])
        # A run that was killed goes on from its last save, before the last rows that it had written.
        shutil.rmtree(killed / "tensorboard")
        shutil.copytree(out / "tensorboard", killed / "tensorboard")
        self.succeed("train", "--resume", killed, "--rounds", 10, "--tensorboard")
        self.assertEqual([step for step, _ in self.assert_as_metrics(killed)], [2, 4, 6, 8, 10])

    def test_rows_of_a_time_without_it_are_made_up_for(self):
        out = self.train("run", eval_every=2)
        self.assertFalse((out / "tensorboard").exists())
        self.succeed("train", "--resume", out, "--rounds", 6, "--tensorboard")
        self.assertEqual([step for step, _ in self.assert_as_metrics(out)], [2, 4, 6])

    def test_a_server_writes_them_too(self):
        settings = {"data": mnist(), "batches": "4,4", "rounds": 4, "eval_every": 2, "threads": 1}
        server = Server(self.folder, write_toml(self.folder / "run.toml", settings), None, "--tensorboard")
        self.addCleanup(server.close)
        server.start()
        workers = [Worker(f"worker-{m}", self.folder, server, None, mnist(), "--threads", 1) for m in range(2)]
        for worker in workers:
            self.addCleanup(worker.close)
            worker.start()
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        self.assert_as_metrics(server.state)


if __name__ == "__main__":
    main()
