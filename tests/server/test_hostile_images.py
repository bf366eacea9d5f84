"""Images that cost far more than their bytes: refused from their headers, or held to the server's
budget of memory and processor time, and a text chat never waits for them."""

import os
import threading

import pytest
from hostile_images import lossless_webp, progressive_jpeg, rgba16_png
from media_host import MediaHost
from images import image_part, text_part, video_part
from waiting import wait_for

pytestmark = pytest.mark.real_only
MEGABYTE = 1 << 20


def memory_now(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def memory_peak(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(server, images, **fields):
    content = [image_part(image) for image in images] + [text_part("what is it?")]
    return server.chat(content, max_tokens=1, **fields)


@pytest.mark.parametrize("image", [lossless_webp(5000, 4000), progressive_jpeg(5000, 4000, "CMYK"), rgba16_png(5000, 4000, True)],
                         ids=["lossless WebP", "progressive JPEG", "interlaced PNG"])
def test_codec_memory_is_estimated(start, image):
    """20 megapixels are 60 MB; what the codec keeps next to them does not fit into the budget,
    which the headers show."""
    server = start(max_decode_bytes=100 * MEGABYTE)
    server.chat("warm")
    cpu, memory = cpu_seconds(server), memory_peak(server)
    reply = ask(server, [image])
    assert reply.status == 400 and "bytes of memory" in reply.error["message"], reply.body
    assert cpu_seconds(server) - cpu < 1
    assert memory_peak(server) - memory < 16 * MEGABYTE + 2 * len(image)


def test_context_is_checked_before_decoding(start, model_can):
    if not model_can.raises_max_pixels:
        return
    server = start(max_decode_bytes="4G")
    server.chat("warm")
    cpu, memory = cpu_seconds(server), memory_peak(server)
    reply = ask(server, [lossless_webp(6000, 6000)], mm_processor_kwargs={"max_pixels": 36_000_000})
    assert reply.status == 400 and "context length" in reply.error["message"], reply.body
    assert cpu_seconds(server) - cpu < 1
    assert memory_peak(server) - memory < 16 * MEGABYTE


def test_requests_share_the_budget(start):
    """Three requests of 288 MB each, one after the other."""
    budget = 300 * MEGABYTE
    server = start(max_decode_bytes=budget)
    server.chat("warm")
    images = [rgba16_png(4000, 4000, False)] * 6
    file_bytes = 4 * sum(len(image) for image in images)
    memory = memory_now(server)
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(ask(server, images))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200, 200, 200], [reply.body for reply in replies]
    assert memory_peak(server) - memory < budget + 3 * file_bytes + 32 * MEGABYTE


def test_text_does_not_wait_for_images(start):
    """All workers that may be at images are: their files do not come. One more such request waits
    in the queue."""
    host = MediaHost()
    server = start(allowed_media_domains="127.0.0.1", allow_private_media_addresses=True)
    replies = []
    content = [{"type": "image_url", "image_url": {"url": host.url("late/60")}}]
    threads = [threading.Thread(target=lambda: replies.append(server.chat(content, max_tokens=1))) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(host.paths) == 2, "two fetches")
    assert server.chat("and meanwhile?", max_tokens=1).status == 200
    assert not replies, "the text chat waited for the images"
    host.close()
    for thread in threads:
        thread.join()
    assert len(replies) == 3


def test_processor_time_of_a_request(start):
    server = start(max_decode_seconds=1)
    server.chat("warm")
    cpu = cpu_seconds(server)
    reply = ask(server, [progressive_jpeg(2890, 2890, n_scans=99)] * 12, mm_processor_kwargs={"max_pixels": 65536})
    assert reply.status == 400 and "takes too long to decode" in reply.error["message"], reply.body
    assert cpu_seconds(server) - cpu < 3


def test_scans(start):
    reply = ask(start(), [progressive_jpeg(2890, 2890, n_scans=490)])
    assert reply.status == 400 and "too many scans" in reply.error["message"], reply.body


def test_image_pixels(start):
    server = start(max_image_pixels=1000)
    reply = ask(server, [lossless_webp(40, 30)])
    assert reply.status == 400 and "at most 1000 in all" in reply.error["message"], reply.body
    assert ask(server, [lossless_webp(40, 25)]).status == 200


def test_frames_of_a_video_share_the_budget(start, model_can):
    if not model_can.videos:
        return
    server = start(max_decode_bytes=64 * MEGABYTE)
    memory = memory_peak(server)
    reply = server.chat([video_part([lossless_webp(1000, 1000)] * 100), text_part("what happens?")], max_tokens=1)
    assert reply.status == 400 and "bytes of memory" in reply.error["message"], reply.body
    assert memory_peak(server) - memory < 32 * MEGABYTE
