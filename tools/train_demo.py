#!/usr/bin/env python3
"""Train the demo model in models/demo: a very small Qwen3-VL that answers questions about simple
drawings.

    tools/train_demo.py --work DIR --minutes 60                         train from scratch, one thread
    tools/train_demo.py --work DIR --minutes 60 --weights models/demo   start from the published weights that fit
    tools/train_demo.py --work DIR --resume --minutes 90                go on from the checkpoint, to 90 minutes in all
    tools/train_demo.py --check                             compare the shortcuts below with the official code

The model is built from the official transformers classes and saved by save_pretrained, so that what
is trained is by definition the published architecture. Small models spend their time in overhead,
hence three shortcuts while training, none of which changes the mathematics (--check compares them
with the official code):

- all images of a batch have one size, so vision attention is one batched call instead of one call
  per image;
- a still image fills both time slices of a patch with the same pixels, so the patch embedding
  multiplies one slice by the sum of the two weights;
- several questions share one image: each is a branch that sees the image and itself but not the
  other branches, with positions that start right after the image, exactly as if it had been asked
  alone.

Learning to see by answering questions alone is slow: colours come at once, shapes do not come for a
long time. So the first part of the time (--vision-part) trains the tower alone, on a map of the
drawing: every image token is trained to predict, for each of its four patches, what covers it:
shape, colour, character and its place in the word, the box, and whether its centre is there. The
map's head is thrown away; the map stays a part of the loss afterwards, and one batch in five is for
the tower alone.

Matrices are multiplied in bf16 where the CPU can (--float32 turns that off); weights, norms,
attention and losses stay in float32. The learning rate follows warm-up and cosine over --minutes or
--steps, whichever is nearer its end; time spent before an interruption counts. Images are drawn
from (seed, step) and the progress made.
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
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen3_vl import modeling_qwen3_vl as official

import demo_files
import demo_questions
from demo_batches import (
    IGNORE,
    MAP_CLASSES,
    MAP_NUMBERS,
    MERGE,
    PATCH,
    Batch,
    BatchMaker,
    Row,
    Worker,
    normalised,
    patches,
    to_batch,
)

LOG_FIELDS = (
    "step", "seconds", "images", "learning_rate", "map_loss", "map_shape", "map_character", "loss",
    *demo_questions.KINDS,
)  # fmt: skip

def make_config(tokenizer: Tokenizer) -> Qwen3VLConfig:
    """The shape of the demo model. Widths that differ on purpose (heads x head_dim is not
    hidden_size in the language model, the vocabulary has padding rows) are the cases that larger
    members of the family also have."""
    token = tokenizer.token_to_id
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": 2048,
            "hidden_size": 192,
            "intermediate_size": 384,
            "num_hidden_layers": 6,
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
            "depth": 6,
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


# --- shortcuts
# --------------------------------------------------------------------------------------------------


def _same_size_attention(
    self: official.Qwen3VLVisionAttention,
    hidden_states: torch.Tensor,
    cu_seqlens: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    **_: object,
) -> torch.Tensor:
    """Qwen3VLVisionAttention.forward for images of one size. hidden_states: [n_images * n_patches,
    hidden]."""
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
    """Qwen3VLVisionPatchEmbed.forward for patches with one time slice. pixels: [n, channels * patch
    * patch]."""
    return F.linear(pixels, self.proj.weight.sum(2).flatten(1), self.proj.bias)


def _float_attention(module: torch.nn.Module, *tensors: torch.Tensor | None, **options: object) -> tuple:
    """The language model's attention in float32: in bf16 its backward pass is slower on a CPU, not
    faster."""
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


# --- training
# --------------------------------------------------------------------------------------------------


def hidden_states(model: Qwen3VLForConditionalGeneration, batch: Batch) -> torch.Tensor:
    """[n_images, length, hidden]: the language model's output, before the head."""
    images = {} if batch.pixels is None else {"pixel_values": batch.pixels, "image_grid_thw": batch.grid}
    return model.model(
        input_ids=batch.ids,
        attention_mask=batch.mask(),
        position_ids=batch.positions,
        use_cache=False,
        **images,
    ).last_hidden_state


