"""Images and messages of Python as the server's JSON has them: pixels and files become data: URLs,
without loss."""

from __future__ import annotations

import base64
import os
import struct
import urllib.parse
import urllib.request
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, cast

import numpy as np


class PilImage(Protocol):
    """What is used of PIL.Image.Image."""

    @property
    def mode(self) -> str: ...
    @property
    def size(self) -> tuple[int, int]: ...
    def tobytes(self) -> bytes: ...


# A path (or an http(s), file or data URL), the bytes of a file, a file opened for reading bytes,
# uint8 pixels [height, width] or [height, width, 1 to 4], an image of Pillow.
ImageLike: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes] | np.ndarray[Any, Any] | PilImage"
Message: TypeAlias = Mapping[str, Any]

_URLS = ("data:", "http://", "https://")
_SUFFIXES = (".avif", ".bmp", ".gif", ".heic", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
# Colour types of PNG by their numbers of channels: gray, gray with alpha, RGB, RGB with alpha.
_PNG_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
_PIL_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def png_of(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG file of uint8 pixels, not compressed."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise TypeError(
            f"image: expected uint8 pixels [height, width] or [height, width, channels], found {pixels.dtype} {list(pixels.shape)}"
        )
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if channels not in _PNG_TYPES or 0 in pixels.shape:
        raise ValueError(f"image: expected 1 to 4 channels and at least one pixel, found {list(pixels.shape)}")
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter, none
    rows[:, 1:] = pixels.reshape(height, width * channels)
    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_TYPES[channels], 0, 0, 0)
    content = zlib.compress(rows.tobytes(), 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", content) + _chunk(b"IEND", b"")


def _is_pil(image: object) -> bool:
    return hasattr(image, "mode") and hasattr(image, "tobytes") and hasattr(image, "convert")


def _is_file(image: object) -> bool:
    return hasattr(image, "read")


def _pil_pixels(image: Any) -> np.ndarray[Any, Any]:
    """Pixels as they are: an orientation in EXIF data is for whoever opened the file."""
    if image.mode not in _PIL_CHANNELS:
        image = image.convert("RGBA" if "A" in image.mode or "transparency" in image.info else "RGB")
    width, height = image.size
    return np.frombuffer(image.tobytes(), np.uint8).reshape(height, width, _PIL_CHANNELS[image.mode])


def is_image(value: object) -> bool:
    """Whether a value can only be an image: any ImageLike but a string that is no data: URL."""
    if isinstance(value, str):
        return value.startswith("data:image")
    return isinstance(value, (os.PathLike, bytes, bytearray, memoryview, np.ndarray)) or _is_pil(value) or _is_file(value)


def is_single_image(value: object) -> bool:
    """As `is_image`, but for pixels [n, height, width, channels], which are n images."""
    return is_image(value) and not (isinstance(value, np.ndarray) and value.ndim == 4)


def several(name: str, values: Any, one: str) -> Iterable[Any]:
    """`values`, if there may be several: a single text, image or dict is none of them."""
    if isinstance(values, (str, Mapping)) or is_single_image(values) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: expected a sequence, found {type(values).__name__}{one}")
    return values


def file_of(image: ImageLike) -> bytes:
    """The bytes of an image file. A path is read, pixels are written as PNG. OSError where a file
    cannot be read, TypeError for anything else."""
    if isinstance(image, str) and image.startswith("data:"):
        with urllib.request.urlopen(image) as data:
            return bytes(data.read())
    if isinstance(image, str) and image.startswith("file://"):
        image = urllib.parse.unquote(urllib.parse.urlsplit(image).path)
    if isinstance(image, (str, os.PathLike)):
        return Path(image).read_bytes()
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, np.ndarray):
        return png_of(image)
    if _is_pil(image):
        return png_of(_pil_pixels(image))
    if _is_file(image) and isinstance(content := cast("IO[bytes]", image).read(), bytes):
        return content
    several_hint = "; several are given as images" if isinstance(image, (list, tuple)) else ""
    raise TypeError(
        "image: expected a path, bytes, a file opened for bytes, a data: URL, uint8 pixels or a PIL image, "
        f"found {type(image).__name__}{several_hint}"
    )


def url_of(image: ImageLike) -> str:
    """A URL for the server: the one given, or data:."""
    if isinstance(image, str) and image.startswith(_URLS):
        return image
    return "data:application/octet-stream;base64," + base64.b64encode(file_of(image)).decode("ascii")


def text_part(text: str) -> dict[str, Any]:
    """A text among parts. Where images may stand too, a path in a string is easily meant as one."""
    if text.lower().endswith(_SUFFIXES) and os.path.isfile(text):
        warnings.warn(f"{text!r} is taken as a text; an image's path is given as pathlib.Path", stacklevel=2)
    return {"type": "text", "text": text}


def image_part(image: ImageLike) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url_of(image)}}


def video_part(frames: Iterable[ImageLike]) -> dict[str, Any]:
    """A video of its frames, in order and all of one size."""
    if isinstance(frames, (str, bytes, os.PathLike)) or not isinstance(frames, Iterable):
        raise TypeError("video: expected a sequence of images, its frames; video files are not decoded")
    encoded = [base64.b64encode(file_of(frame)).decode("ascii") for frame in frames]
    if not encoded:
        raise ValueError("video: expected at least one frame")
    return {"type": "video_url", "video_url": {"url": "data:video/jpeg;base64," + ",".join(encoded)}}


def _part(part: Any) -> Any:
    """A part of a message: OpenAI's forms, those of transformers ("image", "video") and of vLLM
    ("image_pil"), and bare texts and images."""
    if isinstance(part, str) and not is_image(part):
        return text_part(part)
    if is_image(part):
        return image_part(part)
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind == "image_url":
        holder = part.get("image_url")
        if isinstance(holder, Mapping):
            return {**part, "image_url": {**holder, "url": url_of(holder["url"])}} if "url" in holder else part
        return {**part, "image_url": {"url": url_of(holder)}} if holder is not None else part
    if kind in ("image", "image_pil") and kind in part:
        return image_part(part[kind])
    if kind == "video" and "video" in part:
        return video_part(part["video"])
    return part


def message_of(message: Message) -> dict[str, Any]:
    """A message with its images as URLs."""
    if not isinstance(message, Mapping):
        raise TypeError(f"messages: expected dicts with role and content, found {type(message).__name__}")
    content = message.get("content")
    if isinstance(content, (str, type(None))):
        return dict(message)
    parts = content if isinstance(content, Sequence) and not is_image(content) else [content]
    return {**message, "content": [_part(part) for part in parts]}


def content_of(
    text: str | None, images: Iterable[ImageLike], video: Iterable[ImageLike] | None
) -> str | list[dict[str, Any]]:
    """A user's content: images, then a video, then the text."""
    parts = [image_part(image) for image in images]
    if video is not None:
        parts.append(video_part(video))
    if not parts and text is not None:
        return text
    return [*parts, {"type": "text", "text": text}] if text is not None else parts
