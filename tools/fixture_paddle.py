"""PaddleOCR-VL: the files of a tiny checkpoint in the released form, with a tokenizer of characters
with byte fallback."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Tokenizer, normalizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import PaddleOCRVLConfig

from fixture_tokenizer import TRAINING_TEXT

if TYPE_CHECKING:
    from fixture_models import ModelSpec

VOCAB_SIZE = 544  # the tokenizer knows fewer
N_LEARNED = 270
PIECES = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)))
ADDED_TOKENS = (
    "<|begin_of_sentence|>",
    "<|end_of_sentence|>",
    "<|IMAGE_PLACEHOLDER|>",
    "<|IMAGE_START|>",
    "<|IMAGE_END|>",
    "<|video_pad|>",
)
EOS_ID = PIECES.index("</s>")
# As the released one: images of a message before its texts, contents as lists alone.
CHAT_TEMPLATE = """\
{%- if not cls_token is defined -%}{%- set cls_token = '<|begin_of_sentence|>' -%}{%- endif -%}
{{- cls_token -}}
{%- for message in messages -%}
    {%- if message['role'] == 'user' -%}
        {{- 'User: ' -}}
        {%- for part in message['content'] if part['type'] == 'image' -%}
            {{ '<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>' }}
        {%- endfor -%}
        {%- for part in message['content'] if part['type'] == 'text' -%}{{ part['text'] }}{%- endfor -%}
        {{ '\\n' -}}
    {%- else -%}
        {{- 'Assistant:\\n' if message['role'] == 'assistant' -}}
        {%- for part in message['content'] if part['type'] == 'text' -%}{{ part['text'] }}{%- endfor -%}
        {{ '</s>' if message['role'] == 'assistant' else '\\n' }}
    {%- endif -%}
{%- endfor -%}
{{- 'Assistant:\\n' if add_generation_prompt -}}
"""


def added_id(text: str) -> int:
    """Id of one of ADDED_TOKENS: they follow the learned tokens in order."""
    return len(PIECES) + N_LEARNED + ADDED_TOKENS.index(text)


def train() -> Tokenizer:
    """Characters and merges over TRAINING_TEXT after the tokens of all bytes."""
    trained = Tokenizer(BPE())
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    # The trainer's own limit of the alphabet leaves chance a choice.
    common = [character for character, _ in sorted(Counter(TRAINING_TEXT).items(), key=lambda item: (-item[1], item[0]))[:90]]
    lines = ("".join(character for character in line if character in common) for line in TRAINING_TEXT.splitlines(keepends=True))
    trained.train_from_iterator(lines, BpeTrainer(vocab_size=N_LEARNED, show_progress=False))
    document = json.loads(trained.to_str())
    names = [*PIECES, *document["model"]["vocab"]]
    document["model"] |= {"vocab": {name: index for index, name in enumerate(names)}, "unk_token": "<unk>",
                          "byte_fallback": True, "fuse_unk": True}
    document["normalizer"] = {"type": "Sequence", "normalizers": [document["normalizer"]]}
    document["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in (*PIECES[:3], *ADDED_TOKENS)])
    if tokenizer.get_vocab_size() != len(PIECES) + N_LEARNED + len(ADDED_TOKENS):
        raise RuntimeError(f"the training text gives {tokenizer.get_vocab_size()} tokens")
    return tokenizer


def write_tokenizer(folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    train().save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "add_bos_token": False,
        "add_eos_token": False,
        "additional_special_tokens": list(ADDED_TOKENS[2:]),
        "bos_token": "<s>",
        "clean_up_tokenization_spaces": False,
        "cls_token": "<|begin_of_sentence|>",
        "eos_token": "</s>",
        "image_token": "<|IMAGE_PLACEHOLDER|>",
        "model_max_length": 131072,
        "pad_token": "<unk>",
        "sep_token": "<|end_of_sentence|>",
        "tokenizer_class": "LlamaTokenizer",
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def released_config(spec: ModelSpec) -> dict[str, Any]:
    """config.json as the released files have it: the language model's keys at the top."""
    return {
        "architectures": ["PaddleOCRVLForConditionalGeneration"],
        "compression_ratio": 1.0,
        "hidden_act": "silu",
        **spec.text,
        "image_token_id": added_id("<|IMAGE_PLACEHOLDER|>"),
        "max_position_embeddings": 131_072,
        "model_type": "paddleocr_vl",
        "pad_token_id": 0,
        "rms_norm_eps": 1e-5,
        "rope_is_neox_style": True,
        "rope_scaling": {"mrope_section": list(spec.mrope_section), "rope_type": "default", "type": "default"},
        "rope_theta": 500_000,
        "sliding_window": None,
        "tie_word_embeddings": spec.tied,
        "torch_dtype": str(spec.dtype).removeprefix("torch."),
        "transformers_version": "4.55.0",
        "use_3d_rope": True,
        "use_bias": False,
        "use_cache": False,
        "video_token_id": added_id("<|video_pad|>"),
        "vision_config": {
            "architectures": ["SiglipVisionModel"],
            "hidden_act": "gelu_pytorch_tanh",
            "image_size": 8 * spec.form.patch_size + 6,
            "layer_norm_eps": 1e-6,
            "model_type": "paddleocr_vl",
            "num_channels": 3,
            "pad_token_id": 0,
            "patch_size": spec.form.patch_size,
            "spatial_merge_size": spec.form.merge_size,
            "temporal_patch_size": 2,
            "tokens_per_second": 2,
            **spec.vision,
        },
        "vision_end_token_id": added_id("<|IMAGE_END|>"),
        "vision_start_token_id": added_id("<|IMAGE_START|>"),
        "vocab_size": VOCAB_SIZE,
        "weight_share_add_bias": True,
    }


def official_config(spec: ModelSpec) -> PaddleOCRVLConfig:
    """The official configuration object, which takes the language model's default for a flat
    tie_word_embeddings."""
    config = PaddleOCRVLConfig(**released_config(spec))
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = spec.tied
    return config


def preprocessor_config(spec: ModelSpec) -> dict[str, Any]:
    """preprocessor_config.json as the released files have it."""
    return {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": list(spec.form.mean),
        "image_processor_type": "PaddleOCRVLImageProcessor",
        "image_std": list(spec.form.std),
        "max_pixels": spec.form.longest_edge,
        "merge_size": spec.form.merge_size,
        "min_pixels": spec.form.shortest_edge,
        "patch_size": spec.form.patch_size,
        "processor_class": "PaddleOCRVLProcessor",
        "resample": 3,
        "rescale_factor": 1 / 255,
        "temporal_patch_size": 1,
    }
