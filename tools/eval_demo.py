#!/usr/bin/env python3
"""Measure the demo model with the C program: greedy answers in bf16 to questions that training
never asked.

    tools/eval_demo.py models/demo                    600 questions, a table
    tools/eval_demo.py models/demo --json FILE        the same, with every question and answer in FILE
    tools/eval_demo.py models/demo --compare 50       also 32 greedy tokens of 50 questions against transformers, in f32
    tools/eval_demo.py models/demo --shipped          only the shipped images; fails unless every answer is right

An answer is right when the whole sentence is the expected one. Boxes count by their intersection
over union, 0 for an answer that is not a box. Words are ones that training did not show or chance
letters; the part "unseen" has fonts and background patterns that it did not show either.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

import demo_data
import demo_questions
import demo_text

# kind, asked in the part "seen" and in the part "unseen"
ASKED = (
    ("colour", 45, 15),
    ("shape", 45, 15),
    ("count", 45, 15),
    ("relation", 45, 15),
    ("word", 60, 60),
    ("number", 60, 60),
    ("where", 45, 15),
    ("presence", 10, 0),
    ("describe", 10, 0),
    ("letter", 10, 0),
    ("label", 10, 0),
    ("chart", 10, 0),
    ("several", 10, 0),
)
LARGEST_SIDE = 512  # of a square image; the processor shrinks larger ones
MAKERS = {"word": "text", "number": "text", "letter": "text", "label": "label", "chart": "chart"}
GOALS = {"colour": 95, "shape": 95, "count": 95, "relation": 95, "word": (90, 75), "number": (90, 75), "where": 75}


@dataclass
class Asked:
    kind: str
    part: str
    question: str
    answer: str
    images: list[Image.Image] = field(repr=False)
    box: tuple[float, float, float, float] | None = None
    got: str = ""
    score: float = 0.0


def random_size(rng: np.random.Generator, wide: bool) -> tuple[int, int]:
    """Width and height: mostly 64 to 320 pixels a side, one in ten up to 640; words stand in wide
    images."""
    if rng.random() < 0.1:
        return tuple(int(v) for v in rng.integers(256, 641, 2))
    if wide:
        return int(rng.integers(112, 321)), int(rng.integers(48, 161))
    return tuple(int(v) for v in rng.integers(64, 321, 2))


def make_scene(rng: np.random.Generator, what: str, fonts: tuple[str, ...]) -> demo_data.Scene:
    while True:
        width, height = random_size(rng, what == "text")
        shrunk = max(1.0, (width * height) ** 0.5 / LARGEST_SIDE)
        sizes = tuple(int(size * shrunk) for size in demo_data.TEXT_SIZES)
        if what == "text":
            scene = demo_data.text_scene(rng, width, height, fonts, sizes, True)
        elif what == "label":
            scene = demo_data.label_scene(rng, width, height, fonts, sizes, True)
        elif what == "chart":
            scene = demo_data.chart_scene(rng, width, height, fonts)
        else:
            scene = demo_data.random_scene(rng, width, height)
        if scene:
            return scene


def make_question(rng: np.random.Generator, kind: str, unseen: bool) -> Asked:
    fonts = demo_text.UNSEEN_FONTS if unseen else demo_text.SEEN_FONTS
    styles = demo_data.UNSEEN_STYLES if unseen else demo_data.STYLES
    while True:
        what = MAKERS.get(kind, "text" if kind == "where" and rng.random() < 0.3 else "shapes")
        n_images = int(rng.integers(2, 4)) if kind == "several" else 1
        scenes = [make_scene(rng, what, fonts) for _ in range(n_images)]
        if kind == "several":
            asked = demo_questions.images_question(rng, scenes)
        else:
            asked = demo_questions.question(rng, scenes[0], kind)
        if asked:
            images = [demo_data.draw(scene, rng, styles=styles) for scene in scenes]
            return Asked(kind, "unseen" if unseen else "seen", asked.text, asked.answer, images, asked.box)


def make_questions(seed: int, n_questions: int) -> list[Asked]:
    rng = np.random.default_rng([seed, 0x5EED])
    scale = n_questions / sum(seen + unseen for _, seen, unseen in ASKED)
    questions = []
    for kind, seen, unseen in ASKED:
        questions += [make_question(rng, kind, False) for _ in range(round(seen * scale))]
        questions += [make_question(rng, kind, True) for _ in range(round(unseen * scale))]
    return questions


class Omma:
    """Asks the C program, one process a question."""

    def __init__(self, program: Path, model: Path, dtype: str) -> None:
        self.command = [str(program), "chat", "--json", "--model", str(model)]
        self.command += ["--dtype", dtype, "--vision-dtype", dtype]

    def __call__(self, images: list[Path], question: str, *options: str) -> dict:
        images = [part for image in images for part in ("--image", str(image))]
        command = [*self.command, *images, "--prompt", question, *options]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


def save_images(asked: Asked, folder: Path) -> list[Path]:
    paths = [folder / f"{i}.png" for i in range(len(asked.images))]
    for path, image in zip(paths, asked.images):
        image.save(path)
    return paths


def intersection_over_union(ours: tuple[float, float, float, float], got: str) -> float:
    """Of the thing's box, in thousandths and not rounded, and the one in the answer."""
    try:
        x0, y0, x1, y1 = (float(v) for v in json.loads(got)[0]["bbox_2d"])
    except (ValueError, TypeError, LookupError):
        return 0.0
    across = max(0.0, min(x1, ours[2]) - max(x0, ours[0]))
    down = max(0.0, min(y1, ours[3]) - max(y0, ours[1]))
    areas = (ours[2] - ours[0]) * (ours[3] - ours[1]) + max(0.0, x1 - x0) * max(0.0, y1 - y0)
    return across * down / max(areas - across * down, 1e-9)


