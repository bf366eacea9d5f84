#!/usr/bin/env python3
"""Train the demo model in models/demo: a very small Qwen3-VL that answers questions about simple drawings.

    tools/train_demo.py --work /tmp/demo --minutes 60       train from scratch, one thread
    tools/train_demo.py --work /tmp/demo --resume --minutes 90
                                                            go on from the checkpoint, to 90 minutes in all
    tools/train_demo.py --check                             compare the shortcuts below with the official code

The model is built from the official transformers classes and saved by save_pretrained, so that what is trained is by
definition the published architecture. Small models spend their time in overhead, hence three shortcuts while
training, none of which changes the mathematics (--check compares them with the official code):

- all pictures of a batch have one size, so vision attention is one batched call instead of one call per picture;
- a still picture fills both time slices of a patch with the same pixels, so the patch embedding multiplies one slice
  by the sum of the two weights;
- several questions share one picture: each is a branch that sees the picture and itself but not the other branches,
  with positions that start right after the picture, exactly as if it had been asked alone.

Learning to see by answering questions alone is slow: colours come at once, shapes do not come for a long time. So
the first part of the time (--vision-part) trains the tower alone, on a map of the drawing: every image token tells,
for each of its four patches, whether an object covers it, its shape and colour, and whether its centre is there. The
map's head is thrown away; the map stays a small part of the loss afterwards.

Matrices are multiplied in bf16 where the CPU can (--float32 turns that off); weights, norms, attention and losses stay
in float32. The learning rate follows warm-up and cosine over --minutes or --steps, whichever is nearer its end; time
spent before an interruption counts. Pictures are drawn from (seed, step) and the progress made, so with --steps alone
a resumed run sees what an uninterrupted one would have seen.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen3_vl import modeling_qwen3_vl as official

import demo_data
import demo_files

PATCH, MERGE = 16, 2
UNIT = PATCH * MERGE  # pixels covered by one image token, each way
IGNORE = -100
LOG_FIELDS = ("step", "seconds", "pictures", "learning_rate", "map_loss", "map_shape", "loss", *demo_data.KINDS)
MAP_WIDTH = (len(demo_data.SHAPES) + 1, len(demo_data.COLOURS) + 1, 2)  # classes of shape, colour and "centre is here"
KIND_WEIGHTS = {"colour": 0.2, "shape": 0.17, "count": 0.3, "presence": 0.16, "describe": 0.17}


def make_config(tokenizer: Tokenizer) -> Qwen3VLConfig:
    """The shape of the demo model. Widths that differ on purpose (heads x head_dim is not hidden_size in the language
    model, the vocabulary has padding rows) are the cases that larger members of the family also have."""
    token = tokenizer.token_to_id
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": 2048,
            "hidden_size": 192,
            "intermediate_size": 384,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "max_position_embeddings": 2048,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [12, 10, 10],
                "mrope_interleaved": True,
            },
            "bos_token_id": token("<|endoftext|>"),
            "eos_token_id": token("<|im_end|>"),
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": 4,
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_heads": 2,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": 192,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [1, 2],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    config._attn_implementation = "sdpa"
    return config


# --- shortcuts ------------------------------------------------------------------------------------------------------


def _same_size_attention(
    self: official.Qwen3VLVisionAttention,
    hidden_states: torch.Tensor,
    cu_seqlens: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    **_: object,
) -> torch.Tensor:
    """Qwen3VLVisionAttention.forward for pictures of one size. hidden_states: [n_images * n_patches, hidden]."""
    n_images = cu_seqlens.numel() - 1
    n_patches = hidden_states.shape[0] // n_images
    qkv = self.qkv(hidden_states).view(n_images, n_patches, 3, self.num_heads, self.head_dim)
    query, key, value = qkv.unbind(2)  # each [n_images, n_patches, n_heads, head_dim]
    cos, sin = (t[:n_patches] for t in position_embeddings)
    query, key = official.apply_rotary_pos_emb_vision(query, key, cos, sin)
    with torch.autocast("cpu", enabled=False):
        query, key, value = (t.float().transpose(1, 2) for t in (query, key, value))
        out = F.scaled_dot_product_attention(query, key, value)
    return self.proj(out.transpose(1, 2).reshape(hidden_states.shape[0], -1))


def _still_patch_embed(self: official.Qwen3VLVisionPatchEmbed, pixels: torch.Tensor) -> torch.Tensor:
    """Qwen3VLVisionPatchEmbed.forward for patches with one time slice. pixels: [n, channels * patch * patch]."""
    return F.linear(pixels, self.proj.weight.sum(2).flatten(1), self.proj.bias)


def _float_attention(module: torch.nn.Module, *tensors: torch.Tensor | None, **options: object) -> tuple:
    """The language model's attention in float32: in bf16 its backward pass is slower on a CPU, not faster."""
    with torch.autocast("cpu", enabled=False):
        return sdpa_attention_forward(module, *(t.float() if t.is_floating_point() else t for t in tensors), **options)


