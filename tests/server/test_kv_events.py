"""KV events over ZeroMQ: what subscribers receive mirrors the prefix cache, and nothing they do
harms the server."""

import json
import random
import re
import socket

import pytest
import zmq

from kv_subscriber import AllBlocksCleared, BlockRemoved, BlockStored, Mirror, Subscriber, replay
from images import data_url, png
from server_process import ServerProcess, check_output, make_command
from test_metrics import read
from waiting import wait_for

pytestmark = pytest.mark.real_only
PAGE, PAGES, PAGE_BYTES = 64, 12, 196608  # of the demo model


def config(folder, **more):
    values = {"endpoint": f"ipc://{folder}/events", "replay_endpoint": f"ipc://{folder}/replay", "topic": "kv@pod@model"}
    return json.dumps({"enable_kv_cache_events": True, **values, **more})


class Replica:
    """A server with a KV cache of few pages, its endpoints, and a mirror of the cache."""

    def __init__(self, request, kind, folder):
        options = {"kv_events_config": config(folder), "max_num_seqs": 2, "kv_cache_bytes": PAGES * PAGE_BYTES, "max_model_len": PAGES // 2 * PAGE}
        self.server = ServerProcess(make_command(request.config, kind, options))
        self.events, self.replays = f"ipc://{folder}/events", f"ipc://{folder}/replay"
        self.subscriber, self.mirror, self.next = Subscriber(self.events, topic="kv@"), Mirror(), 0

    def follow(self):
        """Brings the mirror up to what has come to pass; what was missed before the subscription
        comes by replay. The new events."""
        events = []
        for _, number, batch in replay(self.replays, self.next):
            assert number == self.next
            self.mirror.apply(batch)
            self.next += 1
            events += batch.events
        assert len(self.mirror.blocks) == read(self.server)[0]["omma:prefix_cache_pages"]
        return events

    def ask_tokens(self, tokens, **fields):
        body = {"prompt": tokens, "max_tokens": 1, "temperature": 0, **fields}
        reply = self.server.post("/v1/completions", body)
        assert reply.status == 200, reply.body
        return reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def replica(request, kind, tmp_path_factory):
    made = Replica(request, kind, tmp_path_factory.mktemp("kv"))
    yield made
    made.subscriber.close()
    assert made.server.stop() == 0
    check_output(made.server)


def test_events_mirror_the_cache(replica):
    """Prompts of a small cache that has to give up pages all the time: the mirror predicts how many
    tokens of each are found."""
    rng = random.Random(20261122)
    prompts, kinds, hits = [[rng.randrange(200, 1000) for _ in range(300)]], set(), 0
    for turn in range(40):
        begin = rng.choice(prompts)[:rng.choice([0, 64, 100, 128, 192, 300])]
        prompts.append(begin + [rng.randrange(200, 1000) for _ in range(rng.randrange(1, 380 - len(begin)))])
        prompt = prompts[-1] if turn % 3 else rng.choice(prompts)
        expected = replica.mirror.matching_tokens(prompt)
        assert replica.ask_tokens(prompt) == expected, f"turn {turn}"
        hits += expected > 0
        kinds |= {type(event) for event in replica.follow()}
        assert replica.mirror.matching_tokens(prompt) == (len(prompt) - 1) // PAGE * PAGE
    assert kinds == {AllBlocksCleared, BlockStored, BlockRemoved} and hits > 5


def test_numbers_follow_on_each_other(replica):
    """What is published is what is replayed, under the same numbers, from whichever on one asks."""
    replica.follow()
    with socket.socket():  # nothing is published while nothing is asked for
        assert replay(replica.replays, replica.next) == []
    seen = []
    first = replica.next
    for start in (1000, 1100, 1200):
        replica.ask_tokens(list(range(start, start + 100)))
    replica.follow()
    while not seen or seen[-1][1] < replica.next - 1:
        seen.append(replica.subscriber.receive())
        assert seen[-1] is not None
    seen = [message for message in seen if message[1] >= first]
    assert [number for _, number, _ in seen] == list(range(first, replica.next))
    assert seen == replay(replica.replays, first) and seen[1:] == replay(replica.replays, first + 1)
    assert all(topic == b"kv@pod@model" for topic, _, _ in seen)
    everything = replay(replica.replays, 0)
    assert [number for _, number, _ in everything] == list(range(replica.next))
    assert everything[0][2].events[0] == AllBlocksCleared()
    assert replay(replica.replays, 2**64 - 1) == replay(replica.replays, replica.next + 7) == []


def stored(events):
    """Blocks as one chain: their hashes, tokens and extra keys. A prompt may be sent in several
    events."""
    chain = [event for event in events if isinstance(event, BlockStored)]
    assert [event.parent_block_hash for event in chain] == [None] + [event.block_hashes[-1] for event in chain[:-1]]
    return [sum((getattr(event, name) for event in chain), []) for name in ("block_hashes", "token_ids", "extra_keys")]


def ask_about(replica, image, **fields):
    parts = [{"type": "image_url", "image_url": {"url": data_url(image)}}, {"type": "text", "text": "what?"}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 1, "temperature": 0, "return_token_ids": True, **fields}
    reply = replica.server.post("/v1/chat/completions", body)
    assert reply.status == 200, reply.body
    return reply.json["prompt_token_ids"]


def test_images_and_salts_are_distinguished(replica):
    replica.follow()
    tokens = ask_about(replica, png(384, 384, 10))
    first, ids, keys = stored(replica.follow())
    begin = next(i for i in range(len(tokens)) if tokens[i] == tokens[i + 1] == tokens[i + 2])
    n_pages = (len(tokens) - 1) // PAGE
    assert ids == tokens[:n_pages * PAGE] and n_pages >= 2
    ((image, _),) = keys[0]
    assert keys == [[(image, begin - i * PAGE)] for i in range(n_pages)] and len(image) == 64
    ask_about(replica, png(384, 384, 90))
    other, other_ids, other_keys = stored(replica.follow())
    assert other_ids == ids and not set(other) & set(first) and other_keys[0][0][0] != image
    ask_about(replica, png(384, 384, 10), cache_salt="mine")
    salted, _, salted_keys = stored(replica.follow())
    assert salted_keys == [keys[0] + ["mine"]] + keys[1:] and not set(salted) & set(first)


@pytest.mark.parametrize("frames", [
    [], [b""], [b"", b""], [b"", b"1234567"], [b"", b"123456789"], [b"", b"x" * 256], [b"", b"x" * 100000], [b"x" * 8], [b"x", b"\0" * 8],
    [b"", b"\0" * 8, b""], [b""] * 1000, [b"\0" * 8] * 3], ids=lambda frames: f"{len(frames)}-{sum(map(len, frames))}")
def test_requests_of_another_form(replica, frames):
    """They get nothing, or the end alone; the next one is served."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as asking:
        asking.setsockopt(zmq.LINGER, 0)
        asking.connect(replica.replays)
        if frames:
            asking.send_multipart(frames)
        asking.send_multipart([b"", (2**63).to_bytes(8, "big")])
        if sum(map(len, frames)) < 10000:  # else the connection is closed
            assert asking.poll(30000)
            assert asking.recv_multipart()[-2:] == [b"\xff" * 8, b""]
    assert len(replay(replica.replays, 0)) >= replica.next


def test_bytes_of_another_protocol(replica):
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 1000, b"\xff\0\0\0\0\0\0\0\1\x7f\3" + b"\0" * 200):
        for endpoint in (replica.replays, replica.events):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(endpoint.removeprefix("ipc://"))
                connection.sendall(noise)
    replica.follow()


def test_who_reads_nothing_holds_nobody_up(replica):
    """Replays that are asked for without end and not read, and a subscriber that does not read:
    answers and other replays come as before."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as asking, context.socket(zmq.SUB) as silent:
        for connection in (asking, silent):
            connection.setsockopt(zmq.LINGER, 0)
            connection.setsockopt(zmq.RCVHWM, 1)
        asking.connect(replica.replays)
        silent.setsockopt(zmq.SUBSCRIBE, b"")
        silent.connect(replica.events)
        for _ in range(200):
            if asking.poll(1000, zmq.POLLOUT):
                asking.send_multipart([b"", bytes(8)], zmq.DONTWAIT)
        replica.ask_tokens(list(range(1500, 1800)))
        assert stored(replica.follow())[0]


@pytest.fixture
def connected(start, tmp_path):
    """A server that connects to a subscriber's port and keeps four batches for replays."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        place = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    subscriber = Subscriber(place, listen=True)
    server = start(kv_events_config=config(tmp_path, endpoint=place, buffer_steps=4, topic=""))
    yield server, subscriber, f"ipc://{tmp_path}/replay"
    subscriber.close()


def test_a_gap_is_seen(connected):
    """Of more batches than are kept the oldest are gone from replays, which begin at a later number
    then."""
    server, subscriber, replays = connected
    while subscriber.receive(0.2) is not None:
        pass
    mirror = Mirror()
    for start in range(1000, 1600, 100):
        server.post("/v1/completions", {"prompt": list(range(start, start + 100)), "max_tokens": 1})
        topic, number, batch = subscriber.receive()
        mirror.apply(batch)
        assert topic == b""
    kept = replay(replays, 0)
    assert [n for _, n, _ in kept] == list(range(number - 3, number + 1)) and kept[-1][2] == batch
    assert len(mirror.blocks) == read(server)[0]["omma:prefix_cache_pages"] == 6
    (line,) = [line for line in server.read_output().splitlines() if "KV events" in line]
    assert re.search(r"published to tcp://127\.0\.0\.1:\d+, where the subscriber must listen, replayed at ipc://", line), line


@pytest.mark.parametrize("text, message", [
    ("{", "--kv-events-config"), ("[]", "--kv-events-config"), ('{"enabled": true}', 'unknown key "enabled"'), ('{"hwm": 0}', "hwm"), ('{"topic": 7}', "topic"),
    ('{"publisher": "kafka"}', '"zmq" or "null"'), ('{"endpoint": "udp://x:1"}', "tcp://ADDRESS:PORT"), ('{"endpoint": ""}', "tcp://ADDRESS:PORT"),
    ('{"enable_kv_cache_events": true, "endpoint": "tcp://*:x"}', "cannot listen at tcp://*:x"),
    ('{"enable_kv_cache_events": true, "endpoint": "ipc:///nowhere/at/all"}', "cannot listen at ipc:///nowhere/at/all"),
    ('{"replay_endpoint": "tcp://%s"}' % ("x" * 600), "at most 511 bytes")])
def test_wrong_configurations_end_the_start(start, text, message):
    with pytest.raises(RuntimeError) as failed:
        start(kv_events_config=text)
    assert message in str(failed.value)


@pytest.mark.parametrize("option", ["no_enable_prefix_caching", "mm_encoder_only"])
def test_servers_that_keep_nothing(start, option):
    with pytest.raises(RuntimeError, match="no keys and values are kept with --" + option.replace("_", "-")):
        start(kv_events_config="{}", **{option: True})


def test_a_place_that_is_taken(start, tmp_path):
    with zmq.Context() as context, context.socket(zmq.PUB) as other:
        port = other.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(RuntimeError, match="cannot listen at tcp://127.0.0.1.*in use"):
            start(kv_events_config=config(tmp_path, replay_endpoint=f"tcp://127.0.0.1:{port}"))


def test_events_may_be_off(start):
    for text in ('{}', '{"enable_kv_cache_events": false, "endpoint": "tcp://*:5557"}', '{"enable_kv_cache_events": true, "publisher": "null"}'):
        assert "KV events" not in start(kv_events_config=text).read_output()
