"""The pages hold together: links lead somewhere, what is said to be made from the program is what it makes today, every
page is in the book, and the names that a page explains are those of the code."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MANUAL = os.environ["MANUAL"]  # signvote-manual
PAGES = sorted(
    [
        SOURCE / "README.md",
        SOURCE / "HACKING.md",
        *(SOURCE / "docs").rglob("*.md"),
        *(SOURCE / "examples").rglob("*.md"),
    ]
)
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
# A path of this repository in backticks; one with other signs is a pattern.
PATH = re.compile(r"`((?:bench|cmake|deploy|docs|examples|include|python|scripts|src|tests)/[\w./@-]*)`")


def prose(page):
    return FENCED.sub("", page.read_text())


def anchors(page):
    """Of its headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.M):
        text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return found


def links(page):
    """What it points to: inline, in HTML or below."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    inline = re.findall(r"\]\(([^)\s]+)\)", text)
    for name, value in re.findall(r"\b(src|srcset|href)=[\"']([^\"']*)[\"']", text):
        inline += [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
    below = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.M))
    for name in re.findall(r"\]\[([^\]]+)\]", text):
        if name not in below:
            raise AssertionError(f"{page}: there is no [{name}]: below")
    return [*inline, *below.values()]


class Pages(unittest.TestCase):
    maxDiff = None

    def test_links_lead_somewhere(self):
        count = 0
        for page in PAGES:
            for link in links(page):
                count += 1
                where, _, anchor = link.partition("#")
                self.assertNotIn("://", link, f"{page}: only the machine at hand is asked")
                target = (page.parent / where).resolve() if where else page
                self.assertTrue(target.exists(), f"{page} links to {link}")
                if anchor:
                    self.assertIn(anchor, anchors(target), f"{page} links to {link}")
        self.assertGreater(count, 100)

    def test_links_in_html_count(self):
        self.assertIn("docs/dashboard-dark.png", links(SOURCE / "README.md"))
        with tempfile.NamedTemporaryFile("w", suffix=".md") as page:
            page.write('<source srcset="a.svg 2x, b.svg"><img src="c.svg"> <a href=\'d.md\'>')
            page.flush()
            self.assertEqual(links(pathlib.Path(page.name)), ["a.svg", "b.svg", "c.svg", "d.md"])

    def test_the_formats_pages_name_the_magic_that_is_written(self):
        for page, file, name, magics in (
            ("wire_format", "ballot/wire.cpp", r"kMagic = ", 1),
            ("journal_format", "journal/record.cpp", r"k(?:Start)?Magic = ", 2),
            ("journal_format", "journal/state_file.h", r"magic\[8\] = ", 1),
        ):
            source = (SOURCE / "src" / file).read_text()
            found = ["".join(re.findall(r"'(.)'", text)) for text in re.findall(name + r"\{([^}]*)\};", source)]
            self.assertEqual(len(found), magics, file)
            fields = re.findall(
                r"^\| 0 \| \d \| magic(?:,| \|) `(\w+)` \|", (SOURCE / f"docs/{page}.md").read_text(), re.M
            )
            for magic in found:
                self.assertIn(magic, fields, f"docs/{page}.md does not say what {file} writes")

    def test_named_files_are_there(self):
        for page in PAGES:
            for path in PATH.findall(prose(page)):
                file = SOURCE / path
                self.assertTrue(file.exists() or list(file.parent.glob(file.name + ".*")), f"{page} names {path}")

    def test_every_page_is_in_the_book(self):
        book = SOURCE / "docs/README.md"
        linked = {(book.parent / link.partition("#")[0]).resolve() for link in links(book)}
        for page in (SOURCE / "docs").rglob("*.md"):
            if page != book:
                self.assertIn(page, linked, "docs/README.md is the table of contents")

    def test_pictures_are_described(self):
        for page in PAGES:
            for text, picture in re.findall(r"!\[(.*?)\]\((\S+)\)", prose(page)):
                self.assertTrue(text, picture)
        for picture in (SOURCE / "docs/pictures").iterdir():
            names = {element.tag.rpartition("}")[2] for element in xml.etree.ElementTree.parse(picture).iter()}
            self.assertLessEqual({"title", "desc"}, names, picture)
            self.assertIn("prefers-color-scheme: dark", picture.read_text())

    def test_the_reference_is_what_the_program_says(self):
        committed = SOURCE / "docs/reference"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([MANUAL, "reference", folder], check=True)
            made = {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}
        self.assertEqual(made.keys(), {file.name for file in committed.iterdir()})
        for name, text in made.items():
            self.assertEqual((committed / name).read_text(), text, "type: make docs")

    def test_all_metrics_are_explained(self):
        sources = (SOURCE / "src").rglob("*.cpp")
        names = {name for file in sources for name in re.findall(r'"(signvote_[a-z_]+)["{]', file.read_text())}
        self.assertGreater(len(names), 8)
        explained = re.findall(r"^\| `(signvote_[a-z_]+)`", (SOURCE / "docs/server.md").read_text(), re.M)
        self.assertEqual(sorted(explained), sorted(names))


if __name__ == "__main__":
    unittest.main()