class Shortcuts:
    """Context in which the official classes use the functions above."""

    def __enter__(self) -> None:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = _float_attention
        self.saved = official.Qwen3VLVisionAttention.forward, official.Qwen3VLVisionPatchEmbed.forward
        official.Qwen3VLVisionAttention.forward = _same_size_attention
        official.Qwen3VLVisionPatchEmbed.forward = _still_patch_embed

    def __exit__(self, *_: object) -> None:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = sdpa_attention_forward
        official.Qwen3VLVisionAttention.forward, official.Qwen3VLVisionPatchEmbed.forward = self.saved


# --- batches --------------------------------------------------------------------------------------------------------


@dataclass
class Batch:
    pixels: torch.Tensor | None  # [n_images * n_patches, 3 * 16 * 16], None for a batch without pictures
    grid: torch.Tensor | None  # [n_images, 3]
    map: torch.Tensor | None  # [n_images * n_patches, 3]: class of shape, of colour, and whether a centre is there
    ids: torch.Tensor  # [n_images, length]
    positions: torch.Tensor  # [3, n_images, length]
    mask: torch.Tensor  # [n_images, 1, length, length], True where a query may look
    labels: torch.Tensor  # [n_images, length], the token to predict AT this position, or IGNORE
    answers: list[tuple[str, int, int, int]]  # kind, row, first and end position of the answer's labels