def ask_all(questions: list[Asked], omma: Omma) -> None:
    with tempfile.TemporaryDirectory() as name:
        for asked in questions:
            images = save_images(asked, Path(name))
            asked.got = omma(images, asked.question, "--max-tokens", "96")["text"]
            if asked.kind == "where":
                asked.score = intersection_over_union(asked.box, asked.got)
            else:
                asked.score = float(asked.got == asked.answer)


def report(questions: list[Asked]) -> list[dict]:
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for asked in questions:
        scores[asked.kind, asked.part].append(asked.score)
    rows = []
    print(f"{'kind':10} {'part':7} {'%':>6} {'asked':>6} {'goal':>5}")
    for (kind, part), values in scores.items():
        goal = GOALS.get(kind)
        goal = goal[part == "unseen"] if isinstance(goal, tuple) else goal
        rows.append({"kind": kind, "part": part, "percent": round(100 * np.mean(values), 1), "asked": len(values)})
        rows[-1]["goal"] = goal
        print(f"{kind:10} {part:7} {rows[-1]['percent']:6.1f} {len(values):6} {goal or '':>5}")
    plain = [s for (kind, _), values in scores.items() if GOALS.get(kind) == 95 for s in values]
    print(f"colour, shape, count and relation together {100 * np.mean(plain):.1f} %; 'where' is the mean IoU")
    return rows


def compare(questions: list[Asked], omma: Omma, model: Path, n: int) -> int:
    """How many of n questions, spread over all, get the same 32 greedy tokens from transformers."""
    import torch
    from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

    processor = AutoProcessor.from_pretrained(model)
    official = Qwen3VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32).eval()
    official.generation_config.eos_token_id = None
    same = 0
    with tempfile.TemporaryDirectory() as name:
        for i in range(n):
            asked = questions[i * len(questions) // n]
            paths = save_images(asked, Path(name))
            ours = omma(paths, asked.question, "--max-tokens", "32", "--ignore-eos")["token_ids"]
            content = [{"type": "image"}] * len(paths) + [{"type": "text", "text": asked.question}]
            text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
            inputs = processor(text=text, images=asked.images, return_tensors="pt")
            with torch.no_grad():
                ids = official.generate(**inputs, max_new_tokens=32, do_sample=False)
            theirs = ids[0, inputs["input_ids"].shape[1] :].tolist()
            same += ours == theirs
            if ours != theirs:
                print(f"other tokens: {asked.question}\n  omma         {ours}\n  transformers {theirs}")
    print(f"the same 32 tokens as transformers (f32): {same} of {n}")
    return same


def check_shipped(omma: Omma, folder: Path) -> bool:
    good = True
    for entry in json.loads((folder / "questions.json").read_text()):
        got = omma([folder / entry["image"]], entry["question"], "--max-tokens", "64")["text"]
        good &= got == entry["answer"]
        print(f"{'ok  ' if got == entry['answer'] else 'BAD '} {entry['image']}  {entry['question']}  ->  {got}")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent.parent
    add = parser.add_argument
    add("folder", type=Path, help="the model directory")
    add("--omma", type=Path, default=here / "build/release/omma", metavar="FILE", help="the program")
    add("--questions", type=int, default=600, metavar="N", help="how many questions, about (default 600)")
    add("--seed", type=int, default=1000, help="seed of the questions (default 1000)")
    add("--dtype", default="bf16", help="weights that the program computes with: bf16 (default) or f32")
    add("--compare", type=int, default=0, metavar="N", help="compare tokens of N questions with transformers, in f32")
    add("--shipped", action="store_true", help="ask the shipped questions only, exit 1 if one is answered wrongly")
    add("--show", type=int, default=0, metavar="N", help="print N wrong answers of each kind")
    add("--json", type=Path, metavar="FILE", help="write the table and every question there")
    args = parser.parse_args()
    omma = Omma(args.omma, args.folder, args.dtype)
    if args.shipped:
        sys.exit(0 if check_shipped(omma, args.folder / "images") else 1)
    questions = make_questions(args.seed, args.questions)
    ask_all(questions, omma)
    for kind, _, _ in ASKED:
        for asked in [a for a in questions if a.kind == kind and a.score < 0.5][: args.show]:
            sizes = " ".join(f"{p.width}x{p.height}" for p in asked.images)
            print(f"{kind} {sizes} {asked.question}\n    wanted {asked.answer}\n    got    {asked.got}")
    result = {"table": report(questions)}
    if args.compare:
        result["same_tokens"] = compare(questions, Omma(args.omma, args.folder, "f32"), args.folder, args.compare)
        result["compared"] = args.compare
    if args.json:
        names = ("kind", "part", "question", "answer", "got", "score")
        result["questions"] = [{name: getattr(asked, name) for name in names} for asked in questions]
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
