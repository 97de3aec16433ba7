"""Every command of the pages, typed: the blocks of shell of a page one after the other, in one folder, on tiny data sets,
with fewer rounds, smaller batches and other ports.

A block that something else runs, or that cannot run here, has a line before it that says so:
<!-- run by tests/cli/conformance_test.py --> or <!-- not run: needs Docker's engine -->
"""

import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/cli"))
from command_line import ENVIRONMENT, SIGNVOTE, Case, main, metrics, summary  # noqa: E402
from generated_data import cifar10, mnist  # noqa: E402
from processes import run_session  # noqa: E402
from server_and_workers import free_port  # noqa: E402
from waiting import TIMEOUT  # noqa: E402

BUILD = pathlib.Path(SIGNVOTE).parent
BLOCK = re.compile(r"(?:^<!-- (?P<mark>.*?) -->\n)?^```sh\n(?P<text>.*?)^```$", re.M | re.S)
MAKE = re.compile(r"^make ([\w-]+).*\n", re.M)  # the whole of it is what .ci/run and people run
TARGETS = re.search(r"^\.PHONY: (.*)$", (SOURCE / "Makefile").read_text(), re.M)[1].split()
# The folder of a run that a command makes.
RUN = re.compile(r"signvote (?:train|server) (?:[^\n]|\\\n)*?--(?:out|state) (\S+)")

# Around the program: fewer rounds, smaller batches, whatever was typed.
WRAPPER = f"""#!/usr/bin/python3
import os, re, sys
words = sys.argv[1:]

def put(flag, value):
    if flag in words:
        words[words.index(flag) + 1] = value
    else:
        words.extend([flag, value])

trains = words[:1] in (["train"], ["server"]) and "--resume" not in words
if trains:
    put("--rounds", "6")
    put("--threads", "1")
    if "--batch-mode" in words:
        at = words.index("--batch-mode")
        words[at : at + 2] = ["--batches", "14x4,904"]
    if "--batches" in words:
        at = words.index("--batches") + 1
        words[at] = ",".join(re.sub(r"\\d+$", "2", part) for part in words[at].split(","))
    if "--dashboard" in words and words[words.index("--dashboard") + 1].startswith("--"):
        words.insert(words.index("--dashboard") + 1, "localhost:0")
if words[:2] == ["reproduce", "figure1"]:
    put("--rounds", "4")
    put("--batches", "4,8")
    put("--seeds", "1")
os.execv({SIGNVOTE!r}, ["signvote", *words])
"""
OTHERWISE = [
    (r"--round \d+", "--round 2"),
    (r"--warmup-rounds \d+", "--warmup-rounds 2"),
    (
        r"mpirun .*?-n \d+( --map-by node)?( --oversubscribe)?( --bind-to none)?",
        "mpirun -n 2 --oversubscribe --bind-to none",
    ),
    (r"(ddp_mnist\.py)", r"\1 --generated --steps 4 --methods it"),
    (r"(signvote train --resume \S+( --\w+)*)", r"\1 2>&1 | grep 'has finished'"),  # nothing had stopped it
    (r"^cmake --build .*$", ":"),
    (r"(gpt/compare\.py --tiny) --rounds 200", r"\1 --rounds 6 --test-every 6 --samples 1,2,8 --floats ''"),
    (r"(gpt/train\.py)", r"\1 --tiny"),
    (r"vote\.example\.org|server\.example(?=:)", "localhost"),
    (r":7080", ":0"),
    (r"0\.0\.0\.0:|127\.0\.0\.1:", "localhost:"),
    (r" /shared/", " shared/"),
]

# Pages of which tests/cli/readme_test.py and own_model_test.py type everything that has no such line.
ELSEWHERE = ["README.md", "docs/own_model.md"]

