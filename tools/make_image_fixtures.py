#!/usr/bin/env python3
"""Draws the test images of tests/data/image and writes what the official Python code makes of them.

    python tools/make_image_fixtures.py            (needs numpy, Pillow 13, torch, torchvision, transformers)

Written, next to the images:
  manifest.txt      file width height hash        RGB pixels after decoding (upright, transparency on white)
  resize.txt        rule sw sh dw dh seed hash    bicubic; rule int16 = torchvision, precise22 = Pillow 13; input by noise()
  smart_resize.txt  height width factor min max   new height, new width
  patches.txt       width height seed set         grid height, grid width, hash of f32 values, hash of bf16 values

A hash is FNV-1a, 64 bits, of the bytes. Pixels come from Pillow, blended with white where they are
transparent. Only PNG pixels are computed here from the samples, because Pillow keeps 16-bit gray,
drops alpha and compares tRNS in its own way; they are compared with Pillow's where the two must
agree.
"""

import io
import pathlib
import random
import struct
import zlib

import numpy as np
import torch
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as vision
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor, smart_resize

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "image"


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in bytes(data):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def noise(width, height, seed):
    """Random-looking RGB that the C tests make as well: a 32-bit mix of the byte's index, every
    other 8 x 8 block flat."""
    i = np.arange(width * height * 3, dtype=np.uint64)
    x = ((i + np.uint64(seed * 7919)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    x ^= x >> np.uint32(16)
    x = (x.astype(np.uint64) * 0x7FEB352D & 0xFFFFFFFF).astype(np.uint32)
    x ^= x >> np.uint32(15)
    x = (x.astype(np.uint64) * 0x846CA68B & 0xFFFFFFFF).astype(np.uint32)
    x ^= x >> np.uint32(16)
    mixed = (x & np.uint32(255)).astype(np.uint8).reshape(height, width, 3)
    y, x = np.mgrid[0:height, 0:width]
    flat = ((x // 8 + y // 8 + seed) % 2).astype(bool)
    level = np.where((x // 16 + y // 16) % 2, 255, 0).astype(np.uint8)
    return np.where(flat[..., None], level[..., None], mixed)


def drawing(width, height, channels=3):
    """A smooth image with edges: waves, a disc and a bar."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = []
    for c in range(channels):
        plane = 128 + 90 * np.sin(x / (7 + 3 * c) + c) * np.cos(y / (5 + 2 * c)) + 30 * np.sin((x + y) / 3)
        plane[(x - width / 2) ** 2 + (y - height / 3) ** 2 < (min(width, height) / 4) ** 2] = 250 - 110 * c
        plane[int(height * 0.7) : int(height * 0.8), : width * 2 // 3] = 20 + 100 * c
        planes.append(plane)
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


# ---- JPEG
# --------------------------------------------------------------------------------------------------


def jpeg(image, mode, **options):
    out = io.BytesIO()
    Image.fromarray(image if image.shape[-1] != 1 else image[..., 0], mode).save(out, "JPEG", **options)
    return out.getvalue()


def exif(orientation, order="<", pad=0):
    """An EXIF block with `pad` entries before the orientation."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entries = [struct.pack(order + "HHII", 0x100 + i, 4, 1, 7) for i in range(pad)]
    entries.append(struct.pack(order + "HHIHH", 0x112, 3, 1, orientation, 0))
    body = mark + struct.pack(order + "I", 8) + struct.pack(order + "H", len(entries)) + b"".join(entries)
    return b"Exif\0\0" + body + struct.pack(order + "I", 0)


ADOBE = b"\xff\xee\0\x0eAdobe"


def without_adobe(data):
    at = data.index(ADOBE)
    return data[:at] + data[at + 16 :]


def with_transform(data, transform):
    """The same planes, said to be stored in another way: 2 is YCCK, as Photoshop writes."""
    at = data.index(ADOBE) + 15
    return data[:at] + bytes([transform]) + data[at + 1 :]


def make_jpegs(files):
    rgb = drawing(61, 43)
    files["baseline_420.jpg"] = jpeg(rgb, "RGB", subsampling=2, quality=85)
    files["baseline_422.jpg"] = jpeg(rgb, "RGB", subsampling=1, quality=85)
    files["baseline_444.jpg"] = jpeg(rgb, "RGB", subsampling=0, quality=97)
    files["baseline_low.jpg"] = jpeg(rgb, "RGB", subsampling=2, quality=12)
    files["restarts.jpg"] = jpeg(rgb, "RGB", subsampling=2, restart_marker_blocks=2)
    files["gray.jpg"] = jpeg(drawing(50, 37, 1), "L", quality=80)
    files["stored_rgb.jpg"] = jpeg(rgb, "RGB", keep_rgb=True, quality=90)
    files["progressive_420.jpg"] = jpeg(rgb, "RGB", subsampling=2, progressive=True)
    files["progressive_444.jpg"] = jpeg(rgb, "RGB", subsampling=0, progressive=True)
    files["progressive_gray.jpg"] = jpeg(drawing(50, 37, 1), "L", progressive=True)
    cmyk = drawing(40, 31, 4)
    files["cmyk.jpg"] = jpeg(cmyk, "CMYK", quality=90)
    files["cmyk_progressive.jpg"] = jpeg(cmyk, "CMYK", quality=90, progressive=True)
    files["cmyk_unmarked.jpg"] = without_adobe(files["cmyk.jpg"])
    files["ycck.jpg"] = with_transform(files["cmyk.jpg"], 2)
    files["ycck_progressive.jpg"] = with_transform(files["cmyk_progressive.jpg"], 2)
    for width, height in ((1, 1), (2, 1), (1, 3), (15, 17), (33, 8)):
        files[f"size_{width}x{height}.jpg"] = jpeg(drawing(width, height), "RGB", subsampling=2)
    for orientation in range(1, 9):
        order = "<>"[orientation % 2]
        block = exif(orientation, order, pad=orientation % 3)
        files[f"exif_{orientation}.jpg"] = jpeg(drawing(37, 22), "RGB", quality=60, exif=block)
    files["exif_9.jpg"] = jpeg(drawing(20, 14), "RGB", quality=60, exif=exif(9))


# ---- PNG
# --------------------------------------------------------------------------------------------------

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pack_row(row, depth):
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype(np.uint8).tobytes()
    bits = "".join(f"{int(v):0{depth}b}" for v in row.ravel())
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def filter_rows(samples, depth):
    """The rows of one pass, each with another of the five filters."""
    height = samples.shape[0]
    rows = [pack_row(samples[y], depth) for y in range(height)]
    step = max(1, samples.shape[2] * depth // 8)
    out, above = b"", bytes(len(rows[0]))
    for y, row in enumerate(rows):
        kind = y % 5
        out += bytes([kind])
        for i, value in enumerate(row):
            a = row[i - step] if i >= step else 0
            b = above[i]
            c = above[i - step] if i >= step else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            out += bytes([(value - (0, a, b, (a + b) // 2, nearest)[kind]) & 255])
        above = row
    return out


def png(samples, colour, depth, interlaced=False, palette=None, trns=None, extra=b""):
    height, width = samples.shape[:2]
    if interlaced:
        passes = [samples[y0::dy, x0::dx] for x0, y0, dx, dy in ADAM7]
        raw = b"".join(filter_rows(p, depth) for p in passes if p.size)
    else:
        raw = filter_rows(samples, depth)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced)))
    data += chunk(b"gAMA", struct.pack(">I", 100000))
    if palette is not None:
        data += chunk(b"PLTE", palette.astype(np.uint8).tobytes())
    if trns is not None:
        data += chunk(b"tRNS", trns)
    packed = zlib.compress(raw, 9)
    data += extra + chunk(b"IDAT", packed[:40]) + chunk(b"IDAT", packed[40:]) + chunk(b"IEND", b"")
    return data


def on_white(rgb, alpha):
    rgb, alpha = rgb.astype(np.int64), alpha.astype(np.int64)[..., None]
    return ((rgb * alpha + 255 * (255 - alpha)) * 2 + 255) // 510


def png_pixels(samples, colour, depth, palette, trns):
    """As in the PNG standard: 16 bits cut to the high byte, transparency over white."""
    samples = samples.astype(np.int64)
    if colour == 3:
        alpha = np.full(len(palette), 255)
        if trns is not None:
            alpha[: len(trns)] = list(trns)
        index = samples[..., 0]
        return on_white(palette[index], alpha[index])
    eight = samples >> 8 if depth == 16 else samples * (255 // (2**depth - 1))
    rgb = np.repeat(eight[..., :1], 3, -1) if colour in (0, 4) else eight[..., :3]
    if colour in (4, 6):
        return on_white(rgb, eight[..., -1])
    if trns is not None:
        key = np.array(struct.unpack(f">{len(trns) // 2}H", trns))
        return on_white(rgb, np.where((samples == key).all(-1), 0, 255))
    return rgb


def check_with_pillow(data, rgb, depth, colour, trns):
    if (colour, depth) == (0, 16) or (trns is not None and colour != 3):
        return
    image = Image.open(io.BytesIO(data))
    if colour in (4, 6) or trns is not None:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        white.paste(image, (0, 0), image)
        image = white
    assert (np.asarray(image.convert("RGB")) == rgb).all(), (colour, depth)


def make_pngs(files, pixels):
    rng = np.random.default_rng(5)
    for colour, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            for kind in ("plain", "interlaced", "trns", "trns_interlaced"):
                if "trns" in kind and colour in (4, 6):
                    continue
                width, height = (19, 13) if kind != "interlaced" else (11, 9)
                full = drawing(width, height, CHANNELS[colour]).astype(np.int64)
                samples = full >> (8 - depth) if depth <= 8 else full * 256 + rng.integers(0, 256, full.shape)
                palette = rng.integers(0, 256, (2**depth, 3)) if colour == 3 else None
                if colour == 3 and depth == 8:
                    palette, samples = palette[:200], samples % 200
                trns = None
                if "trns" in kind:
                    trns = struct.pack(f">{CHANNELS[colour]}H", *samples[2, 5])
                    if colour == 3:
                        trns = bytes(rng.integers(0, 256, max(1, 2**depth * 2 // 3)).tolist())
                if colour in (4, 6):
                    samples[..., -1] = rng.integers(0, 2**depth, samples.shape[:2])
                name = f"png_{('gray', '', 'rgb', 'palette', 'gray_alpha', '', 'rgba')[colour]}_{depth}_{kind}.png"
                files[name] = png(samples, colour, depth, "interlaced" in kind, palette, trns)
                pixels[name] = png_pixels(samples, colour, depth, palette, trns)
                check_with_pillow(files[name], pixels[name], depth, colour, trns)
    for orientation in (3, 6):
        samples = drawing(13, 7)
        block = chunk(b"eXIf", exif(orientation, ">")[6:])
        name = f"png_exif_{orientation}.png"
        files[name] = png(samples, 2, 8, extra=block)
        pixels[name] = upright_on_white(files[name])
    for width, height in ((1, 1), (3, 2), (5, 1)):
        samples = drawing(width, height)
        name = f"png_size_{width}x{height}.png"
        files[name] = png(samples, 2, 8, interlaced=True)
        pixels[name] = png_pixels(samples, 2, 8, None, None)


# ---- WebP, GIF, BMP
# --------------------------------------------------------------------------------------------------


def saved(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def make_webps(files):
    rgb, rgba = Image.fromarray(drawing(47, 35)), drawing(47, 35, 4)
    rgba = Image.fromarray(rgba)
    files["lossy.webp"] = saved(rgb, "WEBP", quality=60)
    files["lossless.webp"] = saved(rgb, "WEBP", lossless=True)
    files["lossy_alpha.webp"] = saved(rgba, "WEBP", quality=80)
    files["lossless_alpha.webp"] = saved(rgba, "WEBP", lossless=True, exact=True)
    files["exif_6.webp"] = saved(rgb, "WEBP", quality=30, exif=exif(6))
    files["size_1x1.webp"] = saved(Image.fromarray(drawing(1, 1)), "WEBP")
    frames = [Image.fromarray(drawing(30, 20 + i, 4)[:20]) for i in range(3)]
    files["animated.webp"] = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    frames = [frame.convert("RGB") for frame in frames]
    files["animated_opaque.webp"] = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], quality=50)


def lzw(indices, bits):
    """GIF's LZW without any compression: a clear code before the table would grow."""
    clear, width, value, n = 1 << bits, bits + 1, 0, 0
    codes = []
    for i, index in enumerate(indices):
        codes += [clear, index] if i % (clear - 2) == 0 else [index]
    for code in codes + [clear + 1]:
        value |= code << n
        n += width
    data = value.to_bytes((n + 7) // 8, "little")
    return bytes([bits]) + b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255)) + b"\0"


def gif(canvas, frame, indices, bits, palette=None, local=None, interlaced=False, transparent=None):
    left, top, width, height = frame
    data = b"GIF89a" + struct.pack("<HHBBB", *canvas, (0x80 | bits - 1) if palette is not None else 0, 0, 0)
    data += palette.astype(np.uint8).tobytes() if palette is not None else b""
    data += b"!\xfe\x05hello\0"
    if transparent is not None:
        data += b"!\xf9\x04" + struct.pack("<BHB", 1, 0, transparent) + b"\0"
    flags = (0x80 | bits - 1 if local is not None else 0) | (0x40 if interlaced else 0)
    data += b"," + struct.pack("<HHHHB", left, top, width, height, flags)
    data += local.astype(np.uint8).tobytes() if local is not None else b""
    return data + lzw(indices, max(bits, 2)) + b";"


def make_gifs(files):
    rng = np.random.default_rng(6)
    palettes = {bits: rng.integers(0, 256, (1 << bits, 3)) for bits in (1, 3, 8)}
    random_pixels = lambda bits, n: rng.integers(0, 1 << bits, n).tolist()
    files["plain.gif"] = saved(Image.fromarray(drawing(40, 30)).quantize(200), "GIF")
    files["gray.gif"] = saved(Image.fromarray(drawing(23, 30, 1)[..., 0]), "GIF")
    files["one_bit.gif"] = gif((19, 11), (0, 0, 19, 11), random_pixels(1, 209), 1, palettes[1])
    files["interlaced.gif"] = gif((13, 21), (0, 0, 13, 21), random_pixels(8, 273), 8, palettes[8], interlaced=True)
    files["transparent.gif"] = gif((13, 9), (0, 0, 13, 9), random_pixels(3, 117), 3, palettes[3], transparent=5)
    files["local_palette.gif"] = gif((13, 9), (0, 0, 13, 9), random_pixels(3, 117), 3, palettes[3], local=palettes[3][::-1])
    files["no_palette.gif"] = gif((13, 9), (0, 0, 13, 9), random_pixels(8, 117), 8)
    files["inside.gif"] = gif((20, 15), (4, 3, 9, 7), random_pixels(3, 63), 3, palettes[3])
    files["inside_transparent.gif"] = gif((20, 15), (4, 3, 9, 7), random_pixels(3, 63), 3, palettes[3], transparent=2)
    files["sticks_out.gif"] = gif((10, 8), (4, 3, 9, 7), random_pixels(3, 63), 3, palettes[3])
    frames = [Image.fromarray(drawing(20, 16 + i)[:16]).quantize(20) for i in range(3)]
    files["animated.gif"] = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])


def bmp(width, height, bits, pixels, compression=0, palette=None, masks=(), header=40):
    """`height` below 0: the first row on top. masks: written into the header where it has room,
    else after it."""
    if header == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
        colours = b"" if palette is None else palette.astype(np.uint8)[:, ::-1].tobytes()
    else:
        head = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(pixels), 0, 0, 0, 0)
        head += struct.pack(f"<{len(masks)}I", *masks)
        head = head.ljust(header, b"\0")
        colours = b"" if palette is None else b"".join(bytes([b, g, r, 0]) for r, g, b in palette.tolist())
    offset = 14 + len(head) + len(colours)
    return b"BM" + struct.pack("<IHHI", offset + len(pixels), 0, 0, offset) + head + colours + pixels


def make_bmps(files):
    rng = np.random.default_rng(7)
    rgb = Image.fromarray(drawing(21, 14))
    for mode in ("1", "L", "RGB", "RGBA"):
        files[f"mode_{mode}.bmp"] = saved(rgb.convert(mode), "BMP")
    files["mode_P.bmp"] = saved(rgb.quantize(256), "BMP")
    any_bytes = lambda n: rng.integers(0, 256, n).astype(np.uint8).tobytes()
    palette = rng.integers(0, 256, (16, 3))
    files["four_bits.bmp"] = bmp(13, 9, 4, any_bytes(8 * 9), palette=palette)
    files["os2.bmp"] = bmp(13, 9, 4, any_bytes(8 * 9), palette=palette, header=12)
    files["top_down.bmp"] = bmp(10, -7, 24, any_bytes(32 * 7))
    files["bits_555.bmp"] = bmp(11, 6, 16, any_bytes(24 * 6))
    files["bits_565.bmp"] = bmp(11, 6, 16, any_bytes(24 * 6), 3, masks=(0xF800, 0x7E0, 0x1F))
    files["bits_32.bmp"] = bmp(11, 6, 32, any_bytes(44 * 6))
    files["masks_32.bmp"] = bmp(11, 6, 32, any_bytes(44 * 6), 3, masks=(0xFF000000, 0xFF0000, 0xFF00))
    files["masks_alpha.bmp"] = bmp(11, 6, 32, any_bytes(44 * 6), 3, masks=(0xFF0000, 0xFF00, 0xFF, 0xFF000000), header=108)
    runs = b"\5\3\0\5\1\2\3\4\5\0\0\0" + b"\4\7\0\2\3\0\3\1\0\0" + b"\12\17\0\0" * 3 + b"\0\1"
    files["run_length_8.bmp"] = bmp(10, 5, 8, runs, 1, palette=rng.integers(0, 256, (256, 3)))
    runs = b"\5\x3a\0\5\x12\x34\x50\0\0\0" + b"\4\x7e\6\x91\0\0" + b"\12\x2f\0\0" * 3 + b"\0\1"
    files["run_length_4.bmp"] = bmp(10, 5, 4, runs, 2, palette=palette)


def upright_on_white(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        white.paste(image, (0, 0), image)
        image = white
    return np.asarray(image.convert("RGB"))


# ---- resize, sizes, patches
# --------------------------------------------------------------------------------------------------


def resize_torchvision(rgb, width, height):
    tensor = torch.from_numpy(rgb).permute(2, 0, 1).contiguous()[None]
    out = vision.resize(tensor, [height, width], interpolation=InterpolationMode.BICUBIC, antialias=True)
    return out[0].permute(1, 2, 0).contiguous().numpy()


def resize_pillow(rgb, width, height):
    """Pillow 13, which takes some shapes vertical first; older versions never do."""
    return np.asarray(Image.fromarray(rgb).resize((width, height), Image.Resampling.BICUBIC))


def resize_lines():
    rng = random.Random(1)
    # One pixel as source or result fails inside torch.
    sizes = [(1, 2, 5, 3), (7, 5, 1, 2), (64, 64, 64, 64), (50, 40, 50, 33), (50, 40, 61, 40), (300, 2, 9, 70), (2, 300, 70, 9)]
    sizes += [tuple(rng.randint(1, 90) for _ in range(4)) for _ in range(140)]
    sizes += [tuple(rng.randint(100, 400) for _ in range(4)) for _ in range(10)]
    # On both sides of Pillow's border between the orders, sh - dh = 2 (sw - dw).
    for sw, dw in ((60, 40), (40, 60), (50, 50), (50, 49)):
        sizes += [(sw, 30 + max(0, 2 * (sw - dw)) + more, dw, 30) for more in (-1, 0, 1)]
    sizes += [tuple(rng.randint(10, 160) for _ in range(4)) for _ in range(90)]
    for seed, (sw, sh, dw, dh) in enumerate(sizes):
        rgb = noise(sw, sh, seed)
        yield f"int16 {sw} {sh} {dw} {dh} {seed} {fnv(resize_torchvision(rgb, dw, dh).tobytes())}"
        yield f"precise22 {sw} {sh} {dw} {dh} {seed} {fnv(resize_pillow(rgb, dw, dh).tobytes())}"


def smart_resize_lines():
    rng = random.Random(2)
    limits = ((28, 3136, 12845056), (32, 65536, 16777216), (28, 3136, 1003520), (32, 65536, 262144))
    for _ in range(240):
        factor, low, high = rng.choice(limits)
        top = rng.choice((60, 600, 6000, 20000))
        height, width = rng.randint(1, top), rng.randint(1, top)
        if max(height, width) > 200 * min(height, width):
            continue
        new_height, new_width = smart_resize(height, width, factor, low, high)
        yield f"{height} {width} {factor} {low} {high} {new_height} {new_width}"


CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
# The tests know these sets by number.
PATCH_SETS = ((14, 3136, 50176, CLIP_MEAN, CLIP_STD), (16, 16384, 65536, [0.5] * 3, [0.5] * 3))


def patch_lines():
    cases = [(100, 60, 1, 0), (57, 130, 2, 0), (10, 10, 3, 0), (500, 300, 4, 0), (100, 60, 5, 1), (33, 200, 6, 1), (400, 380, 7, 1)]
    for width, height, seed, number in cases:
        patch, low, high, mean, std = PATCH_SETS[number]
        processor = Qwen2VLImageProcessor(
            patch_size=patch, merge_size=2, temporal_patch_size=2, image_mean=mean, image_std=std,
            size={"shortest_edge": low, "longest_edge": high},
        )
        made = processor(images=[Image.fromarray(noise(width, height, seed))], return_tensors="pt")
        values, grid = made["pixel_values"], made["image_grid_thw"][0].tolist()
        half = values.to(torch.bfloat16).view(torch.int16).numpy()
        yield f"{width} {height} {seed} {number} {grid[1]} {grid[2]} {fnv(values.numpy().tobytes())} {fnv(half.tobytes())}"


def write_lines(name, lines):
    (OUT / name).write_text("".join(line + "\n" for line in lines))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    files, pixels = {}, {}
    make_jpegs(files)
    make_webps(files)
    make_gifs(files)
    make_bmps(files)
    for name, data in files.items():
        pixels[name] = upright_on_white(data)
    make_pngs(files, pixels)
    lines = []
    for name, data in sorted(files.items()):
        (OUT / name).write_bytes(data)
        height, width = pixels[name].shape[:2]
        lines.append(f"{name} {width} {height} {fnv(pixels[name].astype(np.uint8).tobytes())}")
    write_lines("manifest.txt", lines)
    write_lines("resize.txt", resize_lines())
    write_lines("smart_resize.txt", smart_resize_lines())
    write_lines("patches.txt", patch_lines())


if __name__ == "__main__":
    main()
