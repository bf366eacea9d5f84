"""torch.ops.ommatidia.encoder_attention: registered as PyTorch wants it, traced by torch.compile,
kept by torch.export."""

import pytest

torch = pytest.importorskip("torch")

import ommatidia  # noqa: E402
import ommatidia.torch as operator  # noqa: E402
from ommatidia import _handles  # noqa: E402

BORDERS = torch.tensor([0, 3, 3, 64, 193], dtype=torch.int32)


def tensors(dtype=torch.float32, batch=1, heads=4, kv_heads=4, dim=72):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(batch, 193, n, dim, generator=generator).to(dtype) for n in (heads, kv_heads, kv_heads))


class Layer(torch.nn.Module):
    """Projections around the operator, as in a tower's layer; q, k and v are views into one row."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(96, 3 * 96)

    def forward(self, x, cu_seqlens):
        q, k, v = self.qkv(x).view(1, -1, 3, 2, 48).unbind(2)
        return operator.encoder_attention(q, k, v, cu_seqlens).flatten(-2) + x


@pytest.mark.parametrize("borders", [None, BORDERS, BORDERS.long()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_opcheck(dtype, borders):
    torch.library.opcheck(torch.ops.ommatidia.encoder_attention.default, (*tensors(dtype, kv_heads=2), borders, None, 0.1))


def test_same_bits_as_the_function():
    q, k, v = tensors(torch.bfloat16, kv_heads=2)
    expected = ommatidia.attention(q, k, v, BORDERS, scale=0.3)
    assert torch.equal(operator.encoder_attention(q, k, v, BORDERS, 0.3), expected)
    assert torch.equal(torch.ops.ommatidia.encoder_attention(q, k, v, scale=0.3), ommatidia.attention(q, k, v, scale=0.3))


def test_a_batch_has_borders_over_all_its_tokens():
    q, k, v = tensors(batch=2)
    borders = torch.tensor([0, 100, 386])
    assert torch.equal(operator.encoder_attention(q, k, v, borders), ommatidia.attention(q, k, v, borders))


def test_a_handle_changes_nothing():
    q, k, v = tensors()
    handle = _handles.table.handle(BORDERS.numpy())
    expected = operator.encoder_attention(q, k, v, BORDERS)
    assert torch.equal(torch.ops.ommatidia.encoder_attention(q, k, v, BORDERS, handle), expected)
    assert torch.equal(torch.ops.ommatidia.encoder_attention(q, k, v, BORDERS, handle + 1), expected)


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q, v = torch.empty(2, 7, 4, 16, dtype=torch.bfloat16), torch.empty(2, 7, 2, 24, dtype=torch.bfloat16)
        out = operator.encoder_attention(q, q[:, :, :2], v)
    assert out.shape == (2, 7, 4, 24) and out.dtype == torch.bfloat16 and out.is_contiguous()


def test_refuses_gradients():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="requires a gradient"):
        operator.encoder_attention(q.requires_grad_(), k, v)


def test_refuses_what_the_function_refuses():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="cu_seqlens"):
        operator.encoder_attention(q, k, v, torch.tensor([0, 9, 5, 193]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_graph_break(dynamic):
    layer = Layer().eval()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        for n_tokens, borders in ((193, BORDERS), (60, torch.tensor([0, 20, 60], dtype=torch.int32))):
            x = torch.randn(1, n_tokens, 96, generator=torch.Generator().manual_seed(n_tokens))
            assert torch.equal(compiled(x, borders), layer(x, borders))


def test_export_keeps_the_operator():
    layer = Layer().eval()
    x = torch.randn(1, 193, 96, generator=torch.Generator().manual_seed(1))
    n_tokens, n_borders = torch.export.Dim("n_tokens", min=2), torch.export.Dim("n_borders", min=2)
    with torch.no_grad():
        program = torch.export.export(layer, (x, BORDERS), dynamic_shapes=({1: n_tokens}, {0: n_borders}))
        assert "ommatidia.encoder_attention" in str(program.graph)
        for rows, borders in ((x, BORDERS), (x[:, :60], torch.tensor([0, 60], dtype=torch.int32))):
            assert torch.allclose(program.module()(rows, borders), layer(rows, borders), atol=1e-6)
