"""Records of an index and of searching in it: documents, chunks, hits, and labels grouped by drug."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from fdarx_core.records.labels import Product

DAILYMED_LABEL = "https://dailymed.nlm.nih.gov/dailymed/drugInfo.cfm?setid={}"
"""The address of the current version of a label on DailyMed, by set id."""
UPLOADS = "uploads"
"""The folder of uploaded files within that of an index. Ids of uploaded documents are `uploads/CLIENT/ID`, so that they
are never those of other documents, or of another client's."""
ANONYMOUS = "(anonymous)"
"""The client of uploads to a service that needs no keys; no key can have this name."""


def uploader_of(document_id: str) -> str:
    """Return the client that uploaded the document with an id, "" where nobody did."""
    folder, _, rest = document_id.partition("/")
    return rest.partition("/")[0] if folder == UPLOADS else ""


@dataclass(slots=True)
class Document:
    """One text to index. `source` names the file, and the member within an archive.

    If the text came in pieces that are chunked separately, `breaks` are the characters at which the second and later
    pieces begin. `pages` are the characters at which the pages of a PDF begin, in order.
    """

    id: str
    title: str
    source: str
    text: str
    breaks: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)


@dataclass(slots=True)
class LabelVersion:
    """What SPL says of the label version that a passage is from.

    `moieties` and `uniis` are the active moieties of its drug and their UNIIs, aligned. The other fields are those of
    `Label`; `document_type` is a LOINC code.
    """

    version: int = 0
    effective_date: str = ""
    document_type: str = ""
    labeler: str = ""
    moieties: list[str] = field(default_factory=list)
    uniis: list[str] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    marketing_categories: list[str] = field(default_factory=list)
    document_type_name: str = ""


_NO_LABEL = LabelVersion()


@dataclass(slots=True)
class Chunk:
    """A piece of a document in an index.

    `id` is a hash of document, position and text; `position` counts from 0 within the document; `start` is the
    character of the document at which the text begins. A passage of a label has its section path in `section`, the set
    id of the label in `set_id` and `document_id`, the name of the drug in `drug` and `title`, and the `start` -1. A
    chunk of another document has "" in `section`, `set_id` and `drug`. `section_code` is the LOINC code of the section
    (`Passage.core_code`), `section_number` its printed number. `table_header` has the caption and headings of the table
    within which the chunk begins (`Passage.table_header`). `label` is the label's version, None for another document;
    an index stores it with the first chunk of a label, and gives it with each. A chunk of a PDF begins on the page
    `page`, counted from 1, and the next pages begin at the characters `page_breaks` of its text; `page` is 0 without
    pages. A document that a client has uploaded has the `document_id` `uploads/CLIENT/ID`, and so has the `set_id` of
    an uploaded label, where ID is the set id that the file states; `source` is `uploads/CLIENT/FILE`.
    """

    id: str
    document_id: str
    title: str
    source: str
    section: str
    text: str
    position: int
    start: int = -1
    set_id: str = ""
    drug: str = ""
    section_code: str = ""
    label: LabelVersion | None = None
    page: int = 0
    page_breaks: list[int] = field(default_factory=list)
    section_number: str = ""
    table_header: str = ""

    @property
    def uploaded_by(self) -> str:
        """The name of the key that uploaded the document, or `ANONYMOUS`; "" for a document that nobody uploaded."""
        return uploader_of(self.document_id)

    def page_at(self, character: int) -> int:
        """Return the page of a character of the text, counted from 1; 0 for a document without pages."""
        return self.page and self.page + bisect_right(self.page_breaks, character)


@dataclass(slots=True)
class OtherLabel:
    """Another label, with the date of its version in ISO 8601."""

    set_id: str
    drug: str
    effective_date: str


@dataclass(slots=True)
class OtherSentence(OtherLabel):
    """The sentence of another label of the same drug."""

    sentence: str


@dataclass(slots=True)
class NumberDifference:
    """A sentence of a passage that other labels of the drug have with other numbers, newest label first."""

    sentence: str
    others: list[OtherSentence]


@dataclass(slots=True)
class AbsentDrug:
    """A medicine that a text names and that no label of an index is of.

    `name` is as the text has it, `medicine` the name of its substance; `nearest` are names of drugs in the index that
    are spelt alike. `mentions` labels have the name in their texts; `mentioned_by` are a few of them. `alone` says that
    the text names no drug that a label is of.
    """

    name: str
    medicine: str
    nearest: list[str] = field(default_factory=list)
    mentions: int = 0
    mentioned_by: list[OtherLabel] = field(default_factory=list)
    alone: bool = True


@dataclass(slots=True)
class SearchHit:
    """A chunk that was found for a question.

    `score` is that of the retriever; `search` is the number of the query that found it; `rerank` is the score of the
    post-processing, None if there was none. Other labels of the drug may have nearly the same passage: `copies` is
    their number, `copied_by` has a few of them, and `differences` the sentences in which their numbers are not those of
    this chunk. `named` is the name that the query has for the drug, "" where it names none.
    """

    chunk: Chunk
    score: float
    search: int = 0
    rerank: float | None = None
    named: str = ""
    copies: int = 0
    copied_by: list[OtherLabel] = field(default_factory=list)
    differences: list[NumberDifference] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.chunk.text

    @property
    def title(self) -> str:
        return self.chunk.title

    @property
    def section(self) -> str:
        return self.chunk.section

    @property
    def set_id(self) -> str:
        """The set id of the label, "" for another document."""
        return self.chunk.set_id

    @property
    def drug(self) -> str:
        """The drug of the label, "" for another document."""
        return self.chunk.drug

    @property
    def section_code(self) -> str:
        """The LOINC code of the label's section, "" for another document."""
        return self.chunk.section_code

    @property
    def label(self) -> LabelVersion:
        """What SPL says of the label's version; empty for another document."""
        return self.chunk.label or _NO_LABEL

    @property
    def moieties(self) -> list[str]:
        """The active moieties of the label's drug, none for another document."""
        return self.label.moieties

    @property
    def effective_date(self) -> str:
        """The date of the label's version in ISO 8601, "" for another document."""
        return self.label.effective_date

    @property
    def uploaded_by(self) -> str:
        """The name of the key that uploaded the document, or `ANONYMOUS`; "" for a document that nobody uploaded."""
        return self.chunk.uploaded_by

    @property
    def url(self) -> str:
        """The address of the label on DailyMed, "" for an uploaded label and for another document."""
        return DAILYMED_LABEL.format(self.set_id) if self.set_id and not self.uploaded_by else ""
