"""vLLM's own vision tower classes with random weights, outside of an engine, and libomma's towers
with the same weights."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import vllm_ommatidia
from torch import nn
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment
from vllm.model_executor.layers.attention import MMEncoderAttention

# One tower: name -> its forward pass on images of these (rows, columns) of patches.
Forward = Callable[[nn.Module, list[tuple[int, int]]], torch.Tensor]


@contextmanager
def vllm_context(dtype: torch.dtype) -> Iterator[None]:
    """What vLLM's model classes need around them while they are built and run."""
    vllm_ommatidia.register()
    default_dtype = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with set_current_vllm_config(VllmConfig(device_config=DeviceConfig("cpu"))), torch.inference_mode():
            with tempfile.NamedTemporaryFile() as meeting_point:
                init_distributed_environment(1, 0, f"file://{meeting_point.name}", 0, "gloo")
                ensure_model_parallel_initialized(1, 1)
            yield
    finally:
        torch.set_default_dtype(default_dtype)


def checkpoint_weights(tower: nn.Module) -> dict[str, torch.Tensor]:
    """A tower's weights by their names in a checkpoint, where gate and up are two."""
    weights = {}
    for name, parameter in tower.named_parameters():
        joined = "gate_up_proj" if "gate_up_proj" in name else "fc13" if "fc13" in name else None
        if joined:
            for part, half in zip({"gate_up_proj": ("gate_proj", "up_proj"), "fc13": ("fc1", "fc3")}[joined], parameter.data.chunk(2)):
                weights[name.replace(joined, part)] = half.clone()
        else:
            weights[name] = parameter.data.clone()
    return weights


