"""Qwen3.5 with random sizes and weights against transformers, in f32: every stage of an image's
question; 64 greedy tokens and their log probabilities after questions with images, a video and
several turns, and after prompts of 1 to 9,000 tokens on both sides of every border within a prompt
(blocks of 16 rows, pages of 64, chunks of 512 and more).

    make test-verify

The 12 checkpoints have 1, 2 or 4 value heads to a key head, layers by their names and by interval,
embeddings tied and not, with experts and without."""

import base64
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import verify_release  # noqa: E402
from fixture_golden import Case, assistant, image, text, user, video  # noqa: E402
from fixture_models import ModelSpec, write_checkpoint  # noqa: E402
from fixture_qwen import QwenOfficial  # noqa: E402
from official_model import load_official  # noqa: E402

IMAGES = ROOT / "tests" / "golden" / "images"
BUILD = pathlib.Path(os.environ.get("OMMA_BUILD", ROOT / "build" / "release"))
N_MODELS, TOKENS = 12, 64
# Lengths that each model gets: some of its own, and together all of them.
LENGTHS = (1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 511, 512, 513, 575, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097, 9000)
CLOSE = 2e-3  # between the two best: closer ones may change places
ALLOWED = 2e-3  # of a log probability
CASES = (
    Case("images", [user(text("First: "), image("tower_33x200.png"), image("banner_150x40.png"), text("Which is larger?"))]),
    Case("turns", [{"role": "system", "content": "You answer in one short sentence."},
                   user(image("banner_150x40.png"), text("Describe the image.")), assistant("A wide banner with 3 shapes."),
                   user(text("And this one?\n\n"), image("tile_64x64.png"))]),
    Case("video", [user(text("First "), video(6, 1.0), text("then "), image("stamp_20x10.png"), text("What moves here?"))]),
)


