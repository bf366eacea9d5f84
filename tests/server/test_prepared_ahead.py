"""Images of a request that waits for the engine are decoded and resized while the engine is at work
on another one."""

from contextlib import ExitStack

import pytest
from images import image_part, png, text_part
from server_process import read_until
from test_metrics import ask, read
from waiting import wait_for

COUNTER = "omma:images_prepared_ahead_total"


def ask_for_long(server):
    """A connection on which a request asks for as many tokens as there is room for, more often than
    there are slots: some of its answers wait."""
    limit = server.get("/v1/models").json["data"][0]["max_model_len"]
    fields = {"messages": [{"role": "user", "content": "go on"}], "ignore_eos": True, "max_tokens": limit - 200, "n": 8}
    connection = server.send_post("/v1/chat/completions", fields)
    wait_for(lambda: is_full(read(server)[0]), "a full engine")
    return connection


def is_full(samples):
    return samples["vllm:num_requests_running"] >= 1 and samples["vllm:num_requests_waiting"] >= 1


@pytest.mark.real_only
def test_images_of_waiting_requests_are_prepared(start):
    server = start(kv_cache_bytes="6M", max_num_seqs=2)
    ask(server, [image_part(png(32, 40)), text_part("what?")])
    before, _ = read(server)
    assert before[COUNTER] == 0 and before["omma:encoder_images_total"] == 1
    parts = [image_part(png(48, 56)), image_part(png(64, 40)), text_part("what?")]
    with ask_for_long(server), server.open_stream(parts, max_tokens=1):
        wait_for(lambda: read(server)[0][COUNTER] > 0, "images of the waiting request")
        during, _ = read(server)
    # The encoder has not seen them: their request still waits.
    assert during[COUNTER] == 2 and during["omma:encoder_images_total"] == 1
    assert is_full(during)


@pytest.mark.real_only
def test_images_of_running_requests_are_not_counted(start):
    server = start()
    for size in (32, 48):
        ask(server, [image_part(png(size, size)), text_part("what?")])
        # The answer may be here before the engine has put its request away.
        wait_for(lambda: read(server)[0]["vllm:num_requests_running"] == 0, "an engine at rest")
    assert read(server)[0][COUNTER] == 0


@pytest.mark.real_only
def test_images_encoded_together_are_no_hits(start):
    server = start(kv_cache_bytes="6M", max_num_seqs=2)
    sides = [32, 48, 64, 80]
    fields = {"max_tokens": 1, "temperature": 0}
    with ExitStack() as waiting:
        with ask_for_long(server):
            streams = [waiting.enter_context(server.open_stream([image_part(png(48, side)), text_part("what?")], **fields)) for side in sides]
            wait_for(lambda: read(server)[0][COUNTER] == len(sides), "images of all waiting requests")
        for stream in streams:
            read_until(stream, b"[DONE]")
    samples, _ = read(server)
    assert samples["omma:encoder_images_total"] == samples["vllm:mm_cache_queries_total"] == len(sides)
    assert samples["omma:encoder_batch_images_count"] < len(sides)
    assert samples["vllm:mm_cache_hits_total"] == 0
    for hits, side in enumerate(sides, 1):
        ask(server, [image_part(png(48, side)), text_part("what?")], **fields)
        samples, _ = read(server)
        assert samples["vllm:mm_cache_hits_total"] == hits and samples["vllm:mm_cache_queries_total"] == len(sides) + hits
