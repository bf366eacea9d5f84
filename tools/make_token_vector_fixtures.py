#!/usr/bin/env python3
"""Writes tests/data/vectors/tokens.npz: the vectors that the official computation gives each token
of the inputs of tests/support/token_vector_cases.py.

    python3 tools/make_token_vector_fixtures.py [--check]

Needs torch, transformers and Pillow. The checkpoints are made by token_vector_cases.py from
tests/golden; the computation is that of transformers' ColQwen2ForRetrieval, in f32, one input at a
time. Prompts are those of ColQwen2Processor of transformers, and of the processors of
colpali_engine, as the model's form asks for. The positions of an image's tokens are given to the
class: as of transformers 5.24 it does not hand the token ids on, so that none of them would have
rows and columns; colpali_engine's classes, with which models are trained, and transformers 4 give
them."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoTokenizer, ColQwen2Config, ColQwen2ForRetrieval, Qwen2VLImageProcessor
from transformers.models.colqwen2.processing_colqwen2 import ColQwen2Processor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import token_vector_cases as cases  # noqa: E402


class Official:
    def __init__(self, name: str, scratch: Path):
        """The backbone by its own class, the layer by ColQwen2ForRetrieval."""
        wrapped = cases.make_model(scratch / "wrapped", name, "saved")
        config = json.loads((wrapped / "config.json").read_text())
        self.model = ColQwen2ForRetrieval(ColQwen2Config(vlm_config=config["vlm_config"], embedding_dim=config["embedding_dim"]))
        tensors = load_file(wrapped / "model.safetensors")
        wanted = self.model.state_dict()
        renamed = {}
        for key, value in tensors.items():
            places = [key, key.replace("vlm.model.", "vlm."), key.replace("vlm.", "vlm.model.", 1)]
            (place,) = [place for place in places if place in wanted][:1]
            renamed[place] = value.float()
        missing, unexpected = self.model.load_state_dict(renamed, strict=False)
        assert not unexpected and all("lm_head" in key for key in missing), (missing, unexpected)
        self.model = self.model.float().eval()
        tokenizer = AutoTokenizer.from_pretrained(wrapped)
        settings = json.loads((wrapped / "preprocessor_config.json").read_text())
        keys = ("patch_size", "temporal_patch_size", "merge_size", "image_mean", "image_std", "min_pixels", "max_pixels", "size")
        images = Qwen2VLImageProcessor(**{key: settings[key] for key in keys if key in settings})
        self.processor = ColQwen2Processor(image_processor=images, tokenizer=tokenizer)

    @torch.no_grad()
    def vectors(self, item: dict, prefix: str) -> np.ndarray:
        if "image" in item:
            inputs = self.processor(images=Image.open(item["image"]).convert("RGB"))
        elif item.get("document"):
            inputs = self.processor.tokenizer(item["text"], return_tensors="pt")
        else:
            suffix = "<|endoftext|>" * 10
            inputs = self.processor.tokenizer(prefix + item["text"] + suffix, return_tensors="pt")
        inputs.pop("token_type_ids", None)
        if "pixel_values" in inputs:
            ids = inputs["input_ids"]
            kinds = (ids == self.model.config.vlm_config.image_token_id).long()
            inputs["position_ids"], _ = self.model.vlm.get_rope_index(ids, kinds, image_grid_thw=inputs["image_grid_thw"])
        return self.model(**inputs).embeddings[0].numpy()


def compute(scratch: Path) -> dict[str, np.ndarray]:
    results = {}
    for name in cases.MODELS:
        official = Official(name, scratch / name)
        for index, item in enumerate(cases.items()):
            for form, prefix in cases.PREFIXES.items():
                if form == "saved" and ("image" in item or item.get("document")):
                    continue  # as the other form's
                results[f"{name}/{form}/{index}"] = official.vectors(item, prefix).astype(np.float32)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        results = compute(Path(scratch))
    if not check:
        np.savez_compressed(cases.DATA, **results)
        return 0
    stored = np.load(cases.DATA)
    good = set(stored) == set(results) and all(np.allclose(stored[key], results[key], atol=1e-6) for key in results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
