"""python tests/support/make_live.py: make docs/live.html and its picture docs/live.png anew.

The picture is the first screen of the saved page; it needs Playwright and a Chromium.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from browsers import NAMES

ROOT = Path(__file__).resolve().parents[2]
SIZE = {"width": 1000, "height": 800}


def main():
    from playwright.sync_api import sync_playwright  # here, as the tests collect this module

    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page, picture = Path(folder, "live.html"), Path(folder, "live.png")
        subprocess.run([sys.executable, "main.py", "play", "--save", page], cwd=ROOT, check=True)
        found = next(filter(None, map(shutil.which, NAMES)), None)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE, reduced_motion="reduce")  # the end of the race
        tab.goto(page.as_uri())
        tab.screenshot(path=picture)
        browser.close()
        for made in (page, picture):
            shutil.copyfile(made, ROOT / "docs" / made.name)


if __name__ == "__main__":
    main()
