"""One peer of tower_peers.py in a process of its own: loads a checkpoint's tower, then runs it as
often as it is asked to.

Started by tower_peers.py as `PYTHON tower_worker.py PEER MODEL PATCHES THREADS`. Prints one JSON
line when it is ready, then one for each line that it reads: the time of a run, and how far its
embeddings are from those in the file that the line names, if any.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file
except ModuleNotFoundError as missing:
    print(json.dumps({"refused": f"this Python has no {missing.name}"}))
    sys.exit(1)

PREFIXES = {"qwen3_vl": "model.visual.", "qwen2_5_vl": "visual."}
Run = Callable[[], torch.Tensor]


def tower_tensors(model: Path, prefix: str) -> dict[str, torch.Tensor]:
    """The checkpoint's tensors under a prefix, without it."""
    found = {}
    for file in sorted(model.glob("*.safetensors")):
        with safe_open(str(file), "pt") as tensors:
            found |= {name.removeprefix(prefix): tensors.get_tensor(name) for name in tensors.keys() if name.startswith(prefix)}
    return found


def first_tensor(output: Any) -> torch.Tensor:
    """The merged tokens: some classes return them alone, some with more."""
    while not isinstance(output, torch.Tensor):
        output = getattr(output, "pooler_output", None) if hasattr(output, "pooler_output") else output[0]
    return output


def transformers_tower(model: Path, pixels: torch.Tensor, grid: torch.Tensor) -> tuple[torch.nn.Module, Run]:
    from transformers import AutoConfig
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl
    from transformers.models.qwen3_vl import modeling_qwen3_vl

    config = AutoConfig.from_pretrained(model)
    classes = {"qwen3_vl": modeling_qwen3_vl.Qwen3VLVisionModel,
               "qwen2_5_vl": modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel}
    tower = classes[config.model_type]._from_config(config.vision_config, attn_implementation="sdpa", dtype=torch.bfloat16)
    tower.load_state_dict(tower_tensors(model, PREFIXES[config.model_type]), strict=True)
    tower.eval()
    return tower, lambda: first_tensor(tower(pixels, grid_thw=grid))


def zentorch_tower(model: Path, pixels: torch.Tensor, grid: torch.Tensor) -> Run:
    """The same class, compiled by AMD's plug-in."""
    import zentorch  # noqa: F401  (registers the backend)

    tower, _ = transformers_tower(model, pixels, grid)
    compiled = torch.compile(tower, backend="zentorch")
    return lambda: first_tensor(compiled(pixels, grid_thw=grid))


