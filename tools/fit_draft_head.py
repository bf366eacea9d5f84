#!/usr/bin/env python3
"""Draws a text model with gated delta nets and fits a draft head (MTP) to it, for measuring what
drafts gain where a known share of them is right.

    tools/fit_draft_head.py OUT            writes a checkpoint directory; minutes on two cores

The model is drawn, not trained: its next token follows from the last one and, by the strength of
the layers (--branches), from all before. Its own answers are the data: the head learns to say, from
a row's state and the next token, the one after that. Prints the share of right draft tokens over
answers that it has not seen, for each place in a chain. Tower, tokenizer and template are those of
tests/golden/qwen3_5_untied. Needs torch, transformers and safetensors."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForConditionalGeneration

from fixture_draft import DraftHead

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "qwen3_5_untied"
KEPT = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "preprocessor_config.json",
        "video_preprocessor_config.json", "generation_config.json")
TEXT_TOKENS = 500  # of the tokenizer's ids, those that a drawn answer has
CHAIN = 3


class Spec:
    """What fixture_draft.DraftHead asks about a model."""

    family = "qwen3_5"


def write_config(out: Path, arguments: argparse.Namespace) -> None:
    config = json.loads((GOLDEN / "config.json").read_text())
    config["text_config"] |= {
        "hidden_size": arguments.hidden, "intermediate_size": arguments.hidden * 7 // 2, "num_hidden_layers": arguments.layers,
        "full_attention_interval": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
        "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "vocab_size": arguments.vocabulary}
    config["text_config"]["rope_parameters"] |= {"mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25}
    config["vision_config"]["out_hidden_size"] = arguments.hidden
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name in KEPT:
        shutil.copy(GOLDEN / name, out / name)


def draw_model(out: Path, branches: float) -> torch.nn.Module:
    """Rows of the output layer that stand for no text are zero, so that none of them is chosen."""
    config = AutoConfig.from_pretrained(out)
    config._attn_implementation = "eager"
    model = Qwen3_5ForConditionalGeneration(config).float().eval()
    generator = torch.Generator().manual_seed(1)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            value = noise * 0.05 + (1.0 if "linear_attn" in name or "visual" in name else 0.0)
        elif name.endswith("A_log"):
            value = noise - 2
        elif name.endswith(("embed_tokens.weight", "bias")):
            value = noise
        elif name.endswith("lm_head.weight"):
            value = noise * 4 / parameter.shape[1] ** 0.5
            value[TEXT_TOKENS:] = 0
        else:
            value = noise / parameter[0].numel() ** 0.5
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                value = value * branches
        parameter.data.copy_(value)
    return model


@torch.no_grad()
def write_answers(model: torch.nn.Module, n: int, length: int, temperature: float) -> torch.Tensor:
    """Answers [n, length] to drawn beginnings; every second one is greedy."""
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(TEXT_TOKENS, (n, 16), generator=generator)
    cache = None
    while tokens.shape[1] < length:
        output = model(input_ids=tokens if cache is None else tokens[:, -1:], past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        logits = output.logits[:, -1, :TEXT_TOKENS]
        drawn = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
        chosen = torch.where(torch.arange(n) % 2 == 0, logits.argmax(-1), drawn)
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
    return tokens


class Rows:
    """States and best next tokens of answers under the model."""

    @torch.no_grad()
    def __init__(self, model: torch.nn.Module, tokens: torch.Tensor) -> None:
        language = model.model.language_model
        parts = [language(input_ids=part).last_hidden_state for part in tokens.split(4)]
        self.states = torch.cat(parts)
        self.best = (self.states @ model.lm_head.weight[:TEXT_TOKENS].T).argmax(-1)
        self.embeddings = language.embed_tokens(tokens)
        places = torch.arange(tokens.shape[1])[None, None].expand(3, 1, -1)
        self.rotary = language.rotary_emb(self.states[:1], places)


def begin_head(head: DraftHead) -> None:
    """It begins as what the last token alone tells."""
    hidden = head.fc.out_features
    for name, parameter in head.named_parameters():
        if "norm" in name:
            parameter.data.zero_()
        else:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.data.mul_(0.1)
    head.fc.weight.data.mul_(0.1)
    head.fc.weight.data[:, :hidden] += torch.eye(hidden)


def fit(head: DraftHead, rows: Rows, lm_head: torch.Tensor, epochs: int) -> None:
    optimizer = torch.optim.AdamW(head.parameters(), lr=4e-4, weight_decay=0.01)
    total, step = epochs * len(rows.states), 0
    for epoch in range(epochs):
        loss_sum, right, seen, start = 0.0, 0, 0, time.time()
        for i in torch.randperm(len(rows.states), generator=torch.Generator().manual_seed(epoch)).tolist():
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = 4e-4 * min(1, step / 50) * (1 - step / (total + 1))
            out = head(rows.embeddings[i, 1:], rows.states[i, :-1], tuple(part[:, :-1] for part in rows.rotary))
            logits = out @ lm_head.T
            loss = torch.nn.functional.cross_entropy(logits, rows.best[i, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(logits)
            right += (logits.argmax(-1) == rows.best[i, 1:]).sum().item()
            seen += len(logits)
        print(f"epoch {epoch}: loss {loss_sum / seen:.3f}, {right / seen:.3f} right, {time.time() - start:.0f} s", flush=True)


@torch.no_grad()
def share_right(head: DraftHead, rows: Rows, tokens: torch.Tensor, lm_head: torch.Tensor) -> float:
    right, seen = 0, 0
    for i in range(0, len(tokens), 2):  # the greedy ones
        out = head(rows.embeddings[i, 1:], rows.states[i, :-1], tuple(part[:, :-1] for part in rows.rotary))
        right += ((out @ lm_head.T).argmax(-1) == rows.best[i, 1:])[16:].sum().item()
        seen += len(out) - 16
    return right / seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=8192, help="rows of the output layer (default: %(default)s)")
    parser.add_argument("--branches", type=float, default=0.12, help="strength of the layers (default: %(default)s)")
    parser.add_argument("--answers", type=int, default=24, help="to learn from (default: %(default)s)")
    parser.add_argument("--length", type=int, default=112, help="of an answer in tokens (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=1.0)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    write_config(arguments.out, arguments)
    model = draw_model(arguments.out, arguments.branches)
    tokens = write_answers(model, arguments.answers + 8, arguments.length, arguments.temperature)
    distinct = [len(set(row[16:].tolist())) for row in tokens[::2]]
    print(f"{tokens.numel()} tokens; greedy answers have {min(distinct)} to {max(distinct)} different ones", flush=True)
    held, known = Rows(model, tokens[:8]), Rows(model, tokens[8:])
    lm_head = model.lm_head.weight[:TEXT_TOKENS].detach().clone()
    head = DraftHead(Spec(), model.config.text_config)
    begin_head(head)
    print(f"before fitting {share_right(head, held, tokens[:8], lm_head):.3f} right", flush=True)
    fit(head, known, lm_head, arguments.epochs)
    print(f"{share_right(head, held, tokens[:8], lm_head):.3f} right of answers that were held back")
    model.to(torch.bfloat16).save_pretrained(arguments.out)
    path = arguments.out / "model.safetensors"
    weights = load_file(path) | {f"mtp.{name}": value.to(torch.bfloat16) for name, value in head.state_dict().items()}
    save_file(weights, path, metadata={"format": "pt"})
    write_config(arguments.out, arguments)


if __name__ == "__main__":
    main()
