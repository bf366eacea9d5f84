"""--reasoning-parser: the reasoning that an answer begins with is separated in chats, whole and
streamed, can be left out, and has a budget; a grammar is for what follows it."""

import re

import pytest

from server_process import ServerProcess, check_output, make_command, stream_events

PARSER = {"fake": "angles", "real": "qwen3"}
THINKS = "[[tokens=5]] [[think=3]]"


@pytest.fixture(scope="module")
def thinking(request, kind):
    process = ServerProcess(make_command(request.config, kind, {"reasoning_parser": PARSER[kind]}))
    yield process
    process.stop()
    check_output(process)


def message(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]


def deltas(events):
    return [event["choices"][0]["delta"] for event in events if isinstance(event, dict) and event["choices"]]


def test_a_whole_reply(thinking):
    reply = thinking.chat(THINKS)
    assert message(reply)["reasoning"] == "w0 w1 w2 " and message(reply)["content"] == "w3 w4 "
    assert reply.json["usage"]["completion_tokens"] == 5
    assert reply.json["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}


def test_a_stream(thinking):
    events = stream_events(thinking, THINKS, stream_options={"include_usage": True})
    assert deltas(events) == [{"role": "assistant", "content": ""}, {"reasoning": "w0 "}, {"reasoning": "w1 "}, {"reasoning": "w2 "},
                              {"content": "w3 "}, {"content": "w4 "}]
    assert events[-2]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3} and events[-1] == "data: [DONE]"


def test_a_reasoning_that_is_cut_off(thinking):
    reply = thinking.chat(THINKS, max_tokens=2)
    assert message(reply)["reasoning"] == "w0 w1 " and message(reply)["content"] is None
    assert reply.json["choices"][0]["finish_reason"] == "length"
    last = stream_events(thinking, THINKS, max_tokens=2)[-2]["choices"][0]
    assert last["delta"] == {"reasoning": "w1 "} and last["finish_reason"] == "length"


