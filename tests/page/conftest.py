"""The page at / in headless Chromium, of the system, with its chromedriver: nothing is fetched from
anywhere.

    python -m pytest tests/page --omma build/release/omma --fake build/release/tests/omma_fake_server

One browser serves all tests; each has a tab of its own, and none may leave anything in the
browser's console."""

import pathlib
import sys

import pytest

from browser import start_browser
from page import Page

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "server"))

from server_process import ServerProcess, check_output, make_command  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program")
    parser.addoption("--fake", required=True, help="the server over the scripted engine")
    parser.addoption("--screenshots", help="a folder for images of what is shown, to be looked at")
    parser.addoption("--model", default=str(ROOT / "models" / "demo"), help="the model that is asked")


def pytest_configure(config):
    for name in ("real_too", "real_only"):  # of tests/server, whose helpers are used here
        config.addinivalue_line("markers", f"{name}: see tests/server/conftest.py")


@pytest.fixture(scope="session")
def browser():
    driver = start_browser()
    yield driver
    driver.quit()


@pytest.fixture
def open_page(browser):
    """open_page(server, path="/", width=1000, height=900, host="127.0.0.1") is the server's page
    in a tab of its own."""
    pages = []

    def opened(server, path="/", width=1000, height=900, host="127.0.0.1"):
        pages.append(Page(browser, f"http://{host}:{server.port}{path}", width, height))
        return pages[-1]

    yield opened
    for page in pages:
        page.close()
    for page in pages:
        assert not page.complaints(), page.complaints()


@pytest.fixture(scope="session")
def servers(request):
    """servers(kind, option=value, ...) is such a server, the same for all tests that want it."""
    started = {}

    def find(kind, **options):
        key = (kind, *sorted(options.items()))
        if key not in started:
            started[key] = ServerProcess(make_command(request.config, kind, options))
        return started[key]

    yield find
    for server in started.values():
        server.stop()
        check_output(server)


@pytest.fixture
def demo(servers):
    """The program with the demo model."""
    return servers("real")


@pytest.fixture
def scripted(servers):
    """The server over the scripted engine, whose answers are as long and as slow as the question
    asks."""
    return servers("fake")
