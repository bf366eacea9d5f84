"""A subscriber of KV events with msgspec: the structs say what the wire has, a mirror what follows
from it."""

import msgspec
import zmq

END = b"\xff" * 8


class Event(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    pass


class BlockStored(Event):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: None
    medium: str
    lora_name: None
    extra_keys: list[list[tuple[str, int] | str] | None]
    group_idx: int


class BlockRemoved(Event):
    block_hashes: list[int]
    medium: str
    group_idx: int


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int


DECODER = msgspec.msgpack.Decoder(Batch)


class Subscriber:
    """A SUB socket that listens at an endpoint, which the publisher connects to, or is connected to
    where it listens."""

    def __init__(self, endpoint, listen=False, topic=""):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        (self.socket.bind if listen else self.socket.connect)(endpoint)

    def receive(self, seconds=30):
        """The topic, number and batch of the next message; None: there is none in that time."""
        if not self.socket.poll(int(seconds * 1000)):
            return None
        topic, number, payload = self.socket.recv_multipart()
        return topic, int.from_bytes(number, "big"), DECODER.decode(payload)

    def close(self):
        self.context.destroy(linger=0)


def replay(endpoint, first, kind=zmq.DEALER):
    """All messages of a replay from a number on, before its end."""
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        socket.send_multipart([b"", first.to_bytes(8, "big")])
        messages = []
        while socket.poll(30000):
            empty, topic, number, payload = socket.recv_multipart()
            assert empty == b""
            if number == END:
                assert topic == payload == b""
                return messages
            messages.append((topic, int.from_bytes(number, "big"), DECODER.decode(payload)))
        raise AssertionError(f"no end of the replay after {len(messages)} messages")


class Mirror:
    """The blocks that are stored, by their hashes, as events tell; chains of tokens are found among
    them."""

    def __init__(self):
        self.blocks = {}

    def apply(self, batch):
        for event in batch.events:
            if isinstance(event, AllBlocksCleared):
                self.blocks.clear()
            elif isinstance(event, BlockRemoved):
                for name in event.block_hashes:
                    del self.blocks[name]
            else:
                self.store(event)

    def store(self, event):
        size, parent = event.block_size, event.parent_block_hash
        assert len(event.token_ids) == size * len(event.block_hashes) and len(event.extra_keys) == len(event.block_hashes)
        for i, (name, extra) in enumerate(zip(event.block_hashes, event.extra_keys)):
            assert name not in self.blocks
            self.blocks[name] = (parent, tuple(event.token_ids[i * size:(i + 1) * size]), extra)
            parent = name

    def matching_tokens(self, tokens, size=64):
        """How many tokens of a prompt are in stored blocks; the last one is never."""
        by_content = {(parent, content): name for name, (parent, content, _) in self.blocks.items()}
        parent, n = None, 0
        while n + size < len(tokens):
            parent = by_content.get((parent, tuple(tokens[n:n + size])))
            if parent is None:
                break
            n += size
        return n
