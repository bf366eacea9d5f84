"""Trains the small tokenizer of the golden tests, of exactly the Qwen2 form, and holds the chat
template."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

VOCAB_SIZE = 520  # learned tokens, bytes included; the added tokens follow
ADDED_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Qwen3.5's: marks go with letters.
SPLIT_MARKS = SPLIT.replace(r"\p{L}+|", r"[\p{L}\p{M}]+|").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")

# Only a first system message counts; images are rendered in user messages only. DEFAULT_SYSTEM
# comes first in the template of a family that has a default system message.
DEFAULT_SYSTEM = """\
{%- if messages[0].role != 'system' -%}
    {{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif -%}
"""
CHAT_TEMPLATE = """\
{%- macro text_of(content) -%}
    {%- if content is string -%}{{ content }}
    {%- else -%}
        {%- for part in content -%}{%- if 'text' in part -%}{{ part.text }}{%- endif -%}{%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro turn(role, body) -%}{{ '<|im_start|>' + role + '\\n' + body + '<|im_end|>\\n' }}{%- endmacro -%}
{%- macro user_body(content) -%}
    {%- if content is string -%}{{ content }}
    {%- else -%}
        {%- for part in content -%}
            {%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
                <|vision_start|><|image_pad|><|vision_end|>
            {%- elif part.type == 'video' or 'video' in part -%}
                <|vision_start|><|video_pad|><|vision_end|>
            {%- elif 'text' in part -%}{{ part.text }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if messages[0].role == 'system' -%}{{ turn('system', text_of(messages[0].content)) }}{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}{{ turn('user', user_body(message.content)) }}
    {%- elif message.role == 'assistant' -%}{{ turn('assistant', text_of(message.content)) }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""

TRAINING_TEXT = """\
What is in this picture? The picture shows a red circle on a blue field, and a green triangle beside it.
Describe the image. There are three shapes in the image: two circles and one triangle.
Which of the two pictures is larger? The first picture is larger than the second picture.
How many colours can you see here? I can see seven colours: red, orange, yellow, green, blue, white and black.
You are a careful assistant. You answer in one short sentence, and you don't guess.
The sun goes down behind the harbour; the boats lie still, and the water is dark.
Is there any text in the picture? No, there isn't any text, only lines and dots.
Compare the images. They're the same size, but the left one is brighter and the right one has more noise.
It's a photograph of a meadow: grass, flowers, a wooden fence, and a white house at the end of the road.
A tall tower stands near the river, 33 metres wide and 200 metres high, or so they say.
The stamp is small, 20 by 10, and the banner is wide, 150 by 40. That's what I've measured.
We'll look at the next picture, then I'd like you to tell me what has changed between them.
Read the numbers from left to right: 0 1 2 3 4 5 6 7 8 9, and back again: 9 8 7 6 5 4 3 2 1 0.
Où est le café? Près de l'église, à côté du marché. Die Straße führt über die Brücke nach München.
Das Bild zeigt einen Kreis. La imagen muestra un círculo. L'image montre un cercle rouge.
图片里有什么？图片里有一个红色的圆。これは何ですか。赤い丸です。
Что на картинке? На картинке красный круг и синий квадрат.
int main(void)
{
    for (int i = 0; i < n; i++) {
        total += pixels[i] * weights[i];
    }
    return total > 0;
}

{"type": "object", "name": "circle", "colour": "red", "size": [12, 34]}
"""


def train(split: str, added: tuple[str, ...], normalizer: normalizers.Normalizer | None) -> Tokenizer:
    """Byte-level BPE over TRAINING_TEXT with added tokens."""
    tokenizer = Tokenizer(BPE(byte_fallback=False, fuse_unk=False))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = BpeTrainer(
        vocab_size=VOCAB_SIZE,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAINING_TEXT.splitlines(keepends=True), trainer)
    if tokenizer.get_vocab_size() != VOCAB_SIZE:
        raise RuntimeError(f"the training text gives {tokenizer.get_vocab_size()} tokens, wanted {VOCAB_SIZE}")
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in added])
    return tokenizer


def added_token_id(text: str) -> int:
    """Id of one of ADDED_TOKENS: they follow the learned vocabulary in order."""
    return VOCAB_SIZE + ADDED_TOKENS.index(text)


def write_plain_tokenizer(folder: Path, added: tuple[str, ...], **own: str) -> None:
    """Writes tokenizer.json and tokenizer_config.json of a model with Qwen2's tokenizer and added
    tokens of its own; own: more keys of the latter."""
    train(SPLIT, added, normalizers.NFC()).save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "add_bos_token": False,
        "additional_special_tokens": list(added[1:]),
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 131_072,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
        **own,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_tokenizer(folder: Path, default_system: bool, marks: bool) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    train(SPLIT_MARKS if marks else SPLIT, ADDED_TOKENS, normalizers.NFC()).save(str(folder / "tokenizer.json"), pretty=False)
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(added_token_id(text)): {"content": text, **flags} for text in ADDED_TOKENS},
        "additional_special_tokens": list(ADDED_TOKENS[1:]),
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 262144,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen3_5Tokenizer" if marks else "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text((DEFAULT_SYSTEM if default_system else "") + CHAT_TEMPLATE)
