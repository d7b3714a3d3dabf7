"""Pydantic models of requests, and of replies for the OpenAPI document."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from fdarx_core.rag.comparison import AnswerColumn, AnswerGroup
from fdarx_core.rag.gate import GateReport
from fdarx_core.rag.query import TURNS
from fdarx_core.rag.section_differences import SectionDifference
from fdarx_core.records import AnswerStatement, Chunk, NumberDifference, OtherLabel
from fdarx_core.retrieval.index import ChunkFilter, FilterValue, NameCompletion
from fdarx_core.specs.serve import MAX_CANDIDATES, MAX_CONTEXTS
from serving.http.backend import ServedCorpus

MAX_TURNS = 50
"""The most earlier turns in a request."""
LONGEST_TURN = 20_000
"""Characters of the longest question or answer of an earlier turn."""
UPLOADED_BY = (
    "The name of the key with which the document was uploaded, (anonymous) where the service needs none; empty for a"
    " document of the index that nobody uploaded. The set id of an uploaded label is uploads/KEY/SET_ID."
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff]")


def check_plain_text(text: str) -> str:
    """Return the text. Raises ValueError for control characters other than tabs and line ends, and for surrogates."""
    if found := _CONTROL.search(text):
        raise ValueError(f"it holds the control character U+{ord(found[0]):04X} at position {found.start()}")
    return text


def reply_fields(reply: type[BaseModel], *sources: object) -> dict[str, Any]:
    """Return the fields of a reply that some objects have, each from the first object that has it."""
    names = reply.model_fields
    return {name: getattr(source, name) for source in reversed(sources) for name in names if hasattr(source, name)}


PlainText = Annotated[str, AfterValidator(check_plain_text)]
ShortText = Annotated[str, Field(max_length=500), AfterValidator(check_plain_text)]


class SearchFilter(BaseModel):
    """Restricts the search. Each field that is set narrows it; the case of names is ignored.

    GET /v1/names (the MCP tool list_names) lists drugs and titles, GET /v1/filters the values of section, document_type
    and labeler.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    drug: ShortText = Field("", description="A name of a drug: brand, generic, substance or moiety.")
    set_id: ShortText = Field("", description="The set id of a label.")
    title: ShortText = Field("", description="The whole title of a document.")
    any_drug: bool = Field(
        False,
        description="Search all labels even if the question names drugs; otherwise only the labels of these drugs.",
    )
    section: ShortText = Field("", description="The LOINC code of a section of labels, such as 34070-3.")
    labeler: ShortText = Field("", description="The whole name of a labeler.")
    document_type: ShortText = Field("", description="The LOINC code of a type of labels, such as 34391-3.")
    date_from: ShortText = Field("", description="The first effective date of a label's version, as YYYY-MM-DD.")
    date_to: ShortText = Field("", description="The last effective date, as YYYY-MM-DD.")

    @model_validator(mode="after")
    def _check_dates(self) -> SearchFilter:
        self.chunk_filter()
        return self

    def chunk_filter(self, exclude: tuple[str, ...] = ()) -> ChunkFilter:
        """Return the filter of the index. Raises ValueError for a wrong date."""
        fields: dict[str, Any] = {name: value.strip() if isinstance(value, str) else value for name, value in self}
        return ChunkFilter(exclude=exclude, **fields)


class SearchOptions(BaseModel):
    """How to search and answer. GET /v1/corpora returns the default values under `defaults`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    filter: SearchFilter | None = None
    exclude: list[ShortText] = Field(
        default_factory=list, max_length=100, description="Documents to leave out, by id, title or source."
    )
    strategy: ShortText | None = Field(None, description="How queries are made from the question.")
    postprocess: ShortText | None = Field(None, description="How k passages are selected from the candidates.")
    retriever: ShortText | None = Field(None, description="How queries and passages are compared.")
    k: int | None = Field(None, ge=1, le=MAX_CONTEXTS, description="Number of passages to return, and to answer from.")
    candidates: int | None = Field(
        None, ge=1, le=MAX_CANDIDATES, description="Number of passages retrieved before post-processing; at least k."
    )


class HistoryTurn(BaseModel):
    """An earlier question of a conversation with its answer."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: PlainText = Field(min_length=1, max_length=LONGEST_TURN)
    answer: Annotated[PlainText, Field(max_length=LONGEST_TURN)] = ""


