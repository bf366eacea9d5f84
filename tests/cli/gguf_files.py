"""Makes GGUF files from a checkpoint directory, as llama.cpp's converter names and cuts tensors and
keys, with the official gguf package.

convert() also leaves a copy of the directory whose weights are exactly what the files' quantised
blocks mean.
"""

from __future__ import annotations

import base64
import json
import shutil
import struct
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np

Kind = gguf.GGMLQuantizationType
NUMPY_TYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
ARCHITECTURES = {"qwen2_vl": "qwen2vl", "qwen2_5_vl": "qwen2vl", "qwen3_vl": "qwen3vl", "qwen3_vl_moe": "qwen3vlmoe", "kimi_vl": "deepseek2",
                 "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe", "glm_ocr": "glm4", "lighton_ocr": "qwen3", "dots_ocr": "qwen2",
                 "paddleocr_vl": "paddleocr"}
PROJECTORS = {"qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger", "qwen3_vl": "qwen3vl_merger", "qwen3_vl_moe": "qwen3vl_merger",
              "kimi_vl": "kimivl", "qwen3_5": "qwen3vl_merger", "qwen3_5_moe": "qwen3vl_merger", "glm_ocr": "glm4v", "lighton_ocr": "lightonocr",
              "dots_ocr": "dots_ocr", "paddleocr_vl": "paddleocr"}


