"""PyTorch CPU tensors: the same bits as NumPy, bfloat16, refusals, and the OpenMP team that PyTorch
itself runs on."""

from pathlib import Path

import ommatidia
import pytest
from oracle import assert_attention, normal, same_bits

torch = pytest.importorskip("torch")

BORDERS = [0, 3, 3, 64, 65, 193]


def tensors(dtype=torch.float32, heads=4, dim=72):
    return tuple(torch.from_numpy(normal(seed, 193, heads, dim)).to(dtype) for seed in range(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(dtype):
    q, k, v = tensors(dtype)
    out = ommatidia.attention(q, k, v, torch.tensor(BORDERS, dtype=torch.int32), torch.tensor(128))
    assert isinstance(out, torch.Tensor) and out.dtype == dtype and out.is_contiguous()
    assert_attention(out.double().numpy(), *(x.double().numpy() for x in (q, k, v)), BORDERS, type_name=str(dtype)[6:])


def test_same_bits_as_numpy():
    q, k, v = tensors()
    expected = ommatidia.attention(*(x.numpy() for x in (q, k, v)), BORDERS)
    assert same_bits(ommatidia.attention(q, k, v, BORDERS).numpy(), expected)


def test_agrees_with_torch():
    q, k, v = (x.view(1, 193, 4, 72) for x in tensors())
    expected = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)
    assert torch.allclose(ommatidia.attention(q, k, v), expected, atol=1e-5)


def test_views_into_fused_rows_and_out():
    rows = torch.randn(193, 3 * 4 * 64, generator=torch.Generator().manual_seed(0), dtype=torch.float32).bfloat16()
    q, k, v = (x.view(193, 4, 64) for x in rows.chunk(3, dim=-1))
    assert q.stride(0) == 768 and not q.is_contiguous()
    expected = ommatidia.attention(*(x.contiguous() for x in (q, k, v)), BORDERS)
    assert torch.equal(ommatidia.attention(q, k, v, BORDERS), expected)
    out = torch.full((193, 5, 64), 7.0, dtype=torch.bfloat16)
    assert ommatidia.attention(q, k, v, BORDERS, out=out[:, 1:]).data_ptr() == out[:, 1:].data_ptr()
    assert torch.equal(out[:, 1:], expected) and (out[:, 0] == 7).all()


def test_empty():
    q = torch.empty(0, 2, 16)
    assert ommatidia.attention(q, q, q, torch.tensor([0])).shape == (0, 2, 16)
    q, k = torch.ones(1, 4, 2, 16), torch.ones(1, 0, 2, 16)
    assert not ommatidia.attention(q, k, k).any()


def test_default_device_and_inference_mode():
    q, k, v = tensors()
    with torch.inference_mode():
        expected = ommatidia.attention(q, k, v, BORDERS)
    assert torch.equal(ommatidia.attention(torch.nn.Parameter(q, requires_grad=False), k, v, BORDERS), expected)


@pytest.mark.parametrize(
    ("error", "match", "change"),
    [
        (ValueError, "q: requires a gradient", lambda q, k, v: (q.clone().requires_grad_(), k, v)),
        (ValueError, "k: expected a dense tensor on the CPU, found .* on meta", lambda q, k, v: (q, k.to("meta"), v)),
        (ValueError, "q: expected a dense tensor on the CPU, found torch.sparse", lambda q, k, v: (q.to_sparse(), k, v)),
        (ValueError, "q: expected float32, bfloat16 or float16, found torch.float64", lambda q, k, v: (q.double(), k, v)),
        (ValueError, "v: bfloat16, but q is float32", lambda q, k, v: (q, k, v.bfloat16())),
        (ValueError, "v: a view with negation pending", lambda q, k, v: (q, k, torch._neg_view(v))),
        (ValueError, "v: the heads are one piece of memory repeated", lambda q, k, v: (q, k, v[:, :1].expand(-1, 4, -1))),
        (TypeError, "k: a NumPy array, but q is a PyTorch tensor", lambda q, k, v: (q, k.numpy(), v)),
        (TypeError, "k: a PyTorch tensor, but q is a NumPy array", lambda q, k, v: (q.numpy(), k, v.numpy())),
    ],
)
def test_refused(error, match, change):
    with pytest.raises(error, match=match):
        ommatidia.attention(*change(*tensors()))


@pytest.mark.parametrize("borders", [torch.tensor([0.0, 193.0]), torch.empty(2, dtype=torch.int64, device="meta")])
def test_borders_refused(borders):
    with pytest.raises(ValueError, match="cu_seqlens: expected"):
        ommatidia.attention(*tensors(), borders)


def thread_ids():
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


def cpu_ticks(thread):
    fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_openmp_team_is_that_of_torch():
    """No thread is started, and the threads that PyTorch made get the work."""
    torch.set_num_threads(2)
    x = torch.randn(4_000_000)
    before = thread_ids()
    (x * 2).sum()
    q, k, v = tensors()
    expected = ommatidia.attention(q, k, v, BORDERS, threads=1)
    assert torch.equal(ommatidia.attention(q, k, v, BORDERS, team="openmp"), expected)
    with_team = thread_ids()
    large = torch.randn(8000, 4, 64)
    ticks = {thread: cpu_ticks(thread) for thread in with_team}
    ommatidia.attention(large, large, large, team="openmp", threads=2)
    worked = {thread for thread in with_team if cpu_ticks(thread) > ticks[thread]}
    (x * 2).sum()
    assert thread_ids() == with_team
    assert len(worked) >= 2 and len(with_team - before) <= 1
