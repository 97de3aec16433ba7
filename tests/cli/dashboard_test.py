"""The dashboard in a browser: the page of real runs, with a real server and workers over TLS.

SIGNVOTE_PICTURES=docs draws the pictures of docs/dashboard.md, of a run on the real MNIST.
"""

import json
import os
import pathlib
import time
import unittest

from browser import Browser, playwright
from command_line import Case, main, metrics, small, start, write_toml
from generated_data import mnist
from server_and_workers import Certificates, Server, Worker, free_port
from waiting import TIMEOUT, wait_until

PICTURES = os.environ.get("SIGNVOTE_PICTURES")
MNIST = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "signvote/mnist"

ROUND = "Number(document.getElementById('round').textContent.replaceAll(',', ''))"
CONNECTION = "document.getElementById('connection').dataset.state"


def row_of(name):
    rows = "[...document.querySelectorAll('#workers tbody tr')]"
    return f"{rows}.find((row) => row.querySelector('th').textContent === '{name}')"


def state_of(name):
    """The classes of a worker's row."""
    return f"({row_of(name)}?.className ?? '')"


def has(classes, word):
    return f"{classes}.split(' ').includes('{word}')"


class DashboardTest(Case):
    def setUp(self):
        super().setUp()
        self.browser = Browser(self.folder / "browser")
        self.addCleanup(self.browser.close)

    def link(self, folder, host="127.0.0.1"):
        text = (folder / "dashboard.url").read_text().strip()
        scheme, _, rest = text.partition("://")
        return f"{scheme}://{host}:{rest.partition(':')[2]}"

    def colour_of(self, name):
        """Of a worker's name as it is shown: [red, green, blue]."""
        colour = f"getComputedStyle({row_of(name)}.querySelector('button')).color"
        return self.browser.get(f"{colour}.match(/\\d+/g).map(Number)")

    def assert_fits(self):
        self.assertEqual(self.browser.get("document.documentElement.scrollWidth - innerWidth"), 0)

    def test_a_server_and_its_workers(self):
        """Where others could reach it: with TLS and the token."""
        browser = self.browser
        names = ["mallory", "bob", "carol"]
        certificates = Certificates(self.folder / "certificates", names)
        settings = {"data": str(mnist()), "batches": "3x32", "rounds": 100_000, "attack": "flip:1", "eval_every": 4}
        allow = write_toml(self.folder / "allow.toml", {name: worker for worker, name in enumerate(names)})
        where = ["--allow", allow, "--dashboard", f"0.0.0.0:{free_port()}"]
        server = Server(self.folder, write_toml(self.folder / "run.toml", settings), certificates, *where)
        self.addCleanup(server.close)
        server.start()
        workers = {name: Worker(name, self.folder, server, certificates, mnist()) for name in names}
        for worker in workers.values():
            self.addCleanup(worker.close)

        link = self.link(server.state)
        browser.open(link.partition("?")[0])
        browser.wait("the page asks for the token", "document.querySelector('input[name=token]') !== null")
        browser.open(link)
        self.assertEqual(browser.get("location.search"), "", "the token stays in the address")
        browser.wait("nobody has come", has(state_of("worker 2"), "awaited"))
        for worker in workers.values():
            worker.start()

        first = browser.wait("rounds", f"{ROUND} >= 2 && {ROUND}")
        browser.wait("values that move", f"{ROUND} > {first}")
        browser.wait("an accuracy", "/^\\d+\\.\\d+ %$/.test(document.getElementById('accuracy').textContent)")
        for name in names:
            browser.wait(f"{name} is present", has(state_of(name), "present"))
        browser.wait("mallory is suspected", has(state_of("mallory"), "suspected"))
        self.assertFalse(browser.get(has(state_of("bob"), "suspected")))
        browser.wait(
            "a line in the log", "document.querySelector('#lately').textContent.includes('mallory is suspected')"
        )
        self.assertEqual(browser.complaints(), [])

        workers["carol"].kill()
        browser.wait("carol is gone", has(state_of("carol"), "gone"))
        grey, black = self.colour_of("carol"), self.colour_of("bob")
        self.assertLess(max(grey) - min(grey), 32, "carol's name is not grey")
        self.assertGreater(min(grey), max(black) + 40, "carol's name is as dark as that of bob, who is there")
        browser.get("window.is_the_same_page = true")
        server.kill()
        browser.wait("the connection is lost", f"{CONNECTION} === 'lost'")
        before = browser.get(ROUND)
        server.start()
        browser.wait("the page is back", f"{CONNECTION} === 'live'")
        workers["carol"].start()
        browser.wait("carol is back", has(state_of("carol"), "present"))
        browser.wait("more rounds", f"{ROUND} > {before + 1}")
        self.assertTrue(browser.get("window.is_the_same_page"))
        self.assertEqual([line for line in browser.complaints() if "net::ERR_" not in line], [])

        server.process.terminate()
        browser.wait("it has stopped", "document.getElementById('connection').textContent.trim() === 'stopped'")
        self.assertEqual(server.wait(), 130)

        # A test whose loss is no number is a test.
        for worker in workers.values():
            worker.close()
        *rows, last = metrics(server.state)
        last["test_loss"] = None
        (server.state / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, last]))
        server.start()
        browser.open(link)
        browser.wait("the last test", "document.getElementById('tested').textContent !== ''")
        self.assertEqual(browser.get("document.getElementById('test-loss').textContent"), "test loss –")

    def test_a_training(self):
        """On loopback, to its end; and what a page must be for everybody."""
        browser = self.browser
        out = self.folder / "run"
        # The paper's method has a map of layers. Its first rounds are those of a program before this one.
        options = {"out": out, "batches": "2x16,32", "attack": "flip:1", "eval_every": 2, "initial_rounds": 3}
        self.succeed("train", *small(**options, rounds=4))
        training = start("train", "--resume", out, "--rounds", 100_000, "--dashboard", "127.0.0.1:0")
        self.addCleanup(training.communicate)
        self.addCleanup(training.kill)
        wait_until("the link", lambda: (out / "dashboard.url").exists() and training.poll() is None)
        browser.open(self.link(out), size=(360, 740), dark=True)
        browser.wait("rounds", f"{ROUND} >= 8")
        browser.wait("worker 0 is suspected", has(state_of("worker 0"), "suspected"))
        browser.wait("the map", "document.getElementById('map-title').textContent.startsWith('How often each worker')")
        self.assert_fits()

        # Each picture has its numbers behind it.
        for figure in ("accuracy", "loss", "weights", "map"):
            browser.get(f"document.querySelector('#{figure}-figure summary').click()")
            browser.wait(f"a table of {figure}", f"document.querySelectorAll('#{figure}-figure tbody tr').length > 1")
        # That of the tests goes back to before this program.
        oldest = "document.querySelector('#accuracy-figure tbody tr:last-child td').textContent"
        self.assertEqual(browser.get(oldest), "2")
        self.assert_fits()

        # The keyboard reaches everything that can be pointed at.
        browser.get("document.querySelector('#map-figure canvas').focus()")
        browser.press("ArrowRight")
        browser.press("ArrowDown")
        browser.wait("a cell", "/^1 × .*: [\\d.]+ %$/.test(document.getElementById('map-cell').textContent)")
        browser.get("document.querySelector('#workers button').focus()")
        browser.press("Enter")
        browser.wait("a chosen line", "document.querySelector('#workers button').ariaPressed === 'true'")

        training.terminate()
        browser.wait("it has stopped", "document.getElementById('connection').textContent.trim() === 'stopped'")
        self.assertEqual(training.wait(TIMEOUT), 130)
        self.assertEqual([line for line in browser.complaints() if "net::ERR_" not in line], [])

    @unittest.skipUnless(PICTURES, "SIGNVOTE_PICTURES names no folder")
    def test_pictures(self):
        """A liar, equals, two who are stronger, of whom one leaves. The run goes on without it."""
        browser = self.browser
        names = ["mallory", "alice", "bob", "carol", "dave", "erin"]
        settings = {"data": str(MNIST), "batches": "4x8,32,96", "rounds": 400, "attack": "flip:1", "eval_every": 10}
        allow = write_toml(self.folder / "allow.toml", {name: worker for worker, name in enumerate(names)})
        where = ["--allow", allow, "--quorum", "5/6", "--deadline", "5s", "--dashboard", "127.0.0.1:0"]
        run = write_toml(self.folder / "run.toml", settings)
        server = Server(self.folder, run, None, *where, state=self.folder / "elastic")
        self.addCleanup(server.close)
        server.start()
        workers = {name: Worker(name, self.folder, server, None, MNIST, "--threads", 1) for name in names}
        for worker in workers.values():
            self.addCleanup(worker.close)
            worker.start()
        browser.open(self.link(server.state))
        browser.wait("many rounds", f"{ROUND} >= 150")
        workers["dave"].kill()
        browser.wait("dave is gone", has(state_of("dave"), "gone"))
        browser.wait("more rounds", f"{ROUND} >= 200")
        for name, size, dark in (
            ("light", (1200, 900), False),
            ("dark", (1200, 900), True),
            ("phone", (390, 1530), False),
        ):
            browser.open(self.link(server.state), size, dark)
            browser.wait("the plots", "document.querySelectorAll('.plot canvas').length === 3")
            time.sleep(3)  # something of the present too
            browser.picture(pathlib.Path(PICTURES) / f"dashboard-{name}.png", whole=name != "phone")


def setUpModule():
    playwright()  # or nothing can be tested


if __name__ == "__main__":
    main()
