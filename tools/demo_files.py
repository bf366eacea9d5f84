#!/usr/bin/env python3
"""Everything in the demo model's directory except the weights: tokenizer, chat template, processor
settings.

    tools/demo_files.py models/demo

The tokenizer has Qwen's form (NFC, its split pattern, byte-level BPE) but a small vocabulary of its
own, trained on the demo's questions and answers, on everyday English below and on the standard
library's documentation strings. Training it again with another Python gives another vocabulary,
which the published weights would not fit: so an existing tokenizer.json is kept unless
--new-tokenizer is given.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import demo_data
import demo_questions

BASE_VOCABULARY = 2000
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ADDED_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

ENGLISH = """
Hello, how are you today? I am fine, thank you. What is your name? Where do you live? It is a nice day.
The sun is bright and the sky is blue. The grass is green, the snow is white and the night is black.
Please show me the picture. Which one do you like? I like the small one on the left, not the large one on the right.
There are many things in this room: a table, two chairs, a lamp, some books and an old clock.
She has a dog and a cat. He went to the market to buy bread, milk, apples and oranges. We will go home tomorrow.
Can you help me? Yes, of course. No, I cannot. I do not know. Maybe later. Tell me more about it, please.
First, second, third, last; above, below, between, behind, in front of; top, bottom, middle, corner, centre, center.
one two three four five six seven eight nine ten eleven twelve twenty thirty hundred thousand
user assistant system image picture drawing photo shape object colour color background number
What does it say? How old is it? How far is it? When was that? Who is there? Why not? Whose is this?
"""

DOCUMENTED = ("argparse", "collections", "datetime", "decimal", "email", "json", "logging", "random", "statistics",
              "string", "textwrap", "turtle", "unittest", "zipfile")  # fmt: skip

CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {%- if part.type == 'image' or 'image' in part or 'image_url' in part %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif part.type == 'video' or 'video' in part %}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def _corpus() -> Iterator[str]:
    rng = np.random.default_rng(0)
    for _ in range(4000):
        scene = demo_data.random_scene(rng, 256, 256)
        for kind in demo_questions.KINDS:
            if question := demo_questions.random_question(rng, scene, kind):
                yield demo_questions.careless(rng, question.text)
                yield question.answer
    for question, answer in demo_questions.SMALL_TALK * 20:
        yield question
        yield answer
    for _ in range(20):
        yield demo_questions.NO_IMAGE
        yield ENGLISH
    for name in DOCUMENTED:
        module = importlib.import_module(name)
        for _, value in sorted(inspect.getmembers(module), key=lambda member: member[0]):
            text = inspect.getdoc(value) if inspect.isclass(value) or inspect.isfunction(value) else None
            if text:
                yield text


def train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=BASE_VOCABULARY,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in ADDED_TOKENS])
    return tokenizer


def _write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_files(folder: Path, new_tokenizer: bool = False) -> Tokenizer:
    """Write every file but config.json and the weights; return the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    if new_tokenizer or not (folder / "tokenizer.json").exists():
        train_tokenizer().save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = {token: tokenizer.token_to_id(token) for token in ADDED_TOKENS}

    _write_json(
        folder / "tokenizer_config.json",
        {
            "add_prefix_space": False,
            "added_tokens_decoder": {
                str(i): {
                    "content": token,
                    "lstrip": False,
                    "normalized": False,
                    "rstrip": False,
                    "single_word": False,
                    "special": True,
                }
                for token, i in ids.items()
            },
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": 2048,
            "pad_token": "<|endoftext|>",
            "processor_class": "Qwen3VLProcessor",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    pixels = {
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
    }
    area = {"shortest_edge": 64 * 64, "longest_edge": 512 * 512}
    _write_json(
        folder / "preprocessor_config.json",
        {"size": area, **pixels, "image_processor_type": "Qwen2VLImageProcessorFast"},
    )
    _write_json(
        folder / "video_preprocessor_config.json",
        {"size": area, **pixels, "video_processor_type": "Qwen3VLVideoProcessor"},
    )
    _write_json(
        folder / "generation_config.json",
        {
            "do_sample": False,
            "temperature": 0.0,
            "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]],
            "pad_token_id": ids["<|endoftext|>"],
        },
    )
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the model directory")
    parser.add_argument("--new-tokenizer", action="store_true", help="train tokenizer.json afresh (needs new weights)")
    args = parser.parse_args()
    tokenizer = write_files(args.folder, args.new_tokenizer)
    print(f"{args.folder}: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
