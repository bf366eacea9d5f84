"""Kimi-VL: a tiny checkpoint in the released form, and a reference put together from parts of the
official code.

transformers ships no Kimi-VL class, but its Kimi-K2.5 has the same parts under other names:
MoonViT, the projector and a DeepSeek-V3 language model. It reads the checkpoint here after the
projector's tensors are renamed. fixture_moonvit.py compares the tower with vLLM's MoonViT.
"""

from __future__ import annotations

import functools
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import DeepseekV3Config, Kimi_K25Config, Kimi_K25ForConditionalGeneration
from transformers.image_utils import load_image
from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor

from fixture_stages import Recorder, Tensors, keep_raster, record_language, sample_rows
from fixture_tiktoken import N_RANKS, SPECIAL_IDS, VOCAB_SIZE, decode, encode, render_prompt

if TYPE_CHECKING:
    from fixture_models import ModelSpec

MAX_POSITIONS = 131_072
ROPE_THETA = 800_000.0
RMS_NORM_EPS = 1e-5
ROUTED_SCALING = 2.446
RENAMED = {  # Kimi-VL's projector -> Kimi-K2.5's
    "multi_modal_projector.pre_norm": "mm_projector.pre_norm",
    "multi_modal_projector.linear_1": "mm_projector.proj.0",
    "multi_modal_projector.linear_2": "mm_projector.proj.2",
}


def tensor_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Every tensor of the checkpoint by its released name."""
    vision, text, patch = spec.vision, spec.text, spec.form.patch_size
    width, inner, hidden = vision["hidden_size"], vision["intermediate_size"], text["hidden_size"]
    side = math.isqrt(spec.n_positions)
    joined = width * spec.form.merge_size**2
    shapes: dict[str, tuple[int, ...]] = {
        "vision_tower.patch_embed.proj.weight": (width, 3, patch, patch),
        "vision_tower.patch_embed.proj.bias": (width,),
        "vision_tower.patch_embed.pos_emb.weight": (side, side, width),
    }

    def linear(name: str, n_out: int, n_in: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = (n_out, n_in)
        if bias:
            shapes[f"{name}.bias"] = (n_out,)

    def norm(name: str, n: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = (n,)
        if bias:
            shapes[f"{name}.bias"] = (n,)

    def swiglu(name: str, n_inner: int) -> None:
        linear(f"{name}.gate_proj", n_inner, hidden, bias=False)
        linear(f"{name}.up_proj", n_inner, hidden, bias=False)
        linear(f"{name}.down_proj", hidden, n_inner, bias=False)

    for index in range(vision["num_hidden_layers"]):
        block = f"vision_tower.encoder.blocks.{index}"
        norm(f"{block}.norm0", width)
        norm(f"{block}.norm1", width)
        linear(f"{block}.wqkv", 3 * width, width)
        linear(f"{block}.wo", width, width)
        linear(f"{block}.mlp.fc0", inner, width)
        linear(f"{block}.mlp.fc1", width, inner)
    norm("vision_tower.encoder.final_layernorm", width)
    norm("multi_modal_projector.pre_norm", width)
    linear("multi_modal_projector.linear_1", joined, joined)
    linear("multi_modal_projector.linear_2", hidden, joined)

    heads, nope, rope, value = (text[key] for key in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim",
                                                       "v_head_dim"))
    rank, n_experts, expert = text["kv_lora_rank"], text["n_routed_experts"], text["moe_intermediate_size"]
    linear("language_model.model.embed_tokens", VOCAB_SIZE, hidden, bias=False)
    for index in range(text["num_hidden_layers"]):
        layer = f"language_model.model.layers.{index}"
        norm(f"{layer}.input_layernorm", hidden, bias=False)
        norm(f"{layer}.post_attention_layernorm", hidden, bias=False)
        linear(f"{layer}.self_attn.q_proj", heads * (nope + rope), hidden, bias=False)
        linear(f"{layer}.self_attn.kv_a_proj_with_mqa", rank + rope, hidden, bias=False)
        norm(f"{layer}.self_attn.kv_a_layernorm", rank, bias=False)
        linear(f"{layer}.self_attn.kv_b_proj", heads * (nope + value), rank, bias=False)
        linear(f"{layer}.self_attn.o_proj", hidden, heads * value, bias=False)
        if index < text["first_k_dense_replace"]:
            swiglu(f"{layer}.mlp", text["intermediate_size"])
            continue
        linear(f"{layer}.mlp.gate", n_experts, hidden, bias=False)
        shapes[f"{layer}.mlp.gate.e_score_correction_bias"] = (n_experts,)
        for number in range(n_experts):
            swiglu(f"{layer}.mlp.experts.{number}", expert)
        swiglu(f"{layer}.mlp.shared_experts", expert * text["n_shared_experts"])
    norm("language_model.model.norm", hidden, bias=False)
    linear("language_model.lm_head", VOCAB_SIZE, hidden, bias=False)
    return shapes


def random_tensors(spec: ModelSpec) -> Tensors:
    """Weights by which signals neither die nor explode; the router's bias is F32 besides the
    others' type."""
    generator = torch.Generator().manual_seed(spec.seed)
    tensors: Tensors = {}
    for name, shape in sorted(tensor_shapes(spec).items()):
        noise = torch.randn(shape, generator=generator)
        if name.endswith("e_score_correction_bias"):
            tensors[name] = 0.1 * noise
            continue
        if name.endswith("pos_emb.weight"):
            value = 0.3 * noise
        elif name.endswith(("embed_tokens.weight", "lm_head.weight")):
            value = 0.5 * noise
        elif name.endswith("bias"):
            value = 0.1 * noise
        elif "norm" in name:
            value = 1 + 0.15 * noise
        else:
            value = 1.3 / math.sqrt(noise[0].numel()) * noise
        if name.endswith("lm_head.weight"):  # or nearly half of an answer would be special tokens
            stop = value[SPECIAL_IDS["<|im_end|>"]].clone()
            value[N_RANKS:] *= 0.02
            value[SPECIAL_IDS["<|im_end|>"]] = stop
        tensors[name] = value.to(spec.dtype)
    return tensors


