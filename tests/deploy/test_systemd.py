"""deploy/systemd/ommatidia.service and omma-encoder-proxy.service: systemd takes them, they give
little away, and their command lines start programs that notify when they are ready."""

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

from fake_vllm import KEY, FakeVllm
from proxy_process import PACKAGE

UNITS = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "systemd"
MAX_EXPOSURE = 1.5  # of 10, as systemd-analyze counts


def copy_of(name, program, path):
    """With a program that is here, as systemd wants it to exist."""
    copy = path / name
    copy.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={program}", (UNITS / name).read_text(), flags=re.M))
    return copy


@pytest.fixture
def unit(request, tmp_path):
    return copy_of("ommatidia.service", pathlib.Path(request.config.getoption("--omma")).resolve(), tmp_path)


@pytest.fixture
def proxy_unit(tmp_path):
    return copy_of("omma-encoder-proxy.service", sys.executable, tmp_path)


def analyze(need, *arguments):
    done = subprocess.run([need("systemd-analyze"), *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_systemd_takes_them(need, unit, proxy_unit):
    for path in (unit, proxy_unit):
        assert analyze(need, "verify", "--man=no", str(path)) == (0, "")


def test_they_give_little_away(need, unit, proxy_unit):
    for path in (unit, proxy_unit):
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", analyze(need, "security", "--offline=true", str(path))[1])
        assert found and float(found[1]) <= MAX_EXPOSURE


def words_of(unit):
    return re.search(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)[1].split()


def run_until_ready(words, folder, **variables):
    """What a service says from its start to an end by SIGTERM once it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(120)
        environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), **variables}
        with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
            message = ""
            while "READY=1" not in message:
                message = manager.recv(4096).decode()
            process.terminate()
            said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    return said


def test_its_command_line_starts_a_server(request, unit, tmp_path):
    (tmp_path / "api-keys").write_text("a-key\n")
    words = [word.replace("%d", str(tmp_path)) for word in words_of(unit)]
    words[words.index("/srv/models/qwen3-vl-2b")] = request.config.getoption("--model")
    words[words.index("8000")] = "0"
    assert "1 API key;" in run_until_ready(words, tmp_path, WATCHDOG_USEC="60000000")


def test_its_command_line_starts_a_proxy(proxy_unit, start, tmp_path):
    vllm, node = FakeVllm(), start(mm_encoder_only=True, api_key="of the nodes")
    vllm.wants_key, vllm.node_key = True, "of the nodes"
    (tmp_path / "encoder-api-key").write_text("of the nodes\n")
    (tmp_path / "vllm-api-keys").write_text(f"{KEY}\n")
    ports = {"8000": "0", "http://127.0.0.1:8100": f"http://127.0.0.1:{node.port}", "http://127.0.0.1:8200": vllm.url}
    words = [ports.get(word, word).replace("%d", str(tmp_path)) for word in words_of(proxy_unit)]
    try:
        said = run_until_ready(words, tmp_path, PYTHONPATH=str(PACKAGE))
    finally:
        vllm.stop()
    assert "1 of 1 encoder nodes are up" in said
