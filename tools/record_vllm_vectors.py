#!/usr/bin/env python3
"""Records what `vllm serve --runner pooling` answers to the requests of
tests/support/vector_requests.py, into tests/data/vectors/vllm_replies.json, which
tests/server/test_vectors.py compares with.

    tools/record_vllm_vectors.py model DIR                 makes the two checkpoints in DIR
    tools/record_vllm_vectors.py record embed|score URL    asks the server at URL for its half

The replies are vLLM 0.32's, with --dtype float32 --max-model-len 2048 --runner pooling
--served-model-name test-model, of DIR/Tiny-Embedding, and of DIR/Tiny-Reranker with
--hf-overrides '{"architectures": ["Qwen3VLForSequenceClassification"],
"classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}' and
--chat-template tests/data/vectors/reranker.jinja, the model's own form of prompts."""

import argparse
import json
import pathlib
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
import vector_cases
import vector_requests


def ask(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def without_images(value):
    """A reply repeats documents, images among them."""
    if isinstance(value, dict):
        return {key: "IMAGE" if key == "image_url" else without_images(member) for key, member in value.items()}
    return [without_images(member) for member in value] if isinstance(value, list) else value


def record(task, url):
    replies = json.loads(vector_requests.REPLIES.read_text()) if vector_requests.REPLIES.exists() else {}
    requests = {"embed": vector_requests.EMBED, "score": vector_requests.SCORE}[task]
    replies[task] = {}
    for name, (path, body) in requests.items():
        status, reply = ask(url, path, body)
        replies[task][name] = {"status": status, "reply": without_images(reply)}
    lines = [f'"{task}": {{\n' + ",\n".join(f"{json.dumps(name)}: {json.dumps(reply)}" for name, reply in replies[task].items()) + "\n}"
             for task in replies]
    vector_requests.REPLIES.write_text("{" + ",\n".join(lines) + "}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("model").add_argument("directory", type=pathlib.Path)
    recording = commands.add_parser("record")
    recording.add_argument("task", choices=["embed", "score"])
    recording.add_argument("url")
    given = parser.parse_args()
    if given.command == "record":
        return record(given.task, given.url)
    for name in ("Tiny-Embedding", "Tiny-Reranker"):
        vector_cases.make_model(given.directory / name)


if __name__ == "__main__":
    main()