class MapHead(torch.nn.Module):
    """Reads the map of the drawing off the image tokens; used in training only.

    The ends of boxes are learnt as numbers and as classes: a number alone is one direction of a
    token, from which the language model would have to make digits.
    """

    BINS = 26  # of an end of a box: 0, 40, ... 1000 thousandths

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.width = sum(MAP_CLASSES) + MAP_NUMBERS * (1 + self.BINS)
        self.linear = torch.nn.Linear(hidden, MERGE * MERGE * self.width)

    def forward(self, tokens: torch.Tensor, classes: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, dict]:
        """Loss, and the parts of shapes and of characters that are right. tokens: [n_tokens,
        hidden]."""
        flat = self.linear(tokens).view(-1, self.width)
        *scores, places, bins = flat.split((*MAP_CLASSES, MAP_NUMBERS, MAP_NUMBERS * self.BINS), -1)
        loss = torch.zeros(())
        for i, score in enumerate(scores):  # most patches show nothing, which is soon learnt
            weight = torch.ones(score.shape[-1])
            weight[0] = 0.2
            loss = loss + F.cross_entropy(score, classes[:, i], weight=weight)
        covered = classes[:, 1] > 0
        loss = loss + 4 * F.smooth_l1_loss(places[covered], boxes[covered], beta=0.05)
        wanted = (boxes[covered] * (self.BINS - 1)).round().long().clamp(0, self.BINS - 1)
        loss = loss + 0.5 * F.cross_entropy(bins[covered].view(-1, self.BINS), wanted.view(-1))
        rates = {}
        for name, i in (("map_shape", 0), ("map_character", 3)):
            some = classes[:, i] > 0
            if some.any():
                rates[name] = (scores[i].argmax(-1) == classes[:, i])[some].float().mean().item()
        return loss, rates


def learning_rate(step: int, progress: float, peak: float, warmup: int) -> float:
    """`step` counts from the beginning of the stage: the language model joins late and needs its
    own warm-up."""
    return peak * min(1.0, (step + 1) / warmup) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))


class Optimiser:
    """Muon for the matrices inside the blocks, AdamW for mergers, embeddings, norms, biases and the
    map's head.

    On these small towers Muon needs about half as many steps as AdamW alone. `match_rms_adamw`
    scales its steps like AdamW's; it bears larger ones, and what is small and many-sided here is
    learnt faster with them.
    """

    MUON_FACTOR = 2.0

    def __init__(self, weights: torch.nn.Module, lr: float, decay: float) -> None:
        places = (".layers.", ".blocks.")
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
        for part, factor in zip(self.parts, (self.MUON_FACTOR, 1.0)):
            for group in part.param_groups:
                group["lr"] = factor * lr
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict]) -> None:
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)


