"""Many requests at once: what clients see of continuous batching, the prefix cache, priorities and
drafts."""

import pathlib
import threading

import pytest

from images import data_url, png
from test_metrics import read

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
LONG = "The quick brown fox jumps over the lazy dog. " * 6


def chat(server, content, **fields):
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 8, "ignore_eos": True, "temperature": 0, **fields}
    return server.post("/v1/chat/completions", body)


def text(reply):
    assert reply.status == 200, reply.body
    return [choice["message"]["content"] for choice in reply.json["choices"]]


def cached(reply):
    assert reply.status == 200, reply.body
    return reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]


def at_once(calls):
    """The results of the calls, each on a thread of its own."""
    results = [None] * len(calls)

    def run(i):
        results[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.real_only
def test_a_prompt_that_begins_alike_is_found(start):
    server = start()
    first, again, other = chat(server, LONG + "one"), chat(server, LONG + "one"), chat(server, LONG + "two")
    assert cached(first) == 0
    assert cached(again) >= 64 and cached(again) % 64 == 0 and cached(other) >= 64
    assert text(first) == text(again)
    samples, _ = read(server)
    assert samples["vllm:prefix_cache_hits_total"] == cached(again) + cached(other)
    assert samples["vllm:prefix_cache_queries_total"] == sum(r.json["usage"]["prompt_tokens"] for r in (first, again, other))
    salted = chat(server, LONG + "one", cache_salt="mine")
    assert cached(salted) == 0 and text(salted) == text(first)
    assert cached(chat(server, LONG + "one", cache_salt="mine")) == cached(again)
    assert chat(server, "x", cache_salt="").status == 400


@pytest.mark.real_only
def test_an_image_in_a_known_prompt_needs_nothing(start):
    server = start(encoder_cache_bytes="0")
    parts = [{"type": "image_url", "image_url": {"url": data_url(png(256, 256))}}, {"type": "text", "text": LONG}]
    first = chat(server, parts)
    again = chat(server, parts[:1] + [{"type": "text", "text": LONG + "And now?"}])
    samples, _ = read(server)
    assert text(first) and cached(again) >= 64
    assert samples["omma:encoder_images_total"] == 1


@pytest.mark.real_only
def test_the_prefix_cache_can_be_off(start):
    server = start(no_enable_prefix_caching=True)
    assert [cached(chat(server, LONG)) for _ in range(2)] == [0, 0]
    samples, _ = read(server)
    (info,) = [key for key in samples if key.startswith("vllm:cache_config_info")]
    assert samples["vllm:prefix_cache_queries_total"] == 0
    assert 'block_size="64"' in info and 'enable_prefix_caching="False"' in info and 'num_gpu_blocks="' in info


@pytest.mark.real_only
def test_answers_at_once_are_those_alone(start):
    server = start(max_num_seqs="4")
    questions = [LONG + str(i) for i in range(6)] + ["short", "shorter"]
    calls = [lambda q=q, i=i: chat(server, q, n=1 + i % 3, temperature=0.9, seed=i, logprobs=True) for i, q in enumerate(questions)]
    alone = [call() for call in calls]
    for together in (at_once(calls), at_once(calls)):
        for a, b in zip(alone, together):
            assert text(a) == text(b)
            assert [c["logprobs"] for c in a.json["choices"]] == [c["logprobs"] for c in b.json["choices"]]


@pytest.mark.real_only
def test_answers_from_an_int8_cache_are_those_alone(start, model_can):
    if not model_can.keep_int8_cache:
        with pytest.raises(RuntimeError, match="--kv-cache-dtype: .* not kept in int8"):
            start(kv_cache_dtype="int8")
        return
    server = start(max_num_seqs="4", kv_cache_dtype="int8_per_token_head")
    calls = [lambda q=q: chat(server, q, logprobs=True) for q in (LONG + "one", LONG + "two", "short")]
    alone, together = [call() for call in calls], at_once(calls)
    assert cached(alone[0]) == 0 and all(cached(reply) >= 64 for reply in together[:2])
    for a, b in zip(alone, together):
        assert text(a) == text(b) and a.json["choices"][0]["logprobs"] == b.json["choices"][0]["logprobs"]
    (info,) = [key for key in read(server)[0] if key.startswith("vllm:cache_config_info")]
    assert 'cache_dtype="int8"' in info


@pytest.mark.real_only
def test_priorities_are_taken(start):
    server = start(scheduling_policy="priority", max_num_seqs="1")
    replies = at_once([lambda p=p: chat(server, "hello", priority=p) for p in (5, -1, 0, 2)])
    assert len({text(reply)[0] for reply in replies}) == 1
    assert chat(server, "hello", priority="high").status == 400


@pytest.mark.real_only
def test_drafts_change_nothing(start):
    plain, drafting = start(), start(speculative_config='{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2}')
    for fields in ({}, {"temperature": 0.8, "seed": 4}, {"frequency_penalty": 0.5, "logprobs": True, "top_logprobs": 2}):
        a, b = (chat(server, LONG, max_tokens=60, **fields) for server in (plain, drafting))
        assert text(a) == text(b) and a.json["choices"][0]["logprobs"] == b.json["choices"][0]["logprobs"]
    samples, _ = read(drafting)
    assert samples["vllm:spec_decode_num_draft_tokens_total"] >= samples["vllm:spec_decode_num_accepted_tokens_total"] > 0


@pytest.mark.real_only
def test_drafts_of_a_draft_head_change_nothing(omma, launch, kind):
    """A drawn head is hardly ever right, so that its drafts pause."""
    command = [omma, "serve", str(GOLDEN / "qwen3_5_tied"), "--host", "127.0.0.1", "--port", "0", "--served-model-name", "test-model"]
    plain = launch(command)
    drafting = launch([*command, "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}'])
    for fields in ({}, {"temperature": 0.8, "seed": 4}, {"frequency_penalty": 0.5, "logprobs": True, "top_logprobs": 2}):
        a, b = (chat(server, LONG, max_tokens=60, **fields) for server in (plain, drafting))
        assert text(a) == text(b) and a.json["choices"][0]["logprobs"] == b.json["choices"][0]["logprobs"]
    samples, _ = read(drafting)
    assert samples["vllm:spec_decode_num_drafts_total"] > 0


@pytest.mark.real_only
def test_snapshots_are_counted(omma, launch, kind):
    """A prompt leaves a snapshot at its last border of 64 tokens: the next one goes on from it."""
    command = [omma, "serve", str(GOLDEN / "qwen3_5_tied"), "--host", "127.0.0.1", "--port", "0", "--served-model-name", "test-model", "--max-num-seqs", "1",
               "--kv-cache-memory-bytes", "2M"]
    server = launch(command)
    assert cached(chat(server, LONG)) == 0
    before, _ = read(server)
    assert before["omma:snapshots"] > before["omma:snapshots_kept"] > 0 and before["omma:snapshot_bytes"] > 1000
    assert before["omma:snapshot_hits_total"] == before["omma:snapshot_evictions_total"] == before["omma:snapshots_used"] == 0
    assert cached(chat(server, LONG)) > 0
    for i in range(int(before["omma:snapshots"]) + 2):
        chat(server, f"{i} {LONG}")
    after, _ = read(server)
    assert after["omma:snapshot_hits_total"] == 1 and after["omma:snapshot_evictions_total"] > 0
