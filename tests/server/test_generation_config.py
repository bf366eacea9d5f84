"""generation_config.json as vLLM reads it: what counts where a request does not say how it is
sampled, and the flags that change it."""

import json
import pathlib
import shutil
import subprocess

import pytest
from images import image_part
from server_process import ServerProcess, check_output

VALUES = {"temperature": 1.7, "top_p": 0.9, "top_k": 30, "min_p": 0.02, "repetition_penalty": 1.2, "presence_penalty": 0.5,
          "frequency_penalty": 0.25}
# The model's stop tokens remain; do_sample means nothing.
FILE = {"do_sample": False, **VALUES, "max_new_tokens": 7}


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    """The model with a generation_config.json of its own."""
    folder = tmp_path_factory.mktemp("generation") / "model"
    shutil.copytree(model, folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **FILE}))
    return folder


@pytest.fixture(scope="module")
def serve(omma, folder):
    """serve(word, ...) gives a server of that model with these options, one for the same ones."""
    processes = {}

    def serve(*words):
        if words not in processes:
            processes[words] = ServerProcess([omma, "serve", str(folder), "--host", "127.0.0.1", "--port", "0", *words])
        return processes[words]

    yield serve
    for process in processes.values():
        process.stop()
        check_output(process)


@pytest.fixture
def omma_json(omma):
    """omma_json(word, ...) runs the program and gives what it prints."""
    return lambda *words: json.loads(subprocess.run([omma, *words], check=True, capture_output=True).stdout)


def answer(server, **fields):
    reply = server.chat("tell me about the sea", seed=5, ignore_eos=True, **fields)
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"], reply.json["usage"]["completion_tokens"]


def test_the_demo_model_is_greedy_everywhere(omma, omma_json):
    demo = pathlib.Path(__file__).resolve().parent.parent.parent / "models/demo"
    image = (demo / "images/cross.png").read_bytes()
    question = "Where is the orange cross?"
    words = ["chat", "--model", str(demo), "--image", str(demo / "images/cross.png"), "--prompt", question, "--json"]
    said = omma_json(*words)["text"]
    server = ServerProcess([omma, "serve", str(demo), "--host", "127.0.0.1", "--port", "0"])
    answers = {server.chat(messages=[{"role": "user", "content": [image_part(image), {"type": "text", "text": question}]}], seed=seed)
               .json["choices"][0]["message"]["content"] for seed in range(6)}
    server.stop()
    check_output(server)
    assert answers == {said}


def test_the_files_values_count(serve):
    neutral = serve("--generation-config", "vllm")
    assert answer(serve()) == answer(neutral, **VALUES, max_tokens=7)
    assert answer(serve(), max_tokens=12) == answer(neutral, **VALUES, max_tokens=12)
    assert answer(neutral, max_tokens=12) == answer(neutral, max_tokens=12, temperature=1)
    # What a request sets goes before them, one by one.
    assert answer(serve(), max_tokens=12, temperature=0.3) == answer(neutral, max_tokens=12, **{**VALUES, "temperature": 0.3})
    assert answer(serve(), max_tokens=12, min_p=0) == answer(neutral, max_tokens=12, **{**VALUES, "min_p": 0})


def test_max_new_tokens_is_a_default(serve):
    assert answer(serve())[1] == 7 and answer(serve(), max_tokens=9)[1] == 9
    reply = serve().post("/v1/completions", {"model": "model", "prompt": "hello", "ignore_eos": True})
    assert reply.json["usage"]["completion_tokens"] == 16  # that endpoint's own default


def test_max_new_tokens_of_another_folder_is_a_bound(serve, tmp_path):
    (tmp_path / "generation_config.json").write_text(json.dumps({"max_new_tokens": 4, "temperature": 0}))
    server, neutral = serve("--generation-config", str(tmp_path)), serve("--generation-config", "vllm")
    assert answer(server) == answer(server, max_tokens=9) == answer(neutral, temperature=0, max_tokens=4)
    assert answer(server, max_tokens=3)[1] == 3
    reply = server.post("/v1/completions", {"model": "model", "prompt": "hello", "ignore_eos": True})
    assert reply.json["usage"]["completion_tokens"] == 4


def test_overrides(serve):
    neutral = serve("--generation-config", "vllm")
    server = serve("--override-generation-config", '{"temperature": 0.4, "top_k": null, "max_new_tokens": 5, "num_beams": 3}')
    values = {**VALUES, "temperature": 0.4, "top_k": 0}
    assert answer(server) == answer(server, max_tokens=9) == answer(neutral, **values, max_tokens=5)
    server = serve("--generation-config", "vllm", "--override-generation-config", '{"temperature": 0}')
    assert answer(server, max_tokens=6) == answer(neutral, max_tokens=6, temperature=0)


def test_chat_takes_the_files_values_too(omma_json, folder, model):
    words = ["chat", "--ignore-eos", "--json", "--prompt", "Hello", "--seed", "3"]
    flags = [word for key, value in VALUES.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    given = omma_json(*words, "--model", model, "--max-tokens", "7", *flags)
    assert omma_json(*words, "--model", str(folder))["token_ids"] == given["token_ids"] and len(given["token_ids"]) == 7
    greedy = omma_json(*words, "--model", model, "--max-tokens", "7")
    flags = ["--temperature", "0", "--repetition-penalty", "1", "--presence-penalty", "0", "--frequency-penalty", "0"]
    assert omma_json(*words, "--model", str(folder), *flags)["token_ids"] == greedy["token_ids"]


def test_info_shows_them(omma_json, folder):
    assert omma_json("info", "--model", str(folder), "--json")["model"]["sampling"] == {**VALUES, "max_tokens": 7}


def test_a_start_logs_them(serve):
    assert "temperature 1.7, top_p 0.9, top_k 30, min_p 0.02" in serve().read_output()
    assert "by generation_config.json: " in serve().read_output()
    assert "temperature" not in serve("--generation-config", "vllm").read_output()
    both = serve("--override-generation-config", '{"temperature": 0.4, "top_k": null, "max_new_tokens": 5, "num_beams": 3}')
    assert "by generation_config.json, overridden by --override-generation-config: " in both.read_output()
    flag = serve("--generation-config", "vllm", "--override-generation-config", '{"temperature": 0}').read_output()
    assert "by --override-generation-config: temperature 0" in flag and "(--generation-config" not in flag


@pytest.mark.parametrize("words, why", [
    (["--generation-config", "/nowhere"], "/nowhere"), (["--override-generation-config", "[1]"], "object"),
    (["--override-generation-config", '{"top_p": 2}'], "expected 0 to 1, found 2")])
def test_wrong_ones_are_refused(omma, folder, words, why):
    done = subprocess.run([omma, "serve", str(folder), "--port", "0", *words], capture_output=True, timeout=60)
    text = done.stderr.decode()
    assert done.returncode in (1, 2) and why in text and len(text.splitlines()) == 1, text


def test_other_overrides_are_logged(serve):
    server = serve("--override-generation-config", '{"temperature": 0.4, "top_k": null, "max_new_tokens": 5, "num_beams": 3}')
    assert '--override-generation-config: "num_beams" changes nothing here' in server.read_output()
