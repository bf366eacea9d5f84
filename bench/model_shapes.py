"""Sizes of the released checkpoints, and the tensors and config.json that follow from them, in the
released form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Shapes = Iterator[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Tower:
    depth: int
    hidden: int
    intermediate: int
    heads: int
    # Qwen3-VL: blocks followed by deepstack; Qwen2.5-VL: blocks that attend to everything
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Text:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    tied: bool
    experts: int = 0
    value_heads: int = 0  # of gated delta nets, next to 16 key heads


@dataclass(frozen=True)
class Model:
    family: str
    tower: Tower
    text: Text


QWEN3_SMALL = Tower(24, 1024, 4096, 16, (5, 11, 17))
QWEN3_LARGE = Tower(27, 1152, 4304, 16, (8, 16, 24))
QWEN2 = Tower(32, 1280, 5120, 16)
QWEN2_5 = Tower(32, 1280, 3420, 16, (7, 15, 23, 31))
MOONVIT = Tower(27, 1152, 4304, 16)
SIGLIP = Tower(27, 1152, 4304, 16)
MODELS = {
    "qwen3-vl-2b": Model("qwen3_vl", QWEN3_SMALL, Text(28, 2048, 16, 8, 6144, 151936, True)),
    "qwen3-vl-4b": Model("qwen3_vl", QWEN3_SMALL, Text(36, 2560, 32, 8, 9728, 151936, True)),
    "qwen3-vl-8b": Model("qwen3_vl", QWEN3_LARGE, Text(36, 4096, 32, 8, 12288, 151936, False)),
    "qwen3.5-0.8b": Model("qwen3_5", Tower(12, 768, 3072, 12), Text(24, 1024, 8, 2, 3584, 248320, True, value_heads=16)),
    "qwen3.5-2b": Model("qwen3_5", replace(QWEN3_SMALL, marked=()), Text(24, 2048, 8, 2, 6144, 248320, True, value_heads=16)),
    "qwen3.5-4b": Model("qwen3_5", replace(QWEN3_SMALL, marked=()), Text(32, 2560, 16, 4, 9216, 248320, True, value_heads=32)),
    "qwen3.5-9b": Model("qwen3_5", replace(QWEN3_LARGE, marked=()), Text(32, 4096, 16, 4, 12288, 248320, False, value_heads=32)),
    "qwen3.5-35b-a3b": Model("qwen3_5_moe", replace(QWEN3_LARGE, marked=()),
                             Text(40, 2048, 16, 2, 512, 248320, False, experts=256, value_heads=32)),
    "qwen2-vl-2b": Model("qwen2_vl", QWEN2, Text(28, 1536, 12, 2, 8960, 151936, True)),
    "mineru2.5-1.2b": Model("qwen2_vl", QWEN2, Text(24, 896, 14, 2, 4864, 151936, True)),
    "qwen2-vl-7b": Model("qwen2_vl", QWEN2, Text(28, 3584, 28, 4, 18944, 152064, False)),
    "qwen2.5-vl-3b": Model("qwen2_5_vl", QWEN2_5, Text(36, 2048, 16, 2, 11008, 151936, True)),
    "qwen2.5-vl-7b": Model("qwen2_5_vl", QWEN2_5, Text(28, 3584, 28, 4, 18944, 152064, False)),
    "kimi-vl-a3b": Model("kimi_vl", MOONVIT, Text(27, 2048, 16, 16, 11264, 163840, False, experts=64)),
    "paddleocr-vl": Model("paddleocr_vl", SIGLIP, Text(18, 1024, 16, 2, 3072, 103424, False)),
}
TINY_VOCAB = 1024  # of a model of which only the tower is wanted


def with_depth(model: Model, depth: int) -> Model:
    """The same tower with fewer blocks; its last block is a marked one, as in the whole."""
    marked = tuple(block for block in model.tower.marked if block < depth)
    if model.tower.marked and not marked:
        marked = (depth - 1,)
    return replace(model, tower=replace(model.tower, depth=depth, marked=marked))


def with_layers(model: Model, layers: int) -> Model:
    """The first layers of the language model, and as small a part of its vocabulary."""
    vocab = model.text.vocab * layers // model.text.layers
    return replace(model, text=replace(model.text, layers=layers, vocab=max(vocab // 64 * 64, TINY_VOCAB)))


def tower_only(model: Model) -> Model:
    """One layer of the language model and few tokens: what has to be there next to the tower."""
    return replace(model, text=replace(model.text, layers=1, intermediate=256, vocab=TINY_VOCAB, experts=min(model.text.experts, 8)))


def _linear(name: str, n_out: int, n_in: int, bias: bool = True) -> Shapes:
    yield f"{name}.weight", (n_out, n_in)
    if bias:
        yield f"{name}.bias", (n_out,)


def _norm(name: str, size: int, bias: bool = True) -> Shapes:
    yield f"{name}.weight", (size,)
    if bias:
        yield f"{name}.bias", (size,)


def _gated(name: str, hidden: int, inner: int, bias: bool = False) -> Shapes:
    yield from _linear(f"{name}.gate_proj", inner, hidden, bias)
    yield from _linear(f"{name}.up_proj", inner, hidden, bias)
    yield from _linear(f"{name}.down_proj", hidden, inner, bias)


# ---- Qwen3-VL


def _qwen3_merger(name: str, hidden: int, out: int, norm: int) -> Shapes:
    yield from _norm(f"{name}.norm", norm)
    yield from _linear(f"{name}.linear_fc1", 4 * hidden, 4 * hidden)
    yield from _linear(f"{name}.linear_fc2", out, 4 * hidden)


def _qwen3_shapes(model: Model) -> Shapes:
    tower, text = model.tower, model.text
    hidden = tower.hidden
    yield "model.visual.patch_embed.proj.weight", (hidden, 3, 2, 16, 16)
    yield "model.visual.patch_embed.proj.bias", (hidden,)
    yield "model.visual.pos_embed.weight", (2304, hidden)
    for index in range(tower.depth):
        block = f"model.visual.blocks.{index}"
        yield from _norm(f"{block}.norm1", hidden)
        yield from _norm(f"{block}.norm2", hidden)
        yield from _linear(f"{block}.attn.qkv", 3 * hidden, hidden)
        yield from _linear(f"{block}.attn.proj", hidden, hidden)
        yield from _linear(f"{block}.mlp.linear_fc1", tower.intermediate, hidden)
        yield from _linear(f"{block}.mlp.linear_fc2", hidden, tower.intermediate)
    yield from _qwen3_merger("model.visual.merger", hidden, text.hidden, hidden)
    for index in range(len(tower.marked)):
        yield from _qwen3_merger(f"model.visual.deepstack_merger_list.{index}", hidden, text.hidden, 4 * hidden)
    if text.value_heads:
        yield from _hybrid_text("model.language_model", text)
    else:
        yield from _qwen_text("model.language_model", text, norms=True)


def _delta_net(name: str, text: Text) -> Shapes:
    values = text.value_heads * 128
    channels = 2 * 16 * 128 + values
    yield f"{name}.in_proj_qkv.weight", (channels, text.hidden)
    yield f"{name}.in_proj_z.weight", (values, text.hidden)
    yield f"{name}.in_proj_b.weight", (text.value_heads, text.hidden)
    yield f"{name}.in_proj_a.weight", (text.value_heads, text.hidden)
    yield f"{name}.conv1d.weight", (channels, 1, 4)
    yield f"{name}.A_log", (text.value_heads,)
    yield f"{name}.dt_bias", (text.value_heads,)
    yield f"{name}.norm.weight", (128,)
    yield f"{name}.out_proj.weight", (text.hidden, values)


def _hybrid_text(prefix: str, text: Text) -> Shapes:
    """Qwen3.5: every fourth layer is attention, with gates next to the queries."""
    head = 256
    yield f"{prefix}.embed_tokens.weight", (text.vocab, text.hidden)
    for index in range(text.layers):
        layer = f"{prefix}.layers.{index}"
        yield from _norm(f"{layer}.input_layernorm", text.hidden, bias=False)
        yield from _norm(f"{layer}.post_attention_layernorm", text.hidden, bias=False)
        if (index + 1) % 4:
            yield from _delta_net(f"{layer}.linear_attn", text)
        else:
            yield f"{layer}.self_attn.q_proj.weight", (2 * text.heads * head, text.hidden)
            yield f"{layer}.self_attn.k_proj.weight", (text.kv_heads * head, text.hidden)
            yield f"{layer}.self_attn.v_proj.weight", (text.kv_heads * head, text.hidden)
            yield f"{layer}.self_attn.o_proj.weight", (text.hidden, text.heads * head)
            yield from _norm(f"{layer}.self_attn.q_norm", head, bias=False)
            yield from _norm(f"{layer}.self_attn.k_norm", head, bias=False)
        if text.experts:
            yield from _routed(f"{layer}.mlp", text)
        else:
            yield from _gated(f"{layer}.mlp", text.hidden, text.intermediate)
    yield from _norm(f"{prefix}.norm", text.hidden, bias=False)
    if not text.tied:
        yield "lm_head.weight", (text.vocab, text.hidden)


def _routed(name: str, text: Text) -> Shapes:
    """Qwen3.5's experts in two tensors, and the shared one, which is as large as each of them."""
    yield from _linear(f"{name}.gate", text.experts, text.hidden, bias=False)
    yield f"{name}.experts.gate_up_proj", (text.experts, 2 * text.intermediate, text.hidden)
    yield f"{name}.experts.down_proj", (text.experts, text.hidden, text.intermediate)
    yield from _gated(f"{name}.shared_expert", text.hidden, text.intermediate)
    yield from _linear(f"{name}.shared_expert_gate", 1, text.hidden, bias=False)