def export(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Write config.json and bf16 weights, each by a rename, so that a reader never sees half a
    file."""
    copy = Qwen3VLForConditionalGeneration(model.config)
    copy.load_state_dict(model.state_dict())
    copy = copy.to(torch.bfloat16)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy.save_pretrained(temporary)
        for name in ("config.json", "model.safetensors"):
            (Path(temporary) / name).chmod(0o644)
            os.replace(Path(temporary) / name, folder / name)


ADDING = (".attn.proj.weight", ".mlp.linear_fc2.weight", ".self_attn.o_proj.weight", ".mlp.down_proj.weight")


def load_fitting(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Take over every stored tensor that fits. A block that is not stored starts as one that adds
    nothing."""
    weights = model.state_dict()
    stored = load_file(folder / "model.safetensors")
    fitting = {n: value.float() for n, value in stored.items() if n in weights and weights[n].shape == value.shape}
    for name, value in weights.items():
        if name not in stored and name.endswith(ADDING):
            fitting[name] = torch.zeros_like(value)
    model.load_state_dict(fitting, strict=False)
    model.tie_weights()
    print(f"{len(fitting)} of {len(weights)} tensors from {folder}", flush=True)


def save_checkpoint(path: Path, weights: torch.nn.Module, optimiser: Optimiser, state: dict) -> None:
    temporary = path.with_suffix(".new")
    torch.save({"weights": weights.state_dict(), "optimiser": optimiser.state_dict(), "state": state}, temporary)
    os.replace(temporary, path)


def condense_log(source: Path, target: Path, n_lines: int = 60) -> None:
    """A short copy of the log for the repository: every line is the mean of equally many lines."""
    with source.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, LOG_FIELDS, lineterminator="\n")
        writer.writeheader()
        for some in np.array_split(rows, min(n_lines, len(rows))):
            line = {}
            for name in LOG_FIELDS:
                values = [float(row[name]) for row in some if row[name]]
                line[name] = f"{np.mean(values):.4g}" if values else ""
            line |= {name: some[-1][name] for name in ("step", "seconds", "images")}
            writer.writerow(line)


