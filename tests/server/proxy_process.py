"""omma-encoder-proxy from this tree, as a child process."""

import os
import pathlib
import re
import subprocess
import sys

from server_process import ServerProcess
from waiting import wait_for

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python" / "vllm_ommatidia"
COMMAND = [sys.executable, "-m", "vllm_ommatidia.proxy"]


def environment(**variables):
    without_keys = {name: value for name, value in os.environ.items() if name not in ("OMMA_API_KEY", "VLLM_API_KEY")}
    return without_keys | {"PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": "1", **variables}


def words(vllm, *nodes, **options):
    command = [*COMMAND, "--port", "0", "--vllm", vllm, *(word for url in nodes for word in ("--encoder", url))]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    return command


class ProxyProcess(ServerProcess):
    """Ready when the constructor returns, unless `ready` is false."""

    def __init__(self, vllm, *nodes, keys=None, ready=True, **options):
        super().__init__(words(vllm, *nodes, **options), env=environment(**(keys or {})))
        if ready:
            wait_for(lambda: self.get("/health").status == 200, "a proxy that is ready")

    def metrics(self):
        text = self.get("/metrics").body.decode()
        return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", text, re.M)}

    def metric(self, name):
        """The sum of the samples with this name and labels, which may be given in part."""
        return sum(value for key, value in self.metrics().items() if key.startswith("omma_proxy:" + name))


def run_to_end(*arguments, **variables):
    """A proxy that does not start: its status and last line."""
    done = subprocess.run([*COMMAND, *arguments], env=environment(**variables), capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr.strip().splitlines()[-1]
