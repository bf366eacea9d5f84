"""For LlamaIndex: embeddings of texts and images and a language model with images, in this process.
Needs llama-index-core.

    from ommatidia.llama_index import OmmatidiaEmbedding, OmmatidiaLLM

    Settings.embed_model = OmmatidiaEmbedding(Model("qwen3-vl-embedding-2b"))
    Settings.llm = OmmatidiaLLM(Model("qwen3-vl-2b", quantization="int8"))"""

# The framework is not there where these types are checked.
# mypy: disable-error-code="import-not-found, misc, unused-ignore, no-any-return"
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    ImageBlock,
    LLMMetadata,
    MessageRole,
    TextBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import MultiModalEmbedding
from llama_index.core.llms import CustomLLM

from ._model import Model


class OmmatidiaEmbedding(MultiModalEmbedding):
    """Vectors of a model for vectors (Qwen3-VL-Embedding). query_instruction and text_instruction:
    what they are for; None: the model's own."""

    query_instruction: str | None = None
    text_instruction: str | None = None
    dimensions: int | None = None
    _model: Model = PrivateAttr()

    def __init__(self, model: Model, **fields: Any) -> None:
        if model.token_width:
            raise ValueError("model: it gives a vector for each token, and LlamaIndex's stores take one of a text; use Model.embed")
        super().__init__(model_name=str(model.path), **fields)
        self._model = model

    def _vectors(self, inputs: Any, instruction: str | None) -> list[Any]:
        found: list[Any] = self._model.embed(inputs, instruction=instruction, dimensions=self.dimensions).tolist()
        return found

    async def _avectors(self, inputs: Any, instruction: str | None) -> list[Any]:
        vectors = await self._model.aembed(inputs, instruction=instruction, dimensions=self.dimensions)
        found: list[Any] = vectors.tolist()
        return found

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vectors(query, self.query_instruction)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await self._avectors(query, self.query_instruction)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vectors(text, self.text_instruction)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._vectors(list(texts), self.text_instruction)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await self._avectors(text, self.text_instruction)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._avectors(list(texts), self.text_instruction)

    def _get_image_embedding(self, img_file_path: Any) -> list[float]:
        return self._vectors(_image(img_file_path), self.text_instruction)

    async def _aget_image_embedding(self, img_file_path: Any) -> list[float]:
        return await self._avectors(_image(img_file_path), self.text_instruction)


def _image(value: Any) -> Any:
    """A path, or what is left of an open file."""
    return Path(value) if isinstance(value, str) else value.read() if hasattr(value, "read") else value


def _part(block: Any) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock):
        return {"type": "image", "image": block.resolve_image().read()}
    raise TypeError(f"messages: expected blocks of text and images, found {type(block).__name__}")


def _messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [{"role": message.role.value, "content": [_part(block) for block in message.blocks]} for message in messages]


def _response(text: str, delta: str | None, raw: Any) -> ChatResponse:
    return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=text), delta=delta, raw=raw)


class OmmatidiaLLM(CustomLLM):
    """A model that answers in this process. fields: what every request has, such as
    {"temperature": 0}."""

    fields: dict[str, Any] = {}
    _model: Model = PrivateAttr()

    def __init__(self, model: Model, **fields: Any) -> None:
        super().__init__(**fields)
        self._model = model

    @classmethod
    def class_name(cls) -> str:
        return "OmmatidiaLLM"

    @property
    def metadata(self) -> LLMMetadata:
        info = self._model.info()
        return LLMMetadata(
            context_window=info["max_model_len"],
            num_output=int(self.fields.get("max_tokens") or 256),
            is_chat_model=True,
            model_name=str(self._model.path),
        )

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        answer = self._model.chat(_messages(messages), **{**self.fields, **kwargs})
        return _response(answer.text, None, answer.raw)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        answer = await self._model.achat(_messages(messages), **{**self.fields, **kwargs})
        return _response(answer.text, None, answer.raw)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        def pieces() -> ChatResponseGen:
            text = ""
            with self._model.chat(_messages(messages), stream=True, **{**self.fields, **kwargs}) as stream:
                for piece in stream:
                    text += piece.text
                    yield _response(text, piece.text, piece.raw)

        return pieces()

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        async def pieces() -> ChatResponseAsyncGen:
            text = ""
            async with await self._model.achat(_messages(messages), stream=True, **{**self.fields, **kwargs}) as stream:
                async for piece in stream:
                    text += piece.text
                    yield _response(text, piece.text, piece.raw)

        return pieces()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answers a prompt; one that is formatted already is continued as it is."""
        given = {**self.fields, **kwargs}
        answer = self._model.complete(prompt, **given) if formatted else self._model.chat(prompt, **given)
        return CompletionResponse(text=answer.text, raw=answer.raw)

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        given = {**self.fields, **kwargs}
        answer = await (self._model.acomplete(prompt, **given) if formatted else self._model.achat(prompt, **given))
        return CompletionResponse(text=answer.text, raw=answer.raw)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Answers a prompt as a chat, piece by piece."""
        for response in self.stream_chat([ChatMessage(role=MessageRole.USER, content=prompt)], **kwargs):
            yield CompletionResponse(text=response.message.content or "", delta=response.delta, raw=response.raw)

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        messages = [ChatMessage(role=MessageRole.USER, content=prompt)]

        async def pieces() -> CompletionResponseAsyncGen:
            async for response in await self.astream_chat(messages, **kwargs):
                yield CompletionResponse(text=response.message.content or "", delta=response.delta, raw=response.raw)

        return pieces()
