"""Vectors and rankings through openai, cohere, litellm, langchain and llama-index, against what the
server answers without a library. The models are small and have random weights."""

import asyncio
import base64
import pathlib
import struct

import cohere
import litellm
import llama_index.core
import openai
import pytest
from langchain_cohere import CohereRerank as LangchainRerank
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import OpenAIEmbeddings
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.postprocessor.cohere_rerank import CohereRerank
from llama_index.postprocessor.jinaai_rerank import JinaRerank

TEXTS = ["a dog", "a cat on the mat", "x"]
QUERY = "a dog that runs"


@pytest.fixture(scope="module")
def wanted(embedder):
    """The vectors of TEXTS."""
    reply = embedder.post("/v1/embeddings", {"input": TEXTS})
    assert reply.status == 200, reply.body
    return [item["embedding"] for item in reply.json["data"]]


@pytest.fixture(scope="module")
def ranking(reranker):
    """TEXTS by how well they answer QUERY: [(index, score)]"""
    reply = reranker.post("/rerank", {"query": QUERY, "documents": TEXTS})
    assert reply.status == 200, reply.body
    return [(result["index"], pytest.approx(result["relevance_score"], abs=1e-7)) for result in reply.json["results"]]


def root(server):
    return f"http://127.0.0.1:{server.port}"


def same(found, wanted):
    """To what is left of an f32 that went through decimals."""
    return len(found) == len(wanted) and all(a == pytest.approx(b, abs=1e-7) for a, b in zip(found, wanted))


# ---- openai ----


@pytest.fixture
def client(embedder):
    with openai.OpenAI(base_url=root(embedder) + "/v1", api_key="none", max_retries=0) as client:
        yield client


def vectors(reply):
    return [item.embedding for item in reply.data]


def test_openai(client, wanted):
    """Without an encoding_format the package asks for base64 and decodes it."""
    reply = client.embeddings.create(model="vectors", input=TEXTS)
    assert same(vectors(reply), wanted) and [item.index for item in reply.data] == [0, 1, 2]
    assert reply.usage.total_tokens == reply.usage.prompt_tokens > 0 and reply.model == "vectors"
    assert same(vectors(client.embeddings.create(model="vectors", input=TEXTS, encoding_format="float")), wanted)
    encoded = vectors(client.embeddings.create(model="vectors", input=TEXTS, encoding_format="base64"))
    assert same([struct.unpack(f"<{len(wanted[0])}f", base64.b64decode(text)) for text in encoded], [tuple(vector) for vector in wanted])


def test_openai_dimensions_and_ids(client, embedder, wanted):
    [short] = vectors(client.embeddings.create(model="vectors", input=TEXTS[0], dimensions=16))
    length = sum(value * value for value in wanted[0][:16]) ** 0.5
    assert short == pytest.approx([value / length for value in wanted[0][:16]], abs=1e-6)
    ids = embedder.post("/tokenize", {"prompt": TEXTS[1], "add_special_tokens": False}).json["tokens"]
    assert same(vectors(client.embeddings.create(model="vectors", input=ids)), wanted[1:2])
    assert same(vectors(client.embeddings.create(model="vectors", input=[ids, ids])), [wanted[1]] * 2)


def test_openai_asynchronous(embedder, wanted):
    async def run():
        async with openai.AsyncOpenAI(base_url=root(embedder) + "/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(client.embeddings.create(model="vectors", input=text) for text in TEXTS))

    assert same([vectors(reply)[0] for reply in asyncio.run(run())], wanted)


def test_openai_messages(client, embedder, question):
    """What the package has no argument for goes in as vLLM's users put it."""
    body = {"messages": [{"role": "user", "content": question}]}
    reply = client.post("/embeddings", body={**body, "model": "vectors"}, cast_to=openai.types.CreateEmbeddingResponse)
    assert same(vectors(reply), [embedder.post("/v1/embeddings", body).json["data"][0]["embedding"]])
    instruction = "Retrieve images or text relevant to the user's query."
    [found] = vectors(client.embeddings.create(model="vectors", input=QUERY, extra_body={"instruction": instruction}))
    assert same([found], [embedder.post("/v1/embeddings", {"input": QUERY, "instruction": instruction}).json["data"][0]["embedding"]])


def test_openai_errors(client, base_url):
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="vectors", input="x", dimensions=1000)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.embeddings.create(model="other", input="x")
    # the demo model has a vector for each token, which /pooling gives; vLLM refuses so too
    with pytest.raises(openai.BadRequestError, match="ask /pooling"):
        openai.OpenAI(base_url=base_url, api_key="none", max_retries=0).embeddings.create(model="demo", input="x")


# ---- cohere ----


def test_cohere(reranker, ranking):
    with cohere.ClientV2("none", base_url=root(reranker)) as client:
        reply = client.rerank(model="scores", query=QUERY, documents=TEXTS)
        assert [(result.index, result.relevance_score) for result in reply.results] == ranking
        reply = client.rerank(model="scores", query=QUERY, documents=TEXTS, top_n=2, max_tokens_per_doc=1000)
        assert [(result.index, result.relevance_score) for result in reply.results] == ranking[:2]
        with pytest.raises(cohere.NotFoundError, match="does not exist"):
            client.rerank(model="other", query=QUERY, documents=TEXTS)