def patches(images: list[Image.Image]) -> np.ndarray:
    """[n_images * n_patches, 768]: the official processor's patches of equally large pictures, one time slice only."""
    pixels = np.stack([np.asarray(image) for image in images])  # [n, height, width, 3]
    n, height, width, _ = pixels.shape
    blocks = pixels.reshape(n, height // UNIT, MERGE, PATCH, width // UNIT, MERGE, PATCH, 3)
    blocks = blocks.transpose(0, 1, 4, 2, 5, 7, 3, 6)  # n, block row, block column, row, column, channel, y, x
    return blocks.reshape(-1, 3 * PATCH * PATCH).astype(np.float32) / np.float32(127.5) - np.float32(1)


def drawing_map(scene: demo_data.Scene, rows: int, columns: int) -> np.ndarray:
    """[n_patches, 3] in the order of `patches`: what each patch shows; class 0 means nothing."""
    height, width = rows * MERGE, columns * MERGE
    ys, xs = np.mgrid[0:height, 0:width] + 0.5
    result = np.zeros((height, width, 3), dtype=np.int64)
    for thing in scene.things:
        x, y = thing.x * width / scene.width, thing.y * height / scene.height
        radius = max(thing.radius * width / scene.width, 0.5)
        covered = np.hypot(xs - x, ys - y) < radius
        result[covered, 0] = demo_data.SHAPES.index(thing.shape) + 1
        result[covered, 1] = list(demo_data.COLOURS).index(thing.colour) + 1
        result[int(y), int(x), 2] = 1
    blocks = result.reshape(rows, MERGE, columns, MERGE, 3).transpose(0, 2, 1, 3, 4)
    return blocks.reshape(-1, 3)


class Row:
    """One sequence under construction: a shared beginning and branches that do not see each other."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.labels: list[int] = []
        self.branches: list[int] = []
        self.positions: list[tuple[int, int, int]] = []
        self.counter = 0

    def add(self, ids: list[int], branch: int, learn: bool = False) -> None:
        if learn:  # the token before an answer predicts its first token
            self.labels[-1] = ids[0]
            self.labels += ids[1:] + [IGNORE]
        else:
            self.labels += [IGNORE] * len(ids)
        self.ids += ids
        self.branches += [branch] * len(ids)
        self.positions += [(p, p, p) for p in range(self.counter, self.counter + len(ids))]
        self.counter += len(ids)

    def add_image(self, token: int, rows: int, columns: int, branch: int) -> None:
        start = self.counter
        self.ids += [token] * (rows * columns)
        self.labels += [IGNORE] * (rows * columns)
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

    def encode(self, text: str) -> list[int]:
        if text not in self.cache:
            if len(self.cache) > 200_000:
                self.cache.clear()
            self.cache[text] = self.tokenizer.encode(text).ids
        return self.cache[text]

    @staticmethod
    def curriculum(rng: np.random.Generator, progress: float) -> tuple[int, int, int]:
        """Height and width in image tokens, and the largest number of objects."""
        if progress < 0.04:
            low, high, objects = 2, 3, 1
        elif progress < 0.1:
            low, high, objects = 2, 4, 3
        elif rng.random() < (0.85 if progress < 0.6 else 0.6):
            low, high, objects = 2, 5, 6
        else:
            low, high, objects = 5, 11, 6
        rows, columns = (int(v) for v in rng.integers(low, high + 1, 2))
        return rows, columns, min(objects, rows * columns)

    def draw(
        self, rng: np.random.Generator, rows: int, columns: int, objects: int
    ) -> tuple[demo_data.Scene, Image.Image]:
        """A picture that the processor would bring to rows x columns tokens, brought there as it would do it."""
        height, width = rows * UNIT, columns * UNIT
        odd = rng.random() < 0.4
        if odd:
            height += int(rng.integers(-UNIT // 2 + 1, UNIT // 2))
            width += int(rng.integers(-UNIT // 2 + 1, UNIT // 2))
        scene = demo_data.random_scene(rng, width, height, objects)
        image = demo_data.draw(scene, rng)
        return scene, image.resize((columns * UNIT, rows * UNIT), Image.Resampling.BICUBIC) if odd else image

    def ask(self, rng: np.random.Generator, scene: demo_data.Scene, n: int) -> list[demo_data.Question]:
        asked: list[demo_data.Question] = []
        kinds, weights = list(KIND_WEIGHTS), list(KIND_WEIGHTS.values())
        while len(asked) < n:
            question = demo_data.random_question(rng, scene, str(rng.choice(kinds, p=weights)))
            if question:
                asked.append(question)
        return asked

    def drawings(self, rng: np.random.Generator, progress: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A batch for the tower alone: pixels, grid, map."""
        rows, columns, objects = self.curriculum(rng, progress)
        n_images = int(np.clip(2 * self.patch_budget // (rows * columns * MERGE * MERGE), 6, 128))
        drawn = [self.draw(rng, rows, columns, objects) for _ in range(n_images)]
        target = np.concatenate([drawing_map(scene, rows, columns) for scene, _ in drawn])
        grid = torch.tensor([[1, rows * MERGE, columns * MERGE]] * n_images)
        return torch.from_numpy(patches([image for _, image in drawn])), grid, torch.from_numpy(target)

    def make(self, rng: np.random.Generator, progress: float) -> Batch:
        if rng.random() < 0.02:
            return self.without_pictures(rng)
        rows, columns, objects = self.curriculum(rng, progress)
        n_images = int(np.clip(self.patch_budget // (rows * columns * MERGE * MERGE), 6, 64))
        layout = rng.random()
        sequences, images, maps, spans = [], [], [], []
        for row_index in range(n_images):
            scene, image = self.draw(rng, rows, columns, objects)
            images.append(image)
            maps.append(drawing_map(scene, rows, columns))
            row = Row()
            if layout < 0.06:  # the question before the picture
                question = self.ask(rng, scene, 1)[0]
                row.add(self.encode("<|im_start|>user\n" + demo_data.careless(rng, question.text)), 0)
                self.picture(row, rows, columns)
                self.answer(row, question, 0, row_index, spans)
            elif layout < 0.2:  # a conversation
                row.add(self.encode("<|im_start|>user\n"), 0)
                self.picture(row, rows, columns)
                for turn, question in enumerate(self.ask(rng, scene, 3)):
                    if turn:
                        row.add(self.encode("\n<|im_start|>user\n"), 0)
                    row.add(self.encode(demo_data.careless(rng, question.text)), 0)
                    self.answer(row, question, 0, row_index, spans)
            else:
                row.add(self.encode("<|im_start|>user\n"), 0)
                self.picture(row, rows, columns)
                after_picture = row.counter
                for branch, question in enumerate(self.ask(rng, scene, self.questions), start=1):
                    row.counter = after_picture
                    row.add(self.encode(demo_data.careless(rng, question.text)), branch)
                    self.answer(row, question, branch, row_index, spans)
            sequences.append(row)
        grid = torch.tensor([[1, rows * MERGE, columns * MERGE]] * n_images)
        target = torch.from_numpy(np.concatenate(maps))
        return self.collate(sequences, spans, torch.from_numpy(patches(images)), grid, target)

    def without_pictures(self, rng: np.random.Generator) -> Batch:
        sequences, spans = [], []
        for row_index in range(24):
            if rng.random() < 0.5:
                text, answer = demo_data.SMALL_TALK[int(rng.integers(len(demo_data.SMALL_TALK)))]
            else:
                scene = demo_data.random_scene(rng, 128, 128)
                text, answer = demo_data.careless(rng, self.ask(rng, scene, 1)[0].text), demo_data.NO_PICTURE
            row = Row()
            row.add(self.encode("<|im_start|>user\n" + text), 0)
            self.answer(row, demo_data.Question("", text, answer), 0, row_index, spans)
            sequences.append(row)
        return self.collate(sequences, spans)

    def picture(self, row: Row, rows: int, columns: int) -> None:
        row.add(self.encode("<|vision_start|>"), 0)
        row.add_image(self.image_token, rows, columns, 0)
        row.add(self.encode("<|vision_end|>"), 0)

    def answer(self, row: Row, question: demo_data.Question, branch: int, index: int, spans: list) -> None:
        row.add(self.encode("<|im_end|>\n<|im_start|>assistant\n"), branch)
        first = len(row.ids) - 1
        row.add(self.encode(question.answer + "<|im_end|>"), branch, learn=True)
        if question.kind:
            spans.append((question.kind, index, first, len(row.ids) - 1))

    @staticmethod
    def collate(
        rows: list[Row],
        spans: list,
        pixels: torch.Tensor | None = None,
        grid: torch.Tensor | None = None,
        target: torch.Tensor | None = None,
    ) -> Batch:
        n, length = len(rows), max(len(row.ids) for row in rows)
        ids = torch.zeros(n, length, dtype=torch.long)
        labels = torch.full((n, length), IGNORE)
        branches = torch.full((n, length), -1)
        positions = torch.zeros(n, length, 3, dtype=torch.long)
        for i, row in enumerate(rows):
            used = len(row.ids)
            ids[i, :used] = torch.tensor(row.ids)
            labels[i, :used] = torch.tensor(row.labels)
            branches[i, :used] = torch.tensor(row.branches)
            positions[i, :used] = torch.tensor(row.positions)
        key, query = branches[:, None, None, :], branches[:, None, :, None]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        mask = causal & ((key == query) | (key == 0))
        return Batch(pixels, grid, target, ids, positions.permute(2, 0, 1), mask, labels, spans)


def hidden_states(model: Qwen3VLForConditionalGeneration, batch: Batch) -> torch.Tensor:
    """[n_images, length, hidden]: the language model's output, before the head."""
    pictures = {} if batch.pixels is None else {"pixel_values": batch.pixels, "image_grid_thw": batch.grid}
    return model.model(
        input_ids=batch.ids,
        attention_mask=batch.mask,
        position_ids=batch.positions,
        use_cache=False,
        **pictures,
    ).last_hidden_state


# --- training -------------------------------------------------------------------------------------------------------


class MapHead(torch.nn.Module):
    """Reads the map of the drawing off the image tokens; used in training only."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(hidden, MERGE * MERGE * sum(MAP_WIDTH))

    def forward(self, tokens: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Loss, and the part of covered patches whose shape is right. tokens: [n_tokens, hidden]."""
        shape, colour, centre = self.linear(tokens).view(-1, sum(MAP_WIDTH)).split(MAP_WIDTH, dim=-1)
        loss = F.cross_entropy(shape, target[:, 0]) + F.cross_entropy(colour, target[:, 1])
        loss = loss + F.cross_entropy(centre, target[:, 2], weight=torch.tensor([1.0, 4.0]))
        covered = target[:, 0] > 0
        return loss, (shape.argmax(-1) == target[:, 0])[covered].float().mean().item()


def learning_rate(step: int, progress: float, peak: float, warmup: int) -> float:
    """`step` counts from the beginning of the stage: the language model joins late and needs its own warm-up."""
    return peak * min(1.0, (step + 1) / warmup) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))


class Optimiser:
    """Muon for the matrices inside the blocks and mergers, AdamW for embeddings, norms, biases and the map's head.

    On these small towers Muon needs about half as many steps as AdamW alone. `match_rms_adamw` scales its steps so that
    both can share one learning rate.
    """

    def __init__(self, weights: torch.nn.Module, lr: float, decay: float) -> None:
        places = (".layers.", ".blocks.", "merger")
        inner = {n: p for n, p in weights.named_parameters() if p.dim() == 2 and any(place in n for place in places)}
        rest = [(n, p) for n, p in weights.named_parameters() if n not in inner]
        groups = [
            {"params": [p for _, p in rest if p.dim() > 1], "weight_decay": decay},
            {"params": [p for _, p in rest if p.dim() <= 1], "weight_decay": 0.0},
        ]
        self.parts = (
            torch.optim.Muon(list(inner.values()), lr=lr, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), fused=True),
        )

    def step(self, lr: float) -> None:
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = lr
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict]) -> None:
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)


