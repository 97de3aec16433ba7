"""signvote eval: the numbers of the run it tests again, and what it does not take for a model."""

import json
import pathlib
import re
import shutil
import tempfile
import zipfile

from command_line import Case, contents, main, run, small, summary
from generated_data import mnist


class Eval(Case):
    @classmethod
    def setUpClass(cls):
        cls.trained = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.trained)
        result = run("train", *small(batches="3x16", rounds=12, step=1e-3), "--out", cls.trained)
        assert result.returncode == 0, result.stderr

    def test_a_run_and_its_model_file_agree_with_the_summary(self):
        before = contents(self.trained)
        expected = summary(self.trained)
        self.assertGreater(expected["test_accuracy"], 0.3)  # it has learnt something, so the matrix is no column
        as_json = [
            json.loads(self.succeed(*arguments, "--json").stdout)
            for arguments in (["eval", self.trained], ["eval", self.trained / "model.pt", "--data", mnist()])
        ]
        self.assertEqual(as_json[0], as_json[1])
        result = as_json[0]
        for key in ("model", "dataset", "test_accuracy", "model_sha256"):
            self.assertEqual(result[key], expected[key])
        self.assertEqual(result["samples"], 300)

        confusion = result["confusion"]
        labels = (mnist() / "t10k-labels-idx1-ubyte").read_bytes()[8:]
        self.assertEqual([sum(row) for row in confusion], [labels.count(label) for label in range(10)])
        self.assertEqual([len(row) for row in confusion], [10] * 10)
        self.assertEqual(sum(confusion[i][i] for i in range(10)) / 300, expected["test_accuracy"])
        self.assertEqual(contents(self.trained), before)

        # The same for people.
        text = self.succeed("eval", self.trained).stdout
        self.assertIn(f"accuracy {100 * expected['test_accuracy']:.2f} % ", text)
        self.assertIn(expected["model_sha256"], text)
        table = [list(map(int, line.split())) for line in text.splitlines() if re.fullmatch(r"[ \d]+", line)]
        self.assertEqual(table, [list(range(10))] + [[i, *confusion[i]] for i in range(10)])

    def test_what_is_no_model_is_refused(self):
        (self.folder / "foreign").write_bytes(b"PK\x03\x04 no zip, no model")
        (self.folder / "empty").write_bytes(b"")
        (self.folder / "cut").write_bytes((self.trained / "model.pt").read_bytes()[:-1000])
        self.refuse_each(
            1,
            [(["eval", self.folder / name], [name, "is not a model"]) for name in ("foreign", "empty", "cut")]
            + [
                (["eval", self.trained / "checkpoint.bin"], "is not a model"),
                (["eval", self.folder / "none.pt"], ["none.pt", "No such file"]),
            ],
        )
        self.refuse(2, "eval", self.folder, says="holds no run")

        unfinished = self.folder / "unfinished"
        unfinished.mkdir()
        shutil.copy(self.trained / "config.toml", unfinished)
        self.refuse(1, "eval", unfinished, says=["has no model.pt", f"signvote train --resume '{unfinished}'"])

    def test_a_hostile_model_is_refused(self):
        """torch's own reader crashes on these, or reads other memory as parameters."""

        def rewritten(name, change):
            file = self.folder / name
            with zipfile.ZipFile(self.trained / "model.pt") as old, zipfile.ZipFile(file, "w") as new:
                for entry in old.namelist():
                    content = old.read(entry)
                    new.writestr(entry, change(content) if entry.endswith("data.pkl") else content)
            return file

        def replaced(old, new):
            def change(pickle):
                self.assertIn(old, pickle)
                return pickle.replace(old, new, 1)

            return change

        changes = {
            "same": lambda pickle: pickle,
            "offset": replaced(b"K\x00(K\x20K\x01", b"J\xff\xff\xff\x0f(K\x20K\x01"),
            "negative": replaced(b"K\x00(K\x20K\x01", b"J\xff\xff\xff\xff(K\x20K\x01"),
            "stride": replaced(b"(K\x19K\x19K\x05K\x01t", b"(J\xff\xff\xff\x0fK\x19K\x05K\x01t"),
            "deep": lambda pickle: b"\x80\x02)" + b"\x85" * 200_000 + b".",
            "marks": lambda pickle: b"\x80\x02" + b"(" * 200_000 + b"t" * 200_000 + b".",
            "call": lambda pickle: b"\x80\x02cos\nsystem\n(X\x05\x00\x00\x00falsetR.",
        }
        files = {name: rewritten(name, change) for name, change in changes.items()}
        self.succeed("eval", files.pop("same"), "--data", mnist())
        self.refuse_each(1, [(["eval", file], [name, "is not a model"]) for name, file in files.items()])

    def test_a_model_without_its_data_is_refused(self):
        self.refuse(1, "eval", self.trained / "model.pt", says="signvote data fetch mnist")


if __name__ == "__main__":
    main()
