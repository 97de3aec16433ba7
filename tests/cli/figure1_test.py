"""signvote reproduce figure1: a tiny grid, its files, and that no cell is ever run twice."""

import csv
import os
import pathlib
import re
import shlex
import shutil
import signal
import statistics
import tempfile
import xml.etree.ElementTree

from command_line import SIGNVOTE, Case, contents, flags, main, metrics, run, start, summary
from generated_data import mnist
from waiting import TIMEOUT

SETTINGS = {
    "data": mnist(),
    "partition": "shared",
    "rounds": 3,
    "step_schedule": "constant",
    "initial_rounds": 2,
    "eval_every": 1,
    "save_every": 1,
    "step": 1e-3,
}
MODES = (1, 4)
METHODS = ("mv", "it")


def figure1(out, **options):
    return ["reproduce", "figure1", *flags({**SETTINGS, "batch_modes": "1,4", **options}), "--out", out]


def cell(figure, mode, method, seed):
    return figure / f"cells/mode{mode}-{method}-seed{seed}"


def rows_of(figure):
    """figure1.csv as {(mode, method, round): (seeds, mean, lowest, highest)}."""
    with open(figure / "figure1.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    table = {
        (int(row["batch_mode"]), row["method"], int(row["round"])): (
            int(row["seeds"]),
            *(float(row[f"accuracy_{key}"]) for key in ("mean", "min", "max")),
        )
        for row in rows
    }
    assert len(table) == len(rows)
    return table


def rows_from_cells(figure, modes, seeds):
    """The same, worked out from the cells' metrics."""
    table = {}
    for mode in modes:
        for method in METHODS:
            for rows in zip(*(metrics(cell(figure, mode, method, seed)) for seed in range(seeds))):
                accuracies = [row["test_accuracy"] for row in rows]
                table[mode, method, rows[0]["round"]] = (
                    seeds,
                    statistics.fmean(accuracies),
                    min(accuracies),
                    max(accuracies),
                )
    return table


