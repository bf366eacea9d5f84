"""Replicas that share encoded images through Redis: each image is encoded once, with the same bits;
a store that is slow, full, gone or hostile costs an encode and nothing else."""

import hashlib
import json
import random
import re
import socket
import struct
import subprocess
import time

import pytest

from fake_redis import FakeRedis
from images import data_url, png
from test_metrics import read
from waiting import wait_for

pytestmark = pytest.mark.real_only
QUESTION = {"type": "text", "text": "What is it?"}


@pytest.fixture(autouse=True, scope="module")
def needs_hiredis(omma):
    done = subprocess.run([omma, "serve", "/nowhere", "--encoder-cache-url", "redis://127.0.0.1:1"], capture_output=True, timeout=60)
    if b"built without" in done.stderr:
        pytest.skip("built without hiredis")


@pytest.fixture
def redis():
    store = FakeRedis()
    yield store
    store.close()


def ask(server, width=64, height=64):
    """Answer and log-probabilities of a question about an image."""
    parts = [{"type": "image_url", "image_url": {"url": data_url(png(width, height))}}, QUESTION]
    reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": parts}], "max_tokens": 8,
                                                 "temperature": 0, "logprobs": True})
    assert reply.status == 200, reply.body
    choice = reply.json["choices"][0]
    return choice["message"]["content"], [token["logprob"] for token in choice["logprobs"]["content"]]


def encoded(server):
    return read(server)[0]["omma:encoder_images_total"]


def store_counts(server):
    samples, _ = read(server)
    return samples["omma:encoding_store_hits_total"], samples["omma:encoding_store_misses_total"]


def output(server):
    return server.read_output()


def test_an_image_is_encoded_once_by_two_replicas(start, redis):
    first, second = start(encoder_cache_url=redis.url), start(encoder_cache_url=redis.url)
    answer = ask(first)
    wait_for(lambda: redis.values, "a value in the store")
    assert ask(second) == answer == ask(first)
    assert encoded(first) == 1 and encoded(second) == 0
    assert store_counts(first) == (0, 1) and store_counts(second) == (1, 0)
    assert encoded(start()) == 0  # nothing is shared without the option


def test_a_password_a_database_and_a_time_to_live(start, redis):
    redis.password = "s3cret/@"
    url = f"redis://:s3cret%2F%40@127.0.0.1:{redis.port}/3?ttl=60&timeout=2000"
    server = start(encoder_cache_url=url)
    ask(server)
    wait_for(lambda: redis.values, "a value in the store")
    assert {"AUTH", "SELECT"} <= {name for name, *_ in redis.commands}
    refused = start(encoder_cache_url=f"redis://:wrong@127.0.0.1:{redis.port}")
    ask(refused)
    wait_for(lambda: "refused" in output(refused), "a line about the password")
    assert encoded(refused) == 1 and "wrong" not in output(refused)


@pytest.mark.parametrize("damage", [lambda v: v[:-1], lambda v: v + b"x", lambda v: v[:-4] + b"\0\0\0\0", lambda v: b"x" + v[1:],
                                    lambda v: b"", lambda v: v[:300]])
def test_what_is_not_whole_and_ours_is_encoded_again(start, redis, damage):
    first = start(encoder_cache_url=redis.url)
    answer = ask(first)
    wait_for(lambda: redis.values, "a value in the store")
    ((key, value),) = redis.values.items()
    redis.values[key] = damage(value)
    second = start(encoder_cache_url=redis.url)
    assert ask(second) == answer and encoded(second) == 1
    wait_for(lambda: redis.values[key] == value, "the whole value again")


