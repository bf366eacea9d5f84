"""Tiny checkpoints with random weights whose answers depend on the image: the stored ones, and
those made here."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GenerationConfig, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

SEED = 5


def weights_only(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint alone: vLLM would load every .safetensors file in its folder as weights."""
    folder.mkdir()
    for path in checkpoint.iterdir():
        if path.suffix != ".safetensors" or path.name.startswith("model"):
            (folder / path.name).symlink_to(path)
    return folder


def qwen2_5_vl_config(tokens: dict[str, int]) -> Qwen2_5_VLConfig:
    """Windows of 4 x 4 merged patches in three layers of four, heads of 80 as in the released
    models."""
    return Qwen2_5_VLConfig(
        vision_config=dict(
            depth=4, hidden_size=160, num_heads=2, intermediate_size=96, patch_size=14, spatial_merge_size=2,
            temporal_patch_size=2, window_size=112, fullatt_block_indexes=[2], out_hidden_size=64, hidden_act="silu",
            in_channels=3,
        ),
        text_config=dict(
            hidden_size=64, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, intermediate_size=96,
            vocab_size=544, max_position_embeddings=32768, rms_norm_eps=1e-6, tie_word_embeddings=False,
            rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[4, 6, 6]),
        ),
        image_token_id=tokens["<|image_pad|>"],
        video_token_id=tokens["<|video_pad|>"],
        vision_start_token_id=tokens["<|vision_start|>"],
        vision_end_token_id=tokens["<|vision_end|>"],
        tie_word_embeddings=False,
    )