class Meter:
    """Losses and exact-answer rates per kind of question since the last line of the log (with the
    true answer's earlier tokens given, so this is an upper bound of what greedy decoding
    reaches)."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[float]] = defaultdict(list)

    def add(self, **numbers: float) -> None:
        for name, value in numbers.items():
            self.numbers[name].append(value)

    def add_answers(self, correct: torch.Tensor, batch: Batch) -> None:
        """correct: [n_rows, length], True where a label was predicted."""
        for kind, row, first, end in batch.answers:
            self.numbers[kind].append(float(correct[row, first:end].all()))

    def line(self) -> dict[str, str]:
        return {name: f"{np.mean(values):.4f}" for name, values in self.numbers.items()}


def train(args: argparse.Namespace) -> None:
    args.work.mkdir(parents=True, exist_ok=True)
    checkpoint_path, log_path = args.work / "checkpoint.pt", args.work / "log.csv"
    args.model.mkdir(parents=True, exist_ok=True)
    if args.weights and not (args.model / "tokenizer.json").exists():  # the weights fit no other
        shutil.copy(args.weights / "tokenizer.json", args.model)
    tokenizer = demo_files.write_files(args.model)
    saved = torch.load(checkpoint_path, weights_only=True) if args.resume else None
    state = {"step": 0, "seconds": 0.0, "images": 0, "seeing_only": True, "warm_from": 0}
    if saved:
        state = saved["state"]
    maker = BatchMaker(tokenizer, args.questions, args.patch_budget)
    worker = Worker(maker, args.seed, state["step"])  # forks, so before torch has threads
    worker.start(state["seeing_only"])
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = Qwen3VLForConditionalGeneration(make_config(tokenizer))
    head = MapHead(model.config.text_config.hidden_size)
    both = torch.nn.ModuleDict({"model": model, "head": head})
    optimiser = Optimiser(both, args.lr, args.weight_decay)
    if saved:
        both.load_state_dict(saved["weights"])
        if args.fresh_optimiser:
            state["warm_from"] = state["step"]
        else:
            optimiser.load_state_dict(saved["optimiser"])
    else:
        if args.weights:
            load_fitting(model, args.weights)
        with log_path.open("w", newline="") as file:
            csv.writer(file).writerow(LOG_FIELDS)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, starting at step {state['step']}", flush=True)

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
        part = progress / args.vision_part if seeing_only else (progress - args.vision_part) / (1 - args.vision_part)
        batch = worker.next(seeing_only, part)
        image_tokens.clear()
        loss = torch.zeros(())
        if batch.ids is None:
            with autocast:
                model.model.visual(batch.pixels, grid_thw=batch.grid)
        else:
            with autocast:
                states = hidden_states(model, batch)
            learnt = batch.labels != IGNORE
            logits = model.lm_head(states[learnt].float())
            losses = F.cross_entropy(logits, batch.labels[learnt], reduction="none")
            loss = (losses * batch.weights[learnt]).sum() / batch.weights[learnt].sum()
            correct = torch.zeros_like(learnt)
            correct[learnt] = logits.detach().argmax(-1) == batch.labels[learnt]
            meter.add(loss=loss.item())
            meter.add_answers(correct, batch)
        if batch.grid is not None:
            map_loss, rates = head(image_tokens[0].float(), batch.classes, batch.boxes)
            meter.add(map_loss=map_loss.item(), **rates)
            loss = loss + (1.0 if batch.ids is None else args.map_weight) * map_loss
            state["images"] += len(batch.grid)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(both.parameters(), args.clip)
        optimiser.step(lr)
        state |= {"step": step + 1, "seconds": seconds}

        if (step + 1) % args.log_every == 0:
            line = {"step": step + 1, "seconds": f"{seconds:.0f}", "images": state["images"]}
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
    worker.stop()
    save_checkpoint(checkpoint_path, both, optimiser, state)
    export(model, args.model)
    condense_log(log_path, args.model / "training_log.csv")
    print(f"done: {state['step']} steps, {state['images']} images, {state['seconds'] / 3600:.2f} hours", flush=True)


# --- check
# --------------------------------------------------------------------------------------------------


def check(args: argparse.Namespace) -> None:
    """Compare patches, prompt ids and the answers' logits of branched batches with the official
    classes."""
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
        scene, image = maker.draw(rng, rows, columns, 1.0)
        questions = demo_questions.ask(rng, [scene], 3)
        row, spans = Row(), []
        row.add(maker.encode("<|im_start|>user\n"), 0)
        maker.images(row, 1, rows, columns)
        start = row.counter
        for branch, question in enumerate(questions, start=1):
            row.counter = start
            row.add(maker.encode(question.text), branch)
            maker.answer(row, question, branch, 0, spans)
        drawn = [(scene, image)] * 2
        batch = to_batch(maker.collate([row, row], spans) | maker.seen(drawn, rows, columns))
        with torch.no_grad(), Shortcuts():
            ours = model.lm_head(hidden_states(model, batch)[1])
        for question, (_, _, first, end) in zip(questions, spans):
            content = [{"type": "image"}, {"type": "text", "text": question.text}]
            text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
            inputs = processor(text=text + question.answer + "<|im_end|>", images=image, return_tensors="pt")
            slices = inputs["pixel_values"].view(-1, 3, 2, PATCH * PATCH)
            same = normalised(patches([image])).view(-1, 3, PATCH * PATCH)
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
    add("--weights", type=Path, metavar="DIR", help="start from the tensors that fit in this model directory")
    add("--check", action="store_true", help="only compare the training shortcuts with the official code")
    add("--minutes", type=float, default=60, help="training time in all, earlier runs included (default 60)")
    add("--steps", type=int, default=1_000_000, help="stop after this many steps, earlier runs included")
    add("--vision-part", type=float, default=0.22, help="part of the time that trains the tower alone (default 0.22)")
    add("--map-weight", type=float, default=0.5, help="weight of the map's loss besides answers (default 0.5)")
    add("--seed", type=int, default=1, help="seed of weights and images (default 1)")
    add("--threads", type=int, default=1, help="threads of torch (default 1)")
    add("--float32", action="store_true", help="multiply matrices in float32; default: in bf16, weights in float32")
    add("--lr", type=float, default=1.5e-3, help="peak learning rate (default 1.5e-3)")
    add("--warmup", type=int, default=120, help="steps of warm-up (default 120)")
    add("--weight-decay", type=float, default=0.03, help="decay of matrices (default 0.03)")
    add("--clip", type=float, default=1.0, help="limit of the gradient's norm (default 1)")
    add("--questions", type=int, default=3, help="questions per image (default 3)")
    add("--patch-budget", type=int, default=1200, help="patches per batch, which sets its images (default 1200)")
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
