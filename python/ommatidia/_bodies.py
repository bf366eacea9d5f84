"""The bodies of requests, as the server's endpoints read them."""

from __future__ import annotations

import base64
import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._answers import format_field
from ._fields import CHAT_FIELDS, COMPLETION_FIELDS
from ._media import ImageLike, Message, content_of, image_part, is_image, is_single_image, message_of, several, text_part, video_part

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
SCORE = "/v1/score"
POOLING = "/pooling"


# What `chat` takes by name.
_CHAT_NAMES = CHAT_FIELDS | {"image", "images", "video", "system"}
_COMPLETION_NAMES = COMPLETION_FIELDS - {"prompt"}


class Body(NamedTuple):
    path: str
    data: bytes


def _check_names(given: Iterable[str], known: frozenset[str]) -> None:
    """As a call in Python does it: a server ignores a field that it does not know."""
    for name in given:
        if name not in known:
            nearest = ["messages"] if name == "text" else difflib.get_close_matches(name, sorted(known), 1)
            hint = f": did you mean {nearest[0]!r}?" if nearest else "; the fields of requests are those of docs/serve.md"
            raise TypeError(f"unexpected keyword argument {name!r}{hint}")


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy and PyTorch, as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"expected what JSON has, found {type(value).__name__}")


def json_of(name: str, value: Any) -> bytes:
    """TypeError or ValueError names what it is of."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    except UnicodeEncodeError:
        raise ValueError(f"{name}: expected text, found half of a character (a surrogate alone)") from None
    except ValueError as error:
        unbounded = "Out of range" in str(error)
        raise ValueError(f"{name}: {'expected finite numbers' if unbounded else 'an object that holds itself'}") from None


def body_of(path: str, fields: Mapping[str, Any]) -> Body:
    """Fields that are None are left out, so that they have the server's defaults. TypeError or
    ValueError names the field that cannot be written as JSON."""
    members = [json.dumps(name).encode() + b":" + json_of(name, value) for name, value in fields.items() if value is not None]
    return Body(path, b"{" + b",".join(members) + b"}")


def chat_body(
    messages: str | Sequence[Message] | None,
    *,
    image: ImageLike | None = None,
    images: Iterable[ImageLike] | None = None,
    video: Iterable[ImageLike] | None = None,
    system: str | None = None,
    response_format: Any = None,
    logprobs: bool | None = None,
    top_logprobs: int | None = None,
    **fields: Any,
) -> Body:
    """Of a text with images, or of messages in OpenAI's form."""
    _check_names(fields, _CHAT_NAMES)
    shown = [] if image is None else [image]
    shown += [] if images is None else list(several("images", images, "; a single one is given as image"))
    if messages is None and not shown and video is None:
        raise TypeError("messages: expected a text or messages, found None")
    if messages is None or isinstance(messages, str):
        listed = [{"role": "user", "content": content_of(messages, shown, video)}]
    elif shown or video is not None:
        raise ValueError("image: with messages, images are parts of their contents")
    else:
        listed = [message_of(message) for message in several("messages", messages, "; a message stands in a list")]
    if system is not None:
        listed.insert(0, {"role": "system", "content": system})
    if response_format is not None:
        fields["response_format"] = format_field(response_format)
    if top_logprobs is not None and logprobs is None:
        logprobs = True
    return body_of(CHAT, {"messages": listed, "logprobs": logprobs, "top_logprobs": top_logprobs, **fields})


def completion_body(prompt: str | Sequence[int] | Sequence[str], **fields: Any) -> Body:
    _check_names(fields, _COMPLETION_NAMES)
    return body_of(COMPLETIONS, {"prompt": prompt, **fields})


def check_defaults(fields: Mapping[str, Any]) -> None:
    """Of the fields that the requests of a batch have in common."""
    if "stream" in fields:
        raise TypeError("stream: a batch gives whole answers")
    _check_names(fields, _CHAT_NAMES - {"stream"})


