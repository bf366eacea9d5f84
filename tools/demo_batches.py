"""Batches for training the demo model: images, what each patch of them shows, and branches of
questions.

All images of a batch have one size. A worker process of lower priority draws ahead of the training.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer

import demo_data
import demo_questions
import demo_text

PATCH, MERGE = 16, 2
UNIT = PATCH * MERGE  # pixels covered by one image token, each way
IGNORE = -100
# Classes of the map: shape (with bars), colour, "the centre is here", character, its place in the
# word.
MAP_CLASSES = (len(demo_data.SHAPES) + 2, len(demo_data.COLOURS) + 1, 2, len(demo_text.CHARACTERS) + 1, 8)
MAP_NUMBERS = 4  # the box of what covers the patch, in parts of the image


@dataclass
class Batch:
    # [n_images * n_patches, 3 * 16 * 16], None for a batch without images
    pixels: torch.Tensor | None
    grid: torch.Tensor | None  # [n_images, 3]
    classes: torch.Tensor | None  # [n_images * n_patches, 5], see drawing_map
    boxes: torch.Tensor | None  # [n_images * n_patches, 4]
    ids: torch.Tensor | None  # [n_rows, length], None for a batch for the tower alone
    positions: torch.Tensor | None  # [3, n_rows, length]
    branches: torch.Tensor | None  # [n_rows, length], -1 for padding
    # [n_rows, length], the token to predict at this position, or IGNORE
    labels: torch.Tensor | None
    # [n_rows, length], of the labels; tokens of long answers weigh less
    weights: torch.Tensor | None
    # kind, row, first and end position of the answer's labels
    answers: list[tuple[str, int, int, int]]

    def mask(self) -> torch.Tensor:
        """[n_rows, 1, length, length], True where a query may look."""
        key, query = self.branches[:, None, None, :], self.branches[:, None, :, None]
        length = self.branches.shape[1]
        return torch.ones(length, length, dtype=torch.bool).tril() & ((key == query) | (key == 0))


def patches(images: list[Image.Image]) -> np.ndarray:
    """[n_images * n_patches, 768]: the official processor's patches of equally large images, one
    time slice only, as bytes."""
    pixels = np.stack([np.asarray(image) for image in images])  # [n, height, width, 3]
    n, height, width, _ = pixels.shape
    blocks = pixels.reshape(n, height // UNIT, MERGE, PATCH, width // UNIT, MERGE, PATCH, 3)
    # n, block row, block column, row, column, channel, y, x
    blocks = blocks.transpose(0, 1, 4, 2, 5, 7, 3, 6)
    return blocks.reshape(-1, 3 * PATCH * PATCH)


def normalised(pixels: np.ndarray) -> torch.Tensor:
    """The official processor's scale, -1 to 1."""
    return torch.from_numpy(pixels).float() / 127.5 - 1


def _overlap(box: tuple[float, float, float, float], height: int, width: int) -> np.ndarray:
    """[height, width]: the part of each cell of a unit grid that a box covers."""
    xs, ys = np.arange(width), np.arange(height)
    across = np.clip(np.minimum(box[2], xs + 1) - np.maximum(box[0], xs), 0, 1)
    down = np.clip(np.minimum(box[3], ys + 1) - np.maximum(box[1], ys), 0, 1)
    return down[:, None] * across[None, :]


