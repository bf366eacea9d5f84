"""A model that answers in the process: its requests are those of `omma serve`, and so are its
answers, bit for bit."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import importlib
import itertools
import json
import os
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, overload

import numpy as np

from ._answers import Answer, BadRequest, Piece, Ranked, RequestError, answer_of, error_of, parse_answer, piece_of
from ._bodies import (
    EMBEDDINGS,
    POOLING,
    Body,
    Item,
    body_of,
    chat_body,
    check_defaults,
    completion_body,
    embed_body,
    is_item,
    json_of,
    of_input,
    of_pair,
    query_content,
    request_body,
    score_body,
    scores_of,
    token_vectors_of,
    vector_of,
)
from ._declarations import EngineOptions, ModelOptions, ServiceOptions
from ._library import integer
from ._media import ImageLike, Message, message_of, several
from ._paths import find_model
from ._runtime import Bell, Call, Runtime

T = TypeVar("T")
Vectors = np.ndarray[Any, np.dtype[np.float32]]
Prompt: TypeAlias = str | Sequence[int] | Sequence[str]

# Requests under way at once: those that the engine runs, and those that are prepared meanwhile.
MAX_PARALLEL = 128
# Resized images of all requests that are prepared or wait, as `omma serve` has it.
_MAX_RESIZED_BYTES = 4 << 30

# Documents of a request for scores by vectors, which has the query's vectors once.
_SCORED_TOGETHER = 16

_WEIGHTS = {"auto": 0, "f32": 1, "float32": 1, "bf16": 2, "bfloat16": 2, "int8": 3}
_TASKS = {"auto": 0, "generate": 1, "embed": 2, "score": 3}
_TASK_NAMES = {number: name for name, number in _TASKS.items()}


def _word(name: str, value: str, words: Mapping[str, int], *refused: str) -> int:
    if not isinstance(value, str) or value not in words or value in refused:
        raise ValueError(f"{name}: expected one of {', '.join(word for word in words if word not in refused)}, found {value!r}")
    return words[value]


_INT_MAX, _INT64_MAX = (1 << 31) - 1, (1 << 63) - 1


def _number(name: str, value: int | None, least: int = 1, most: int = _INT64_MAX) -> int:
    """An option for C, where 0 stands for the default. The library knows narrower limits."""
    if value is None:
        return 0
    number = integer(name, value)
    if not least <= number <= most:
        raise ValueError(f"{name}: expected at {f'least {least}' if number < least else f'most {most}'}, found {number}")
    return number


def _encoded(name: str, value: str | os.PathLike[str] | None) -> bytes | None:
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}: expected a string, found {value!r}")
    return None if value is None else os.fsencode(value)


def _flag(name: str, value: bool) -> int:
    if value not in (False, True):
        raise TypeError(f"{name}: expected True or False, found {value!r}")
    return int(value)


def _hosts(names: Iterable[str]) -> list[bytes]:
    listed = list(several("allowed_media_domains", names, ""))
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"allowed_media_domains: expected strings, found {name!r}")
    return [name.encode() for name in listed]


def _progress_bar(total: int | None, wanted: bool) -> Any:
    """tqdm's where it is installed."""
    if not wanted:
        return None
    try:
        tqdm = importlib.import_module("tqdm.auto")
    except ImportError:
        return None
    return tqdm.tqdm(total=total, unit="request", dynamic_ncols=True)


class _Reply:
    """A whole reply that is collected."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._data = bytearray()

    def poll(self) -> Any:
        """The reply's JSON, or None while it is not there. Raises what went wrong."""
        news = self.call.take()
        self._data += news.data
        if not news.ended:
            return None
        self.call.end()
        try:
            reply = json.loads(self._data or b"{}")
        except ValueError:
            raise ValueError("expected a reply in JSON, found a stream or bytes: chat and complete give streams") from None
        if news.status != 200:
            raise error_of(news.status, reply)
        return reply