def _qwen_text(prefix: str, text: Text, head: int = 128, bias: bool = False, norms: bool = False) -> Shapes:
    yield f"{prefix}.embed_tokens.weight", (text.vocab, text.hidden)
    for index in range(text.layers):
        layer = f"{prefix}.layers.{index}"
        yield from _norm(f"{layer}.input_layernorm", text.hidden, bias=False)
        yield from _norm(f"{layer}.post_attention_layernorm", text.hidden, bias=False)
        yield from _linear(f"{layer}.self_attn.q_proj", text.heads * head, text.hidden, bias)
        yield from _linear(f"{layer}.self_attn.k_proj", text.kv_heads * head, text.hidden, bias)
        yield from _linear(f"{layer}.self_attn.v_proj", text.kv_heads * head, text.hidden, bias)
        yield from _linear(f"{layer}.self_attn.o_proj", text.hidden, text.heads * head, bias=False)
        if norms:
            yield from _norm(f"{layer}.self_attn.q_norm", head, bias=False)
            yield from _norm(f"{layer}.self_attn.k_norm", head, bias=False)
        yield from _gated(f"{layer}.mlp", text.hidden, text.intermediate)
    yield from _norm(f"{prefix}.norm", text.hidden, bias=False)
    if not text.tied:
        yield "lm_head.weight", (text.vocab, text.hidden)


