"""Records of answering with an index: questions, citations, answers and their scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from fdarx_core.records.search import NumberDifference, SearchHit


@dataclass(slots=True)
class Citation:
    """A place in a context that a statement of an answer rests on.

    `n` is the number of the context, from 1, and `hit` is the context; `start` and `end` are characters of its text, at
    most 400 of them; both are 0 where no place of the context was found. `statement` is the (start, end) of the
    sentence, list item or table row in the answer's text, its citations included. `verdict` is that on the statement:
    supported, or unsupported or undecided, which mean unverified. `differences` are the sentences of the place that
    other labels of the drug have with another number where the statement has the number.
    """

    n: int
    hit: SearchHit
    start: int
    end: int
    statement: tuple[int, int]
    verdict: Literal["supported", "unsupported", "undecided"]
    differences: list[NumberDifference] = field(default_factory=list)

    @property
    def quote(self) -> str:
        """The text of the place."""
        return self.hit.text[self.start : self.end]

    @property
    def page(self) -> int:
        """The page of a PDF on which the place begins, counted from 1; 0 for a document without pages."""
        return self.hit.chunk.page_at(self.start)

    @property
    def drug(self) -> str:
        """The drug of the label, "" for another document."""
        return self.hit.drug

    @property
    def uploaded_by(self) -> str:
        """The name of the key that uploaded the document, or `ANONYMOUS`; "" for a document that nobody uploaded."""
        return self.hit.uploaded_by

    @property
    def url(self) -> str:
        """The address of the label on DailyMed, "" for an uploaded label and for another document."""
        return self.hit.url


@dataclass(frozen=True, slots=True)
class AnswerStatement:
    """A statement of an answer with its verdict.

    Attributes:
        start, end: the characters of the answer's text at which the sentence, list item or table row begins and ends,
            its citations included.
        verdict: supported; unsupported, if the verifier found that its citations do not bear it out; undecided, if the
            verifier could not decide; uncited, if it has no citation; unchecked for a heading, lead-in or table header
            that a model wrote, which the gate does not check. All but supported mean unverified.
        citations: the numbers of the contexts that it cites, each once.
    """

    start: int
    end: int
    verdict: Literal["supported", "unsupported", "undecided", "uncited", "unchecked"]
    citations: list[int] = field(default_factory=list)

    def moved(self, characters: int) -> AnswerStatement:
        """Return the statement at a place that is so many characters further on."""
        return replace(self, start=self.start + characters, end=self.end + characters)


@dataclass(slots=True)
class RagQuestion:
    """A question on a corpus with its reference answers.

    `title` is that of the document with the answer, if known. `cluster` groups questions that are not independent, such
    as those on one document; the bootstrap draws clusters.
    """

    id: str
    question: str
    references: list[str]
    title: str = ""
    cluster: str = ""


@dataclass(slots=True)
class RagAnswer:
    """The answer of one strategy, post-processing and model to one question.

    `candidates` are the ids of the chunks before post-processing, `contexts` those in the prompt, in order; `citations`
    number them from 1. `unverified_starts` and `unverified_ends` are the places in the answer of the statements that
    the gate did not find supported. `outcome` is answered, refused or failed, with the `reason`. Times are in seconds,
    `cost` is in US dollars.
    """

    question_id: str
    strategy: str
    postprocess: str
    model: str
    searches: list[str] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    candidate_titles: list[str] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    context_texts: list[str] = field(default_factory=list)
    answer: str = ""
    citations: list[int] = field(default_factory=list)
    unverified_starts: list[int] = field(default_factory=list)
    unverified_ends: list[int] = field(default_factory=list)
    outcome: str = "answered"
    reason: str = ""
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    rewrite_s: float = 0.0
    search_s: float = 0.0
    postprocess_s: float = 0.0
    answer_s: float = 0.0


@dataclass(slots=True)
class RagScore:
    """The measures of one answer, None where they have no meaning or are missing; `unscored` says which and why.

    `useful` are the verdicts of the judge on the contexts, in order; `attributed` of the `statements` of the reference
    were found in them. `title_rank` is the rank of the first candidate of the right document, 0 if there is none.
    """

    question_id: str
    cluster: str
    strategy: str
    postprocess: str
    model: str
    useful: list[bool] = field(default_factory=list)
    statements: int = 0
    attributed: int = 0
    context_precision: float | None = None
    context_recall: float | None = None
    bert_precision: float | None = None
    bert_recall: float | None = None
    bert_f1: float | None = None
    embedding_similarity: float | None = None
    token_f1: float | None = None
    title_rank: int | None = None
    unscored: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TitleRank:
    """The rank of the first chunk of the right document for the original question, from 1; 0 if there is none.

    Source: QA-RAG §3.2 (each question was written on one guideline).
    """

    question_id: str
    cluster: str
    retriever: str
    rank: int


@dataclass(slots=True)
class RagUsage:
    """Requests, tokens, cost and times of the answers of one strategy, post-processing and model.

    Requests, tokens and `cost` (US dollars) are sums over all answers. Medians and 95th percentiles are in seconds,
    over the answers that did not fail; None if all failed.
    """

    strategy: str
    postprocess: str
    model: str
    answered: int
    refused: int
    failed: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    rewrite_p50: float | None = None
    rewrite_p95: float | None = None
    search_p50: float | None = None
    search_p95: float | None = None
    postprocess_p50: float | None = None
    postprocess_p95: float | None = None
    answer_p50: float | None = None
    answer_p95: float | None = None
    total_p50: float | None = None
    total_p95: float | None = None
