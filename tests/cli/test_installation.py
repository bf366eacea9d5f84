"""What an installation leaves: nothing that others may write, nothing that its users cannot read,
whatever the umask of who installs; and `omma encode` on a disk that is full.

Run with: pytest tests/cli --omma build/release/omma
"""

import os
import pathlib
import re
import shutil
import stat
import subprocess

import pytest

pytestmark = pytest.mark.release_too
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("umask", ["002", "022", "077"])
def test_modes_of_installed_files(request, tmp_path, umask):
    build = pathlib.Path(request.config.getoption("--omma")).resolve().parent
    if not (build / "cmake_install.cmake").exists() or not (build / "libomma.so").exists() or not (build / "manual").exists():
        pytest.skip("not a whole build")
    prefix = tmp_path / "prefix"
    prefix.mkdir(mode=0o755)
    done = subprocess.run(["sh", "-c", f'umask {umask}; exec cmake --install "$1" --prefix "$2"', "sh", build, prefix], capture_output=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    n = 0
    for path in prefix.rglob("*"):
        if path.is_symlink():
            assert (path.parent / os.readlink(path)).exists() and not os.readlink(path).startswith("/"), path
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        program = path.parent.name == "bin" or ".so" in path.name
        assert mode in ((0o755,) if path.is_dir() or program else (0o644,)) or (program and mode == 0o644), (path, oct(mode))
        n += 1
    assert n > 20 and all((prefix / "bin" / name).exists() for name in ("omma", "omma-bench"))


def test_pages_that_the_program_names_are_installed(request, omma, tmp_path):
    build = pathlib.Path(request.config.getoption("--omma")).resolve().parent
    if not (build / "cmake_install.cmake").exists() or not (build / "libomma.so").exists() or not (build / "manual").exists():
        pytest.skip("not a whole build")
    assert subprocess.run(["cmake", "--install", build, "--prefix", tmp_path], capture_output=True, timeout=300).returncode == 0
    texts = [*(program.read_bytes() for program in (tmp_path / "bin").iterdir()), *(page.read_bytes() for page in tmp_path.rglob("*.1"))]
    named = {name.replace(b"\\", b"").decode() for text in texts for name in re.findall(rb"docs/[a-z_/\\-]+\.md", text)}
    assert {"docs/quantization.md", "docs/structured-output.md"} <= named
    for name in named:
        assert (tmp_path / "share/doc/ommatidia" / name).is_file(), name


def test_cmake_finds_the_libraries(request, tmp_path):
    """Under their own sonames, which what copies them next to a program goes by."""
    build = pathlib.Path(request.config.getoption("--omma")).resolve().parent
    if not (build / "cmake_install.cmake").exists() or not (build / "libomma.so").exists() or not (build / "manual").exists():
        pytest.skip("not a whole build")
    assert subprocess.run(["cmake", "--install", build, "--prefix", tmp_path / "prefix"], capture_output=True, timeout=300).returncode == 0
    names = ("attention", "omma", "service")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(user C)\nfind_package(ommatidia REQUIRED COMPONENTS attention omma service)\n"
        + "".join(f"file(GENERATE OUTPUT {name} CONTENT $<TARGET_SONAME_FILE:ommatidia::{name}>)\n" for name in names))
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "out", f"-DCMAKE_PREFIX_PATH={tmp_path}/prefix"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in names:
        soname = pathlib.Path((tmp_path / "out" / name).read_text())
        assert soname.is_symlink() and soname.resolve().name.startswith("libomma"), soname


def test_every_header_and_a_page_for_every_command(request, omma, tmp_path):
    build = pathlib.Path(request.config.getoption("--omma")).resolve().parent
    if not (build / "cmake_install.cmake").exists() or not (build / "libomma.so").exists() or not (build / "manual").exists():
        pytest.skip("not a whole build")
    assert subprocess.run(["cmake", "--install", build, "--prefix", tmp_path], capture_output=True, timeout=300).returncode == 0
    public = {path.name for path in (REPOSITORY / "include" / "omma").glob("*.h")}
    assert {path.name for path in (tmp_path / "include" / "omma").iterdir()} == public
    listed = subprocess.run([omma.path, "help"], capture_output=True, text=True, timeout=60, check=True).stdout
    commands = set(re.findall(r"^  ([a-z]+(?: [a-z]+)?)(?:, [a-z-]+)*  ", listed, re.M))
    assert {"chat", "read", "bench serve"} <= commands
    pages = {page.name for page in (tmp_path / "share" / "man" / "man1").iterdir()}
    assert pages == {"omma.1", "omma-bench.1", *(f"omma-{command.replace(' ', '-')}.1" for command in commands)}


def encode(omma, model, images, output):
    return [omma.path, "encode", "--model", model, str(images / "meadow_163x97.jpg"), "--output", str(output)]


def test_encode_on_a_full_disk(omma, model, images, tmp_path):
    """A file system of 8 KiB, in a name space of the test's own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = 'mount -t tmpfs -o size=8k none "$1" || exit 77; disk=$1; shift; "$@"; status=$?; ls -A "$disk"; exit $status'
    if not shutil.which("unshare"):
        pytest.skip("no unshare")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", disk, *encode(omma, model, images, disk / "out.safetensors")],
                          capture_output=True, text=True, timeout=120)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"nothing can be mounted: {done.stderr}")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr, done
    assert done.stdout == ""  # nothing is left of it


def test_encode_does_not_replace_a_device(omma, model, images):
    done = subprocess.run(encode(omma, model, images, "/dev/full"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.startswith("omma: /dev/full: ") and done.stderr.count("\n") == 1, done
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("command, name", [("encode", "a.safetensors"), ("preprocess", "a.safetensors"), ("embed", "a.npy")])
def test_a_file_that_may_not_grow(omma, images, tmp_path, command, name):
    """By `ulimit -f`: a line, and nothing is left of the file. The signal ended the program."""
    words = [omma.path, command, *[str(images / "meadow_163x97.jpg")] * 8, "-o", tmp_path / name]
    done = subprocess.run(["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *map(str, words)], capture_output=True, timeout=60)
    assert done.returncode == 1 and b"File too large" in done.stderr and not list(tmp_path.iterdir()), done