def export(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Write config.json and bf16 weights, each by a rename, so that a reader never sees half a file."""
    copy = Qwen3VLForConditionalGeneration(model.config)
    copy.load_state_dict(model.state_dict())
    copy = copy.to(torch.bfloat16)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy.save_pretrained(temporary)
        for name in ("config.json", "model.safetensors"):
            (Path(temporary) / name).chmod(0o644)
            os.replace(Path(temporary) / name, folder / name)


def save_checkpoint(path: Path, weights: torch.nn.Module, optimiser: Optimiser, state: dict) -> None:
    temporary = path.with_suffix(".new")
    torch.save({"weights": weights.state_dict(), "optimiser": optimiser.state_dict(), "state": state}, temporary)
    os.replace(temporary, path)


def subsample_log(source: Path, target: Path, rows: int = 60) -> None:
    """A short copy of the log for the repository: evenly spaced rows, always with the last one."""
    with source.open() as file:
        lines = file.readlines()
    header, body = lines[0], lines[1:]
    keep = sorted({round(i * (len(body) - 1) / max(rows - 1, 1)) for i in range(min(rows, len(body)))})
    target.write_text(header + "".join(body[i] for i in keep))


class Meter:
    """Loss and exact-answer rate per kind of question since the last line of the log (with the true answer's earlier
    tokens given, so this is an upper bound of what greedy decoding reaches)."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.maps: list[tuple[float, float]] = []
        self.right: dict[str, list[bool]] = defaultdict(list)

    def add_map(self, loss: float, shape: float) -> None:
        self.maps.append((loss, shape))

    def add(self, loss: float, correct: torch.Tensor, batch: Batch) -> None:
        """correct: [n_images, length], True where a label was predicted."""
        self.losses.append(loss)
        for kind, row, first, end in batch.answers:
            self.right[kind].append(bool(correct[row, first:end].all()))

    def line(self) -> dict[str, str]:
        rates = {k: f"{np.mean(self.right[k]):.4f}" if self.right[k] else "" for k in demo_data.KINDS}
        map_loss, map_shape = np.mean(self.maps, axis=0)
        loss = f"{np.mean(self.losses):.4f}" if self.losses else ""
        return {"map_loss": f"{map_loss:.4f}", "map_shape": f"{map_shape:.4f}", "loss": loss, **rates}


def train(args: argparse.Namespace) -> None:
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    checkpoint_path, log_path = args.work / "checkpoint.pt", args.work / "log.csv"
    tokenizer = demo_files.write_files(args.model)
    torch.manual_seed(args.seed)
    model = Qwen3VLForConditionalGeneration(make_config(tokenizer))
    head = MapHead(model.config.text_config.hidden_size)
    both = torch.nn.ModuleDict({"model": model, "head": head})
    optimiser = Optimiser(both, args.lr, args.weight_decay)
    state = {"step": 0, "seconds": 0.0, "pictures": 0, "seeing_only": True, "warm_from": 0}
    if args.resume:
        saved = torch.load(checkpoint_path, weights_only=True)
        both.load_state_dict(saved["weights"])
        state = saved["state"]
        if args.fresh_optimiser:
            state["warm_from"] = state["step"]
        else:
            optimiser.load_state_dict(saved["optimiser"])
    else:
        with log_path.open("w", newline="") as file:
            csv.writer(file).writerow(LOG_FIELDS)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, starting at step {state['step']}", flush=True)

    maker = BatchMaker(tokenizer, args.questions, args.patch_budget)
    image_tokens: list[torch.Tensor] = []
    model.model.visual.merger.register_forward_hook(lambda _module, _inputs, output: image_tokens.append(output))
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=not args.float32)
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    started, meter = time.monotonic() - state["seconds"], Meter()
    last_checkpoint = last_export = state["seconds"]
    both.train()
    while not stop:
        step, seconds = state["step"], time.monotonic() - started
        progress = max(step / args.steps, seconds / (60 * args.minutes))
        if progress >= 1:
            break
        seeing_only = progress < args.vision_part
        if seeing_only != state["seeing_only"]:
            state |= {"seeing_only": seeing_only, "warm_from": step}
        lr = learning_rate(step - state["warm_from"], progress, args.lr, args.warmup)
        rng = np.random.default_rng([args.seed, step])
        image_tokens.clear()
        if seeing_only:
            pixels, grid, target = maker.drawings(rng, progress / args.vision_part)
            with autocast:
                model.model.visual(pixels, grid_thw=grid)
            loss = torch.zeros(())
        else:
            batch = maker.make(rng, (progress - args.vision_part) / (1 - args.vision_part))
            grid, target = batch.grid, batch.map
            with autocast:
                states = hidden_states(model, batch).float()
            learnt = batch.labels != IGNORE
            logits = model.lm_head(states[learnt])
            loss = F.cross_entropy(logits, batch.labels[learnt])
            correct = torch.zeros_like(learnt)
            correct[learnt] = logits.detach().argmax(-1) == batch.labels[learnt]
            meter.add(loss.item(), correct, batch)
        if grid is not None:
            map_loss, map_shape = head(image_tokens[0].float(), target)
            meter.add_map(map_loss.item(), map_shape)
            loss = loss + (1.0 if seeing_only else args.map_weight) * map_loss
            state["pictures"] += len(grid)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(both.parameters(), args.clip)
        optimiser.step(lr)
        state |= {"step": step + 1, "seconds": seconds}

        if (step + 1) % args.log_every == 0:
            line = {"step": step + 1, "seconds": f"{seconds:.0f}", "pictures": state["pictures"]}
            line |= {"learning_rate": f"{lr:.2e}", **meter.line()}
            with log_path.open("a", newline="") as file:
                csv.DictWriter(file, LOG_FIELDS).writerow(line)
            print(" ".join(f"{key}={value}" for key, value in line.items()), flush=True)
            meter = Meter()
        if seconds - last_checkpoint > 60 * args.checkpoint_minutes:
            save_checkpoint(checkpoint_path, both, optimiser, state)
            last_checkpoint = seconds
        if seconds - last_export > 60 * args.export_minutes:
            export(model, args.model)
            last_export = seconds
    save_checkpoint(checkpoint_path, both, optimiser, state)
    export(model, args.model)
    subsample_log(log_path, args.model / "training_log.csv")
    print(f"done: {state['step']} steps, {state['pictures']} pictures, {state['seconds'] / 3600:.2f} hours", flush=True)