class SearchRequest(SearchOptions):
    """A question to search a corpus with."""

    question: PlainText = Field(min_length=1, description="In plain words. Blank questions are rejected.")
    corpus: ShortText | None = Field(None, description="One of GET /v1/corpora; by default the first.")
    history: list[HistoryTurn] = Field(
        default_factory=list,
        max_length=MAX_TURNS,
        description=f"The earlier turns of the conversation, oldest first; the last {TURNS} are read. A model then "
        "rewrites the question so that it stands alone; without a model it is searched as it is.",
    )


class AnswerRequest(SearchRequest):
    """A question to be answered from a corpus."""

    stream: bool = Field(
        False,
        description="Answer as text/event-stream: `passages` (the reply so far), `delta` {text, statements} for each "
        "piece of the answer, `done` (the whole reply), or `error` if the answer can't be completed.",
    )


class CorrectionReply(BaseModel):
    """A misspelt name of a drug in the question, and the name that is searched for."""

    written: str
    name: str


class AbsentDrugReply(BaseModel):
    """A medicine that the question names and that no label of the index is of."""

    name: str = Field(description="Its name in the question.")
    medicine: str = Field(description="The name of its substance.")
    nearest: list[str] = Field(description="Names of drugs in the index that are spelt alike.")
    mentions: int = Field(description="The number of labels of other drugs whose texts have the name.")
    mentioned_by: list[OtherLabel] = Field(description="A few of them, the newest first.")


class RetrievedPassage(BaseModel):
    """A passage, numbered from 1 as citations do. `score` is the retriever's, `rerank` the post-processing's.

    The fields from `section_code` on are those of labels; other documents have empty values.
    """

    n: int
    chunk_id: str
    document_id: str
    title: str
    section: str
    text: str
    section_code: str = Field(description="The LOINC code of the section.")
    section_number: str = Field(description="The printed number of the section.")
    table_header: str = Field(description="Caption and headings of the table within which the passage begins.")
    set_id: str
    drug: str
    moieties: list[str] = Field(description="The active moieties of the label's drug.")
    labeler: str
    document_type: str = Field(description="The LOINC code of the label's type.")
    document_type_name: str
    version: int = Field(description="The number of the label's version.")
    effective_date: str = Field(description="The date of the label's version, in ISO 8601.")
    copies: int = Field(description="The number of other labels of the drug that have nearly the same passage.")
    copied_by: list[OtherLabel] = Field(description="A few of them, the newest first.")
    differences: list[NumberDifference] = Field(description="The sentences that they have with other numbers.")
    url: str = Field(description="The address of the label on DailyMed; empty for an uploaded label.")
    page: int = Field(description="The page of a PDF on which the passage begins, counted from 1; 0 without pages.")
    uploaded_by: str = Field(description=UPLOADED_BY)
    score: float
    rerank: float | None
    cited: bool


class UsedPrompt(BaseModel):
    """A prompt that a model was asked with."""

    name: str
    version: int
    model: str


class SearchReply(BaseModel):
    """The retrieved passages."""

    id: str
    question: str
    standalone_question: str = Field(description="What was searched and answered: the question without the history.")
    degraded: str | None = Field(description="The steps that failed, with the reason; null if none failed.")
    passages: list[RetrievedPassage]
    corrections: list[CorrectionReply] = Field(description="The names of drugs that were taken for misspelt.")
    absent: list[AbsentDrugReply] = Field(description="The drugs in the question that have no label in the index.")
    strategy: str
    retriever: str
    postprocess: str
    searches: list[str] = Field(description="The texts that were searched for.")
    timings_ms: dict[str, float] = Field(
        description="Milliseconds of each phase: rewrite, search, postprocess, answer, and total."
    )
    index: dict[str, str] = Field(description="The index that served the request: corpus and version.")
    prompts: list[UsedPrompt] = Field(description="The prompts of all models asked, each once.")
    usage: dict[str, int] = Field(description="prompt_tokens and completion_tokens of all models asked.")


