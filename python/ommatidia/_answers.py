"""What comes of requests: answers, pieces of streams, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class RequestError(Exception):
    """A request that failed. status: of HTTP, as the server would have answered. param: the field
    at fault, or None."""

    def __init__(self, message: str, status: int, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is raised in another process of a pool."""
        return type(self), (str(self), self.status, self.param)


class BadRequest(RequestError, ValueError):
    """What was asked for is wrong (status 400 to 499); the message names the field."""


class RequestFailed(RequestError, RuntimeError):
    """It could not be answered (status 500 and above)."""


def error_of(status: int, body: Any) -> RequestError:
    """The exception for a reply {"error": {...}}."""
    found = body.get("error", body) if isinstance(body, Mapping) else {}
    found = found if isinstance(found, Mapping) else {}
    kind = BadRequest if 400 <= status < 500 else RequestFailed
    return kind(str(found.get("message") or f"status {status}"), status, found.get("param"))


@dataclass(frozen=True)
class Logprob:
    """A token of an answer, and the likeliest ones in its place."""

    token: str
    logprob: float
    bytes: bytes
    top: tuple[Logprob, ...] = ()


@dataclass(frozen=True)
class ToolCall:
    """A call that the model asks for. arguments: JSON, as the model wrote it."""

    id: str
    name: str
    arguments: str

    def parsed(self) -> Any:
        """The arguments as Python's objects. ValueError where they are no JSON."""
        return json.loads(self.arguments)


@dataclass(frozen=True)
class Usage:
    """Numbers of tokens. cached_tokens: those of the prompt that earlier prompts had computed."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Answer(Generic[T]):
    """An answer; str() of it is its text.

    parsed: with response_format the object that the text spells, else None. usage: of all answers
    to the request. raw: the server's whole reply, with everything that has no member here. others:
    with `n` above 1, or several prompts, the answers after this first one."""

    text: str
    parsed: T
    finish_reason: str
    reasoning: str | None
    tool_calls: tuple[ToolCall, ...]
    logprobs: tuple[Logprob, ...] | None
    token_ids: tuple[int, ...] | None
    usage: Usage
    raw: dict[str, Any] = field(repr=False)
    others: tuple[Answer[T], ...] = field(default=(), repr=False)
    _place: int = field(default=0, repr=False)

    def __str__(self) -> str:
        return self.text

    def __format__(self, spec: str) -> str:
        return format(self.text, spec)

    @property
    def choices(self) -> tuple[Answer[T], ...]:
        """This answer and the others, in the order of the reply."""
        return (self, *self.others)

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message, to be appended to a conversation."""
        found: dict[str, Any] = self.raw["choices"][self._place].get("message") or {"role": "assistant", "content": self.text}
        return {key: value for key, value in found.items() if value is not None and value != []}


