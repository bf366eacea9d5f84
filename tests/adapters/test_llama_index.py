"""LlamaIndex's embedding and language model in this process: the same answers as Model gives."""

import asyncio

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.schema import TextNode
from ommatidia.llama_index import OmmatidiaEmbedding, OmmatidiaLLM

QUESTION = "What color is the cross?"


def test_embedding_in_an_index(embedder, cross):
    embedding = OmmatidiaEmbedding(embedder, query_instruction="Find.")
    assert embedding.get_query_embedding("a dog") == embedder.embed("a dog", instruction="Find.").tolist()
    assert embedding.get_text_embedding_batch(["a", "b"]) == embedder.embed(["a", "b"]).tolist()
    assert embedding.get_image_embedding(str(cross)) == embedder.embed(cross).tolist()
    assert asyncio.run(embedding.aget_text_embedding("a")) == embedding.get_text_embedding("a")
    index = VectorStoreIndex([TextNode(text=text) for text in ("a dog", "a cat", "a red circle")], embed_model=OmmatidiaEmbedding(embedder))
    hits = index.as_retriever(similarity_top_k=1).retrieve("a cat")
    assert hits[0].node.get_content() == "a cat" and abs(hits[0].score - 1) < 1e-5


def test_language_model_with_images(demo, cross):
    llm = OmmatidiaLLM(demo, fields={"temperature": 0})
    messages = [ChatMessage(role="user", blocks=[ImageBlock(path=cross), TextBlock(text=QUESTION)])]
    wanted = demo.chat(QUESTION, image=cross, temperature=0).text
    assert llm.chat(messages).message.content == wanted
    assert asyncio.run(llm.achat(messages)).message.content == wanted
    streamed = list(llm.stream_chat(messages))
    assert streamed[-1].message.content == wanted and "".join(piece.delta for piece in streamed) == wanted
    assert llm.complete("Hello").text == demo.chat("Hello", temperature=0).text
    assert "".join(piece.delta for piece in llm.stream_complete("Hello")) == llm.complete("Hello").text
    assert llm.metadata.is_chat_model and llm.metadata.context_window == demo.info()["max_model_len"]

    async def gather():
        return [piece.delta async for piece in await llm.astream_chat(messages)]

    assert "".join(asyncio.run(gather())) == wanted
