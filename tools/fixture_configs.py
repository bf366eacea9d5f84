"""config.json of the tiny Qwen checkpoints: the official configuration objects, and the released
files' dialects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import (
    PreTrainedConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5MoeConfig,
    Qwen3_5MoeForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from fixture_tokenizer import added_token_id

if TYPE_CHECKING:
    from fixture_models import ModelSpec

VOCAB_SIZE = 544  # the tokenizer knows fewer: the last rows are padding
MAX_POSITIONS = 32_768
ROPE_THETA = {
    "qwen2_vl": 1_000_000.0,
    "qwen2_5_vl": 1_000_000.0,
    "qwen3_vl": 5_000_000.0,
    "qwen3_vl_moe": 5_000_000.0,
    "qwen3_5": 10_000_000.0,
    "qwen3_5_moe": 10_000_000.0,
}
CONFIG_CLASSES = {
    "qwen2_vl": Qwen2VLConfig,
    "qwen2_5_vl": Qwen2_5_VLConfig,
    "qwen3_vl": Qwen3VLConfig,
    "qwen3_vl_moe": Qwen3VLMoeConfig,
    "qwen3_5": Qwen3_5Config,
    "qwen3_5_moe": Qwen3_5MoeConfig,
}
MODEL_CLASSES = {
    "qwen2_vl": Qwen2VLForConditionalGeneration,
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
    "qwen3_vl": Qwen3VLForConditionalGeneration,
    "qwen3_vl_moe": Qwen3VLMoeForConditionalGeneration,
    "qwen3_5": Qwen3_5ForConditionalGeneration,
    "qwen3_5_moe": Qwen3_5MoeForConditionalGeneration,
}
# Families with the processor, the chat template and the config dialect of Qwen2-VL.
QWEN2_FAMILIES = ("qwen2_vl", "qwen2_5_vl")


def _special_ids() -> dict[str, int]:
    return {
        "image_token_id": added_token_id("<|image_pad|>"),
        "video_token_id": added_token_id("<|video_pad|>"),
        "vision_start_token_id": added_token_id("<|vision_start|>"),
        "vision_end_token_id": added_token_id("<|vision_end|>"),
    }


def make_config(spec: ModelSpec) -> PreTrainedConfig:
    """The official configuration object for a spec."""
    vision = dict(
        in_channels=3,
        patch_size=spec.form.patch_size,
        spatial_merge_size=spec.form.merge_size,
        temporal_patch_size=2,
        **spec.vision,
    )
    text = dict(
        hidden_act="silu",
        max_position_embeddings=MAX_POSITIONS,
        rms_norm_eps=1e-6,
        tie_word_embeddings=spec.tied,
        vocab_size=VOCAB_SIZE,
        **spec.text,
    )
    rope = dict(rope_type="default", rope_theta=ROPE_THETA[spec.family], mrope_section=list(spec.mrope_section))
    # Qwen2-VL calls the tower's width embed_dim, and hidden_size that of the language model.
    vision |= {"hidden_size" if spec.family == "qwen2_vl" else "out_hidden_size": spec.text["hidden_size"]}
    if spec.family in ("qwen2_vl", "qwen2_5_vl"):
        # Not the class defaults, which lie outside the small vocabulary.
        text |= dict(bos_token_id=added_token_id("<|endoftext|>"), eos_token_id=added_token_id("<|im_end|>"))
    if spec.family == "qwen2_vl":
        vision |= dict(hidden_act="quick_gelu")
    elif spec.family == "qwen2_5_vl":
        vision |= dict(hidden_act="silu", tokens_per_second=2)
    else:
        vision |= dict(hidden_act="gelu_pytorch_tanh", num_position_embeddings=spec.n_positions)
        text |= dict(attention_bias=False)
        rope |= dict(mrope_interleaved=True)
        if spec.family.startswith("qwen3_5"):
            rope |= dict(partial_rotary_factor=spec.partial_rotary)
    return CONFIG_CLASSES[spec.family](
        vision_config=vision,
        text_config=text | dict(rope_parameters=rope),
        tie_word_embeddings=spec.tied,
        **_special_ids(),
    )


def _released_qwen3_vl(spec: ModelSpec, config: PreTrainedConfig) -> dict[str, Any]:
    dtype = str(spec.dtype).removeprefix("torch.")
    text = config.text_config
    moe = spec.family == "qwen3_vl_moe"
    experts = {
        "decoder_sparse_step": text.decoder_sparse_step,
        "mlp_only_layers": list(text.mlp_only_layers),
        "moe_intermediate_size": text.moe_intermediate_size,
        "norm_topk_prob": True,
        "num_experts": text.num_experts,
        "num_experts_per_tok": text.num_experts_per_tok,
    } if moe else {}
    return {
        "architectures": ["Qwen3VLMoeForConditionalGeneration" if moe else "Qwen3VLForConditionalGeneration"],
        "image_token_id": config.image_token_id,
        "model_type": spec.family,
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": added_token_id("<|endoftext|>"),
            "eos_token_id": added_token_id("<|im_end|>"),
            "head_dim": text.head_dim,
            "hidden_act": "silu",
            "hidden_size": text.hidden_size,
            "initializer_range": 0.02,
            "intermediate_size": text.intermediate_size,
            "max_position_embeddings": MAX_POSITIONS,
            "model_type": f"{spec.family}_text",
            **experts,
            "num_attention_heads": text.num_attention_heads,
            "num_hidden_layers": text.num_hidden_layers,
            "num_key_value_heads": text.num_key_value_heads,
            "rms_norm_eps": 1e-06,
            "rope_scaling": {
                "mrope_interleaved": True,
                "mrope_section": list(spec.mrope_section),
                "rope_type": "default",
            },
            "rope_theta": int(ROPE_THETA[spec.family]),
            "torch_dtype": dtype,
            "use_cache": True,
            "vocab_size": VOCAB_SIZE,
        },
        "tie_word_embeddings": spec.tied,
        "torch_dtype": dtype,
        "transformers_version": "4.57.0.dev0",
        "video_token_id": config.video_token_id,
        "vision_config": {
            "deepstack_visual_indexes": list(config.vision_config.deepstack_visual_indexes),
            "depth": config.vision_config.depth,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": config.vision_config.hidden_size,
            "in_channels": 3,
            "initializer_range": 0.02,
            "intermediate_size": config.vision_config.intermediate_size,
            "model_type": spec.family,
            "num_heads": config.vision_config.num_heads,
            "num_position_embeddings": config.vision_config.num_position_embeddings,
            "out_hidden_size": config.vision_config.out_hidden_size,
            "patch_size": config.vision_config.patch_size,
            "spatial_merge_size": config.vision_config.spatial_merge_size,
            "temporal_patch_size": 2,
        },
        "vision_end_token_id": config.vision_end_token_id,
        "vision_start_token_id": config.vision_start_token_id,
    }


def _released_tower(spec: ModelSpec, config: PreTrainedConfig) -> dict[str, Any]:
    """vision_config of Qwen2-VL or Qwen2.5-VL."""
    vision = config.vision_config
    if spec.family == "qwen2_vl":
        return {
            "depth": vision.depth,
            "embed_dim": vision.embed_dim,
            "mlp_ratio": vision.mlp_ratio,
            "num_heads": vision.num_heads,
            "in_chans": 3,
            "hidden_size": vision.hidden_size,
            "patch_size": vision.patch_size,
            "spatial_merge_size": vision.spatial_merge_size,
            "spatial_patch_size": vision.patch_size,
            "temporal_patch_size": 2,
        }
    return {
        "depth": vision.depth,
        "hidden_act": "silu",
        "hidden_size": vision.hidden_size,
        "intermediate_size": vision.intermediate_size,
        "num_heads": vision.num_heads,
        "in_chans": 3,
        "out_hidden_size": vision.out_hidden_size,
        "patch_size": vision.patch_size,
        "spatial_merge_size": vision.spatial_merge_size,
        "spatial_patch_size": vision.patch_size,
        "window_size": vision.window_size,
        "fullatt_block_indexes": list(vision.fullatt_block_indexes),
        "tokens_per_second": 2,
        "temporal_patch_size": 2,
    }


def _released_qwen2(spec: ModelSpec, config: PreTrainedConfig) -> dict[str, Any]:
    """Qwen2-VL and Qwen2.5-VL: the language model's keys lie flat at the top level."""
    text = config.text_config
    name = "Qwen2VL" if spec.family == "qwen2_vl" else "Qwen2_5_VL"
    return {
        "architectures": [f"{name}ForConditionalGeneration"],
        "attention_dropout": 0.0,
        "bos_token_id": added_token_id("<|endoftext|>"),
        "eos_token_id": added_token_id("<|im_end|>"),
        "vision_start_token_id": config.vision_start_token_id,
        "vision_end_token_id": config.vision_end_token_id,
        "vision_token_id": added_token_id("<|vision_pad|>"),
        "image_token_id": config.image_token_id,
        "video_token_id": config.video_token_id,
        "hidden_act": "silu",
        "hidden_size": text.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": text.intermediate_size,
        "max_position_embeddings": MAX_POSITIONS,
        "max_window_layers": text.max_window_layers if text.use_sliding_window else 70,
        "model_type": spec.family,
        "num_attention_heads": text.num_attention_heads,
        "num_hidden_layers": text.num_hidden_layers,
        "num_key_value_heads": text.num_key_value_heads,
        "rms_norm_eps": 1e-06,
        "rope_theta": ROPE_THETA[spec.family],
        "sliding_window": text.sliding_window if text.use_sliding_window else 32768,
        "tie_word_embeddings": spec.tied,
        "torch_dtype": str(spec.dtype).removeprefix("torch."),
        "transformers_version": "4.41.2",
        "use_cache": True,
        "use_sliding_window": text.use_sliding_window,
        "vision_config": _released_tower(spec, config),
        "rope_scaling": {"type": "mrope", "mrope_section": list(spec.mrope_section)},
        "vocab_size": VOCAB_SIZE,
    }


