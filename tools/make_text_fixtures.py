#!/usr/bin/env python3
"""Makes tests/data/text: small byte-level BPE tokenizers and what the official `tokenizers` library
does with them.

    python3 tools/make_text_fixtures.py tests/data/text

Four tokenizers of about a thousand tokens, trained on the text below:
  digits      the form of Qwen2 and later: NFC, one digit per piece, merges as pairs
  capitals    no normalisation, words cut at capitals (a class with &&), numbers by three, whole
              pieces taken from the vocabulary
  plain       GPT-2's own pattern, merges as strings, added tokens that take white space along, one
              of them only in tokenizer_config.json
  marked      SentencePiece's form: spaces as U+2581, nothing cut, characters without a token as
              bytes <0xHH>; 3,000 texts

Each folder has tokenizer.json and cases.json: {"encode": [[text, ids], ...], "decode": [[ids,
skip_special, text], ...]}. utf8.json has [[bytes, Python's bytes.decode(errors="replace")], ...].
Texts and bytes are in hexadecimal digits.

Random characters are those of Unicode 3.2 and texts on whose NFC Python and the official library
agree: the latter's tables are older than those of other programs.
"""
import collections
import json
import pathlib
import random
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

DIGITS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CAPITALS = "|".join([r"[\p{Han}]+", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}",
                     rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}", r"\p{N}{1,3}",
                     r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])

TRAINING = """
The picture shows a small harbour in the morning. Two boats lie at the quay, and a dog sleeps between the ropes. It's quiet;
nobody's there yet, and they'll not come before eight. What colour is the larger boat? The larger boat is blue and white.
There are 3 people, 12 chairs and 450 books in the room. I don't think that we've seen this sign before: "No entry".
Describe the image. The image is a chart with four bars; the second bar is the highest, at 87.5 percent.
Das Bild zeigt eine Straße mit alten Häusern. Über der Tür hängt ein grünes Schild, auf dem „Bäckerei“ steht. Was kostet ein
Brot? Ein Brot kostet drei Euro fünfzig. Die Kinder spielen auf der Wiese, und die Großmutter liest eine Zeitung.
L'image montre un café près de la gare. Une femme âgée lit son journal ; un garçon l'observe. Où est le chat ? Le chat dort
sous la table, à côté d'une chaise. C'était déjà l'été, et les élèves étaient à la plage.
图片里有一只猫和两条狗。猫坐在窗户旁边，狗在花园里跑。这张图片是什么颜色的？天空是蓝色的，房子是红色的。我们今天去学校。
写真には小さな町と山が写っています。山の上に雪があります。駅の前で人々が電車を待っています。これは何ですか。カメラとテレビです。
사진에는 바다와 하늘이 있습니다. 아이들이 모래밭에서 놀고 있습니다. 이것은 무엇입니까? 오늘은 날씨가 좋습니다.
تظهر الصورة مدينة قديمة وسوقا كبيرا. يجلس الرجل أمام الباب ويقرأ الكتاب. ما لون السماء؟ السماء زرقاء.
चित्र में एक छोटा घर और दो पेड़ हैं। बच्चे बगीचे में खेल रहे हैं। यह क्या है? आकाश नीला है।
На картинке изображён старый город. Девочка читает книгу у окна. Какого цвета дом? Дом белый.
🙂 🙂 🚀 👍 ❤️ 👩‍👩‍👧 🎉 🐈 🌍
def area(width, height):
    \"\"\"Returns the area.\"\"\"
    if width < 0 or height < 0:
        raise ValueError("negative size")
    return width * height

int main(void) {
  for (int i = 0; i < 10; i++) printf("%d\\n", i);
  return 0;
}
{"name": "box", "bbox_2d": [12, 34, 560, 780], "label": "cat"}
<table><tr><td>1</td><td>2</td></tr></table>
"""

WORDS = ["it's", "I'LL", "don't", "We've", "'S", "'\u017f", "Müller", "naïve", "été", "Straße", "日本語", "中文字符", "한국어",
         "العربية", "हिन्दी", "русский", "🙂", "👩‍👩‍👧", "e\u0301", "A\u030a", "q\u0323\u0307", "q\u0307\u0323", "\u1100\u1161\u11a8",
         "\u1100\u1161\u11a7", "\u212b", "\u0958", "か\u3099", "ﬁ", "ǅ", "\u2126", "camelCaseWord", "HTTPServer", "def f(x):", "  return",
         "\r\n", "\n\n  \n", "...", "!!!\n\n", "#include <a.h>", "2024-05-17", "3.14", "x²½", "٣٤", "Ⅷ", "①", "1234567", "\x00",
         "\x7f", "\ufffd", "\ufeff", "Ġ", "Ċ", "<|im_", "<|im_start", "|>", "<tool_call", "</", "<<|im_end|>>"]
