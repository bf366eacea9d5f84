"""mineru-vl-utils' client for MinerU2.5, unmodified: the same blocks over a recording server, whose
answers are kept by their images, and over `omma serve`'s endpoints with these answers; and the
program itself with a small checkpoint of that architecture, as a directory and as GGUF files."""

import asyncio
import http.server
import io
import json
import sys
import threading
import zlib
from base64 import b64decode

import mineru_vl_utils
import pytest
from conftest import REPOSITORY
from document_pages import answer, draw_page
from PIL import Image
from server_process import ServerProcess, check_output

CHECKPOINT = REPOSITORY / "tests" / "golden" / "qwen2_vl_tied"
N_PAGES = 50


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers as document_pages says, and writes each answer down under its image's CRC."""

    protocol_version = "HTTP/1.1"

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply({"object": "list", "data": [{"id": "recorded"}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (image, prompt) = request["messages"][-1]["content"]
        png = b64decode(image["image_url"]["url"].split(",")[1])
        text = answer(prompt["text"], Image.open(io.BytesIO(png)).tobytes())
        (self.server.folder / f"{zlib.crc32(png):08x}").write_text(text, encoding="utf-8", newline="")
        self.reply({"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})

    def log_message(self, *arguments):
        pass


class RecordingServer(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # a page's requests come at once


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The pages, their blocks over the recording server, and the folder of answers."""
    server = RecordingServer(("127.0.0.1", 0), Recorder)
    server.folder = tmp_path_factory.mktemp("answers")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = [draw_page(seed) for seed in range(N_PAGES)]
    client = make_client(server.server_port)
    blocks = [list(client.two_step_extract(page)) for page in pages]
    asyncio.run(client.aclose())
    server.shutdown()
    server.server_close()
    assert {block["type"] for page in blocks for block in page} >= {"text", "title", "table", "equation", "image", "list", "image_block"}
    assert {block["angle"] for page in blocks for block in page} == {None, 0, 90, 180, 270} and [] in blocks
    return pages, blocks, server.folder


def make_client(port, **options):
    return mineru_vl_utils.MinerUClient(backend="http-client", server_url=f"http://127.0.0.1:{port}", use_tqdm=False, max_retries=0, **options)


def run(command):
    process = ServerProcess([*map(str, command), "--port", "0"])
    yield process.port
    process.stop()
    check_output(process)


@pytest.fixture(scope="module")
def scripted(recorded, request):
    """The server with these answers for a model."""
    program = REPOSITORY / "build" / "release" / "tests" / "omma_fake_server"
    if not program.exists():
        pytest.skip("omma_fake_server is not built (make TESTS=ON release)")
    yield from run([program, "--served-model-name", "scripted", "--model", recorded[2]])


async def aio(method, *arguments):
    """A method of a client that is closed in the same loop."""
    try:
        return await method(*arguments)
    finally:
        await method.__self__.aclose()


def test_blocks_one_page_at_a_time(recorded, scripted):
    pages, blocks, _ = recorded
    client = make_client(scripted)
    assert [list(client.two_step_extract(page)) for page in pages] == blocks
    asyncio.run(client.aclose())


@pytest.mark.parametrize("form", ["batch_two_step_extract", "stepping_two_step_extract"])
def test_blocks_of_a_batch(recorded, scripted, form):
    client = make_client(scripted)
    assert list(map(list, getattr(client, form)(recorded[0]))) == recorded[1]
    asyncio.run(client.aclose())


def test_blocks_asynchronously(recorded, scripted):
    assert list(map(list, asyncio.run(aio(make_client(scripted).aio_batch_two_step_extract, recorded[0])))) == recorded[1]
    assert list(asyncio.run(aio(make_client(scripted).aio_two_step_extract, recorded[0][0]))) == recorded[1][0]


@pytest.fixture(scope="module")
def directory(request):
    yield from run([request.config.getoption("--omma"), "serve", CHECKPOINT, "--host", "127.0.0.1", "--dtype", "f32", "--max-model-len", "4096"])


@pytest.fixture(scope="module")
def pair(request, tmp_path_factory):
    sys.path.insert(0, str(REPOSITORY / "tests" / "cli"))
    from gguf_files import convert
    text, vision = convert(CHECKPOINT, tmp_path_factory.mktemp("gguf"), "F32")
    yield from run([request.config.getoption("--omma"), "serve", text, "--mmproj", vision, "--host", "127.0.0.1", "--dtype", "f32",
                    "--max-model-len", "4096"])


def test_a_checkpoint_of_this_architecture(directory, pair):
    """Untrained: it finds no blocks, and reads the same nonsense from both forms."""
    from mineru_vl_utils.mineru_client import DEFAULT_SAMPLING_PARAMS, MinerUSamplingParams
    short = {kind: MinerUSamplingParams(presence_penalty=each.presence_penalty, frequency_penalty=each.frequency_penalty, max_new_tokens=40)
             for kind, each in DEFAULT_SAMPLING_PARAMS.items()}
    pages = [draw_page(seed) for seed in range(3)]
    answers = []
    for port in (directory, pair):
        client = make_client(port, sampling_params=short)
        assert list(client.two_step_extract(pages[0])) == []
        assert list(map(list, client.batch_two_step_extract(pages))) == [[], [], []]
        answers.append([client.content_extract(page, kind) for page in pages for kind in ("text", "equation")])
        assert client.batch_content_extract(pages) == answers[-1][::2]
        asyncio.run(aio(client.aio_batch_two_step_extract, pages))
    assert answers[0] == answers[1] and all(answers[0])
