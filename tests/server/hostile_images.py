"""Small files that are large images: what decoding them takes is out of all proportion to their
bytes."""

import io
import struct
import zlib

from PIL import Image


def png_chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def rgba16_png(width, height, interlaced):
    """8 bytes a pixel, all zero; interlaced, a decoder keeps all of it."""
    packer = zlib.compressobj(1)
    rows = bytes(width * 8 + 1)
    # more than the seven passes have, which decoders do not mind
    n_rows = height if not interlaced else 2 * height
    data = b"".join(packer.compress(rows) for _ in range(n_rows)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


def lossless_webp(width, height):
    """One colour: a few dozen bytes of any size, kept as 32-bit pixels by the decoder."""
    out = io.BytesIO()
    Image.new("RGB", (width, height), (3, 5, 7)).save(out, "WEBP", lossless=True, quality=0, method=0)
    return out.getvalue()


def progressive_jpeg(width, height, mode="L", n_scans=0):
    """Several scans, for which a decoder keeps all coefficients; with n_scans the last one is
    repeated up to that number."""
    out = io.BytesIO()
    Image.new(mode, (width, height), 0).save(out, "JPEG", progressive=True)
    data = out.getvalue()
    starts = [i for i in range(len(data) - 1) if data[i:i + 2] == b"\xff\xda"]
    last = data[starts[-1]:-2]
    return data[:-2] + last * max(0, n_scans - len(starts)) + data[-2:]