SPACES = ["", " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u00a0", "\u2003", "\u3000", "\u180e", "\u2028",
          "\u200b", "\x1c", "\u1680", "\u205f"]

random.seed(20)
UNICODE = [chr(c) for c in range(0x30000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
MARKS = [c for c in UNICODE if unicodedata.ucd_3_2_0.category(c)[0] == "M"]
HANGUL = [chr(c) for c in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11a7, 0x11c3), *range(0xac00, 0xac40))]


def train(pre_tokenizer, normalizer, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator([TRAINING] * 2, trainer)
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def markers(tokenizer):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
    plain = ["<tool_call>", "</tool_call>", "<tool>", "<think>", "<|im_start|>>", "图表"]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in plain])
    return special + plain


def pick(source, most):
    return "".join(random.choice(source) for _ in range(random.randint(0, most)))


def random_text(added):
    kind = random.randint(0, 9)
    if kind == 0:
        return pick(UNICODE, 30)
    if kind == 1:
        return pick([chr(c) for c in range(0x20, 0x250)], 40)
    if kind == 2:
        return pick(SPACES + ["a", ".", "1"], 30)
    if kind == 3:
        return "".join(random.choice("aeoqnक\u0938かé") + pick(MARKS, 3) for _ in range(8))
    if kind == 4:
        return pick(list("0123456789 ") + ["²", "½", "٣", "४", "Ⅷ", "①", ".", ","], 30)
    if kind == 5:
        return random.choice(WORDS) * random.randint(1, 12)
    if kind == 6:
        return pick(HANGUL, 20)
    if kind == 7:
        start = random.randrange(len(TRAINING))
        return TRAINING[start:start + random.randint(0, 120)]
    return "".join(random.choice(WORDS + added * 3) + random.choice(SPACES) for _ in range(random.randint(1, 10)))


def texts(tokenizer, added, count):
    fixed = ["", " ", "\n", "a", "".join(added), " ".join(added), "<|im_start|>user\nWhat is this?<|im_end|>\n", TRAINING,
             "x" * 1500, "ab" * 700, " " * 600 + "x", "\n" * 300, "e\u0301" * 200, "\u0301\u0316" * 150, "!" * 300,
             pick("abcdefghij", 1) + "".join(random.choice("abcdefghijklmnop") for _ in range(2000)), "ひらがな" * 100]
    for text in fixed + [random_text(added) for _ in range(count)]:
        same = tokenizer.normalizer is None or tokenizer.normalizer.normalize_str(text) == unicodedata.normalize("NFC", text)
        if same:
            yield text


def hexadecimal(text):
    return text.encode().hex()


def cases(tokenizer, added):
    encode, decode = [], []
    size = tokenizer.get_vocab_size()
    for text in texts(tokenizer, added, 400):
        encode.append([hexadecimal(text), tokenizer.encode(text, add_special_tokens=False).ids])
    bytes_only = [tokenizer.token_to_id(c) for c in sorted(pre_tokenizers.ByteLevel.alphabet())]
    for number in range(200):
        ids = [random.choice(bytes_only) if number % 2 else random.randrange(size) for _ in range(random.randint(0, 14))]
        if number % 5 == 0:
            ids = random.choice(encode)[1][:40]
            ids = ids[random.randint(0, 3):]
        skip = number % 3 == 0
        decode.append([ids, skip, hexadecimal(tokenizer.decode(ids, skip_special_tokens=skip))])
    return {"made_with": f"tokenizers {tokenizers.__version__}", "encode": encode, "decode": decode}


def write(folder, document, tokenizer, added):
    folder.mkdir(parents=True, exist_ok=True)
    dump(folder / "tokenizer.json", document)
    dump(folder / "cases.json", cases(tokenizer, added))


