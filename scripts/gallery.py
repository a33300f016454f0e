"""Makes docs/gallery: a small picture of a page of every kind, from simulated and generated runs; needs a browser.

make gallery
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from edgetrain import api
from edgetrain.record import FolderStore
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.recording import write_record

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
WIDE, TALL = 1180, 1320
SMALL = 760  # pixels across, in the repository
CAMPAIGN = """
name: workers by storage
device: sim:orin-agx
network: mobilenet_v3
dataset_scale: 0.05
cache: cold
epochs: 3
repeats: 2
factors:
  workers: [0, 1, 2, 4]
  storage: [hdd, sd, ssd]
"""


def main() -> None:
    """Write every picture."""
    GALLERY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        root = Path(folder)
        os.environ["XDG_STATE_HOME"] = str(root / "state")
        store = root / "store"
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        run = make_runs(store)
        pages = {
            "run": [run],
            "campaign": ["workers by storage"],
            "comparison": [row.run for row in api.runs(store, campaign="workers by storage")][::6],
            "modes": [str(make_modes(root))],
        }
        for kind, names in pages.items():
            limits = api.ModeLimits("orin-agx", "20W") if kind == "modes" else None
            target = root / f"{kind}.html"
            api.write_report(names, target, store=store, limits=limits)
            shoot(browser, target.as_uri(), GALLERY / f"{kind}.png")
        shoot(browser, (root / "run.html").as_uri(), GALLERY / "run-dark.png", dark=True)
        shoot(browser, (root / "run.html").as_uri(), GALLERY / "run-phone.png", width=390, tall=780)
        shoot_live(browser, store)
        browser.close()
        api.figures(["workers by storage"], root / "figures", store, ("png",))
        shrink(root / "figures" / "time-by-setting.png", GALLERY / "figure-stacked.png", 560)
        top = subprocess.run(
            [sys.executable, "-m", "edgetrain", "top", "--once", "--store", str(store)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        (GALLERY / "top.txt").write_text(top.stdout)


def make_runs(store: Path) -> str:
    """Record one run and a small campaign on a simulated board; return the run."""
    run = api.execute(
        "mobilenet_v3", device="sim:orin-agx", store=store, epochs=4, workers=1, dataset_scale=0.05, baseload_s=3
    )
    plan = store.parent / "plan.yaml"
    plan.write_text(CAMPAIGN)
    api.Campaign(plan, store=store).run()
    return run.id


def make_modes(root: Path) -> Path:
    """Write invented modes, by a formula: some, from which the others are predicted. The name is on the picture."""
    path = root / "invented example.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["cores", "cpu_khz", "gpu_hz", "emc_hz", "time_ms", "power_mw"])
        for cores, cpu_khz in ((4, 729_600), (8, 1_497_600), (12, 2_201_600)):
            for gpu_hz in (114_750_000, 420_750_000, 828_750_000, 1_300_500_000):
                for emc_hz in (665_600_000, 2_133_000_000, 3_199_000_000):
                    time_ms = 4.6e10 / gpu_hz + 3.1e10 / emc_hz + 1.1e5 / (cores * cpu_khz / 1000)
                    power_mw = 9_000 + gpu_hz * 1.9e-5 + emc_hz * 1.1e-6 + cores * cpu_khz * 2.4e-4
                    writer.writerow([cores, cpu_khz, gpu_hz, emc_hz, f"{time_ms:.3f}", f"{power_mw:.0f}"])
    return path


def shoot(
    browser: Browser,
    address: str,
    target: Path,
    dark: bool = False,
    width: int = WIDE,
    tall: int = TALL,
    ready: str = "body",
) -> None:
    """Take a picture of the top of a page, once it has an element that fits `ready`."""
    context = browser.new_context(viewport={"width": width, "height": tall}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(ready, timeout=120_000)
    page.wait_for_timeout(1200)
    page.screenshot(path=str(target))
    context.close()
    shrink(target, target, min(width, SMALL))


def shrink(source: Path, target: Path, width: int) -> None:
    """Make a picture small, in few colours."""
    with Image.open(source) as picture:
        tall = round(picture.height * width / picture.width)
        small = picture.convert("RGB").resize((width, tall), Image.Resampling.LANCZOS)
    few = small.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    # The colour of the page itself stays exact: all pictures have the same.
    places, exact = few.load(), small.load()
    palette = few.getpalette() or []
    for x, y in ((0, 0), (width // 2, 0)):
        place = places[x, y]
        palette[3 * place : 3 * place + 3] = exact[x, y]
    few.putpalette(palette)
    few.save(target, optimize=True)


def shoot_live(browser: Browser, store: Path) -> None:
    """Take a picture of the live page beside a run that is being recorded."""
    import uvicorn

    from edgetrain.api.serving import RecordPages
    from edgetrain.live import AccessRules, ServerOptions, Watcher, build_application, listen_on

    started = datetime.now(timezone.utc) - timedelta(seconds=45)
    write_record(
        store, epochs=3, minibatches=300, state="running", runner={"pid": os.getpid(), "boot": None},
        started_wall=started.isoformat(timespec="seconds"),
    )  # fmt: skip
    place = FolderStore(store)
    listening = listen_on("127.0.0.1", 0)
    rules = AccessRules(("127.0.0.1",), "token")
    watcher = Watcher(place, 40.0, lambda: round(1_040e6))
    application = build_application(watcher, RecordPages(place), ServerOptions(rules, whatif=True, interval_s=0.3))
    server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    shoot(browser, address, GALLERY / "live.png", ready="#whatif-said[data-interval=there]")
    server.should_exit = True
    thread.join(5)


if __name__ == "__main__":
    main()