@pytest.mark.parametrize("mode, saying", [("silent", b""), ("hangs_up", b""), ("says", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                                          ("trickles", b"$300\r\n"), ("trickles", b"+")])
def test_a_store_that_fails_is_left_alone_for_a_while(start, redis, mode, saying):
    redis.mode, redis.saying = mode, saying
    server = start(encoder_cache_url=redis.url + "?timeout=50")
    answers = [ask(server, size) for size in (32, 64, 96)]
    assert encoded(server) == 3 and answers == [ask(server, size) for size in (32, 64, 96)]
    assert len(redis.commands) <= 2 and output(server).count("images are encoded here until it answers") == 1
    redis.mode = "well"
    new_sizes = ((32 * width, 32 * height) for width in range(1, 17) for height in range(3, 17))
    wait_for(lambda: ask(server, *next(new_sizes)) and redis.values, "a value in the store that is back")
    assert "images are shared again" in output(server)


# What no bounded reader may believe: sizes, lists, nesting, replies that were not asked for.
HOSTILE = [b"*2147483647\r\n", b"*9223372036854775807\r\n", b"*1\r\n" * 1000, b"*1\r\n" * 9 + b":1\r\n", b"$2147483647\r\n",
           b"$9223372036854775807\r\n", b"$-2147483648\r\n", b"$99999999999999999999\r\n", b":1\r\n", b"+OK\r\n" * 3, b"+" + b"x" * 200_000,
           b"-" + b"x" * 200_000, b"\0" * 5000, b"$3\r\nabcd\r\n", b"%1\r\n", b"_\r\n", b"\r\n"]


@pytest.mark.parametrize("saying", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_answer_costs_neither_time_nor_memory(start, redis, saying):
    server = start(encoder_cache_url=redis.url)
    answer = ask(server, 96)
    redis.mode, redis.saying = "says", saying
    before = address_space(server)
    begin = time.monotonic()
    ask(server)
    assert time.monotonic() - begin < 3 and address_space(server) - before < 1 << 30
    assert encoded(server) == 2 and ask(server, 96) == answer
    wait_for(lambda: "images are encoded here until it answers" in output(server), "a line about the store")


def address_space(server):
    """The most that the program has had, in bytes."""
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(re.search(r"VmPeak:\s+(\d+)", file.read()).group(1)) << 10


def test_random_answers(start, redis, pytestconfig):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    source, redis.mode = random.Random(seed), "says"
    words = [*HOSTILE, b"+OK\r\n", b"-ERR\r\n", b"$", b"*", b"1", b"\r\n", b"\r", b"\n", b"-1", b"\0", b"\xff", b"x" * 400]
    for _ in range(200 if pytestconfig.getoption("--full") else 8):
        redis.saying = b"".join(source.choice(words) for _ in range(source.randint(1, 6)))
        server = start(encoder_cache_url=redis.url + "?timeout=50")
        ask(server)
        assert encoded(server) == 1 and server.stop() == 0, (seed, redis.saying)


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("mode", ["says", "full"])
def test_a_stores_words_make_no_line_of_the_log(start, redis, mode, log_format):
    redis.saying = b"-ERR x\n2026-01-01T00:00:00.000Z INFO request path=/forged \x1b[2J\"}\xe2\x80\xae\r\n"
    redis.full = redis.saying
    redis.mode = mode
    server = start(encoder_cache_url=redis.url, log_format=log_format)
    ask(server)
    wait_for(lambda: "encoder_cache" in output(server), "a line about the store")
    server.stop()
    text = server.output.decode()
    assert not re.search(r"[\0-\x09\x0b-\x1f\x7f-\U0010ffff]", text), text
    lines = [line for line in text.splitlines() if "forged" in line]
    assert len(lines) == 1 and "encoder_cache" in lines[0], text
    if log_format == "json":
        line = json.loads(lines[0])
        assert line["event"] == "encoder_cache" and line["level"] == "error"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_no_numbers_are_encoded_and_stored_again(start, redis, value):
    first = start(encoder_cache_url=redis.url)
    answer = ask(first)
    wait_for(lambda: redis.values, "a value in the store")
    ((key, whole),) = redis.values.items()
    redis.values[key] = sealed(whole, struct.pack("<f", value))
    second = start(encoder_cache_url=redis.url)
    assert ask(second) == answer and encoded(second) == 1
    assert store_counts(second) == (0, 1) and read(second)[0]["omma:encoding_store_not_finite_total"] == 1
    wait_for(lambda: redis.values[key] == whole, "the whole value again")


def sealed(value, last):
    """A value of the store that ends otherwise, with the hash that belongs to it."""
    head, data = value[:264], value[264:-len(last)] + last
    digest = hashlib.blake2b(data, digest_size=32).hexdigest().encode()
    return re.sub(rb'(?<="blake2b":")[0-9a-f]{64}', digest, head) + data


def test_a_store_that_is_gone(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = start(encoder_cache_url=f"redis://127.0.0.1:{port}")
    ask(server)
    wait_for(lambda: "images are encoded here until it answers" in output(server), "a line about the store")
    assert encoded(server) == 1


def test_a_full_store_is_still_read(start, redis):
    first = start(encoder_cache_url=redis.url)
    ask(first)
    wait_for(lambda: redis.values, "a value in the store")
    redis.mode = "full"
    second = start(encoder_cache_url=redis.url)
    ask(second, 96)
    wait_for(lambda: "new images are not shared until it takes them" in output(second), "a line about the full store")
    ask(second)
    assert encoded(second) == 1 and store_counts(second) == (1, 1)


@pytest.mark.parametrize("url, message", [
    ("http://x", "redis:// or unix://"), ("redis://", "a name or address"), ("redis://h:0", "1 to 65535"), ("redis://h/x", "a number"),
    ("redis://h?ttl=x", "ttl=SECONDS"), ("redis://u@h", "USER:PASSWORD"), ("redis://:%zz@h", "a password"), ("rediss://h", "no TLS"),
    ("unix://", "path of a socket"), ("redis://h:1x", "1 to 65535"), ("redis://[::1", "a name or address"), ("redis://:secret%@h:99999", "")])
def test_wrong_urls_end_the_start(start, url, message):
    with pytest.raises(RuntimeError) as failed:
        start(encoder_cache_url=url)
    text = str(failed.value)
    # the option's name from omma, the field's from the scripted engine's program
    assert "encoder_cache_url" in text.replace("-", "_") and message in text and "secret" not in text
