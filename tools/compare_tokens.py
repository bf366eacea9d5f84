#!/usr/bin/env python3
"""Compares the ids that omma makes of drawn texts with those of the official `tokenizers` library.

    tools/compare_tokens.py [--omma PROGRAM] [--count 3100] [--seed 1] DIR...

DIR is a checkpoint with tokenizer.json. The texts are those of tools/make_text_fixtures.py, drawn
anew: characters of all planes, marks without letters, white space of every kind, digits of several
scripts, added tokens whole and in part. Exit status 0: all ids are equal; 1: a text's differ, which
is printed. Needs the Python package tokenizers."""

import argparse
import http.client
import json
import pathlib
import random
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

from tokenizers import Tokenizer, normalizers

import make_text_fixtures

PATIENCE = 120  # seconds until the server answers


def start_server(omma: pathlib.Path, folder: pathlib.Path) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([omma, "serve", folder, "--port", str(port), "--host", "127.0.0.1"], stderr=subprocess.DEVNULL)
    for _ in range(10 * PATIENCE):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        if server.poll() is not None:
            break
        time.sleep(0.1)
    server.kill()
    raise SystemExit(f"{folder}: omma serve does not answer")


def omma_ids(connection: http.client.HTTPConnection, text: str) -> list[int]:
    body = json.dumps({"prompt": text, "add_special_tokens": False})
    connection.request("POST", "/tokenize", body, {"Content-Type": "application/json"})
    reply = json.load(connection.getresponse())
    return reply["tokens"] if "tokens" in reply else reply


def compare(omma: pathlib.Path, folder: pathlib.Path, count: int) -> bool:
    official = Tokenizer.from_file(str(folder / "tokenizer.json"))
    added = [token.content for token in official.get_added_tokens_decoder().values()]
    # Texts on whose form C the two differ by their Unicode tables are left out.
    form_c = SimpleNamespace(normalizer=official.normalizer if isinstance(official.normalizer, normalizers.NFC) else None)
    texts = [text for text in make_text_fixtures.texts(form_c, added, count) if text]
    server, port = start_server(omma, folder)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        for text in texts:
            expected, found = official.encode(text, add_special_tokens=False).ids, omma_ids(connection, text)
            if found != expected:
                print(f"{folder}: {text!r}: expected {expected}, found {found}")
                return False
    finally:
        connection.close()
        server.terminate()
        server.wait()
    print(f"{folder}: the ids of {len(texts)} texts are equal")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--omma", type=pathlib.Path, default=pathlib.Path("build/release/omma"))
    parser.add_argument("--count", type=int, default=3100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, metavar="DIR")
    given = parser.parse_args()
    random.seed(given.seed)
    return 0 if all([compare(given.omma, folder, given.count) for folder in given.folders]) else 1


if __name__ == "__main__":
    sys.exit(main())
