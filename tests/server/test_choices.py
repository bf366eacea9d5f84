"""Several answers to one prompt: it is prepared once, and the choices share it."""

import pytest
from images import image_part, text_part


def test_choices_share_the_prompt(server):
    reply = server.chat(messages=[{"role": "user", "content": [text_part("[[show=1]]"), image_part()]}], n=3, seed=7)
    texts = [choice["message"]["content"] for choice in reply.json["choices"]]
    assert [text.endswith("copy") for text in texts] == [False, True, True]
    assert [text.replace(" copy", "") for text in texts] == [texts[0].replace("seed=7", f"seed={7 + i}") for i in range(3)]
    assert "image(8x8" in texts[2]


def test_each_prompt_is_made_ready(server):
    reply = server.post("/v1/completions", {"prompt": ["[[show=1]] a", "[[show=1]] b"], "n": 2, "max_tokens": 100})
    assert [choice["text"].endswith("copy") for choice in reply.json["choices"]] == [False, True, False, True]


@pytest.mark.real_too
def test_choices_are_the_answers_of_their_seeds(server):
    """Each choice has the text of a request of its own with its seed."""
    fields = {"messages": [{"role": "user", "content": [text_part("what is this?"), image_part()]}], "max_tokens": 6, "temperature": 1.0,
              "ignore_eos": True}
    together = [choice["message"]["content"] for choice in server.chat(n=3, seed=5, **fields).json["choices"]]
    assert together == [server.chat(seed=5 + i, **fields).json["choices"][0]["message"]["content"] for i in range(3)]
