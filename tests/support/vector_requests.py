"""Requests for vectors and scores over HTTP, whose replies by vLLM are in
tests/data/vectors/vllm_replies.json (tools/record_vllm_vectors.py)."""

import base64

from vector_cases import DATA, IMAGES

REPLIES = DATA / "vllm_replies.json"
SYSTEM = "Represent the user's input."


def image_part(name):
    data = base64.b64encode((IMAGES / name).read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def text_part(text):
    return {"type": "text", "text": text}


def chat(*parts):
    return [{"role": "system", "content": [text_part(SYSTEM)]}, {"role": "user", "content": list(parts)}]


IMAGE = image_part("tile_64x64.png")
OPEN = {"add_generation_prompt": True}
LONG = "word " * 3000

# {name: (path, body)}, for a model of vectors
EMBED = {
    "string": ("/v1/embeddings", {"input": "a dog"}),
    "strings": ("/v1/embeddings", {"input": ["a dog", "a cat on the mat", "x"]}),
    "ids": ("/v1/embeddings", {"input": [5, 6, 7]}),
    "lists of ids": ("/v1/embeddings", {"input": [[5, 6, 7], [8]]}),
    "base64": ("/v1/embeddings", {"input": ["a dog", "a cat"], "encoding_format": "base64"}),
    "base64 of f16, big end first": ("/v1/embeddings", {"input": "a dog", "encoding_format": "base64", "embed_dtype": "float16", "endianness": "big"}),
    "base64 of bf16": ("/v1/embeddings", {"input": "a dog", "encoding_format": "base64", "embed_dtype": "bfloat16"}),
    "not divided by its length": ("/v1/embeddings", {"input": "a dog", "use_activation": False}),
    "cut": ("/v1/embeddings", {"input": "a long text about a dog", "truncate_prompt_tokens": 4}),
    "cut on the left": ("/v1/embeddings", {"input": "a long text about a dog", "truncate_prompt_tokens": 4, "truncation_side": "left"}),
    "cut to the context": ("/v1/embeddings", {"input": LONG, "truncate_prompt_tokens": -1}),
    "messages": ("/v1/embeddings", {"messages": chat(text_part("a dog")), **OPEN}),
    "messages that end": ("/v1/embeddings", {"messages": chat(text_part("a dog"))}),
    "continued": ("/v1/embeddings", {"messages": [*chat(text_part("a dog")), {"role": "assistant", "content": [text_part("")]}],
                                     "continue_final_message": True}),
    "image": ("/v1/embeddings", {"messages": chat(IMAGE), **OPEN}),
    "image and text": ("/v1/embeddings", {"messages": chat(IMAGE, text_part("a dog")), **OPEN}),
    "conversations": ("/v1/embeddings", {"messages": [chat(text_part("a dog")), chat(IMAGE)], **OPEN}),
    "messages as input": ("/v1/embeddings", {"input": chat(text_part("a dog")), **OPEN}),
    "conversations as input": ("/v1/embeddings", {"input": [chat(text_part("a dog")), chat(text_part("a cat"))], **OPEN}),
    "pooling": ("/pooling", {"input": ["a dog", "a cat"]}),
    "pooling of a task": ("/pooling", {"input": "a dog", "task": "embed", "encoding_format": "base64"}),
    "pooling of messages": ("/pooling", {"messages": chat(IMAGE), **OPEN}),
    "score": ("/score", {"queries": "a dog", "documents": ["a cat", "a dog", "a house"]}),
    "scores of pairs": ("/v1/score", {"text_1": ["a dog", "a cat"], "text_2": ["a dog", "a house"]}),
    "rerank": ("/rerank", {"query": "a dog", "documents": ["a cat", "a dog", "a house"], "top_n": 2}),
    "cohere": ("/v2/embed", {"model": "test-model", "texts": ["a dog", "a cat"]}),
    "cohere's types": ("/v2/embed", {"texts": ["a dog"], "embedding_types": ["float", "base64", "binary", "ubinary"]}),
    "cohere's images": ("/v2/embed", {"images": [IMAGE["image_url"]["url"]]}),
    "cohere's inputs": ("/v2/embed", {"inputs": [{"content": [IMAGE, text_part("a dog")]}, {"content": [text_part("a cat")]}]}),
    "cohere's texts, cut": ("/v2/embed", {"texts": ["a long text about a dog"], "max_tokens": 4}),
    "cohere's texts, cut on the left": ("/v2/embed", {"texts": ["a long text about a dog"], "max_tokens": 4, "truncate": "START"}),
    "cohere's texts, too long": ("/v2/embed", {"texts": ["a long text about a dog"], "max_tokens": 4, "truncate": "NONE"}),
    "cohere without inputs": ("/v2/embed", {}),
    "cohere with two": ("/v2/embed", {"texts": ["a"], "images": ["b"]}),
    "cohere of a kind": ("/v2/embed", {"texts": ["a dog"], "input_type": "query"}),
    "cohere of another type": ("/v2/embed", {"texts": ["a dog"], "embedding_types": ["int8"]}),
    "no input": ("/v1/embeddings", {}),
    "null": ("/v1/embeddings", {"input": None}),
    "no inputs": ("/v1/embeddings", {"input": []}),
    "empty": ("/v1/embeddings", {"input": ""}),
    "of another type": ("/v1/embeddings", {"input": {"a": 1}}),
    "mixed": ("/v1/embeddings", {"input": ["a", 1]}),
    "id out of the vocabulary": ("/v1/embeddings", {"input": [1000000]}),
    "too long": ("/v1/embeddings", {"input": LONG}),
    "no such format": ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}),
    "no such type": ("/v1/embeddings", {"input": "a", "embed_dtype": "int8"}),
    "normalize": ("/v1/embeddings", {"input": "a", "normalize": False}),
    "cut to more than there is": ("/v1/embeddings", {"input": "a", "truncate_prompt_tokens": 100000}),
    "pooling of another task": ("/pooling", {"input": "a", "task": "classify"}),
    "pooling of dimensions": ("/pooling", {"input": "a", "dimensions": 8}),
    "queries that do not match": ("/score", {"queries": ["a", "b"], "documents": ["a", "b", "c"]}),
    "no documents": ("/rerank", {"query": "a", "documents": []}),
    "no query": ("/rerank", {"documents": ["a"]}),
    "chat": ("/v1/chat/completions", {"messages": chat(text_part("a dog"))}),
}

