"""`omma serve --seed`: requests without a seed of their own are drawn differently, and in the same
way by every such server."""

import pytest


def answer(server, **fields):
    reply = server.chat("tell me", max_tokens=16, temperature=2, ignore_eos=True, **fields)
    assert reply.status == 200, reply.body
    return [choice["message"]["content"] for choice in reply.json["choices"]]


@pytest.mark.real_only
def test_the_same_requests_get_the_same_answers(start):
    answers = []
    for _ in range(2):
        server = start(seed=11)
        answers.append([answer(server), answer(server, n=2), answer(server)])
        assert answer(server, seed=11) == answers[-1][0]
    assert answers[0] == answers[1]
    assert len({text for choices in answers[0] for text in choices}) == 4


@pytest.mark.real_only
def test_other_seeds_and_none(start):
    texts = {answer(server)[0] for server in (start(seed=1), start(seed=2), start(), start())}
    assert len(texts) == 4