def dump(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def train_marked():
    """Characters, <0xHH> for all bytes, merges over spaces; some characters have no token."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trainer = trainers.BpeTrainer(vocab_size=700, min_frequency=2, show_progress=False)
    # The trainer's own limit of the alphabet leaves chance a choice.
    common = {c for c, _ in sorted(collections.Counter(TRAINING).items(), key=lambda item: (-item[1], item[0]))[:150]}
    lines = ["".join(c for c in line if c in common) for line in TRAINING.splitlines(keepends=True)]
    trained.train_from_iterator(lines * 2, trainer)
    document = json.loads(trained.to_str())
    known = list(document["model"]["vocab"])
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *known, "a b", "<0xzz>"]
    document["model"] |= {"vocab": {name: index for index, name in enumerate(names)}, "unk_token": "<unk>",
                          "byte_fallback": True, "fuse_unk": True}
    document["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names[:3]])
    added = names[:3] + markers(tokenizer)
    tokenizer.add_tokens([AddedToken("<to the left>", normalized=True), AddedToken("[ ]", normalized=False)])
    return tokenizer, added + ["<to the left>", "<to\u2581the left>", "[ ]", "[\u2581]"]


def marked_text(added):
    """A text with what only this form has: marks, spelled bytes, characters of every plane."""
    parts = ["\u2581", " ", "  ", "<0x0A>", "<0xE2>", "a b", "\n", "\u2582", "\U0001f9ff", "\U00030000", "\ue000", "\u0378", "é", "図"]
    if random.randint(0, 1):
        return random_text(added)[:16]
    return "".join(random.choice(parts + added) if random.randint(0, 2) else pick(UNICODE, 3) for _ in range(random.randint(1, 5)))


def marked_cases(tokenizer, added):
    """Where a run of bytes is no UTF-8 the official decoder replaces all of it; here as much as
    Python does."""
    encode = [[hexadecimal(text), tokenizer.encode(text, add_special_tokens=False).ids]
              for text in ["", " ", TRAINING, "x" * 1500, "\u2581 " * 300, "🙂" * 200, *(marked_text(added) for _ in range(3000))]]
    special = {index for index, token in tokenizer.get_added_tokens_decoder().items() if token.special}

    def token_bytes(index):
        return bytes([index - 3]) if 3 <= index < 259 else tokenizer.id_to_token(index).replace("\u2581", " ").encode()

    decode = []
    for number in range(300):
        ids = [random.randrange(3 if number % 2 else 259, tokenizer.get_vocab_size()) for _ in range(random.randint(0, 8))]
        skip = number % 3 == 0
        kept = [index for index in ids if not (skip and index in special)]
        text = b"".join(map(token_bytes, kept)).decode(errors="replace")
        official = tokenizer.decode(ids, skip_special_tokens=skip)
        if official != text and "\ufffd" not in official:
            raise RuntimeError(f"{ids}: {official!r} is not {text!r}")
        decode.append([ids, skip, hexadecimal(text)])
    return {"made_with": f"tokenizers {tokenizers.__version__}", "encode": encode, "decode": decode}


def broken_utf8():
    leads = [0x41, 0x80, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe4, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff, 0x9f, 0xa0, 0x8f, 0x90]
    for number in range(600):
        data = bytes(random.choice(leads) for _ in range(random.randint(0, 8)))
        if number % 2:
            data = bytearray("aé図🙂".encode() * 2)
            for _ in range(random.randint(1, 4)):
                data[random.randrange(len(data))] = random.choice(leads)
            data = bytes(data[:random.randint(1, len(data))])
        yield [data.hex(), hexadecimal(data.decode(errors="replace"))]


def main():
    out = pathlib.Path(sys.argv[1])

    tokenizer = train(split(DIGITS), normalizers.NFC(), 1000)
    added = markers(tokenizer)
    write(out / "digits", json.loads(tokenizer.to_str()), tokenizer, added)

    tokenizer = train(split(CAPITALS), None, 900)
    added = markers(tokenizer)
    document = json.loads(tokenizer.to_str())
    document["model"]["ignore_merges"] = True
    # A token that no merges lead to: only taking whole pieces finds it.
    document["model"]["merges"] = [m for m in document["model"]["merges"] if "".join(m) not in ("Ġimage", "Ġthe")]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    write(out / "capitals", document, tokenizer, added)

    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), normalizers.NFC(), 700)
    added = markers(tokenizer)
    tokenizer.add_tokens([AddedToken("[LEFT]", normalized=False, lstrip=True), AddedToken("[RIGHT]", normalized=False, rstrip=True),
                          AddedToken("[BOTH]", normalized=True, lstrip=True, rstrip=True), AddedToken("é!", normalized=True)])
    tokenizer.add_special_tokens([AddedToken("[LATE]", normalized=False, special=True)])
    added += ["[LEFT]", "[RIGHT]", "[BOTH]", "é!", "e\u0301!", "[LATE]"]
    document = json.loads(tokenizer.to_str())
    document["model"]["merges"] = [" ".join(m) for m in document["model"]["merges"]]
    late = next(t for t in document["added_tokens"] if t["content"] == "[LATE]")
    document["added_tokens"].remove(late)
    write(out / "plain", document, tokenizer, added)
    decoder = {str(late.pop("id")): late}
    dump(out / "plain" / "tokenizer_config.json", {"added_tokens_decoder": decoder, "model_max_length": 4096})

    dump(out / "utf8.json", {"cases": list(broken_utf8())})

    tokenizer, added = train_marked()
    (out / "marked").mkdir(exist_ok=True)
    dump(out / "marked" / "tokenizer.json", json.loads(tokenizer.to_str()))
    dump(out / "marked" / "cases.json", marked_cases(tokenizer, added))


if __name__ == "__main__":
    main()
