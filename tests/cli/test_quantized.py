"""Whole quantised checkpoints: tiny models whose language model is packed as each known tool packs
it answer with the same bits as with the values written as f32. Layers whose sizes a form cannot
have stay as they are, next to quantised ones."""

import functools
import json
import re
import shutil

import numpy as np
import pytest
import quantize_checkpoint as q
from conftest import GOLDEN
from omma_program import refused

GROUP = 8
LINEAR = re.compile(r"_proj(_qkv|_z|_a|_b)?\.weight$")


def expect_name(name):
    """The linear layers that tools quantise: those of the language model but for the output layer
    and the routers."""
    return ".layers." in name and LINEAR.search(name) is not None and "visual" not in name and "vision" not in name


def fits(weight, group):
    return weight.shape[0] % 8 == 0 and weight.shape[1] % group == 0


def every_other(first, second):
    """Two forms in turn."""
    state = {"n": 0}

    def form(weight, name):
        state["n"] += 1
        return (first if state["n"] % 2 else second)(weight, name)

    return form


def plain(function, **options):
    return lambda weight, name: function(weight, **options)


def by_name(pattern, first, second):
    return lambda weight, name: (first if pattern in name else second)(weight, name)


def keep(weight, name):
    return None


def ordered_gptq(weight, name):
    return q.gptq(weight, group=GROUP, symmetric=False, ids=np.random.default_rng(3).permutation(np.arange(weight.shape[1]) // GROUP))


int4 = plain(q.pack_quantized, group=GROUP)
INT4 = {"num_bits": 4, "strategy": "group", "group_size": GROUP}
FORMS = {
    "packed_int4": (int4, q.tensors_configs(q.tensors_config("pack-quantized", **INT4))),
    "packed_int4_zeros": (plain(q.pack_quantized, group=GROUP, symmetric=False),
                          q.tensors_configs(q.tensors_config("pack-quantized", **INT4, symmetric=False))),
    "packed_int8": (plain(q.pack_quantized, bits=8, group=0), q.tensors_configs(q.tensors_config("pack-quantized"))),
    "int8": (plain(q.int_quantized), q.tensors_configs(q.tensors_config("int-quantized"))),
    "float8": (plain(q.fp8, block=(1, 0), suffix=".weight_scale", scale_type=q.BF16),
               q.tensors_configs(q.tensors_config("float-quantized", type="float"))),
    "mixed": (by_name("mlp", int4, by_name("q_proj", plain(q.int_quantized), keep)),
              q.tensors_configs(q.tensors_config("pack-quantized", ["re:.*mlp.*"], **INT4), q.tensors_config("int-quantized", ["re:.*q_proj$"]))),
    "fp8": (plain(q.fp8, block=(16, 16)), q.fp8_config((16, 16))),
    "fp8_tensor": (plain(q.fp8, block=(0, 0), suffix=".weight_scale"), q.fp8_config((0, 0), activation_scheme="static")),
    "awq": (plain(q.awq, group=GROUP), q.awq_config(GROUP)),
    "gptq": (every_other(plain(q.gptq, group=GROUP), keep), q.gptq_config(group=GROUP)),
    "gptq_int8_v2": (plain(q.gptq, bits=8, group=0, version=2), q.gptq_config(8, 0, 2)),
    "gptq_ordered": (ordered_gptq, q.gptq_config(group=GROUP, sym=False, desc_act=True)),
}
MODELS = ["qwen3_vl_untied", "qwen2_5_vl_untied", "kimi_vl", "qwen3_vl_moe", "qwen3_5_tied", "qwen3_5_moe_wide"]
# Golden models whose experts are not as wide as formats need: other widths, of drawn weights.
WIDER = {"qwen3_5_moe_wide": ("qwen3_5_moe", {"moe_intermediate_size": 24, "shared_expert_intermediate_size": 32})}


def golden_of(model):
    return GOLDEN / WIDER.get(model, (model,))[0]


def widen(model, tensors):
    sizes, random = WIDER[model][1], np.random.default_rng(5)
    config = json.loads((golden_of(model) / "config.json").read_text())["text_config"]
    for name, array in tensors.items():
        if ".mlp." not in name or not name.endswith("_proj.weight"):
            continue
        shape = [next((wide for key, wide in sizes.items() if config[key] == size), size) for size in array.shape]
        tensors[name] = (random.standard_normal(shape) / np.sqrt(shape[1])).astype(array.dtype)


@functools.cache
def weights_of(model):
    """Without a draft head, which tools leave as it is."""
    tensors = {}
    for path in sorted(golden_of(model).glob("model*.safetensors")):
        tensors.update({name: array for name, array in q.read_safetensors(path).items() if not name.startswith("mtp.")})
    if model in WIDER:
        widen(model, tensors)
    return tensors


def copy_files(model, folder):
    folder.mkdir()
    for path in golden_of(model).iterdir():
        if path.suffix != ".safetensors" and path.name != "model.safetensors.index.json":
            shutil.copy(path, folder)
    if model in WIDER:
        config = json.loads((folder / "config.json").read_text())
        config["text_config"] |= WIDER[model][1]
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_checkpoint(model, folder, tensors, config=None):
    copy_files(model, folder)
    q.write_safetensors(folder / "model.safetensors", tensors)
    if config:
        whole = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**whole, "quantization_config": config}))
    return folder