class LocatedCitation(BaseModel):
    """A place in a passage that a statement of the answer rests on."""

    n: int = Field(description="The number of the passage.")
    title: str = Field(description="The title of its document.")
    section: str = Field(description="The titles of its section, from the top one down; empty where there is none.")
    start: int = Field(description="The character of the passage's text at which the place begins.")
    end: int = Field(description="The character of the passage's text at which it ends.")
    page: int = Field(description="The page of a PDF on which it begins, counted from 1; 0 without pages.")
    quote: str = Field(description="The text of the place, at most 400 characters; empty where no place was found.")
    uploaded_by: str = Field(description=UPLOADED_BY)
    statement_start: int = Field(description="The character of the answer at which the statement begins.")
    statement_end: int = Field(description="The character of the answer at which it ends, citations included.")
    verdict: Literal["supported", "unsupported", "undecided"] = Field(
        description="Whether the place was found to support the statement, or not, or this could not be decided."
    )
    differences: list[NumberDifference] = Field(
        description="Sentences of the place that other labels have with another number where the statement has one. The"
        " answer ends with these numbers."
    )


class AnswerReply(SearchReply):
    """An answer that cites passages as [n]. If the question is about several drugs, there is a paragraph for each,
    and one that compares them.

    Without a model, `model` is baseline, and `answer` says that it is none and quotes the passages.
    """

    answer: str = Field(description="Empty if the model could not be asked; `degraded` then gives the reason.")
    refused: bool = Field(description="Whether the model says that the passages do not answer the question.")
    withheld: bool = Field(
        description="Whether the model answered and no statement passed the check: `answer` says so, `gate.dropped` "
        "has the statements with the reasons."
    )
    statements: list[AnswerStatement] = Field(
        description="In the order of the answer's text. Text outside of them is of the service, such as the names of "
        "drugs above their paragraphs."
    )
    citations: list[LocatedCitation] = Field(description="In the order of the answer's text.")
    gate: GateReport
    columns: list[AnswerColumn] = Field(description="One for each drug if the question is about several, else none.")
    groups: list[AnswerGroup] = Field(
        description="The drugs of the answer to a question which labels say something, else none. A model decides what "
        "is such a question."
    )
    model: str
    signature: str = Field("", description="By it POST /v1/feedback knows the reply; empty if it takes no judgments.")


class CorporaReply(BaseModel):
    """All names that a request may use."""

    corpora: list[ServedCorpus]
    strategies: list[dict[str, str]] = Field(description="Name of each strategy, and its title in tables.")
    postprocessors: list[str]
    feedback: bool = Field(description="Whether POST /v1/feedback takes judgments of answers.")
    upload: list[str] = Field(
        description="The endings of files that POST /v1/documents takes with the key of this request; empty for none."
    )
    model: str = Field(description="The model that answers; baseline stands for none.")
    defaults: dict[str, Any]


class NamesReply(BaseModel):
    """Names of drugs as the filter `drug` takes them, or titles of documents."""

    names: list[NameCompletion] = Field(description="`stands_for` has the moieties that the name does not say.")


class FiltersReply(BaseModel):
    """The values of filters that labels of a corpus have, the most frequent first."""

    section: list[FilterValue]
    document_type: list[FilterValue]
    labeler: list[FilterValue]


class NeighborChunk(BaseModel):
    """A passage of the same section. `here` marks the passage that was asked for."""

    chunk_id: str
    title: str
    section: str
    text: str
    here: bool


class PassageReply(BaseModel):
    """A passage, and the passages around it in order. `source` is the name of a file."""

    chunk: Chunk
    uploaded_by: str = Field(description=UPLOADED_BY)
    around: list[NeighborChunk]


class SectionPassage(BaseModel):
    """A passage of a label's section."""

    chunk_id: str
    section: str
    section_code: str
    section_number: str
    text: str


class SectionReply(BaseModel):
    """A section of a label, with its subsections."""

    drug: str
    moieties: list[str] = Field(description="The active moieties of the label's drug.")
    labeler: str
    set_id: str
    version: int = Field(description="The number of the label's version.")
    effective_date: str = Field(description="The date of the label's version, in ISO 8601.")
    url: str = Field(description="The address of the label on DailyMed; empty for an uploaded label.")
    uploaded_by: str = Field(description=UPLOADED_BY)
    labels: int = Field(description="The number of labels of this drug; the newest that has the section was taken.")
    passages: list[SectionPassage] = Field(description="The text of the section, in order.")


class ComparisonReply(BaseModel):
    """The same section of two labels."""

    first: SectionReply
    second: SectionReply
    differences: list[SectionDifference] = Field(
        description="In order. Case, white space and the names of each label's own drug are no difference."
    )
