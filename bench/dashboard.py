"""What the dashboard costs: make bench BENCH=dashboard

- The page of 64 workers after 100,000 rounds, in Debian's chromium: the time from the address to the whole page (every
  worker's row and all plots drawn), its bytes, and while rounds go on, the gaps between the frames that it draws.
- The processor time of a training with 64 workers while three pages are open: of the two threads of the dashboard, and
  what the training's own thread takes more for each round than without a dashboard.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/cli"))
WORKERS = 64
ROUNDS = 100_000
# Runs before the page's own code: when it has shown everything, and the times of the frames after that.
WATCH = f"""
window.frames = [];
const look = () => {{
  const whole = document.querySelectorAll('#workers tbody tr').length === {WORKERS}
    && document.querySelectorAll('.plot canvas').length === 3 && document.querySelector('#map-cell');
  if (whole && !window.opened) window.opened = performance.now();
  if (window.opened) window.frames.push(performance.now());
  requestAnimationFrame(look);
}};
requestAnimationFrame(look);
"""


def page(quick):
    """A row of how the page opens and how it goes on; none where there is no browser."""
    from browser import Browser

    process = subprocess.Popen(
        [ROOT / "build/bench/long_run", str(WORKERS), str(ROUNDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    opened, gaps = [], []
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(pathlib.Path(folder) / "browser")
        try:
            url = process.stdout.readline().strip().rstrip("/")
            with urllib.request.urlopen(url + "/events") as events:
                size = len(next(line for line in events if line.startswith(b"data:")))
            for _ in range(2 if quick else 7):
                browser.open(url, first=WATCH)
                browser.wait("the whole page", "window.opened > 0")
                opened.append(browser.get("window.opened") / 1000)
            time.sleep(3 if quick else 20)
            frames = browser.get("window.frames")[1:]  # the first is that of opening
            gaps = sorted(later - earlier for earlier, later in zip(frames, frames[1:]))
        finally:
            browser.close()
            process.stdin.close()
            process.wait()
    return {
        "bench": "dashboard",
        "name": "page",
        "workers": WORKERS,
        "rounds": ROUNDS,
        "first_opened_seconds": opened[0],
        "opened_seconds": statistics.median(opened),
        "bytes": size,
        "frame_ms": statistics.median(gaps),
        "frame_ms_99": gaps[len(gaps) * 99 // 100],
        "frame_ms_longest": gaps[-1],
    }


def read_events(url, ends):
    """As a page does: everything that it is made of, and then its events."""
    for path in ("/", "/dashboard.js", "/dashboard.css", "/uplot.js", "/uplot.css"):
        urllib.request.urlopen(url + path).read()
    with urllib.request.urlopen(url + "/events") as events:
        while not ends.is_set() and events.readline():
            pass


def processor_seconds(process):
    """Of each thread: {(its number, its name): seconds}."""
    times = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        times[int(task.name), name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return times


def rounds_done(out):
    rows = (out / "metrics.jsonl").read_text().splitlines()
    return json.loads(rows[-1])["round"]


def trained(folder, seconds, pages):
    """Processor seconds of the dashboard's threads, of the main thread, and of all; and the rounds meanwhile."""
    from command_line import ENVIRONMENT, SIGNVOTE, flags
    from generated_data import mnist

    out = folder / f"run-{pages}"
    options = {
        "data": mnist(),
        "batches": f"{WORKERS}x4",
        "partition": "shared",
        "rounds": 1_000_000,
        "eval_every": 10,
        "out": out,
    }
    shown = ["--dashboard", "127.0.0.1:0"] if pages else []
    process = subprocess.Popen([SIGNVOTE, "train", *flags(options), *shown], stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    ends = threading.Event()
    try:
        while not (out / "metrics.jsonl").exists() or not (out / "metrics.jsonl").read_text():
            time.sleep(0.1)
        for _ in range(pages):
            url = (out / "dashboard.url").read_text().strip().rstrip("/")
            threading.Thread(target=read_events, args=(url, ends), daemon=True).start()
        before, rounds = processor_seconds(process), rounds_done(out)
        time.sleep(seconds)
        after, rounds = processor_seconds(process), rounds_done(out) - rounds
    finally:
        ends.set()
        process.kill()
        process.wait()
    spent = {thread: now - before.get(thread, 0) for thread, now in after.items()}
    of_page = sum(time for (_, name), time in spent.items() if name == "dashboard" or name.upper().startswith("MHD"))
    main = sum(time for (number, _), time in spent.items() if number == process.pid)
    return of_page, main, sum(spent.values()), rounds


def share(quick):
    seconds = 5 if quick else 60
    with tempfile.TemporaryDirectory() as folder:
        of_page, main, all_threads, rounds = trained(pathlib.Path(folder), seconds, 3)
        _, main_alone, _, rounds_alone = trained(pathlib.Path(folder), seconds, 0)
    more = main - main_alone * rounds / rounds_alone
    return {
        "bench": "dashboard",
        "name": "share",
        "workers": WORKERS,
        "rounds": rounds,
        "threads_seconds": of_page,
        "main_more_seconds": more,
        "run_seconds": all_threads,
        "share": (of_page + max(0, more)) / all_threads,
    }


def dashboard(quick):
    from browser import playwright

    rows = []
    try:
        playwright()
        rows.append(page(quick))
    except unittest.SkipTest as why:
        print(f"dashboard: {why}; the page was not measured")
    rows.append(share(quick))
    print(f"\nThe dashboard, {WORKERS} workers")
    for row in rows:
        if row["name"] == "page":
            print(
                f"  page after {row['rounds']:,} rounds: whole after {row['opened_seconds']:.2f} s (the first time "
                f"{row['first_opened_seconds']:.2f}), {row['bytes'] / 1e3:.0f} kB of numbers; a frame every "
                f"{row['frame_ms']:.0f} ms, 99 % within {row['frame_ms_99']:.0f}, longest {row['frame_ms_longest']:.0f}"
            )
        else:
            print(
                f"  three pages: its threads took {row['threads_seconds']:.2f} s, the training's own thread "
                f"{row['main_more_seconds']:+.2f} s, of {row['run_seconds']:.1f} s of the run: {row['share']:.2%}"
            )
    return rows


def dashboard_goals(rows):
    found = {row["name"]: row for row in rows if row["bench"] == "dashboard"}
    opened = [found["page"]["opened_seconds"]] if "page" in found else []
    frame = [found["page"]["frame_ms_99"]] if "page" in found else []
    share_of_run = [found["share"]["share"]] if "share" in found else []
    return [
        ("dashboard, seconds until the page of 64 workers is whole", opened, 1.0, False),
        ("dashboard, milliseconds from frame to frame on that page, 99 %", frame, 50, False),
        ("dashboard, share of the run's processor time, three pages open", share_of_run, 0.01, False),
    ]
