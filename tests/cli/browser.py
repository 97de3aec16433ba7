"""A browser that shows pages to a test: Debian's chromium, driven by playwright-core, which npm brings."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import time
import unittest

from command_line import ENVIRONMENT, SIGNVOTE
from processes import end_session
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

    def open(self, url, size=(1280, 900), dark=False, first=""):
        """`first` is JavaScript that runs before the page's own."""
        self._tell(do="open", url=url, size=size, dark=dark, first=first)

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