def quantise(model, form, group=GROUP):
    """Its tensors quantised, and with the values of these, and how many layers that are."""
    stored, values, n = {}, {}, 0
    for name, array in sorted(weights_of(model).items()):
        stored[name] = values[name] = array
        done = None
        if expect_name(name) and fits(array, group):
            done = form(array.astype(np.float32), name)
        elif form is FORMS["fp8"][0] and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            done = q.fp8_experts(array.astype(np.float32), (16, 16))
        if done:
            del stored[name]
            stored.update({name.removesuffix(".weight") + suffix: part for suffix, part in done[0].items()})
            values[name] = done[1]
            n += 1
    return stored, values, n


def answers(omma, folder, tmp_path, *words):
    """What is generated, with log-probabilities."""
    content = [{"type": "image_url", "image_url": {"url": f"file://{GOLDEN}/images/meadow_163x97.jpg"}}, {"type": "text", "text": "two red"}]
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 6, "temperature": 0, "ignore_eos": True, "logprobs": True, "top_logprobs": 5}
    given, made = tmp_path / "in.jsonl", tmp_path / f"{folder.name}.jsonl"
    given.write_text(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}) + "\n")
    made.unlink(missing_ok=True)  # what is there would not be asked for again
    done = omma("batch", folder, "-i", given, "-o", made, "--served-model-name", "m", "--allowed-local-media-path", GOLDEN,
                "--max-model-len", "512", *words)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(made.read_text())["response"]["body"]["choices"]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_quantised_checkpoints_answer_as_their_values(omma, tmp_path, model, form):
    pack, config = FORMS[form]
    stored, values, n = quantise(model, pack)
    assert n >= 3
    quantised = write_checkpoint(model, tmp_path / "quantised", stored, config)
    dense = write_checkpoint(model, tmp_path / "dense", values)
    assert answers(omma, quantised, tmp_path, "--dtype", "f32") == answers(omma, dense, tmp_path, "--dtype", "f32")


@pytest.mark.parametrize("model, form, kept", [("kimi_vl", "packed_int4", "int4"), ("kimi_vl", "int8", "int8"), ("kimi_vl", "fp8", "bf16"),
                                               ("qwen3_vl_wide", "packed_int4_zeros", "int4"), ("qwen3_vl_wide", "gptq_int8_v2", "int8"),
                                               ("qwen3_vl_wide", "awq", "int4"), ("qwen3_vl_wide", "mixed", "int4")])
