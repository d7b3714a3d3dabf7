"""Small files that keep their parser busy."""

from __future__ import annotations

import io

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def slow_pdf(operators: int, pages: int = 1) -> bytes:
    """A PDF whose pages share one content stream, which packs well and takes long to read."""
    writer = PdfWriter()
    content = DecodedStreamObject()
    content.set_data(b"BT /F1 12 Tf " + b"1 0 0 1 72 720 Tm (a) Tj " * operators + b"ET")
    stream = writer._add_object(content.flate_encode())
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    resources = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
    for _ in range(pages):
        page = writer.add_blank_page(612, 792)
        page[NameObject("/Contents")] = stream
        page[NameObject("/Resources")] = resources
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()
