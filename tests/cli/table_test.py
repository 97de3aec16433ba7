"""signvote reproduce table: a tiny table, its files, and what it says of cells that are missing."""

import csv
import json
import os
import pathlib
import shlex
import shutil
import signal
import tempfile

from command_line import SIGNVOTE, Case, flags, main, metrics, run, start, summary
from generated_data import mnist
from waiting import TIMEOUT

SETTINGS = {"data": mnist(), "partition": "shared", "rounds": 2, "eval_every": 1, "save_every": 1}


def table(out, name="weights", **options):
    chosen = {"rows": "mode 4 momentum,mode 2 gradient", "methods": "mv,oracle", **SETTINGS, **options}
    return ["reproduce", "table", "--name", name, *flags(chosen), "--out", out]


def rows_of(out):
    with open(out / "table.csv", newline="") as file:
        return list(csv.DictReader(file))


class Table(Case):
    @classmethod
    def setUpClass(cls):
        cls.out = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.out)
        cls.result = run(*table(cls.out, seeds=2, seed=5))
        assert cls.result.returncode == 0, cls.result.stderr

    def cell(self, row, method, seed):
        return self.out / f"cells/{row.replace(' ', '')}-{method}-seed{seed}"

    def test_every_cell_is_a_line_with_the_numbers_of_its_run(self):
        rows = rows_of(self.out)
        self.assertEqual(len(rows), 2 * 2 * 2)
        for row in rows:
            result = summary(self.cell(row["row"], row["method"], row["seed"]))
            self.assertEqual(row["model_sha256"], result["model_sha256"])
            self.assertEqual(float(row["test_accuracy"]), result["test_accuracy"])
            self.assertEqual((row["rounds"], row["rounds_done"]), ("2", "2"))
            self.assertEqual(result["sign_of"], "gradient" if "gradient" in row["row"] else "momentum:0.9")
            tests = metrics(self.cell(row["row"], row["method"], row["seed"]))
            self.assertEqual(float(row["lowest_of_last_quarter"]), tests[-1]["test_accuracy"])

    def test_the_markdown_compares_seed_by_seed(self):
        def accuracy(row, method, seed):
            return 100 * summary(self.cell(row, method, seed))["test_accuracy"]

        text = (self.out / "table.md").read_text()
        self.assertIn(text, self.result.stdout)
        row = "mode 4 momentum"
        leads = [accuracy(row, "oracle", seed) - accuracy(row, "mv", seed) for seed in (5, 6)]
        mean = sum(leads) / 2
        # Two values: the interval is Student's t for one degree of freedom times half their distance.
        half = 12.71 * abs(leads[0] - leads[1]) / 2
        self.assertIn(f"| {row} |  | {mean:+.2f} ± {half:.2f} |", text)
        losses = [accuracy("mode 2 gradient", "mv", seed) - accuracy(row, "mv", seed) for seed in (5, 6)]
        title = "## Lead over mode 4 momentum with the same method, seed by seed (points)"
        lines = text[text.index(title) :].splitlines()
        self.assertTrue(lines[4].startswith(f"| mode 2 gradient | {sum(losses) / 2:+.2f} ±"), lines[:5])
        self.assertNotIn("Not finished", text)
        self.assertTrue((self.out / "curves.png").exists())

    def test_the_lowest_lead_is_told_of_tests_from_round_50_on(self):
        out = self.folder / "longer"
        shutil.copytree(self.out, out)
        row = "mode 4 momentum"
        for seed in (5, 6):  # as if these had been the tests of a longer run
            for method, accuracies in {"mv": [0.1, 0.5, 0.75], "oracle": [0, 0.25 + seed / 100, 0.75]}.items():
                cell = out / "cells" / self.cell(row, method, seed).name
                (cell / "config.toml").write_text((cell / "config.toml").read_text().replace(str(self.out), str(out)))
                (line,) = metrics(cell)[:1]
                lines = [
                    json.dumps({**line, "round": round, "test_accuracy": accuracy}) + "\n"
                    for round, accuracy in zip([49, 50, 75], accuracies)
                ]
                (cell / "metrics.jsonl").write_text("".join(lines))
        self.succeed(*table(out, seeds=2, seed=5))
        text = (out / "table.md").read_text()
        title = "## The lowest mean lead over mv in a test from round 50 on"
        lines = text[text.index(title) :].splitlines()
        self.assertEqual(
            lines[1:5],
            ["| | mv | oracle |", "|---|---|---|", f"| {row} |  | -19.50 (round 50) |", "| mode 2 gradient |  | – |"],
        )

    def test_what_is_missing_is_named_and_the_same_command_goes_on(self):
        out = self.folder / "table"
        arguments = table(out, rows="mode 2 gradient", rounds=400)  # far more than there is time for
        process = start(*arguments)
        self.addCleanup(process.kill)
        process.stderr.readline()  # a round is done
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, stderr)
        said = stderr.splitlines()[-1].partition("; go on with: ")[2]
        self.assertEqual(shlex.split(said), [SIGNVOTE, *map(str, arguments)])
        text = (out / "table.md").read_text()
        self.assertRegex(text, r"(?s)Not finished.*- mode 2 gradient, mv, seed 0: \d+ of 400 rounds\n")
        self.assertIn("- mode 2 gradient, oracle, seed 0: 0 of 400 rounds\n", text)
        self.assertEqual(set(os.listdir(out)), {"cells", "table.csv", "table.md"})

    def test_a_finished_table_runs_nothing(self):
        again = self.succeed(*table(self.out, seeds=2, seed=5))
        self.assertNotIn("round", again.stderr)
        self.assertEqual(again.stdout, self.result.stdout)

    def test_nonsense_is_refused(self):
        self.refuse_each(
            2,
            [
                (["reproduce", "table", "--name", "others"], ["--name is 'others'; take modes, weights"]),
                (["reproduce", "table", "--name", "modes", "--rows", "mode 5"], ["'mode 5'", "mode 1, mode 2"]),
                (["reproduce", "table", "--name", "decoding", "--methods", "mv"], ["decoding is not"]),
                (["reproduce", "table", "--name", "decoding", "--seeds", "5"], ["--seeds", "decoding is not"]),
                (["reproduce", "table", "--name", "decoding", "--rounds", "9"], ["--rounds", "decoding is not"]),
                (["reproduce", "table", "--name", "modes", "--loss", "mse"], ["accuracies"]),
                (table(self.out, seeds=2, seed=5, step_schedule="linear"), ["step_schedule = cosine, not linear"]),
            ],
        )


if __name__ == "__main__":
    main()
