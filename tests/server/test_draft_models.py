"""Draft heads of GGUF files, which draft what those of the checkpoint draft, and draft models: no
draft changes an answer."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from images import data_url, png
from test_many import LONG, at_once, chat, text
from test_metrics import read

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden"
sys.path.insert(0, str(REPOSITORY / "tests" / "cli"))
from gguf_files import convert, read_tensors, simple_draft_head, write_tensors  # noqa: E402

HEAD = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}']


@pytest.fixture
def serve(omma, launch):
    return lambda *words: launch([omma, "serve", *map(str, words), "--dtype", "f32", "--host", "127.0.0.1", "--port", "0", "--served-model-name", "test-model"])


def drafts(server):
    samples, _ = read(server)
    return samples["vllm:spec_decode_num_draft_tokens_total"], samples["vllm:spec_decode_num_accepted_tokens_total"]


@pytest.mark.real_only
def test_draft_head_of_a_gguf_file(serve, tmp_path, kind):
    """Of a checkpoint whose head is always right, by its norms and by where the embedding goes in:
    so it is in the file too."""
    folder = simple_draft_head(GOLDEN / "qwen3_5_untied", tmp_path / "simple")
    model, mmproj = convert(folder, tmp_path / "gguf", "F32")
    answers = []
    for words in ([folder], [folder, *HEAD], [model, "--mmproj", mmproj, *HEAD]):
        server = serve(*words)
        answers.append([text(chat(server, LONG, max_tokens=80))])
        n_drafted, n_right = drafts(server)
        assert n_right == n_drafted and (n_drafted > 10) == (HEAD[0] in words)
        answers[-1].append(text(chat(server, LONG, max_tokens=40, temperature=0.8, seed=4)))
        server.stop()
    assert answers[1] == answers[0] and answers[2] == answers[0]


def draft_model(folder):
    return ["--speculative-config", json.dumps({"method": "draft_model", "model": str(folder), "num_speculative_tokens": 3})]


SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "count": {"type": "integer"}}, "required": ["name", "count"],
          "additionalProperties": False}


def answers(server):
    """One by one, with a shared beginning, then many at once, structured ones among them."""
    image = {"type": "image_url", "image_url": {"url": data_url(png(96, 64))}}
    asked = [(LONG, {}), (LONG + "Why?", {"temperature": 0.8, "seed": 4}), (LONG, {"frequency_penalty": 0.5, "logprobs": True, "top_logprobs": 2}),
             ([image, {"type": "text", "text": "What is it?"}], {}),
             ("Say it", {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}, "ignore_eos": False})]
    calls = [lambda content=content, fields=fields: chat(server, content, **{"max_tokens": 40} | fields) for content, fields in asked]
    return [(text(reply), reply.json["choices"][0]["logprobs"]) for reply in [call() for call in calls] + at_once(calls * 2)]


@pytest.mark.real_only
@pytest.mark.parametrize("model, draft", [("qwen3_vl_tied", "qwen3_vl_tied"), ("qwen3_vl_untied", "qwen2_5_vl_untied"), ("qwen3_5_untied", "qwen3_vl_heads")])
def test_drafts_of_a_draft_model_change_nothing(serve, tmp_path, kind, model, draft):
    """A model is right about itself, where it reads a text and nothing forbids tokens."""
    folder = tmp_path / "draft"
    shutil.copytree(GOLDEN / draft, folder)
    shutil.copy(GOLDEN / model / "tokenizer.json", folder)
    plain, drafting = serve(GOLDEN / model), serve(GOLDEN / model, *draft_model(folder))
    assert text(chat(drafting, LONG, max_tokens=60)) == text(chat(plain, LONG, max_tokens=60))
    n_drafted, n_right = drafts(drafting)
    assert n_drafted > 10 and (model != draft or n_right == n_drafted)
    assert answers(drafting) == answers(plain)


@pytest.mark.real_only
def test_draft_model_with_fewer_rows_beyond_the_tokens(serve, tmp_path, kind):
    """Here the model itself without any of them: it is right."""
    folder = tmp_path / "draft"
    shutil.copytree(GOLDEN / "qwen3_vl_untied", folder)
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    n_rows, n_tokens = config["text_config"]["vocab_size"], 1 + max(token["id"] for token in tokenizer["added_tokens"])
    assert n_tokens < n_rows
    config["text_config"]["vocab_size"] = n_tokens
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: tensor.astype("float32") for name, tensor in read_tensors(folder).items()}
    write_tensors(folder / "model.safetensors", {name: tensor[:n_tokens] if len(tensor) == n_rows else tensor for name, tensor in tensors.items()})
    plain, drafting = serve(GOLDEN / "qwen3_vl_untied"), serve(GOLDEN / "qwen3_vl_untied", *draft_model(folder))
    for settings in ({}, {"temperature": 0.8, "seed": 4}):
        assert text(chat(drafting, LONG, max_tokens=60, **settings)) == text(chat(plain, LONG, max_tokens=60, **settings))
    n_drafted, n_right = drafts(drafting)
    assert n_drafted > 10 and n_right > 0.8 * n_drafted


def changed_config(folder, **changes):
    shutil.copytree(GOLDEN / "qwen3_vl_tied", folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"] |= changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.real_only
def test_draft_models_that_do_not_fit(omma, tmp_path, kind):
    other = changed_config(tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    bare = changed_config(tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    for folder, message in [(other, "is another one than the model's"), (bare, "it has no tokenizer"),
                            (GOLDEN / "qwen3_5_tied", "layers with windows or recurrent states cannot draft"),
                            (changed_config(tmp_path / "short", max_position_embeddings=4096), "its context of 4096 tokens is shorter than the model's, 32768"),
                            (changed_config(tmp_path / "large", vocab_size=1024), "vocab_size 1024 is more than the model's, 544"),
                            (tmp_path / "none", "none/config.json: ")]:
        done = subprocess.run([omma, "serve", GOLDEN / "qwen3_vl_tied", "--port", "0", *draft_model(folder)], capture_output=True, check=False, timeout=60)
        assert done.returncode == 1 and message in done.stderr.decode() and done.stderr.count(b"\n") == 1, done.stderr
