"""The program on damaged model directories: it answers, or ends with status 1 and one line that
states why; without a report of a sanitizer, in bounded processor time and memory. With --full two
thousand of them."""

import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import subprocess

import pytest
from builds import is_instrumented
from mutate_checkpoint import GOLDEN, SEED, make_models, mutate

FEW, MANY = 33, 2000
CPU_SECONDS = 60
# than a sound one takes, which is 35 MiB but for what plan reads to measure the memory
MORE_BYTES = 365 << 20
COMMANDS = {
    "verify": ["verify"],
    "info": ["info"],
    "plan": ["plan", "64x64"],
    "chat": ["chat", "--prompt", "two red circles", "--image", str(GOLDEN / "images" / "meadow_163x97.jpg"), "--max-pixels", "4096",
             "--max-tokens", "2"],
}
# Too large a size is a failed allocation there too, and sanitizers tell of themselves by their own
# status.
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=4096:exitcode=99",
              "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=98"}
RAW = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def run(omma, words, output):
    """Status, what was printed, and the peak of memory in bytes. A process that waits for something
    else than the CPU would never end: it waits here as well, until the timeout far away."""
    with open(output, "wb+") as out, open(f"{output}.errors", "wb+") as errors:
        process = subprocess.Popen([omma, *words, "--threads", "1"], stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                   env={**os.environ, **SANITIZERS}, preexec_fn=limit)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        return process.returncode, out.read(), errors.read(), usage.ru_maxrss * 1024


def fault(name, status, printed, errors, peak, max_bytes):
    """What is wrong with a run, or None; max_bytes: bytes that it may take, None: any."""
    lines = [line for line in errors.splitlines() if b"WARNING: AddressSanitizer failed to allocate" not in line]
    if status not in (0, 1):
        return f"status {status}"
    if b"Sanitizer" in b"\n".join(lines) or b"runtime error" in errors:
        return "a sanitizer's report"
    if RAW.search(errors) or (name != "chat" and RAW.search(printed)):
        return "control characters"
    if any(not line.startswith(b"omma: ") for line in lines):
        return "a line that is not the program's"
    printed_lines = [line for line in lines if not line.startswith(b"omma: warning: ")]
    if status == 1 and len(printed_lines) != 1:
        return f"{len(printed_lines)} lines of error"
    if max_bytes is not None and peak > max_bytes:
        return f"{peak >> 20} MiB"
    return None


def sound_peaks(omma, folder):
    """What each command takes on a model that nothing was done to."""
    return {name: run(omma, [*words, "--model", str(GOLDEN / "qwen3_vl_tied")], folder / "output")[3] for name, words in COMMANDS.items()}


def try_one(omma, models, number, folder, max_bytes):
    """All commands on one damaged copy; the faults, each in a line."""
    model, done = mutate(models, number, folder / "model")
    faults = []
    for name, words in COMMANDS.items():
        ended = run(omma, [*words, "--model", str(folder / "model")], folder / "output")
        found = fault(name, *ended, max_bytes.get(name))
        if found:
            faults.append(f"mutate_checkpoint.py {number} (seed {SEED}, {model}: {done}): {name}: {found}: {ended[2][-600:]}")
    shutil.rmtree(folder)
    return faults


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return make_models(tmp_path_factory.mktemp("models"))


@pytest.mark.release_too
def test_damaged_checkpoints(omma, request, models, tmp_path):
    max_bytes = {} if is_instrumented(omma.path) else {name: peak + MORE_BYTES for name, peak in sound_peaks(omma.path, tmp_path).items()}

    def one(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        return try_one(omma.path, models, number, folder, max_bytes)

    n = MANY if request.config.getoption("--full") else FEW
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [line for lines in pool.map(one, range(n)) for line in lines]
    assert not faults, f"{len(faults)}: " + "\n".join(faults[:10])


@pytest.mark.parametrize("number", range(11))
def test_the_damage_follows_from_its_number(models, number, tmp_path):
    def made(folder):
        said = mutate(models, number, folder)
        return said, {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file() and not file.samefile("/dev/zero")}

    assert made(tmp_path / "one") == made(tmp_path / "two")
