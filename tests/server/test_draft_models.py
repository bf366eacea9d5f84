"""Draft heads of GGUF files: they guess what those of the checkpoint guess."""

import pathlib
import sys

import pytest

from server_process import ServerProcess, check_output
from test_many import LONG, chat, text
from test_metrics import read

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden"
sys.path.insert(0, str(REPOSITORY / "tests" / "cli"))
from gguf_files import convert, simple_draft_head  # noqa: E402

HEAD = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}']


def serve(omma, *words):
    return ServerProcess([omma, "serve", *map(str, words), "--dtype", "f32", "--host", "127.0.0.1", "--port", "0", "--served-model-name", "test-model"])


def guesses(server):
    samples, _ = read(server)
    return samples["vllm:spec_decode_num_draft_tokens_total"], samples["vllm:spec_decode_num_accepted_tokens_total"]


@pytest.mark.real_only
def test_draft_head_of_a_gguf_file(omma, tmp_path, kind):
    """Of a checkpoint whose head is always right, by its norms and by where the embedding goes in:
    so it is in the file too."""
    folder = simple_draft_head(GOLDEN / "qwen3_5_untied", tmp_path / "simple")
    model, mmproj = convert(folder, tmp_path / "gguf", "F32")
    answers = []
    for words in ([folder], [folder, *HEAD], [model, "--mmproj", mmproj, *HEAD]):
        server = serve(omma, *words)
        answers.append([text(chat(server, LONG, max_tokens=80))])
        n_guessed, n_right = guesses(server)
        assert n_right == n_guessed and (n_guessed > 10) == (HEAD[0] in words)
        answers[-1].append(text(chat(server, LONG, max_tokens=40, temperature=0.8, seed=4)))
        server.stop()
        check_output(server)
    assert answers[1] == answers[0] and answers[2] == answers[0]
