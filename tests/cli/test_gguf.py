"""Models in GGUF files: the same answers, to the last bit of every log probability, as the
checkpoints that they are made from.

Run with: pytest tests/cli --omma build/release/omma
"""

import base64
import json
import shutil

import gguf
import numpy as np
import pytest

from conftest import GOLDEN
from gguf_files import complete_merges, convert, copy_keys, finish, widen_blocks, widen_delta, widen_latent, widen_pairs
from omma_program import refused

# Checkpoints of every architecture whose shapes the converter can say.
CHECKPOINTS = ["qwen3_vl_tied", "qwen3_vl_wide", "qwen2_vl_untied", "qwen2_5_vl_untied", "qwen3_vl_moe", "kimi_vl", "qwen3_5_tied", "qwen3_5_untied",
               "qwen3_5_moe", "glm_ocr", "glm_ocr_saved", "lighton_ocr", "lighton_ocr_saved", "dots_ocr", "scored", "scored_saved"]
QUANTISED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "IQ4_NL", "F16", "BF16"]
# Checkpoints that are made of others.
MADE = {
    "scored": lambda out: complete_merges(GOLDEN / "paddleocr_vl", out),
    "scored_saved": lambda out: complete_merges(GOLDEN / "paddleocr_vl_saved", out),
    "wide_delta": lambda out: widen_delta(GOLDEN / "qwen3_5_untied", out),
    "wide_latent": lambda out: widen_latent(GOLDEN / "kimi_vl", out),
    "wide_blocks": lambda out: widen_blocks(GOLDEN / "qwen3_vl_tied", out),
    "wide_pairs": lambda out: widen_pairs(GOLDEN / "glm_ocr", out),
    "wide_experts": lambda out: widen_blocks(GOLDEN / "qwen3_vl_moe", out),
}
TEXTS = ["Hello world", " a  b\n\n\tc ", "ना म\u0301 naïve café — 日本語 текст 12345 <|im_end|>x<|im_start|>", "e\u0301 \u00e9 don't I'LL", "🎉" * 3]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """files(checkpoint, kind) -> the model's file, the mmproj's, a directory with the same weights
    and the checkpoint; made once."""
    made = {}

    def make(name, kind):
        if (name, kind) not in made:
            folder = tmp_path_factory.mktemp(f"{name}-{kind}")
            source = MADE[name](folder / "source") if name in MADE else GOLDEN / name
            made[name, kind] = (*convert(source, folder, kind, folder / "plain"), folder / "plain", source)
        return made[name, kind]

    return make


def question(i, content):
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 6, "temperature": 0}
    return {"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions",
            "body": body | {"logprobs": True, "top_logprobs": 5, "ignore_eos": True}}


def questions(images):
    image = base64.b64encode((images / "banner_150x40.png").read_bytes()).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    return [question(0, "Hello world"), question(1, [image, {"type": "text", "text": "What is it?"}])]


def answers(omma, folder, images, *words):
    """What every question is answered, with all log probabilities."""
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    out.unlink(missing_ok=True)
    source.write_text("".join(json.dumps(line) + "\n" for line in questions(images)))
    done = omma("batch", *words, "-i", source, "-o", out, "--served-model-name", "m")
    assert done.returncode == 0, done.stderr.decode()
    rows = {row["custom_id"]: row["response"]["body"] for row in map(json.loads, out.read_text().splitlines())}
    assert all(len(body["choices"][0]["logprobs"]["content"]) == 6 for body in rows.values())
    return {name: (body["choices"], body["usage"]) for name, body in rows.items()}


def given(made):
    return ["--model", made[0], "--mmproj", made[1]]


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("dtype", ["f32", "auto"])
def test_same_answers_as_the_checkpoint(omma, files, tmp_path, images, name, dtype):
    made = files(name, "F32")
    theirs = answers(omma, tmp_path, images, "--model", made[3], "--dtype", dtype)
    assert answers(omma, tmp_path, images, *given(made), "--dtype", dtype) == theirs


