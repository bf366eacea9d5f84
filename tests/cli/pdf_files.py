"""PDF files, good ones and hostile ones, as bytes."""

import zlib

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def stream(data, head=b""):
    return b"<< /Length %d %s>>\nstream\n%s\nendstream" % (len(data), head, data)


def join(objects, trailer=b""):
    """A file of these objects, numbered from 1; the first is the catalog."""
    out, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1, table, len(objects) + 1, trailer, len(out))


def pages(n, side=200, font=FONT, catalog=b"", resources=b"", content=None, trailer=b"", more=()):
    """n square pages of `side` points with their numbers on them."""
    first = 4 + len(more)
    kids = b" ".join(b"%d 0 R" % (first + 2 * i) for i in range(n))
    objects = [b"<< /Type /Catalog /Pages 2 0 R %s>>" % catalog, b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, n), font, *more]
    for i in range(n):
        text = content or b"BT /F1 24 Tf 40 100 Td (Page %d) Tj ET" % (i + 1)
        objects += [b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> %s>> >>"
                    % (side, side, first + 2 * i + 1, resources), stream(text)]
    return join(objects, trailer)


def encrypted():
    """Under a password that nobody knows."""
    return pages(1, trailer=b"/ID [<00><00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >> " % (b"5a" * 32, b"a5" * 32))


def calling_itself():
    """A form that draws itself, and a tree of pages that holds itself."""
    form = stream(b"/X Do", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 4 0 R >> >> ")
    return pages(1, resources=b"/XObject << /X 4 0 R >> ", content=b"/X Do", more=(form,))


def tree_of_itself():
    return join([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"])


def image_of(side):
    """An image of side x side grey pixels in one page; each byte of the file is many of them."""
    packer, row, parts = zlib.compressobj(1), bytes(side), []
    for _ in range(side):
        parts.append(packer.compress(row))
    parts.append(packer.flush())
    image = stream(b"".join(parts), b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
                                    b"/Filter /FlateDecode " % (side, side))
    return pages(1, resources=b"/XObject << /X 4 0 R >> ", content=b"200 0 0 200 0 0 cm /X Do", more=(image,))


def script():
    return pages(1, catalog=b"/OpenAction << /S /JavaScript /JS (while (true) app.alert\\(1\\);) >> ")


def without_fonts():
    return pages(1, font=b"<< /Type /Font /Subtype /TrueType /BaseFont /NoSuchFontAnywhere >>")
