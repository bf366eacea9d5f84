#!/usr/bin/env python3
"""What a smaller state of gated delta nets would cost in error: transformers' f32 recurrence of a
Qwen3.5 with random weights, with the state rounded after every token as if it were kept in bf16 or
in 8 bits with a scale for each row of a head's matrix (128 values), compared with the official
chunked form over the logits of a text.

    environment/bin/python bench/delta_state_accuracy.py [--tokens 2048]

Needs torch and transformers (tests/verify/requirements.txt)."""

import argparse

import torch
import torch.nn.functional as F
from transformers import Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5 import modeling_qwen3_5 as official
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5Config

HEAD, LAYERS = 128, 4


def to_bf16(state):
    return state.bfloat16().float()


def to_int8(state):
    scale = state.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127
    return (state / scale).round() * scale


STATES = {"f32": lambda state: state, "bf16": to_bf16, "int8": to_int8}


def make_model(decay):
    """Four layers of which three are gated delta nets, heads as released; `decay`: the mean of
    A_log. Larger values forget sooner."""
    rope = dict(rope_type="default", rope_theta=1e7, mrope_section=[11, 11, 10], mrope_interleaved=True, partial_rotary_factor=0.25)
    text = dict(hidden_size=256, num_hidden_layers=LAYERS, intermediate_size=512, num_attention_heads=2, num_key_value_heads=1, head_dim=256,
                linear_num_key_heads=4, linear_num_value_heads=4, vocab_size=1000, rope_parameters=rope, tie_word_embeddings=True)
    vision = dict(depth=1, hidden_size=32, num_heads=2, intermediate_size=32, out_hidden_size=256)
    model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision, tie_word_embeddings=True)).eval()
    generator = torch.Generator().manual_seed(3)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):
            value = 0.7 * noise + decay
        elif "norm" in name:
            value = 0.1 * noise + ("linear_attn" in name)
        elif name.endswith(("dt_bias", "bias")):
            value = 0.1 * noise
        else:
            value = noise / (parameter[0].numel() ** 0.5)
        parameter.data.copy_(value)
    return model


def recurrence(round_state):
    """The official recurrence, token by token, with what is kept rounded. Tensors [batch, tokens,
    heads, ...]."""

    def run(query, key, value, g, beta, **_):
        query, key = F.normalize(query.float(), dim=-1, eps=1e-6) * HEAD**-0.5, F.normalize(key.float(), dim=-1, eps=1e-6)
        state, rows = torch.zeros(*query.shape[:1], query.shape[2], HEAD, HEAD), []
        for t in range(query.shape[1]):
            state = state * g[:, t].exp()[..., None, None]
            change = (value[:, t] - torch.einsum("bhkv,bhk->bhv", state, key[:, t])) * beta[:, t, :, None]
            state = state + key[:, t, :, :, None] * change[:, :, None]
            rows.append(torch.einsum("bhkv,bhk->bhv", state, query[:, t]))
            state = round_state(state)
        return torch.stack(rows, 1), None

    return run


@torch.no_grad()
def logits(model, ids, run):
    """With `run` in the place of the official function of that signature."""
    kept, official.torch_chunk_gated_delta_rule = official.torch_chunk_gated_delta_rule, run
    try:
        return model(input_ids=ids, use_cache=False).logits[0].double()
    finally:
        official.torch_chunk_gated_delta_rule = kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tokens", type=int, default=2048)
    n = parser.parse_args().tokens
    ids = torch.randint(0, 1000, (1, n), generator=torch.Generator().manual_seed(1))
    for decay in (-1, -4):
        model = make_model(decay)
        exact = logits(model, ids, official.torch_chunk_gated_delta_rule)
        for name, round_state in STATES.items():
            rows = (logits(model, ids, recurrence(round_state)) - exact).norm(dim=1) / exact.norm(dim=1)
            print(f"A_log around {decay}, {n} tokens, {name}: off by {rows.square().mean().sqrt():.1e} in the mean, {rows.max():.1e} at the worst "
                  f"token; the last {n // 8} {rows[-n // 8:].square().mean().sqrt():.1e}")


if __name__ == "__main__":
    main()
