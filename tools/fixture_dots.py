"""dots.ocr: the files of a tiny checkpoint in the released form, and a reference.

transformers ships no dots.ocr class. The reference has its language model, Qwen2, and the tower
written again from the model's description (docs/models/dots-ocr.md); tests/vllm compares vLLM's
tower with ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen2VLImageProcessor
from transformers.image_utils import load_image

from fixture_qwen import QwenOfficial
from fixture_stages import Recorder, Tensors, record_language
from fixture_tokenizer import VOCAB_SIZE, write_plain_tokenizer

if TYPE_CHECKING:
    from fixture_models import ModelSpec

MODEL_VOCAB_SIZE = 544  # the tokenizer knows fewer
ADDED_TOKENS = (
    "<|endoftext|>",
    "<|imgpad|>",
    "<|img|>",
    "<|endofimg|>",
    "<|user|>",
    "<|endofuser|>",
    "<|assistant|>",
    "<|endofassistant|>",
)
IMAGE = "<|img|><|imgpad|><|endofimg|>"
# Turns as in the released template, which takes strings alone.
CHAT_TEMPLATE = """\
{%- for m in messages %}
    {%- if m.role == 'system' %}
        {{- '<|system|>' + m.content + '<|endofsystem|>\\n' }}
    {%- elif m.role == 'user' %}
        {{- '<|user|>' + m.content + '<|endofuser|>' }}
    {%- elif m.role == 'assistant' %}
        {{- '<|assistant|>' + m.content }}
        {%- if not loop.last %}
            {{- '<|endofassistant|>' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if messages[-1].role != 'assistant' %}
    {{- '<|assistant|>' }}
{%- endif %}
"""


def added_id(text: str) -> int:
    """Id of one of ADDED_TOKENS: they follow the learned tokens in order."""
    return VOCAB_SIZE + ADDED_TOKENS.index(text)


def stop_ids() -> list[int]:
    return [added_id("<|endoftext|>"), added_id("<|endofassistant|>")]


def write_tokenizer(folder: Path) -> None:
    """Writes tokenizer.json, and tokenizer_config.json with the chat template."""
    write_plain_tokenizer(folder, ADDED_TOKENS, chat_template=CHAT_TEMPLATE, eos_token="<|endoftext|>")


def text_config(spec: ModelSpec) -> dict[str, Any]:
    return {
        "attention_bias": True,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 131_072,
        "max_window_layers": 28,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1_000_000,
        "sliding_window": 131_072,
        "tie_word_embeddings": spec.tied,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": MODEL_VOCAB_SIZE,
        **spec.text,
    }


def released_config(spec: ModelSpec) -> dict[str, Any]:
    """config.json as the released file has it."""
    return {
        "architectures": ["DotsOCRForCausalLM"],
        "model_type": "dots_ocr",
        **text_config(spec),
        "image_token_id": added_id("<|imgpad|>"),
        "torch_dtype": str(spec.dtype).removeprefix("torch."),
        "video_token_id": added_id("<|endofimg|>"),
        "vision_config": {
            "attn_implementation": "flash_attention_2",
            "gradient_checkpointing": False,
            "hidden_size": spec.text["hidden_size"],
            "init_merger_std": 0.02,
            "initializer_range": 0.02,
            "is_causal": False,
            "num_channels": 3,
            "patch_size": spec.form.patch_size,
            "post_norm": True,
            "rms_norm_eps": 1e-5,
            "spatial_merge_size": spec.form.merge_size,
            "temporal_patch_size": 1,
            "use_bias": False,
            **spec.vision,
        },
    }


def preprocessor_config(spec: ModelSpec) -> dict[str, Any]:
    """preprocessor_config.json as the released file has it."""
    return {
        "image_mean": list(spec.form.mean),
        "image_processor_type": "Qwen2VLImageProcessor",
        "image_std": list(spec.form.std),
        "max_pixels": spec.form.longest_edge,
        "merge_size": spec.form.merge_size,
        "min_pixels": spec.form.shortest_edge,
        "patch_size": spec.form.patch_size,
        "processor_class": "DotsVLProcessor",
        "temporal_patch_size": 1,
    }


def make_config(spec: ModelSpec) -> Qwen2Config:
    """The language model's configuration, and the tower's spec besides."""
    config = Qwen2Config(**{name: value for name, value in text_config(spec).items() if name != "attention_bias"},
                         bos_token_id=None, eos_token_id=stop_ids(), pad_token_id=stop_ids()[0])
    config.tower = {**spec.vision, "patch_size": spec.form.patch_size, "merge_size": spec.form.merge_size}
    config.image_token_id = added_id("<|imgpad|>")
    return config


class Attention(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(1, (3, self.n_heads, -1)).permute(1, 2, 0, 3)
        def turn(heads: torch.Tensor) -> torch.Tensor:
            low, high = heads.chunk(2, dim=-1)
            return heads * cosine + torch.cat([-high, low], dim=-1) * sine

        parts = []
        for one_q, one_k, one_v in zip(*(heads.split(lengths, dim=1) for heads in (turn(q), turn(k), v)), strict=True):
            scores = one_q @ one_k.transpose(1, 2) / one_q.shape[-1] ** 0.5
            parts.append(scores.softmax(-1) @ one_v)
        return self.proj(torch.cat(parts, dim=1).transpose(0, 1).flatten(1))


class Gated(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, inner, bias=False)
        self.fc2 = nn.Linear(inner, width, bias=False)
        self.fc3 = nn.Linear(width, inner, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(nn.functional.silu(self.fc1(x)) * self.fc3(x))


class Block(nn.Module):
    def __init__(self, width: int, n_heads: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attn, self.mlp = Attention(width, n_heads), Gated(width, inner)

    def forward(self, x: torch.Tensor, *turning: Any) -> torch.Tensor:
        x = x + self.attn(self.norm1(x), *turning)
        return x + self.mlp(self.norm2(x))


class Tower(nn.Module):
    """Patches [n, 3 * patch^2] in merge-block order to tokens."""

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__()
        tower = config.tower
        width, self.patch, self.merge = tower["embed_dim"], tower["patch_size"], tower["merge_size"]
        self.head_dim = width // tower["num_attention_heads"]
        self.patch_embed = nn.Module()
        self.patch_embed.patchifier = nn.Module()
        self.patch_embed.patchifier.proj = nn.Conv2d(3, width, self.patch, stride=self.patch)
        self.patch_embed.patchifier.norm = nn.RMSNorm(width, eps=1e-5)
        self.blocks = nn.ModuleList(
            Block(width, tower["num_attention_heads"], tower["intermediate_size"]) for _ in range(tower["num_hidden_layers"]))
        self.post_trunk_norm = nn.RMSNorm(width, eps=1e-5)
        self.merger = nn.Module()
        self.merger.ln_q = nn.LayerNorm(width, eps=1e-6)
        joined = width * self.merge**2
        self.merger.mlp = nn.Sequential(nn.Linear(joined, joined), nn.GELU(), nn.Linear(joined, config.hidden_size))

    def angles(self, grids: torch.Tensor) -> torch.Tensor:
        """[n, head_dim]: the row's angles, the column's, and both again."""
        parts = []
        frequencies = 1.0 / 10_000.0 ** (torch.arange(0, self.head_dim // 2, 2, dtype=torch.float32) / (self.head_dim // 2))
        for _, rows, columns in grids.tolist():
            place = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), dim=-1)
            blocks = place.unflatten(1, (-1, self.merge)).unflatten(0, (-1, self.merge)).transpose(1, 2).reshape(-1, 2)
            parts.append((blocks[:, :, None].float() * frequencies).flatten(1))
        return torch.cat(parts).repeat(1, 2)

    def forward(self, patches: torch.Tensor, grids: torch.Tensor) -> torch.Tensor:
        entry, angles = self.patch_embed.patchifier, self.angles(grids)
        x = entry.norm(entry.proj(patches.unflatten(1, (3, self.patch, self.patch))).flatten(1))
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin(), grids.prod(1).tolist())
        return self.merger.mlp(self.merger.ln_q(self.post_trunk_norm(x)).reshape(-1, x.shape[1] * self.merge**2))


class DotsModel(Qwen2ForCausalLM):
    """The language model with the tower; tensors as in the released checkpoint."""

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__(config)
        self.vision_tower = Tower(config)

    def forward(self, input_ids: torch.Tensor | None = None, pixel_values: torch.Tensor | None = None,  # type: ignore[override]
                image_grid_thw: torch.Tensor | None = None, **named: Any) -> Any:
        embeddings = self.model.embed_tokens(input_ids)
        places = input_ids == self.config.image_token_id
        if pixel_values is not None and bool(places.any()):
            embeddings[places] = self.vision_tower(pixel_values, image_grid_thw).to(embeddings.dtype)
        return super().forward(**{**named, "inputs_embeds": embeddings})


class DotsOfficial(QwenOfficial):
    """The reference in float32, Qwen2-VL's image processor without a time axis, and the prompt."""

    stamps_videos = False
    forbidden = [added_id(text) for text in ADDED_TOKENS]

    def __init__(self, spec: ModelSpec, folder: Path, images: Path) -> None:
        self.spec, self.images = spec, images
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>",
                                                 clean_up_tokenization_spaces=False)
        self.tokenizer.chat_template = CHAT_TEMPLATE
        self.processor = type("Processor", (), {"image_processor": Qwen2VLImageProcessor.from_pretrained(folder)})
        config = make_config(spec)
        config._attn_implementation = "eager"
        self.model = DotsModel(config).float()
        tensors = {name: tensor for path in folder.glob("model*.safetensors") for name, tensor in load_file(path).items()}
        self.model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True)
        self.model.eval()
        self.image_processor = "Qwen2VLImageProcessor"
        self.stops = stop_ids()
        self.model.generation_config.eos_token_id = self.stops
        self.model.generation_config.pad_token_id = self.stops[0]

    def prompt_text(self, case: Any) -> str:
        messages = [
            message if isinstance(message["content"], str) else message | {"content": "".join(
                IMAGE if part["type"] == "image" else part["text"] for part in message["content"])} for message in case.messages
        ]
        return self.tokenizer.apply_chat_template(messages, tokenize=False)

    def inputs(self, case: Any, prompt: str | None = None) -> dict[str, torch.Tensor]:
        inputs: dict[str, torch.Tensor] = {}
        text = prompt or self.prompt_text(case)
        if case.images:
            images = [load_image(str(self.images / file)) for file in case.images]
            inputs = dict(self.processor.image_processor(images, return_tensors="pt"))
            first, *others = text.split("<|imgpad|>")
            counts = (inputs["image_grid_thw"].prod(1) // self.spec.form.merge_size**2).tolist()
            text = first + "".join(count * "<|imgpad|>" + other for count, other in zip(counts, others, strict=True))
        ids = torch.tensor([self.tokenizer(text, add_special_tokens=False)["input_ids"]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **inputs}

    def continued(self, inputs: dict[str, torch.Tensor], tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        """The inputs of one pass over prompt and answer."""
        ids = torch.cat([inputs["input_ids"], tokens[None]], dim=1)
        return {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def answer_position(self, inputs: dict[str, torch.Tensor]) -> int:
        return inputs["input_ids"].shape[1]

    def decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True)

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor], full: bool) -> Iterator[Tensors]:
        """Records one forward pass."""
        recorder = Recorder()
        tower, n = self.model.vision_tower, inputs["input_ids"].shape[1]
        recorder.stages["language.position_ids"] = torch.arange(n).expand(3, n)
        recorder.on_output(tower.merger.mlp, recorder.keep("vision.merged"))
        if full:
            recorder.on_output(tower.patch_embed.patchifier.norm, recorder.keep("vision.position_added"))
            angles = tower.angles(inputs["image_grid_thw"])
            recorder.keep("vision.rotary_cos")(angles.cos())
            recorder.keep("vision.rotary_sin")(angles.sin())
            for index, block in enumerate(tower.blocks):
                recorder.on_output(block, recorder.keep(f"vision.block.{index}"))
            record_language(recorder, self.model.model)
        try:
            yield recorder.stages
        finally:
            recorder.close()
