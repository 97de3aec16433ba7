"""signvote report: real runs as a page, Markdown and CSV, and folders that are none."""

import csv
import io
import pathlib
import re
import shutil
import tempfile
import xml.etree.ElementTree as ElementTree

from command_line import Case, contents, main, metrics, run, small, summary, write_toml
from generated_data import mnist
from server_and_workers import Server, Worker

TARGETS = (90, 95, 98)


class Report(Case):
    @classmethod
    def setUpClass(cls):
        """Two seeds of one method, one run of another with a name that would be a script, and one that has stopped."""
        cls.runs = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.runs)
        cls.names = ["agree-seed0", "agree-seed1", "<script>alert('1')<", "stopped"]
        agree = {"method": "agree", "initial_rounds": 2, "batches": "8,8,24", "eval_every": 5, "rounds": 20}
        for name, options in zip(cls.names, [agree, {**agree, "seed": 1}, {**agree, "method": "mv"}]):
            result = run("train", *small(**options), "--out", cls.runs / name)
            assert result.returncode == 0, result.stderr
        stopped = cls.runs / cls.names[3]
        shutil.copytree(cls.runs / cls.names[2], stopped)
        (stopped / "summary.json").unlink()
        (stopped / "checkpoint.bin").unlink()
        rows = (stopped / "metrics.jsonl").read_text().splitlines(keepends=True)
        (stopped / "metrics.jsonl").write_text("".join(rows[:2]) + rows[2][:30])
        config = (stopped / "config.toml").read_text()
        (stopped / "config.toml").write_text(config.replace("clip = 10", "clip = 9"))

    def report(self, *arguments, names=None):
        return self.succeed("report", *(self.runs / name for name in names or self.names), *arguments)

    def page(self, *arguments, **options):
        out = self.folder / "report.html"
        self.report("--out", out, *arguments, **options)
        text = out.read_text()
        self.assertTrue(text.startswith("<!DOCTYPE html>"))
        # HTML takes <td/> for a beginning; only these have no end.
        self.assertLessEqual(set(re.findall(r"<(\w+)[^<>]*/>", text)), {"meta", "input", "path", "circle"})
        return ElementTree.fromstring(text)  # which takes nothing that is not well-formed

    def test_the_page_is_whole_and_needs_nothing_else(self):
        before = contents(self.runs)
        page = self.page()
        self.assertEqual(contents(self.runs), before)
        tags = {element.tag.rsplit("}")[-1] for element in page.iter()}
        self.assertFalse(tags & {"script", "link", "img", "iframe", "object", "use"})
        for element in page.iter():
            for name, value in element.attrib.items():
                self.assertFalse(name.startswith("on") or name in ("href", "src"), (name, value))
        policy = page.find(".//meta[@http-equiv='Content-Security-Policy']").get("content")
        self.assertTrue(policy.startswith("default-src 'none'"))
        identities = [element.get("id") for element in page.iter() if element.get("id")]
        self.assertEqual(len(identities), len(set(identities)))
        self.assertNotIn("url(", page.find("head/style").text)
        words = "".join(page.itertext())
        self.assertIn("<script>alert('1')<", words)
        self.assertIn("not finished: 10 of 20 rounds so far", words)
        for name in self.names[:3]:
            self.assertIn(summary(self.runs / name)["model_sha256"], words)
        headings = [heading.text for heading in page.iter("h2")]
        self.assertEqual(headings[0], "In short")
        self.assertIn("Whom the vote trusts", headings)
        table = page.find(".//div[@aria-label='Settings that differ']/table")
        self.assertEqual(
            [cell.text for cell in table.find("thead/tr")], ["run", "method", "clip", "prior_rounds", "forget", "seeds"]
        )
        self.assertEqual(len(table.findall("tbody/tr")), 3)
        charts = [svg for svg in page.iter("{http://www.w3.org/2000/svg}svg") if svg.get("role") == "img"]
        self.assertEqual(len(charts), 4)  # accuracy and loss, over rounds and megabytes
        self.assertIn("round 20", charts[0].get("aria-label"))

    def test_csv_has_the_numbers_of_each_run(self):
        rows = list(csv.DictReader(io.StringIO(self.report("--format", "csv").stdout)))
        self.assertEqual([row["folder"] for row in rows], [str(self.runs / name) for name in self.names])
        for row, name in zip(rows, self.names):
            tests = metrics(self.runs / name) if name != "stopped" else metrics(self.runs / self.names[2])[:2]
            last = tests[-1]
            self.assertEqual(float(row["test_accuracy"]), last["test_accuracy"])
            self.assertEqual(float(row["test_loss"]), last["test_loss"])
            self.assertEqual(row["model_sha256"], last["model_sha256"])
            self.assertEqual(row["finished"], "no" if name == "stopped" else "yes")
            best = max(tests, key=lambda test: test["test_accuracy"])
            self.assertEqual(int(row["best_round"]), best["round"])
            for target in TARGETS:
                there = [test for test in tests if 100 * test["test_accuracy"] >= target]
                self.assertEqual(row[f"rounds_to_{target}"], str(there[0]["round"]) if there else "")
                if name == "stopped" or not there:
                    continue
                bits = there[0]["bits_per_parameter_up"] + there[0]["bits_per_parameter_down"]
                expected = there[0]["round"] * bits * summary(self.runs / name)["parameters"] / 8e6
                self.assertAlmostEqual(float(row[f"megabytes_to_{target}"]), expected)
        self.assertTrue(any(row["rounds_to_90"] for row in rows), rows)  # else this test has seen nothing

    def test_markdown_has_tables_of_even_rows_and_no_html(self):
        text = self.report("--format", "md").stdout
        outside = "".join(text.split("```")[::2])  # of the commands
        self.assertNotIn("<", outside)
        width = 0
        for line in outside.splitlines():
            columns = line.replace("\\|", "").count("|")
            if line.startswith("|") and width:
                self.assertEqual(columns, width, line)
            width = columns if line.startswith("|") else 0
        self.assertIn("| agree | agree | 10 | 3 | 0.00390625 | 0, 1 |", text)
        self.assertIn("signvote train --out OTHER", text)

    def test_the_command_repeats_the_run(self):
        rows = self.report("--format", "md", names=["agree-seed1"]).stdout.splitlines()
        command = next(row for row in rows if row.startswith("signvote train")).split()
        out = self.folder / "again"
        self.succeed(*(str(out) if word == "OTHER" else word for word in command[1:]))
        self.assertEqual(summary(out)["model_sha256"], summary(self.runs / "agree-seed1")["model_sha256"])

    def test_a_single_run_and_the_format_by_the_files_ending(self):
        self.assertIn("There is only one run.", "".join(self.page(names=["agree-seed0"]).itertext()))
        for ending, begins in (("md", "# Comparison of 1 run\n"), ("csv", "panel,run,folder,seed,")):
            out = self.folder / f"report.{ending}"
            self.report("--out", out, names=["agree-seed0"])
            self.assertTrue(out.read_text().startswith(begins))

    def test_cells_of_a_table_are_grouped(self):
        out = self.folder / "table"
        (out / "cells").mkdir(parents=True)
        for name, cell in (("agree-seed0", "dense-agree-seed0"), ("agree-seed1", "dense-agree-seed1")):
            shutil.copytree(self.runs / name, out / "cells" / cell)
        shutil.copytree(self.runs / self.names[2], out / "cells/dense-mv-seed0")
        rows = list(csv.DictReader(io.StringIO(self.succeed("report", out, "--format", "csv").stdout)))
        self.assertEqual([(row["run"], row["seed"]) for row in rows], [("mv", "0"), ("agree", "0"), ("agree", "1")])

    def test_a_servers_state_is_a_run(self):
        settings = {"data": mnist(), "batches": "4,4,4", "rounds": 4, "eval_every": 2, "threads": 1}
        server = Server(self.folder, write_toml(self.folder / "run.toml", settings), None)
        self.addCleanup(server.close)
        server.start()
        workers = [Worker(f"worker-{m}", self.folder, server, None, mnist(), "--threads", 1) for m in range(3)]
        for worker in workers:
            self.addCleanup(worker.close)
            worker.start()
        for program in (server, *workers):
            self.assertEqual(program.wait(), 0, program.tail(40))
        text = self.succeed("report", server.state, "--format", "md").stdout
        for name in ("worker-0", "worker-1", "worker-2"):
            self.assertRegex(text, rf"\| [012] {name} \| 4 \| 4 \|")
        self.assertIn("signvote server --listen HOST:PORT", text)

    def test_bad_folders_are_one_line_that_names_them(self):
        nowhere = self.folder / "nowhere"
        self.refuse(2, "report", nowhere, "--format", "md", says=[nowhere, "no folder"])
        self.refuse(2, "report", self.folder, "--format", "md", says=[self.folder, "holds no run"])
        self.refuse(2, "report", self.runs, "--format", "md", says=["give the runs in it"])
        self.refuse(2, "report", self.runs / "agree-seed0", says="--out report.html")
        self.refuse(2, "report", self.runs / "agree-seed0", "--format", "pdf", says="pdf")
        damaged = self.folder / "damaged"
        shutil.copytree(self.runs / "agree-seed0", damaged)
        (damaged / "checkpoint.bin").write_bytes((damaged / "checkpoint.bin").read_bytes()[:1000])
        self.refuse(1, "report", damaged, "--format", "md", says=[damaged, "checkpoint.bin"])
        self.refuse(1, "report", self.runs / "agree-seed0", "--out", "/nowhere/r.html", says="/nowhere/r.html")


if __name__ == "__main__":
    main()
