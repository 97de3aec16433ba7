"""What TensorBoard reads of a run that went on once. Run by scripts/test_tensorboard, with its Python."""

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.version import VERSION

from command_line import Case, main, metrics, small


class TensorboardItself(Case):
    def test_it_shows_the_rows_of_metrics_jsonl(self):
        print(f"TensorBoard {VERSION}")
        out = self.folder / "run"
        flags = small(method="agree", initial_rounds=2, eval_every=2, save_every=1)
        self.succeed("train", *flags, "--tensorboard", "--out", out)
        self.succeed("train", "--resume", out, "--rounds", 8, "--tensorboard")
        shown = event_accumulator.EventAccumulator(str(out / "tensorboard"))
        shown.Reload()
        for tag, key in (
            ("test/accuracy", "test_accuracy"),
            ("test/loss", "test_loss"),
            ("train/loss", "train_loss"),
            ("train/step", "step"),
            ("bits_per_parameter/up", "bits_per_parameter_up"),
        ):
            values = [(event.step, event.value) for event in shown.Scalars(tag)]
            self.assertEqual([step for step, _ in values], [2, 4, 6, 8], tag)
            for (_, value), row in zip(values, metrics(out)):
                self.assertAlmostEqual(value, row[key], places=6, msg=tag)
        times = [event.wall_time for event in shown.Scalars("test/loss")]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(shown.Scalars("weight/worker 0")), 4)


if __name__ == "__main__":
    main()
