"""The real server, which a model in the process is compared with."""

import sys
from pathlib import Path

import ommatidia
import pytest

ROOT = Path(__file__).resolve().parents[2]
TREE = Path(ommatidia.__file__).parent
DEMO = ROOT / "models" / "demo"
GOLDEN = ROOT / "tests" / "golden"
IMAGES = GOLDEN / "images"

sys.path.insert(0, str(ROOT / "tests" / "server"))
from server_process import ServerProcess  # noqa: E402


def program(config):
    """The program of the same build: of the wheel, or next to the tree."""
    path = Path(config.getoption("--omma") or TREE.parent.parent / "release" / "omma")
    if not path.exists():
        pytest.skip("the program is not there")
    return path


class Served:
    """`omma serve` with these options."""

    def __init__(self, config, model, *options):
        command = [program(config), "serve", model, "--port", "0", *options]
        self.process = ServerProcess([str(word) for word in command])

    def post(self, path, body):
        import json

        reply = self.process.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return reply.status, reply.json

    def stop(self):
        self.process.stop()


# What differs from one request to the next by its nature.
_OWN = {"id", "created", "model", "usage", "system_fingerprint", "ommatidia"}


def answers(reply):
    """A reply without ids, times and figures of caches."""
    kept = {key: value for key, value in reply.items() if key not in _OWN}
    for choice in kept.get("choices", []):
        for call in choice.get("message", {}).get("tool_calls") or []:
            call["id"] = ""
    return kept
