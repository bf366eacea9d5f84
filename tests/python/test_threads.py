"""Threads, forked children, the plan cache and memory: same bits, bounded, no copies."""

import ctypes
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import ommatidia
import pytest
from ommatidia import _attention, _plans, _teams
from oracle import assert_attention, normal, same_bits

BORDERS = [0, 64, 64, 131, 400]


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.fixture
def tensors():
    return tuple(normal(seed, 400, 4, 72) for seed in range(3))


def test_thread_counts_give_the_same_bits(tensors):
    alone = ommatidia.attention(*tensors, BORDERS, threads=1)
    for threads in (2, 3, 5, 2, 16, None):
        assert same_bits(ommatidia.attention(*tensors, BORDERS, threads=threads), alone)


def test_set_num_threads(tensors):
    before = ommatidia.get_num_threads()
    assert 1 <= before == ommatidia.info()["threads"] <= len(os.sched_getaffinity(0))
    expected = ommatidia.attention(*tensors, BORDERS, threads=1)
    try:
        for n in (2, 4, 2):
            ommatidia.set_num_threads(n)
            assert ommatidia.get_num_threads() == n
            assert same_bits(ommatidia.attention(*tensors, BORDERS), expected)
    finally:
        ommatidia.set_num_threads(before)


def test_many_python_threads_at_once():
    """Different problems, thread counts and plans from twelve threads, more plans than the cache
    holds."""

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(12):
            borders = np.concatenate([[0], np.cumsum(rng.integers(0, 60, 4))])
            q, k, v = (normal(int(rng.integers(1 << 30)), int(borders[-1]) + 3, 2, 24) for _ in range(3))
            out = ommatidia.attention(q, k, v, borders, threads=int(rng.integers(1, 4)))
            assert_attention(out, q, k, v, borders)
        return True

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, range(12)))
    assert _plans.cache.size()[0] <= _plans.PLAN_CACHE_ENTRIES


def test_python_runs_meanwhile():
    """The GIL is given up: another thread makes progress during one long call, of some tries on a
    busy machine."""
    q = normal(0, 3000, 8, 64)
    seen, stop = [], threading.Event()

    def count():
        while not stop.wait(0.001):
            seen.append(running.is_set())

    running = threading.Event()
    counter = threading.Thread(target=count)
    counter.start()
    for _ in range(50):
        seen.clear()
        running.set()
        ommatidia.attention(q, q, q, threads=1)
        running.clear()
        if sum(seen) >= 5:
            break
    stop.set()
    counter.join()
    assert sum(seen) >= 5


def run_apart(code):
    """Runs code in a process of its own."""
    tree = str(Path(ommatidia.__file__).parent.parent)
    code = "import os, sys, threading, numpy as np, ommatidia\n" + code
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env={**os.environ, "PYTHONPATH": tree}, timeout=120, check=False
    )
    assert run.returncode == 0


def test_forked_child_gets_its_own_pool():
    """Another thread uses the pool while the process forks."""
    run_apart("""
q = np.random.default_rng(0).standard_normal((300, 4, 64), dtype=np.float32)
expected = ommatidia.attention(q, q, q, [0, 100, 300], threads=3)
stop = threading.Event()
def busy():
    while not stop.is_set():
        ommatidia.attention(q, q, q, [0, 100, 300], threads=3)
threading.Thread(target=busy).start()
ok = True
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if (ommatidia.attention(q, q, q, [0, 100, 300], threads=3) == expected).all() else 1)
    ok = ok and os.waitpid(child, 0)[1] == 0
stop.set()
sys.exit(0 if ok else 1)
""")


def test_the_pool_has_as_many_threads_as_were_set():
    """In a process where no earlier pool's threads are still on their way out."""
    run_apart("""
import time
def n_threads():
    return len(os.listdir("/proc/self/task"))
def settles_at(n):  # the kernel takes a joined thread off its list a little later
    end = time.monotonic() + 60
    while n_threads() != n and time.monotonic() < end:
        time.sleep(0.001)
    return n_threads() == n
q = np.random.default_rng(0).standard_normal((300, 4, 64), dtype=np.float32)
def run():
    ommatidia.attention(q, q, q, [0, 100, 300])
alone = n_threads()
ommatidia.set_num_threads(2)
run()
assert n_threads() == alone + 1
ommatidia.set_num_threads(4)
for _ in range(3):
    run()
assert settles_at(alone + 3), "one pool of four, kept between calls"
ommatidia.set_num_threads(2)
run()
assert settles_at(alone + 1), "a smaller pool gives its threads back"
""")


def test_plans_are_kept_by_content(monkeypatch, tensors):
    cache = _plans.PlanCache(_plans.context)
    monkeypatch.setattr(_attention, "cache", cache)
    borders = np.array(BORDERS, np.int32)
    first = ommatidia.attention(*tensors, borders)
    for same in (borders.astype(np.int64), BORDERS, borders.copy()):
        assert same_bits(ommatidia.attention(*tensors, same), first)
    assert cache.size()[0] == 1
    borders[1] = 10
    second = ommatidia.attention(*tensors, borders)
    assert cache.size()[0] == 2 and not same_bits(first, second)
    assert_attention(second, *tensors, borders)
    ommatidia.attention(*tensors, borders, scale=0.5)
    ommatidia.attention(*tensors, borders, causal=True)
    ommatidia.attention(*(x.astype(np.float16) for x in tensors), borders)
    assert cache.size()[0] == 5