def stamps(folder):
    """What changes when a file is written again, even with the same content."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


class Figure1(Case):
    @classmethod
    def setUpClass(cls):
        """One seed, then a second one in the same folder."""
        cls.figure = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.figure)
        cls.first = run(*figure1(cls.figure))
        assert cls.first.returncode == 0, cls.first.stderr
        cls.first_rows = rows_of(cls.figure)
        cls.first_stamps = stamps(cls.figure / "cells")
        cls.second = run(*figure1(cls.figure, seeds=2))
        assert cls.second.returncode == 0, cls.second.stderr

    def assert_rows(self, rows, expected):
        self.assertEqual(list(rows), list(expected))
        for key, row in rows.items():
            self.assertEqual((row[0], *row[2:]), (expected[key][0], *expected[key][2:]), key)
            self.assertAlmostEqual(row[1], expected[key][1], 12, key)

    def test_the_numbers_are_those_of_the_cells(self):
        self.assertEqual(len(self.first_rows), 2 * 2 * 3)
        self.assert_rows(self.first_rows, rows_from_cells(self.figure, MODES, 1))
        self.assert_rows(rows_of(self.figure), rows_from_cells(self.figure, MODES, 2))

        result = summary(self.figure)
        self.assertEqual(
            {key: result[key] for key in ("dataset", "model", "partition", "rounds", "step", "seeds")},
            {"dataset": "mnist", "model": "cnn", "partition": "shared", "rounds": 3, "step": 1e-3, "seeds": 2},
        )
        self.assertEqual([row["batch_mode"] for row in result["modes"]], list(MODES))
        for row in result["modes"]:
            for method in METHODS:
                accuracies = [
                    summary(cell(self.figure, row["batch_mode"], method, seed))["test_accuracy"] for seed in range(2)
                ]
                self.assertEqual(row[method]["accuracies"], accuracies)
                self.assertAlmostEqual(row[method]["mean"], statistics.fmean(accuracies), 12)
            for lead in (row["lead"], row["it"]["lead"]):
                self.assertAlmostEqual(lead, row["it"]["mean"] - row["mv"]["mean"], 12)

    def test_the_pictures_are_drawn_and_labelled(self):
        self.assertEqual(
            set(os.listdir(self.figure)), {"figure1.png", "figure1.svg", "figure1.csv", "summary.json", "cells"}
        )
        picture = (self.figure / "figure1.png").read_bytes()
        self.assertTrue(picture.startswith(b"\x89PNG\r\n\x1a\n") and picture.endswith(b"IEND\xae\x42\x60\x82"))
        texts = "".join(xml.etree.ElementTree.parse(self.figure / "figure1.svg").getroot().itertext())
        for label in ("IT-signSGD", "signSGD-MV", "Batch mode 1: 15 x 64", "Batch mode 4: 14 x 4, 904"):
            self.assertIn(label, texts)

    def test_the_output_counts_rounds_and_ends_with_a_table(self):
        self.assertNotRegex(self.second.stderr, r"[\r\x1b]")
        lines = [line for line in self.second.stderr.splitlines() if "round" in line]
        # Seed 0 was there already; the initial phase of 2 rounds is run once for both methods.
        shown = [re.match(r"(\d)/8 (mode \d \w+ seed 1)  round (\d)/3 ", line).groups() for line in lines]
        self.assertEqual(
            [(int(cell), name, int(done)) for cell, name, done in shown],
            [
                (cell, f"mode {mode} {method} seed 1", done)
                for cell, mode, method, first in ((5, 1, "it", 1), (6, 1, "mv", 3), (7, 4, "it", 1), (8, 4, "mv", 3))
                for done in range(first, 4)
            ],
        )
        self.assertIn("figure1.png", self.second.stdout)
        self.assertRegex(self.second.stdout, r"\n4 +14x4,904 +\d+\.\d\d % +\d+\.\d\d % +[+-]\d+\.\d\d points\n")

    def test_own_batches_and_methods(self):
        out = self.folder / "own"
        options = {**SETTINGS, "rounds": 2, "initial_rounds": 1, "batches": "2x4,20", "methods": "it,oracle,sgd,signvote"}
        self.succeed("reproduce", "figure1", *flags(options), "--seed", 7, "--out", out)
        result = summary(out)
        self.assertEqual(result["methods"], ["it", "oracle", "sgd", "signvote"])
        (row,) = result["modes"]
        self.assertEqual(row["batches"], "2x4,20")
        self.assertNotIn("batch_mode", row)
        self.assertEqual(set(row) - {"batches"}, {"it", "oracle", "sgd", "signvote"})
        self.assertNotIn("lead", row["it"])
        self.assertAlmostEqual(row["oracle"]["lead"], row["oracle"]["mean"] - row["it"]["mean"], 12)
        own = summary(out / "cells/2x4-20-signvote-seed7")
        self.assertEqual(
            (own["method"], own["sign_of"], own["step_schedule"], own["step"]),
            ("agree", "momentum:0.9", "cosine", 4e-4),
        )
        self.assertEqual(summary(out / "cells/2x4-20-oracle-seed7")["sign_of"], "gradient")
        steps = [summary(out / f"cells/2x4-20-{method}-seed7")["step"] for method in ("oracle", "sgd")]
        self.assertEqual(steps, [1e-3, 0.5], "a step for signs is none for gradients")
        with open(out / "figure1.csv", newline="") as file:
            self.assertEqual({line["batch_mode"] for line in csv.DictReader(file)}, {"2x4,20"})
        self.refuse_each(
            2,
            [
                (
                    ["reproduce", "figure1", "--methods", "it,sign"],
                    ["--methods names 'sign'", "take agree", ", signvote"],
                ),
                (["reproduce", "figure1", "--methods", "it,mv,it"], ["names it twice"]),
                (["reproduce", "figure1", "--batches", "four"], ["--batches is 'four'"]),
            ],
        )

    def test_finished_cells_are_kept(self):
        after = stamps(self.figure / "cells")
        self.assertEqual({path: after[path] for path in self.first_stamps}, self.first_stamps)
        numbers = (self.figure / "figure1.csv").read_bytes()
        self.succeed(*figure1(self.figure, seeds=2))
        self.assertEqual(stamps(self.figure / "cells"), after)
        self.assertEqual((self.figure / "figure1.csv").read_bytes(), numbers)

    def test_a_forked_cell_is_a_run_like_any_other(self):
        alone = self.train("alone", **SETTINGS, batches=None, batch_mode=4, method="mv", seed=1)
        forked = cell(self.figure, 4, "mv", 1)
        for key in ("model_sha256", "test_accuracy", "bits_per_parameter_up", "bits_per_parameter_down"):
            self.assertEqual(summary(forked)[key], summary(alone)[key])
        self.assertNotEqual(summary(forked)["model_sha256"], summary(cell(self.figure, 4, "it", 1))["model_sha256"])

    def interrupt(self, out):
        """A figure of mode 4 that is interrupted three times after a round. Returns how often that was in time."""
        arguments = figure1(out, batch_modes=4)
        in_time = []
        for kind in (signal.SIGINT, signal.SIGKILL, signal.SIGKILL):
            process = start(*arguments)
            self.addCleanup(process.kill)
            process.stderr.readline()  # a round is done
            process.send_signal(kind)
            _, stderr = process.communicate(timeout=TIMEOUT)
            if process.returncode == 0:
                continue
            in_time.append(kind)
            if kind == signal.SIGINT:
                self.assertEqual(process.returncode, 130, stderr)
                said = stderr.splitlines()[-1].partition("; go on with: ")[2]
                self.assertEqual(shlex.split(said), [SIGNVOTE, *map(str, arguments)])
                self.assertFalse((out / "summary.json").exists())
            else:
                self.assertEqual(process.returncode, -signal.SIGKILL, stderr)
        self.succeed(*arguments)
        return in_time

    def test_an_interrupted_figure_is_continued(self):
        for attempt in range(10):  # a busy machine may let it finish first
            out = self.folder / f"figure-{attempt}"
            in_time = self.interrupt(out)
            expected = {key: row for key, row in self.first_rows.items() if key[0] == 4}
            self.assertEqual(rows_of(out), expected)
            for method in METHODS:
                self.assertEqual(
                    summary(cell(out, 4, method, 0))["model_sha256"],
                    summary(cell(self.figure, 4, method, 0))["model_sha256"],
                )
            if {signal.SIGINT, signal.SIGKILL} <= set(in_time):
                return
        self.fail("it always finished first")

    def test_more_rounds_are_refused_if_a_step_would_change(self):
        options = {"batch_modes": "1", "initial_rounds": 1, "step_schedule": "linear"}
        out = self.folder / "linear"
        self.succeed(*figure1(out, rounds=2, **options))
        before = contents(out)
        self.refuse(2, *figure1(out, rounds=3, **options), says=["linear", "begin anew with --rounds 3"])
        self.assertEqual(contents(out), before)

    def test_other_settings_need_another_folder(self):
        before = contents(self.figure)
        self.refuse_each(
            2,
            [
                (figure1(self.figure, step=2e-3), ["step = 0.001, not 0.002", "choose another --out"]),
                (figure1(self.figure, eval_every=2), ["eval_every = 1, not 2", "choose another --out"]),
                (
                    figure1(self.figure, step_schedule="linear"),
                    ["step_schedule = constant, not linear", "choose another --out"],
                ),
                (figure1(self.figure, rounds=2), ["3 rounds already", "choose another folder"]),
            ],
        )
        self.assertEqual(contents(self.figure), before)


if __name__ == "__main__":
    main()