def _released_qwen3_5(spec: ModelSpec, config: PreTrainedConfig) -> dict[str, Any]:
    """Without layer_types, as files have it that name the interval alone."""
    dtype = str(spec.dtype).removeprefix("torch.")
    text = config.text_config
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
             "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
             "linear_conv_kernel_dim")
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "image_token_id": config.image_token_id,
        "model_type": spec.family,
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_output_gate": True,
            "dtype": dtype,
            "eos_token_id": added_token_id("<|endoftext|>"),
            "full_attention_interval": spec.text["full_attention_interval"],
            "hidden_act": "silu",
            **{key: getattr(text, key) for key in sizes},
            "mamba_ssm_dtype": "float32",
            "max_position_embeddings": MAX_POSITIONS,
            "mlp_only_layers": [],
            "model_type": f"{spec.family}_text",
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "rms_norm_eps": 1e-06,
            "rope_parameters": {
                "mrope_interleaved": True,
                "mrope_section": list(spec.mrope_section),
                "partial_rotary_factor": spec.partial_rotary,
                "rope_theta": int(ROPE_THETA[spec.family]),
                "rope_type": "default",
            },
            "tie_word_embeddings": spec.tied,
            "use_cache": True,
            "vocab_size": VOCAB_SIZE,
        },
        "tie_word_embeddings": spec.tied,
        "transformers_version": "4.57.0.dev0",
        "video_token_id": config.video_token_id,
        "vision_config": {
            "deepstack_visual_indexes": [],
            "depth": config.vision_config.depth,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": config.vision_config.hidden_size,
            "in_channels": 3,
            "initializer_range": 0.02,
            "intermediate_size": config.vision_config.intermediate_size,
            "model_type": spec.family,
            "num_heads": config.vision_config.num_heads,
            "num_position_embeddings": config.vision_config.num_position_embeddings,
            "out_hidden_size": config.vision_config.out_hidden_size,
            "patch_size": config.vision_config.patch_size,
            "spatial_merge_size": config.vision_config.spatial_merge_size,
            "temporal_patch_size": 2,
        },
        "vision_end_token_id": config.vision_end_token_id,
        "vision_start_token_id": config.vision_start_token_id,
    }


def released_config(spec: ModelSpec, config: PreTrainedConfig) -> dict[str, Any]:
    """config.json in the dialect of the family's released checkpoints."""
    if spec.family == "qwen3_5":
        return _released_qwen3_5(spec, config)
    make = _released_qwen2 if spec.family in ("qwen2_vl", "qwen2_5_vl") else _released_qwen3_vl
    return make(spec, config)