@dataclass(frozen=True)
class Piece:
    """A piece of a stream; str() of it is its text. Most pieces are one token; the last one has
    finish_reason, and the one after it, which has no text, the usage. index: with `n` above 1,
    the answer that it belongs to. tool_calls: what is added to calls, in OpenAI's form: {"index",
    "function": {"arguments"}}, at a call's beginning with "id" and "name"."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    logprobs: tuple[Logprob, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    usage: Usage | None = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    index: int = 0
    tool_calls: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.text

    def __format__(self, spec: str) -> str:
        return format(self.text, spec)


@dataclass(frozen=True)
class Ranked:
    """A document in its place after sorting. index: its place before."""

    index: int
    score: float


def _logprob(entry: Mapping[str, Any]) -> Logprob:
    top = tuple(_logprob(other) for other in entry.get("top_logprobs") or ())
    return Logprob(entry["token"], entry["logprob"], bytes(entry.get("bytes") or b""), top)


def _logprobs(choice: Mapping[str, Any]) -> tuple[Logprob, ...] | None:
    """Of a chat, or in the older form of completions, which has no bytes."""
    found = choice.get("logprobs")
    if not found:
        return None
    if "tokens" not in found:
        return tuple(_logprob(entry) for entry in found.get("content") or ())
    tops = found.get("top_logprobs") or [None] * len(found["tokens"])
    return tuple(
        Logprob(token, logprob, token.encode(), tuple(Logprob(name, value, name.encode()) for name, value in (top or {}).items()))
        for token, logprob, top in zip(found["tokens"], found["token_logprobs"], tops, strict=True)
    )


def _usage(found: Mapping[str, Any] | None) -> Usage | None:
    if not found:
        return None
    prompt, completion = found.get("prompt_tokens_details") or {}, found.get("completion_tokens_details") or {}
    return Usage(
        found["prompt_tokens"], found["completion_tokens"], prompt.get("cached_tokens", 0), completion.get("reasoning_tokens", 0)
    )


def _ids(found: Any) -> tuple[int, ...] | None:
    return None if found is None else tuple(found)


def answer_of(reply: dict[str, Any]) -> Answer[None]:
    """The answers in a reply of chat completions, or of completions: its choices."""
    first, *others = (_answer(reply, place) for place in range(len(reply["choices"])))
    return replace(first, others=tuple(others))


def _answer(reply: dict[str, Any], place: int) -> Answer[None]:
    choice = reply["choices"][place]
    message = choice.get("message") or {"content": choice.get("text")}
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    )
    return Answer(
        text=message.get("content") or "",
        parsed=None,
        finish_reason=choice.get("finish_reason") or "",
        reasoning=message.get("reasoning"),
        tool_calls=calls,
        logprobs=_logprobs(choice),
        token_ids=_ids(choice.get("token_ids")),
        usage=_usage(reply.get("usage")) or Usage(0, 0),
        raw=reply,
        _place=place,
    )


def piece_of(chunk: dict[str, Any]) -> Piece:
    """What an event of a stream holds."""
    choice: Mapping[str, Any] = chunk["choices"][0] if chunk.get("choices") else {}
    delta = choice.get("delta") or {"content": choice.get("text")}
    return Piece(
        text=delta.get("content") or "",
        reasoning=delta.get("reasoning") or "",
        finish_reason=choice.get("finish_reason"),
        logprobs=_logprobs(choice),
        token_ids=_ids(choice.get("token_ids")),
        usage=_usage(chunk.get("usage")),
        raw=chunk,
        index=choice.get("index", 0),
        tool_calls=tuple(delta.get("tool_calls") or ()),
    )


def _schema_of(kind: Any) -> Any:
    """JSON Schema of a pydantic model, without pydantic being imported here."""
    if isinstance(kind, type) and hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate_json"):
        return kind.model_json_schema()
    raise TypeError(f"response_format: expected a pydantic model or an object, found {kind!r}")


def format_field(wanted: Any) -> dict[str, Any]:
    """The field response_format: of a pydantic model, a JSON Schema, or OpenAI's object."""
    if isinstance(wanted, Mapping):
        if wanted.get("type") in ("text", "json_object", "json_schema"):
            return dict(wanted)
        name, schema = "answer", dict(wanted)
    else:
        name, schema = getattr(wanted, "__name__", "answer"), _schema_of(wanted)
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


def parse_answer(answer: Answer[None], wanted: Any) -> Answer[Any]:
    """The answers with their texts as objects. ValueError where one was cut off before its end."""
    parsed = _parse_text(answer, wanted)
    return replace(parsed, others=tuple(parse_answer(other, wanted) for other in answer.others))


def _parse_text(answer: Answer[None], wanted: Any) -> Answer[Any]:
    if wanted is None or answer.tool_calls or (isinstance(wanted, Mapping) and wanted.get("type") == "text"):
        return answer
    if answer.finish_reason == "length":
        shown = answer.text if len(answer.text) <= 80 else answer.text[:80] + "..."
        raise ValueError(f"response_format: the answer was cut off after {answer.usage.completion_tokens} tokens: {shown!r}")
    parsed = json.loads(answer.text) if isinstance(wanted, Mapping) else wanted.model_validate_json(answer.text)
    return replace(answer, parsed=parsed)