def test_cache_is_bounded_in_number(monkeypatch, tensors):
    cache = _plans.PlanCache(_plans.context)
    monkeypatch.setattr(_attention, "cache", cache)
    for i in range(3 * _plans.PLAN_CACHE_ENTRIES):
        ommatidia.attention(*tensors, [0, i + 1, 400], threads=1)
        assert cache.size()[0] == min(i + 1, _plans.PLAN_CACHE_ENTRIES)


def test_cache_is_bounded_in_bytes(monkeypatch):
    cache = _plans.PlanCache(_plans.context)
    monkeypatch.setattr(_attention, "cache", cache)
    monkeypatch.setattr(_plans, "PLAN_CACHE_BYTES", 1 << 20)
    q = normal(0, 4000, 1, 8)
    rng = np.random.default_rng(0)
    for _ in range(20):
        borders = np.sort(rng.integers(0, 4001, 4000))
        borders[0] = 0
        ommatidia.attention(q, q, q, borders)
        assert cache.size()[1] <= 1 << 20


def test_memory_does_not_grow_over_many_sizes():
    rng = np.random.default_rng(0)
    fused = normal(0, 3000, 3, 2, 64)
    out = np.empty((3000, 2, 64), np.float32)

    def call(n):
        borders = np.unique(np.concatenate([[0, n], rng.integers(0, n, 20)]))
        ommatidia.attention(fused[:n, 0], fused[:n, 1], fused[:n, 2], borders, out=out[:n])

    for n in (3000, *rng.integers(1, 3000, 80)):
        call(int(n))
    before = resident_bytes()
    for n in rng.integers(1, 3000, 200):
        call(int(n))
    assert resident_bytes() - before < 4 << 20


def test_a_large_workspace_is_given_back(monkeypatch):
    monkeypatch.setattr(_attention, "WORKSPACE_KEEP_BYTES", 1 << 16)
    workspaces = _attention.Workspaces()
    address, memory = workspaces.lend(1 << 15)
    assert address % 64 == 0 and workspaces.lend(1 << 10)[1] is memory
    assert workspaces.lend(1 << 20)[1] is not workspaces.lend(1 << 20)[1]


def test_large_strided_view_is_not_copied():
    """96 MiB of fused qkv in a fresh process: its peak must not rise by a fraction of one
    tensor."""
    run_apart("""
import resource
n = 32 << 10
fused = np.empty((n, 3, 4, 64), np.float32)
np.random.default_rng(0).standard_normal(out=fused, dtype=np.float32)
q, k, v = fused[:, 0], fused[:, 1], fused[:, 2]
out, borders = np.ones((n, 4, 64), np.float32), np.arange(0, n + 1, 64)
ommatidia.attention(q[:64], k[:64], v[:64], borders[:2], out=out[:64])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ommatidia.attention(q, k, v, borders, out=out)
assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < v.nbytes // 4
last = ommatidia.attention(*(np.ascontiguousarray(x[-64:]) for x in (q, k, v)))
assert out[-64:].tobytes() == last.tobytes()
""")


def test_the_library_gets_the_caller_s_addresses(monkeypatch, tensors):
    seen = []
    monkeypatch.setattr(_attention, "_run", lambda plan, tensors, lent: seen.append(tensors))
    q, k, v = tensors
    v = np.concatenate([v, v], axis=1)[:, 2:6]
    out = np.empty_like(q)
    ommatidia.attention(q, k, v, out=out)
    assert [seen[0].q, seen[0].k, seen[0].v, seen[0].out] == [x.ctypes.data for x in (q, k, v, out)]
    assert (seen[0].v_token_stride, seen[0].v_head_stride) == (8 * 72, 72)


def test_openmp_team_needs_a_runtime(monkeypatch, tensors):
    monkeypatch.setattr(_teams, "_openmp", None)
    monkeypatch.setattr(_teams, "_find_openmp", lambda: None)
    with pytest.raises(RuntimeError, match="needs an OpenMP runtime"):
        ommatidia.attention(*tensors, team="openmp")


@pytest.mark.parametrize("n", [None, 1, 2, 3])
def test_openmp_team_on_a_bare_runtime(monkeypatch, tensors, n):
    try:
        entries = _teams._entries_of(ctypes.CDLL("libgomp.so.1"))
    except OSError:
        pytest.skip("no libgomp.so.1 on this machine")
    monkeypatch.setattr(_teams, "_openmp", entries)
    expected = ommatidia.attention(*tensors, BORDERS, threads=1)
    assert same_bits(ommatidia.attention(*tensors, BORDERS, team="openmp", threads=n), expected)
