#!/usr/bin/env python3
"""Photographs the page at / for README.md: the demo model is asked about a drawing, in headless
Chromium, light theme.

    build/venv-page/bin/python tools/page_image.py [--omma build/release/omma] [--output docs/images/page.png]

Needs what tests/page needs, and uses its code.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "page"), str(ROOT / "tests" / "server")]

from browser import start_browser  # noqa: E402
from page import Page  # noqa: E402
from server_process import ServerProcess  # noqa: E402

IMAGES = ROOT / "models" / "demo" / "images"
WIDTH, HEIGHT = 860, 990
TURNS = [("Where is the orange cross?", ["cross.png"]), ("What shape is this?", [])]


def photograph(page, output):
    for number, (question, images) in enumerate(TURNS, 1):
        if images:
            page.attach(*(IMAGES / name for name in images))
        page.ask(question)
        page.wait_for_answer(number)
    page.run("scrollTo(0, document.documentElement.scrollHeight); document.activeElement.blur()")
    page.browser.save_screenshot(str(output))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--omma", type=pathlib.Path, default=ROOT / "build" / "release" / "omma")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "images" / "page.png")
    options = parser.parse_args()
    server = ServerProcess([options.omma, "serve", "--model", ROOT / "models" / "demo", "--port", "0"])
    browser = start_browser()
    try:
        page = Page(browser, f"http://127.0.0.1:{server.port}/", WIDTH, HEIGHT)
        page.prefer_dark(False)
        photograph(page, options.output)
    finally:
        browser.quit()
        server.stop()
    print(f"{options.output}: {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
