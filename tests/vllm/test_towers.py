"""vLLM's tower classes give the same result with the plugin as without."""

from __future__ import annotations

import pytest
import torch
from towers import ATTENTION_TOWERS, TOWERS, attention_layers, libomma_tower, project, stock_attention, vllm_context

GRID = [(8, 12), (2, 2), (20, 14)]
# Head dimensions 64, 80, 72 and 128.
SIZES = {
    "qwen3_vl": dict(hidden_size=128, heads=2, intermediate_size=192),
    "qwen3_5": dict(hidden_size=128, heads=2, intermediate_size=192),
    "qwen2_5_vl": dict(hidden_size=160, heads=2, intermediate_size=192),
    "kimi_vl": dict(hidden_size=144, heads=2, intermediate_size=192),
    "glm_ocr": dict(hidden_size=128, heads=2, intermediate_size=192),
    "dots_ocr": dict(hidden_size=256, heads=2, intermediate_size=192),
    "paddleocr_vl": dict(hidden_size=144, heads=2, intermediate_size=192),
    "lighton_ocr": dict(hidden_size=128, heads=2, intermediate_size=192),
}
ALL = TOWERS | ATTENTION_TOWERS


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("dtype", "tolerance"), ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)))
def test_same_tower(name: str, dtype: torch.dtype, tolerance: float) -> None:
    with vllm_context(dtype):
        tower = ALL[name].build(4, **SIZES[name])
        assert len(attention_layers(tower)) == 4
        found = ALL[name].run(tower, GRID).float()
        with stock_attention(tower):
            expected = ALL[name].run(tower, GRID).float()
    assert expected.norm() > 0
    assert (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("name", ALL)
def test_an_image_does_not_depend_on_its_neighbours_in_the_layer(name: str) -> None:
    """Bit for bit in the attention layers; around them, vLLM's matrix products may round
    differently."""
    with vllm_context(torch.bfloat16):
        layer = attention_layers(ALL[name].build(1, **SIZES[name]))[0]
        tokens = torch.randn(1, 300, layer.num_heads, layer.head_size, dtype=torch.bfloat16)
        both = layer(tokens, tokens, tokens, torch.tensor([0, 100, 300], dtype=torch.int32))
        alone = tokens[:, 100:]
        assert torch.equal(layer(alone, alone, alone, torch.tensor([0, 200], dtype=torch.int32)), both[:, 100:])


@pytest.mark.parametrize("name", TOWERS)
@pytest.mark.parametrize(("dtype", "tolerance"), ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)))
def test_libomma_s_tower_is_vllm_s(name: str, dtype: torch.dtype, tolerance: float) -> None:
    with vllm_context(dtype):
        tower = TOWERS[name].build(4, **SIZES[name])
        found = TOWERS[name].run(libomma_tower(name, tower), GRID)
        with stock_attention(tower):
            expected = project(tower, TOWERS[name].run(tower, GRID))
    assert found.dtype == dtype and found.shape == expected.shape
    difference = (found.float() - expected.float()).norm()
    assert difference <= tolerance * expected.float().norm() and expected.float().norm() > 0


@pytest.mark.parametrize("name", TOWERS)
def test_an_image_does_not_depend_on_its_neighbours_in_libomma_s_tower(name: str) -> None:
    with vllm_context(torch.bfloat16):
        tower = libomma_tower(name, TOWERS[name].build(2, **SIZES[name]))
        source = tower.__dict__["_source"]
        pixels = torch.randn(8 * 12 + 4 * 4, source.info["patch_dim"], dtype=torch.bfloat16)
        both = source.encode(pixels, [[1, 8, 12], [1, 4, 4]])
        [alone] = source.encode(pixels[96:], [[1, 4, 4]])
        assert torch.equal(both[1], alone)
        assert torch.isfinite(both[0]).all()


def test_weights_that_are_missing_are_named() -> None:
    with vllm_context(torch.float32):
        tower = TOWERS["qwen3_vl"].build(2, **SIZES["qwen3_vl"])
        del tower.checkpoint["blocks.1.attn.qkv.weight"]
        with pytest.raises(ValueError, match="model.visual.blocks.1.attn.qkv.weight"):
            libomma_tower("qwen3_vl", tower)