def random_spec(index):
    """The index decides what must be among the 12; all else is drawn."""
    draw = random.Random(1000 + index)
    routed, by_name, tied = index % 3 == 2, index % 2 == 0, index % 4 < 2
    n_keys, ratio = draw.choice((1, 2, 3)), (1, 2, 4)[index // 2 % 3]
    kv_heads, head_dim, part = draw.choice((1, 2)), draw.choice((16, 24, 32)), draw.choice((0.25, 0.5))
    n_layers = draw.randint(3, 6)
    pairs = int(head_dim * part) // 2
    height = width = pairs // 3
    text_config = dict(
        hidden_size=draw.choice((40, 48, 72)), num_hidden_layers=n_layers, num_attention_heads=kv_heads * draw.choice((1, 2)),
        num_key_value_heads=kv_heads, head_dim=head_dim, linear_num_key_heads=n_keys, linear_num_value_heads=n_keys * ratio,
        linear_key_head_dim=draw.choice((8, 16, 33, 64)), linear_value_head_dim=draw.choice((7, 16, 40, 64)),
        linear_conv_kernel_dim=draw.choice((2, 3, 4)),
    )
    if by_name:
        kinds = ["linear_attention", "full_attention"] + draw.choices(["linear_attention", "full_attention"], [2, 1], k=n_layers - 2)
        draw.shuffle(kinds)
        text_config |= dict(layer_types=kinds)
    else:
        text_config |= dict(full_attention_interval=draw.choice((2, 3)))
    if routed:
        text_config |= dict(moe_intermediate_size=20, shared_expert_intermediate_size=28, num_experts=draw.choice((4, 8)), num_experts_per_tok=2)
    else:
        text_config |= dict(intermediate_size=draw.choice((56, 81)))
    heads = draw.choice((1, 2))
    return ModelSpec(
        name=f"hybrid_{index}", seed=500 + index, dtype=draw.choice((torch.bfloat16, torch.float32)),
        vision=dict(depth=2, hidden_size=heads * draw.choice((16, 24)), num_heads=heads, intermediate_size=45), text=text_config,
        partial_rotary=part, mrope_section=(pairs - height - width, height, width), tied=tied,
        family="qwen3_5_moe" if routed else "qwen3_5", released=not by_name and not routed, video=True,
    )


def lengths_of(index):
    """A quarter of them, so that three models have each."""
    return [length for i, length in enumerate(LENGTHS) if (i + index) % 4 == 0]


def data_url(name):
    kind = "jpeg" if name.endswith("jpg") else "png"
    return f"data:image/{kind};base64," + base64.b64encode((IMAGES / name).read_bytes()).decode()


def served_part(part):
    if part["type"] == "image":
        return {"type": "image_url", "image_url": {"url": data_url(part["image"])}}
    if part["type"] == "video":
        frames = ",".join(base64.b64encode((IMAGES / name).read_bytes()).decode() for name in part["video"])
        return {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{frames}"}}
    return part


def served(case):
    messages = [{**message, "content": message["content"] if isinstance(message["content"], str) else
                 [served_part(part) for part in message["content"]]} for message in case.messages]
    extra = {"media_io_kwargs": {"video": {"fps": case.videos[0]["fps"]}}} if case.videos else {}
    return "/v1/chat/completions", {"messages": messages, "logprobs": True, **extra}


def completion(ids):
    return "/v1/completions", {"prompt": ids, "logprobs": 0}


def ask(model, folder, requests):
    """Of each request: the number of its prompt's tokens, its answer's tokens and their log
    probabilities."""
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    shared = {"model": "m", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    lines = [{"custom_id": name, "method": "POST", "url": url, "body": shared | body} for name, (url, body) in requests.items()]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([BUILD / "omma", "batch", "--model", model, "--dtype", "f32", "-i", source, "-o", out, "--served-model-name", "m"],
                          capture_output=True, text=True)
    assert done.returncode == 0, out.read_text()[:1000] + done.stderr
    return {row["custom_id"]: answer_of(row["response"]["body"]) for row in map(json.loads, out.read_text().splitlines())}


def answer_of(body):
    (choice,) = body["choices"]
    given = choice["logprobs"]
    logprobs = [step["logprob"] for step in given["content"]] if "content" in given else given["token_logprobs"]
    return body["usage"]["prompt_tokens"], choice["token_ids"], logprobs


@torch.no_grad()
def compare(name, official, inputs, answer):
    """How many tokens are the same before a close call, and how far a log probability of theirs is
    off."""
    n_prompt, tokens, logprobs = answer
    assert n_prompt == inputs["input_ids"].shape[1], name
    made = official.model.generate(**inputs, do_sample=False, max_new_tokens=TOKENS, output_logits=True, return_dict_in_generate=True)
    expected, worst = made.sequences[0, n_prompt:].tolist(), 0.0
    for step, (logits, token, logprob) in enumerate(zip(made.logits, tokens, logprobs, strict=True)):
        best = logits[0].topk(2).values
        assert token == expected[step] or best[0] - best[1] < CLOSE, f"{name}: token {step} is {token}, expected {expected[step]}"
        worst = max(worst, abs(logits[0].log_softmax(-1)[token].item() - logprob))
        assert worst <= ALLOWED, f"{name}: the log probability of token {step} is off by {worst:.2g}"
        if token != expected[step]:
            return step, worst
    return TOKENS, worst


def compare_stages(model, family):
    """Of a question with an image, by tools/verify_release.py."""
    file = IMAGES / "meadow_163x97.jpg"
    stages = verify_release.read_stages(verify_release.run(BUILD / "tests" / "omma_stages", model, file, "What is it?", "f32", 999))
    theirs, _, _ = load_official(family, model, "f32").run(file, "What is it?", 1)
    rows = [verify_release.compare_stage(file.name, name, stage, theirs.get(name), "f32") for name, stage in stages.items()]
    assert {"vision.merged", "language.layer.0", "language.logits"} <= {row.stage for row in rows}
    assert verify_release.first_difference(rows) is None, verify_release.print_table(rows)
    return max(row.worst_row or 0 for row in rows if row.stage.startswith("language."))


@pytest.mark.parametrize("index", range(N_MODELS))
def test_random_hybrids(index, tmp_path):
    spec = random_spec(index)
    model = tmp_path / spec.name
    write_checkpoint(spec, model)
    off = compare_stages(model, spec.family)
    official = QwenOfficial(spec, model, IMAGES)
    official.model.generation_config.eos_token_id = None
    draw = torch.Generator().manual_seed(index)
    prompts = {n: torch.randint(0, 500, (n,), generator=draw).tolist() for n in lengths_of(index)}
    requests = {case.name: served(case) for case in CASES} | {str(n): completion(ids) for n, ids in prompts.items()}
    answers = ask(model, tmp_path, requests)
    inputs = {case.name: official.inputs(case) for case in CASES} | {str(n): {"input_ids": torch.tensor([ids])} for n, ids in prompts.items()}
    results = {name: compare(f"{spec.name}, {name}", official, inputs[name], answers[name]) for name in requests}
    same = sum(tokens for tokens, _ in results.values())
    shown = {key: value for key, value in dataclasses.asdict(spec)["text"].items() if key.startswith(("linear_num", "layer", "full"))}
    print(f"\n{spec.name}: {spec.family}, {shown}: stages off by at most {off:.1e}, {same} of {TOKENS * len(results)} tokens the same, "
          f"log probabilities off by at most {max(worst for _, worst in results.values()):.1e}; prompts {sorted(prompts)}")
