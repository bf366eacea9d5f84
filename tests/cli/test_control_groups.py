"""The program in real control groups: threads follow a quota of CPU time, and a limit of memory is
met with a line, not by the kernel's out-of-memory killer. Where no group can be made (that takes
root, and a mount that can be written), these are skipped; tests/unit/test_cpu_room.c and
test_memory_room.c read made-up trees everywhere.

Run with: pytest tests/cli --omma build/release/omma
"""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

MOUNT = pathlib.Path("/sys/fs/cgroup")
UNIFIED = (MOUNT / "cgroup.controllers").exists()
QUOTA = {True: "cpu.max", False: "cpu.cfs_quota_us"}[UNIFIED]
LIMIT = {True: "memory.max", False: "memory.limit_in_bytes"}[UNIFIED]
MIB = 1 << 20
DEMO = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"


def own_group(controller):
    """The folder of this process's group."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if UNIFIED and not controllers:
            return MOUNT / group.strip("/")
        if not UNIFIED and controller in controllers.split(","):
            return MOUNT / controller / group.strip("/")
    return None


@pytest.fixture
def make_group(request):
    """make_group(controller, parent) gives a new group's folder, below its own or `parent`."""
    made = []

    def make(controller, parent=None):
        parent = parent or own_group(controller)
        if parent is None:
            pytest.skip(f"no control group of {controller}")
        group = parent / f"omma-test-{os.getpid()}-{len(made)}"
        try:
            group.mkdir()
            made.append(group)
            if UNIFIED and not (group / (QUOTA if controller == "cpu" else LIMIT)).exists():
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            pytest.skip(f"no control group can be made: {error}")
        return group

    yield make
    for group in reversed(made):
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:  # its last process is being taken away
                time.sleep(0.05)


def run_in(group, *words):
    enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    return subprocess.run(list(map(str, words)), preexec_fn=enter, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)


def set_quota(group, cpus):
    period = 100000
    (group / QUOTA).write_text(f"{int(cpus * period)} {period}" if UNIFIED else str(int(cpus * period)))


@pytest.mark.parametrize("cpus, where", [(1, "own"), (0.5, "own"), (1, "above"), (1.9, "own"), (64, "own")])
def test_threads_follow_a_quota(omma, make_group, cpus, where):
    group = make_group("cpu")
    set_quota(group, cpus)
    inner = make_group("cpu", group) if where == "above" else group
    free = json.loads(subprocess.run([omma.path, "info", "--json"], capture_output=True, check=True).stdout)
    info = json.loads(run_in(inner, omma.path, "info", "--json").stdout)
    assert info["threads"] == max(1, min(free["threads"], int(cpus))), info
    assert info["cpu_quota"] == pytest.approx(cpus), info
    limit = "quota" if cpus < free["threads"] else free["cpu_threads_limit"]
    assert info["cpu_threads_limit"] == limit, info


def test_a_quota_counts_for_the_work_too(omma, make_group, model):
    group = make_group("cpu")
    set_quota(group, 1)
    line = run_in(group, omma.path, "chat", "--model", model, "--prompt", "hello", "--max-tokens", "1", "--verbose")
    assert line.returncode == 0 and b" 1 thread," in line.stderr, line.stderr


def stopped_periods(group):
    """Periods, and those of them in which the group was stopped because its time was used up."""
    lines = (group / "cpu.stat").read_text().split("\n")
    counts = dict(line.split() for line in lines if line)
    return int(counts["nr_periods"]), int(counts["nr_throttled"])


@pytest.mark.release_only
def test_nobody_is_stopped_by_a_quota_of_as_many_cpus_as_threads(omma, make_group):
    """Threads that look for work take from the quota, too: with as many as it has CPUs the group
    keeps within it."""
    group = make_group("cpu")
    set_quota(group, 1)
    for _ in range(100):  # one answer may be over within a period
        chat = run_in(group, omma.path, "chat", "--model", DEMO, "--prompt", "hello", "--max-tokens", "200", "--ignore-eos")
        assert chat.returncode == 0, chat.stderr
        periods, stopped = stopped_periods(group)
        if periods >= 5:
            break
    print(f"stopped in {stopped} of {periods} periods")
    assert periods >= 5 and stopped <= periods // 4


def limited(make_group, estimate, below):
    group = make_group("memory")
    (group / LIMIT).write_text(str(estimate - below * MIB))
    return group


@pytest.mark.release_only
@pytest.mark.parametrize("command", [["chat", "hello"], ["serve", "--port", "0"]])
def test_a_limit_of_memory_below_the_estimate_is_a_line(omma, model, make_group, command):
    cache = ["--kv-cache-bytes", "1G"]
    estimate = omma.json("plan", "64x64", "--model", model, *cache, "--json")["memory"]["total_bytes"]
    group = limited(make_group, estimate, 512)
    ended = run_in(group, omma.path, *command, "--model", model, *cache)
    error = ended.stderr.decode()
    assert ended.returncode == 1, (ended.returncode == -signal.SIGKILL, error)
    assert "memory limit of this process's control group leaves" in error and "--kv-cache-bytes" in error, error


@pytest.mark.release_only
def test_a_limit_of_memory_below_the_weights_is_a_line(omma, make_group):
    weights = omma.json("plan", "64x64", "--model", DEMO, "--json")["memory"]["weight_bytes"]
    ended = run_in(limited(make_group, weights, 0), omma.path, "chat", "--model", DEMO, "hello")
    assert ended.returncode == 1 and b"the weights take" in ended.stderr, ended


@pytest.mark.release_too
def test_within_a_limit_of_memory_the_cache_is_as_large_as_fits(omma, model, make_group):
    group = limited(make_group, 400 * MIB, 0)
    ended = run_in(group, omma.path, "chat", "--model", model, "--prompt", "hello", "--max-tokens", "2")
    assert ended.returncode == 0 and ended.stdout, ended
