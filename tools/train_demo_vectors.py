#!/usr/bin/env python3
"""Train the vectors of the demo model: one linear layer over the states of its tokens.

    tools/train_demo_vectors.py --omma build/release/omma        train, write models/demo, measure
    tools/train_demo_vectors.py --omma build/release/omma --measure             only measure

The demo model itself stays as it is. `omma embed` on a copy of it whose layer is the identity gives
the states of drawings and of sentences such as "a red circle and two blue stars". The layer is then
trained on these states to bring a sentence's vectors near those of drawings that show what it says,
by late interaction: the sum over the sentence's vectors of the largest product with one of the
drawing's. It is written into models/demo/model.safetensors, whose other tensors keep their bytes,
and config.json gets its width.

What is measured, on drawings and seeds that training does not see: of 200 drawings, how often the
first hit shows the one thing that a sentence names (of all things that any of the drawings shows),
and how often it is the one drawing that the sentence describes as a whole.
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import demo_data  # noqa: E402

NAME = "custom_text_proj.weight"
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
PLURALS = {"cross": "crosses"}


# --- the checkpoint
# --------------------------------------------------------------------------------------------------


def write_layer(source: Path, target: Path, layer: np.ndarray) -> None:
    """model.safetensors and config.json of `source` with the layer [width, hidden], as bf16."""
    content = (source / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    old = header.pop(NAME, None)
    if old:  # it is the last one
        data = data[: old["data_offsets"][0]]
    bits = np.ascontiguousarray(layer, "<f4").view("<u4")
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    offsets = [len(data), len(data) + len(rounded)]
    header[NAME] = {"dtype": "BF16", "shape": list(layer.shape), "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    config = json.loads((source / "config.json").read_text())
    config["embed_dim"] = len(layer)
    target.mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "chat_template.jinja"):
        if source != target:
            shutil.copy(source / name, target)
    (target / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data + rounded)
    (target / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def embed(omma: Path, model: Path, scratch: Path, images: list[Path], texts: list[str]) -> list[np.ndarray]:
    """float32 [n_tokens, width] of each image, then of each text."""
    lines = [json.dumps({"image": str(image)}) for image in images] + [json.dumps(text) for text in texts]
    (scratch / "inputs.jsonl").write_text("\n".join(lines) + "\n")
    command = [omma, "embed", model, "--input", scratch / "inputs.jsonl", "--output", scratch / "vectors.npy"]
    subprocess.run([str(word) for word in command], check=True)
    vectors, offsets = np.load(scratch / "vectors.npy"), np.load(scratch / "vectors.offsets.npy")
    return [vectors[begin:end] for begin, end in zip(offsets[:-1], offsets[1:])]


# --- scenes and what is said of them
# --------------------------------------------------------------------------------------------------

Kinds = dict[tuple[str, str], int]  # (colour, shape) -> number
Wanted = dict  # {"exactly": kinds}, or kinds that must be there


def draw(seed: int, n: int, folder: Path) -> tuple[list[Path], list[Kinds]]:
    rng = np.random.default_rng(seed)
    folder.mkdir()
    paths, shown = [], []
    for index in range(n):
        width, height = (int(rng.integers(64, 193)) for _ in range(2))
        scene = demo_data.random_scene(rng, width, height, int(rng.integers(1, 5)))
        kinds: Kinds = {}
        for thing in scene.things:
            kinds[thing.colour, thing.shape] = kinds.get((thing.colour, thing.shape), 0) + 1
        demo_data.draw(scene, rng).save(folder / f"{index}.png")
        paths.append(folder / f"{index}.png")
        shown.append(kinds)
    return paths, shown


def noun(kind: tuple[str, str], number: int) -> str:
    colour, shape = kind
    return f"a {colour} {shape}" if number == 1 else f"{NUMBERS[number]} {colour} {PLURALS.get(shape, shape + 's')}"


def describe(kinds: Kinds) -> str:
    """All of a drawing: "a red circle and two blue stars"."""
    parts = [noun(kind, number) for kind, number in sorted(kinds.items())]
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


# --- training
# --------------------------------------------------------------------------------------------------


def train(states: list[np.ndarray], shown: list[Kinds], queries: list[np.ndarray], wanted: list[Wanted], args) -> np.ndarray:
    """The layer [width, hidden]. wanted: what a drawing must show to fit each query."""
    import torch

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(args.seed)
    hidden = states[0].shape[1]
    layer = torch.nn.Parameter(torch.randn(args.width, hidden) * hidden**-0.5)
    scale = torch.nn.Parameter(torch.tensor(2.0))
    optimiser = torch.optim.Adam([layer, scale], lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, args.steps)

    def padded(rows: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        length = max(len(row) for row in rows)
        out, mask = np.zeros((len(rows), length, hidden), np.float32), np.zeros((len(rows), length), bool)
        for i, row in enumerate(rows):
            out[i, : len(row)], mask[i, : len(row)] = row, True
        return torch.from_numpy(out), torch.from_numpy(mask)

    for step in range(args.steps):
        some, those = rng.choice(len(states), args.drawings, replace=False), rng.choice(len(queries), args.queries, replace=False)
        fits = np.array([[matches(wanted[q], shown[d]) for d in some] for q in those])
        those, fits = those[fits.any(axis=1)], fits[fits.any(axis=1)]
        (pages, page_mask), (texts, text_mask) = padded([states[d] for d in some]), padded([queries[q] for q in those])
        pages = torch.nn.functional.normalize(pages @ layer.T, dim=-1)
        texts = torch.nn.functional.normalize(texts @ layer.T, dim=-1)
        products = torch.einsum("qtw,dsw->qdts", texts, pages).masked_fill(~page_mask[None, :, None], -2)
        scores = (products.max(dim=3).values * text_mask[:, None]).sum(dim=2) * scale.exp() / 4
        right = torch.from_numpy(fits)
        loss = (scores.logsumexp(dim=1) - scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == args.steps - 1:
            best = scores.argmax(dim=1).numpy()
            print(f"step {step}: loss {loss.item():.3f}, first hit right {fits[np.arange(len(fits)), best].mean():.2f}", flush=True)
    return layer.detach().numpy()


def matches(wanted: Wanted, shown: Kinds) -> bool:
    if "exactly" in wanted:
        return wanted["exactly"] == shown
    return all(kind in shown for kind in wanted)


def make_queries(shown: list[Kinds], seed: int) -> tuple[list[str], list[Wanted]]:
    """Sentences about what the drawings show: one thing, two things, all of it."""
    rng = np.random.default_rng(seed)
    texts, wanted = [], []
    for kinds in shown:
        listed = sorted(kinds)
        chance = rng.random()
        if chance < 0.4:
            kind = listed[int(rng.integers(len(listed)))]
            form = ("a {}", "the {}", "{}", "an image with a {}", "a picture of a {}")[int(rng.integers(5))]
            texts.append(form.format(" ".join(kind)))
            wanted.append({kind: 1})
        elif chance < 0.6 and len(listed) > 1:
            pair = [listed[i] for i in rng.choice(len(listed), 2, replace=False)]
            texts.append(" and ".join(noun(kind, 1) for kind in pair))
            wanted.append({kind: 1 for kind in pair})
        else:
            texts.append(describe(kinds))
            wanted.append({"exactly": kinds})
    return texts, wanted


# --- measuring
# --------------------------------------------------------------------------------------------------


def max_sim(query: np.ndarray, page: np.ndarray) -> float:
    return float((query @ page.T).max(axis=1).sum())


def measure(omma: Path, model: Path, scratch: Path, seed: int, n: int) -> dict[str, float]:
    paths, shown = draw(seed, n, scratch / "held_out")
    singles = sorted({kind for kinds in shown for kind in kinds})
    whole = [i for i, kinds in enumerate(shown) if shown.count(kinds) == 1]
    texts = [noun(kind, 1) for kind in singles] + [describe(shown[i]) for i in whole]
    vectors = embed(omma, model, scratch, paths, texts)
    pages, queries = vectors[:n], vectors[n:]
    first = [int(np.argmax([max_sim(query, page) for page in pages])) for query in queries]
    rows = [kind in shown[first[i]] for i, kind in enumerate(singles)]
    exact = [first[len(singles) + i] == index for i, index in enumerate(whole)]
    chance = np.mean([np.mean([kind in kinds for kinds in shown]) for kind in singles])
    return {"things": len(singles), "thing": float(np.mean(rows)), "thing_by_chance": float(chance),
            "described": len(whole), "drawing": float(np.mean(exact)), "drawing_by_chance": 1 / n}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--omma", type=Path, required=True, help="the program")
    add("--model", type=Path, default=ROOT / "models/demo", metavar="DIR", help="the model (models/demo)")
    add("--measure", action="store_true", help="train nothing")
    add("--scenes", type=int, default=1500, help="drawings to train on (1500)")
    add("--width", type=int, default=128, help="of a vector (128)")
    add("--steps", type=int, default=500, help="(500)")
    add("--drawings", type=int, default=96, help="of a batch (96)")
    add("--queries", type=int, default=48, help="of a batch (48)")
    add("--lr", type=float, default=3e-3, help="(3e-3)")
    add("--seed", type=int, default=1, help="(1)")
    add("--threads", type=int, default=2, help="of torch (2)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if not args.measure:
            hidden = json.loads((args.model / "config.json").read_text())["text_config"]["hidden_size"]
            write_layer(args.model, scratch / "identity", np.eye(hidden, dtype=np.float32))
            paths, shown = draw(args.seed, args.scenes, scratch / "seen")
            texts, wanted = make_queries(shown, args.seed)
            vectors = embed(args.omma, scratch / "identity", scratch, paths, texts)
            layer = train(vectors[: len(paths)], shown, vectors[len(paths) :], wanted, args)
            write_layer(args.model, args.model, layer)
        found = measure(args.omma, args.model, scratch, 20_000 + args.seed, 200)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