def randomise(tower: nn.Module, seed: int) -> nn.Module:
    """Fills every parameter so that signals neither die nor explode, then lets vLLM pack its
    weights as after loading.

    What they were before that is kept as `checkpoint`."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(tower.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
        if name.endswith("bias"):
            value = 0.1 * noise
        elif parameter.dim() == 1:
            value = 1 + 0.1 * noise
        elif "pos_emb" in name:
            value = 0.3 * noise
        else:
            value = noise / math.sqrt(parameter[0].numel())
        parameter.data.copy_(value)
    tower.__dict__["checkpoint"] = checkpoint_weights(tower)
    for module in tower.modules():
        if hasattr(module, "quant_method"):
            module.quant_method.process_weights_after_loading(module)
    return tower


def with_config(tower: nn.Module, golden: str, vision: Any) -> nn.Module:
    """Keeps a config.json of a model with this tower as the attribute `model_config`; all but the
    tower's part is a golden model's."""
    path = Path(__file__).parent.parent / "golden" / golden / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["vision_config"] = json.loads(vision.to_json_string(use_diff=False))
    text, hidden_size = config["text_config"], getattr(vision, "out_hidden_size", 2048)
    if "head_dim" not in text and "v_head_dim" not in text:
        text["num_attention_heads"] = hidden_size // 128
        text["rope_parameters"]["mrope_section"] = [16, 24, 24]
    text["hidden_size"] = hidden_size
    tower.__dict__["model_config"] = config
    return tower


def qwen3_vl(layers: int, hidden_size: int = 1024, heads: int = 16, intermediate_size: int = 4096) -> nn.Module:
    """The tower of Qwen3-VL; the default sizes are those of the 2B model, which has 24 layers."""
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
    from vllm.model_executor.models.qwen3_vl import Qwen3_VisionTransformer

    config = Qwen3VLVisionConfig(
        depth=layers, hidden_size=hidden_size, num_heads=heads, intermediate_size=intermediate_size, patch_size=16,
        out_hidden_size=2 * hidden_size, num_position_embeddings=2304, deepstack_visual_indexes=[layers // 2],
    )
    return with_config(randomise(Qwen3_VisionTransformer(config, prefix="visual"), seed=1), "qwen3_vl_tied", config)


def qwen3_5(layers: int, hidden_size: int = 768, heads: int = 12, intermediate_size: int = 3072) -> nn.Module:
    """The tower of Qwen3.5: Qwen3-VL's without deepstack; the default sizes are those of the
    0.8B model, which has 12 layers."""
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5VisionConfig
    from vllm.model_executor.models.qwen3_vl import Qwen3_VisionTransformer

    config = Qwen3_5VisionConfig(
        depth=layers, hidden_size=hidden_size, num_heads=heads, intermediate_size=intermediate_size, patch_size=16,
        out_hidden_size=1024, num_position_embeddings=2304,
    )
    return with_config(randomise(Qwen3_VisionTransformer(config, prefix="visual"), seed=5), "qwen3_5_tied", config)


def qwen2_5_vl(layers: int, hidden_size: int = 1280, heads: int = 16, intermediate_size: int = 3420) -> nn.Module:
    """The tower of Qwen2.5-VL, every eighth layer without windows (at least the last); default
    sizes: 3B, 32 layers."""
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
    from vllm.model_executor.models.qwen2_5_vl import Qwen2_5_VisionTransformer

    full = [layer for layer in range(layers) if layer % 8 == 7] or [layers - 1]
    config = Qwen2_5_VLVisionConfig(
        depth=layers, hidden_size=hidden_size, num_heads=heads, intermediate_size=intermediate_size, patch_size=14,
        out_hidden_size=2048, window_size=112, fullatt_block_indexes=full,
    )
    return with_config(randomise(Qwen2_5_VisionTransformer(config, prefix="visual"), seed=2), "qwen2_5_vl_tied", config)


def moonvit(layers: int, hidden_size: int = 1152, heads: int = 16, intermediate_size: int = 4304) -> nn.Module:
    """The tower of Kimi-VL; the released one has 27 layers. Its projector is the attribute
    `projector`."""
    from vllm.model_executor.models.kimi_vl import KimiVLMultiModalProjector
    from vllm.model_executor.models.moonvit import MoonVitPretrainedModel
    from vllm.transformers_utils.configs.moonvit import MoonViTConfig

    config = MoonViTConfig(
        num_hidden_layers=layers, hidden_size=hidden_size, num_attention_heads=heads, intermediate_size=intermediate_size
    )
    tower = with_config(randomise(MoonVitPretrainedModel(config, prefix="vision_tower"), seed=3), "kimi_vl", config)
    both = SimpleNamespace(vision_config=config, text_config=SimpleNamespace(hidden_size=2048))
    tower.__dict__["projector"] = randomise(KimiVLMultiModalProjector(both, prefix="multi_modal_projector"), seed=4)
    return tower


class _Converted(nn.Module):
    """Patches that arrive normalised."""

    def forward(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype)


def glm_ocr(layers: int, hidden_size: int = 1024, heads: int = 16, intermediate_size: int = 4096) -> nn.Module:
    """The tower of GLM-OCR; the released one has 24 layers. vLLM takes the merger's inner width
    from the language model."""
    from transformers.models.glm_ocr.configuration_glm_ocr import GlmOcrVisionConfig
    from vllm.model_executor.models.glm_ocr import GlmOcrVisionTransformer

    width = hidden_size * 3 // 2
    config = GlmOcrVisionConfig(depth=layers, hidden_size=hidden_size, num_heads=heads, intermediate_size=intermediate_size, out_hidden_size=width)
    tower = GlmOcrVisionTransformer(SimpleNamespace(intermediate_size=3 * width), config, input_norm=_Converted(), prefix="visual")
    tower = with_config(randomise(tower, seed=6), "glm_ocr_saved", config)
    tower.model_config["text_config"] |= {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 128}
    tower.model_config["text_config"]["rope_parameters"]["mrope_section"] = [16, 24, 24]
    return tower


def dots_ocr(layers: int, hidden_size: int = 1536, heads: int = 12, intermediate_size: int = 4224) -> nn.Module:
    """The tower of dots.ocr; the released one has 42 layers."""
    from vllm.model_executor.models.dots_ocr import DotsVisionTransformer
    from vllm.transformers_utils.configs.dotsocr import DotsVisionConfig

    config = DotsVisionConfig(embed_dim=hidden_size, hidden_size=hidden_size, intermediate_size=intermediate_size, num_hidden_layers=layers,
                              num_attention_heads=heads)
    tower = randomise(DotsVisionTransformer(config, prefix="vision_tower"), seed=7)
    path = Path(__file__).parent.parent / "golden" / "dots_ocr" / "config.json"
    model = json.loads(path.read_text(encoding="utf-8"))
    model["vision_config"] = json.loads(config.to_json_string(use_diff=False))
    tower.__dict__["model_config"] = model | {"hidden_size": hidden_size, "num_attention_heads": heads, "num_key_value_heads": heads}
    return tower


def paddleocr_vl(layers: int, hidden_size: int = 1152, heads: int = 16, intermediate_size: int = 4304) -> nn.Module:
    """The tower of PaddleOCR-VL; the released one has 27 layers."""
    from transformers.models.paddleocr_vl.configuration_paddleocr_vl import PaddleOCRVisionConfig
    from vllm.model_executor.models.paddleocr_vl import SiglipVisionModel

    config = PaddleOCRVisionConfig(hidden_size=hidden_size, intermediate_size=intermediate_size, num_hidden_layers=layers, num_attention_heads=heads,
                                   image_size=112, patch_size=14)
    return randomise(SiglipVisionModel(config, prefix="visual"), seed=8)


def lighton_ocr(layers: int, hidden_size: int = 1024, heads: int = 16, intermediate_size: int = 4096) -> nn.Module:
    """The tower of LightOnOCR, which is Pixtral's; the released one has 24 layers."""
    from transformers import PixtralVisionConfig
    from vllm.model_executor.models.pixtral import PixtralHFVisionModel

    config = PixtralVisionConfig(hidden_size=hidden_size, intermediate_size=intermediate_size, num_hidden_layers=layers, num_attention_heads=heads,
                                 image_size=1540, patch_size=14)
    return randomise(PixtralHFVisionModel(config, prefix="vision_tower"), seed=9)


