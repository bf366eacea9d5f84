"""LightOnOCR: the files of a tiny checkpoint in the released form, and the official classes, run on
it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoTokenizer, LightOnOcrConfig, LightOnOcrForConditionalGeneration, LightOnOcrProcessor
from transformers.image_utils import load_image
from transformers.models.pixtral.image_processing_pixtral import PixtralImageProcessor

from fixture_qwen import QwenOfficial
from fixture_stages import Recorder, Tensors, keep_raster, record_language, sample_rows
from fixture_tokenizer import ADDED_TOKENS, added_token_id, write_plain_tokenizer

if TYPE_CHECKING:
    from fixture_models import ModelSpec

MODEL_VOCAB_SIZE = 544  # the tokenizer knows fewer
added_id = added_token_id
# Turns and line feeds as in the family's template.
CHAT_TEMPLATE = """\
{% for message in messages %}
{% if loop.first and message.role != 'system' %}
<|im_start|>system<|im_end|>
{% endif %}
<|im_start|>{{ message.role }}
{% if message.content is string %}
{{ message.content }}<|im_end|>
{% else %}
{% for part in message.content %}
{% if part.type == 'image' %}
<|image_pad|>
{%- elif part.type == 'text' %}
{{ part.text }}
{% endif %}
{% endfor %}
<|im_end|>
{% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""


def stop_ids() -> list[int]:
    return [added_id("<|im_end|>"), added_id("<|endoftext|>")]


def write_tokenizer(folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    write_plain_tokenizer(folder, ADDED_TOKENS, eos_token="<|im_end|>", image_break_token="<|vision_pad|>", image_end_token="<|vision_end|>",
                          image_token="<|image_pad|>")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def make_config(spec: ModelSpec) -> LightOnOcrConfig:
    """The official configuration object."""
    return LightOnOcrConfig(
        vision_config=dict(model_type="pixtral", hidden_act="silu", image_size=spec.form.longest_edge,
                           patch_size=spec.form.patch_size, rope_parameters=dict(rope_type="axial", rope_theta=10_000.0), **spec.vision),
        text_config=dict(model_type="qwen3", vocab_size=MODEL_VOCAB_SIZE, max_position_embeddings=8192, rms_norm_eps=1e-6,
                         tie_word_embeddings=spec.tied, rope_parameters=dict(rope_type="default", rope_theta=1_000_000.0),
                         bos_token_id=None, eos_token_id=stop_ids()[0], pad_token_id=stop_ids()[1], **spec.text),
        image_token_id=added_id("<|image_pad|>"), spatial_merge_size=spec.form.merge_size, tie_word_embeddings=spec.tied,
    )


def released_config(spec: ModelSpec) -> dict[str, Any]:
    """config.json as released files have it."""
    return {
        "architectures": ["LightOnOcrForConditionalGeneration"],
        "dtype": str(spec.dtype).removeprefix("torch."),
        "image_token_id": added_id("<|image_pad|>"),
        "model_type": "lighton_ocr",
        "multimodal_projector_bias": False,
        "projector_hidden_act": "gelu",
        "spatial_merge_size": spec.form.merge_size,
        "text_config": {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "layer_types": ["full_attention"] * spec.text["num_hidden_layers"],
            "max_position_embeddings": 8192,
            "max_window_layers": 28,
            "model_type": "qwen3",
            "rms_norm_eps": 1e-6,
            "rope_scaling": None,
            "rope_theta": 1_000_000,
            "sliding_window": None,
            "tie_word_embeddings": spec.tied,
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": MODEL_VOCAB_SIZE,
            **spec.text,
        },
        "tie_word_embeddings": spec.tied,
        "vision_config": {
            "attention_dropout": 0,
            "head_dim": spec.vision["hidden_size"] // spec.vision["num_attention_heads"],
            "hidden_act": "silu",
            "image_size": spec.form.longest_edge,
            "initializer_range": 0.02,
            "model_type": "pixtral",
            "num_channels": 3,
            "patch_size": spec.form.patch_size,
            "rope_theta": 10_000,
            **spec.vision,
        },
        "vision_feature_layer": -1,
    }


def preprocessor_config(spec: ModelSpec) -> dict[str, Any]:
    """preprocessor_config.json as the released file has it, or with the size of a merge block as
    both sides of a patch."""
    block = spec.form.patch_size * spec.form.merge_size
    return {
        "data_format": "channels_first",
        "default_to_square": True,
        "do_center_crop": None,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_pad": None,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": list(spec.form.mean),
        "image_processor_type": "PixtralImageProcessorFast",
        "image_std": list(spec.form.std),
        "patch_size": spec.form.patch_size if spec.released else {"height": block, "width": block},
        "processor_class": "LightOnOcrProcessor",
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"longest_edge": spec.form.longest_edge},
    }


class LightOnOfficial(QwenOfficial):
    """The official model in float32 and its processor, loaded from a checkpoint directory. Sides
    become multiples of a merge block, as vLLM asks the image processor for."""

    stamps_videos = False
    forbidden = [added_id(text) for text in ADDED_TOKENS]

    def __init__(self, spec: ModelSpec, folder: Path, images: Path) -> None:
        self.spec, self.images = spec, images
        tokenizer = AutoTokenizer.from_pretrained(folder, extra_special_tokens={
            "image_token": "<|image_pad|>", "image_break_token": "<|vision_pad|>", "image_end_token": "<|vision_end|>"})
        template = (folder / "chat_template.jinja").read_text()
        self.processor = LightOnOcrProcessor(
            PixtralImageProcessor.from_pretrained(folder), tokenizer, patch_size=spec.form.patch_size,
            spatial_merge_size=spec.form.merge_size, chat_template=template)
        self.model, loading = LightOnOcrForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        if any(loading.values()):
            raise RuntimeError(f"{folder.name}: the official class does not find its tensors: {loading}")
        self.model.eval()
        self.image_processor = type(self.processor.image_processor).__name__
        self.stops = self.model.generation_config.eos_token_id
        self.block = spec.form.patch_size * spec.form.merge_size

    def inputs(self, case: Any, prompt: str | None = None) -> dict[str, torch.Tensor]:
        options: dict[str, Any] = {}
        if case.images:
            options = {"images": [load_image(str(self.images / file)) for file in case.images],
                       "images_kwargs": {"patch_size": self.block, "do_pad": True}}
        return dict(self.processor(text=[prompt or self.prompt_text(case)], return_tensors="pt", **options))

    def grids(self, inputs: dict[str, torch.Tensor], kind: str) -> torch.Tensor:
        sizes = torch.as_tensor(inputs.get("image_sizes", ()) if kind == "image" else ()).reshape(-1, 2)
        return torch.nn.functional.pad(sizes // self.spec.form.patch_size, (1, 0), value=1)

    def continued(self, inputs: dict[str, torch.Tensor], tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        """The inputs of one pass over prompt and answer."""
        ids = torch.cat([inputs["input_ids"], tokens[None]], dim=1)
        return {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def answer_position(self, inputs: dict[str, torch.Tensor]) -> int:
        return inputs["input_ids"].shape[1]

    def stored_preprocess(self, file: Path) -> Tensors:
        """8-bit pixels after the official resize, a sample of the patches, grid; raises unless one
        gives the other."""
        official, patch = self.processor.image_processor, self.spec.form.patch_size
        image = load_image(str(file))
        result = official(image, patch_size=self.block, return_tensors="pt")
        source = official.process_image(image, do_convert_rgb=True)
        pixels = official.resize(source[None], size=official.size, resample=official.resample,
                                 patch_size=type(official.size)(height=self.block, width=self.block))
        if pixels.dtype != torch.uint8:
            raise RuntimeError(f"{file.name}: the official resize gave {pixels.dtype}, not 8-bit pixels")
        mean, std = (255 * torch.tensor(values)[:, None, None] for values in (official.image_mean, official.image_std))
        planes = (pixels[0].float() - mean) / std
        if not torch.equal(planes, result["pixel_values"][0]):
            raise RuntimeError(f"{file.name}: pixel_values differ from the normalised 8-bit pixels")
        patches = planes.unflatten(2, (-1, patch)).unflatten(1, (-1, patch)).permute(1, 3, 0, 2, 4).flatten(2).flatten(0, 1)
        return {
            "pixels_u8": pixels[0].permute(1, 2, 0).contiguous(),
            "pixel_values": sample_rows(patches),
            "grid_thw": torch.tensor([1, pixels.shape[2] // patch, pixels.shape[3] // patch]),
        }

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor], full: bool) -> Iterator[Tensors]:
        """Records one forward pass, the tower's rows in merge-block order."""
        recorder = Recorder()
        tower, language = self.model.model.vision_encoder, self.model.model.language_model
        n = inputs["input_ids"].shape[1]
        recorder.stages["language.position_ids"] = torch.arange(n).expand(3, n)
        recorder.on_output(self.model.model.vision_projection, recorder.keep("vision.merged"))
        if full:
            keep = keep_raster(recorder, self.grids(inputs, "image"), self.spec.form.merge_size)
            recorder.on_input(tower.transformer, 0, lambda rows: keep("vision.position_added")(rows[0]))
            recorder.on_output(tower.patch_positional_embedding, lambda tables: keep("vision.rotary_cos")(tables[0]))
            recorder.on_output(tower.patch_positional_embedding, lambda tables: keep("vision.rotary_sin")(tables[1]))
            for index, block in enumerate(tower.transformer.layers):
                recorder.on_output(block, lambda rows, index=index: keep(f"vision.block.{index}")(rows[0]))
            record_language(recorder, language)
        try:
            yield recorder.stages
        finally:
            recorder.close()
