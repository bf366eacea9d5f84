"""A hundred images at once where the caches have room for four, damaged ones among them, and a
stream next to them: every sound request gets the answer that it gets alone, the damaged ones status
400, and the stream goes on."""

import random

import pytest
from images import data_url, image_part, png, text_part
from server_process import read_until
from test_many import at_once, chat, text
from test_metrics import read
from waiting import wait_for, wait_for_engine

N_IMAGES, N_DAMAGED, BUDGET = 100, 10, 4
WIDTH, HEIGHT = 64, 48
PASSES, TOKENS = "omma:encoder_batch_images_count", "vllm:inter_token_latency_seconds_count"


def question(image):
    return [image, text_part("what is it?")]


def ask(server, image):
    return chat(server, question(image), max_tokens=1)


def damaged(number):
    """A PNG whose head is sound and whose pixels are not."""
    data = bytearray(png(WIDTH, HEIGHT, number))
    draw = random.Random(number)
    for at in draw.sample(range(60, len(data) - 20), 8):
        data[at] ^= 1 << draw.randrange(8)
    return {"type": "image_url", "image_url": {"url": data_url(bytes(data))}}


@pytest.mark.real_only
def test_a_hundred_images_where_four_have_room(start):
    roomy = start()
    images = [image_part(png(WIDTH, HEIGHT, shade)) for shade in range(N_IMAGES)]
    expected = [text(ask(roomy, image)) for image in images]
    embedding = int(read(roomy)[0]["omma:encoder_cache_bytes"]) // N_IMAGES
    assert embedding > 0 and roomy.stop() == 0

    server = start(encoder_cache_bytes=str(BUDGET * embedding), mm_processor_cache_gb=str(BUDGET * 3 * WIDTH * HEIGHT / 2**30),
                   no_enable_prefix_caching=True)
    with server.open_stream("go on", max_tokens=1900, ignore_eos=True) as stream:
        read_until(stream, b'"content"')
        before, _ = read(server)
        broken = [lambda i=i: chat(server, question(damaged(i))) for i in range(N_DAMAGED)]
        replies = at_once([lambda image=image: ask(server, image) for image in images] + broken)
        after, _ = read(server)
        is_running = after["vllm:num_requests_running"] == 1
    assert [text(reply) for reply in replies[:N_IMAGES]] == expected
    assert {reply.status for reply in replies[N_IMAGES:]} == {400}, [reply.body for reply in replies[N_IMAGES:]]
    assert after["omma:encoder_cache_bytes"] <= BUDGET * embedding
    # The answers have one token each, so that only the stream has gaps between tokens: one token at
    # least for each pass of the encoder.
    passes = after[PASSES] - before[PASSES]
    assert passes > 0 and (after[TOKENS] - before[TOKENS] >= passes or not is_running)
    wait_for_engine(server, 0)
    wait_for(lambda: read(server)[0]["vllm:kv_cache_usage_perc"] == 0, "no pages in use")
