"""An image whose bytes came before is neither decoded nor resized; what was given up is made again,
with the same answers."""

import random
import threading

import pytest
from images import image_part, png, text_part, video_part, JPEG
from test_many import at_once, chat, text
from test_metrics import read

DECODED, RECALLED, ENCODED = "omma:images_decoded_total", "omma:images_recalled_total", "omma:encoder_images_total"


def counts(server):
    samples, _ = read(server)
    return samples[DECODED], samples[RECALLED], samples[ENCODED]


@pytest.mark.real_only
def test_the_same_image_is_decoded_once(start):
    server = start()
    image = image_part(png(128, 96))
    replies = [chat(server, [image, text_part(question)], logprobs=True) for question in ("what?", "what?", "and now?")]
    assert all(text(reply) for reply in replies) and text(replies[0]) == text(replies[1])
    assert replies[0].json["choices"][0]["logprobs"] == replies[1].json["choices"][0]["logprobs"]
    assert counts(server) == (1, 2, 1)
    chat(server, [image_part(png(128, 96, 1)), text_part("what?")])
    assert counts(server) == (2, 2, 2)


@pytest.mark.real_only
def test_other_limits_make_another_image(start):
    server = start()
    image = image_part(png(256, 256))
    whole = chat(server, [image, text_part("what?")])
    small = chat(server, [image, text_part("what?")], mm_processor_kwargs={"max_pixels": 8192})
    assert text(whole) and text(small)
    assert small.json["usage"]["prompt_tokens"] < whole.json["usage"]["prompt_tokens"]
    assert counts(server) == (2, 0, 2)
    again = chat(server, [image, text_part("what?")], mm_processor_kwargs={"max_pixels": 8192})
    assert text(again) == text(small)
    assert counts(server) == (2, 1, 2)


@pytest.mark.real_only
def test_nothing_is_kept_where_the_cache_is_off(start):
    server = start(mm_processor_cache_gb="0")
    image = image_part(png(128, 96))
    first, again = (chat(server, [image, text_part("what?")]) for _ in range(2))
    assert text(first) == text(again)
    assert counts(server) == (2, 0, 1)


@pytest.mark.real_only
def test_what_was_given_up_is_made_again(start):
    # Room for one resized image, for no encoded one, and no prefixes.
    server = start(mm_processor_cache_gb=str(60000 / 2**30), encoder_cache_bytes="0", no_enable_prefix_caching=True)
    images = [image_part(png(128, 128, shade)) for shade in (1, 2)]

    def ask(i):
        return chat(server, [images[i], text_part("what?")], logprobs=True).json["choices"][0]

    first = ask(0)
    assert ask(0) == first and counts(server) == (1, 1, 2)  # encoded from the pixels that were kept
    ask(1)
    assert ask(0) == first and counts(server) == (3, 1, 4)  # given up for the other


@pytest.mark.real_only
def test_videos_are_decoded_each_time(start):
    server = start()
    parts = [video_part([JPEG, JPEG]), text_part("what?")]
    reply = chat(server, parts)
    if reply.status == 400:
        pytest.skip("the model takes no videos")
    assert text(reply) == text(chat(server, parts))
    assert counts(server)[:2] == (4, 0)


@pytest.mark.real_only
def test_two_images_larger_than_the_encoder_cache(start):
    parts = [image_part(png(256, 256, 1)), image_part(png(256, 192, 2)), text_part("which?")]
    swapped = [parts[1], parts[0], parts[2]]
    roomy = start()
    expected = [text(chat(roomy, parts)), text(chat(roomy, swapped))]
    both = int(read(roomy)[0]["omma:encoder_cache_bytes"])
    # room for either, not for both
    server = start(encoder_cache_bytes=str(both - 1), no_enable_prefix_caching=True)
    assert text(chat(server, parts)) == expected[0]
    for _ in range(2):
        replies = at_once([lambda: chat(server, parts), lambda: chat(server, swapped)] * 3)
        assert [text(reply) for reply in replies] == expected * 3
    samples, _ = read(server)
    assert 0 < samples["omma:encoder_cache_bytes"] < both
    assert samples[DECODED] == 2 and samples[ENCODED] > 2


@pytest.mark.real_only
def test_a_storm_of_known_and_unknown_images(start):
    server = start(mm_processor_cache_gb=str(200000 / 2**30), encoder_cache_bytes="100000", kv_cache_bytes="6M")
    shades = range(6)
    images = [image_part(png(128, 96, shade)) for shade in shades]
    expected = [text(chat(server, [image, text_part("what?")])) for image in images]
    wrong = []

    def client(seed):
        draw = random.Random(seed)
        for _ in range(12):
            shade = draw.choice(shades)
            parts = [images[shade], text_part("what?")]
            if draw.random() < 0.3:  # leaves at some point
                with server.open_stream(parts, max_tokens=200, ignore_eos=True):
                    pass
            elif text(chat(server, parts)) != expected[shade]:
                wrong.append(shade)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    samples, _ = read(server)
    assert samples[RECALLED] > 0 and samples["omma:encoder_cache_bytes"] <= 100000