def test_cohere_s_vectors(embedder, wanted):
    with cohere.ClientV2("none", base_url=root(embedder)) as client:
        reply = client.embed(model="vectors", texts=TEXTS, input_type="search_document", embedding_types=["float", "ubinary"])
        assert same(reply.embeddings.float_, wanted) and reply.texts == TEXTS
        assert reply.embeddings.ubinary == [[sum((x >= 0) << (7 - i % 8) for i, x in enumerate(v[k : k + 8])) for k in range(0, len(v), 8)]
                                            for v in wanted]
        query = [{"role": "system", "content": "Find it."}, {"role": "user", "content": QUERY}]
        reply = client.embed(model="vectors", texts=[QUERY], input_type="search_query", embedding_types=["float"])
        assert same(reply.embeddings.float_, [embedder.post("/v1/embeddings", {"messages": query}).json["data"][0]["embedding"]])
        with pytest.raises(cohere.BadRequestError, match="search_query, search_document"):
            client.embed(model="vectors", texts=[QUERY], input_type="clustering", embedding_types=["float"])


def test_cohere_of_the_first_version(reranker, ranking):
    """Its client asks /v1/rerank."""
    with cohere.Client("none", base_url=root(reranker)) as client:
        reply = client.rerank(model="scores", query=QUERY, documents=TEXTS, return_documents=True)
        assert [(result.index, result.relevance_score) for result in reply.results] == ranking
        assert [result.document.text for result in reply.results] == [TEXTS[index] for index, _ in ranking]


# ---- litellm ----


def test_litellm(embedder, reranker, wanted, ranking):
    reply = litellm.embedding(model="openai/vectors", input=TEXTS, api_base=root(embedder) + "/v1", api_key="none", encoding_format="float")
    assert same([item["embedding"] for item in reply.data], wanted)
    reply = litellm.rerank(model="hosted_vllm/scores", query=QUERY, documents=TEXTS, api_base=root(reranker), api_key="none")
    assert [(result["index"], result["relevance_score"]) for result in reply.results] == ranking


# ---- langchain ----


@pytest.fixture
def embeddings(embedder):
    """As its documentation says for servers that are not OpenAI's: texts go as they are."""
    return OpenAIEmbeddings(model="vectors", base_url=root(embedder) + "/v1", api_key="none", check_embedding_ctx_length=False, max_retries=0)


def test_langchain(embeddings, wanted):
    assert same(embeddings.embed_documents(TEXTS), wanted) and same([embeddings.embed_query(TEXTS[0])], wanted[:1])
    assert same(asyncio.run(embeddings.aembed_documents(TEXTS)), wanted)
    store = InMemoryVectorStore(embeddings)
    store.add_documents([Document(page_content=text) for text in TEXTS])
    [(hit, score)] = store.similarity_search_with_score(TEXTS[1], k=1)
    assert hit.page_content == TEXTS[1] and score == pytest.approx(1, abs=1e-5)


def test_langchain_with_token_ids(embedder, embeddings, monkeypatch):
    """The default sends ids of OpenAI's vocabulary, which are taken for the model's: most are no
    token of this one, and "a" is another's. The vocabulary's file is one of llama-index."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(pathlib.Path(llama_index.core.__file__).parent / "_static" / "tiktoken_cache"))
    by_ids = embeddings.model_copy(update={"check_embedding_ctx_length": True})
    [wanted] = [item["embedding"] for item in embedder.post("/v1/embeddings", {"input": [64]}).json["data"]]
    assert by_ids.embed_query("a") == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(openai.BadRequestError, match="token"):
        by_ids.embed_query("dog")


def test_langchain_rerank(reranker, ranking):
    compressor = LangchainRerank(base_url=root(reranker), cohere_api_key="none", model="scores", top_n=2)
    documents = compressor.compress_documents([Document(page_content=text) for text in TEXTS], QUERY)
    assert [(TEXTS.index(document.page_content), document.metadata["relevance_score"]) for document in documents] == ranking[:2]


# ---- llama-index ----


def test_llama_index(embedder, reranker, wanted, ranking):
    model = OpenAILikeEmbedding(model_name="vectors", api_base=root(embedder) + "/v1", api_key="none", max_retries=0)
    assert same(model.get_text_embedding_batch(TEXTS), wanted) and same([model.get_query_embedding(TEXTS[0])], wanted[:1])
    assert same([asyncio.run(model.aget_text_embedding(TEXTS[2]))], wanted[2:])
    index = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=model)
    [hit] = index.as_retriever(similarity_top_k=1).retrieve(TEXTS[1])
    assert hit.node.text == TEXTS[1] and hit.score == pytest.approx(1, abs=1e-5)
    hits = index.as_retriever(similarity_top_k=3).retrieve(QUERY)
    for processor in (CohereRerank(base_url=root(reranker), api_key="none", model="scores", top_n=2),
                      JinaRerank(base_url=root(reranker) + "/v1", api_key="none", model="scores", top_n=2)):
        assert [(TEXTS.index(hit.node.text), hit.score) for hit in processor.postprocess_nodes(hits, query_str=QUERY)] == ranking[:2]
