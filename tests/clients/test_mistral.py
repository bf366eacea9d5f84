"""Mistral's client against /v1/ocr, over scripted answers and with the demo model."""

import base64
import sys

import pytest
from conftest import REPOSITORY
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from server_process import ServerProcess, check_output

sys.path.insert(0, str(REPOSITORY / "tests" / "cli"))
import pdf_files  # noqa: E402

LAYOUT = ("<|box_start|>100 100 900 200<|box_end|><|ref_start|>title<|ref_end|><|rotate_up|>\n"
          "<|box_start|>100 300 400 600<|box_end|><|ref_start|>image<|ref_end|><|rotate_up|>\n")


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers-of-mineru")
    (folder / "1036x1036").write_text(LAYOUT)
    (folder / "other").write_text("A title")
    process = ServerProcess([str(REPOSITORY / "build/release/tests/omma_fake_server"), "--port", "0", "--served-model-name", "mineru",
                             "--model", str(folder)])
    yield process
    process.stop()
    check_output(process)


def client_of(server):
    return Mistral(api_key="none", server_url=f"http://127.0.0.1:{server.port}")


def document(n):
    return {"type": "document_url", "document_url": "data:application/pdf;base64," + base64.b64encode(pdf_files.pages(n)).decode()}


def test_pages_and_images(scripted):
    with client_of(scripted) as client:
        reply = client.ocr.process(model="mineru", document=document(3), include_image_base64=True, pages=[0, 2])
    assert [page.index for page in reply.pages] == [0, 2] and reply.usage_info.pages_processed == 2 and reply.model == "mineru"
    for index, page in enumerate(reply.pages):
        image = page.images[0]
        assert page.markdown == f"# A title\n\n![{image.id}]({image.id})" and image.id == f"img-{index}.jpeg"
        assert base64.b64decode(image.image_base64.split(",", 1)[1])[:2] == b"\xff\xd8" and image.top_left_x < image.bottom_right_x
        assert (page.dimensions.dpi, page.dimensions.width) == (200, 556)
        assert [block.type for block in page.blocks] == ["title", "image"] and page.blocks[1].image_id == image.id


def test_an_image_by_its_url(server, image):
    with client_of(server) as client:
        url = "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()
        reply = client.ocr.process(model="demo", document={"type": "image_url", "image_url": url})
    assert len(reply.pages) == 1 and reply.pages[0].markdown


def test_refusals(scripted):
    with client_of(scripted) as client:
        with pytest.raises(SDKError, match="keeps no files"):
            client.ocr.process(model="mineru", document={"type": "file", "file_id": "a"})
        with pytest.raises(SDKError, match="document has pages 0 to 0"):
            client.ocr.process(model="mineru", document=document(1), pages=[4])
