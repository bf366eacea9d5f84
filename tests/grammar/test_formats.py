"""String formats against the checks of PyPI's jsonschema with its "format" extra: what a grammar
allows, the checker takes; what the checker takes of texts made from the RFCs' rules, the grammar
allows. docs/structured-output.md names the formats that are narrower. With --full ten times as
many, other ones with each run."""

import json
import random
import re

import jsonschema
import pytest

CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER
# Both agree on any text; the others are narrower than the checker.
EXACT = ["date", "time", "date-time", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri", "iri-reference", "json-pointer"]
NARROWER = ["duration", "uuid", "email", "idn-email", "idn-hostname", "uri-template", "relative-json-pointer"]

# What people write, one list a format; all are valid.
ORDINARY = {
    "uri": ["https://example.com", "http://example.com/a%20b", "https://example.com/a,b", "https://example.com/a+b", "https://example.com/a;b=1",
            "https://example.com:8443/", "https://example.com:65535/x", "https://example.com/@user", "https://example.com/a:b", "https://example.com/!",
            "https://example.com/*", "https://example.com/$x", "https://example.com/it's", "https://example.com/a=b", "https://example.com/a&b",
            "https://en.wikipedia.org/wiki/C_(programming_language)", "https://xn--bcher-kva.example/", "https://user:pass@example.com/?q=a+b&c=%C3%A4#top",
            "mailto:jane@example.com", "urn:isbn:0451450523", "tel:+1-816-555-1212", "data:text/plain;base64,SGk=", "file:///etc/hosts",
            "ftp://ftp.is.co.za/rfc/rfc1808.txt", "http://[2001:db8::7]/c=GB?one", "http://192.0.2.16:80/", "HTTPS://EXAMPLE.COM/?", "a:"],
    "uri-reference": ["../x", "#frag", "", "?q=1", "//cdn.example.com/a.js", "/a/b", "a/b", "./a:b", "https://example.com/(x)", "%41", ".", "img/photo-1.png"],
    "iri": ["https://bücher.example/straße?größe=ä#ü", "http://例え.jp/引き割り.html", "https://example.com/a%20b", "urn:x:é", "http://[::1]/𝒳", "x:?\ue000"],
    "iri-reference": ["../größe", "#ü", "", "//bücher.example", "straße/a", "?\uf8ff"],
    "uri-template": ["https://api.example.com/{user}/repos{?page,per_page}", "/a{/path*}{#frag}", "{+base}index{.ext}", "{;x,y}{&z:3}", "", "{a.b,c_d}",
                     "größe/{x%41}", "/it's"],
    "idn-hostname": ["example.com", "bücher.example", "straße.de", "例え.jp", "한국.com", "почта.рф", "παράδειγμα.ελ", "हिन्दी.भारत", "ไทย.com", "ที่อยู่.ไทย",
                     "ישראל.co.il", "مثال.com", "www.donaudampfschifffahrtsgesellschaft.example", "A-b.C", "việtnam.vn", "größe-und-maß.de", "ქართული.ge"],
    "idn-email": ["jane.doe+x@example.com", "用户@例子.中国", "dörte@sörensen.example", "a@b", "o'brien@example.co.uk"],
    "email": ["jane.doe+tag@sub.example.co.uk", "a@b", "o'brien@example.com", "x" * 40 + "@" + "y" * 60 + ".com", "1@2.3.4.5.6"],
    "hostname": ["localhost", "example.com", "a.b.c.d.e.f.example.com", "EXAMPLE.Com", "xn--bcher-kva.example", "1.2", "a" * 63 + ".com", "a--b"],
    "ipv4": ["0.0.0.0", "255.255.255.255", "192.168.1.10"],
    "ipv6": ["::", "::1", "2001:db8::ff00:42:8329", "2001:DB8:0:0:0:FF00:42:8329", "::ffff:192.0.2.128", "fe80::1", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:1.2.3.4"],
    "date": ["2024-02-29", "1999-12-31", "0001-01-01"],
    "time": ["12:00:00Z", "23:59:59.123456789+05:30", "08:30:00z", "00:00:00-00:00", "01:02:03.1Z"],
    "date-time": ["2024-05-06T07:08:09Z", "2024-05-06t07:08:09.5z", "1999-12-31T23:59:59.123456789-11:30"],
    "duration": ["P1D", "P1DT2H", "P1Y2M3DT4H5M6S", "PT0.5S", "PT1H30S", "P2W", "-P1DT1S", "P1Y3D", "PT36H", "P1DT2H3M4.500000S", "PT1,5H", "P0D", "P12345D"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "00000000-0000-0000-0000-000000000000", "Abcdef01-2345-6789-aBcD-eF0123456789"],
    "json-pointer": ["", "/", "/a/0", "/a~1b/~0", "/größe/ "],
    "relative-json-pointer": ["0", "1/a", "2#", "0/", "10/x~0"],
}
# Not valid, by the checker either.
WRONG = {
    "uri": ["", "example.com", "//a", "http://a b", "http://[::1", "http://a/%zz", "http://a:b:c", "http://ü", "1a:x", "http://a/<x>", "http://a/{x}", "a:\\"],
    "uri-reference": ["a b", "a:b c", ":x", "1:2", "%", "ü", "##", "[x]"],
    "iri": ["ü", "http://\u009f", "http://a/\ue000", "x:#\ue000", "x:\ufffe", "x:\U000e0fff"],
    "iri-reference": ["a b", ":ü", "\ud7ff\ue000", "^"],
    "uri-template": ["{", "}", "{}", "{a b}", "{a:0}", "{!x}", "{a}}", "{a**}"],
    "hostname": ["", "-a", "a-", "a..b", "a" * 64, "a_b", ".a", "ü", ".".join(["a" * 63] * 4)],
    "idn-hostname": ["", "a..b", "-a", "Bücher.de", "ü-", "a b", "\u0e48a", "\u094d", "א" + "a", "u\u0308"],
    "ipv4": ["256.1.1.1", "1.1.1", "01.1.1.1"], "ipv6": [":", ":::", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", "::1.2.3", "fe80::1%eth0"],
    "date": ["2023-02-29", "2024-13-01", "0000-01-01", "24-1-1"], "time": ["12:00:00", "24:00:00Z", "12:60:00Z", "12:00Z", "12:00:00.Z"],
    "date-time": ["2024-05-06 07:08:09Z", "2024-05-06T07:08:09", "2023-02-29T00:00:00Z"],
    "duration": ["", "P", "PT", "P1", "1D", "P1DT", "P1H", "PT1D", "P1M1Y", "P1D1W", "PTS"],
    "uuid": ["123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400", "g23e4567-e89b-12d3-a456-426614174000"],
    "json-pointer": ["a", "/~", "/~2"], "relative-json-pointer": ["", "01", "-1", "1a", "#", "0##"], "email": ["a"], "idn-email": [""],
}


class Maker:
    """Texts from the rules of the RFCs, which this class states in its own way."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, make, low=0, high=4):
        return "".join(make() for _ in range(self.random.randint(low, high)))

    def one(self, *texts):
        text = self.random.choice(texts)
        return text() if callable(text) else text

    def maybe(self, make):
        return self.one("", make)

    def letters(self, alphabet, low, high):
        return self.some(lambda: self.random.choice(alphabet), low, high)

    def digits(self, n):
        return self.letters("0123456789", n, n)

    # RFC 3339, ISO 8601

    def date(self):
        return f"{self.random.choice([1, 4, 100, 400, 1900, 2000, 2023, 2024, 9999]):04}-{self.random.randint(1, 12):02}-{self.random.randint(1, 31):02}"

    def time(self):
        return (f"{self.random.randint(0, 23):02}:{self.random.randint(0, 59):02}:{self.random.randint(0, 59):02}"
                + self.maybe(lambda: "." + self.letters("0123456789", 1, 9))
                + self.one("Z", "z", f"{self.one('+', '-')}{self.random.randint(0, 23):02}:{self.random.randint(0, 59):02}"))

    def date_time(self):
        return self.date() + self.one("T", "t") + self.time()

    def duration(self):
        def parts(units):
            return "".join(str(self.random.choice([0, 1, 7, 36, 2024, 0.5])) + unit for unit in units if self.random.randrange(2))
        clock = parts("HMS")
        return self.one("", "-") + "P" + self.one(parts("YMD"), parts("W")) + ("T" + clock if clock else "")

    # RFC 3986, 3987

    def unreserved(self):
        return self.random.choice("azAZ09-._~" + self.more)

    def char(self, extra=""):
        return self.one(self.unreserved, self.unreserved, lambda: self.random.choice("!$&'()*+,;=" + extra),
                        lambda: "%" + self.letters("0123456789abcdefABCDEF", 2, 2))

    def h16(self):
        return self.letters("0123456789abcdefABCDEF", 1, 4)

    def ipv4(self):
        return ".".join(str(self.random.choice([0, 9, 10, 99, 100, 199, 200, 249, 250, 255])) for _ in range(4))

    def ipv6(self):
        n = self.random.randint(0, 7)
        groups = [self.h16() for _ in range(self.random.choice([n, 8]))]
        if len(groups) >= 2 and self.random.randrange(3) == 0:
            groups[-2:] = [self.ipv4()]
        size = sum(2 if "." in group else 1 for group in groups)
        at = self.random.randint(0, len(groups) - (1 if groups and "." in groups[-1] else 0))
        return ":".join(groups) if size == 8 else ":".join(groups[:at]) + "::" + ":".join(groups[at:])

    def authority(self):
        host = self.one(self.ipv4, lambda: f"[{self.ipv6()}]", lambda: f"[v{self.h16()}.{self.some(self.unreserved_ascii, 1)}:]",
                        lambda: self.some(self.char), lambda: self.some(self.char))
        return self.maybe(lambda: self.some(lambda: self.char(":")) + "@") + host + self.maybe(lambda: ":" + self.letters("0123456789", 0, 5))

    def unreserved_ascii(self):
        return self.random.choice("azAZ09-._~!$&'()*+,;=")

    def segments(self):
        return self.some(lambda: "/" + self.some(lambda: self.char(":@")))

    def tail(self):
        return (self.maybe(lambda: "?" + self.some(lambda: self.char(":@/?" + self.private)))
                + self.maybe(lambda: "#" + self.some(lambda: self.char(":@/?"))))

    def rooted(self):
        return "/" + self.maybe(lambda: self.some(lambda: self.char(":@"), 1) + self.segments())

    def network(self):
        return "//" + self.authority() + self.segments()

    def uri(self):
        scheme = self.letters("azAZ", 1, 1) + self.letters("azAZ09+-.", 0, 4)
        return scheme + ":" + self.one(self.network, self.rooted, lambda: self.some(lambda: self.char(":@"), 1) + self.segments(), "") + self.tail()

    def reference(self):
        return self.one(self.uri, lambda: self.one(self.network, self.rooted, "", lambda: self.some(lambda: self.char("@"), 1) + self.segments())
                        + self.tail())

    # RFC 6570, 6901, 4122, 1123, 5321

    def variable(self):
        name = self.letters("azAZ09_", 1, 1) + self.some(lambda: self.one("", ".") + self.one("a", "Z", "_", "%4F"))
        return name + self.one("", "*", ":1", ":999")

    def template(self):
        return self.some(lambda: self.one("a", "/", "'", "ü", "%41", "?", lambda: "{" + self.one("", *"+#./;?&")
                                          + ",".join(self.variable() for _ in range(self.random.randint(1, 3))) + "}"))

    def pointer(self):
        return self.some(lambda: "/" + self.some(lambda: self.one("a", "0", "~0", "~1", "ü", " ", "-", "\\", "\n")))

    def relative_pointer(self):
        return self.one("0", "1", "10", "27") + self.one("#", self.pointer)

    def uuid(self):
        digits = self.letters("0123456789abcdefABCDEF", 32, 32)
        return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])

    def label(self):
        return self.letters("azAZ09", 1, 1) + self.maybe(lambda: self.letters("azAZ09-", 0, 8) + self.letters("azAZ09", 1, 1))

    def host(self):
        return ".".join(self.label() for _ in range(self.random.randint(1, 8)))

    def email(self):
        return ".".join(self.letters("azAZ09!#$%&'*+/=?^_`{|}~-", 1, 12) for _ in range(self.random.randint(1, 4))) + "@" + self.host()

    def idn_host(self):
        words = ["bücher", "straße", "例え", "日本語", "почта", "рф", "ελλάδα", "हिन्दी", "ไทย", "שלום", "مثال", "한국어", "ışık", "łódź", "tiếng-việt"]
        return ".".join(self.one(*words, re.sub("-+", "-", self.label())) for _ in range(self.random.randint(1, 4)))

    def text(self, name):
        wide = name.startswith("iri")
        self.more = "\xa0\ud7ff\uf900\ufdcf\ufdf0\uffef\U00010000\U0001fffd\U000e1000\U000efffdü字" if wide else ""
        self.private = "\ue000\uf8ff\U000f0000\U0010fffd" if wide else ""
        make = {"date-time": self.date_time, "iri": self.uri, "uri-reference": self.reference, "iri-reference": self.reference,
                "uri-template": self.template, "json-pointer": self.pointer, "relative-json-pointer": self.relative_pointer, "hostname": self.host,
                "idn-hostname": self.idn_host, "idn-email": lambda: self.one("用户", "a.é", "x") + "@" + self.idn_host()}
        return make.get(name) or getattr(self, name)

    def damaged(self, text, wide):
        """The text with one to three characters left out, put in or changed."""
        alphabet = "azAZ059-._~:/?#[]@!$&'()*+,;=%{}|\\^<>\"` TtZz"
        if wide:
            alphabet += "\x9f\xa0\ue000\uf8ff\ufdd0\ufdef\ufff0\ufffd\U0001fffe\U000e0000\U0010fffdüٱ\u0301\u3002ßA١"
        for _ in range(self.random.randint(1, 3)):
            at, kind = self.random.randint(0, len(text)), self.random.randrange(3)
            text = text[:at] + (self.random.choice(alphabet) if kind else "") + text[at + (kind < 2):]
        return text


def checks(name, text):
    """As the RFCs have it: the checker fails with IndexError on some durations, and takes 1.2.3.04
    within brackets as an address of version 6."""
    if re.search(r"\[(?![vV])[^]]*([:.]0\d+\.|\.0\d+\])", text):
        return False
    try:
        return CHECKER.conforms(text, name)
    except (IndexError, ArithmeticError):
        return False


def judge(walk, name, texts):
    answer, = walk([{"kind": "json", "text": json.dumps({"type": "string", "format": name}), "walks": 0, "seed": 1,
                     "instances": [json.dumps(text, ensure_ascii=False) for text in texts]}])
    return answer["accepted"]


@pytest.mark.parametrize("name", EXACT + NARROWER)
def test_lists_are_judged_right(walk, name):
    good, wrong = ORDINARY[name], WRONG[name]
    assert [text for text in good if not checks(name, text)] == [] and [text for text in wrong if checks(name, text)] == []
    assert [text for text, accepted in zip(good, judge(walk, name, good)) if not accepted] == []
    assert [text for text, accepted in zip(wrong, judge(walk, name, wrong)) if accepted] == []


@pytest.mark.parametrize("name", EXACT + NARROWER)
def test_made_texts_are_judged_as_the_checker_does(walk, is_full, name):
    seed = random.randrange(1 << 32) if is_full else 20261128
    print(f"seed {seed}")
    maker = Maker(seed)
    made = [maker.text(name)() for _ in range(5000 if is_full else 500)]
    damaged = [maker.damaged(text, name.startswith("i") and name[:2] != "ip") for text in made]
    n_valid = 0
    for text, accepted in zip(made, judge(walk, name, made)):
        assert accepted == checks(name, text), text
        n_valid += accepted
    for text, accepted in zip(damaged, judge(walk, name, damaged)):
        assert checks(name, text) if accepted else name in NARROWER or not checks(name, text), (text, accepted)
    assert n_valid > len(made) / 3


@pytest.mark.parametrize("name", EXACT + NARROWER)
@pytest.mark.parametrize("bounds", [{}, {"maxLength": 60}], ids=["alone", "with a length"])
def test_written_texts_are_valid(walk, is_full, name, bounds):
    answer, = walk([{"kind": "json", "text": json.dumps({"type": "string", "format": name} | bounds), "walks": 300 if is_full else 60,
                     "seed": 7, "tokens": 80}])
    texts = [json.loads(text) for text in answer["texts"]]
    assert [text for text in texts if not checks(name, text)] == [] and len(texts) > answer["unfinished"]
