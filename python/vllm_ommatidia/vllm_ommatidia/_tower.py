"""vLLM's models with libomma's vision tower in place of their own.

vLLM builds its tower on PyTorch's meta device, where it takes no memory, and gets a stand-in for
it: the way in which it skips towers that nobody wants. The stand-in collects the tower's weights as
vLLM reads them, libomma packs them once, and the collection is dropped."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ommatidia
import ommatidia.torch
import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.model_executor.models import kimi_vl, qwen2_5_vl, qwen3_5, qwen3_vl, qwen3_vl_moe
from vllm.model_executor.models.utils import StageMissingLayer, no_init_weights

from ._option import tower_option

try:
    from vllm.model_executor.layers.fusion.mm_input_norm import build_mm_input_norm
except ImportError:  # where images always arrive normalised
    build_mm_input_norm = None

_logger = logging.getLogger("vllm.ommatidia")

_WEIGHTS = {torch.float32: "float32", torch.bfloat16: "bfloat16"}

# Of these, vLLM's readers give tensors that stay as they are; others may use their memory again.
_LASTING_FORMATS = ("auto", "hf", "safetensors", "pt", "mistral")


def refusal(vllm_config: VllmConfig) -> str | None:
    """Why vLLM's own tower is to run, as far as its configuration shows."""
    model = vllm_config.model_config
    mm_config = model.get_multimodal_config()
    lora = vllm_config.lora_config
    if model.dtype not in _WEIGHTS:
        return f"the model's type is {model.dtype}, not float32 or bfloat16"
    if vllm_config.parallel_config.tensor_parallel_size > 1:
        return f"tensor parallel size {vllm_config.parallel_config.tensor_parallel_size}, not 1"
    if vllm_config.quant_config is not None:
        return f"the checkpoint is quantised ({vllm_config.quant_config.get_name()})"
    if str(getattr(vllm_config.load_config, "load_format", "auto")) == "dummy":
        return "load format dummy, which reads no weights"
    if model.hf_overrides:
        return "hf_overrides, which config.json does not have"
    if getattr(mm_config, "mm_encoder_attn_dtype", None):
        return f"encoder attention in {mm_config.mm_encoder_attn_dtype}"
    if getattr(lora, "enable_tower_connector_lora", False):
        return "LoRA adapters of the tower"
    return None


def _folder(vllm_config: VllmConfig) -> Path:
    """Where config.json lies: the model's own folder, or the one of the Hugging Face cache."""
    from transformers.utils.hub import cached_file

    model = vllm_config.model_config
    found = cached_file(model.model, "config.json", revision=model.revision)
    return Path(str(found)).parent


class TowerSource:
    """The tower of one model, from its configuration to its packed weights."""

    def __init__(self, folder: Path, weights: str, dtype: torch.dtype, lasting: bool) -> None:
        """ValueError, NotImplementedError or ImportError where libomma cannot serve it. lasting:
        tensors of load_weights stay as they are."""
        self._folder, self._weights, self._lasting = folder, weights, lasting
        self.dtype = dtype
        # As many as PyTorch has, now or later.
        self._n_threads = max(torch.get_num_threads(), len(os.sched_getaffinity(0)))
        self._tower = ommatidia.Tower(folder, weights, config_only=True, threads=self._n_threads)  # type: ignore[arg-type]
        self.info = self._tower.info()
        self._collected: dict[str, torch.Tensor] = {}

    def collect(self, name: str, tensor: torch.Tensor) -> None:
        self._collected[name] = tensor if self._lasting else tensor.clone()

    def pack(self) -> None:
        """Packs what was collected, and drops it. ValueError names a tensor that is missing or has
        another shape."""
        self._tower = ommatidia.Tower(
            self._folder, self._weights, tensors=self._collected, threads=self._n_threads  # type: ignore[arg-type]
        )
        self._collected = {}
        self.info = self._tower.info()
        _logger.info(
            "Ommatidia %s is active: vision tower of %s in %s, %.0f million parameters in %.2f GB, CPU level %s, on %s",
            ommatidia.__version__, self.info["model_type"], self.info["weights"], self.info["n_parameters"] / 1e6,
            self.info["weight_bytes"] / 1e9, self.info["isa"],
            "PyTorch's OpenMP threads" if ommatidia.torch.team() == "openmp" else "threads of its own",
        )  # fmt: skip

    def encode(self, pixel_values: torch.Tensor, grid_thw: list[list[int]]) -> list[torch.Tensor]:
        """Of each image and video [tokens, width * (1 + n_deepstack)], views into one tensor of the
        model's type."""
        # What int8 layers take follows from the CPU; float32 is good for all.
        exact = self._weights == "int8" or pixel_values.dtype not in _WEIGHTS
        pixels = pixel_values.to(torch.float32 if exact else self.dtype).contiguous()
        threads = min(torch.get_num_threads(), self.info["n_threads"])
        outputs = self._tower.encode(pixels, grid_thw, threads=threads, team=ommatidia.torch.team())
        width, slots = self.info["width"], 1 + self.info["n_deepstack"]
        counts = [output.shape[1] for output in outputs]
        whole = torch.empty(sum(counts), slots, width, dtype=self.dtype)
        for part, output in zip(whole.split(counts), outputs, strict=True):
            part.copy_(output.transpose(0, 1))
        return list(whole.flatten(1).split(counts))