# --- check ----------------------------------------------------------------------------------------------------------


def check(args: argparse.Namespace) -> None:
    """Compare patches, prompt ids and the answers' logits of branched batches with the official classes."""
    from transformers import AutoProcessor

    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (args.model / "tokenizer.json").exists():
            shutil.copy(args.model / "tokenizer.json", folder)
        tokenizer = demo_files.write_files(folder)
        torch.manual_seed(args.seed)
        model = Qwen3VLForConditionalGeneration(make_config(tokenizer)).eval()
        model.save_pretrained(folder)
        processor = AutoProcessor.from_pretrained(folder)

    maker, rng = BatchMaker(tokenizer, 3, 0), np.random.default_rng(args.seed)
    worst = 0.0
    for rows, columns in ((2, 3), (5, 4), (3, 9)):
        scene, image = maker.draw(rng, rows, columns, 6)
        questions = maker.ask(rng, scene, 3)
        row, spans = Row(), []
        row.add(maker.encode("<|im_start|>user\n"), 0)
        maker.picture(row, rows, columns)
        start = row.counter
        for branch, question in enumerate(questions, start=1):
            row.counter = start
            row.add(maker.encode(question.text), branch)
            maker.answer(row, question, branch, 0, spans)
        grid = torch.tensor([[1, rows * MERGE, columns * MERGE]] * 2)
        batch = maker.collate([row, row], spans, torch.from_numpy(patches([image, image])), grid)
        with torch.no_grad(), Shortcuts():
            ours = model.lm_head(hidden_states(model, batch)[1])
        for question, (_, _, first, end) in zip(questions, spans):
            content = [{"type": "image"}, {"type": "text", "text": question.text}]
            text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
            inputs = processor(text=text + question.answer + "<|im_end|>", images=image, return_tensors="pt")
            slices = inputs["pixel_values"].view(-1, 3, 2, PATCH * PATCH)
            same = torch.from_numpy(patches([image])).view(-1, 3, PATCH * PATCH)
            assert torch.equal(slices[:, :, 0], slices[:, :, 1]) and (slices[:, :, 0] - same).abs().max() < 1e-6
            with torch.no_grad():
                theirs = model(**inputs).logits[0]
            answer = batch.labels[0, first:end]
            assert torch.equal(inputs["input_ids"][0, -len(answer) :], answer)
            worst = max(worst, (theirs[-len(answer) - 1 : -1] - ours[first:end]).abs().max().item())
    print(f"patches and ids agree; largest difference of a logit {worst:.1e}")
    assert worst < 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent.parent
    add = parser.add_argument
    add("--model", type=Path, default=here / "models/demo", metavar="DIR", help="the model directory (models/demo)")
    add("--work", type=Path, metavar="DIR", help="where checkpoint.pt and log.csv live; needed for training")
    add("--resume", action="store_true", help="continue from the checkpoint in --work")
    add("--fresh-optimiser", action="store_true", help="with --resume: forget the optimiser's momentum")
    add("--check", action="store_true", help="only compare the training shortcuts with the official code")
    add("--minutes", type=float, default=60, help="training time in all, earlier runs included (default 60)")
    add("--steps", type=int, default=1_000_000, help="stop after this many steps, earlier runs included")
    add("--vision-part", type=float, default=0.22, help="part of the time that trains the tower alone (default 0.22)")
    add("--map-weight", type=float, default=0.2, help="weight of the map's loss afterwards (default 0.2)")
    add("--seed", type=int, default=1, help="seed of weights and pictures (default 1)")
    add("--threads", type=int, default=1, help="threads of torch (default 1)")
    add("--float32", action="store_true", help="multiply matrices in float32; default: in bf16, weights in float32")
    add("--lr", type=float, default=1.5e-3, help="peak learning rate (default 1.5e-3)")
    add("--warmup", type=int, default=120, help="steps of warm-up (default 120)")
    add("--weight-decay", type=float, default=0.03, help="decay of matrices (default 0.03)")
    add("--clip", type=float, default=1.0, help="limit of the gradient's norm (default 1)")
    add("--questions", type=int, default=4, help="questions per picture (default 4)")
    add("--patch-budget", type=int, default=1800, help="patches per batch, which sets its pictures (default 1800)")
    add("--log-every", type=int, default=50, help="steps between lines of the log (default 50)")
    add("--checkpoint-minutes", type=float, default=5, help="minutes between checkpoints (default 5)")
    add("--export-minutes", type=float, default=15, help="minutes between exports to --model (default 15)")
    args = parser.parse_args()
    if args.check:
        check(args)
    elif args.work is None:
        parser.error("--work is needed for training")
    else:
        with Shortcuts():
            train(args)


if __name__ == "__main__":
    main()
