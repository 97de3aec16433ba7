"""The real MNIST, because here that is the point: what `signvote data fetch mnist` brings is whole and can be learnt.

All other suites use generated_data.py.
"""

import json
import os
import pathlib
import unittest

from command_line import Case, main, summary

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MNIST = CACHE / "signvote/mnist"
TEST_IMAGES = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]  # of each digit


@unittest.skipUnless(MNIST.is_dir(), "the real MNIST is not in the cache; signvote data fetch mnist brings it")
class RealMnist(Case):
    def test_a_short_run_learns_the_digits(self):
        out = self.train("run", data=MNIST, batches="4x64", rounds=30, step=1e-3, eval_every=30)
        result = json.loads(self.succeed("eval", out, "--json").stdout)
        self.assertEqual([sum(row) for row in result["confusion"]], TEST_IMAGES)
        self.assertEqual(result["test_accuracy"], summary(out)["test_accuracy"])
        self.assertGreater(result["test_accuracy"], 0.7)


if __name__ == "__main__":
    main()
