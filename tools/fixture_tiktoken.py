"""The small tokenizer of the Kimi-VL fixture: ranks as in tiktoken.model, special tokens after
them; its prompt."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from fixture_tokenizer import TRAINING_TEXT

N_RANKS = 320  # bytes included; the special tokens follow
N_SPECIAL = 256
VOCAB_SIZE = N_RANKS + N_SPECIAL
SPECIAL_OFFSETS = {
    "[BOS]": 0,
    "[EOS]": 1,
    "<|im_end|>": 2,
    "<|im_user|>": 3,
    "<|im_assistant|>": 4,
    "<|start_header_id|>": 6,
    "<|end_header_id|>": 7,
    "[EOT]": 9,
    "<|im_system|>": 10,
    "<|im_middle|>": 17,
    "<|media_start|>": 18,
    "<|media_content|>": 19,
    "<|media_end|>": 20,
    "<|media_pad|>": 21,
    "[UNK]": 254,
    "[PAD]": 255,
}
SPECIAL_IDS = {name: N_RANKS + offset for name, offset in SPECIAL_OFFSETS.items()}
SPLIT = "|".join(
    (
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
IMAGE = "<|media_start|>image<|media_content|><|media_pad|><|media_end|>"
CHAT_TEMPLATE = """\
{%- macro turn(role, body) -%}{{ '<|im_' + role + '|>' + role + '<|im_middle|>' + body + '<|im_end|>' }}{%- endmacro -%}
{%- macro body(content) -%}
    {%- if content is string -%}{{ content }}
    {%- else -%}
        {%- for part in content -%}
            {%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
                <|media_start|>image<|media_content|><|media_pad|><|media_end|>
            {%- else -%}{{ part.text }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if messages[0].role != 'system' -%}{{ turn('system', 'You are a helpful assistant') }}{%- endif -%}
{%- for message in messages -%}{{ turn(message.role, body(message.content)) }}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_assistant|>assistant<|im_middle|>' }}{%- endif -%}
"""

SAMPLES = (
    "",
    "What is in this picture?",
    "HTTPServer camelCase XMLHttpRequest iPhone's WE'RE don't",
    "1234567 3.14159 ²³ ½ １２３４",
    "图片里有什么？图片里有一个红色的圆。これは何ですか。赤い丸です。",
    "кто Здесь café e\u0301 ÀB\u0301c ǅungla ʰʲ ﬁ",
    "  leading,  double \t tab\n\n\nnewlines \r\n  end  ",
    "<|im_user|>user<|im_middle|>text inside<|im_end|>[EOS] <|media_pad|> <|im_e nd|>",
    "<|reserved_token_325|> and [BOS][PAD]",
    "a" * 70 + "ab" * 20,
    "\u0000\u007f\u0080\U0001f600\U0001f468\u200d\U0001f469 \u00a0\u3000x",
    "def f(x):\n    return {'k': [1, 22, 333]}  # 100%\n",
)


def special_name(token: int) -> str:
    """The text of an id after the ranks; those without a name count on from their id."""
    names = {id_: name for name, id_ in SPECIAL_IDS.items()}
    return names.get(token, f"<|reserved_token_{token}|>")


@cache
def byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(others)}


@cache
def train() -> Tokenizer:
    """Byte-level BPE over TRAINING_TEXT with Kimi's split; no normalizer."""
    tokenizer = Tokenizer(BPE(byte_fallback=False, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = BpeTrainer(vocab_size=N_RANKS, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TRAINING_TEXT.splitlines(keepends=True), trainer)
    if tokenizer.get_vocab_size() != N_RANKS:
        raise RuntimeError(f"the training text gives {tokenizer.get_vocab_size()} ranks, wanted {N_RANKS}")
    names = [special_name(N_RANKS + index) for index in range(N_SPECIAL)]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    return tokenizer


@cache
def encoding() -> tiktoken.Encoding:
    """The same ranks for tiktoken, which the original tokenizer calls."""
    ranks = {
        bytes(byte_of_character()[character] for character in text): token
        for text, token in train().get_vocab(with_added_tokens=False).items()
    }
    special = {special_name(N_RANKS + index): N_RANKS + index for index in range(N_SPECIAL)}
    return tiktoken.Encoding("kimi", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens=special)


def encode(text: str) -> list[int]:
    """Ids of a text by tiktoken, special tokens recognised; raises if tokenizer.json would give
    others."""
    ids = encoding().encode(text, allowed_special="all")
    if ids != train().encode(text, add_special_tokens=False).ids:
        raise RuntimeError(f"tiktoken and tokenizers disagree on {text!r}")
    return ids


def decode(tokens: list[int]) -> str:
    """The text of an answer, special tokens left out."""
    return encoding().decode([token for token in tokens if token < N_RANKS], errors="replace")


def render_prompt(messages: list[dict[str, Any]]) -> str:
    """The chat template's text, ready for the answer."""
    return jinja2.Template(CHAT_TEMPLATE).render(messages=messages, add_generation_prompt=True)


def write_config(folder: Path) -> None:
    """tokenizer_config.json and the chat template."""
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    config = {
        "added_tokens_decoder": {str(token): {"content": name, **flags} for name, token in SPECIAL_IDS.items()},
        "additional_special_tokens": [name for name in SPECIAL_IDS if name.startswith("<|im_")],
        "bos_token": "[BOS]",
        "clean_up_tokenization_spaces": False,
        "eos_token": "[EOS]",
        "model_max_length": 1048576,
        "pad_token": "[PAD]",
        "tokenizer_class": "TikTokenTokenizer",
        "unk_token": "[UNK]",
        "chat_template": CHAT_TEMPLATE,
    }
    text = json.dumps(config, indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def write_tiktoken(folder: Path) -> None:
    """The released form: tiktoken.model and tokenizer_config.json."""
    ranks = sorted(encoding()._mergeable_ranks.items(), key=lambda item: item[1])
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks]
    (folder / "tiktoken.model").write_text("".join(lines), encoding="ascii")
    write_config(folder)


def write_converted(folder: Path) -> None:
    """The converted form, tokenizer.json, and texts with the ids that both forms give."""
    folder.mkdir(parents=True, exist_ok=True)
    train().save(str(folder / "tokenizer.json"), pretty=False)
    write_config(folder)
    texts = [*SAMPLES, *TRAINING_TEXT.splitlines()]
    cases = [json.dumps({"text": text, "ids": encode(text)}, ensure_ascii=False) for text in texts]
    (folder / "cases.json").write_text("[\n" + ",\n".join(cases) + "\n]\n", encoding="utf-8")
