"""deploy/systemd/ommatidia.service: systemd takes it, it gives little away, and its command line
starts a server that notifies when it is ready."""

import os
import pathlib
import re
import socket
import subprocess

import pytest

UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "ommatidia.service"
MAX_EXPOSURE = 1.5  # of 10, as systemd-analyze counts


@pytest.fixture
def unit(request, tmp_path):
    """A copy with the program's own path, which systemd wants to exist."""
    path = tmp_path / UNIT.name
    program = str(pathlib.Path(request.config.getoption("--omma")).resolve())
    path.write_text(UNIT.read_text().replace("/usr/local/bin/omma", program))
    return path


def analyze(need, *arguments):
    done = subprocess.run([need("systemd-analyze"), *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_systemd_takes_it(need, unit):
    assert analyze(need, "verify", "--man=no", str(unit)) == (0, "")


def test_it_gives_little_away(need, unit):
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", analyze(need, "security", "--offline=true", str(unit))[1])
    assert found and float(found[1]) <= MAX_EXPOSURE


def test_its_command_line_starts_a_server(request, unit, tmp_path):
    command = re.search(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)[1].split()
    (tmp_path / "api-keys").write_text("a-key\n")
    words = [word.replace("%d", str(tmp_path)) for word in command]
    words[words.index("/srv/models/qwen3-vl-2b")] = request.config.getoption("--model")
    words[words.index("8000")] = "0"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000000"}
        with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
            message = ""
            while "READY=1" not in message:
                message = manager.recv(4096).decode()
            process.terminate()
            said = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and "1 API key;" in said, said
