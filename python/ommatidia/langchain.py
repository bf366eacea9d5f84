"""For LangChain: embeddings and a chat model in this process. Needs langchain-core.

    from ommatidia.langchain import ChatOmmatidia, OmmatidiaEmbeddings

    chat = ChatOmmatidia(model=Model("qwen3-vl-2b", quantization="int8"))
    store = InMemoryVectorStore(OmmatidiaEmbeddings(Model("qwen3-vl-embedding-2b")))"""

# The framework is not there where these types are checked.
# mypy: disable-error-code="import-not-found, misc, unused-ignore, no-any-return"
from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.utils.function_calling import convert_to_openai_tool

from ._answers import Answer, Piece, Usage
from ._media import ImageLike
from ._model import Model


class OmmatidiaEmbeddings(Embeddings):
    """Vectors of a model for vectors (Qwen3-VL-Embedding). query_instruction and
    document_instruction: what they are for; None: the model's own."""

    def __init__(
        self,
        model: Model,
        *,
        query_instruction: str | None = None,
        document_instruction: str | None = None,
        dimensions: int | None = None,
    ) -> None:
        if model.token_width:
            raise ValueError("model: it gives a vector for each token, and LangChain's stores take one of a text; use Model.embed")
        self.model = model
        self._query: dict[str, Any] = {"instruction": query_instruction, "dimensions": dimensions}
        self._document: dict[str, Any] = {"instruction": document_instruction, "dimensions": dimensions}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = self.model.embed(list(texts), **self._document).tolist()
        return found

    def embed_query(self, text: str) -> list[float]:
        found: list[float] = self.model.embed(text, **self._query).tolist()
        return found

    def embed_image(self, uris: list[ImageLike]) -> list[list[float]]:
        """Of images: paths, bytes, pixels. LangChain's stores call it in their add_images."""
        images = [Path(uri) if isinstance(uri, str) and not uri.startswith("data:") else uri for uri in uris]
        found: list[list[float]] = self.model.embed(images, **self._document).tolist()
        return found

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = (await self.model.aembed(list(texts), **self._document)).tolist()
        return found

    async def aembed_query(self, text: str) -> list[float]:
        found: list[float] = (await self.model.aembed(text, **self._query)).tolist()
        return found


def _usage(usage: Usage | None) -> UsageMetadata | None:
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    return UsageMetadata(input_tokens=prompt, output_tokens=completion, total_tokens=prompt + completion)


def _extras(reasoning: str | None) -> dict[str, Any]:
    return {"reasoning_content": reasoning} if reasoning else {}


def _message(answer: Answer[Any]) -> AIMessage:
    calls = [{"name": call.name, "args": json.loads(call.arguments), "id": call.id, "type": "tool_call"} for call in answer.tool_calls]
    return AIMessage(
        content=answer.text,
        tool_calls=calls,
        usage_metadata=_usage(answer.usage),
        additional_kwargs=_extras(answer.reasoning),
        response_metadata={"finish_reason": answer.finish_reason, "model_name": answer.raw.get("model")},
    )


def _result(answer: Answer[Any]) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=_message(answer))])


def _chunk(piece: Piece) -> ChatGenerationChunk:
    calls = [
        {
            "name": call.get("function", {}).get("name"),
            "args": call.get("function", {}).get("arguments"),
            "id": call.get("id"),
            "index": call.get("index"),
            "type": "tool_call_chunk",
        }
        for call in piece.tool_calls
    ]
    message = AIMessageChunk(
        content=piece.text,
        tool_call_chunks=calls,
        usage_metadata=_usage(piece.usage),
        additional_kwargs=_extras(piece.reasoning),
        response_metadata={"finish_reason": piece.finish_reason} if piece.finish_reason else {},
    )
    return ChatGenerationChunk(message=message)


class ChatOmmatidia(BaseChatModel):
    """A model that answers in this process. Images are parts of messages, as LangChain has them.
    fields: what every request has, such as {"temperature": 0}; tools need the model's
    tool_call_parser."""

    model: Any
    fields: dict[str, Any] = {}

    @property
    def _llm_type(self) -> str:
        return "ommatidia"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": str(self.model.path), **self.fields}

    def _request(self, messages: list[BaseMessage], stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
        request = {**self.fields, **given, "messages": convert_to_openai_messages(messages)}
        request.pop("ls_structured_output_format", None)
        return {**request, "stop": stop} if stop else request

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(self.model.chat(**self._request(messages, stop, kwargs)))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _result(await self.model.achat(**self._request(messages, stop, kwargs)))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with self.model.chat(**self._request(messages, stop, kwargs), stream=True) as pieces:
            for piece in pieces:
                chunk = _chunk(piece)
                if run_manager:
                    run_manager.on_llm_new_token(piece.text, chunk=chunk)
                yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        async with await self.model.achat(**self._request(messages, stop, kwargs), stream=True) as pieces:
            async for piece in pieces:
                chunk = _chunk(piece)
                if run_manager:
                    await run_manager.on_llm_new_token(piece.text, chunk=chunk)
                yield chunk

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """tool_choice: "auto", "required", "none", or a tool's name."""
        choice: Any = "required" if tool_choice == "any" else tool_choice
        if choice and choice not in ("auto", "required", "none"):
            choice = {"type": "function", "function": {"name": choice}}
        given = {"tool_choice": choice} if choice else {}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **given, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Answers as objects of a pydantic model or of a JSON Schema, by response_format."""

        def parse(message: BaseMessage) -> Any:
            text = str(message.content)
            parsed = json.loads(text) if isinstance(schema, dict) else schema.model_validate_json(text)  # type: ignore[attr-defined]
            return {"raw": message, "parsed": parsed, "parsing_error": None} if include_raw else parsed

        return self.bind(response_format=schema, **kwargs) | RunnableLambda(parse)


__all__ = ["ChatOmmatidia", "OmmatidiaEmbeddings"]
