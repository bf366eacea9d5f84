"""The field `ommatidia`: figures and progress for those who ask for them, and nothing changed for
others."""

import contextlib
import json

import pytest
from images import image_part, png, text_part
from server_process import parse_events, read_until, split_chunks, stream_events

TIMES = ["queue", "decode_image", "preprocess", "encode", "prefill", "decode", "first_token", "total"]
WISHES = {"details": True, "progress": True}


def messages(*parts):
    return [{"role": "user", "content": list(parts)}]


def check_details(own):
    assert list(own) == ["timings", "images", "box_unit"] and list(own["timings"]) == TIMES
    times = own["timings"]
    assert all(value >= 0 for value in times.values()) and 0 < times["first_token"] <= times["total"]
    assert own["box_unit"] in ("thousandths", "resized_pixels", None)


def comments(events):
    return [json.loads(event[len(": ommatidia "):]) for event in events if isinstance(event, str) and event.startswith(": ommatidia ")]


@pytest.mark.real_too
def test_details_of_a_whole_reply(server):
    reply = server.chat(max_tokens=2, ommatidia={"details": True}).json
    check_details(reply["ommatidia"])
    assert reply["ommatidia"]["images"] == []
    reply = server.post("/v1/completions", {"prompt": "hello", "max_tokens": 2, "ommatidia": {"details": True}}).json
    check_details(reply["ommatidia"])


@pytest.mark.real_too
def test_details_of_a_stream(server):
    events = stream_events(server, max_tokens=2, stream_options={"include_usage": True}, ommatidia={"details": True})
    assert events[-1] == "data: [DONE]" and events[-2]["choices"] == [] and events[-2]["usage"]
    check_details(events[-2]["ommatidia"])
    assert all("ommatidia" not in event for event in events[:-2])
    assert not comments(events)


@pytest.mark.real_only
def test_images_and_what_they_became(server):
    parts = [image_part(png(96, 64)), image_part(png(64, 96)), text_part("What is it?")]
    reply = server.chat(messages=messages(*parts), max_tokens=2, ommatidia={"details": True}).json
    images = reply["ommatidia"]["images"]
    assert [(image["width"], image["height"]) for image in images] == [(96, 64), (64, 96)]
    assert all(image["resized_width"] > 0 and image["resized_height"] > 0 for image in images)
    assert 0 < sum(image["tokens"] for image in images) < reply["usage"]["prompt_tokens"]
    assert reply["ommatidia"]["timings"]["encode"] > 0


@pytest.mark.real_only
def test_progress_before_the_first_token(server):
    asked = messages(image_part(png(112, 96, 3)), text_part("What is it?"))
    events = stream_events(server, messages=asked, max_tokens=3, ommatidia=WISHES)
    progress = comments(events)
    assert sum("images" in own for own in progress) == 1
    stages = [own for own in progress if "stage" in own]
    assert {own["stage"] for own in stages} <= {"queue", "encode", "prefill"} and stages
    assert all(0 <= own["done"] <= own["total"] for own in stages)
    first = next(i for i, event in enumerate(events) if not isinstance(event, str))
    assert any(event.startswith(": ommatidia ") for event in events[:first])
    plain = stream_events(server, messages=asked, max_tokens=3)
    assert not comments(plain) and "ommatidia" not in json.dumps(plain)


def test_progress_begins_with_the_images(server):
    progress = comments(stream_events(server, messages=messages(image_part(), text_part("x")), ommatidia={"progress": True}))
    assert len(progress) == 1 and list(progress[0]) == ["images", "box_unit"] and len(progress[0]["images"]) == 1


@pytest.mark.real_only
def test_progress_of_a_request_that_waits(start):
    """The smallest models end an answer within 20 ms, so twenty are before it. They end when the
    first line about the wait is there."""
    server = start(max_num_seqs="1")
    with contextlib.ExitStack() as others:
        streams = [others.enter_context(server.open_stream("hello", max_tokens=300, ignore_eos=True)) for _ in range(20)]
        read_until(streams[0], b"data: ")
        with server.open_stream(max_tokens=2, ommatidia={"progress": True}) as waiting:
            data = read_until(waiting, b'"queue"')
            others.close()
            data = read_until(waiting, b"0\r\n\r\n", data)
    progress = comments(parse_events(split_chunks(data)[1]))
    waits = [event for event in progress if event.get("stage") == "queue"]
    assert waits and all(event["done"] == 0 and 1 <= event["total"] <= 20 for event in waits), progress


@pytest.mark.real_too
@pytest.mark.parametrize("value, message", [(True, "must be an object, got"), ({"detail": True}, 'unknown key "detail"; known are details'),
                                            ({"details": 2}, "details"), ([], "must be an object, got")])
def test_wishes_that_mean_nothing(server, value, message):
    reply = server.chat(ommatidia=value)
    assert reply.status == 400 and message in reply.error["message"], reply.body


@pytest.mark.real_too
def test_no_wishes_no_figures(server):
    for value in (None, {}, {"details": False, "progress": None}):
        assert "ommatidia" not in server.chat(max_tokens=1, ommatidia=value).json
