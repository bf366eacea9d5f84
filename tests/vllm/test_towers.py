"""vLLM's tower classes give the same result with the plugin as without."""

from __future__ import annotations

import pytest
import torch
from towers import TOWERS, attention_layers, stock_attention, vllm_context

GRID = [(8, 12), (2, 2), (20, 14)]
# Head dimensions 64, 80 and 72.
SIZES = {
    "qwen3_vl": dict(hidden_size=128, heads=2, intermediate_size=192),
    "qwen2_5_vl": dict(hidden_size=160, heads=2, intermediate_size=192),
    "kimi_vl": dict(hidden_size=144, heads=2, intermediate_size=192),
}


@pytest.mark.parametrize("name", TOWERS)
@pytest.mark.parametrize(("dtype", "tolerance"), ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)))
def test_same_tower(name: str, dtype: torch.dtype, tolerance: float) -> None:
    with vllm_context(dtype):
        tower = TOWERS[name].build(4, **SIZES[name])
        assert len(attention_layers(tower)) == 4
        found = TOWERS[name].run(tower, GRID).float()
        with stock_attention(tower):
            expected = TOWERS[name].run(tower, GRID).float()
    assert expected.norm() > 0
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("name", TOWERS)
def test_an_image_does_not_depend_on_its_neighbours_in_the_layer(name: str) -> None:
    """Bit for bit in the attention layers; around them, vLLM's matrix products may round differently."""
    with vllm_context(torch.bfloat16):
        layer = attention_layers(TOWERS[name].build(1, **SIZES[name]))[0]
        tokens = torch.randn(1, 300, layer.num_heads, layer.head_size, dtype=torch.bfloat16)
        both = layer(tokens, tokens, tokens, torch.tensor([0, 100, 300], dtype=torch.int32))
        alone = tokens[:, 100:]
        assert torch.equal(layer(alone, alone, alone, torch.tensor([0, 200], dtype=torch.int32)), both[:, 100:])