@pytest.mark.parametrize("kind", QUANTISED)
def test_same_answers_as_what_the_blocks_mean(omma, files, tmp_path, images, kind):
    made = files("qwen3_vl_tied", kind)
    theirs = answers(omma, tmp_path, images, "--model", made[2], "--dtype", "f32")
    assert answers(omma, tmp_path, images, *given(made), "--dtype", "f32") == theirs


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_integers_are_kept_as_they_are(omma, files, tmp_path, images, kind):
    """Without --dtype f32 inputs have 8 bits: near the same first token, in less memory than its
    values take."""
    made = files("qwen3_vl_tied", kind)
    theirs = answers(omma, tmp_path, images, "--model", made[2], "--dtype", "f32")
    ours = answers(omma, tmp_path, images, *given(made))
    for name, (choices, _) in theirs.items():
        first, expected = (c[0]["logprobs"]["content"][0]["logprob"] for c in (ours[name][0], choices))
        assert abs(first - expected) < 0.3, name
    bytes_kept = [omma.json("info", "--json", *words)["model"]["weight_bytes"] for words in (given(made), [*given(made), "--dtype", "f32"])]
    assert bytes_kept[0] < bytes_kept[1]


@pytest.mark.parametrize("name", ["qwen2_5_vl_untied", "wide_latent", "wide_delta", "wide_pairs", "scored_saved"])
def test_quantised_models_of_other_architectures(omma, files, tmp_path, images, name):
    made = files(name, "Q8_0")
    theirs = answers(omma, tmp_path, images, "--model", made[2], "--dtype", "f32")
    assert answers(omma, tmp_path, images, *given(made), "--dtype", "f32") == theirs
    assert omma.json("info", "--json", *given(made))["model"]["quantization"].startswith("gguf: ")
    answers(omma, tmp_path, images, *given(made))


def test_rows_that_change_places_in_a_quantised_tower(omma, files, tmp_path, images):
    made = files("lighton_ocr_saved", "Q8_0")
    assert {"v.blk.0.attn_q.weight", "v.blk.0.attn_k.weight"} <= {tensor.name for tensor in gguf.GGUFReader(made[1]).tensors if tensor.tensor_type.name == "Q8_0"}
    theirs = answers(omma, tmp_path, images, "--model", made[2], "--dtype", "f32")
    assert answers(omma, tmp_path, images, *given(made), "--dtype", "f32") == theirs


@pytest.mark.parametrize("name, kind", [("wide_blocks", "Q4_K+Q6_K"), ("wide_blocks", "Q2_K+Q3_K"), ("wide_experts", "Q3_K+Q5_K"), ("wide_experts", "Q4_K+Q6_K"), ("wide_experts", "Q5_K+IQ4_XS"), ("wide_delta", "Q4_K+Q6_K"), ("wide_pairs", "Q4_K+Q6_K")])
def test_blocks_of_256(omma, files, tmp_path, images, name, kind):
    """Two types in one file, as in Q4_K_M, experts too: exact in f32, near that and smaller as
    integers."""
    made = files(name, kind)
    theirs = answers(omma, tmp_path, images, "--model", made[2], "--dtype", "f32")
    assert answers(omma, tmp_path, images, *given(made), "--dtype", "f32") == theirs
    ours = answers(omma, tmp_path, images, *given(made))
    for request, (choices, _) in theirs.items():
        first, expected = (c[0]["logprobs"]["content"][0]["logprob"] for c in (ours[request][0], choices))
        assert abs(first - expected) < 0.3, request
    info, plain = (omma.json("info", "--json", *words)["model"] for words in (given(made), ["--model", made[2]]))
    for part in kind.split("+"):
        assert part in info["quantization"]
    assert info["weight_bytes"] < plain["weight_bytes"]