def request_body(request: Any, defaults: Mapping[str, Any]) -> tuple[Body, Any]:
    """The body of one request of a batch, and its response_format. A request is a text, a list of
    messages, or what `chat` takes by name, with the text or the messages as "messages" or
    "prompt"."""
    if isinstance(request, Mapping) and "role" not in request:
        given = {**defaults, **request}
        if "prompt" in given:
            if "messages" in given:
                raise TypeError("prompt: messages is given already")
            given["messages"] = given.pop("prompt")
    else:
        given = {**defaults, "messages": [request] if isinstance(request, Mapping) else request}
    if given.pop("stream", False):
        raise TypeError("stream: a batch gives whole answers")
    return chat_body(given.pop("messages", None), **given), given.get("response_format")


# What is embedded or scored: a text, an image (a path is a pathlib.Path), or {"text", "image",
# "images", "video"}.
Item = Any


def _content(item: Item) -> dict[str, Any]:
    """In the model's own form of prompts: its video, then images, then the text."""
    if isinstance(item, str) and not is_image(item):
        return {"content": [text_part(item)]}
    if is_image(item):
        return {"content": [image_part(item)]}
    if isinstance(item, Mapping):
        unknown = set(item) - {"text", "image", "images", "video"}
        if unknown:
            raise ValueError(f"expected text, image, images or video, found {', '.join(sorted(map(repr, unknown)))}")
        one = [] if item.get("image") is None else [item["image"]]
        more = [] if item.get("images") is None else several("images", item["images"], "; a single one is given as image")
        parts = [] if item.get("video") is None else [video_part(item["video"])]
        parts += [image_part(image) for image in [*one, *more]]
        text = item.get("text")
        if not isinstance(text, (str, type(None))):
            raise TypeError(f"text: expected a string, found {type(text).__name__}")
        return {"content": parts if text is None else [*parts, {"type": "text", "text": text}]}
    raise TypeError(f"expected a text, an image or a dict with text and image, found {type(item).__name__}")


def is_item(value: Any) -> bool:
    return isinstance(value, (str, Mapping)) or is_single_image(value)


def embed_body(item: Item, instruction: str | None, dimensions: int | None, path: str = EMBEDDINGS) -> Body:
    fields = {"input": [_content(item)], "instruction": instruction, "dimensions": dimensions, "encoding_format": "base64"}
    return body_of(path, fields)


def _content_of(where: str, item: Item) -> dict[str, Any]:
    try:
        return _content(item)
    except (TypeError, ValueError) as error:
        error.args = (f"{where}: {error}",)
        raise


def query_content(query: Item) -> dict[str, Any]:
    return _content_of("query", query)


def score_body(query: Mapping[str, Any], documents: Sequence[Item], instruction: str | None) -> Body:
    """query: its content."""
    contents = [_content_of(f"documents[{index}]", document) for index, document in enumerate(documents)]
    return body_of(SCORE, {"queries": query, "documents": contents, "instruction": instruction})


# ---- whose fault it is ----

# Where an endpoint says that an error is: an input of the request, and a part of it.
_PLACE = re.compile(r"(input|queries|documents)(?:\[(\d+)\])?(?:\.content\[(\d+)\])?: ")


def _of_part(place: re.Match[str], text: str) -> str:
    """Without the endpoint's place; of an image after the first, which one it is."""
    part = int(place[3] or 0)
    return (f"part {part + 1}: " if part else "") + text[place.end() :]


def of_input(index: int, text: str, single: bool) -> str:
    """The message of an error of one input, which is the only one of its request."""
    place = _PLACE.match(text)
    return ("" if single else f"inputs[{index}]: ") + (_of_part(place, text) if place else text)


def of_pair(first: int, text: str) -> str:
    """The message of an error of a request for scores, whose documents begin at `first`."""
    place = _PLACE.match(text)
    if not place:
        return text
    whose = "query" if place[1] == "queries" else f"documents[{first + int(place[2] or 0)}]"
    return f"{whose}: {_of_part(place, text)}"


def scores_of(reply: Mapping[str, Any]) -> list[float]:
    return [float(entry["score"]) for entry in reply["data"]]


def vector_of(reply: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.frombuffer(base64.b64decode(reply["data"][0]["embedding"]), np.dtype("<f4"))


def token_vectors_of(reply: Mapping[str, Any], width: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """[n_tokens, width]."""
    return np.frombuffer(base64.b64decode(reply["data"][0]["data"]), np.dtype("<f4")).reshape(-1, width)