class OneGrid(torch.nn.Module):
    """A tower of transformers as a function of the patches alone, f32 in and out; all that the
    language model reads is an output."""

    def __init__(self, tower: torch.nn.Module, grid: torch.Tensor) -> None:
        super().__init__()
        self.tower, self.grid = tower, grid

    def forward(self, patches: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output = self.tower(patches.to(torch.bfloat16), grid_thw=self.grid)
        return tuple(part.float() for part in (first_tensor(output), *getattr(output, "deepstack_features", ())))


def openvino_tower(model: Path, pixels: torch.Tensor, grid: torch.Tensor) -> Run:
    """The same class, traced for this grid and compiled by OpenVINO."""
    import openvino as ov

    tower, _ = transformers_tower(model, pixels, grid)
    patches = pixels.float()
    traced = torch.jit.trace(OneGrid(tower, grid).eval(), (patches,), check_trace=False)
    converted = ov.convert_model(traced, example_input=(patches,), input=[list(patches.shape)])
    compiled = ov.Core().compile_model(converted, "CPU", {"INFERENCE_NUM_THREADS": torch.get_num_threads(),
                                                          "INFERENCE_PRECISION_HINT": ov.Type.bf16})
    request = compiled.create_infer_request()
    return lambda: torch.from_numpy(request.infer([patches.numpy()], share_inputs=True, share_outputs=True)[0])


def vllm_modules(config: dict[str, Any]) -> dict[str, torch.nn.Module]:
    """vLLM's classes for the tower, by the prefix of their tensors."""
    if config["model_type"] == "kimi_vl":
        from vllm.model_executor.models.kimi_vl import KimiVLMultiModalProjector
        from vllm.model_executor.models.moonvit import MoonVitPretrainedModel
        from vllm.transformers_utils.configs.kimi_vl import KimiVLConfig

        kimi = KimiVLConfig(**config)
        return {"vision_tower.": MoonVitPretrainedModel(kimi.vision_config),
                "multi_modal_projector.": KimiVLMultiModalProjector(kimi)}
    if config["model_type"] == "qwen3_vl":
        from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig as VisionConfig
        from vllm.model_executor.models.qwen3_vl import Qwen3_VisionTransformer as Tower
    else:
        from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig as VisionConfig
        from vllm.model_executor.models.qwen2_5_vl import Qwen2_5_VisionTransformer as Tower
    vision = VisionConfig(**config["vision_config"])
    return {PREFIXES[config["model_type"]]: Tower(vision, prefix="visual")}


def load_vllm(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> torch.nn.Module:
    if hasattr(module, "load_weights"):
        module.load_weights(iter(tensors.items()))
    else:
        module.load_state_dict(tensors, strict=True)
    for part in module.modules():
        if hasattr(part, "quant_method"):
            part.quant_method.process_weights_after_loading(part)
    return module.eval()


def enter_vllm(stack: ExitStack) -> None:
    """What vLLM's model classes need around them."""
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment

    torch.set_default_dtype(torch.bfloat16)
    stack.enter_context(set_current_vllm_config(VllmConfig(device_config=DeviceConfig("cpu"))))
    meeting_point = stack.enter_context(tempfile.NamedTemporaryFile())
    init_distributed_environment(1, 0, f"file://{meeting_point.name}", 0, "gloo")
    ensure_model_parallel_initialized(1, 1)


def vllm_tower(stack: ExitStack, model: Path, pixels: torch.Tensor, grid: torch.Tensor) -> Run:
    enter_vllm(stack)
    config = json.loads((model / "config.json").read_text())
    modules = [load_vllm(module, tower_tensors(model, prefix)) for prefix, module in vllm_modules(config).items()]
    if config["model_type"] != "kimi_vl":
        return lambda: first_tensor(modules[0](pixels, grid.tolist()))
    tower, projector = modules
    patch = config["vision_config"]["patch_size"]
    patches = pixels.reshape(-1, 3, patch, patch)
    return lambda: projector(torch.cat(tower(patches, grid[:, 1:])))


def start(stack: ExitStack, peer: str, model: Path, pixels: torch.Tensor, grid: torch.Tensor) -> Run:
    if peer == "transformers":
        return transformers_tower(model, pixels, grid)[1]
    if peer == "zentorch":
        return zentorch_tower(model, pixels, grid)
    if peer == "openvino":
        return openvino_tower(model, pixels, grid)
    return vllm_tower(stack, model, pixels, grid)


def relative_error(output: torch.Tensor, file: str) -> float:
    """Of all embeddings, against those that `omma encode` wrote; Qwen3-VL's deepstack columns lie
    after the merged ones."""
    expected = load_file(file)["image.0.embeddings"]
    found = output.float()[:, : expected.shape[1]]
    return ((found - expected).norm() / expected.norm()).item()


def say(**answer: object) -> None:
    print(json.dumps(answer), flush=True)


def main() -> None:
    peer, model, patches, threads = sys.argv[1:5]
    torch.set_num_threads(int(threads))
    tensors = load_file(patches)
    pixels, grid = tensors["image.0.pixel_values"].to(torch.bfloat16), tensors["image.0.grid_thw"].reshape(1, 3)
    with ExitStack() as stack, torch.inference_mode():
        try:
            run = start(stack, peer, Path(model), pixels, grid)
            run()
        except Exception as reason:  # a peer that is missing or refuses must not end the comparison
            say(refused=f"{type(reason).__name__}: {(str(reason).splitlines() or [''])[0][:150]}")
            return
        say(torch=torch.__version__)
        for line in sys.stdin:
            began = time.perf_counter()
            output = run()
            took = (time.perf_counter() - began) * 1e3
            say(ms=took, error=relative_error(output, line.strip()) if line.strip() else None)


if __name__ == "__main__":
    main()