class _StandIn(nn.Module):
    """A module of vLLM's, without its memory: what others read of it is still there, its weights go
    to libomma."""

    def __init__(self, module: nn.Module, source: TowerSource, prefix: str) -> None:
        super().__init__()
        # Not registered: it has no weights to load.
        self.__dict__["_module"] = module
        self.__dict__["_source"] = source
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)

    @property
    def dtype(self) -> torch.dtype:
        return self.__dict__["_source"].dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        names = set()
        for name, tensor in weights:
            self.__dict__["_source"].collect(self._prefix + name, tensor)
            names.add(name)
        return names


class QwenTower(_StandIn):
    def __init__(self, module: nn.Module, source: TowerSource, prefix: str, input_norm: nn.Module | None = None) -> None:
        """input_norm: makes normalised patches of what the tower is given; None: they are."""
        super().__init__(module, source, prefix)
        self.__dict__["input_norm"] = input_norm

    def forward(self, x: torch.Tensor, grid_thw: Any, **_: Any) -> torch.Tensor:
        """Patches of all images and videos; returns [tokens, width * (1 + n_deepstack)]."""
        grid = grid_thw if isinstance(grid_thw, list) else grid_thw.tolist()
        source, input_norm = self.__dict__["_source"], self.__dict__["input_norm"]
        return torch.cat(source.encode(x if input_norm is None else input_norm(x, source.dtype), grid))


class KimiTower(_StandIn):
    """With the projector, which libomma's tower ends with."""

    def forward(self, pixel_values: torch.Tensor, grid_hw: Any, **_: Any) -> list[torch.Tensor]:
        grid = grid_hw if isinstance(grid_hw, list) else grid_hw.tolist()
        encoded: list[torch.Tensor] = self.__dict__["_source"].encode(pixel_values, [[1, *side] for side in grid])
        return encoded


class KimiProjector(_StandIn):
    def forward(self, image_features: torch.Tensor) -> torch.Tensor:
        return image_features


def _input_norm(module: nn.Module, vllm_config: VllmConfig) -> nn.Module | None:
    """The tower's own is on the meta device, as all of it."""
    if build_mm_input_norm is None or getattr(module, "input_norm", None) is None:
        return None
    with torch.device("cpu"):
        made: nn.Module = build_mm_input_norm(vllm_config.model_config)
    return made


def _stand_in(source: TowerSource, vllm_config: VllmConfig) -> Callable[[nn.Module], nn.Module]:
    def make(module: nn.Module) -> nn.Module:
        if isinstance(module, StageMissingLayer):
            return module  # images are switched off
        if isinstance(module, kimi_vl.KimiVLMultiModalProjector):
            return KimiProjector(module, source, "multi_modal_projector.")
        if isinstance(module, kimi_vl.MoonVitPretrainedModel):
            return KimiTower(module, source, "vision_tower.")
        return QwenTower(module, source, "model.visual.", _input_norm(module, vllm_config))

    return make


def open_source(vllm_config: VllmConfig) -> TowerSource | None:
    """The tower for a model that is about to be built; None, after a line that states why, where
    vLLM's own is to run."""
    reason = refusal(vllm_config)
    if reason is None:
        dtype = vllm_config.model_config.dtype
        weights = "int8" if tower_option() == "int8" else _WEIGHTS[dtype]
        load_format = str(getattr(vllm_config.load_config, "load_format", "auto"))
        try:
            return TowerSource(_folder(vllm_config), weights, dtype, load_format in _LASTING_FORMATS)
        except Exception as error:  # whatever it is, it must not stop the server
            reason = str(error)
    _logger.warning("Ommatidia leaves the vision tower to vLLM's own implementation: %s", reason)
    return None


class _WithTower:
    """Put before a model class of vLLM's."""

    _ommatidia: TowerSource | None = None

    @contextmanager
    def _mark_tower_model(self, vllm_config: VllmConfig, modalities: set[str] | str, **named: Any) -> Iterator[None]:
        with super()._mark_tower_model(vllm_config, modalities, **named):  # type: ignore[misc]
            self._ommatidia = open_source(vllm_config)
            if self._ommatidia is None:
                yield
            else:
                with no_init_weights(self, _stand_in(self._ommatidia, vllm_config)):  # type: ignore[arg-type]
                    yield

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        loaded: set[str] = super().load_weights(weights)  # type: ignore[misc]
        if self._ommatidia is not None:
            self._ommatidia.pack()
        return loaded


class Qwen2_5_VLForConditionalGeneration(_WithTower, qwen2_5_vl.Qwen2_5_VLForConditionalGeneration):
    pass


class Qwen3VLForConditionalGeneration(_WithTower, qwen3_vl.Qwen3VLForConditionalGeneration):
    pass


class Qwen3VLMoeForConditionalGeneration(_WithTower, qwen3_vl_moe.Qwen3VLMoeForConditionalGeneration):
    pass


class Qwen3_5ForConditionalGeneration(_WithTower, qwen3_5.Qwen3_5ForConditionalGeneration):
    pass


class Qwen3_5MoeForConditionalGeneration(_WithTower, qwen3_5.Qwen3_5MoeForConditionalGeneration):
    pass


class KimiVLForConditionalGeneration(_WithTower, kimi_vl.KimiVLForConditionalGeneration):
    pass
