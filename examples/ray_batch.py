#!/usr/bin/env python3
"""A file of requests in OpenAI's batch format, answered on the machines of a Ray cluster.

    pip install 'ray[data]'
    examples/ray_batch.py /srv/models/my-model -i in.jsonl -o out.jsonl --workers 4 --cpus 16

Ray Data deals the lines out to `--workers` actors. Each holds one `omma batch DIR -i - -o -` with
its own copy of the model and `--cpus` threads, for all its requests. Program and model must be at
the same paths on every machine. Without a cluster (RAY_ADDRESS) Ray runs on this machine. Words
after `--` go to `omma batch`.

The output is that of `omma batch` (docs/batch.md): a line for each request as its answer ends,
matched by `custom_id`. The same command continues where it was stopped."""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import threading

import numpy
import ray


class Worker:
    """An actor: answers blocks of lines with a program that stays."""

    def __init__(self, command: list[str]):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.numbers = []  # of the lines that the program was given, in the whole input

    def feed(self, lines) -> None:
        try:
            for line in lines:
                self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the program has ended; the reader finds that too

    def read_answer(self) -> str:
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise RuntimeError(f"omma batch ended with status {self.process.wait()}; its message is in this worker's log")
        answer = json.loads(line)
        if (answer["error"] or {}).get("line"):
            answer["error"]["line"] = self.numbers[answer["error"]["line"] - 1]
            return json.dumps(answer)
        return line.decode().rstrip("\n")

    def __call__(self, block: dict) -> dict:
        self.numbers += [int(number) for number in block["number"]]
        feeder = threading.Thread(target=self.feed, args=(block["line"],))
        feeder.start()
        # one for each line, in the order in which they end
        answers = [self.read_answer() for _ in block["line"]]
        feeder.join()
        return {"answer": numpy.array(answers, dtype=object)}


class Output:
    """The output file, locked; `done` has the custom_ids that need no other answer."""

    def __init__(self, path: str, retry_failed: bool):
        with open(path, "a+b") as earlier:
            self.lock(earlier, path)
            earlier.seek(0)
            kept = [line for line in earlier if self.stays(line, path, retry_failed)]
            self.file = open(path + ".retry", "wb", buffering=0)
            self.lock(self.file, path)
            self.file.write(b"".join(kept))
            os.fsync(self.file.fileno())
            os.replace(path + ".retry", path)
        self.done = {json.loads(line)["custom_id"] for line in kept}
        self.n_failed = sum(json.loads(line)["error"] is not None for line in kept)

    @staticmethod
    def lock(file, path: str) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"{path}: another batch is writing this file")

    @staticmethod
    def stays(line: bytes, path: str, retry_failed: bool) -> bool:
        """Not a torn last line, nor bad lines of the input, which are judged again at once."""
        if not line.endswith(b"\n") or not line.strip():
            return False
        try:
            error = json.loads(line)["error"]
        except (ValueError, KeyError, TypeError):
            sys.exit(f"{path}: holds lines that are not of a batch's output: give another file with -o")
        return error is None or not (retry_failed or "line" in error)

    def write(self, answer: str) -> None:
        self.file.write(answer.encode() + b"\n")
        self.n_failed += json.loads(answer)["error"] is not None


def read_requests(path: str, done: set) -> list[dict]:
    """The lines without an answer. What a line must be is for `omma batch` to say."""
    rows, first = [], {}
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                custom_id = json.loads(line)["custom_id"]
            except (ValueError, KeyError, TypeError):
                custom_id = None
            if isinstance(custom_id, str):
                if first.setdefault(custom_id, number) != number:
                    sys.exit(f"{path}: lines {first[custom_id]} and {number} have the same custom_id {custom_id!r}")
                if custom_id in done:
                    continue
            rows.append({"number": number, "line": line.rstrip("\r\n")})
    return rows


def run(arguments, rows: list[dict], output: Output) -> None:
    command = [arguments.omma, "batch", os.path.abspath(arguments.model), "-i", "-", "-o", "-", "--threads", str(arguments.cpus)]
    blocks = -(-len(rows) // arguments.block)
    answers = ray.data.from_items(rows, override_num_blocks=blocks).map_batches(
        Worker, fn_constructor_args=[command + arguments.rest], batch_size=None, num_cpus=arguments.cpus,
        compute=ray.data.ActorPoolStrategy(size=arguments.workers))
    for block in answers.iter_batches(batch_size=None, prefetch_batches=0):
        for answer in block["answer"]:
            output.write(answer)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected an integer from 1")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the model's directory, or a .gguf file")
    parser.add_argument("-i", "--input-file", required=True, help="requests, one JSON object a line")
    parser.add_argument("-o", "--output-file", required=True, help="where the answers go")
    parser.add_argument("--workers", type=positive, default=1, help="copies of the model (default: %(default)s)")
    parser.add_argument("--cpus", type=positive, default=1, help="cores of each (default: %(default)s)")
    parser.add_argument("--block", type=positive, default=64, help="lines that a worker gets at a time: several times --max-num-seqs, "
                        "as it waits for the last of them (default: %(default)s)")
    parser.add_argument("--retry-failed", action="store_true", help="ask failed requests of the output again")
    parser.add_argument("--omma", default="omma", help="the program (default: omma, in PATH)")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:split], argparse.Namespace(rest=words[split + 1:]))
    output = Output(arguments.output_file, arguments.retry_failed)
    rows = read_requests(arguments.input_file, output.done)
    if rows:
        run(arguments, rows, output)
    os.fsync(output.file.fileno())
    print(f"{len(rows)} lines answered, {len(output.done)} done before, {output.n_failed} failed in all", file=sys.stderr)
    sys.exit(output.n_failed > 0)


if __name__ == "__main__":
    main()