@pytest.mark.parametrize("name", ["qwen3_vl_tied", "kimi_vl", "qwen3_5_tied", "glm_ocr", "scored"])
def test_same_tokens(omma, files, name):
    made = files(name, "F32")
    for text in TEXTS:
        theirs = omma.json("tokenize", "--model", made[3], "--text", text)
        assert omma.json("tokenize", *given(made), "--text", text)["tokens"] == theirs["tokens"]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_same_model(omma, files, name):
    """What is printed of shapes, images, limits and sampling; a plan; a check of all tensors."""
    made = files(name, "F32")
    ours, theirs = (omma.json("info", "--json", *words)["model"] for words in (given(made), ["--model", made[3]]))
    for facts in (ours, theirs):
        for key in ("directory", "kept_weights", "weight_bytes", "memory", "opened_seconds", "published_values"):
            facts.pop(key, None)
    assert ours == theirs
    checked = omma("verify", *given(made))
    assert checked.returncode == 0, checked.stderr.decode()
    assert omma("plan", *given(made), "64x64").returncode == 0


def test_a_directory_of_two_files(omma, files, tmp_path, images):
    made = files("qwen3_vl_tied", "F32")
    folder = tmp_path / "model"
    folder.mkdir()
    for path in made[:2]:
        shutil.copy(path, folder)
    assert answers(omma, tmp_path, images, "--model", folder) == answers(omma, tmp_path, images, *given(made))
    shutil.copy(made[0], folder / "another.gguf")
    refused(omma("run", folder, "Hello"), 1, folder, "more than one language model", "--model FILE.gguf")
    for path in (folder / "another.gguf", folder / "model.gguf"):
        path.unlink()
    refused(omma("run", folder, "Hello"), 1, folder, "no language model")