class _Events:
    """The events of a stream as they come."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._rest = b""
        self.ended = False

    def poll(self) -> list[dict[str, Any]]:
        """Those that have come since the last time. Raises what went wrong."""
        news = self.call.take()
        self.ended = news.ended
        if not news.stream and news.status not in (0, 200):
            self.call.end()
            raise error_of(news.status, json.loads(news.data or b"{}"))
        *whole, self._rest = (self._rest + news.data).split(b"\n\n")
        found = [json.loads(event[6:]) for event in whole if event.startswith(b"data: {")]
        for event in found:
            if "error" in event:
                self.call.end()
                raise error_of(int(event["error"].get("code") or 500), event)
        return found


class Stream(Iterator[Piece]):
    """The pieces of an answer as they are generated. Closing it, or leaving it, ends the answer.
    Until then it keeps its model open where nothing else refers to it."""

    def __init__(self, call: Call, bell: Bell, model: Model) -> None:
        self._events, self._bell = _Events(call), bell
        self._model: Model | None = model
        self._pieces: list[dict[str, Any]] = []

    def __next__(self) -> Piece:
        try:
            while not self._pieces:
                if self._events.ended:
                    self.close()
                    raise StopIteration
                self._bell.wait()
                self._pieces = self._events.poll()[::-1]
        except BaseException:
            self.close()
            raise
        return piece_of(self._pieces.pop())

    def close(self) -> None:
        """Cancels what is not there yet."""
        self._pieces, self._events.ended = [], True
        self._events.call.end()
        self._model = None

    def __repr__(self) -> str:
        return f"<ommatidia.Stream, {'ended' if self._events.ended else 'under way'}>"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncStream(AsyncIterator[Piece]):
    """The same for `async for`."""

    def __init__(self, call: Call, bell: Bell, model: Model) -> None:
        self._events, self._bell = _Events(call), bell
        self._model: Model | None = model
        self._pieces: list[dict[str, Any]] = []

    async def __anext__(self) -> Piece:
        try:
            while not self._pieces:
                if self._events.ended:
                    raise StopAsyncIteration
                await _ring(self._bell)
                self._pieces = self._events.poll()[::-1]
        except BaseException:
            await self.aclose()
            raise
        return piece_of(self._pieces.pop())

    async def aclose(self) -> None:
        """Cancels what is not there yet."""
        self._pieces, self._events.ended = [], True
        self._events.call.end()
        self._model = None

    def __repr__(self) -> str:
        return f"<ommatidia.AsyncStream, {'ended' if self._events.ended else 'under way'}>"

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


async def _ring(bell: Bell) -> None:
    """Waits for the bell without holding up the loop."""
    loop = asyncio.get_running_loop()
    rung = asyncio.Event()
    loop.add_reader(bell.descriptor, rung.set)
    try:
        await rung.wait()
    finally:
        loop.remove_reader(bell.descriptor)
    bell.clear()


# A request of a batch that is yet to be made, and what its reply becomes.
_Maker = Callable[[], tuple[Body, Callable[[Any], Any]]]


class _Batch:
    """Many requests, of which up to MAX_PARALLEL are under way. placed: the message of an error of
    the request of that number. keep_errors: an exception is the result of its request."""

    def __init__(
        self,
        runtime: Runtime,
        makers: Iterator[_Maker],
        placed: Callable[[int, str], str],
        total: int | None,
        use_tqdm: bool,
        keep_errors: bool = False,
    ) -> None:
        self._runtime, self._makers, self._placed, self._keep_errors = runtime, enumerate(makers), placed, keep_errors
        self.bell = Bell()
        self._running: dict[int, tuple[_Reply, Callable[[Any], Any]]] = {}
        self.results: dict[int, Any] = {}
        self._bar = _progress_bar(total, use_tqdm)
        try:
            self._fill()
        except BaseException:
            self.end()
            raise

    def is_done(self) -> bool:
        return not self._running

    def _fill(self) -> None:
        while len(self._running) < MAX_PARALLEL and (made := next(self._makers, None)) is not None:
            index, make = made
            try:
                body, parse = make()
                self._running[index] = _Reply(Call(self._runtime, body.path, body.data, self.bell)), parse
            except Exception as error:
                self._fail(index, error)

    def _fail(self, index: int, error: Exception) -> None:
        if isinstance(error, (RequestError, TypeError, ValueError)) and len(error.args) == 1:
            error.args = (self._placed(index, str(error)),)
        if not self._keep_errors or self._runtime.closed:
            raise error
        self._keep(index, error)

    def _keep(self, index: int, result: Any) -> None:
        self.results[index] = result
        if self._bar is not None:
            self._bar.update()

    def step(self) -> None:
        """Takes what is there, and begins as many more."""
        for index, (reply, parse) in list(self._running.items()):
            try:
                found = reply.poll()
                if found is None:
                    continue
                self._keep(index, parse(found))
            except Exception as error:
                self._fail(index, error)
            del self._running[index]
        self._fill()

    def end(self) -> None:
        for reply, _ in self._running.values():
            reply.call.end()
        if self._bar is not None:
            self._bar.close()

    def listed(self) -> list[Any]:
        return [self.results[index] for index in range(len(self.results))]


class Model:
    """A vision-language model on this machine's CPUs.

        with Model("models/qwen3-vl-2b", quantization="int8") as model:
            print(model.chat("What is it?", image="cat.jpg"))

    Any thread may ask, several at a time: all requests share one engine, which works on them
    together, and an answer has the same bits as alone. Waiting releases the GIL. Ctrl-C ends the
    answer that is waited for, and the model can be used further. A forked process cannot use its
    parent's model. Methods whose names begin with "a" are for asyncio.

    path: what was opened. max_model_len: tokens that a prompt and its answer may have together.
    token_width: the width of the vector that each token has; 0: vectors are of whole inputs."""

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        quantization: str | None = None,
        dtype: str = "auto",
        vision_dtype: str = "auto",
        kv_cache_dtype: str = "auto",
        task: Literal["auto", "generate", "embed", "score"] = "auto",
        max_model_len: int | None = None,
        kv_cache_bytes: int | None = None,
        max_num_seqs: int | None = None,
        threads: int | None = None,
        isa: str | None = None,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        mmproj: str | os.PathLike[str] | None = None,
        chat_template: str | os.PathLike[str] | None = None,
        trust_family_chat_template: bool = False,
        generation_config: str | os.PathLike[str] | None = None,
        override_generation_config: Mapping[str, Any] | None = None,
        reasoning_parser: str | None = None,
        tool_call_parser: str | None = None,
        allowed_media_domains: Sequence[str] = (),
        seed: int | None = None,
    ) -> None:
        """Opens a model and packs its weights.

        model: a Hugging Face directory, a GGUF file, a name in the local cache of the hub
        ("Qwen/Qwen3-VL-2B-Instruct"); None or "demo": the demo model. The other arguments are the
        options of `omma serve` of these names (docs/omma.1); None: their defaults. tool_call_parser
        lets the model call tools by itself (tool_choice "auto").

        Raises FileNotFoundError, ImportError without the library, ValueError, NotImplementedError
        or MemoryError, each with one line."""
        self.path = find_model(model)
        weights = _word("dtype", dtype, _WEIGHTS, "int8")
        vision = _word("vision_dtype", vision_dtype, _WEIGHTS)
        kv_cache = _word("kv_cache_dtype", kv_cache_dtype, _WEIGHTS)
        overrides = None if override_generation_config is None else json_of("override_generation_config", override_generation_config)
        hosts = _hosts(allowed_media_domains)
        domains = (ctypes.c_char_p * len(hosts))(*hosts)
        model_options = ModelOptions(
            struct_size=ctypes.sizeof(ModelOptions),
            weights=weights,
            vision_weights=vision,
            kv_cache=kv_cache,
            quantization=_encoded("quantization", quantization),
            isa=_encoded("isa", isa),
            n_threads=_number("threads", threads, most=_INT_MAX),
            max_model_len=_number("max_model_len", max_model_len),
            max_resized_bytes=_MAX_RESIZED_BYTES,
            chat_template=_flag("trust_family_chat_template", trust_family_chat_template),
            chat_template_file=_encoded("chat_template", chat_template),
            generation_config=_encoded("generation_config", generation_config),
            override_generation_config=overrides,
            mmproj=_encoded("mmproj", mmproj),
            task=_word("task", task, _TASKS),
        )
        engine_options = EngineOptions(
            struct_size=ctypes.sizeof(EngineOptions),
            kv_cache_bytes=_number("kv_cache_bytes", kv_cache_bytes),
            max_sequences=_number("max_num_seqs", max_num_seqs),
        )
        service_options = ServiceOptions(
            struct_size=ctypes.sizeof(ServiceOptions),
            reasoning_parser=_encoded("reasoning_parser", reasoning_parser),
            tool_call_parser=_encoded("tool_call_parser", tool_call_parser),
            seeded=seed is not None,
            seed=_number("seed", seed, least=0),
            allowed_media_domains=ctypes.cast(domains, ctypes.c_void_p),
            n_allowed_media_domains=len(domains),
        )
        limits = service_options.image_options
        limits.min_pixels, limits.max_pixels = _number("min_pixels", min_pixels), _number("max_pixels", max_pixels)
        if limits.max_pixels and limits.min_pixels > limits.max_pixels:
            raise ValueError(f"min_pixels: expected at most max_pixels, which is {max_pixels}, found {min_pixels}")
        self._runtime = Runtime(os.fspath(self.path), model_options, engine_options, service_options)
        self._finalizer = weakref.finalize(self, self._runtime.close)
        info = self._runtime.info()
        self._task = int(info.task)
        self.token_width = int(info.token_vector_width)
        self.max_model_len = self._runtime.max_model_len()

    # ---- answers ----

    @overload
    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: Literal[True],
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> Stream: ...
    @overload
    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        response_format: type[T],
        stream: Literal[False] = False,
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> Answer[T]: ...
    @overload
    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        response_format: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> Answer[Any]: ...
    @overload
    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: bool,
        response_format: Any = None,
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> Stream | Answer[Any]: ...
    def chat(self, messages: str | Sequence[Message], *, stream: bool = False, **fields: Any) -> Stream | Answer[Any]:
        """Answers a text with images, or messages in OpenAI's form, as /v1/chat/completions does.

        image, images, video: with a text, what it is about; a video is a sequence of its frames. In
        messages, images are parts of contents: OpenAI's {"type": "image_url", ...}, {"type":
        "image", "image": IMAGE}, or an image itself. system: a first message. stream: return the
        pieces as they come. response_format: a pydantic model, a JSON Schema, or OpenAI's object;
        `parsed` of the answer is then the object. tools, tool_choice, logprobs, top_logprobs,
        max_tokens, temperature, top_p, seed, stop and all other fields are those of docs/serve.md.

        Raises BadRequest or RequestFailed with the server's line; RuntimeError where the model was
        closed."""
        bell = Bell()
        if stream:
            return Stream(self._begin_stream(chat_body(messages, **_streamed(fields)), bell), bell, self)
        wanted = fields.get("response_format")
        return parse_answer(answer_of(self._ask(chat_body(messages, **fields), bell)), wanted)

    @overload
    async def achat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: Literal[True],
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> AsyncStream: ...
    @overload
    async def achat(
        self,
        messages: str | Sequence[Message],
        *,
        response_format: type[T],
        stream: Literal[False] = False,
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> Answer[T]: ...
    @overload
    async def achat(
        self,
        messages: str | Sequence[Message],
        *,
        response_format: Mapping[str, Any] | None = None,
        stream: Literal[False] = False,
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> Answer[Any]: ...
    @overload
    async def achat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: bool,
        response_format: Any = None,
        image: ImageLike | None = None,
        images: Iterable[ImageLike] | None = None,
        video: Iterable[ImageLike] | None = None,
        **fields: Any,
    ) -> AsyncStream | Answer[Any]: ...
    async def achat(
        self, messages: str | Sequence[Message], *, stream: bool = False, **fields: Any
    ) -> AsyncStream | Answer[Any]:
        """`chat` for asyncio. Cancelling the task ends the answer."""
        bell = Bell()
        if stream:
            return AsyncStream(self._begin_stream(chat_body(messages, **_streamed(fields)), bell), bell, self)
        wanted = fields.get("response_format")
        return parse_answer(answer_of(await self._aask(chat_body(messages, **fields), bell)), wanted)

    @overload
    def complete(self, prompt: Prompt, *, stream: Literal[True], **fields: Any) -> Stream: ...
    @overload
    def complete(self, prompt: Prompt, *, stream: Literal[False] = False, **fields: Any) -> Answer[None]: ...
    @overload
    def complete(self, prompt: Prompt, *, stream: bool, **fields: Any) -> Stream | Answer[None]: ...
    def complete(self, prompt: Prompt, *, stream: bool = False, **fields: Any) -> Stream | Answer[None]:
        """Continues a text or token ids, without a chat template, as /v1/completions does. Of a
        list of texts each is continued, and `choices` of the answer has all of them."""
        bell = Bell()
        if stream:
            return Stream(self._begin_stream(completion_body(prompt, **_streamed(fields)), bell), bell, self)
        return answer_of(self._ask(completion_body(prompt, **fields), bell))

    @overload
    async def acomplete(self, prompt: Prompt, *, stream: Literal[True], **fields: Any) -> AsyncStream: ...
    @overload
    async def acomplete(self, prompt: Prompt, *, stream: Literal[False] = False, **fields: Any) -> Answer[None]: ...
    @overload
    async def acomplete(self, prompt: Prompt, *, stream: bool, **fields: Any) -> AsyncStream | Answer[None]: ...
    async def acomplete(self, prompt: Prompt, *, stream: bool = False, **fields: Any) -> AsyncStream | Answer[None]:
        """`complete` for asyncio."""
        bell = Bell()
        if stream:
            return AsyncStream(self._begin_stream(completion_body(prompt, **_streamed(fields)), bell), bell, self)
        return answer_of(await self._aask(completion_body(prompt, **fields), bell))

    def batch(
        self, requests: Iterable[Any], *, use_tqdm: bool = True, return_exceptions: bool = False, **fields: Any
    ) -> list[Answer[Any]]:
        """The answers to many chats, in their order. They are under way together, and read from
        `requests` as there is room, so memory does not grow with their images.

        requests: texts, lists of messages, or dicts with what `chat` takes by name ("messages",
        "image", "max_tokens", ...). fields: the same for all that do not have them. use_tqdm: show
        progress where tqdm is installed. return_exceptions: put the exception in the place of an
        answer that failed; else the first one is raised and the others end."""
        return self._run(self._batch(requests, use_tqdm, return_exceptions, fields))

    async def abatch(
        self, requests: Iterable[Any], *, use_tqdm: bool = False, return_exceptions: bool = False, **fields: Any
    ) -> list[Answer[Any]]:
        """`batch` for asyncio."""
        return await self._arun(self._batch(requests, use_tqdm, return_exceptions, fields))

    # ---- vectors and scores ----

    def embed(
        self,
        inputs: Any,
        *,
        instruction: str | None = None,
        dimensions: int | None = None,
        use_tqdm: bool = False,
        return_exceptions: bool = False,
    ) -> Any:
        """Vectors of length 1, float32 [n, width], of a model for vectors (docs/embeddings.md);
        where each token has a vector (`token_width`), a list of n float32 [n_tokens, width].

        inputs: texts (str), images (paths as pathlib.Path, bytes, pixels, PIL images, data: URLs)
        and dicts with "text", "image", "images", "video"; a single one gives [width], or [n_tokens,
        width]. They are read as there is room. instruction: what the vectors are for. dimensions:
        keep that many. A text of a model with a vector for each token is one that searches.
        return_exceptions: of several, return a list, with the exception in the place of an input
        that cannot be used, such as a damaged image."""
        vectors = self._run(self._embeddings(inputs, instruction, dimensions, use_tqdm, return_exceptions))
        return self._result(vectors, inputs, return_exceptions)

    async def aembed(
        self,
        inputs: Any,
        *,
        instruction: str | None = None,
        dimensions: int | None = None,
        use_tqdm: bool = False,
        return_exceptions: bool = False,
    ) -> Any:
        """`embed` for asyncio."""
        vectors = await self._arun(self._embeddings(inputs, instruction, dimensions, use_tqdm, return_exceptions))
        return self._result(vectors, inputs, return_exceptions)

    def score(
        self, query: Item, documents: Any, *, instruction: str | None = None, use_tqdm: bool = False
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How well documents answer a query, float64 [n]: from 0 to 1 of a model for scores, the
        cosine of two vectors of a model for vectors, and where each token has one, the sum over the
        query's of the largest product with one of the document's.

        query and documents are what `embed` takes; documents may be a single one."""
        listed = [documents] if is_item(documents) else documents
        return _joined(self._run(self._scores(query, listed, instruction, use_tqdm)))

    async def ascore(
        self, query: Item, documents: Any, *, instruction: str | None = None, use_tqdm: bool = False
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """`score` for asyncio."""
        listed = [documents] if is_item(documents) else documents
        return _joined(await self._arun(self._scores(query, listed, instruction, use_tqdm)))

    def rerank(
        self, query: Item, documents: Iterable[Item], *, top_n: int | None = None, instruction: str | None = None
    ) -> list[Ranked]:
        """The documents by their scores, the best first, and equal ones in their order."""
        _check_top_n(top_n)
        return _ranked(self.score(query, documents, instruction=instruction), top_n)

    async def arerank(
        self, query: Item, documents: Iterable[Item], *, top_n: int | None = None, instruction: str | None = None
    ) -> list[Ranked]:
        """`rerank` for asyncio."""
        _check_top_n(top_n)
        return _ranked(await self.ascore(query, documents, instruction=instruction), top_n)

    # ---- anything else of the server ----

    def request(self, path: str, body: Mapping[str, Any]) -> Any:
        """The reply of an endpoint of `omma serve` that takes JSON, such as "/tokenize"."""
        return self._ask(_body_given(path, body), Bell())

    async def arequest(self, path: str, body: Mapping[str, Any]) -> Any:
        """`request` for asyncio."""
        return await self._aask(_body_given(path, body), Bell())

    # ---- tokens ----

    def tokenize(self, text: str | Sequence[Message], *, add_special_tokens: bool | None = None) -> list[int]:
        """The token ids of a text; or of messages as `chat` takes them, whose number is that of
        usage.prompt_tokens, images included."""
        fields: dict[str, Any] = {"add_special_tokens": add_special_tokens}
        if isinstance(text, str):
            fields["prompt"] = text
        else:
            fields["messages"] = [message_of(message) for message in several("messages", text, "; a message stands in a list")]
        found: list[int] = self.request("/tokenize", fields)["tokens"]
        return found

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids."""
        return str(self.request("/detokenize", {"tokens": tokens})["prompt"])

    # ---- the model ----

    def info(self) -> dict[str, Any]:
        """What was opened: family, types, sizes, numbers of parameters."""
        found = self._runtime.info()
        values = {name: getattr(found, name) for name, *_ in found._fields_}
        shown = {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}
        return {**shown, "max_model_len": self.max_model_len, "task": _TASK_NAMES[found.task]}

    def stats(self) -> dict[str, Any]:
        """The engine's counters, by their names in omma/engine_figures.h."""
        return self._runtime.stats()

    def close(self) -> None:
        """Ends what runs, whose callers get RuntimeError, and frees the model. Again: nothing."""
        self._finalizer()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a model is neither copied nor sent to another process: open it there")

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._runtime.closed or not self._runtime.is_ours():
            return f"<ommatidia.Model {self.path} ({'closed' if self._runtime.closed else 'of another process'})>"
        info = self.info()
        return (
            f"<ommatidia.Model {self.path}: {info['model_type']}, {info['n_parameters'] / 1e6:,.0f} M parameters, task {info['task']}, "
            f"{info['weights']} over {info['kept_weights']} weights, {info['max_model_len']:,} tokens, {info['n_threads']} threads, "
            f"{info['isa']}>"
        )

    # ---- inside ----

    def _begin_stream(self, body: Body, bell: Bell) -> Call:
        return Call(self._runtime, body.path, body.data, bell)

    def _ask(self, body: Body, bell: Bell) -> Any:
        reply = _Reply(Call(self._runtime, body.path, body.data, bell))
        try:
            while True:
                bell.wait()
                found = reply.poll()
                if found is not None:
                    return found
        finally:
            reply.call.end()

    async def _aask(self, body: Body, bell: Bell) -> Any:
        reply = _Reply(Call(self._runtime, body.path, body.data, bell))
        try:
            while True:
                await _ring(bell)
                found = reply.poll()
                if found is not None:
                    return found
        finally:
            reply.call.end()

    def _batch(self, requests: Iterable[Any], use_tqdm: bool, keep_errors: bool, fields: dict[str, Any]) -> _Batch:
        check_defaults(fields)

        def make(request: Any) -> tuple[Body, Callable[[Any], Any]]:
            body, wanted = request_body(request, fields)
            return body, functools.partial(_parse, wanted=wanted)

        listed = several("requests", requests, "; a single one is for chat")
        makers = (functools.partial(make, request) for request in listed)
        return _Batch(self._runtime, makers, "requests[{}]: {}".format, _length(requests), use_tqdm, keep_errors)

    def _embeddings(
        self, inputs: Any, instruction: str | None, dimensions: int | None, use_tqdm: bool, keep_errors: bool
    ) -> _Batch:
        def make(item: Item) -> tuple[Body, Callable[[Any], Any]]:
            path = POOLING if self.token_width else EMBEDDINGS
            return embed_body(item, instruction, dimensions, path), self._vector_of

        self._check_task("embed", embed_body("", None, None))
        listed = [inputs] if (single := is_item(inputs)) else several("inputs", inputs, "")
        makers = (functools.partial(make, item) for item in listed)
        placed = functools.partial(of_input, single=single)
        return _Batch(self._runtime, makers, placed, _length(listed), use_tqdm, keep_errors and not single)

    def _scores(self, query: Item, documents: Iterable[Item], instruction: str | None, use_tqdm: bool) -> _Batch:
        def make(group: list[Item]) -> tuple[Body, Callable[[Any], Any]]:
            return score_body(asked, group, instruction), scores_of

        asked = query_content(query)
        self._check_task("score", score_body(asked, [""], None))
        together = 1 if self._task == _TASKS["score"] else _SCORED_TOGETHER
        makers = (functools.partial(make, group) for group in _groups(several("documents", documents, ""), together))
        total = _length(documents)
        n_groups = None if total is None else -(-total // together)
        return _Batch(self._runtime, makers, lambda group, text: of_pair(group * together, text), n_groups, use_tqdm)

    def _check_task(self, task: str, body: Body) -> None:
        """What fails with any input fails before the first; scores are made of vectors too."""
        if self.token_width or _TASK_NAMES[self._task] in ("embed", task):
            return
        try:
            self._ask(body, Bell())  # is refused at once
        except BadRequest as error:
            error.args = (f'{error}; Model(..., task="{task}") asks this one for them',)
            raise

    def _vector_of(self, reply: dict[str, Any]) -> Vectors:
        return token_vectors_of(reply, self.token_width) if self.token_width else vector_of(reply)

    def _result(self, vectors: list[Vectors], inputs: Any, keep_errors: bool) -> Any:
        if is_item(inputs):
            return vectors[0]
        if self.token_width or keep_errors:
            return vectors
        return np.stack(vectors) if vectors else np.empty((0, 0), np.float32)

    def _run(self, batch: _Batch) -> list[Any]:
        try:
            while not batch.is_done():
                batch.bell.wait()
                batch.step()
            return batch.listed()
        finally:
            batch.end()

    async def _arun(self, batch: _Batch) -> list[Any]:
        try:
            while not batch.is_done():
                await _ring(batch.bell)
                batch.step()
            return batch.listed()
        finally:
            batch.end()


def _body_given(path: str, body: Mapping[str, Any]) -> Body:
    if not isinstance(path, str):
        raise TypeError(f"path: expected a string, found {type(path).__name__}")
    if not isinstance(body, Mapping) or not all(isinstance(name, str) for name in body):
        raise TypeError(f"body: expected a dict of fields by their names, found {body!r:.60}")
    return body_of(path, body)


def _streamed(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"stream_options": {"include_usage": True}, **fields, "stream": True}


def _parse(reply: dict[str, Any], wanted: Any) -> Answer[Any]:
    return parse_answer(answer_of(reply), wanted)


def _length(values: Iterable[Any]) -> int | None:
    return len(values) if isinstance(values, Sequence) else None


def _check_top_n(top_n: int | None) -> None:
    """Below 0 it would count from the end."""
    _number("top_n", top_n, least=0)


def _ranked(scores: np.ndarray[Any, np.dtype[np.float64]], top_n: int | None) -> list[Ranked]:
    order = np.argsort(-scores, kind="stable")[: top_n or None]
    return [Ranked(int(index), float(scores[index])) for index in order]


def _groups(values: Iterable[Item], size: int) -> Iterator[list[Item]]:
    remaining = iter(values)
    while group := list(itertools.islice(remaining, size)):
        yield group


def _joined(scores: list[list[float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([score for group in scores for score in group], np.float64)


def max_sim(query: Vectors, document: Vectors) -> float:
    """The score of a document's token vectors [m, width] for a query's [n, width]: the sum over the
    query's of the largest product with one of the document's."""
    for name, vectors in (("query", query), ("document", document)):
        if not isinstance(vectors, np.ndarray) or vectors.ndim != 2:
            found = list(vectors.shape) if isinstance(vectors, np.ndarray) else type(vectors).__name__
            raise TypeError(f"{name}: expected an array [n_tokens, width], found {found}")
    if query.shape[1] != document.shape[1] or not len(document):
        raise ValueError(f"document: expected [at least 1, {query.shape[1]}], found {list(document.shape)}")
    products = query.astype(np.float64) @ document.astype(np.float64).T
    return float(products.max(axis=1).sum())