def _patches(grid: list[tuple[int, int]], *shape: int) -> torch.Tensor:
    n_patches = sum(rows * columns for rows, columns in grid)
    return torch.randn(n_patches, *shape, generator=torch.Generator().manual_seed(n_patches), dtype=torch.float32)


def run_qwen(tower: nn.Module, grid: list[tuple[int, int]]) -> torch.Tensor:
    patch_size = tower.patch_size
    pixels = _patches(grid, 3 * 2 * patch_size * patch_size)
    return tower(pixels.to(torch.get_default_dtype()), [[1, rows, columns] for rows, columns in grid])


def run_dots(tower: nn.Module, grid: list[tuple[int, int]]) -> torch.Tensor:
    pixels = _patches(grid, 3 * 14 * 14).to(torch.get_default_dtype())
    return tower(pixels, [[1, rows, columns] for rows, columns in grid])


def run_moonvit(tower: nn.Module, grid: list[tuple[int, int]]) -> torch.Tensor:
    pixels = _patches(grid, 3, 14, 14).to(torch.get_default_dtype())
    return torch.cat([image.flatten(1) for image in tower(pixels, torch.tensor(grid))])


def run_siglip(tower: nn.Module, grid: list[tuple[int, int]]) -> torch.Tensor:
    sizes = [rows * columns for rows, columns in grid]
    ends = torch.tensor([0, *sizes]).cumsum(0, dtype=torch.int32)
    pixels = _patches(grid, 3, 14, 14).to(torch.get_default_dtype()).unsqueeze(0)
    return tower(pixels, interpolate_pos_encoding=True, position_ids=torch.cat([torch.arange(size) for size in sizes]),
                 image_grid_thw=[(1, rows, columns) for rows, columns in grid], cu_seqlens=ends)


def run_pixtral(tower: nn.Module, grid: list[tuple[int, int]]) -> torch.Tensor:
    pixels = _patches(grid, 3 * 14 * 14).to(torch.get_default_dtype()).split([rows * columns for rows, columns in grid])
    return torch.cat(tower([image.reshape(3, rows * 14, columns * 14) for image, (rows, columns) in zip(pixels, grid)]))


TOWERS: dict[str, Any] = {
    "qwen3_vl": SimpleNamespace(build=qwen3_vl, run=run_qwen, patch_size=16),
    "qwen3_5": SimpleNamespace(build=qwen3_5, run=run_qwen, patch_size=16),
    "qwen2_5_vl": SimpleNamespace(build=qwen2_5_vl, run=run_qwen, patch_size=14),
    "kimi_vl": SimpleNamespace(build=moonvit, run=run_moonvit, patch_size=14),
    "glm_ocr": SimpleNamespace(build=glm_ocr, run=run_qwen, patch_size=14),
    "dots_ocr": SimpleNamespace(build=dots_ocr, run=run_dots, patch_size=14),
}
# Those whose attention alone goes through the plugin.
ATTENTION_TOWERS: dict[str, Any] = {
    "paddleocr_vl": SimpleNamespace(build=paddleocr_vl, run=run_siglip, patch_size=14),
    "lighton_ocr": SimpleNamespace(build=lighton_ocr, run=run_pixtral, patch_size=14),
}


def libomma_tower(name: str, tower: nn.Module, weights: str | None = None) -> nn.Module:
    """The plugin's tower with the weights and the attributes of vLLM's; Kimi-VL's ends with the
    projector."""
    from vllm_ommatidia import _tower

    dtype = torch.get_default_dtype()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(tower.model_config), encoding="utf-8")
        source = _tower.TowerSource(Path(folder), weights or str(dtype).removeprefix("torch."), dtype, lasting=True)
        if name == "kimi_vl":
            stand_in: nn.Module = _tower.KimiTower(tower, source, "vision_tower.")
            projector = _tower.KimiProjector(tower.projector, source, "multi_modal_projector.")
            projector.load_weights(tower.projector.checkpoint.items())
        else:
            prefix = "vision_tower." if name == "dots_ocr" else "model.visual."
            stand_in = _tower.QwenTower(tower, source, prefix)
        stand_in.load_weights(tower.checkpoint.items())
        source.pack()
    return stand_in


def project(tower: nn.Module, features: torch.Tensor) -> torch.Tensor:
    """What vLLM's model makes of its tower's output [tokens, ...]: Kimi-VL's goes through the
    projector."""
    return features if not hasattr(tower, "projector") else tower.projector(features.view(-1, tower.hidden_size))


def attention_layers(tower: nn.Module) -> list[MMEncoderAttention]:
    return [module for module in tower.modules() if isinstance(module, MMEncoderAttention)]


@contextmanager
def stock_attention(tower: nn.Module) -> Iterator[None]:
    """The tower with vLLM's own attention inside."""
    layers = attention_layers(tower)
    kept = [layer._forward_method for layer in layers]
    for layer in layers:
        layer._forward_method = MMEncoderAttention.forward_cpu.__get__(layer)
    try:
        yield
    finally:
        for layer, method in zip(layers, kept):
            layer._forward_method = method