def released_config(spec: ModelSpec) -> dict[str, Any]:
    """config.json as the released checkpoint has it."""
    dtype = str(spec.dtype).removeprefix("torch.")
    side = math.isqrt(spec.n_positions)
    text = {
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": MAX_POSITIONS,
        **spec.text,
        "num_key_value_heads": spec.text["num_attention_heads"],
        "ep_size": 1,
        "routed_scaling_factor": ROUTED_SCALING,
        "q_lora_rank": None,
        "topk_method": "noaux_tc",
        "n_group": 1,
        "topk_group": 1,
        "moe_layer_freq": 1,
        "norm_topk_prob": True,
        "scoring_func": "sigmoid",
        "aux_loss_alpha": 0.001,
        "seq_aux": True,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "rms_norm_eps": RMS_NORM_EPS,
        "pretraining_tp": 1,
        "use_cache": True,
        "rope_theta": ROPE_THETA,
        "rope_scaling": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": SPECIAL_IDS["[BOS]"],
        "pad_token_id": SPECIAL_IDS["[PAD]"],
        "eos_token_id": SPECIAL_IDS["[EOS]"],
        "torch_dtype": dtype,
        "tie_word_embeddings": False,
    }
    return {
        "architectures": ["KimiVLForConditionalGeneration"],
        "ignore_index": -100,
        "media_placeholder_token_id": SPECIAL_IDS["<|media_pad|>"],
        "model_type": "kimi_vl",
        "text_config": text,
        "torch_dtype": dtype,
        "transformers_version": "4.50.3",
        "vision_config": {
            "model_type": "moonvit",
            "patch_size": spec.form.patch_size,
            **spec.vision,
            "init_pos_emb_height": side,
            "init_pos_emb_width": side,
            "merge_kernel_size": [spec.form.merge_size] * 2,
            "torch_dtype": dtype,
        },
    }


def preprocessor_config(spec: ModelSpec) -> dict[str, Any]:
    """preprocessor_config.json as the released checkpoint has it."""
    return {
        "image_processor_type": "KimiVLImageProcessor",
        "in_token_limit": spec.form.patch_limit,
        "patch_size": spec.form.patch_size,
        "num_pooled_tokens": 1024,
        "image_mean": list(spec.form.mean),
        "image_std": list(spec.form.std),
        "pad_input": True,
        "merge_kernel_size": [spec.form.merge_size] * 2,
    }


