"""docs/security.md says what is true: every row of its tables of limits is looked up here, compared
with the program's defaults, and where it can be reached on one machine, tried at its edge. What was
measured is printed."""

import pathlib
import re
import resource
import select
import socket
import subprocess

import pytest

from images import image_part, png, text_part, video_part
from server_process import read_all, read_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
MIB = 1 << 20
UNITS = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30, "K": 1 << 10, "M": MIB, "G": 1 << 30}


def table(heading):
    """The rows of the first table below a heading, as lists of cells."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def number(text):
    """The first number of a cell, in bytes where it has a unit."""
    digits, unit = re.search(r"([\d,]+(?:\.\d+)?) ?([KMG]i?B?\b)?", text).groups()
    return float(digits.replace(",", "")) * UNITS.get(unit, 1)


LIMITS = {row[0]: row for row in table("What is bounded, and by what")}


def limit(words):
    """The default of the row of that name, or of the one that begins so."""
    (row,) = [LIMITS[words]] if words in LIMITS else [row for what, row in LIMITS.items() if what.startswith(words)]
    return row[2]


# Rows whose default the help of `omma serve` states, with the number there; the page may say more.
IN_HELP = {
    "open connections": "max-connections", "requests that wait for the engine": "max-queued-bytes", "the time for a head": "head-timeout",
    "a body, in bytes": "max-body-bytes", "the time for a body": "body-timeout", "a body's speed": "min-body-rate",
    "an open connection without a request": "idle-timeout", "an answer that a client reads": "idle-timeout", "images; videos": "limit-mm-per-prompt",
    "compiling the form of an answer": "max-grammar-seconds", "memory of all compiled forms": "max-grammar-bytes",
    "documents of `/v1/ocr`": "max-documents", "pages of such a request": "max-document-pages", "pixels of a page": "max-page-pixels",
    "new requests after SIGTERM": "shutdown-delay", "running requests after SIGTERM": "shutdown-timeout"}
SETTINGS = "src/server/core/server_settings.c"
# Rows without an option: where the number stands in the sources. Masks: milliseconds, 10 ns a step.
IN_SOURCES = {
    "masks of one step of the engine": ("src/engine/mask_worker.h", "OMMAI_MASK_STEP_WORK", 1e-5),
    "a process that renders a page": ("src/server/api/ocr.c", "RENDER_BYTES", 1 << 30),
    "the reply about a document": ("src/server/api/ocr.c", "MAX_REPLY_BYTES", MIB),
    "images fetched by http(s)": ("src/server/server.c", "DEFAULT_IMAGE_BYTES", MIB),
    "streamed events that a client does not read": (SETTINGS, "max-pending-bytes", 1),
    "those that all clients do not read": (SETTINGS, "max-total-pending-bytes", 1),
    "inputs of a request for vectors": ("src/server/api/vector_requests.h", "OMMAI_MAX_VECTOR_INPUTS", 1)}
# Every other number of the page: the words around it, where it stands in the sources or tests, and
# what one of the sources' unit is in the page's. The first group is the number.
NUMBERS = [
    (r"at less than (1 KiB) a second", SETTINGS, r"min_body_rate(?s:.){1,200}?initial = \"(\d+)K", 1 << 10),
    (r"over any (\d+) seconds", SETTINGS, r"body_rate_window_ns(?s:.){1,200}?initial = \"(\d+)", 1e-3),
    (r"(8) of the largest", "src/server/server.c", r"DEFAULT_BODIES (\d+)", 1),
    (r"and (32) more for health checks", "src/server/state/server_state.h", r"OMMAI_CHECK_CONNECTIONS (\d+)", 1),
    (r"of the query fewer than (128) bytes", "src/server/http/connection.h", r"OMMAI_QUERY_SIZE (\d+)", 1),
    (r"counted in steps of (10) ns", "include/omma/omma.h", r"steps of (10) ns", 1),
    (r"or (0\.2) ms; harder ones", "src/engine/mask_worker.h", r"MASK_SHORT_STEP_WORK INT64_C\((\d+)\)", 1e-5),
    (r"end their request after about (5) s", "src/engine/mask_worker.h", r"MASK_MAX_WORK INT64_C\((\d+)\)", 1e-8),
    (r"64 MiB each, (10) s for all of a request", SETTINGS, r"media_timeout_ms(?s:.){1,200}?initial = \"(\d+)", 1e-3),
    (r"of address space; (60) s", "src/server/api/ocr.c", r"RENDER_SECONDS (\d+)", 1),
    (r"whole replies of more than (64 KiB)", "src/server/http/http_call.c", r"FAIR_PENDING_BYTES \(\(size_t\)(\d+) << 10", 1024),
    (r"a request is cancelled that has more than (64 KiB) of them", "src/server/http/http_call.c",
     r"FAIR_PENDING_BYTES \(\(size_t\)(\d+) << 10", 1024),
    (r"bodies of more than (64 KiB), or images", "src/server/http/http_front.c", r"LARGE_BODY_BYTES \(\(size_t\)(\d+) << 10", 1024),
    (r"; (64) of them are with the engine at a time", "src/server/http/http_call.h", r"OMMAI_MAX_ENGINE_REQUESTS (\d+)", 1),
    (r"at a time, (32) where there are images", "src/server/api/vector_answer.c", r"MAX_OPEN_WITH_MEDIA (\d+)", 1),
    (r"than the server itself needs \((129)\)", "src/cli/serve/serve_settings.c", r"OTHER_FILES (\d+)", 129 / 128),
    (r"with a body of (64 KiB) at most", "src/server/http/connection.c", r"SMALL_BODY_BYTES \((\d+) << 10", 1024),
    (r"compares the (512) that were opened last", "src/server/http/connection.c", r"MAX_COMPARED (\d+)", 1),
    (r"fetched or read: (256 MiB) for each of", "src/server/api/chat_media.c", r"MAX_FILE_BYTES \(INT64_C\((\d+)\) << 20", MIB),
    (r"later requests, which give way \| ([\d,]+ MiB)", "src/cli/serve/serving.c", r"MAX_RESIZED_BYTES \(\(int64_t\)(\d+) << 30", 1 << 30),
    (r"mixed requests from (\d+) clients", "tests/server/test_soak.py", r"CONCURRENCY = (\d+)", 1),
    (r"memory by at most 1 % \((2 MiB)", "tests/server/test_soak.py", r"SLACK = (\d+) << 20", MIB),
    (r"\| (100) requests \| 1,000", "tests/server/test_soak.py", r"FEW, MANY = (\d+)", 2),
    (r"\| 100 requests \| (1,000),", "tests/server/test_soak.py", r"FEW, MANY = \d+, (\d+)", 2),
    (r"\| (33) directories", "tests/cli/test_mutated_checkpoints.py", r"FEW, MANY = (\d+)", 1),
    (r"\| (2,000) of both", "tests/cli/test_mutated_checkpoints.py", r"FEW, MANY = \d+, (\d+)", 1),
    (r"\| (8) places of each kind", "tests/server/test_failed_calls.py", r"FEW, MANY = (\d+)", 8 / 6),
    (r"(6) of them in requests", "tests/server/test_failed_calls.py", r"FEW, MANY = (\d+)", 1),
    (r"\| (333) \|", "tests/server/test_failed_calls.py", r"FEW, MANY = \d+, (\d+)", 333 / 250),
    (r"\| (100) images at once", "tests/server/test_image_flood.py", r"N_IMAGES, N_DAMAGED, BUDGET = (\d+)", 1),
    (r"room for (4), and", "tests/server/test_image_flood.py", r"BUDGET = \d+, \d+, (\d+)", 1),
    (r"and (10) damaged ones", "tests/server/test_image_flood.py", r"BUDGET = \d+, (\d+)", 1),
    (r"\| (16) places", "tests/cli/test_failed_calls.py", r'"chat": (\d+)', 1),
    (r"\| (1,200) \|", "tests/cli/test_failed_calls.py", r"\}, (\d+)", 1)]
# Numbers that are no limits: names, versions, statuses (their tests are in the page's list), and
# what the tests of this file compute or try.
NAMES = [r"IPv[46]", r"`/v1/ocr`", r"/64\b", r"HTTP/1\.[1x]", r"HTTP 1\.1", r"x86-64", r"Debian 12", r"BLAKE2b", r"256-bit", r"base64", r"openat2", r"kernels before 5\.6",
         r"FORTIFY_SOURCE=2", r"vLLM [\d.]+", r"2\^64", r"%00", r"`(?:44, 44|-5|\+44)`", r"\b0\.9\b", r"\b1\.0\b(?=[ ;] ?refuses|;| refuses)", r"`--[^`]*`",
         r"\((?:\d{3}(?:, )?)+\)", r"status(?:es)? (?:code )?(?:of )?\d{3}", r"get (?:status )?\d{3}", r"from [\d.]+ GiB to [\d.]+"]
FLOWING = " ".join(PAGE.split())


@pytest.fixture(scope="module")
def help_text(omma):
    text = subprocess.run([omma, "serve", "--help"], capture_output=True, text=True, timeout=60).stdout
    return re.sub(r"\s+", " ", text)


@pytest.mark.real_only
def test_defaults_are_those_of_the_program(help_text, kind):
    for words, option in IN_HELP.items():
        (what,) = [what for what in LIMITS if what.startswith(words) and (what == words or words not in LIMITS)]
        said = default_of(help_text, option)
        print(f"{what}: {LIMITS[what][2]}; the program: {said}")
        assert f"--{option}`" in LIMITS[what][1] and number(LIMITS[what][2]) == number(said), what
    said = default_of(help_text, "max-total-body-bytes")
    print(f"all bodies: {limit('all bodies being received')}; the program: {said}")
    assert number(limit("all bodies being received")) == number(said)


def default_of(help_text, option):
    own = re.search(rf" --{option} [A-Z]+ (.*?)(?= --[a-z-]+ [A-Z]|$)", help_text).group(1)
    return re.search(r"default: ([^)]*)", own).group(1)


@pytest.mark.parametrize("words", IN_SOURCES)
def test_constants_are_those_of_the_sources(words):
    file, name, unit = IN_SOURCES[words]
    text = (ROOT / file).read_text()
    if file == SETTINGS:
        found = number(re.search(rf'"{name}",(?s:.)*?initial = "(\d+[KMG]?)"', text).group(1))
    else:
        value = re.search(rf"#define {name} (?:\(?INT64_C\((\d+)\)|(\d+))", text)
        found = int(value.group(1) or value.group(2)) * unit
    print(f"{words}: {limit(words)}; {name}: {found}")
    assert number(limit(words)) == found


def test_every_row_is_tried_or_compared():
    here = pathlib.Path(__file__).read_text()
    others = {"requests that wait, for a worker", "images; videos", "an image's area", "prompt and answer", "all bodies", "open connections of one client", "JSON of a request",
              "a head, in bytes", "workers that read bodies"}
    for what in LIMITS:
        known = [words for words in [*IN_HELP, *IN_SOURCES, *others] if what.startswith(words)]
        assert known and known[0] in here, what


@pytest.mark.parametrize("words, file, constant, unit", NUMBERS, ids=[words for words, *_ in NUMBERS])
def test_numbers_of_the_prose(words, file, constant, unit):
    (said,) = re.findall(words, FLOWING)
    (found,) = set(re.findall(rf"(?m)^.*{constant}", (ROOT / file).read_text()))
    print(f"{words}: {said}; {file}: {int(found) * unit}")
    assert number(said) == pytest.approx(int(found) * unit)


def test_every_number_has_its_test():
    """Of the page without what is tried, compared or a name no digit is left. Of a row of the
    limits the first number counts, unless all of it is tried."""
    left = list(FLOWING)

    def cross_out(begin, end):
        left[begin:end] = " " * (end - begin)

    for what, row in LIMITS.items():
        begin = FLOWING.index(" | ".join(row))
        end = begin + len(" | ".join(row))
        if not what.startswith(("JSON of a request", "images; videos", "all bodies being received")):
            begin, end = (end - len(row[2]) + at for at in re.search(r"[\d,.]*\d|$", row[2]).span())
        cross_out(begin, end)
    for row in table("The worst memory by default"):
        begin = FLOWING.index(" | ".join(row))
        cross_out(begin, begin + len(" | ".join(row)))
    for words in [*(words for words, *_ in NUMBERS), *NAMES]:
        for found in re.finditer(words, FLOWING):
            cross_out(*found.span())
    places = [at for at, letter in enumerate(left) if letter.isdigit()]
    assert not places, "\n".join(FLOWING[max(0, at - 60):at + 30] for at in places)


def test_a_quarter_of_a_second_is_young():
    assert "In the first quarter of a second" in FLOWING
    assert "#define YOUNG_NS (SECOND_NS / 4)" in (ROOT / "src/server/http/connection.c").read_text()


@pytest.mark.real_only
def test_rows_of_the_worst_memory(help_text, kind):
    """Each from the limits that it names."""
    def row(words):
        (bytes_,) = [bytes_ for what, bytes_ in WORST.items() if what.startswith(words)]
        return bytes_

    connections = number(limit("open connections"))
    assert row("connections") == (connections + 32) * number(limit("a head, in bytes"))
    assert row("bodies") == 2 * number(limit("all bodies being received")[len("8 of the largest: "):])
    for words, option, more in [("decoding of images", "max-decode-bytes", 0), ("encoded images", "encoder-cache-bytes", 0),
                                ("compiled forms", "max-grammar-bytes", 128 * MIB)]:
        assert row(words) == number(default_of(help_text, option)) + more, words
    assert row("streams and replies") == number(limit("those that all clients do not read")) + connections * 65536
    assert row("requests that wait") == number(limit("requests that wait for the engine")) + connections * 16384
    assert row("image files") == 2 * 256 * MIB
    small = {option: number(size) for option, size in re.findall(r"--(\S+) (\d+M?)\b", FLOWING.split("choose smaller limits")[1].split("reduce")[0])}
    reduced = ((small["max-connections"] + 32) * number(limit("a head, in bytes")) + 2 * small["max-total-body-bytes"] + small["max-decode-bytes"]
               + small["encoder-cache-bytes"] + number(limit("those that all clients do not read")) + small["max-connections"] * 65536
               + small["max-queued-bytes"] + small["max-connections"] * 16384)
    before = sum(map(row, ("connections", "bodies", "decoding", "encoded", "streams", "requests that wait")))
    print(f"the small machine: {before / (1 << 30):.2f} GiB to {reduced / (1 << 30):.2f}")
    assert f"from {before / (1 << 30):.1f} GiB to {reduced / (1 << 30):.1f}." in FLOWING


def test_open_connections(server):
    """All of one client here: its share is what counts, whatever it opens."""
    all_of, share = number(limit("open connections")), 0.75
    opened = []
    poller, limits = select.poll(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        for _ in range(int(all_of) + 100):
            connection = socket.create_connection(("127.0.0.1", server.port), 30)
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n")
            opened.append(connection)
            poller.register(connection, select.POLLIN)
        assert server.get("/health").status == 200
        closed = poller.poll(2000)
        alive = len(opened) - len(closed)
        print(f"{alive} of {len(opened)} connections are open; the page: {all_of:.0f} and 32")
        assert alive <= all_of + 32
        assert "three quarters" in limit("open connections of one client") and share == 0.75
    finally:
        for connection in opened:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert server.get("/health").status == 200


def test_bytes_of_a_head(server):
    most = int(number(limit("a head, in bytes")))
    statuses = {}
    for size in (most // 2, most, 2 * most):
        with server.connect() as connection:
            try:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"x" * size + b"\r\n\r\n")
            except OSError:
                pass
            statuses[size] = int((read_all(connection) or b"- 431").split(b" ")[1]) if size > most // 2 else \
                int(read_until(connection, b"\r\n\r\n").split(b" ")[1])
    print(f"heads by bytes: {statuses}")
    assert list(statuses.values()) == [200, 431, 431]


def test_bytes_of_a_body(server):
    most = int(number(limit("a body, in bytes")))
    for size, expected in ((most, b"HTTP/1.1 100 "), (most + 1, b"HTTP/1.1 413 ")):
        with server.connect() as connection:
            connection.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                               b"Content-Length: %d\r\n\r\n" % size)
            said = read_until(connection, b"\r\n\r\n")
        print(f"a body of {size} bytes: {said[:30]}")
        assert said.startswith(expected), said


def test_values_and_levels_of_json(server):
    values, levels = (int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", limit("JSON of a request")))
    most = values - 3  # the object, its field and the array count too, or nearly
    for n, good in ((most, True), (values + 1, False)):
        reply = server.post("/detokenize", b'{"tokens":[' + b"0," * (n - 1) + b'"x"]}', timeout=120)
        print(f"JSON of {n} values: {reply.error['message'][:80]}")
        assert reply.status == 400 and ("token id" in reply.error["message"]) == good
    for n, good in ((levels - 1, True), (levels, False)):
        reply = server.post("/tokenize", '{"prompt":' + "[" * n + "]" * n + "}")
        print(f"JSON of {n + 1} levels: {reply.error['message'][:80]}")
        assert reply.status == 400 and ("must be a string" in reply.error["message"]) == good


def test_images_and_videos_of_a_request(server):
    images, videos = (int(n) for n in re.findall(r"\d+", limit("images; videos")))
    for part, most in ((image_part(), images), (video_part([png()]), videos)):
        reply = server.chat([part] * (most + 1) + [text_part("a")], max_tokens=1)
        print(f"{most + 1} of them: {reply.error['message']}")
        assert reply.status == 400 and f"At most {most} " in reply.error["message"]


def peak(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) << 10


WORST = {what: number(bytes_) for what, bytes_ in table("The worst memory by default")}


def test_memory_of_a_body_and_its_json(start):
    """The worst that one worker can be made to hold: as many values and bytes as there may be."""
    server = start()
    (json_bytes,) = [bytes_ for what, bytes_ in WORST.items() if what.startswith("JSON: 3 workers")]
    (body_bytes,) = [bytes_ for what, bytes_ in WORST.items() if what.startswith("bodies: 512 MiB")]
    if "libasan" in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text():
        pytest.skip("with a sanitizer's own memory around each value")
    before = peak(server)
    fill = "x" * 48
    body = "{" + ",".join(f'"{i:07x}":"{fill}"' for i in range(MIB - 2)) + "}"
    assert 60 * MIB < len(body) <= 64 * MIB
    assert server.post("/tokenize", body, timeout=120).status == 400
    used = peak(server) - before
    print(f"a body of {len(body) / MIB:.0f} MiB and its JSON: {used / MIB:.0f} MiB")
    assert used <= json_bytes / 3 + body_bytes / 8


def test_the_sum_of_the_worst_memory():
    rows = {what: bytes_ for what, bytes_ in WORST.items() if "together" not in what}
    together = sum(rows.values()) / (1 << 30)
    (said,) = [bytes_ for what, bytes_ in WORST.items() if "together" in what]
    print(f"together {together:.2f} GiB; the page: {said / (1 << 30)} GiB")
    assert round(together, 1) == said / (1 << 30)
    (connections,) = [what for what in rows if what.startswith("connections: ")]
    assert connections.startswith(f"connections: {number(limit('open connections')) + 32:.0f} of {number(limit('a head')) / 1024:.0f} KiB")
