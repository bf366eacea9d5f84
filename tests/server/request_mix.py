"""A mix of requests as clients send them: texts, images, videos, several answers, streams or not; a
part is malformed, and of a part the client leaves. All of it follows from the seed. Answers do not
depend on the load, so each well-formed request has one answer, however often it is sent."""

import json
import pathlib
import random
import socket
import struct

from images import image_part, png, text_part, video_part
from server_process import read_all, split_chunks
from test_mutations import mutate

IMAGES = pathlib.Path(__file__).resolve().parents[1] / "golden" / "images"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
CANCELLED, MALFORMED = 0.10, 0.05
FRAMES = [path.read_bytes() for path in sorted(IMAGES.glob("clip_*.jpg"))]
WORDS = "red green blue circle square cross left right above below one two three é ß 漢 🙂 ?".split()


class Mixed:
    """One request: the bytes on the wire, what becomes of it ("answered", "cancelled" or
    "malformed") and how it is read."""

    def __init__(self, fate, path, fields, source):
        self.fate, self.path, self.stream = fate, path, bool(fields.get("stream"))
        self.body = json.dumps(fields).encode()
        # bytes of the reply before the client leaves
        self.patience = source.choice([0, 1, 400]) if fate == "cancelled" else None
        self.sent = len(self.body)
        if fate == "cancelled" and source.random() < 0.2:
            # leaves in the middle of its own body
            self.sent, self.patience = source.randrange(len(self.body)), 0
        if fate == "malformed":
            self.body = spoil(self.body, source)
            self.sent = len(self.body)

    def data(self):
        head = f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        return head.encode() + b"Content-Length: %d\r\n\r\n" % len(self.body) + self.body[:self.sent]


def spoil(body, source):
    """Broken JSON, a field of a wrong type, or an image whose bytes are damaged."""
    kind = source.randrange(3)
    fields = json.loads(body)
    if kind == 0:
        return mutate(body, source)
    if kind == 1:
        name = source.choice([name for name in fields if name not in ("stream", "model")])
        fields[name] = source.choice([{}, [[]], "x", -7, 1e300, True, None, [None]])
        return json.dumps(fields).encode()
    damaged = bytearray(source.choice(FRAMES))
    for _ in range(source.randint(1, 40)):
        damaged[source.randrange(2, len(damaged))] = source.randrange(256)
    damaged = bytes(damaged[:source.randrange(2, len(damaged) + 1)])
    return json.dumps({"messages": [{"role": "user", "content": [image_part(damaged, "image/jpeg")]}], "max_tokens": 2}).encode()


def words(source):
    return " ".join(source.choice(WORDS) for _ in range(source.choice([1, 5, 20, 150])))


def image(source):
    if source.random() < 0.3:
        path = source.choice(sorted(IMAGES.glob("*_*.jpg")) + sorted(IMAGES.glob("*.png")))
        return image_part(path.read_bytes(), "image/jpeg" if path.suffix == ".jpg" else "image/png")
    return image_part(png(source.randint(8, 90), source.randint(8, 90), source.randrange(200)))


def sampling(source):
    fields = {"max_tokens": source.choice([1, 3, 8, 24]), "seed": source.randrange(1000)}
    if source.random() < 0.5:
        fields["temperature"] = 0
    else:
        fields.update(temperature=0.8, top_p=0.9, top_k=source.choice([0, 5, 40]), repetition_penalty=source.choice([1, 1.1]))
    if source.random() < 0.3:
        fields["n"] = source.randint(2, 4)
        fields.setdefault("temperature", 0.7)
    if source.random() < 0.2:
        fields["stop"] = ["a", "and"]
    return fields


def chat(source, videos):
    parts = [text_part(words(source))]
    kind = source.random()
    if kind < 0.4:
        parts = [image(source) for _ in range(source.randint(1, 3))] + parts
    elif kind < 0.55 and videos:
        parts = [video_part(FRAMES[:source.randint(2, len(FRAMES))])] + parts
    fields = {"messages": [{"role": "user", "content": parts}], **sampling(source)}
    if source.random() < 0.3:
        fields.update(logprobs=True, top_logprobs=source.randint(0, 3))
    return CHAT, fields


def completion(source):
    prompt = [words(source) for _ in range(source.randint(1, 2))]
    return COMPLETIONS, {"prompt": prompt, **sampling(source)}


def make_mix(seed, n, videos):
    """n requests, of which the stated parts are cancelled and malformed."""
    source = random.Random(seed)
    fates = ["cancelled"] * round(n * CANCELLED) + ["malformed"] * round(n * MALFORMED)
    fates += ["answered"] * (n - len(fates))
    source.shuffle(fates)
    mix = []
    for fate in fates:
        path, fields = chat(source, videos) if source.random() < 0.8 else completion(source)
        if fate == "cancelled":
            fields.update(max_tokens=400, ignore_eos=True, n=1)
            fields.pop("stop", None)
        fields["stream"] = source.random() < 0.5
        mix.append(Mixed(fate, path, fields, source))
    return mix


def reset(connection):
    """Closes with a reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def send(server, request):
    """Sends one request; gives its status and answer, None for what the client left."""
    with server.connect(timeout=300) as connection:
        connection.sendall(request.data())
        if request.fate == "cancelled":
            seen = 0
            while seen < request.patience:
                piece = connection.recv(min(65536, request.patience - seen))
                if not piece:
                    break
                seen += len(piece)
            if request.patience:
                reset(connection)
            return None
        data = read_all(connection)
    assert data, "closed without a reply"
    status = int(data.split(b" ")[1])
    return status, answer(request, data) if request.fate == "answered" and status == 200 else data


def answer(request, data):
    """What of the reply must be the same each time: texts and reasons of all choices."""
    head, _, body = data.partition(b"\r\n\r\n")
    if not request.stream:
        choices = json.loads(body)["choices"]
        return [(c["index"], c["message"]["content"] if "message" in c else c["text"], c["finish_reason"]) for c in choices]
    _, chunks = split_chunks(data)
    events = b"".join(chunks).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""], events[-3:]
    texts, reasons = {}, {}
    for event in events[:-2]:
        if not event.startswith("data: "):
            continue
        for c in json.loads(event[6:])["choices"]:
            piece = c["delta"].get("content") if "delta" in c else c["text"]
            texts[c["index"]] = texts.get(c["index"], "") + (piece or "")
            reasons[c["index"]] = c["finish_reason"] or reasons.get(c["index"])
    return [(index, texts[index], reasons[index]) for index in sorted(texts)]