def reference_config(released: dict[str, Any]) -> Kimi_K25Config:
    """A released config.json for the class of transformers that is run."""
    text, vision, image_token = released["text_config"], released["vision_config"], released["media_placeholder_token_id"]
    rope = {"rope_type": "default", "rope_theta": text["rope_theta"]} | (text.get("rope_scaling") or {})
    left_out = ("rope_theta", "rope_scaling", "torch_dtype", "model_type", "auto_map", "architectures")
    sizes = ("patch_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
    return Kimi_K25Config(
        text_config=DeepseekV3Config(**{key: value for key, value in text.items() if key not in left_out}, rope_parameters=rope,
                                     num_mtp_layers=0),
        vision_config={key: vision[key] for key in sizes} | {"pos_emb_height": vision["init_pos_emb_height"],
                                                             "pos_emb_width": vision["init_pos_emb_width"]},
        projection_hidden_size=vision["hidden_size"],
        image_token_id=image_token,
        video_token_id=text["vocab_size"],
        vision_start_token_id=image_token - 3,
        vision_end_token_id=image_token - 1,
        tie_word_embeddings=False,
    )


def rename_shard(shard: Path, out: Path) -> list[str]:
    """Its names for the class of transformers. A file without the projector is only linked."""
    with safe_open(shard, "pt") as file:
        names = {name: functools.reduce(lambda new, old: new.replace(old, RENAMED[old]), RENAMED, name) for name in file.keys()}
        if all(old == new for old, new in names.items()):
            out.symlink_to(shard.resolve())
        else:
            save_file({new: file.get_tensor(old) for old, new in names.items()}, out, metadata={"format": "pt"})
    return list(names.values())


def load_reference(folder: Path, dtype: torch.dtype = torch.float32) -> Kimi_K25ForConditionalGeneration:
    """The class of transformers with a checkpoint's weights."""
    with tempfile.TemporaryDirectory() as temporary:
        places = {name: shard.name for shard in sorted(folder.glob("*.safetensors"))
                  for name in rename_shard(shard, Path(temporary) / shard.name)}
        if len(set(places.values())) > 1:
            index = {"metadata": {}, "weight_map": places}
            (Path(temporary) / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
        reference_config(json.loads((folder / "config.json").read_text(encoding="utf-8"))).save_pretrained(temporary)
        model, loading = Kimi_K25ForConditionalGeneration.from_pretrained(
            temporary, dtype=dtype, attn_implementation="eager", experts_implementation="eager", output_loading_info=True
        )
    if any(loading.values()):
        raise RuntimeError(f"{folder.name}: the reference does not find its tensors: {loading}")
    return model.eval()


class KimiOfficial:
    """The reference in float32 with the preprocessing and the prompt of the original code."""

    image_processor = "KimiVLImageProcessor, written again"
    # ids of special tokens, of which only a stop token may be generated
    forbidden = range(N_RANKS, VOCAB_SIZE)

    def __init__(self, spec: ModelSpec, folder: Path, images: Path) -> None:
        self.spec, self.images = spec, images
        self.model = load_reference(folder)
        self.stops = [json.loads((folder / "generation_config.json").read_text())["eos_token_id"]]
        self.model.generation_config.eos_token_id = self.stops
        self.model.generation_config.pad_token_id = SPECIAL_IDS["[PAD]"]

    def resize(self, image: Image.Image) -> np.ndarray:
        """Shrinks to the limit of patches, never enlarges, and pads with black at the right and the
        bottom."""
        form = self.spec.form
        width, height = image.size
        n_patches = (width // form.patch_size) * (height // form.patch_size)
        if n_patches > form.patch_limit:
            scale = math.sqrt(form.patch_limit / n_patches)
            image = image.resize((int(width * scale), int(height * scale)), resample=Image.Resampling.BICUBIC)
        pixels = np.asarray(image.convert("RGB"))
        factor = form.patch_size * form.merge_size
        return np.pad(pixels, ((0, -pixels.shape[0] % factor), (0, -pixels.shape[1] % factor), (0, 0)))

    def preprocess(self, file: Path) -> Tensors:
        """8-bit pixels, patches in raster order, grid."""
        pixels = torch.from_numpy(self.resize(load_image(str(file))))
        patch = self.spec.form.patch_size
        grid = torch.tensor([1, pixels.shape[0] // patch, pixels.shape[1] // patch])
        planes = (pixels.permute(2, 0, 1).float() / 255 - 0.5) / 0.5
        patches = planes.unflatten(2, (-1, patch)).unflatten(1, (-1, patch)).permute(1, 3, 0, 2, 4)
        return {"pixels_u8": pixels, "pixel_values": patches.flatten(0, 1), "grid_thw": grid}

    def stored_preprocess(self, file: Path) -> Tensors:
        """As preprocess, with a sample of the patches; raises unless Kimi-K2.5's agrees.

        It resizes with torchvision, so only images within the limit can be compared.
        """
        result = self.preprocess(file)
        image = load_image(str(file))
        if (image.width // 14) * (image.height // 14) <= self.spec.form.patch_limit:
            other = Kimi_K25ImageProcessor()(image, return_tensors="pt")["pixel_values"]
            if (other - result["pixel_values"]).abs().max() > 1e-6:
                raise RuntimeError(f"{file.name}: Kimi-K2.5's image processor gives other patches")
        return result | {"pixel_values": sample_rows(result["pixel_values"].flatten(1))}

    def prompt_text(self, case: Any) -> str:
        return render_prompt(case.messages)

    def inputs(self, case: Any) -> dict[str, torch.Tensor]:
        images = [self.preprocess(self.images / file) for file in case.images]
        counts = iter(int(image["grid_thw"].prod()) // self.spec.form.merge_size**2 for image in images)
        ids: list[int] = []
        for token in encode(self.prompt_text(case)):
            ids += [token] * (next(counts) if token == SPECIAL_IDS["<|media_pad|>"] else 1)
        inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        if images:
            inputs["pixel_values"] = torch.cat([image["pixel_values"] for image in images])
            inputs["image_grid_thw"] = torch.stack([image["grid_thw"] for image in images])
        return inputs

    def continued(self, inputs: dict[str, torch.Tensor], tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        """The inputs of one pass over prompt and answer."""
        ids = torch.cat([inputs["input_ids"], tokens[None]], dim=1)
        return {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def answer_position(self, inputs: dict[str, torch.Tensor]) -> int:
        return inputs["input_ids"].shape[1]

    def grids(self, inputs: dict[str, torch.Tensor], kind: str) -> Any:
        return inputs.get(f"{kind}_grid_thw", ())

    def decode(self, tokens: list[int]) -> str:
        return decode(tokens)

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor], full: bool) -> Iterator[Tensors]:
        """Records one forward pass, the tower's rows in merge-block order."""
        recorder = Recorder()
        tower, language = self.model.model.vision_tower, self.model.model.language_model
        n = inputs["input_ids"].shape[1]
        recorder.stages["language.position_ids"] = torch.arange(n).expand(3, n)
        recorder.on_output(self.model.model.mm_projector, lambda rows: recorder.keep("vision.merged")(rows.squeeze(1)))
        if full:
            self._record_tower(recorder, tower, inputs["image_grid_thw"])
            record_language(recorder, language)
        try:
            yield recorder.stages
        finally:
            recorder.close()

    def _record_tower(self, recorder: Recorder, tower: torch.nn.Module, grids: torch.Tensor) -> None:
        keep = keep_raster(recorder, grids, self.spec.form.merge_size)

        def keep_rotary(name: str, table: torch.Tensor) -> None:
            # x and y take turns in each half of a head; the fixtures have all of y's angles before
            # x's.
            x, y = table[:, : table.shape[1] // 2].unflatten(1, (-1, 2)).unbind(2)
            keep(name)(torch.cat([y, x, y, x], dim=1))

        recorder.on_output(tower.patch_embed.proj, lambda rows: keep("vision.patch_embed")(rows.flatten(1)))
        recorder.on_output(tower.patch_embed, keep("vision.position_added"))
        recorder.on_output(tower.rotary_emb, lambda tables: keep_rotary("vision.rotary_cos", tables[0]))
        recorder.on_output(tower.rotary_emb, lambda tables: keep_rotary("vision.rotary_sin", tables[1]))
        for index, block in enumerate(tower.layers):
            recorder.on_output(block, keep(f"vision.block.{index}"))