def test_no_reasoning(thinking):
    reply = thinking.chat("[[tokens=2]]")
    assert message(reply)["reasoning"] is None and message(reply)["content"] == "w0 w1 "
    assert reply.json["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}


def test_it_can_be_left_out(thinking):
    reply = thinking.chat(THINKS, include_reasoning=False, logprobs=True)
    assert message(reply)["reasoning"] is None and message(reply)["content"] == "w3 w4 "
    assert len(reply.json["choices"][0]["logprobs"]["content"]) == 2
    events = stream_events(thinking, THINKS, include_reasoning=False, logprobs=True)
    assert deltas(events) == [{"role": "assistant", "content": ""}, {"content": "w3 "}, {"content": "w4 "}]
    assert "w0" not in str(events)


def test_several_answers(thinking):
    reply = thinking.chat(THINKS, n=3)
    assert [choice["message"]["reasoning"] for choice in reply.json["choices"]] == ["w0 w1 w2 "] * 3
    assert reply.json["usage"]["completion_tokens_details"] == {"reasoning_tokens": 9}


def test_the_budget_reaches_the_engine(thinking, start, kind):
    assert message(thinking.chat("[[show=1]]"))["content"].endswith(" end=>> budget=-1")
    assert message(thinking.chat("[[show=1]]", thinking_token_budget=7))["content"].endswith(" budget=7")
    assert message(thinking.chat("[[show=1]]", thinking_token_budget=-1))["content"].endswith(" budget=-1")
    assert message(thinking.chat("[[show=1]]", reasoning_effort="none"))["content"].endswith(" budget=0")
    assert message(thinking.chat("[[show=1]]", reasoning_effort="low"))["content"].endswith(" budget=-1")
    assert message(thinking.chat(THINKS, thinking_token_budget=1))["reasoning"] == "w0 "
    configured = start(reasoning_parser=PARSER[kind], reasoning_config='{"reasoning_end_str": "Now.>>", "reasoning_start_str": "<<"}')
    assert "end=Now.>> budget=7" in message(configured.chat("[[show=1]]", thinking_token_budget=7))["content"]


@pytest.mark.parametrize("fields, param, part", [
    ({"thinking_token_budget": -2}, "thinking_token_budget", "at least -1, got -2"),
    ({"thinking_token_budget": 1.5}, "thinking_token_budget", "1.5"),
    ({"thinking_token_budget": "many"}, "thinking_token_budget", "many"),
    ({"include_reasoning": 2}, "include_reasoning", "true or false"),
    ({"reasoning_effort": 1}, "reasoning_effort", "a string"),
    ({"enable_thinking": False}, "enable_thinking", "chat_template_kwargs.enable_thinking"),
    ({"thinking": {"type": "disabled"}}, "thinking", "chat_template_kwargs.enable_thinking"),
])
def test_bad_wishes(thinking, fields, param, part):
    reply = thinking.chat(**fields)
    assert reply.status == 400 and reply.error["param"] == param and part in reply.error["message"]


def test_without_a_parser(server):
    reply = server.chat(THINKS)
    assert message(reply)["content"] == "w0 w1 w2 w3 w4 " and message(reply)["reasoning"] is None
    assert reply.json["usage"]["completion_tokens_details"] is None
    reply = server.chat(thinking_token_budget=3)
    assert reply.status == 400 and "--reasoning-parser" in reply.error["message"]


def test_completions_have_no_reasoning(thinking):
    reply = thinking.post("/v1/completions", {"prompt": THINKS})
    assert reply.json["choices"][0]["text"] == "w0 w1 w2 w3 w4 "
    reply = thinking.post("/v1/completions", {"prompt": THINKS, "thinking_token_budget": 3})
    assert reply.status == 400 and reply.error["param"] == "thinking_token_budget"


# ---- the real program: a model that never writes a mark by itself ----

@pytest.mark.real_only
def test_a_budget_and_a_pattern(thinking):
    fields = {"max_tokens": 60, "seed": 3, "temperature": 1, "thinking_token_budget": 6, "structured_outputs": {"regex": "(yes|no), [0-9]{3}"}}
    reply = thinking.chat("What is it?", **fields)
    assert re.fullmatch("(yes|no), [0-9]{3}", message(reply)["content"]) and message(reply)["reasoning"]
    assert 6 <= reply.json["usage"]["completion_tokens_details"]["reasoning_tokens"] < 16
    streamed = deltas(stream_events(thinking, "What is it?", **fields))
    assert "".join(delta.get("content", "") for delta in streamed) == message(reply)["content"]
    assert "".join(delta.get("reasoning", "") for delta in streamed) == message(reply)["reasoning"]


@pytest.mark.real_only
def test_what_the_end_mark_does(thinking):
    whole = message(thinking.chat("What is it?", max_tokens=8, temperature=0))
    assert whole["content"] is None and whole["reasoning"]
    gone_on = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "So.</think>\n\n"}]
    reply = thinking.chat(messages=gone_on, continue_final_message=True, add_generation_prompt=False, max_tokens=8, temperature=0)
    assert message(reply)["content"] and message(reply)["reasoning"] is None


@pytest.mark.real_only
@pytest.mark.parametrize("options, part", [
    (["--reasoning-parser", "list"], "deepseek_r1"),
    (["--reasoning-config", "{}"], "needs a reasoning parser"),
    (["--reasoning-parser", "qwen3", "--reasoning-config", "{"], "reasoning config"),
    (["--reasoning-parser", "qwen3", "--reasoning-config", '{"reasoning_end_str": "stop"}'], "ends with </think>"),
    (["--reasoning-parser", "qwen3", "--reasoning-config", '{"end": "stop"}'], 'unknown key "end"'),
    (["--reasoning-parser", "qwen3", "--structured-outputs-config", '{"enable_in_reasoning": true}'], "enable_in_reasoning"),
    (["--structured-outputs-config", '{"reasoning_parser": "qwen3"}'], "--reasoning-parser qwen3"),
])
def test_bad_options(request, omma, kind, options, part):
    import subprocess
    done = subprocess.run(make_command(request.config, kind, {}) + options, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and part in done.stderr, done.stderr
