"""Images as data URLs, made without any library."""

import base64
import struct
import zlib


def png(width=8, height=8, shade=0):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + bytes((x * 7 + y * 13 + c + shade) % 256 for x in range(width) for c in range(3)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


# 8 x 8, grey
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////////////"
    "wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAACf/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AKp//2Q==")


def data_url(data, kind="image/png"):
    return f"data:{kind};base64," + base64.b64encode(data).decode()


def image_part(data=None, kind="image/png", **extra):
    return {"type": "image_url", "image_url": {"url": data_url(png() if data is None else data, kind)}, **extra}


def video_part(frames, **extra):
    url = "data:video/jpeg;base64," + ",".join(base64.b64encode(frame).decode() for frame in frames)
    return {"type": "video_url", "video_url": {"url": url}, **extra}


def text_part(text):
    return {"type": "text", "text": text}
