"""What /metrics shows."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        def made(kind: type, name: str, text: str, labels: tuple[str, ...] = (), **more: object):  # type: ignore[no-untyped-def]
            return kind(f"omma_proxy:{name}", text, labels, registry=self.registry, **more)

        self.requests = made(Counter, "requests", "Requests, by status; 499: the client left.", ("path", "status"))
        self.running = made(Gauge, "requests_running", "Requests that are being answered.")
        self.waiting = made(Gauge, "requests_waiting", "Requests that wait for a place, or for space for their body.")
        self.held_bytes = made(Gauge, "request_bytes", "Bytes of the bodies that are held.")
        self.chats = made(
            Counter, "chats", "Chats by what vLLM got: embeddings, the images themselves (by reason), or text alone.", ("sent", "reason")
        )
        self.images = made(Counter, "images", "Images sent to a node, by outcome.", ("node", "outcome"))
        self.seconds = made(Histogram, "encode_seconds", "Time until a node has encoded an image.", ("node",), buckets=_SECONDS)
        self.node_up = made(Gauge, "node_up", "1: the node gets images.", ("node",))
        self.node_outs = made(Counter, "node_outs", "How often a node was taken out.", ("node",))
        self.vllm_up = made(Gauge, "vllm_up", "1: vLLM answers health checks.")
