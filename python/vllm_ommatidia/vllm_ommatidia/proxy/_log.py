"""Lines of the log: time, level, event, message and values; as text or as objects of JSON."""

from __future__ import annotations

import json
import logging
import time

log = logging.getLogger("omma-encoder-proxy")


def _one_line(text: str) -> str:
    """Of texts from other servers and clients: nothing that breaks a line or moves a cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _Formatter(logging.Formatter):
    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, object] = getattr(record, "values", {})
        text = record.getMessage()
        if record.exc_info:
            text += f": {self.formatException(record.exc_info)}"
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        event = getattr(record, "event", "server")
        if self._as_json:
            return json.dumps({"time": moment, "level": record.levelname, "event": event, "message": text, **values})
        words = [moment, record.levelname, event, *(f"{name}={value}" for name, value in values.items()), text]
        return _one_line(" ".join(word for word in words if word))


def start_log(as_json: bool, level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(as_json))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log.setLevel(level.upper())


def say(level: int, event: str, message: str, **values: object) -> None:
    log.log(level, "%s", message, extra={"event": event, "values": values})
