"""The answer without a model: the passages that were found, with the statements quoted that share most words with the
question. Nothing is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fdarx_core.baseline.label_statements import ITEM, parse_passage, quoted
from fdarx_core.rag.label_differences import with_differences
from fdarx_core.records import AnswerStatement, Citation, SearchHit
from fdarx_core.retrieval.lexical import InvertedIndex, bm25_index, tokenize
from fdarx_core.text.sentences import join_wrapped_lines, sentence_spans
from fdarx_core.text.stems import is_stop_word, stem

NOTHING_FOUND = "No passage has a word of the question."
"""What stands there without any passage."""
NO_MODEL = "No model is configured: these are passages, not an answer."
"""The first line of what stands in place of an answer."""
MOST_QUOTES = 3
"""Statements that are quoted."""
_ALSO = 0.5
"""The least score of a further statement, as a share of the best one's."""
_SHORTEST = 4
"""Words of the shortest statement that is quoted; shorter ones are mostly headings."""
_ENDS = (".", "!", ";", ":", ")")


_Candidate = tuple[int, int, int, str]
"""A statement: the number of its hit, its place in it, and its text with the headings above it."""


def quote_statements(question: str, hits: Sequence[SearchHit]) -> tuple[str, list[AnswerStatement], list[Citation]]:
    """Return the statements of some hits that share most words with a question.

    Statements are ranked by BM25 among all statements of the hits, each with the titles of its section and the headings
    above it, by the stems of the words of the question that are no stop words. Statements of an uploaded
    label come last if another hit is a label of the same drug.

    Returns:
        A text with one quotation a line, each followed by its citation; its statements; and its citations with their
        places. The text is "" where no statement shares a word with the question.
    """
    candidates = [candidate for number, hit in enumerate(hits, 1) for candidate in _candidates(number, hit)]
    words = [word for word in tokenize(question) if word.isdigit() or not is_stop_word(word)]
    index = InvertedIndex([_stems(tokenize(searched)) for *_, searched in candidates])
    # Lucene's idf, since that of rank-bm25 is 0 or less for half of few texts
    idf = np.log1p((index.size - index.frequencies + 0.5) / (index.frequencies + 0.5))
    scores = bm25_index(index, idf).scores([_stems(words)])[0]
    drugs = {name for hit in hits if hit.set_id and not hit.uploaded_by for name in (hit.drug, *hit.moieties)}
    drugs.discard("")
    beside = [bool(hit.set_id and hit.uploaded_by and {hit.drug, *hit.moieties} & drugs) for hit in hits]
    best = sorted(np.flatnonzero(scores > 0).tolist(), key=lambda at: (beside[candidates[at][0] - 1], -scores[at]))
    text, citations, seen = "", list[Citation](), set[str]()
    for at in best:
        number, first, last, _ = candidates[at]
        hit = hits[number - 1]
        quote = _one_line(_passage_text(hit)[first:last])
        if len(citations) == MOST_QUOTES or scores[at] < _ALSO * scores[best[0]]:
            break
        if quote in seen:
            continue
        seen.add(quote)
        text += "\n" if text else ""
        start = len(text)
        text += f"“{quote}” [{number}]"
        citations.append(Citation(number, hit, first, last, (start, len(text)), "supported"))
    statements = [AnswerStatement(*citation.statement, "supported", [citation.n]) for citation in citations]
    return text, statements, with_differences(text, citations)


def _stems(words: Sequence[str]) -> str:
    return " ".join(stem(word, "term") for word in words)


def _candidates(number: int, hit: SearchHit) -> Iterator[_Candidate]:
    if not hit.set_id:
        text = _passage_text(hit)
        for start, end in sentence_spans(text):
            sentence = text[start:end]
            if sentence.endswith(_ENDS) and len(tokenize(sentence)) >= _SHORTEST:
                yield number, start, end, f"{hit.title}\n{hit.section}\n{sentence}"
        return
    at = 0
    for statement in parse_passage(hit.text):
        start = hit.text.find(statement.text, at)
        if start < 0:
            continue
        at = end = start + len(statement.text)
        for item in statement.items:
            found = hit.text.find(item, end)
            end = found + len(item) if found >= 0 else end
        if len(tokenize(hit.text[start:end])) >= _SHORTEST:
            yield number, start, end, "\n".join((hit.section, *statement.heads, statement.text, *statement.items))


def _passage_text(hit: SearchHit) -> str:
    """Return the text in which statements are found; only documents have line ends inside sentences."""
    return hit.text if hit.set_id else join_wrapped_lines(hit.text)


def _one_line(text: str) -> str:
    """Return a quotation on one line, without bullets, and without numbers of footnotes, which would be citations."""
    marks = ((line, ITEM.match(line)) for line in text.split("\n"))
    first, *items = (quoted(line[mark.end() :] if mark else line) for line, mark in marks)
    return ": ".join(filter(None, (first, "; ".join(filter(None, items)))))
