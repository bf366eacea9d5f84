#!/usr/bin/env python3
"""What the quantisation of the language model and of its KV cache costs in accuracy, on the demo
model and on the widths of released models.

    bench/quant_accuracy.py
    bench/quant_accuracy.py --questions 300 --methods int8,int4-g32 --json build/accuracy.json

Asks the demo model its own questions (tools/eval_demo.py), greedily, in bf16 and with each method:
answers that stay the same, and answers that are right. Then puts the bf16 answer's beginning before
each model, token by token, and compares what comes next: how often the likeliest token is the same,
and the mean Kullback-Leibler divergence from bf16, in thousandths of a nat. A server reports the 20
likeliest tokens; those that both have count one by one and the others together, which can only be
less than over the whole vocabulary. f32 is there to show what rounding alone does; kv-int8 is
bf16 with keys and values in int8, alone and with quantised weights (int8+kv-int8).

With --linear PROGRAM (build/release/tests/linear_accuracy) also the cosine between a linear layer's
output and the exact one, on the shapes of 2B and 8B models with random weights, and inputs of which
a few are large.

Needs NumPy and Pillow.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import math
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

from omma_program import add_omma_option, program
from same_image import names_of, positive
from tower_peers import existing

HERE = Path(__file__).resolve().parent
METHODS = {"f32": ["--dtype", "f32"]} | {name: ["--dtype", "bf16", "--quantization", name]
                                         for name in ("int8", "int4", "int4-g32", "int4-g64", "int4-g128")}
KV_INT8 = ["--kv-cache-dtype", "int8"]
METHODS |= {"kv-int8": ["--dtype", "bf16", *KV_INT8]} | {f"{name}+kv-int8": [*METHODS[name], *KV_INT8] for name in ("int8", "int4-g32")}
EXACT = ["--dtype", "bf16"]
MAX_TOP_LOGPROBS = 20  # top_logprobs of a server, at most
MAX_TOKENS = 64
START_SECONDS = 60


@dataclass
class Question:
    """A question, its answer in bf16, and the beginnings of that answer with what in bf16 comes
    next."""

    content: list[dict[str, Any]]
    right: str
    answer: str = ""
    beginnings: list[str] = field(default_factory=list)
    following: list[dict[tuple[int, ...], float]] = field(default_factory=list)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask_http(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"}), timeout=120) as reply:
        return json.loads(reply.read() or b"{}")


@contextmanager
def serving(arguments: argparse.Namespace, options: list[str]) -> Iterator[str]:
    """A server of the model on a port of its own, as long as the block lasts; its address."""
    port = free_port()
    command = [arguments.omma, "serve", arguments.model, "--host", "127.0.0.1", "--port", str(port), "--vision-dtype", "bf16",
               "--threads", str(arguments.threads), "--max-model-len", "2048", *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        url, end = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS
        while True:
            try:
                ask_http(f"{url}/v1/models")
                break
            except (urllib.error.URLError, ConnectionError):
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit(f"quant_accuracy.py: {' '.join(command)}\n{server.stderr.read() if server.poll() is not None else 'no answer'}")
                time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.wait()


def image_part(image: Any) -> dict[str, Any]:
    data = io.BytesIO()
    image.save(data, "PNG")
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()}}


def make_questions(n: int, seed: int) -> list[Question]:
    sys.path.insert(0, str(HERE.parent / "tools"))
    import eval_demo

    asked = eval_demo.make_questions(seed, n)
    if not asked:
        sys.exit(f"quant_accuracy.py: --questions {n} are too few for one of each kind: give 6 or more")
    return [Question([*map(image_part, a.images), {"type": "text", "text": a.question}], a.answer) for a in asked]


def complete(url: str, question: Question, beginning: str | None, n_tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": question.content}]
    body = {"messages": messages, "temperature": 0, "max_tokens": n_tokens, "logprobs": True, "top_logprobs": MAX_TOP_LOGPROBS}
    if beginning is not None:
        messages.append({"role": "assistant", "content": beginning})
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    return ask_http(f"{url}/v1/chat/completions", body)["choices"][0]


def next_tokens(url: str, question: Question, beginning: str) -> dict[tuple[int, ...], float]:
    """The likeliest tokens after a beginning of the answer, by their bytes, with their
    log-probabilities."""
    choice = complete(url, question, beginning, 1)
    content = choice["logprobs"]["content"]
    return {tuple(top["bytes"] or []): top["logprob"] for top in content[0]["top_logprobs"]} if content else {}


def ask_exact(url: str, questions: list[Question]) -> None:
    for question in questions:
        choice = complete(url, question, None, MAX_TOKENS)
        question.answer = choice["message"]["content"]
        text = ""
        for token in choice["logprobs"]["content"]:
            question.beginnings.append(text)
            text += token["token"]
        # The empty beginning is the question itself, which a message cannot continue.
        question.beginnings = [text for text in question.beginnings if text and question.answer.startswith(text)]
        question.following = [next_tokens(url, question, text) for text in question.beginnings]


def divergence(p: dict[tuple[int, ...], float], q: dict[tuple[int, ...], float]) -> float:
    """Over the tokens that both tell, one by one, and all others as one."""
    both = p.keys() & q.keys()
    rest_p = max(1 - sum(math.exp(p[token]) for token in both), 0)
    rest_q = max(1 - sum(math.exp(q[token]) for token in both), 1e-9)
    total = sum(math.exp(p[token]) * (p[token] - q[token]) for token in both)
    return max(total + (rest_p * math.log(rest_p / rest_q) if rest_p > 1e-7 else 0), 0)


def likeliest(tokens: dict[tuple[int, ...], float]) -> tuple[int, ...]:
    return max(tokens, key=lambda token: tokens[token])


def measure(url: str, questions: list[Question]) -> dict[str, float]:
    kept = right = same = 0
    divergences = []
    for question in questions:
        answer = complete(url, question, None, MAX_TOKENS)["message"]["content"]
        kept += answer == question.answer
        right += answer == question.right
        for beginning, p in zip(question.beginnings, question.following):
            q = next_tokens(url, question, beginning)
            if p and q:
                same += likeliest(p) == likeliest(q)
                divergences.append(divergence(p, q))
    n = len(divergences)
    return {"answers_kept": kept / len(questions), "answers_right": right / len(questions), "top1_agreement": same / n,
            "mean_kl": sum(divergences) / n, "n_tokens": n}


def report(result: dict[str, Any]) -> None:
    print(f"{result['n_questions']} questions; bf16 answers {100 * result['exact_right']:.1f} % of them word for word\n"
          f"  {'':18}{'kept':>8}{'right':>8}{'top-1':>9}{'KL, 10^-3':>11}")
    for name, row in result["methods"].items():
        print(f"  {name:18}{100 * row['answers_kept']:7.1f}%{100 * row['answers_right']:7.1f}%{100 * row['top1_agreement']:8.2f}%"
              f"{1e3 * row['mean_kl']:11.2f}")
    for row in result.get("linear", []):
        cells = "".join(f"  {name} {cosine:.5f}" for name, cosine in row["cosines"].items())
        print(f"  {row['layer']:24}{row['n_in']:>6} inputs{cells}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=existing, default=str(HERE.parent / "models/demo"), help="the demo model (default: models/demo)")
    add_omma_option(parser)
    parser.add_argument("--methods", type=names_of(METHODS), default=",".join(name for name in METHODS if name != "int4"), help="with commas between them (default: %(default)s)")
    parser.add_argument("--questions", type=positive, default=150, help="how many, about (default: %(default)s)")
    parser.add_argument("--seed", type=positive, default=2000, help="of the questions (default: %(default)s)")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--linear", type=program, metavar="PROGRAM", help="also the cosines of linear layers, by this program")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    try:
        questions = make_questions(arguments.questions, arguments.seed)
    except ModuleNotFoundError as missing:
        sys.exit(f"quant_accuracy.py: this Python has no {missing.name}: pip install numpy pillow")
    except OSError:
        sys.exit("quant_accuracy.py: a font of the questions is missing: tools/demo_text.py names the Debian packages")
    with serving(arguments, EXACT) as url:
        ask_exact(url, questions)
    result: dict[str, Any] = {"n_questions": len(questions), "methods": {}}
    result["exact_right"] = sum(question.answer == question.right for question in questions) / len(questions)
    for name in arguments.methods:
        with serving(arguments, METHODS[name]) as url:
            result["methods"][name] = measure(url, questions)
    if arguments.linear:
        done = subprocess.run([arguments.linear], capture_output=True, text=True, check=True)
        result["linear"] = json.loads(done.stdout)
    report(result)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