def _qwen3_config(model: Model, ids: dict[str, int]) -> dict[str, Any]:
    tower, text = model.tower, model.text
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "tie_word_embeddings": text.tied,
        "torch_dtype": "bfloat16",
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "text_config": {
            "model_type": "qwen3_vl_text",
            "attention_bias": False,
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": text.hidden,
            "intermediate_size": text.intermediate,
            "max_position_embeddings": 262144,
            "num_attention_heads": text.heads,
            "num_hidden_layers": text.layers,
            "num_key_value_heads": text.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"},
            "rope_theta": 5000000,
            "vocab_size": text.vocab,
        },
        "vision_config": {
            "model_type": "qwen3_vl",
            "deepstack_visual_indexes": list(tower.marked),
            "depth": tower.depth,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": tower.hidden,
            "in_channels": 3,
            "intermediate_size": tower.intermediate,
            "num_heads": tower.heads,
            "num_position_embeddings": 2304,
            "out_hidden_size": text.hidden,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    }


def _qwen3_5_config(model: Model, ids: dict[str, int]) -> dict[str, Any]:
    config = _qwen3_config(model, ids)
    text = config["text_config"]
    del text["rope_scaling"], text["rope_theta"]
    text |= {
        "model_type": "qwen3_5_text",
        "attn_output_gate": True,
        "full_attention_interval": 4,
        "head_dim": 256,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": model.text.value_heads,
        "linear_value_head_dim": 128,
        "rope_parameters": {"mrope_interleaved": True, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25,
                            "rope_theta": 10000000, "rope_type": "default"},
    }
    config["vision_config"]["model_type"] = model.family
    if not model.text.experts:
        return config | {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": model.family}
    size = text.pop("intermediate_size")
    text |= {"model_type": "qwen3_5_moe_text", "num_experts": model.text.experts, "num_experts_per_tok": 8,
             "moe_intermediate_size": size, "shared_expert_intermediate_size": size}
    return config | {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": model.family}


# ---- Qwen2-VL and Qwen2.5-VL


def _qwen2_shapes(model: Model) -> Shapes:
    tower, text = model.tower, model.text
    hidden = tower.hidden
    yield "visual.patch_embed.proj.weight", (hidden, 3, 2, 14, 14)
    for index in range(tower.depth):
        block = f"visual.blocks.{index}"
        yield from _norm(f"{block}.norm1", hidden)
        yield from _norm(f"{block}.norm2", hidden)
        yield from _linear(f"{block}.attn.qkv", 3 * hidden, hidden)
        yield from _linear(f"{block}.attn.proj", hidden, hidden)
        yield from _linear(f"{block}.mlp.fc1", tower.intermediate, hidden)
        yield from _linear(f"{block}.mlp.fc2", hidden, tower.intermediate)
    yield from _norm("visual.merger.ln_q", hidden)
    yield from _linear("visual.merger.mlp.0", 4 * hidden, 4 * hidden)
    yield from _linear("visual.merger.mlp.2", text.hidden, 4 * hidden)
    yield from _qwen_text("model", text, text.hidden // text.heads, bias=True)


def _qwen2_5_shapes(model: Model) -> Shapes:
    tower, text = model.tower, model.text
    hidden = tower.hidden
    yield "visual.patch_embed.proj.weight", (hidden, 3, 2, 14, 14)
    for index in range(tower.depth):
        block = f"visual.blocks.{index}"
        yield from _norm(f"{block}.norm1", hidden, bias=False)
        yield from _norm(f"{block}.norm2", hidden, bias=False)
        yield from _linear(f"{block}.attn.qkv", 3 * hidden, hidden)
        yield from _linear(f"{block}.attn.proj", hidden, hidden)
        yield from _gated(f"{block}.mlp", hidden, tower.intermediate, bias=True)
    yield from _norm("visual.merger.ln_q", hidden, bias=False)
    yield from _linear("visual.merger.mlp.0", 4 * hidden, 4 * hidden)
    yield from _linear("visual.merger.mlp.2", text.hidden, 4 * hidden)
    yield from _qwen_text("model", text, text.hidden // text.heads, bias=True)


def _qwen2_tower_config(model: Model) -> dict[str, Any]:
    tower, out = model.tower, model.text.hidden
    common = {
        "depth": tower.depth,
        "in_chans": 3,
        "num_heads": tower.heads,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "temporal_patch_size": 2,
    }
    if model.family == "qwen2_vl":
        return common | {"embed_dim": tower.hidden, "mlp_ratio": tower.intermediate // tower.hidden, "hidden_size": out}
    return common | {
        "fullatt_block_indexes": list(tower.marked),
        "hidden_act": "silu",
        "hidden_size": tower.hidden,
        "intermediate_size": tower.intermediate,
        "out_hidden_size": out,
        "tokens_per_second": 2,
        "window_size": 112,
    }


def _qwen2_config(model: Model, ids: dict[str, int]) -> dict[str, Any]:
    text, older = model.text, model.family == "qwen2_vl"
    return {
        "architectures": ["Qwen2VLForConditionalGeneration" if older else "Qwen2_5_VLForConditionalGeneration"],
        "model_type": model.family,
        "tie_word_embeddings": text.tied,
        "torch_dtype": "bfloat16",
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "hidden_act": "silu",
        "hidden_size": text.hidden,
        "intermediate_size": text.intermediate,
        "max_position_embeddings": 32768 if older else 128000,
        "max_window_layers": 70,
        "num_attention_heads": text.heads,
        "num_hidden_layers": text.layers,
        "num_key_value_heads": text.kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_scaling": {"type": "mrope", "mrope_section": [n * text.hidden // text.heads // 16 for n in (2, 3, 3)]},
        "rope_theta": 1000000.0,
        "use_sliding_window": False,
        "vocab_size": text.vocab,
        "vision_config": _qwen2_tower_config(model),
    }


# ---- Kimi-VL

KV_RANK, NOPE, ROPE, VALUE, EXPERT, SHARED = 512, 128, 64, 128, 1408, 2


def _kimi_shapes(model: Model) -> Shapes:
    tower, text = model.tower, model.text
    hidden = tower.hidden
    yield "vision_tower.patch_embed.proj.weight", (hidden, 3, 14, 14)
    yield "vision_tower.patch_embed.proj.bias", (hidden,)
    yield "vision_tower.patch_embed.pos_emb.weight", (64, 64, hidden)
    for index in range(tower.depth):
        block = f"vision_tower.encoder.blocks.{index}"
        yield from _norm(f"{block}.norm0", hidden)
        yield from _norm(f"{block}.norm1", hidden)
        yield from _linear(f"{block}.wqkv", 3 * hidden, hidden)
        yield from _linear(f"{block}.wo", hidden, hidden)
        yield from _linear(f"{block}.mlp.fc0", tower.intermediate, hidden)
        yield from _linear(f"{block}.mlp.fc1", hidden, tower.intermediate)
    yield from _norm("vision_tower.encoder.final_layernorm", hidden)
    yield from _norm("multi_modal_projector.pre_norm", hidden)
    yield from _linear("multi_modal_projector.linear_1", 4 * hidden, 4 * hidden)
    yield from _linear("multi_modal_projector.linear_2", text.hidden, 4 * hidden)
    yield "language_model.model.embed_tokens.weight", (text.vocab, text.hidden)
    for index in range(text.layers):
        yield from _kimi_layer(f"language_model.model.layers.{index}", text, dense=index == 0)
    yield from _norm("language_model.model.norm", text.hidden, bias=False)
    yield "language_model.lm_head.weight", (text.vocab, text.hidden)


def _kimi_layer(layer: str, text: Text, dense: bool) -> Shapes:
    yield from _norm(f"{layer}.input_layernorm", text.hidden, bias=False)
    yield from _norm(f"{layer}.post_attention_layernorm", text.hidden, bias=False)
    yield from _linear(f"{layer}.self_attn.q_proj", text.heads * (NOPE + ROPE), text.hidden, bias=False)
    yield from _linear(f"{layer}.self_attn.kv_a_proj_with_mqa", KV_RANK + ROPE, text.hidden, bias=False)
    yield from _norm(f"{layer}.self_attn.kv_a_layernorm", KV_RANK, bias=False)
    yield from _linear(f"{layer}.self_attn.kv_b_proj", text.heads * (NOPE + VALUE), KV_RANK, bias=False)
    yield from _linear(f"{layer}.self_attn.o_proj", text.hidden, text.heads * VALUE, bias=False)
    if dense:
        yield from _gated(f"{layer}.mlp", text.hidden, text.intermediate)
        return
    yield from _linear(f"{layer}.mlp.gate", text.experts, text.hidden, bias=False)
    yield f"{layer}.mlp.gate.e_score_correction_bias", (text.experts,)
    for number in range(text.experts):
        yield from _gated(f"{layer}.mlp.experts.{number}", text.hidden, EXPERT)
    yield from _gated(f"{layer}.mlp.shared_experts", text.hidden, EXPERT * SHARED)


def _kimi_config(model: Model, ids: dict[str, int]) -> dict[str, Any]:
    tower, text = model.tower, model.text
    return {
        "architectures": ["KimiVLForConditionalGeneration"],
        "model_type": "kimi_vl",
        "ignore_index": -100,
        "media_placeholder_token_id": ids["<|media_pad|>"],
        "torch_dtype": "bfloat16",
        "text_config": {
            "attention_bias": False,
            "bos_token_id": ids["[BOS]"],
            "eos_token_id": ids["[EOS]"],
            "pad_token_id": ids["[PAD]"],
            "first_k_dense_replace": 1,
            "hidden_act": "silu",
            "hidden_size": text.hidden,
            "intermediate_size": text.intermediate,
            "kv_lora_rank": KV_RANK,
            "max_position_embeddings": 131072,
            "moe_intermediate_size": EXPERT,
            "moe_layer_freq": 1,
            "n_group": 1,
            "n_routed_experts": text.experts,
            "n_shared_experts": SHARED,
            "norm_topk_prob": True,
            "num_attention_heads": text.heads,
            "num_experts_per_tok": 6,
            "num_hidden_layers": text.layers,
            "num_key_value_heads": text.kv_heads,
            "q_lora_rank": None,
            "qk_nope_head_dim": NOPE,
            "qk_rope_head_dim": ROPE,
            "rms_norm_eps": 1e-5,
            "rope_scaling": None,
            "rope_theta": 800000.0,
            "routed_scaling_factor": 2.446,
            "scoring_func": "sigmoid",
            "tie_word_embeddings": False,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "v_head_dim": VALUE,
            "vocab_size": text.vocab,
        },
        "vision_config": {
            "model_type": "moonvit",
            "hidden_size": tower.hidden,
            "init_pos_emb_height": 64,
            "init_pos_emb_width": 64,
            "intermediate_size": tower.intermediate,
            "merge_kernel_size": [2, 2],
            "num_attention_heads": tower.heads,
            "num_hidden_layers": tower.depth,
            "patch_size": 14,
        },
    }


# ---- PaddleOCR-VL

RELEASED_CONFIG = Path(__file__).resolve().parent.parent / "tests" / "data" / "configs" / "paddleocr-vl-0.9b.json"


def _paddle_shapes(model: Model) -> Shapes:
    tower, text = model.tower, model.text
    hidden, embeddings = tower.hidden, "visual.vision_model.embeddings"
    yield f"{embeddings}.patch_embedding.weight", (hidden, 3, 14, 14)
    yield f"{embeddings}.patch_embedding.bias", (hidden,)
    yield f"{embeddings}.position_embedding.weight", (27 * 27, hidden)
    for index in range(tower.depth):
        block = f"visual.vision_model.encoder.layers.{index}"
        yield from _norm(f"{block}.layer_norm1", hidden)
        yield from _norm(f"{block}.layer_norm2", hidden)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _linear(f"{block}.self_attn.{name}", hidden, hidden)
        yield from _linear(f"{block}.mlp.fc1", tower.intermediate, hidden)
        yield from _linear(f"{block}.mlp.fc2", hidden, tower.intermediate)
    yield from _norm("visual.vision_model.post_layernorm", hidden)
    yield from _norm("mlp_AR.pre_norm", hidden)
    yield from _linear("mlp_AR.linear_1", 4 * hidden, 4 * hidden)
    yield from _linear("mlp_AR.linear_2", text.hidden, 4 * hidden)
    yield from _qwen_text("model", text)


def _paddle_config(model: Model, ids: dict[str, int]) -> dict[str, Any]:
    tower, text = model.tower, model.text
    released: dict[str, Any] = json.loads(RELEASED_CONFIG.read_text(encoding="utf-8"))
    return released | {
        "image_token_id": ids["<|IMAGE_PLACEHOLDER|>"],
        "intermediate_size": text.intermediate,
        "num_hidden_layers": text.layers,
        "vocab_size": text.vocab,
        "vision_config": released["vision_config"] | {"num_hidden_layers": tower.depth},
    }


_SHAPES = {"qwen3_vl": _qwen3_shapes, "qwen3_5": _qwen3_shapes, "qwen3_5_moe": _qwen3_shapes, "qwen2_vl": _qwen2_shapes,
           "qwen2_5_vl": _qwen2_5_shapes, "kimi_vl": _kimi_shapes, "paddleocr_vl": _paddle_shapes}
_CONFIGS = {"qwen3_vl": _qwen3_config, "qwen3_5": _qwen3_5_config, "qwen3_5_moe": _qwen3_5_config, "qwen2_vl": _qwen2_config,
            "qwen2_5_vl": _qwen2_config, "kimi_vl": _kimi_config, "paddleocr_vl": _paddle_config}


def tensor_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Every tensor of the checkpoint by its released name."""
    return dict(_SHAPES[model.family](model))


def config(model: Model, ids: dict[str, int]) -> dict[str, Any]:
    """config.json; `ids` are those of the tokenizer's special tokens."""
    return _CONFIGS[model.family](model, ids)


def preprocessor_config(model: Model) -> dict[str, Any]:
    half = [0.5, 0.5, 0.5]
    if model.family == "kimi_vl":
        return {
            "image_processor_type": "KimiVLImageProcessor",
            "image_mean": half,
            "image_std": half,
            "in_token_limit": 16384,
            "merge_kernel_size": [2, 2],
            "num_pooled_tokens": 1024,
            "pad_input": True,
            "patch_size": 14,
        }
    if model.family == "paddleocr_vl":
        return {
            "image_processor_type": "PaddleOCRVLImageProcessor",
            "image_mean": half,
            "image_std": half,
            "max_pixels": 1003520,
            "merge_size": 2,
            "min_pixels": 112896,
            "patch_size": 14,
            "temporal_patch_size": 1,
        }
    common = {"merge_size": 2, "temporal_patch_size": 2}
    if model.family in ("qwen3_vl", "qwen3_5", "qwen3_5_moe"):
        return common | {
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "processor_class": "Qwen3VLProcessor",
            "image_mean": half,
            "image_std": half,
            "patch_size": 16,
            "size": {"longest_edge": 16777216, "shortest_edge": 65536},
        }
    return common | {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2VLProcessor" if model.family == "qwen2_vl" else "Qwen2_5_VLProcessor",
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "max_pixels": 12845056,
        "min_pixels": 3136,
        "patch_size": 14,
    }