def test_integers_stay_integers(omma, tmp_path, model, form, kept):
    """Groups of 16, the least that layers of integers have: weights take less, and answers are near
    those with the values."""
    pack, config = FORMS[form]
    int4_g16 = {"num_bits": 4, "strategy": "group", "group_size": 16}
    if form.startswith("packed_int4"):
        symmetric = form == "packed_int4"
        pack = plain(q.pack_quantized, group=16, symmetric=symmetric)
        config = q.tensors_configs(q.tensors_config("pack-quantized", **int4_g16, symmetric=symmetric))
    elif form == "awq":
        pack, config = plain(q.awq, group=16), q.awq_config(16)
    elif form == "mixed":
        pack = by_name("mlp", plain(q.pack_quantized, group=16), by_name("q_proj", plain(q.int_quantized), keep))
        config = q.tensors_configs(q.tensors_config("pack-quantized", ["re:.*mlp.*"], **int4_g16),
                                   q.tensors_config("int-quantized", ["re:.*q_proj$"]))
    stored, _, _ = quantise(model, pack, group=16)
    folder = write_checkpoint(model, tmp_path / "m", stored, config)
    integers, values = answers(omma, folder, tmp_path), answers(omma, folder, tmp_path, "--dtype", "f32")
    first = [[top["logprob"] for top in choice[0]["logprobs"]["content"][0]["top_logprobs"]] for choice in (integers, values)]
    assert max(abs(a - b) for a, b in zip(*first)) < 0.5
    info = json.loads(omma("info", "--model", folder, "--json").stdout)["model"]
    assert info["kept_weights"] == kept
    plain_info = json.loads(omma("info", "--model", GOLDEN / model, "--json").stdout)["model"]
    if kept != "bf16":
        assert info["weight_bytes"] < plain_info["weight_bytes"]


@pytest.mark.parametrize("form", sorted(FORMS))
def test_integers_are_kept_unless_f32_is_asked_for(omma, tmp_path, form):
    """Inputs in 8 bits move the answer a little: what comes first stays near."""
    pack, config = FORMS[form]
    stored, values, _ = quantise("qwen3_vl_untied", pack)
    folder = write_checkpoint("qwen3_vl_untied", tmp_path / "quantised", stored, config)
    kept, exact = (answers(omma, folder, tmp_path, "--dtype", dtype)[0]["logprobs"]["content"][0]["top_logprobs"][0]["logprob"]
                   for dtype in ("auto", "f32"))
    assert kept == pytest.approx(exact, abs=0.5)


def test_info_and_verify(omma, tmp_path):
    stored, _, _ = quantise("qwen3_vl_untied", FORMS["fp8_tensor"][0])
    stored = {**stored, **{name.replace("weight_scale", "input_scale"): array for name, array in stored.items() if name.endswith("weight_scale")}}
    folder = write_checkpoint("qwen3_vl_untied", tmp_path / "m", stored, FORMS["fp8_tensor"][1])
    assert b"fp8: 8-bit floats" in omma("info", "--model", folder).stdout
    plan = omma("plan", "--model", folder, "--json")
    assert plan.returncode == 0, plan.stderr
    assert [choice["name"] for choice in json.loads(plan.stdout)["choices"]] == ["f32", "as stored"]
    assert json.loads(omma("info", "--model", folder, "--json").stdout)["model"]["quantization"].startswith("fp8: ")
    assert omma("plan", folder, "64x64", "-q", "fp8").returncode == 0
    for name, why in (("awq", b"quantised otherwise, fp8: "), ("int4", b"quantised already, fp8: ")):
        done = omma("plan", folder, "64x64", "-q", name)
        assert done.returncode == 1 and why in done.stderr
    done = omma("verify", "--model", folder)
    assert done.returncode == 0, done.stdout
    codes = next(name for name in stored if name.endswith("up_proj.weight"))
    stored[codes] = stored[codes].copy()
    stored[codes].view(np.uint8)[0, :3] = 0x7f
    q.write_safetensors(folder / "model.safetensors", stored)
    done = omma("verify", "--model", folder)
    assert done.returncode == 1
    assert b"3 values are NaN or infinite" in done.stdout


def test_scales_that_are_not_finite_are_reported_once(omma, tmp_path):
    stored, _, _ = quantise("qwen3_vl_untied", int4)
    name = next(name for name in stored if name.endswith("weight_scale"))
    stored[name] = np.full_like(stored[name], np.nan)
    folder = write_checkpoint("qwen3_vl_untied", tmp_path / "m", stored, FORMS["packed_int4"][1])
    refused(omma("chat", "--model", folder, "--prompt", "x"), 1, name, "of its scales are NaN or infinite")
