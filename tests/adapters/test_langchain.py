"""LangChain's embeddings and chat model in this process: the same answers as Model gives."""

import asyncio
import base64
from typing import Literal

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.vectorstores import InMemoryVectorStore
from ommatidia.langchain import ChatOmmatidia, OmmatidiaEmbeddings
from pydantic import BaseModel

QUESTION = "What color is the cross?"


def message(image):
    url = "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()
    return HumanMessage(content=[{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}])


def test_embeddings_in_a_store(embedder, cross):
    embeddings = OmmatidiaEmbeddings(embedder, query_instruction="Find.")
    texts = ["a dog", "a cat", "a red circle"]
    assert np.array_equal(embeddings.embed_documents(texts), embedder.embed(texts).astype(float))
    assert embeddings.embed_query("a dog") == embedder.embed("a dog", instruction="Find.").tolist()
    assert embeddings.embed_image([str(cross)]) == embedder.embed([cross]).tolist()
    assert asyncio.run(embeddings.aembed_documents(texts)) == embeddings.embed_documents(texts)
    assert asyncio.run(embeddings.aembed_query("a dog")) == embeddings.embed_query("a dog")
    plain = OmmatidiaEmbeddings(embedder, dimensions=16)
    store = InMemoryVectorStore(plain)
    store.add_documents([Document(page_content=text) for text in texts])
    hits = store.similarity_search_with_score("a cat", k=2)
    assert hits[0][0].page_content == "a cat" and hits[0][1] == pytest.approx(1, abs=1e-5) and len(plain.embed_query("a")) == 16


def test_a_model_with_vectors_of_tokens_is_refused(demo):
    with pytest.raises(ValueError, match="each token"):
        OmmatidiaEmbeddings(demo)


def test_chat_with_an_image(demo, cross):
    chat = ChatOmmatidia(model=demo, fields={"temperature": 0})
    wanted = demo.chat(QUESTION, image=cross, temperature=0)
    answer = chat.invoke([message(cross)])
    assert answer.content == wanted.text and answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata["input_tokens"] == wanted.usage.prompt_tokens
    pieces = list(chat.stream([message(cross)]))
    assert "".join(str(piece.content) for piece in pieces) == wanted.text and len(pieces) > 2
    assert asyncio.run(chat.ainvoke([message(cross)])).content == wanted.text
    assert chat.invoke([SystemMessage("Answer."), HumanMessage("Hello")], stop=["."]).content.find(".") < 0

    async def gather():
        return "".join([str(piece.content) async for piece in chat.astream([message(cross)])])

    assert asyncio.run(gather()) == wanted.text
    assert [found.content for found in chat.batch([[message(cross)]] * 3)] == [wanted.text] * 3


def test_objects(demo, cross):
    class Color(BaseModel):
        color: str

    chat = ChatOmmatidia(model=demo, fields={"temperature": 0, "max_tokens": 60})
    found = chat.with_structured_output(Color).invoke([message(cross)])
    assert isinstance(found, Color)
    schema = {"type": "object", "properties": {"color": {"enum": ["red", "orange"]}}, "required": ["color"]}
    assert chat.with_structured_output(schema).invoke([message(cross)])["color"] in ("red", "orange")


def test_tools(caller):
    def weather(city: Literal["Cologne", "Rome"]) -> str:
        """Tells the weather."""
        return city

    chat = ChatOmmatidia(model=caller, fields={"seed": 1, "max_tokens": 300})
    for choice in ("weather", "any"):
        called = chat.bind_tools([weather], tool_choice=choice).invoke("What weather?").tool_calls
        assert called[0]["name"] == "weather" and called[0]["args"]["city"] in ("Cologne", "Rome")
