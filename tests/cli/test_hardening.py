"""What the linker made of the libraries and the program: read-only relocations, all bound at the
start, no executable stack, stack protectors, checked string functions, a position-independent
program, and marks for control-flow enforcement where the system's own start files have them.

Run with: pytest tests/cli --omma build/release/omma
"""

import pathlib
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.release_only
PROGRAMS = ["omma", "omma-bench"]
FILES = [*PROGRAMS, "libomma.so", "libomma-attention.so"]


@pytest.fixture(scope="module")
def build(request):
    folder = pathlib.Path(request.config.getoption("--omma")).resolve().parent
    if not (folder / "CMakeCache.txt").exists():
        pytest.skip("not in a build folder")
    if not shutil.which("readelf"):
        pytest.skip("no readelf")
    settings = dict(re.findall(r"^(\w+):\w+=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M))
    if settings.get("OMMA_SANITIZE") or settings.get("OMMA_FUZZ") == "ON" or settings["CMAKE_BUILD_TYPE"] == "Debug":
        pytest.skip("a build that looks for faults")
    return folder


def readelf(*words):
    return subprocess.run(["readelf", "-W", *map(str, words)], capture_output=True, text=True, check=True).stdout


@pytest.fixture(params=FILES)
def file(request, build):
    if not (build / request.param).exists():
        pytest.skip(f"{request.param} is not built")
    return build / request.param


def test_relocations_are_read_only_and_bound_at_the_start(file):
    assert "GNU_RELRO" in readelf("-l", file)
    assert re.search(r"\(FLAGS\).*BIND_NOW", readelf("-d", file)) and re.search(r"\(FLAGS_1\).*\bNOW\b", readelf("-d", file))


def test_the_stack_is_not_executable_and_no_segment_is_written_and_executed(file):
    segments = re.findall(r"^ +(\w+) +(?:0x\w+ +){5}([RWE ]{3})", readelf("-l", file), re.M)
    flags = dict(segments)
    assert flags["GNU_STACK"].strip() == "RW"
    assert not any("W" in each and "E" in each for _, each in segments), segments


def test_stacks_are_protected_and_calls_checked(file):
    symbols = readelf("--dyn-syms", file)
    assert "__stack_chk_fail" in symbols
    checked = set(re.findall(r"\b(__\w+_chk)\b", symbols))
    assert {"__memcpy_chk", "__snprintf_chk"} <= checked, checked


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_position_independent(build, program):
    assert re.search(r"Type: +DYN", readelf("-h", build / program))
    assert re.search(r"\(FLAGS_1\).*\bPIE\b", readelf("-d", build / program))


def marks(path):
    return set(re.findall(r"\b(IBT|SHSTK)\b", readelf("-n", path)))


def test_control_flow_is_marked_where_the_system_allows_it(file, build, tmp_path):
    """Each object has the marks; the linker keeps them if the C library's start files have them."""
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    options = ["-fcf-protection=full", "-o", tmp_path / "empty"]
    done = subprocess.run(["cc", *options, *([] if file.name in PROGRAMS else ["-shared", "-fPIC"]), source], capture_output=True)
    if done.returncode:
        pytest.skip("the compiler has no control-flow protection")
    assert marks(file) >= marks(tmp_path / "empty")
    (one,) = list(build.glob("src/CMakeFiles/*/base/allocator.c.o"))[:1]
    assert marks(one) == {"IBT", "SHSTK"}
