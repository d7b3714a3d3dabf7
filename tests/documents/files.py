"""Small files of each kind, made on the spot."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def make_pdf(pages: Sequence[str | bytes], *, title: str = "", password: str | None = None) -> bytes:
    """Each page's lines, or its content stream, in Helvetica. `password` "" encrypts what any reader may open."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(612, 792)
        font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
        named = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
        fonts = DictionaryObject({NameObject("/F1"): named})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        content = DecodedStreamObject()
        content.set_data(text if isinstance(text, bytes) else _shown(text) if text else b"")
        page[NameObject("/Contents")] = writer._add_object(content)
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, "owner", algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _shown(text: str) -> bytes:
    lines = (line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in text.split("\n"))
    return b"BT /F1 12 Tf 14 TL 72 720 Td " + b" ".join(f"({line}) Tj T*".encode("cp1252") for line in lines) + b" ET"


def make_zip(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()
