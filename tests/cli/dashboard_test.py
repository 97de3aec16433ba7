"""The dashboard in a browser: the page of real runs, with a real server and workers over TLS."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import time
import unittest

from command_line import ENVIRONMENT, SIGNVOTE, Case, main, small, start, write_toml
from generated_data import mnist
from processes import end_session
from server_and_workers import Certificates, Server, Worker, free_port
from waiting import TIMEOUT, TooLate, wait_until

SOURCE = pathlib.Path(__file__).parents[1] / "web"
PACKAGES = pathlib.Path(SIGNVOTE).resolve().parent / "tests" / "web"  # stay from one run of the tests to the next
CHROMIUM = "/usr/bin/chromium"


def playwright():
    """The folder of playwright-core, which npm brings. Skips the suite if it cannot."""
    for tool in ("npm", "node", CHROMIUM):
        if shutil.which(tool) is None:
            raise unittest.SkipTest(f"{tool} is not installed")
    lock = (SOURCE / "package-lock.json").read_text()
    kept = PACKAGES / "package-lock.json"
    if not (kept.exists() and kept.read_text() == lock):
        PACKAGES.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / "package.json", PACKAGES)
        kept.write_text(lock)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]
        result = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True, timeout=TIMEOUT)
        if result.returncode != 0:
            kept.unlink()
            raise unittest.SkipTest(f"npm could not bring playwright-core: {' '.join(result.stderr.split())[:300]}")
    return PACKAGES / "node_modules" / "playwright-core"


class Browser:
    """See tests/web/page.mjs."""

    def __init__(self, folder):
        folder.mkdir()
        self.log = folder / "browser.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["node", SOURCE / "page.mjs", playwright(), CHROMIUM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**ENVIRONMENT, "TMPDIR": str(folder)},  # for its profile
            )

    def _tell(self, **command):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise AssertionError(f"the browser has ended: {self.log.read_text()[-2000:]}")
        answer = json.loads(answer)
        if "error" in answer:
            raise AssertionError(f"{command}: {answer['error']}")
        return answer["value"]

    def open(self, url, size=(1280, 900), dark=False):
        self._tell(do="open", url=url, size=size, dark=dark)

    def get(self, value):
        """What an expression of JavaScript is in the page."""
        return self._tell(do="get", value=value)

    def wait(self, what, condition):
        try:
            return wait_until(what, lambda: time.sleep(0.1) or self.get(condition))  # not to keep it busy
        except TooLate as late:
            raise TooLate(f"{late}; the page has: {self.get('document.body.innerText')}") from None

    def press(self, key):
        self._tell(do="press", key=key)

    def complaints(self):
        return self._tell(do="complaints")

    def picture(self, file, whole=False):
        self._tell(do="picture", file=str(file), whole=whole)

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(TIMEOUT)
        finally:
            end_session(self.process)
            self.process.stdout.close()


ROUND = "Number(document.getElementById('round').textContent.replaceAll(',', ''))"
CONNECTION = "document.getElementById('connection').dataset.state"


def state_of(name):
    """The classes of a worker's row."""
    rows = "[...document.querySelectorAll('#workers tbody tr')]"
    return f"({rows}.find((row) => row.querySelector('th').textContent === '{name}')?.className ?? '')"


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


def setUpModule():
    playwright()  # or nothing can be tested


if __name__ == "__main__":
    main()
