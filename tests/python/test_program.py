"""The program omma in the wheel: built in where what it needs is installed, and whole wherever the
environment lies."""

import os
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def omma(request):
    """The program of the installed wheel."""
    path = request.config.getoption("--omma")
    if not path:
        pytest.skip("needs an installed wheel: make test-wheel")
    return Path(path).absolute()


def run(*command, **environment):
    return subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def configure(folder, choice, **environment):
    return run("cmake", "-S", ROOT / "python" / "native", "-B", folder, f"-DOMMA_ATTENTION_ONLY={choice}", **environment)


def test_build_without_packages_names_what_is_missing(tmp_path):
    nothing = {"PKG_CONFIG_LIBDIR": str(tmp_path), "PKG_CONFIG_PATH": ""}
    done = configure(tmp_path / "auto", "AUTO", **nothing)
    lines = [line for line in done.stdout.splitlines() if "Without the program omma" in line]
    assert done.returncode == 0, done.stderr
    assert len(lines) == 1 and "libmicrohttpd" in lines[0] and "tools/install_packages.sh" in lines[0]


def test_version(omma):
    assert run(omma, "--version").stdout.split()[1] == metadata.version("ommatidia")


def test_chat_finds_the_demo_model(omma):
    image = omma.parents[1] / "share" / "ommatidia" / "demo" / "images" / "cross.png"
    done = run(omma, "chat", "--image", image, "--prompt", "What color is the cross?")
    assert done.returncode == 0 and "orange" in done.stdout, done.stderr


def files(omma):
    """What runs of the wheel: programs and libraries. A manylinux wheel has the programs elsewhere,
    and scripts in their place."""
    site = Path(metadata.distribution("ommatidia").locate_file("."))
    moved = site / "ommatidia.scripts"
    folder = moved if moved.exists() else omma.parent
    return [folder / "omma", folder / "omma-bench", *(site / "ommatidia").glob("*.so")]


def is_manylinux():
    return any("manylinux" in line for line in (metadata.distribution("ommatidia").read_text("WHEEL") or "").splitlines())


def test_program_stands_on_no_build_folder_and_no_other_libomma(omma):
    found = files(omma)
    assert {file.name for file in found} == {"omma", "omma-bench", "libomma.so", "libomma-service.so", "libomma-attention.so"}
    for file in found:
        dynamic = run("readelf", "-d", file, LC_ALL="C").stdout
        paths = re.findall(r"(?:RPATH|RUNPATH).*\[(.*)\]", dynamic)
        assert "NEEDED" in dynamic and set(paths) <= ({"$ORIGIN/../ommatidia.libs"} if is_manylinux() else set())
        assert not re.search(r"NEEDED.*libomma", dynamic)


# What auditwheel takes for granted of a system, of what these files need.
SYSTEM = r"(ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|z|resolv))\.so\.\d+|linux-vdso\.so\.1"


def test_a_manylinux_wheel_needs_nothing_of_the_system(omma):
    if not is_manylinux():
        pytest.skip("this wheel was not made by tools/make_wheel.sh")
    folder = str(Path(metadata.distribution("ommatidia").locate_file("ommatidia.libs")).resolve())
    for file in files(omma):
        for line in run("ldd", file, LC_ALL="C").stdout.splitlines():
            name, _, place = line.strip().partition(" => ")
            resolved = os.path.realpath(place.partition(" (")[0])
            assert resolved.startswith(folder) or re.fullmatch(SYSTEM, Path(name.partition(" (")[0]).name), line


def test_manual_pages_come_with_the_program(omma):
    pages = {page.name for page in (omma.parents[1] / "share" / "man" / "man1").iterdir()}
    assert {"omma.1", "omma-chat.1", "omma-serve.1", "omma-bench.1", "omma-bench-serve.1"} <= pages


def test_the_client_of_a_server_comes_with_the_program(omma):
    assert run(omma, "bench", "serve", "--help").stdout.startswith("Usage: omma bench serve ")
