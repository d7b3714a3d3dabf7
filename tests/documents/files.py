"""Small files of each kind, made on the spot."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject, TextStringObject


def make_pdf(pages: Sequence[str | bytes], *, title: str = "", password: str | None = None) -> bytes:
    """Each page's lines, or its content stream, in Helvetica; F2 is a font for `glyphs`.

    `password` "" encrypts what any reader may open.
    """
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(612, 792)
        font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
        fonts = DictionaryObject({NameObject("/F1"): _dictionary(font), NameObject("/F2"): _composite_font(writer)})
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


def glyphs(text: str) -> str:
    """ASCII text as a string of the font F2: two bytes a glyph, as browsers and office programs write PDF files."""
    return "<" + "".join(f"{ord(letter) - _FIRST:04X}" for letter in text) + ">"


_FIRST = 29
"""What the number of a glyph of the font F2 is below the code of its character."""
_TO_UNICODE = f"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0003> <{0x7E - _FIRST:04X}> <{3 + _FIRST:04X}> endbfrange
endcmap end end"""


def _composite_font(writer: PdfWriter) -> DictionaryObject:
    map_ = DecodedStreamObject()
    map_.set_data(_TO_UNICODE.encode())
    system = {"/Registry": TextStringObject("Adobe"), "/Ordering": TextStringObject("Identity")}
    inner = _dictionary({"/Type": "/Font", "/Subtype": "/CIDFontType2", "/BaseFont": "/AAAAAA+Own"})
    inner[NameObject("/CIDSystemInfo")] = DictionaryObject(
        {**{NameObject(key): value for key, value in system.items()}, NameObject("/Supplement"): NumberObject(0)}
    )
    font = _dictionary({"/Type": "/Font", "/Subtype": "/Type0", "/BaseFont": "/AAAAAA+Own", "/Encoding": "/Identity-H"})
    font[NameObject("/DescendantFonts")] = ArrayObject([writer._add_object(inner)])
    font[NameObject("/ToUnicode")] = writer._add_object(map_)
    return font


def _dictionary(names: Mapping[str, str]) -> DictionaryObject:
    return DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})


def _shown(text: str) -> bytes:
    lines = (line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in text.split("\n"))
    return b"BT /F1 12 Tf 14 TL 72 720 Td " + b" ".join(f"({line}) Tj T*".encode("cp1252") for line in lines) + b" ET"


def make_zip(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()