# What stands before and after a block of a page, because it is typed on another machine, or needs what the page tells.
FIRST = "signvote train --batches 4,24 --rounds 4 --out runs/first\n"
AROUND = {
    ("docs/server.md", 1): ("", " &\n"),
    ("docs/server.md", 2): (
        "cp ~/signvote-certs/* .\nsignvote worker --connect localhost:7000 --ca ca.pem --cert bob.pem --key bob.key &\n",
        "\nwait\n",
    ),
    ("docs/inspect.md", 0): (FIRST + "cp -r runs/first runs/elastic\n", ""),
    ("docs/run_folder.md", 0): (FIRST + "ln -s runs/first DIR\n", ""),
    ("docs/dashboard.md", 3): (
        "signvote certs worker certs --name worker-0 --name worker-1\nfor m in 0 1; do signvote worker --connect "
        "localhost:7000 --ca certs/ca.pem --cert certs/worker-$m.pem --key certs/worker-$m.key & done\n",
        "\nwait\n",
    ),
    ("docs/report.md", 0): (
        FIRST + "signvote train --batches 4,24 --seed 1 --out runs/second\n"
        "signvote reproduce figure1 --out runs/figure1\n",
        "",
    ),
    ("examples/gpt/README.md", 2): (
        "signvote certs new-ca . && signvote certs server . --host localhost && signvote certs worker . "
        "--name worker-0 --name worker-1 --name worker-2\n",
        " &\n",
    ),
    ("examples/gpt/README.md", 3): (
        "for m in 0 1; do /usr/bin/python3 examples/gpt/train.py --tiny localhost:7000 --ca ca.pem --cert worker-$m.pem "
        "--key worker-$m.key & done\n",
        "\nwait\n",
    ),
}


PAGES = [*SOURCE.glob("*.md"), *sorted(SOURCE.glob("docs/**/*.md")), *sorted(SOURCE.glob("examples/**/*.md"))]


def blocks(page):
    return [(block["mark"], block["text"]) for block in BLOCK.finditer(page.read_text())]


def scaled(text):
    for pattern, replacement in OTHERWISE:
        text = re.sub(pattern, replacement, text, flags=re.M)
    return text


class Commands(Case):
    def type(self, name):
        """All blocks of a page that are not run elsewhere."""
        script = ""
        for index, (mark, text) in enumerate(blocks(SOURCE / name)):
            if mark is None:
                before, after = AROUND.get((name, index), ("", ""))
                script += before + scaled(MAKE.sub(self.make, text)).rstrip("\n") + (after or "\n")
        port = free_port()
        script = script.replace(":7000", f":{port}").replace(":7001", f":{port + 1}")
        (self.folder / "examples").symlink_to(SOURCE / "examples")
        programs = self.folder / "build"
        programs.mkdir()
        for entry in BUILD.iterdir():
            (programs / entry.name).symlink_to(entry)
        (programs / "signvote").unlink()
        (programs / "signvote").write_text(WRAPPER)
        (programs / "signvote").chmod(0o755)
        cache = self.folder / "cache/signvote"
        cache.mkdir(parents=True)
        (cache / "mnist").symlink_to(mnist())
        (cache / "cifar10").symlink_to(cifar10())
        (self.folder / "typed.sh").write_text(script)  # a file, because mpirun would eat what is typed ahead
        environment = {
            **ENVIRONMENT,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(cache.parent),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        result = run_session(["bash", "-e", "typed.sh"], timeout=TIMEOUT, cwd=self.folder, env=environment)
        said = f"{script}\n{result.stdout}\n{result.stderr}"
        self.assertEqual(result.returncode, 0, said)
        for run in RUN.findall(script):  # the shell does not tell what became of programs in the background
            self.assertTrue((self.folder / run / "summary.json").exists(), said)

    def make(self, found):
        self.assertIn(found[1], TARGETS)
        return ""

    def test_what_is_run_elsewhere_is_there(self):
        for page in PAGES:
            for mark, text in blocks(page):
                with self.subTest(f"{page}: {text.splitlines()[0]}"):
                    if mark and mark.startswith("run by "):
                        self.assertTrue((SOURCE / mark.removeprefix("run by ")).exists(), mark)
                    elif mark:
                        self.assertRegex(mark, r"^not run: \w+ \w+")

    def test_a_runs_files_are_explained(self):
        out = self.train("run")
        page = (SOURCE / "docs/run_folder.md").read_text()
        page = page.replace("`bits_per_parameter_up`, `_down`", "`bits_per_parameter_up`, `bits_per_parameter_down`")
        page = page.replace("`bits_per_parameter_up` and `_down`", "`bits_per_parameter_up`, `bits_per_parameter_down`")
        known = set(re.findall(r"`([\w.]+)`", page))
        for name in [*metrics(out)[0], *summary(out), *(file.name for file in out.iterdir())]:
            self.assertIn(name, known, "docs/run_folder.md does not explain it")


def add_tests():
    """One for each page that has something to type."""
    for page in PAGES:
        name = str(page.relative_to(SOURCE))
        if name not in ELSEWHERE and any(mark is None for mark, _ in blocks(page)):
            setattr(Commands, "test_" + re.sub(r"\W", "_", name), lambda self, name=name: self.type(name))


add_tests()
if __name__ == "__main__":
    main()
