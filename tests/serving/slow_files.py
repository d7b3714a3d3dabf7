"""Small files that keep their parser busy, and the processes that read them."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path

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


def parsers_of(process: int) -> list[float]:
    """The seconds of CPU time of each process below another that reads files or waits for one."""
    found = []
    for child in Path("/proc").iterdir():
        with suppress(OSError):
            if child.name.isdigit() and b"parsing_process" in (child / "cmdline").read_bytes():
                _, parent, *others = (child / "stat").read_text().rpartition(")")[2].split()
                found += [int(others[9]) / os.sysconf("SC_CLK_TCK")] if int(parent) == process else []
    return found
