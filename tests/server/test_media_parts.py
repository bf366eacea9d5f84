"""Which of many images or frames is at fault, and one deadline for all that a request has
fetched."""

import time

import pytest
from media_host import MediaHost
from images import JPEG, image_part, png, text_part, video_part

FIRST = {"role": "user", "content": "hello"}


@pytest.fixture(scope="module")
def host():
    host = MediaHost()
    yield host
    host.close()


def url_part(url):
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.real_too
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
@pytest.mark.parametrize("part, param, start, words", [
    (image_part(b"no image"), "image", "", "cannot identify image"),
    (image_part(JPEG[:-20], "image/jpeg"), "image", "", "image file is truncated"),
    (url_part("data:image/png;base64,@@@@"), "image_url", "", "base64"),
    (url_part("ftp://host/image"), "image_url", "", "must begin with data:"),
    (url_part("file:///etc/passwd"), "image_url", "", "not allowed"),
    (video_part([png(), png(), b"no image", png()]), "image", "frame 2: ", "cannot identify image"),
    ({"type": "video_url", "video_url": {"url": "data:video/jpeg;base64,@@@@"}}, "video_url", "frame 0: ", "base64"),
    ({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}, "video_url", "", "sent as its frames")])
def test_the_part_at_fault_is_named(server, path, part, param, start, words):
    parts = [image_part(), text_part("and"), part, image_part()]
    reply = server.post(path, {"messages": [FIRST, {"role": "user", "content": parts}]})
    assert (reply.status, reply.error["param"]) == (400, param), reply.body
    assert reply.error["message"].startswith("messages[1].content[2]: " + start), reply.body
    assert words in reply.error["message"], reply.body


def test_fetches_that_fail_are_named(start, host):
    server = start(allowed_media_domains="127.0.0.1", allow_private_media_addresses=True)
    parts = [url_part(host.url("image")), url_part(host.url("nowhere"))]
    reply = server.chat(messages=[{"role": "user", "content": parts}])
    assert reply.status == 422 and reply.error["message"].startswith("messages[0].content[1]: The image cannot be fetched"), reply.body


def test_one_deadline_for_all_images(start, host):
    """Each of them comes in less time than all together have."""
    server = start(allowed_media_domains="127.0.0.1", allow_private_media_addresses=True, media_timeout_ms=1500)
    late = url_part(host.url("late/0.8"))
    assert server.chat(messages=[{"role": "user", "content": [late]}]).status == 200
    before = time.monotonic()
    reply = server.chat(messages=[{"role": "user", "content": [late] * 6}])
    assert time.monotonic() - before < 4
    assert reply.status == 422, reply.body
    assert reply.error["message"].startswith("messages[0].content[1]: The image did not arrive within 1.5 seconds"), reply.body