def split(path, folder, n_parts):
    """The file cut into parts, as llama-gguf-split does it: keys in the first one."""
    reader = gguf.GGUFReader(path)
    per_part = -(-len(reader.tensors) // n_parts)
    for part in range(n_parts):
        name = folder / f"split-{part + 1:05d}-of-{n_parts:05d}.gguf"
        writer = copy_keys(reader, name) if part == 0 else gguf.GGUFWriter(name, "qwen3vl")
        writer.add_uint16("split.no", part)
        writer.add_uint16("split.count", n_parts)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in reader.tensors[part * per_part : (part + 1) * per_part]:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        finish(writer)


def test_a_model_in_parts(omma, files, tmp_path, images):
    made = files("qwen3_vl_tied", "Q8_0")
    split(made[0], tmp_path, 3)
    first, second, third = sorted(tmp_path.glob("split-*.gguf"))
    words = ["--mmproj", made[1]]
    assert answers(omma, tmp_path, images, "--model", first, *words) == answers(omma, tmp_path, images, *given(made))
    refused(omma("run", second, "Hello", *words), 1, second, "part 2 of 3", "give the first part")
    third.rename(tmp_path / "away.gguf")
    refused(omma("run", first, "Hello", *words), 1, third.name)
    shutil.copy(second, third)
    refused(omma("run", first, "Hello", *words), 1, third.name, "part 2 of 3, expected part 3 of 3")


def test_what_is_missing_is_said(omma, files, tmp_path):
    model, mmproj, plain, _ = files("qwen3_vl_tied", "F32")
    kimi = files("kimi_vl", "F32")
    refused(omma("run", model, "Hello"), 1, model, "--mmproj FILE.gguf")
    refused(omma("run", mmproj, "Hello", "--mmproj", mmproj), 1, mmproj, "the language model to --model")
    refused(omma("run", model, "Hello", "--mmproj", model), 1, model, "no vision tower")
    refused(omma("run", model, "Hello", "--mmproj", kimi[1]), 1, '"qwen3vl" with projector "kimivl" is not supported')
    refused(omma("run", plain, "Hello", "--mmproj", mmproj), 1, plain, "not a GGUF file")
    refused(omma("run", model, "Hello", "--mmproj", tmp_path / "none.gguf"), 1, "none.gguf")


def rewrite(source, target, changes=None, tensors=lambda tensors: tensors):
    """A copy with other keys, and other tensors: pairs of (name, data, type)."""
    reader = gguf.GGUFReader(source)
    writer = copy_keys(reader, target, changes)
    for name, data, kind in tensors([(tensor.name, tensor.data, tensor.tensor_type) for tensor in reader.tensors]):
        writer.add_tensor(name, data, raw_dtype=kind)
    finish(writer)
    return target


def fuse(tensors):
    """Gates and ups of experts in one tensor, as the converter's --fuse-gate-up-exps has it."""
    ups = {name: data for name, data, _ in tensors if "ffn_up_exps" in name}
    for name, data, kind in tensors:
        if "ffn_gate_exps" in name:
            yield name.replace("gate", "gate_up"), np.concatenate([data, ups[name.replace("gate", "up")]], axis=1), kind
        elif name not in ups:
            yield name, data, kind


@pytest.mark.parametrize("name, kind", [("qwen3_vl_moe", "F32"), ("kimi_vl", "F32"), ("wide_experts", "Q8_0")])
def test_fused_experts(omma, files, tmp_path, images, name, kind):
    made = files(name, kind)
    fused = rewrite(made[0], tmp_path / "fused.gguf", tensors=fuse)
    assert any("gate_up_exps" in tensor.name for tensor in gguf.GGUFReader(fused).tensors)
    assert answers(omma, tmp_path, images, *given((fused, made[1]))) == answers(omma, tmp_path, images, *given(made))


@pytest.mark.parametrize("name, changes, message", [
    ("qwen3_vl_tied", {"qwen3vl.n_deepstack_layers": 3}, "does not belong to this model: n_deepstack_layers is 3, the mmproj has"),
    ("qwen2_5_vl_untied", {"general.name": "Qwen2 VL 7B Instruct"}, "needs a tower of qwen2vl_merger, found qwen2.5vl_merger"),
    ("qwen2_vl_untied", {"general.name": "x", "general.basename": "Qwen2.5-VL"}, "needs a tower of qwen2.5vl_merger, found qwen2vl_merger"),
])
def test_halves_that_do_not_belong_together(omma, files, tmp_path, name, changes, message):
    made = files(name, "F32")
    changed = rewrite(made[0], tmp_path / "changed.gguf", changes)
    refused(omma("run", changed, "Hello", "--mmproj", made[1]), 1, changed, "does not belong to this model", message)


@pytest.mark.parametrize("name, changes", [
    ("qwen2_5_vl_untied", {"general.name": "Qwen2.5 VL 7B"}), ("qwen2_5_vl_untied", {"general.name": "MinerU 2"}),
    ("qwen2_vl_untied", {"general.basename": "Qwen2-VL"}), ("qwen3_vl_tied", {"general.name": "Qwen2 VL"}),
])
def test_halves_that_do(omma, files, tmp_path, name, changes):
    made = files(name, "F32")
    changed = rewrite(made[0], tmp_path / "changed.gguf", changes)
    done = omma("info", "--model", changed, "--mmproj", made[1])
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("key, value, message", [
    ("general.architecture", "llama", 'architecture "llama" with projector "qwen3vl_merger" is not supported; known: qwen2vl'),
    ("tokenizer.ggml.model", "bert", '"tokenizer.ggml.model": "bert" is not supported; known: gpt2, llama'),
    ("tokenizer.ggml.model", "llama", 'key "tokenizer.ggml.scores" is missing'),
    ("tokenizer.ggml.pre", "default", '"tokenizer.ggml.pre": "default" is not supported; known: qwen2, qwen35'),
    ("qwen3vl.block_count", None, 'key "qwen3vl.block_count" is missing'),
    ("qwen3vl.block_count", 4, 'tensor "model.layers.3.input_layernorm.weight" is missing'),
    ("qwen3vl.feed_forward_length", 32, "expected shape [32, 64], found [96, 64]"),
    ("tokenizer.chat_template", "{{ messages }", "a tag has no end"),
])
def test_wrong_keys(omma, files, tmp_path, key, value, message):
    made = files("qwen3_vl_tied", "F32")
    reader, changed = gguf.GGUFReader(made[0]), tmp_path / "changed.gguf"
    writer = copy_keys(reader, changed, {key: value})
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    finish(writer)
    refused(omma("run", changed, "Hello", "--mmproj", made[1]), 1, changed, message)


@pytest.mark.parametrize("key, value, message", [
    ("qwen35.ssm.group_count", 3, "to be a multiple of"),
    ("qwen35.ssm.group_count", None, 'key "qwen35.ssm.group_count" is missing'),
    ("qwen35.ssm.inner_size", 35, 'key "qwen35.ssm.inner_size": expected a multiple of ssm.time_step_rank'),
    ("qwen35.ssm.state_size", 100, "its shape does not go together with the sizes of heads"),
    ("qwen35.rope.dimension_count", None, 'key "qwen35.rope.dimension_count" is missing'),
])
def test_wrong_keys_of_gated_delta_nets(omma, files, tmp_path, key, value, message):
    made = files("qwen3_5_untied", "F32")
    changed = rewrite(made[0], tmp_path / "changed.gguf", {key: value})
    refused(omma("run", changed, "Hello", "--mmproj", made[1]), 1, changed, message)


@pytest.mark.parametrize("name, key, value, message", [
    ("glm_ocr", "glm4.attention.key_length", 24, 'key "glm4.rope.dimension_count": expected all of a head'),
    ("glm_ocr", "glm4.rope.dimension_count", 8, 'key "glm4.rope.dimension_count": expected all of a head'),
    ("scored", "tokenizer.ggml.scores", [0.0, 1.0], "2 scores of 544 tokens"),
    ("scored", "tokenizer.ggml.scores", [float("nan")] * 544, "expected a number"),
    ("scored", "tokenizer.ggml.token_type", [7] * 544, "token 0 has type 7: expected 1 to 6"),
])
def test_wrong_keys_of_document_models(omma, files, tmp_path, name, key, value, message):
    made = files(name, "F32")
    changed = rewrite(made[0], tmp_path / "changed.gguf", {key: value})
    refused(omma("run", changed, "Hello", "--mmproj", made[1]), 1, changed, message)


def test_halves_of_other_architectures_are_refused(omma, files):
    glm, lighton = files("glm_ocr", "F32"), files("lighton_ocr", "F32")
    refused(omma("run", glm[0], "Hello", "--mmproj", lighton[1]), 1, '"glm4" with projector "lightonocr" is not supported')


def test_layers_that_draft_are_not_counted(omma, files, tmp_path, images):
    """The converter counts the draft head as one more layer, also where the checkpoint lacks it."""
    made = files("qwen3_5_untied", "F32")
    assert gguf.GGUFReader(made[0]).fields["qwen35.nextn_predict_layers"].contents() == 1
    head = f"blk.{gguf.GGUFReader(made[0]).fields['qwen35.block_count'].contents() - 1}."
    without = rewrite(made[0], tmp_path / "without.gguf", tensors=lambda tensors: [entry for entry in tensors if not entry[0].startswith(head)])
    assert answers(omma, tmp_path, images, *given((without, made[1]))) == answers(omma, tmp_path, images, *given(made))
    asked = omma("batch", *given((without, made[1])), "-i", "/dev/null", "-o", tmp_path / "none", "--speculative-config",
                 '{"method": "mtp", "num_speculative_tokens": 1}')
    assert asked.returncode != 0 and b'"mtp.' in asked.stderr, asked.stderr


def test_every_tensor_of_a_draft_head_is_known(omma, files):
    for name in ("qwen3_5_tied", "qwen3_5_untied", "qwen3_5_moe"):
        done = omma("verify", *given(files(name, "F32")))
        assert done.returncode == 0, done.stdout + done.stderr


def test_draft_head_with_its_own_embeddings_is_refused(omma, files, tmp_path):
    made = files("qwen3_5_tied", "F32")
    own = rewrite(made[0], tmp_path / "own.gguf", tensors=lambda tensors: [*tensors, ("blk.4.nextn.embed_tokens.weight", tensors[0][1], tensors[0][2])])
    done = omma("serve", *given((own, made[1])), "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}')
    refused(done, 1, '"mtp_use_dedicated_embeddings": true is not supported')
