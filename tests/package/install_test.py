"""`cmake --install` as a stranger finds it: the program with its other half, manual pages, completion in shells, and
files for pkg-config."""

import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/cli"))
from command_line import ENVIRONMENT, main, small  # noqa: E402
from scratch import SCRATCH  # noqa: E402
from waiting import TIMEOUT  # noqa: E402

BUILD = pathlib.Path(os.environ["BUILD"])
FLAGS = os.environ.get("FLAGS", "").split()  # of the compiler


def output(*command, **options):
    result = subprocess.run(
        list(map(str, command)),
        **{"env": ENVIRONMENT, **options},
        text=True,
        capture_output=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
    )
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), f"there is no {tool}")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Moved after it was installed, because nothing may know where that was.
        first = SCRATCH / "first"
        output("cmake", "--install", BUILD, "--prefix", first)
        cls.prefix = first.rename(SCRATCH / "prefix")

    def test_the_program_finds_its_other_half(self):
        signvote = self.prefix / "bin/signvote"
        self.assertEqual([signvote], list((self.prefix / "bin").iterdir()))
        self.assertRegex(output(signvote, "--version"), r"^signvote \d+\.\d+\.\d+\n")
        out = SCRATCH / "run"
        output(signvote, "train", *small(rounds=1), "--out", out)
        self.assertTrue((out / "model.pt").exists())

    def test_a_program_is_compiled_with_pkg_config(self):
        environment = {**ENVIRONMENT, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        for package, source in ("signvote", "tests/package/main.cpp"), ("signvote-worker", "examples/own_worker.cpp"):
            with self.subTest(package):
                found = output("pkg-config", "--cflags", "--libs", package, env=environment).split()
                program = SCRATCH / package
                compiler = os.environ.get("CXX", "c++")
                output(compiler, "-std=c++20", *FLAGS, SOURCE / source, "-o", program, *found)
        self.assertRegex(output(SCRATCH / "signvote"), r"^signvote \d")

    @needs("man")
    def test_manual_pages_are_whole(self):
        pages = sorted((self.prefix / "share/man/man1").iterdir())
        self.assertIn("signvote.1.gz", [page.name for page in pages])
        for page in pages:
            command = page.name.removesuffix(".1.gz").replace("new-ca", "new_ca").split("-")
            command = [word.replace("_", "-") for word in command]
            text = output(
                "man", "--warnings=w", "-l", page, env={**ENVIRONMENT, "MANWIDTH": "500", "LC_ALL": "C.UTF-8"}
            )
            self.assertNotIn("warning", text, page)
            text = re.sub(r"\s+", " ", re.sub(".\b", "", text))
            for heading in ("NAME", "SYNOPSIS", "FLAGS", "EXIT STATUS"):
                self.assertIn(heading, text, page)
            helped = output(self.prefix / "bin/signvote", *command[1:], "--help")
            for flag in re.findall(r"^  (--[a-z0-9-]+) ", helped, re.M):
                self.assertIn(f" {flag} ", text, page)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = self.prefix / "share/bash-completion/completions/signvote"
        array = " ".join(f"'{word}'" for word in words)
        program = f'. {script}; COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _signvote; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return output("bash", "-uc", program, cwd=SCRATCH).split()

    def test_bash_completes_commands_flags_and_values(self):
        (SCRATCH / "a_folder").mkdir()
        (SCRATCH / "a_file").touch()
        self.assertEqual(self.complete("signvote", "tr"), ["train"])
        self.assertEqual(self.complete("signvote", "train", "--rou"), ["--rounds"])
        self.assertEqual(self.complete("signvote", "train", "--method", "s"), ["shrink", "solo", "sgd"])
        self.assertEqual(self.complete("signvote", "train", "--method", "=", "sh"), ["shrink"])
        self.assertEqual(self.complete("signvote", "train", "--rounds", ""), [])
        self.assertEqual(self.complete("signvote", "train", "--out", "a_"), ["a_folder"])
        self.assertEqual(self.complete("signvote", "train", "--config", "a_"), ["a_file", "a_folder"])
        self.assertEqual(self.complete("signvote", "certs", "worker", "--name", "ann", "--d"), ["--days"])
        self.assertEqual(self.complete("signvote", "journal", "a_folder", "veri"), ["verify"])
        self.assertEqual(self.complete("signvote", "journal", "a_folder", "model", "--r"), ["--round"])

    @needs("zsh")
    def test_zsh_completes_commands_and_flags(self):
        """As typed at a terminal: a tab, and what then stands in the line."""
        functions = self.prefix / "share/zsh/site-functions"
        output("zsh", "-n", functions / "_signvote")
        for typed, expected in (
            ("signvote tra", "train"),
            ("signvote train --round", "--rounds"),
            ("signvote train --method shr", "--method shrink"),
            ("signvote certs work", "worker"),
            ("signvote certs worker --nam", "--name"),
            ("signvote journal . verif", "verify"),
            ("signvote journal . model --roun", "--round"),
        ):
            with self.subTest(typed):
                self.assertIn(expected, self.type_at_zsh(functions, typed))

    def type_at_zsh(self, functions, typed):
        """Types it, a tab, and what makes zsh print its line and end."""
        home = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH))
        (home / ".zshrc").write_text(
            f"fpath=({functions} $fpath)\nautoload -U compinit\ncompinit -D -u\nsetopt no_beep\nPS1=ready\n"
            'show() { print -r -- "<line>$BUFFER</line>" > ' + str(home / "line") + "; exit }\n"
            "zle -N show\nbindkey '^X' show\n"
            f"zle-line-init() {{ zle -U $'{typed}\\t\\x18' }}\nzle -N zle-line-init\n"
        )
        environment = {**ENVIRONMENT, "ZDOTDIR": str(home), "HOME": str(home), "TERM": "dumb"}
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe("zsh", ["zsh", "-i"], environment)
        seen = b""
        try:
            while chunk := os.read(terminal, 4096):
                seen += chunk
        except OSError:  # it has ended
            pass
        os.waitpid(pid, 0)
        os.close(terminal)
        line = home / "line"
        return line.read_text() if line.exists() else seen.decode(errors="replace")


if __name__ == "__main__":
    main()
