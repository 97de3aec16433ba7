"""The commands of the README, as they are typed after `make demo`, on little data and for few rounds."""

import pathlib
import re

from command_line import ENVIRONMENT, SIGNVOTE, Case, main, summary
from generated_data import mnist
from processes import run_session
from server_and_workers import free_port
from waiting import TIMEOUT

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# What is typed, and what takes its place. With 1500 images all workers draw from the same ones.
LESS = {
    "--batch-mode 4 --rounds 1000": "--batches 2x4,60 --rounds 2",
    "--batches 32,512 --rounds 300": "--batches 3,5 --rounds 2",
    "reproduce figure1 --dataset mnist": "reproduce figure1 --dataset mnist --batch-modes 1 --rounds 1",
    "localhost:7000": f"localhost:{free_port()}",
    "~/signvote-certs": "./certs",
    "examples/ddp_mnist.py": "examples/ddp_mnist.py --generated --steps 4 --methods it",
}


class Readme(Case):
    def test_its_commands_can_be_pasted(self):
        text = (SOURCE / "README.md").read_text()
        blocks = re.findall(r"(?<!-->\n)```sh\n(.*?)```", text, re.S)  # a comment says what else runs a block
        build = pathlib.Path(SIGNVOTE).parent
        if not (build / "python/signvote").is_dir():
            blocks[-1] = f": without the Python package: {blocks[-1]}"
        script = "set -e\n" + "\n".join(blocks)
        for typed, instead in LESS.items():
            self.assertIn(typed, script)
            script = script.replace(typed, instead)
        (self.folder / "build").symlink_to(build)
        (self.folder / "examples").symlink_to(SOURCE / "examples")
        (self.folder / "cache/signvote").mkdir(parents=True)
        (self.folder / "cache/signvote/mnist").symlink_to(mnist())
        (self.folder / "typed.sh").write_text(script)
        result = run_session(
            ["bash", "typed.sh"],
            timeout=TIMEOUT,
            cwd=self.folder,
            env={**ENVIRONMENT, "XDG_CACHE_HOME": str(self.folder / "cache")},
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("first", "mpi", "net"):
            self.assertEqual(summary(self.folder / "runs" / name)["rounds"], 2)
        self.assertTrue((self.folder / "runs/figure1-mnist/figure1.png").exists())


if __name__ == "__main__":
    main()