def drawing_map(scene: demo_data.Scene, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """What each patch shows, in the order of `patches`: classes [n_patches, 5], where 0 means
    nothing, and boxes [n_patches, 4]."""
    height, width = rows * MERGE, columns * MERGE
    across, down = width / scene.width, height / scene.height
    ys, xs = np.mgrid[0:height, 0:width] + 0.5
    classes = np.zeros((height, width, len(MAP_CLASSES)), dtype=np.int64)
    boxes = np.zeros((height, width, MAP_NUMBERS), dtype=np.float32)
    colours = list(demo_data.COLOURS)

    def cover(where: np.ndarray, shape: int, colour: str, box: tuple[float, float, float, float]) -> None:
        classes[where, 0], classes[where, 1] = shape, colours.index(colour) + 1
        x0, y0, x1, y1 = box
        boxes[where] = (x0 / scene.width, y0 / scene.height, x1 / scene.width, y1 / scene.height)
        row, column = int((y0 + y1) / 2 * down), int((x0 + x1) / 2 * across)
        classes[min(max(row, 0), height - 1), min(max(column, 0), width - 1), 2] = 1

    for thing in scene.things:
        radius = max(thing.radius * across, 0.5)
        covered = np.hypot(xs - thing.x * across, ys - thing.y * down) < radius
        cover(covered, demo_data.SHAPES.index(thing.shape) + 1, thing.colour, thing.box())
    for bar in scene.bars:
        x0, y0, x1, y1 = bar.box()
        covered = _overlap((x0 * across, y0 * down, x1 * across, y1 * down), height, width) > 0.5
        cover(covered, len(demo_data.SHAPES) + 1, bar.colour, bar.box())
    best = np.full((height, width), 0.15)
    for text in scene.texts:
        for place, (character, (x0, y0, x1, y1)) in enumerate(text.characters()):
            covered = _overlap((x0 * across, y0 * down, x1 * across, y1 * down), height, width)
            here = covered > best
            best = np.maximum(best, covered)
            classes[here, 3] = demo_text.CHARACTERS.index(character) + 1
            classes[here, 4] = place + 1
            cover(here, 0, text.colour, text.box())

    def in_patch_order(values: np.ndarray) -> np.ndarray:
        blocks = values.reshape(rows, MERGE, columns, MERGE, -1).transpose(0, 2, 1, 3, 4)
        return blocks.reshape(height * width, -1)

    return in_patch_order(classes), in_patch_order(boxes)


class Row:
    """One sequence under construction: a shared beginning and branches that do not see each
    other."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.labels: list[int] = []
        self.weights: list[float] = []
        self.branches: list[int] = []
        self.positions: list[tuple[int, int, int]] = []
        self.counter = 0

    def add(self, ids: list[int], branch: int, weights: list[float] | None = None) -> None:
        """Appends tokens; with weights they are an answer to learn."""
        if weights:  # the token before an answer predicts its first token
            self.labels[-1], self.weights[-1] = ids[0], weights[0]
            self.labels += ids[1:] + [IGNORE]
            self.weights += weights[1:] + [0.0]
        else:
            self.labels += [IGNORE] * len(ids)
            self.weights += [0.0] * len(ids)
        self.ids += ids
        self.branches += [branch] * len(ids)
        self.positions += [(p, p, p) for p in range(self.counter, self.counter + len(ids))]
        self.counter += len(ids)

    def add_image(self, token: int, rows: int, columns: int, branch: int) -> None:
        start = self.counter
        self.ids += [token] * (rows * columns)
        self.labels += [IGNORE] * (rows * columns)
        self.weights += [0.0] * (rows * columns)
        self.branches += [branch] * (rows * columns)
        self.positions += [(start, start + r, start + c) for r in range(rows) for c in range(columns)]
        self.counter += max(rows, columns)


class BatchMaker:
    """Turns (seed, step, progress) into a batch."""

    def __init__(self, tokenizer: Tokenizer, questions: int, patch_budget: int) -> None:
        self.tokenizer = tokenizer
        self.questions = questions
        self.patch_budget = patch_budget
        self.cache: dict[str, list[int]] = {}
        self.image_token = tokenizer.token_to_id("<|image_pad|>")
        self.digits = {tokenizer.token_to_id(digit) for digit in "0123456789"}
        self.close = self.encode('0],"')[1]

    def encode(self, text: str) -> list[int]:
        if text not in self.cache:
            if len(self.cache) > 200_000:
                self.cache.clear()
            self.cache[text] = self.tokenizer.encode(text).ids
        return self.cache[text]

    @staticmethod
    def grid(rng: np.random.Generator, progress: float) -> tuple[int, int]:
        """Height and width in image tokens: small ones, wide ones for words, and later now and then
        large ones."""
        chance = rng.random()
        if progress < 0.05:
            ranges = ((2, 3), (2, 4))
        elif chance < 0.5:
            ranges = ((2, 5), (2, 5))
        elif chance < 0.85:
            ranges = ((1, 4), (4, 9))
        elif chance < 0.97 or progress < 0.5:
            ranges = ((4, 10), (4, 10))
        else:
            ranges = ((8, 16), (8, 16))
        return tuple(int(rng.integers(low, high + 1)) for low, high in ranges)

    @staticmethod
    def scene(rng: np.random.Generator, width: int, height: int, progress: float, easy: bool) -> demo_data.Scene:
        """Large black letters on white in few fonts come first."""
        fonts = demo_text.SEEN_FONTS[: 2 if easy else None]
        sizes = (24, 40) if easy else demo_data.TEXT_SIZES
        chance = rng.random()
        scene = None
        if chance < 0.6 - 0.2 * progress or height < 40:
            scene = demo_data.text_scene(rng, width, height, fonts, sizes, False, easy)
        elif chance < 0.6 - 0.1 * progress and progress > 0.3:
            scene = demo_data.label_scene(rng, width, height, fonts, sizes, False)
        elif chance < 0.6 and progress > 0.3:
            scene = demo_data.chart_scene(rng, width, height, fonts)
        if scene is None:
            scene = demo_data.random_scene(rng, width, height, 2 if progress < 0.05 else demo_data.MAX_OBJECTS)
        return scene

    def draw(
        self, rng: np.random.Generator, rows: int, columns: int, progress: float
    ) -> tuple[demo_data.Scene, Image.Image]:
        """An image that the processor would bring to rows x columns tokens, brought there as it
        would do it."""
        height, width = rows * UNIT, columns * UNIT
        odd = rng.random() < 0.3
        if odd:
            height += int(rng.integers(-UNIT // 2 + 1, UNIT // 2))
            width += int(rng.integers(-UNIT // 2 + 1, UNIT // 2))
        easy = rng.random() < 1.2 - 2 * progress
        scene = self.scene(rng, width, height, progress, easy)
        image = demo_data.draw(scene, rng, styles=("even",) if easy else demo_data.STYLES)
        return scene, image.resize((columns * UNIT, rows * UNIT), Image.Resampling.BICUBIC) if odd else image

    def drawings(self, rng: np.random.Generator, progress: float) -> dict:
        """A batch for the tower alone."""
        rows, columns = self.grid(rng, progress)
        n_images = int(np.clip(1.5 * self.patch_budget // (rows * columns * MERGE * MERGE), 4, 128))
        return self.seen([self.draw(rng, rows, columns, progress) for _ in range(n_images)], rows, columns)

    @staticmethod
    def seen(drawn: list[tuple[demo_data.Scene, Image.Image]], rows: int, columns: int) -> dict:
        maps = [drawing_map(scene, rows, columns) for scene, _ in drawn]
        return {
            "pixels": patches([image for _, image in drawn]),
            "grid": np.array([[1, rows * MERGE, columns * MERGE]] * len(drawn)),
            "classes": np.concatenate([classes for classes, _ in maps]).astype(np.uint8),
            "boxes": np.concatenate([boxes for _, boxes in maps]),
        }

    def make(self, rng: np.random.Generator, progress: float) -> dict:
        if rng.random() < 0.015:
            return self.without_images(rng)
        rows, columns = self.grid(rng, progress)
        small = rows * columns <= 20
        n_images = int(rng.choice([1, 2, 3], p=[0.8, 0.14, 0.06])) if small else 1
        n_rows = int(np.clip(self.patch_budget // (rows * columns * MERGE * MERGE * n_images), 2, 32))
        layout = rng.random()
        sequences, drawn, spans = [], [], []
        for index in range(n_rows):
            shown = [self.draw(rng, rows, columns, progress) for _ in range(n_images)]
            drawn += shown
            scenes = [scene for scene, _ in shown]
            row = Row()
            row.add(self.encode("<|im_start|>user\n"), 0)
            if layout < 0.05:  # the question before the images
                question = demo_questions.ask(rng, scenes, 1)[0]
                row.add(self.encode(demo_questions.careless(rng, question.text)), 0)
                self.images(row, n_images, rows, columns)
                self.answer(row, question, 0, index, spans)
            elif layout < 0.15:  # a conversation
                self.images(row, n_images, rows, columns)
                for turn, question in enumerate(demo_questions.ask(rng, scenes, 3)):
                    if turn:
                        row.add(self.encode("\n<|im_start|>user\n"), 0)
                    row.add(self.encode(demo_questions.careless(rng, question.text)), 0)
                    self.answer(row, question, 0, index, spans)
            else:
                self.images(row, n_images, rows, columns)
                after_images = row.counter
                for branch, question in enumerate(demo_questions.ask(rng, scenes, self.questions), start=1):
                    row.counter = after_images
                    row.add(self.encode(demo_questions.careless(rng, question.text)), branch)
                    self.answer(row, question, branch, index, spans)
            sequences.append(row)
        return self.collate(sequences, spans) | self.seen(drawn, rows, columns)

    def without_images(self, rng: np.random.Generator) -> dict:
        sequences, spans = [], []
        for index in range(24):
            if rng.random() < 0.5:
                talk = demo_questions.SMALL_TALK
                text, answer = talk[int(rng.integers(len(talk)))]
            else:
                scene = demo_data.random_scene(rng, 128, 128)
                question = demo_questions.ask(rng, [scene], 1)[0]
                text, answer = demo_questions.careless(rng, question.text), demo_questions.NO_IMAGE
            row = Row()
            row.add(self.encode("<|im_start|>user\n" + text), 0)
            self.answer(row, demo_questions.Question("", text, answer), 0, index, spans)
            sequences.append(row)
        return self.collate(sequences, spans)

    def images(self, row: Row, n: int, rows: int, columns: int) -> None:
        for _ in range(n):
            row.add(self.encode("<|vision_start|>"), 0)
            row.add_image(self.image_token, rows, columns, 0)
            row.add(self.encode("<|vision_end|>"), 0)

    def answer(self, row: Row, question: demo_questions.Question, branch: int, index: int, spans: list) -> None:
        row.add(self.encode("<|im_end|>\n<|im_start|>assistant\n"), branch)
        first = len(row.ids) - 1
        ids = self.encode(question.answer + "<|im_end|>")
        row.add(ids, branch, self.weights(question, ids))
        if question.kind:
            spans.append((question.kind, index, first, len(row.ids) - 1))

    def weights(self, question: demo_questions.Question, ids: list[int]) -> list[float]:
        """Of an answer's tokens: those of long answers weigh less, and in a box the coordinates
        count, most of all their first digits."""
        weights = [len(ids) ** -0.5] * len(ids)
        if question.kind == "where":
            end = ids.index(self.close)
            for i in range(end):
                if ids[i] in self.digits:
                    weights[i] *= 2 if ids[i - 1] in self.digits else 4
        return weights

    @staticmethod
    def collate(rows: list[Row], spans: list) -> dict:
        n, length = len(rows), max(len(row.ids) for row in rows)
        ids = np.zeros((n, length), np.int64)
        labels = np.full((n, length), IGNORE)
        weights = np.zeros((n, length), np.float32)
        branches = np.full((n, length), -1)
        positions = np.zeros((n, length, 3), np.int64)
        for i, row in enumerate(rows):
            used = len(row.ids)
            ids[i, :used], labels[i, :used] = row.ids, row.labels
            weights[i, :used] = row.weights
            branches[i, :used], positions[i, :used] = row.branches, row.positions
        return {
            "ids": ids,
            "labels": labels,
            "weights": weights,
            "branches": branches,
            "positions": positions.transpose(2, 0, 1),
            "answers": spans,
        }


def to_batch(arrays: dict) -> Batch:
    """Arrays of BatchMaker as tensors; what a batch lacks is None."""
    tensors = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in arrays.items() if isinstance(v, np.ndarray)}
    if "pixels" in arrays:
        tensors |= {"pixels": normalised(arrays["pixels"]), "classes": tensors["classes"].long()}
    names = ("pixels", "grid", "classes", "boxes", "ids", "positions", "branches", "labels", "weights")
    return Batch(*(tensors.get(name) for name in names), arrays.get("answers", []))


class Worker:
    """A process that makes batches ahead. Start it before torch has threads; `progress` steers the
    curriculum: (seeing only, progress of that stage)."""

    def __init__(self, maker: BatchMaker, seed: int, first_step: int) -> None:
        context = multiprocessing.get_context("fork")
        self.stage = context.Array("d", [1.0, 0.0])
        self.queue = context.Queue(maxsize=4)
        self.process = context.Process(target=self.run, args=(maker, seed, first_step), daemon=True)

    def run(self, maker: BatchMaker, seed: int, step: int) -> None:
        os.nice(3)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        torch.set_num_threads(1)
        while True:
            seeing_only, progress = self.stage[:]
            rng = np.random.default_rng([seed, step])
            if seeing_only:
                arrays = maker.drawings(rng, progress)
            elif step % 5 == 0:
                arrays = maker.drawings(rng, 0.4 + 0.6 * progress)
            else:
                arrays = maker.make(rng, 0.4 + 0.6 * progress)
            self.queue.put(arrays)
            step += 1

    def start(self, seeing_only: bool) -> None:
        self.stage[0] = float(seeing_only)
        self.process.start()

    def next(self, seeing_only: bool, progress: float) -> Batch:
        """The next batch. Once the language model has joined, one in five still is for the tower
        alone."""
        self.stage[:] = [float(seeing_only), progress]
        while True:
            try:
                arrays = self.queue.get(timeout=60)
            except queue.Empty:
                if self.process.is_alive():
                    continue
                raise
            if not ("ids" in arrays and seeing_only):
                return to_batch(arrays)

    def stop(self) -> None:
        if self.process.is_alive():
            self.process.terminate()