def read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def read_tensors(folder: Path, draft_head: bool = False) -> dict[str, np.ndarray]:
    tensors = {}
    for path in sorted(folder.glob("model*.safetensors")):
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name == "__metadata__" or (name.startswith("mtp.") and not draft_head):
                continue
            begin, end = (8 + size + at for at in entry["data_offsets"])
            tensors[name] = np.frombuffer(data[begin:end], NUMPY_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_tensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


# Where a block's scales are: at which byte, how many of f16. The package cannot quantise to these.
RANDOM_KINDS = {
    Kind.IQ4_NL: (0, 1),
    Kind.IQ4_XS: (0, 1),
    Kind.Q2_K: (80, 2),
    Kind.Q3_K: (108, 1),
    Kind.Q4_K: (0, 2),
    Kind.Q5_K: (0, 2),
    Kind.Q6_K: (208, 1),
}


def random_blocks(rows: int, n_in: int, kind: Kind, random: np.random.Generator) -> np.ndarray:
    """Blocks of random bytes, with scales that make their values about as large as weights are."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    at, n_scales = RANDOM_KINDS[kind]
    blocks = random.integers(0, 256, (rows * n_in // block, size), dtype=np.uint8)
    scales = random.uniform(0.5, 1.5, (len(blocks), n_scales)).astype(np.float32)

    def put(factor: float) -> None:
        blocks[:, at : at + 2 * n_scales] = (scales * factor).astype(np.float16).view(np.uint8)

    put(2.0**-10)
    values = gguf.quants.dequantize(blocks, kind)
    put(2.0**-10 / float(values.std() * np.sqrt(n_in)))
    return blocks.reshape(rows, -1)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Of keys that a copy adds.
TYPES_OF = {int: gguf.GGUFValueType.UINT32, str: gguf.GGUFValueType.STRING}


def copy_keys(reader: gguf.GGUFReader, target: Path, changes: dict | None = None) -> gguf.GGUFWriter:
    """A new file with the keys of another; changes: other values, None leaves a key out."""
    values = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    values |= changes or {}
    writer = gguf.GGUFWriter(target, values.pop("general.architecture"))
    for name, value in values.items():
        types = reader.fields[name].types if name in reader.fields else [TYPES_OF[type(value)]]
        if value is not None:
            writer.add_key_value(name, value, types[0], sub_type=types[-1] if len(types) > 1 else None)
    return writer


class Writer:
    """One GGUF file; what is written as blocks goes back into the array that it was made from."""

    def __init__(self, path: Path, architecture: str, kind: str) -> None:
        self.file = gguf.GGUFWriter(path, architecture)
        self.kind, self.larger = (Kind[part] for part in (kind.split("+") * 2)[:2])
        self.random = np.random.default_rng(5)

    @staticmethod
    def keeps_more(name: str) -> bool:
        """As in Q4_K_M files: values and down projections of every other layer, the output."""
        layer = name.split(".")[1]
        return name.startswith(("token_embd", "output")) or (layer.isdigit() and int(layer) % 2 == 0 and ("attn_v" in name or "ffn_down" in name))

    def quantise(self, values: np.ndarray, wanted: Kind) -> tuple[np.ndarray, Kind]:
        for kind in (wanted, Kind.Q8_0, Kind.F16):
            if values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
                continue
            if kind in RANDOM_KINDS:
                blocks = random_blocks(values.size // values.shape[-1], values.shape[-1], kind, self.random)
                return blocks.reshape(*values.shape[:-1], -1), kind
            return gguf.quants.quantize(np.ascontiguousarray(values), kind), kind
        raise AssertionError(values.shape)

    def tensor(self, name: str, values: np.ndarray, plain: bool = False) -> None:
        """values: float32, a view that is overwritten with what is stored."""
        if plain or values.ndim == 1:
            self.file.add_tensor(name, np.ascontiguousarray(values))
            return
        blocks, kind = self.quantise(values, self.larger if self.keeps_more(name) else self.kind)
        values[...] = gguf.quants.dequantize(blocks, kind).reshape(values.shape)
        self.file.add_tensor(name, np.ascontiguousarray(blocks), raw_dtype=kind)

    def close(self) -> None:
        finish(self.file)


# ---- keys


def text_keys(writer: Writer, root: dict, kimi: bool, drafting: int) -> None:
    file, text = writer.file, root.get("text_config", root)
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    file.add_block_count(text["num_hidden_layers"] + drafting)
    if drafting:
        file.add_nextn_predict_layers(drafting)
    file.add_context_length(text["max_position_embeddings"])
    file.add_embedding_length(text["hidden_size"])
    if "shared_expert_intermediate_size" in text:
        file.add_expert_shared_feed_forward_length(text["shared_expert_intermediate_size"])
    else:
        file.add_feed_forward_length(text["intermediate_size"])
    file.add_head_count(text["num_attention_heads"])
    file.add_head_count_kv(1 if kimi else text["num_key_value_heads"])
    file.add_layer_norm_rms_eps(text["rms_norm_eps"])
    file.add_rope_freq_base(rope.get("rope_theta", text.get("rope_theta", 10000.0)))
    if "mrope_section" in rope:
        file.add_rope_dimension_sections([*rope["mrope_section"], 0])
    if "head_dim" in text:
        file.add_key_length(text["head_dim"])
        file.add_value_length(text["head_dim"])
    if root["model_type"] == "glm_ocr":
        file.add_rope_dimension_count(head_dim(text))
    experts = text.get("n_routed_experts", text.get("num_experts", text.get("num_local_experts")))
    if experts:
        file.add_expert_count(experts)
        file.add_expert_used_count(text["num_experts_per_tok"])
        file.add_expert_feed_forward_length(text["moe_intermediate_size"])
    if kimi:
        latent_keys(file, text)
    if "linear_num_key_heads" in text:
        delta_keys(file, text, rope, drafting)


def draft_layers(text: dict, tensors: dict[str, np.ndarray]) -> int:
    """Counted by the key, also where the checkpoint lacks them; else by the tensors."""
    found = {name.split(".")[2] for name in tensors if name.startswith("mtp.layers.")}
    return text.get("num_nextn_predict_layers", text.get("mtp_num_hidden_layers", len(found)))


def head_dim(text: dict) -> int:
    return text.get("head_dim", text["hidden_size"] // text["num_attention_heads"])


def delta_keys(file: gguf.GGUFWriter, text: dict, rope: dict, drafting: int) -> None:
    heads = text["linear_num_value_heads"]
    file.add_ssm_conv_kernel(text["linear_conv_kernel_dim"])
    file.add_ssm_state_size(text["linear_key_head_dim"])
    file.add_ssm_group_count(text["linear_num_key_heads"])
    file.add_ssm_time_step_rank(heads)
    file.add_ssm_inner_size(text["linear_value_head_dim"] * heads)
    if "layer_types" in text:
        recurrent = [kind == "linear_attention" for kind in text["layer_types"]] + [False] * drafting
        file.add_array(f"{file.arch}.attention.recurrent_layers", recurrent)
    file.add_full_attention_interval(text.get("full_attention_interval", 4))
    file.add_rope_dimension_count(int(text["head_dim"] * rope["partial_rotary_factor"]))


def latent_keys(file: gguf.GGUFWriter, text: dict) -> None:
    file.add_leading_dense_block_count(text["first_k_dense_replace"])
    file.add_vocab_size(text["vocab_size"])
    file.add_kv_lora_rank(text["kv_lora_rank"])
    file.add_key_length(text["kv_lora_rank"] + text["qk_rope_head_dim"])
    file.add_value_length(text["kv_lora_rank"])
    file.add_key_length_mla(text["qk_nope_head_dim"] + text["qk_rope_head_dim"])
    file.add_value_length_mla(text["v_head_dim"])
    file.add_rope_dimension_count(text["qk_rope_head_dim"])
    file.add_expert_shared_count(text["n_shared_experts"])
    file.add_expert_weights_scale(text["routed_scaling_factor"])
    file.add_expert_weights_norm(text["norm_topk_prob"])
    file.add_expert_group_count(text["n_group"])
    file.add_expert_group_used_count(text["topk_group"])
    file.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def byte_names() -> list[str]:
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def looks_special(text: str) -> bool:
    return text.startswith("<|") and text.endswith("|>")


def looks_like_byte(text: str) -> bool:
    return len(text) == 6 and text.startswith("<0x")


def piece_scores(document: dict, n_ids: int) -> list[float]:
    """Of SentencePiece: the earlier a piece is made of two others, the higher is its score."""
    vocab, made = document["model"]["vocab"], {}
    for left, right in document["model"]["merges"]:
        made.setdefault(left + right, -float(len(made)))
    scores = [-1000.0] * n_ids
    for text, i in vocab.items():
        scores[i] = 0.0 if looks_like_byte(text) else made.get(text, -float(len(made)) - i)
    return scores


def complete_merges(source: Path, out: Path) -> Path:
    """A copy of the checkpoint whose tokenizer.json has every pair of pieces that makes a piece, in
    the order of scores: what transformers makes of SentencePiece's files."""
    shutil.copytree(source, out)
    document = read_json(source / "tokenizer.json")
    vocab, scores = document["model"]["vocab"], piece_scores(document, 1 + max(document["model"]["vocab"].values()))
    merges = [(text[:cut], text[cut:]) for text in sorted(vocab, key=lambda text: -scores[vocab[text]]) for cut in range(len(text) - 1, 0, -1)]
    document["model"]["merges"] = [list(pair) for pair in merges if all(part in vocab for part in pair)]
    (out / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    return out


def tokenizer_keys(writer: Writer, source: Path, n_ids: int) -> None:
    file, tokens, kinds = writer.file, [f"[PAD{i}]" for i in range(n_ids)], [gguf.TokenType.UNUSED] * n_ids
    config, document = read_json(source / "tokenizer_config.json"), read_json(source / "tokenizer.json")
    merges: list[str] = []
    scored = document.get("model", {}).get("byte_fallback", False)

    def put(i: int, text: str, kind: gguf.TokenType) -> None:
        tokens[i], kinds[i] = text, kind

    if document:
        for text, i in document["model"]["vocab"].items():
            put(i, text, gguf.TokenType.BYTE if scored and looks_like_byte(text) else gguf.TokenType.NORMAL)
        added = {entry["id"]: entry for entry in document["added_tokens"]}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in document["model"]["merges"]]
    else:
        names, added = byte_names(), {}
        for line in (source / "tiktoken.model").read_text().split("\n"):
            if line:
                code, rank = line.split()
                put(int(rank), "".join(names[byte] for byte in base64.b64decode(code)), gguf.TokenType.NORMAL)
        first = sum(kind == gguf.TokenType.NORMAL for kind in kinds)
        added = {i: {"content": f"<|reserved_token_{i}|>", "special": True} for i in range(first, first + 256) if i < n_ids}
        added |= {int(i): entry for i, entry in config.get("added_tokens_decoder", {}).items()}
    for i, entry in added.items():
        special = entry.get("special") or looks_special(entry["content"])
        put(i, entry["content"], gguf.TokenType.CONTROL if special else gguf.TokenType.USER_DEFINED)
    patterns = {"qwen35": "p{M}", "chatglm-bpe": "p{N}{1,3}", "qwen2": ""} if document else {"kimi-k2": ""}
    pre = next(name for name, part in patterns.items() if part in json.dumps(document))
    file.add_tokenizer_model("llama" if scored else "gpt2")
    file.add_tokenizer_pre("default" if scored else pre)
    file.add_token_list(tokens)
    file.add_token_types(kinds)
    if scored:
        file.add_token_scores(piece_scores(document, n_ids))
    else:
        file.add_token_merges(merges or ["a b"])
    eos = config.get("eos_token")
    if eos in tokens:
        file.add_eos_token_id(tokens.index(eos))
    template = source / "chat_template.jinja"
    text = template.read_text(encoding="utf-8") if template.exists() else config.get("chat_template")
    if text:
        file.add_chat_template(text)


def vision_keys(writer: Writer, source: Path, root: dict) -> None:
    file, vision, kind = writer.file, root["vision_config"], root["model_type"]
    processor = read_json(source / "preprocessor_config.json")
    hidden = root.get("text_config", root)["hidden_size"]
    file.add_type(gguf.GGUFType.MMPROJ)
    file.add_clip_has_vision_encoder(True)
    file.add_clip_projector_type(PROJECTORS[kind])
    file.add_vision_projection_dim(hidden)
    file.add_vision_patch_size(vision["patch_size"])
    # What the converter takes for the widths of the tower and of its feed-forward layers:
    # Qwen2-VL's and dots.ocr's hidden_size is the language model's.
    file.add_vision_embedding_length(vision["embed_dim" if kind == "qwen2_vl" else "hidden_size"])
    file.add_vision_feed_forward_length(vision["hidden_size" if kind == "qwen2_vl" else "intermediate_size"])
    file.add_vision_block_count(vision.get("depth", vision.get("num_hidden_layers")))
    file.add_vision_head_count(vision.get("num_heads", vision.get("num_attention_heads")))
    file.add_vision_image_mean(processor["image_mean"])
    file.add_vision_image_std(processor["image_std"])
    eps = vision.get("rms_norm_eps", 1e-6) if kind in ("glm_ocr", "dots_ocr") else 1e-5 if kind == "lighton_ocr" else 1e-6
    file.add_vision_attention_layernorm_eps(eps)
    if kind == "kimi_vl":
        file.add_vision_use_gelu(True)
        file.add_vision_projector_scale_factor(vision["merge_kernel_size"][0])
        file.add_vision_max_pixels(processor["in_token_limit"] * vision["patch_size"] ** 2)
        return
    size = processor.get("size", {})
    if kind == "lighton_ocr":
        file.add_vision_use_silu(True)
        file.add_vision_image_size(size["longest_edge"])
        file.add_vision_spatial_merge_size(root["spatial_merge_size"])
        return
    file.add_vision_min_pixels(processor.get("min_pixels", size.get("shortest_edge")))
    file.add_vision_max_pixels(processor.get("max_pixels", size.get("longest_edge")))
    if kind == "dots_ocr":
        file.add_vision_use_silu(True)
        file.add_vision_projector_scale_factor(vision["spatial_merge_size"])
        return
    if kind in ("glm_ocr", "paddleocr_vl"):
        return
    file.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    if kind == "qwen2_5_vl":
        file.add_vision_use_silu(True)
        file.add_vision_n_wa_pattern(vision["fullatt_block_indexes"][0] + 1)
        file.add_vision_window_size(vision["window_size"])
    elif kind != "qwen2_vl":
        file.add_vision_use_gelu(True)
        file.add_vision_is_deepstack_layers([i in vision.get("deepstack_visual_indexes", []) for i in range(vision["depth"])])


# ---- tensors


def text_tensor(writer: Writer, names: gguf.TensorNameMap, name: str, values: np.ndarray, text: dict) -> None:
    """name: below "model."; values: a float32 view."""
    if ".mlp.experts." in name and name.endswith("_proj") and text.get("model_type") == "qwen3_5_moe_text":
        values = values.transpose(0, 2, 1)  # as transformers holds them; others [experts, in, out]
    if name.endswith("mlp.experts.gate_up_proj"):
        base, half = name.rsplit(".", 1)[0], values.shape[-1] // 2
        for part, view in (("gate_proj", values[..., :half]), ("up_proj", values[..., half:])):
            text_tensor(writer, names, f"{base}.{part}.weight", view.transpose(0, 2, 1), text)
        return
    if name.endswith("mlp.experts.down_proj"):
        text_tensor(writer, names, f"{name}.weight", values.transpose(0, 2, 1), text)
        return
    if name.endswith("kv_b_proj.weight"):
        heads = values.reshape(text["num_attention_heads"], -1, values.shape[-1])
        keys, rest = heads[:, : text["qk_nope_head_dim"]], heads[:, text["qk_nope_head_dim"] :]
        text_tensor(writer, names, name.replace("kv_b", "k_b"), keys.transpose(0, 2, 1), text)
        text_tensor(writer, names, name.replace("kv_b", "v_b"), rest, text)
        return
    name = name.replace("dt_bias", "dt_proj.bias").replace("A_log", "A_log.").replace("e_score_correction_bias", "e_score_correction.bias")
    stem, end = name.rsplit(".", 1)
    shown = names.get_name(stem)
    if not shown:  # dense layers of mixtures have no name in the converter
        shown = f"blk.{stem.split('.')[2]}.ffn_{stem.split('.')[-1].removesuffix('_proj')}"
    shown = f"{shown}.{end}" if end else shown
    if "linear_attn" in name and not name.endswith("norm.weight"):
        delta_tensor(writer, shown, name.removesuffix("."), values, text)
        return
    if text.get("model_type") == "glm_ocr_text" and name.endswith(("q_proj.weight", "k_proj.weight")):
        rotated_tensor(writer, shown, values, head_dim(text), pairs=True)
        return
    if "linear_num_key_heads" in text and name.endswith("norm.weight") and "linear_attn" not in name:
        values = values + np.float32(1)
    writer.tensor(shown, values, plain="norm" in stem or stem.endswith(("mlp.gate", "correction", "shared_expert_gate")))


DRAFT_HEAD = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head_norm"}


def draft_tensor(writer: Writer, names: gguf.TensorNameMap, name: str, values: np.ndarray, text: dict) -> None:
    """A draft head's layers are counted after the model's own. The names are those of packages
    after 0.19."""
    parts, n_layers = name.split(".", 3), text["num_hidden_layers"]
    if parts[1] == "layers":
        text_tensor(writer, names, f"model.layers.{n_layers + int(parts[2])}.{parts[3]}", values, text)
        return
    norm = "norm" in parts[1]
    writer.tensor(f"blk.{n_layers}.nextn.{DRAFT_HEAD[parts[1]]}.weight", values + np.float32(1) if norm else values, plain=norm)


def rotated_tensor(writer: Writer, shown: str, values: np.ndarray, n_rows: int, pairs: bool) -> None:
    """Of queries or keys: a head's rows that rotate together, side by side in the checkpoint, in
    halves in the file; or, not pairs, the other way round."""
    grid = (-1, n_rows // 2, 2) if pairs else (-1, 2, n_rows // 2)
    order = np.arange(len(values)).reshape(grid).swapaxes(1, 2).ravel()
    stored = values[order]
    writer.tensor(shown, stored)
    values[order] = stored


def value_head_order(name: str, values: np.ndarray, text: dict) -> tuple[np.ndarray, int]:
    """Places and their axis: the value heads in the order of ggml's broadcast, the first one of
    every key head, then the second ones."""
    n_keys, axis = text["linear_num_key_heads"], int("out_proj" in name)
    fixed = 2 * n_keys * text["linear_key_head_dim"] if "conv1d" in name or "in_proj_qkv" in name else 0
    heads = np.arange(fixed, values.shape[axis]).reshape(n_keys, text["linear_num_value_heads"] // n_keys, -1)
    return np.concatenate([np.arange(fixed), heads.swapaxes(0, 1).ravel()]), axis


def delta_tensor(writer: Writer, shown: str, name: str, values: np.ndarray, text: dict) -> None:
    """Of a gated delta net, all but its norm."""
    if "conv1d" in name:
        values = values.reshape(len(values), -1)
    order, axis = value_head_order(name, values, text)
    stored = np.take(values, order, axis)
    if name.endswith("A_log"):
        stored = -np.exp(stored.astype(np.float64)).astype(np.float32)
    writer.tensor(shown, stored, plain="conv1d" in name)
    if values.ndim == 2:
        values[(slice(None), order) if axis else order] = stored


def stack_experts(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The experts' matrices of a layer above each other, and every one a view into that."""
    stacks: dict[str, list[str]] = {}
    for name in tensors:
        if ".mlp.experts." in name and name.split(".mlp.experts.")[1][0].isdigit():
            layer, rest = name.split(".mlp.experts.")
            number, part = rest.split(".", 1)
            stacks.setdefault(f"{layer}.mlp.experts.{part}", []).append((int(number), name))
    merged = {}
    for stack, parts in stacks.items():
        merged[stack] = np.stack([tensors[name] for _, name in sorted(parts)])
        for number, name in parts:
            tensors[name] = merged[stack][number]
    taken = {name for parts in stacks.values() for _, name in parts}
    return {name: tensor for name, tensor in tensors.items() if name not in taken} | merged


# Where a tower's tensors are called otherwise than the converter's map of names has them.
RENAMED = {"visual.vision_model": "model.vision_model", "projector.": "mlp_AR.", "vision_encoder.": "vision_tower.", "vision_projection.": "multi_modal_projector."}
FEED_FORWARD = {"mlp.fc1": "mlp.gate_proj", "mlp.fc2": "mlp.down_proj", "mlp.fc3": "mlp.up_proj"}


def tower_name(name: str, family: str) -> str:
    """As the converter asks its map for it."""
    if family in ("lighton_ocr", "paddleocr_vl"):
        name = next((new + name[len(old) :] for old, new in RENAMED.items() if name.startswith(old)), name)
    if family == "dots_ocr" and ".mlp." in name and ".blocks." in name:
        name = name.replace("vision_tower.", "visual.")
        return next(name.replace(old, new) for old, new in FEED_FORWARD.items() if old in name)
    return name


def vision_tensor(writer: Writer, names: gguf.TensorNameMap, name: str, values: np.ndarray, root: dict) -> None:
    vision, family = root["vision_config"], root["model_type"]
    name = tower_name(name, family)
    stem, end = name.rsplit(".", 1)
    if name.startswith("visual.deepstack_merger_list."):
        number, part = stem.split(".")[2:4]
        layer = vision["deepstack_visual_indexes"][int(number)]
        writer.tensor(f"v.deepstack.{layer}.{part.replace('linear_', '')}.{end}", values, plain=part == "norm")
    elif stem in ("visual.merger.linear_fc1", "visual.merger.linear_fc2", "visual.merger.norm"):
        shown = {"linear_fc1": "mm.0", "linear_fc2": "mm.2", "norm": "v.post_ln"}[stem.rsplit(".", 1)[1]]
        writer.tensor(f"{shown}.{end}", values, plain="ln" in shown)
    elif stem == "visual.patch_embed.proj" and values.ndim == 5:
        writer.tensor("v.patch_embd.weight", values[:, :, 0], plain=True)
        writer.tensor("v.patch_embd.weight.1", values[:, :, 1], plain=True)
    elif stem.endswith("qkv") and family in ("qwen2_vl", "qwen2_5_vl", "kimi_vl"):
        third = values.shape[0] // 3
        for i, part in enumerate("qkv"):
            vision_tensor(writer, names, f"{stem.replace('qkv', part)}.{end}", values[i * third : (i + 1) * third], root)
    elif family == "lighton_ocr" and stem.endswith(("q_proj", "k_proj")):
        rotated_tensor(writer, f"{names.get_name(stem)}.{end}", values, vision["hidden_size"] // vision["num_attention_heads"], pairs=False)
    else:
        plain = values.ndim == 4 or any(part in stem for part in ("norm", "pos_emb", "position_embedding", "patch_embed"))
        writer.tensor(f"{names.get_name(stem)}.{end}", values.reshape(-1, values.shape[-1]) if "pos_emb" in stem else values, plain)


IN_TOWER = ("visual.", "vision_tower.", "vision_encoder.", "vision_projection.", "multi_modal", "mlp_AR.", "projector.")


def convert(source: Path, out: Path, kind: str, plain_copy: Path | None = None) -> tuple[Path, Path]:
    """Writes OUT/model.gguf and OUT/mmproj.gguf with matrices of `kind`, and the directory that
    means the same to plain_copy."""
    root = read_json(source / "config.json")
    text, family = root.get("text_config", root), root["model_type"]
    tensors = {name: np.array(tensor, np.float32) for name, tensor in read_tensors(source, draft_head=True).items()}
    out.mkdir(parents=True, exist_ok=True)
    model = Writer(out / "model.gguf", ARCHITECTURES[family], kind)
    mmproj = Writer(out / "mmproj.gguf", "clip", kind)
    drafting = draft_layers(text, tensors)
    text_keys(model, root, family == "kimi_vl", drafting)
    tokenizer_keys(model, source, text["vocab_size"])
    vision_keys(mmproj, source, root)
    text_names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, ARCHITECTURES[family].upper()), text["num_hidden_layers"] + drafting)
    vision_names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 64)
    tied = root.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
    for name, values in stack_experts(tensors).items():
        short = name.removeprefix("language_model.").replace("model.language_model.", "model.").replace("model.visual.", "visual.")
        if short.startswith("mtp."):
            draft_tensor(model, text_names, short, values, text)
        elif any(part in short for part in IN_TOWER):
            vision_tensor(mmproj, vision_names, short.removeprefix("model."), values, root)
        elif short != "lm_head.weight" or not tied:
            text_tensor(model, text_names, short, values, text)
    model.close()
    mmproj.close()
    if plain_copy:
        copy_directory(source, plain_copy, tensors)
    return out / "model.gguf", out / "mmproj.gguf"


def simple_draft_head(source: Path, out: Path) -> Path:
    """A copy of a test checkpoint of Qwen3.5 in which no layer adds anything, and whose draft head
    is always right: a token follows from the one before it alone."""
    random, tensors = np.random.default_rng(3), {}
    for name, tensor in read_tensors(source, draft_head=True).items():
        ends = ("o_proj.weight", "out_proj.weight", "down_proj.weight")
        tensors[name] = np.zeros(tensor.shape, np.float32) if name.endswith(ends) else np.array(tensor, np.float32)
    final = tensors["model.language_model.norm.weight"]
    scale = random.uniform(0.5, 2.0, len(final)).astype(np.float32)
    tensors["mtp.pre_fc_norm_embedding.weight"] = scale - 1
    tensors["mtp.fc.weight"] = np.eye(len(final), 2 * len(final), dtype=np.float32)
    tensors["mtp.norm.weight"] = (1 + final) / scale - 1
    tensors["lm_head.weight"] = random.standard_normal(tensors["lm_head.weight"].shape, np.float32)
    copy_directory(source, out, tensors)
    return out


def widen_blocks(source: Path, out: Path) -> Path:
    """A test checkpoint of Qwen3-VL, dense or with experts, with random weights whose rows in the
    language model are whole blocks of 256 values: what Q4_K_M files need."""
    root, random = read_json(source / "config.json"), np.random.default_rng(7)
    text = root["text_config"]
    wide = {text["hidden_size"]: 256, text["intermediate_size"]: 512, text.get("moe_intermediate_size", 0): 512}
    text |= {key: wide[text[key]] for key in ("hidden_size", "intermediate_size", "moe_intermediate_size") if key in text}
    text["num_attention_heads"] = 256 // text["head_dim"]
    root["vision_config"]["out_hidden_size"] = 256
    tensors = {}
    for name, tensor in read_tensors(source).items():
        shape = list(tensor.shape)
        if "visual." in name:
            if "merger" in name and "linear_fc2" in name:
                shape[0] = 256
        elif name.endswith("gate_up_proj"):
            shape = [shape[0], 256, 1024]  # not square: its shape tells which way it lies
        elif name.endswith(("q_proj.weight", "o_proj.weight")):
            shape = [256, 256]
        elif not name.endswith(("q_norm.weight", "k_norm.weight")):
            shape = [wide.get(size, size) if name.endswith("experts.down_proj") or i or "proj" not in name or "mlp" in name else size
                     for i, size in enumerate(shape)]
        values = random.standard_normal(shape, np.float32)
        n_in = shape[-2] if ".experts." in name else int(np.prod(shape[1:]))
        tensors[name] = 1 + values / 10 if len(shape) == 1 else values / np.sqrt(n_in, dtype=np.float32)
    copy_directory(source, out, tensors)
    (out / "config.json").write_text(json.dumps(root), encoding="utf-8")
    return out


def widen_delta(source: Path, out: Path) -> Path:
    """The untied test checkpoint of Qwen3.5 with random weights whose rows in the language model
    are whole blocks of 256 values, four value heads of 64 in each of out_proj's."""
    root, random = read_json(source / "config.json"), np.random.default_rng(11)
    text = root["text_config"]
    narrow = text["hidden_size"], text["intermediate_size"]
    text |= {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 256 // text["head_dim"],
             "linear_key_head_dim": 32, "linear_value_head_dim": 64}
    root["vision_config"]["out_hidden_size"] = 256
    channels = 2 * 32 * text["linear_num_key_heads"] + 256
    shapes = {"q_proj.weight": (512, 256), "o_proj.weight": (256, 256), "in_proj_qkv.weight": (channels, 256), "in_proj_z.weight": (256, 256),
              "out_proj.weight": (256, 256), "linear_attn.norm.weight": (64,), "merger.linear_fc2.bias": (256,)}
    tensors = {}
    for name, tensor in read_tensors(source).items():
        shape = list(tensor.shape)
        if found := next((shapes[end] for end in shapes if name.endswith(end)), None):
            shape = list(found)
        elif "conv1d" in name:
            shape[0] = channels
        elif "merger.linear_fc2" in name:
            shape[0] = 256
        elif "language_model" in name or name == "lm_head.weight":
            shape = [256 if size in narrow else size for size in shape]
        values = random.standard_normal(shape, np.float32)
        tensors[name] = values / 10 if len(shape) == 1 else values / np.sqrt(np.prod(shape[1:]), dtype=np.float32)
    copy_directory(source, out, tensors)
    (out / "config.json").write_text(json.dumps(root), encoding="utf-8")
    return out


def widen_latent(source: Path, out: Path) -> Path:
    """The test checkpoint of Kimi-VL with random weights whose rows are whole blocks of 32 values,
    keys and values and experts too."""
    root, random = read_json(source / "config.json"), np.random.default_rng(3)
    text = root["text_config"]
    text |= {"hidden_size": 64, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "v_head_dim": 32, "moe_intermediate_size": 32, "intermediate_size": 96}
    hidden, rank, heads, rope = 64, 32, text["num_attention_heads"], text["qk_rope_head_dim"]
    wide = {"q_proj.weight": (heads * (32 + rope), hidden), "kv_a_proj_with_mqa.weight": (rank + rope, hidden),
            "kv_a_layernorm.weight": (rank,), "kv_b_proj.weight": (heads * 64, rank), "o_proj.weight": (hidden, heads * 32),
            "multi_modal_projector.linear_2.bias": (hidden,)}
    tensors = {}
    for name, tensor in read_tensors(source).items():
        shape = next((wide[end] for end in wide if name.endswith(end)), tensor.shape)
        inner = 32 if ".experts." in name else 64 if "shared_experts" in name else 96
        if name.startswith("multi_modal_projector.linear_2.weight"):
            shape = (hidden, tensor.shape[1])
        elif name.startswith("language_model") and ("norm.weight" in name or "layernorm" in name) and "kv_a" not in name:
            shape = (hidden,)
        elif name.endswith(("embed_tokens.weight", "lm_head.weight", "mlp.gate.weight")):
            shape = (tensor.shape[0], hidden)
        elif name.startswith("language_model") and name.endswith(("gate_proj.weight", "up_proj.weight")):
            shape = (inner, hidden)
        elif name.startswith("language_model") and name.endswith("down_proj.weight"):
            shape = (hidden, inner)
        values = random.standard_normal(shape, np.float32)
        tensors[name] = 1 + values / 10 if len(shape) == 1 and "norm" in name else values / np.sqrt(shape[-1], dtype=np.float32)
    copy_directory(source, out, tensors)
    (out / "config.json").write_text(json.dumps(root), encoding="utf-8")
    return out


def widen_pairs(source: Path, out: Path) -> Path:
    """The untied test checkpoint of GLM-OCR with random weights whose rows in the language model
    are whole blocks of 256 values."""
    root, random = read_json(source / "config.json"), np.random.default_rng(13)
    text = root["text_config"]
    narrow, inner = text["hidden_size"], text["intermediate_size"]
    text |= {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 256 // text["head_dim"]}
    root["vision_config"]["out_hidden_size"] = 256
    shapes = {"q_proj.weight": [256, 256], "o_proj.weight": [256, 256]}
    tensors = {}
    for name, tensor in read_tensors(source).items():
        merger = ".merger." in name
        wide = {narrow: 256, inner: 512, 2 * inner: 1024, 3 * narrow: 3 * 256 if merger else 1024}
        shape = [wide.get(size, size) for size in tensor.shape]
        shape = next((shapes[end] for end in shapes if name.endswith(end)), shape)
        values = random.standard_normal(shape, np.float32)
        tensors[name] = 1 + values / 10 if len(shape) == 1 else values / np.sqrt(np.prod(shape[1:]), dtype=np.float32)
    copy_directory(source, out, tensors)
    (out / "config.json").write_text(json.dumps(root), encoding="utf-8")
    return out


def copy_directory(source: Path, out: Path, tensors: dict[str, np.ndarray]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.suffix in (".json", ".jinja", ".model") and "safetensors" not in path.name:
            shutil.copy(path, out / path.name)
    write_tensors(out / "model.safetensors", tensors)
