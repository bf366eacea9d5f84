"""Replicas of `omma serve` behind a balancer, in simulated time.

A replica computes on one thread of control, in turns as docs/engine.md has them: a decode step of
all requests that are writing, then a slice of images and prompts, which get `percent` of the time
of both; without any that is writing, images and prompts get all of it. They take turns while both
wait; among images and among prompts the oldest goes first. At most `max_num_seqs` requests are
worked on, more wait. What a request costs outside of the engine (decoding and resizing its image)
delays it and nobody else: it runs on other threads."""

import collections
import dataclasses
import hashlib
import heapq
import math
import random


# Seconds of a slice without decode steps: alone, and where both images and prompts wait.
LONG_SLICE, SHORT_SLICE = 1.0, 0.1


@dataclasses.dataclass
class Service:
    """Measured seconds of one request alone, and of decode steps."""

    prepare: float        # decoding and resizing an image that is new
    encode: float         # its way through the tower
    prefill: float        # the prompt with a new image
    prefill_known: float  # the prompt with an image that the replica has seen
    # [seconds of a decode step with 1, 2, ... rows]; beyond the last it grows as between the last
    # two
    steps: list

    def step(self, rows: int) -> float:
        if rows <= len(self.steps):
            return self.steps[rows - 1]
        slope = self.steps[-1] - self.steps[-2] if len(self.steps) > 1 else 0.0
        return self.steps[-1] + slope * (rows - len(self.steps))


@dataclasses.dataclass
class Request:
    arrival: float
    image: int
    n_tokens: int
    ready: float = 0.0   # when the engine gets it
    encode: float = 0.0  # seconds of its image that are left
    prefill: float = 0.0  # and of its prompt
    written: int = 0
    first: float = 0.0   # when its first token came
    end: float = 0.0
    replica: int = 0

    @property
    def writes(self) -> bool:
        return self.encode == 0 and self.prefill == 0

    @property
    def time_to_first_token(self) -> float:
        return self.first - self.arrival

    @property
    def seconds(self) -> float:
        return self.end - self.arrival


class Replica:
    def __init__(self, service: Service, max_num_seqs: int, percent: float, cached_images: int):
        self.service, self.max_num_seqs, self.share = service, max_num_seqs, percent / (100 - percent)
        self.known, self.cached_images = collections.OrderedDict(), cached_images
        self.clock, self.busy = 0.0, 0.0
        self.incoming, self.waiting, self.live = [], collections.deque(), []
        self.hits, self.last_turn = 0, -1
        self.images_turn = True

    @property
    def running(self) -> int:
        return len(self.incoming) + len(self.waiting) + len(self.live)

    def take(self, request: Request) -> None:
        """A request arrives; the clock stands at or after its arrival."""
        known = request.image in self.known
        self.hits += known
        self.known[request.image] = True
        self.known.move_to_end(request.image)
        while len(self.known) > self.cached_images:
            self.known.popitem(last=False)
        request.ready = request.arrival + (0 if known else self.service.prepare)
        request.encode = 0.0 if known else self.service.encode
        request.prefill = self.service.prefill_known if known else self.service.prefill
        heapq.heappush(self.incoming, (request.ready, request.arrival, id(request), request))

    def _admit(self) -> None:
        while self.incoming and self.incoming[0][0] <= self.clock:
            self.waiting.append(heapq.heappop(self.incoming)[-1])
        while self.waiting and len(self.live) < self.max_num_seqs:
            self.live.append(self.waiting.popleft())

    def _next_work(self) -> tuple:
        """(request, "encode" or "prefill", whether the other kind waits, too), or None"""
        image = next((r for r in self.live if r.encode > 0), None)
        prompt = next((r for r in self.live if r.encode == 0 and r.prefill > 0), None)
        if image and (self.images_turn or not prompt):
            return image, "encode", prompt is not None
        return (prompt, "prefill", image is not None) if prompt else None

    def _slice(self, seconds: float) -> float:
        """Works on one image or prompt, at most for that long. Returns how long."""
        if not (work := self._next_work()):
            return seconds
        request, kind, others_wait = work
        left = getattr(request, kind)
        spent = min(seconds, left, SHORT_SLICE if others_wait else LONG_SLICE)
        self.clock += spent
        self.busy += spent
        self.images_turn = kind == "prefill"
        setattr(request, kind, left - spent if left - spent > 1e-12 else 0.0)
        if request.writes:
            self._write(request)
        return spent

    def _write(self, request: Request) -> None:
        request.written += 1
        if request.written == 1:
            request.first = self.clock
        if request.written >= request.n_tokens:
            request.end = self.clock
            self.live.remove(request)

    def run_until(self, time: float) -> None:
        while True:
            self._admit()
            if not self.live:
                soonest = self.incoming[0][0] if self.incoming else time
                self.clock = max(self.clock, min(soonest, time))
                if self.clock >= time or not self.incoming:
                    return
                continue
            if self.clock >= time:
                return
            writing = [r for r in self.live if r.writes]
            if writing:
                step = self.service.step(len(writing))
                self.clock += step
                self.busy += step
                for request in writing:
                    self._write(request)
                seconds = step * self.share
                while seconds > 0:
                    seconds -= self._slice(seconds)
            else:
                self._slice(time - self.clock)


def route(replicas: list, request: Request, routing: str, turn: int, draw: int) -> int:
    """The number of the replica: in turns; the one with the fewest requests (of equals the one that
    waited longest); or the image's own, unless that has half more than the mean (HAProxy's
    hash-balance-factor 150)."""
    if routing == "robin":
        return turn % len(replicas)
    fewest = min(range(len(replicas)), key=lambda i: (replicas[i].running, replicas[i].last_turn))
    if routing == "least":
        return fewest
    own = int.from_bytes(hashlib.blake2b(f"{draw} {request.image}".encode()).digest()[:8], "little") % len(replicas)
    mean = (sum(r.running for r in replicas) + 1) / len(replicas)
    return own if replicas[own].running < math.ceil(1.5 * mean) else fewest


def simulate(service: Service, requests: list, n_replicas: int = 1, routing: str = "least", max_num_seqs: int = 8, percent: float = 50,
             cached_images: int = 1000, draw: int = 0) -> list:
    """Fills in first, end and replica of each request (sorted by arrival). Returns the replicas.
    `draw` chooses which image has which replica for its own."""
    replicas = [Replica(service, max_num_seqs, percent, cached_images) for _ in range(n_replicas)]
    for turn, request in enumerate(requests):
        for replica in replicas:
            replica.run_until(request.arrival)
        request.replica = route(replicas, request, routing, turn, draw)
        replicas[request.replica].take(request)
        replicas[request.replica].last_turn = turn
    for replica in replicas:
        replica.run_until(float("inf"))
    return replicas


def make_requests(n: int, rate: float, hit_rate: float, n_tokens: int, seed: int) -> list:
    """n requests with exponential gaps; each asks about an image of before with the probability
    hit_rate, else about a new one."""
    source = random.Random(seed)
    requests, time, n_images = [], 0.0, 0
    for _ in range(n):
        time += source.expovariate(rate)
        old = n_images and source.random() < hit_rate
        image = source.randrange(n_images) if old else n_images
        n_images += image == n_images
        requests.append(Request(time, image, n_tokens))
    return requests


def percentile(values: list, p: float) -> float:
    """As NumPy's default: linear between the neighbours."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * p / 100
    low = int(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)