# The same for a model of scores.
SCORE = {
    "score": ("/score", {"queries": "a dog", "documents": ["a cat", "a dog", "a house"]}),
    "one score": ("/v1/score", {"text_1": "a dog", "text_2": "a cat"}),
    "scores of pairs": ("/score", {"data_1": ["a dog", "a cat"], "data_2": ["a dog", "a house"]}),
    "items": ("/score", {"queries": "a dog", "items": ["a cat"]}),
    "logits": ("/score", {"queries": "a dog", "documents": "a cat", "use_activation": False}),
    "image": ("/score", {"queries": "a dog", "documents": {"content": [IMAGE]}}),
    "images and texts": ("/score", {"queries": {"content": [text_part("a dog")]}, "documents": [{"content": [IMAGE]}, "a cat"]}),
    "rerank": ("/rerank", {"query": "a dog", "documents": ["a cat", "a dog", "a house"]}),
    "the best": ("/v1/rerank", {"query": "a dog", "documents": ["a cat", "a dog", "a house"], "top_n": 1}),
    "rerank of parts": ("/v2/rerank", {"query": "a dog", "documents": [{"content": [text_part("a cat")]}, "a dog"]}),
    "short documents": ("/rerank", {"query": "a dog", "documents": ["a cat on the mat", "a dog in the house"], "max_tokens_per_doc": 3}),
    "short query": ("/rerank", {"query": "a dog in the house", "documents": ["a cat"], "max_tokens_per_query": 3}),
    "instruction": ("/rerank", {"query": "a dog", "documents": ["a cat"], "instruction": "Find animals."}),
    "instruction for the template": ("/score", {"queries": "a dog", "documents": ["a cat"], "chat_template_kwargs": {"instruction": "Find animals."}}),
    "pooling": ("/pooling", {"input": ["a dog", "a cat"]}),
    "too many tokens": ("/rerank", {"query": "a", "documents": ["b"], "max_tokens_per_doc": 100000}),
    "no scores of nothing": ("/score", {"queries": [], "documents": ["a"]}),
    "top_n below 0": ("/rerank", {"query": "a", "documents": ["b"], "top_n": -1}),
    "vectors": ("/v1/embeddings", {"input": "a dog"}),
}
