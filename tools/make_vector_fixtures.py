#!/usr/bin/env python3
"""Writes tests/data/vectors: what the official computation gives for the inputs of cases.json.

    python3 tools/make_vector_fixtures.py [--check]

Needs torch, transformers, qwen-vl-utils and Pillow. The model is tests/golden/qwen3_vl_tied, in
f32. The prompt, the truncation, the last token's state and its length, and the score by two rows of
the output layer follow the helper classes that the released checkpoints of Qwen3-VL-Embedding and
Qwen3-VL-Reranker come with. tests/support/vector_cases.py makes the inputs from cases.json."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import torch
from qwen_vl_utils import process_vision_info
from transformers import Qwen2VLImageProcessor, Qwen3VLForConditionalGeneration, Qwen3VLProcessor, Qwen3VLVideoProcessor
from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "tests" / "data" / "vectors"
sys.path.insert(0, str(ROOT / "tests" / "support"))
import vector_cases  # noqa: E402

FACTOR = 32
LENGTH = 8192
LIMITS = {"embed": (4 * FACTOR**2, 1800 * FACTOR**2), "score": (4 * FACTOR**2, 640 * FACTOR**2)}
TOTAL = {"embed": 10 * 768 * FACTOR**2, "score": 4 * 2 * 640 * FACTOR**2}
JUDGE = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
RETRIEVE = "Given a search query, retrieve relevant candidates that answer the query."


def parts(item: dict, task: str) -> list[dict]:
    """Video, images and text of an input, as the helper classes order them."""
    low, high = LIMITS[task]
    content = []
    if item.get("video"):
        content.append({"type": "video", "video": item["video"], "total_pixels": TOTAL[task]})
    for image in item.get("images", []):
        content.append({"type": "image", "image": image, "min_pixels": low, "max_pixels": high})
    if item.get("text"):
        content.append({"type": "text", "text": item["text"]})
    return content or [{"type": "text", "text": "NULL"}]


def embed_messages(item: dict) -> list[dict]:
    instruction = (item.get("instruction") or "").strip()
    if instruction and not unicodedata.category(instruction[-1]).startswith("P"):
        instruction += "."
    system = instruction or "Represent the user's input."
    return [
        {"role": "system", "content": [{"type": "text", "text": system}]},
        {"role": "user", "content": parts(item, "embed")},
    ]


def text(value: str) -> list[dict]:
    return [{"type": "text", "text": value}]


def score_messages(pair: dict) -> list[dict]:
    user = text("<Instruct>: ") + text(pair.get("instruction") or RETRIEVE)
    user += text("<Query>:") + parts(pair["query"], "score") + text("\n<Document>:") + parts(pair["document"], "score")
    return [{"role": "system", "content": text(JUDGE)}, {"role": "user", "content": user}]


class Official:
    def __init__(self, directory: Path):
        tokenizer = AutoTokenizer.from_pretrained(directory)
        settings = json.loads((directory / "preprocessor_config.json").read_text())
        shared = {key: settings[key] for key in ("patch_size", "temporal_patch_size", "merge_size", "image_mean", "image_std")}
        self.processor = Qwen3VLProcessor(
            image_processor=Qwen2VLImageProcessor(**shared),
            tokenizer=tokenizer,
            video_processor=Qwen3VLVideoProcessor(**shared),
            chat_template=(directory / "chat_template.jinja").read_text(),
        )
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(directory, dtype=torch.float32).eval()

    def shorten(self, ids: list[int]) -> list[int]:
        """The first plain tokens, and all special ones."""
        special = set(self.processor.tokenizer.all_special_ids)
        if len(ids) <= LENGTH:
            return ids
        room, kept = LENGTH - sum(token in special for token in ids), []
        for token in ids:
            if token in special or room > 0:
                room -= token not in special
                kept.append(token)
        return kept

    @torch.no_grad()
    def last_state(self, messages: list[dict], protected: int) -> torch.Tensor:
        prompt = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        images, videos, more = process_vision_info(
            messages, image_patch_size=16, return_video_metadata=True, return_video_kwargs=True
        )
        metadata = None
        if videos is not None:
            videos, metadata = (list(side) for side in zip(*videos))
        inputs = self.processor(
            text=[prompt], images=images, videos=videos, video_metadata=metadata, do_resize=False, return_tensors="pt", **more
        )
        ids = inputs.pop("input_ids")[0].tolist()
        end = len(ids) - protected
        ids = self.shorten(ids[:end]) + ids[end:]
        inputs["input_ids"] = torch.tensor([ids])
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        kinds = torch.zeros_like(inputs["input_ids"])
        kinds[inputs["input_ids"] == self.model.config.image_token_id] = 1
        kinds[inputs["input_ids"] == self.model.config.video_token_id] = 2
        inputs["mm_token_type_ids"] = kinds
        return self.model.model(**inputs).last_hidden_state[0, -1]

    def embed(self, item: dict) -> np.ndarray:
        return torch.nn.functional.normalize(self.last_state(embed_messages(item), 0), dim=-1).numpy()

    @torch.no_grad()
    def score(self, pair: dict) -> float:
        vocabulary = self.processor.tokenizer.get_vocab()
        head = self.model.lm_head.weight
        row = head[vocabulary["yes"]] - head[vocabulary["no"]]
        return torch.sigmoid(self.last_state(score_messages(pair), 5) @ row).item()


def compute(scratch: Path) -> dict[str, np.ndarray]:
    cases = vector_cases.load(scratch)
    model = vector_cases.make_model(scratch / "model")
    official = Official(model)
    torch.manual_seed(0)
    return {
        "embed.npy": np.stack([official.embed(item) for item in cases["embed"]]).astype(np.float32),
        "score.npy": np.array([official.score(pair) for pair in cases["score"]], dtype=np.float32),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        results = compute(Path(scratch))
    good = True
    for name, values in results.items():
        if check:
            good &= bool(np.allclose(np.load(OUT / name), values, atol=1e-6))
        else:
            np.save(OUT / name, values)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
