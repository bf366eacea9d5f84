#!/usr/bin/env python3
"""How long after its address is opened the page at / is first painted, compared with a page of one
line, in headless Chromium.

    build/venv-page/bin/python bench/first_paint.py [--omma build/release/omma] [--rounds 15]

Both pages are loaded in turn in one tab, from servers of this machine; the first two rounds are not
counted. Needs what tests/page needs.
"""

import argparse
import http.server
import pathlib
import statistics
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "page"), str(ROOT / "tests" / "server")]

from browser import start_browser  # noqa: E402
from page import Page  # noqa: E402
from server_process import ServerProcess  # noqa: E402

WARM_UP = 2
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


class OneLine(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<!doctype html><title>one line</title><p>one line"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--omma", type=pathlib.Path, default=ROOT / "build" / "release" / "omma")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    server = ServerProcess([options.omma, "serve", "--model", ROOT / "models" / "demo", "--port", "0"])
    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneLine)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    browser = start_browser()
    times = {"page": [], "one line": []}
    try:
        page = Page(browser, f"http://127.0.0.1:{server.port}/", 1000, 800)
        for _ in range(WARM_UP + options.rounds):
            for name, port in (("page", server.port), ("one line", other.server_port)):
                browser.get(f"http://127.0.0.1:{port}/")
                times[name].append(page.wait(lambda: page.run(PAINT), "the first paint"))
    finally:
        browser.quit()
        other.shutdown()
        server.stop()
    for name, all_times in times.items():
        counted = all_times[WARM_UP:]
        print(f"{name:<10} median {statistics.median(counted):.0f} ms, most {max(counted):.0f} ms")


if __name__ == "__main__":
    main()