def random_weight(name: str, shape: torch.Size | tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Signals neither die nor explode, and the image matters; weights near zero would make all
    answers alike."""
    noise = torch.randn(shape, generator=generator)
    if name.endswith(("embed_tokens.weight", "lm_head.weight", "pos_emb.weight")):
        return 0.5 * noise
    if name.endswith("bias"):
        return 0.1 * noise
    if len(shape) == 1:
        return 1 + 0.15 * noise
    return 1.3 / math.sqrt(math.prod(shape[1:])) * noise


def copy_tokenizer(source: Path, folder: Path) -> dict[str, int]:
    """The tokenizer and the chat template of another checkpoint; returns the numbers of its special
    tokens."""
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(source / name, folder)
    added = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    return {token["content"]: token["id"] for token in added}


def write_qwen2_5_vl(folder: Path, tokenizer_folder: Path) -> None:
    folder.mkdir(parents=True)
    tokens = copy_tokenizer(tokenizer_folder, folder)
    model = Qwen2_5_VLForConditionalGeneration(qwen2_5_vl_config(tokens))
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in sorted(model.named_parameters()):
        parameter.data.copy_(random_weight(name, parameter.shape, generator))
    model.generation_config = GenerationConfig(eos_token_id=tokens["<|im_end|>"], pad_token_id=tokens["<|endoftext|>"])
    model.save_pretrained(folder)
    preprocessor = {
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
        "size": {"shortest_edge": 3136, "longest_edge": 50_000}, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor), encoding="utf-8")


KIMI_VISION = dict(
    hidden_size=144, num_attention_heads=2, num_hidden_layers=3, intermediate_size=96, init_pos_emb_height=16,
    init_pos_emb_width=16, patch_size=14, merge_kernel_size=[2, 2],
)
# Every layer dense; MLA in its released sizes, for which vLLM's kernels are made.
KIMI_TEXT = dict(
    model_type="deepseek_v2", architectures=["DeepseekV2ForCausalLM"], vocab_size=544, hidden_size=64, num_hidden_layers=2,
    first_k_dense_replace=2, num_attention_heads=2, num_key_value_heads=2, intermediate_size=96, q_lora_rank=None,
    kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, max_position_embeddings=4096,
    rms_norm_eps=1e-6, tie_word_embeddings=False, rope_theta=1e6,
)


def kimi_vl_shapes() -> dict[str, tuple[int, ...]]:
    """The tensors of a Kimi-VL checkpoint by their released names."""
    width, inner, merged = KIMI_VISION["hidden_size"], KIMI_VISION["intermediate_size"], 4 * KIMI_VISION["hidden_size"]
    hidden, heads, latent = KIMI_TEXT["hidden_size"], KIMI_TEXT["num_attention_heads"], KIMI_TEXT["kv_lora_rank"]
    nope, rope, value = (KIMI_TEXT[f"{name}_head_dim"] for name in ("qk_nope", "qk_rope", "v"))

    def with_bias(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}

    shapes = {
        **with_bias("vision_tower.patch_embed.proj", width, 3, 14, 14),
        "vision_tower.patch_embed.pos_emb.weight": (16, 16, width),
        **with_bias("vision_tower.encoder.final_layernorm", width),
        **with_bias("multi_modal_projector.pre_norm", width),
        **with_bias("multi_modal_projector.linear_1", merged, merged),
        **with_bias("multi_modal_projector.linear_2", hidden, merged),
        "language_model.model.embed_tokens.weight": (KIMI_TEXT["vocab_size"], hidden),
        "language_model.model.norm.weight": (hidden,),
        "language_model.lm_head.weight": (KIMI_TEXT["vocab_size"], hidden),
    }
    for layer in range(KIMI_VISION["num_hidden_layers"]):
        block = f"vision_tower.encoder.blocks.{layer}"
        shapes |= with_bias(f"{block}.norm0", width) | with_bias(f"{block}.norm1", width)
        shapes |= with_bias(f"{block}.wqkv", 3 * width, width) | with_bias(f"{block}.wo", width, width)
        shapes |= with_bias(f"{block}.mlp.fc0", inner, width) | with_bias(f"{block}.mlp.fc1", width, inner)
    for layer in range(KIMI_TEXT["num_hidden_layers"]):
        block = f"language_model.model.layers.{layer}"
        inner = KIMI_TEXT["intermediate_size"]
        shapes |= {
            f"{block}.input_layernorm.weight": (hidden,),
            f"{block}.post_attention_layernorm.weight": (hidden,),
            f"{block}.self_attn.q_proj.weight": (heads * (nope + rope), hidden),
            f"{block}.self_attn.kv_a_proj_with_mqa.weight": (latent + rope, hidden),
            f"{block}.self_attn.kv_a_layernorm.weight": (latent,),
            f"{block}.self_attn.kv_b_proj.weight": (heads * (nope + value), latent),
            f"{block}.self_attn.o_proj.weight": (hidden, heads * value),
            f"{block}.mlp.gate_proj.weight": (inner, hidden),
            f"{block}.mlp.up_proj.weight": (inner, hidden),
            f"{block}.mlp.down_proj.weight": (hidden, inner),
        }
    return shapes


def write_kimi_vl(folder: Path, tokenizer_folder: Path) -> None:
    """The released code is not part of transformers: the weights are made by name, and the
    processor is a file next to them."""
    folder.mkdir(parents=True)
    tokens = copy_tokenizer(tokenizer_folder, folder)
    generator = torch.Generator().manual_seed(SEED)
    weights = {name: random_weight(name, shape, generator) for name, shape in kimi_vl_shapes().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["KimiVLForConditionalGeneration"], "model_type": "kimi_vl", "torch_dtype": "float32",
        "media_placeholder_token_id": tokens["<|image_pad|>"], "pad_token_id": tokens["<|endoftext|>"],
        "eos_token_id": tokens["<|im_end|>"],
        "vision_config": {"model_type": "moonvit", **KIMI_VISION}, "text_config": KIMI_TEXT,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("kimi_vl_processor.py"), folder)
    processor = {"processor_class": "KimiVLProcessor", "auto_map": {"AutoProcessor": "kimi_vl_processor.KimiVLProcessor"}}
    (folder / "processor_config.json").write_text(json.dumps(processor), encoding="utf-8")
