#!/usr/bin/env python3
"""Measure the demo model with the official classes: greedy answers, whole-sentence match, fresh pictures.

    tools/demo_eval.py models/demo --pictures 300           accuracy per kind of question
    tools/demo_eval.py models/demo --shipped                the shipped pictures; fails unless every answer is right

Weights are used as they are stored (bf16). By default arithmetic is float32; --bf16 computes in bf16 as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

import demo_data


class Answerer:
    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=dtype).eval()

    def __call__(self, image: Image.Image | None, question: str) -> str:
        content = [{"type": "image"}] if image else []
        content.append({"type": "text", "text": question})
        text = self.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        inputs = self.processor(text=text, images=image, return_tensors="pt")
        with torch.no_grad():
            ids = self.model.generate(**inputs, max_new_tokens=64, do_sample=False)
        return self.processor.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


def check_shipped(answer: Answerer, folder: Path) -> bool:
    good = True
    for entry in json.loads((folder / "questions.json").read_text()):
        with Image.open(folder / entry["picture"]) as image:
            got = answer(image.convert("RGB"), entry["question"])
        mark = "ok  " if got == entry["answer"] else "BAD "
        good &= got == entry["answer"]
        print(f"{mark} {entry['picture']}  {entry['question']}  ->  {got}")
    return good


def measure(answer: Answerer, n_pictures: int, seed: int, smallest: int, largest: int, show: int) -> None:
    """One question of every kind for each of n_pictures, with sides drawn evenly from smallest to largest pixels."""
    rng = np.random.default_rng([seed, 0x5EED])
    right: dict[str, list[bool]] = defaultdict(list)
    by_objects: dict[int, list[bool]] = defaultdict(list)
    for _ in range(n_pictures):
        width, height = (int(v) for v in rng.integers(smallest, largest + 1, 2))
        scene = demo_data.random_scene(rng, width, height)
        image = demo_data.draw(scene, rng)
        for kind in demo_data.KINDS:
            question = demo_data.random_question(rng, scene, kind)
            if question is None:
                continue
            got = answer(image, question.text)
            right[kind].append(got == question.answer)
            by_objects[len(scene.things)].append(right[kind][-1])
            if show and not right[kind][-1]:
                show -= 1
                print(f"{width}x{height} {question.text}\n    wanted {question.answer}\n    got    {got}")
    for kind in demo_data.KINDS:
        print(f"{kind:10} {100 * np.mean(right[kind]):5.1f} %  of {len(right[kind])}")
    for n in sorted(by_objects):
        print(f"{n} object{' ' if n == 1 else 's'}  {100 * np.mean(by_objects[n]):5.1f} %  of {len(by_objects[n])}")
    everything = [value for values in right.values() for value in values]
    print(f"all        {100 * np.mean(everything):5.1f} %  of {len(everything)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("folder", type=Path, help="the model directory")
    add("--shipped", action="store_true", help="ask the shipped questions, exit 1 if one is answered wrongly")
    add("--pictures", type=int, default=0, metavar="N", help="ask about N fresh random pictures")
    add("--seed", type=int, default=1000, help="seed of the fresh pictures (default 1000)")
    add("--smallest", type=int, default=64, help="smallest side in pixels (default 64)")
    add("--largest", type=int, default=320, help="largest side in pixels (default 320)")
    add("--show", type=int, default=0, metavar="N", help="print the first N wrong answers")
    add("--ask", nargs="+", metavar="WORD", help="a picture and a question, or just a question")
    add("--bf16", action="store_true", help="compute in bf16 too")
    add("--threads", type=int, default=1, help="threads of torch (default 1)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    answer = Answerer(args.folder, torch.bfloat16 if args.bf16 else torch.float32)
    if args.ask:
        image = Image.open(args.ask[0]).convert("RGB") if len(args.ask) > 1 else None
        print(answer(image, args.ask[-1]))
    if args.pictures:
        measure(answer, args.pictures, args.seed, args.smallest, args.largest, args.show)
    if args.shipped and not check_shipped(answer, args.folder / "pictures"):
        sys.exit(1)


if __name__ == "__main__":
    main()
