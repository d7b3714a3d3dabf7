"""The steps from a question to its contexts: rewrite the question, search, post-process.

The service, the RAG evaluation and `fdarx_core.Index` retrieve with these functions. Source: QA-RAG.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fdarx_core.labels.drugs import Drug, Mention, drug_of
from fdarx_core.llm import ModelConfig, Task, Unparsable
from fdarx_core.llm.failures import all_done
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.comparison import (
    GROUPED_CONTEXTS,
    ComparedDrug,
    compared_drugs,
    grouped_contexts,
    grouped_drugs,
    shared_contexts,
)
from fdarx_core.rag.query import TURNS, RagQuery, Turn
from fdarx_core.rag.search import RagBackend, SearchQuery, TaskCall, pool_candidates
from fdarx_core.rag.strategies import ALL_STRATEGIES, Strategy
from fdarx_core.rag.tasks import QUESTION_SCOPE, SCORE_CHUNK, STANDALONE_QUESTION
from fdarx_core.records import AbsentDrug, Response, SearchHit
from fdarx_core.telemetry import span

PHASES = ("rewrite", "search", "postprocess")
_CHARACTERS_PER_TOKEN = 4
_PROMPT_TOKENS = 2_000
"""An upper bound for instructions, examples and the question."""
_LEAST_BUDGET = 1_000
_TURN_CHARACTERS = 1_000
"""How much of each earlier question and answer is read."""


@dataclass(slots=True)
class RetrievalResult:
    """The result of retrieval for a question.

    Attributes:
        question: the question as it is understood without the history.
        searches: the queries.
        candidates: the pooled hits.
        contexts: the hits that the answering model is shown.
        prompt_contexts: the contexts as the prompt has them, see `number_contexts`.
        missing: what a step had to do without, and why, a line each.
        seconds: the time of each phase: rewrite, search, postprocess.
        corrections: the misspelt names of drugs in the question, each with the name that is searched for.
        absent: the medicines that the question names and that no label of the index is of.
        rewritten: the responses of the models that wrote queries.
        scored: the responses of the scoring agent.
        drugs: the drugs that the question names; none where the filter chooses the labels.
        compared: the drugs that the question names with their contexts, if there are several; if it asks which labels
            say something, all drugs that were found.
        asks_for_labels: whether the question asks which labels say something.
        version: the version of the index, where the backend has named it.
    """

    question: str
    searches: list[SearchQuery]
    candidates: list[SearchHit]
    contexts: list[SearchHit]
    prompt_contexts: list[dict[str, Any]]
    missing: list[str]
    seconds: dict[str, float]
    corrections: list[tuple[str, str]] = field(default_factory=list)
    rewritten: list[Response] = field(default_factory=list)
    scored: list[Response] = field(default_factory=list)
    drugs: list[Drug] = field(default_factory=list)
    absent: list[AbsentDrug] = field(default_factory=list)
    compared: list[ComparedDrug] = field(default_factory=list)
    asks_for_labels: bool = False
    version: str = ""


async def retrieve_contexts(query: RagQuery, backend: RagBackend) -> RetrievalResult:
    """Retrieve the contexts for a question. Raises what the backend raises.

    A question that names medicines of which the index has no label, and no others, has no contexts: passages of other
    drugs' labels would answer another question. If a model finds that the question asks which labels say something, the
    best passages of each drug are found.
    """
    start = time.monotonic()
    question, responses, missing = await _standalone_question(query.question, query.history, backend)
    seconds = time.monotonic() - start
    result = await _retrieve(replace(query, question=question), backend)
    result.missing[:0] = missing
    result.rewritten[:0] = responses
    result.seconds["rewrite"] += seconds
    return result


async def _standalone_question(
    question: str, history: Sequence[Turn], backend: RagBackend
) -> tuple[str, list[Response], list[str]]:
    """Rewrite a question so that it can be searched with and answered without the earlier turns.

    Without a model, and where it has no usable reply, the question stays as it is; the last list says why.
    """
    turns = [Turn(turn.question[:_TURN_CHARACTERS], turn.answer[:_TURN_CHARACTERS]) for turn in history[-TURNS:]]
    if not turns or backend.answerer == BASELINE:
        return question, [], []
    texts = [text for turn in turns for text in turn] + [question]
    found = await backend.find_drugs(texts) or [[] for _ in texts]
    # a misspelt name is given as labels write it
    names = [
        [
            {
                "text": mention.text if mention.exact else mention.name,
                "start": mention.start,
                "end": mention.end,
                "drug": " + ".join(mention.moieties),
            }
            for mention in mentions
        ]
        for mentions in found
    ]
    earlier = [
        {**turn._asdict(), "names": asked, "answer_names": answered}
        for turn, asked, answered in zip(turns, names[::2], names[1::2], strict=False)
    ]
    slots = {"history": earlier, "question": question, "names": names[-1]}
    [response] = await backend.ask("rewriter", [(STANDALONE_QUESTION, slots)])
    missing = list[str]()
    reply = _parse(STANDALONE_QUESTION, response, missing)
    return question if reply is None else reply.question, [response], missing


async def _retrieve(query: RagQuery, backend: RagBackend) -> RetrievalResult:
    """Retrieve the contexts for a question that stands alone."""
    question, candidates = query.question, max(query.candidates, query.k)
    times = [time.monotonic()]
    mentions, absent = None, list[AbsentDrug]()
    if not (query.filter.any_drug or query.filter.chooses_labels):
        found, absent = await all_done([backend.find_drugs([question]), backend.absent_drugs(question)])
        mentions = found and found[0]
    # of drugs that the index has no label of alone: nothing is searched, and nothing is written to search with
    names_only = any(drug.alone for drug in absent)
    strategy = ALL_STRATEGIES["question" if names_only else query.strategy]
    scopes, (rewritten, replies, missing) = await all_done(
        [_ask_scope(question, mentions, absent, backend), _write_queries(question, strategy, backend)]
    )
    drugs = list(dict.fromkeys(drug for mention in mentions or () for drug in mention.drugs))
    scope_replies = [_parse(QUESTION_SCOPE, response, []) for response in scopes]
    if any(reply is not None and reply.scope == "several" for reply in scope_replies):
        result = await _of_each_drug(query, drugs, absent, backend, times)
        result.rewritten = [*scopes, *rewritten]
        return result
    searches = strategy.searches(question, replies, candidates)
    times.append(time.monotonic())
    # deeper than each share: hits that several queries find fill one place, and each query continues down its list
    depth = candidates + query.k
    with span("search", {"fdarx.queries": len(searches)}):
        hits = [[] for _ in searches] if names_only else await backend.search(searches, query.filter, depth)
    pooled = pool_candidates(hits, [search.share for search in searches])
    times.append(time.monotonic())
    ordered, scored = await _postprocess(query, pooled, backend, missing)
    asked = list(dict.fromkeys(hit.named for found in hits for hit in found if hit.named))
    contexts = shared_contexts(ordered, asked, query.k)
    times.append(time.monotonic())
    shown, prompt = _fitting(contexts, backend)
    return RetrievalResult(
        question,
        searches,
        pooled,
        shown,
        prompt,
        missing,
        {phase: end - start for phase, start, end in zip(PHASES, times, times[1:], strict=False)},
        corrections=[(mention.text, mention.name) for mention in mentions or () if not mention.exact],
        rewritten=[*scopes, *rewritten],
        scored=scored,
        drugs=drugs,
        absent=absent,
        compared=compared_drugs(shown, asked),
    )


def _fitting(contexts: list[SearchHit], backend: RagBackend) -> tuple[list[SearchHit], list[dict[str, Any]]]:
    """Return the contexts that the answering model can be shown, and how the prompt has them."""
    prompt = number_contexts(contexts)
    if backend.max_context_characters is not None:
        prompt = fit_contexts(prompt, backend.max_context_characters)
    return contexts[: len(prompt)], prompt


async def _ask_scope(
    question: str, mentions: Sequence[Mention] | None, absent: Sequence[AbsentDrug], backend: RagBackend
) -> list[Response]:
    """Ask the answering model whether the answer is a list of drugs that the question does not name.

    Nothing is asked without a model, of a question that names several drugs, and where `mentions` are None, since the
    filter chooses labels or the index has none.
    """
    if mentions is None or len({mention.drugs for mention in mentions}) > 1 or backend.answerer == BASELINE:
        return []
    names = [*(mention.text for mention in mentions), *(drug.name for drug in absent)]
    return await backend.ask("answerer", [(QUESTION_SCOPE, {"question": question, "names": names})])


async def _of_each_drug(
    query: RagQuery, named: Sequence[Drug], absent: list[AbsentDrug], backend: RagBackend, times: list[float]
) -> RetrievalResult:
    """Return the result for a question that asks which labels say something: the best passages of each drug in turn.

    The labels of the drugs that the question names are left out: it asks for what other labels say of these.
    """
    start, searching = times[0], time.monotonic()
    searches = [SearchQuery(query.question, GROUPED_CONTEXTS, is_question=True)]
    with span("search", {"fdarx.queries": 1}):
        [hits] = await backend.search(searches, replace(query.filter, each_drug=True), 2 * GROUPED_CONTEXTS)
    hits = [hit for hit in hits if not any(drug.keys & drug_of(*hit.label.products).keys for drug in named)]
    shown, prompt = _fitting(grouped_contexts(hits), backend)
    seconds = {"rewrite": searching - start, "search": time.monotonic() - searching, "postprocess": 0.0}
    result = RetrievalResult(query.question, searches, hits, shown, prompt, [], seconds, absent=absent)
    result.compared, result.asks_for_labels = grouped_drugs(shown), True
    return result


def absent_text(absent: Sequence[AbsentDrug]) -> str:
    """Return the sentences that say which medicines have no label in the index, and what comes near them."""
    sentences: list[str] = []
    for drug in absent:
        also = f" ({drug.medicine})" if drug.medicine.casefold() != drug.name.casefold() else ""
        sentences.append(f"No label of {drug.name}{also} is in this index.")
        if drug.nearest:
            sentences.append(f"Names spelt like it: {', '.join(drug.nearest)}.")
        if drug.mentions:
            labels = ", ".join(f"{label.drug} ({label.effective_date})" for label in drug.mentioned_by)
            among = f", {drug.mentions} in all" if drug.mentions > len(drug.mentioned_by) else ""
            sentences.append(f"Labels of other drugs mention it{among}: {labels}.")
    return " ".join(sentences)


def number_contexts(hits: Sequence[SearchHit]) -> list[dict[str, Any]]:
    """Return the contexts for a prompt, numbered from 1 for citations: {n, title, section, text}.

    Passages of labels also have {section_code, moieties, labeler, effective_date, version}. Those of uploads have
    {uploaded_by}, and so does their title; they do not have labeler, date and version, so that no model takes them for
    the latest label.
    """
    return [{"n": number, **_fields(hit), **_origin(hit)} for number, hit in enumerate(hits, 1)]


def fit_contexts(contexts: Sequence[Mapping[str, Any]], budget_chars: int) -> list[dict[str, Any]]:
    """Return the first contexts whose titles, sections and texts have at most `budget_chars` characters together.

    Whole contexts are dropped from the end; the first one always stays, its text cut before a word if necessary.
    """
    kept = list[dict[str, Any]]()
    for context in contexts:
        budget_chars -= len(context["title"]) + len(context["section"]) + len(context["text"])
        if budget_chars < 0 and kept:
            break
        kept.append(dict(context))
        if budget_chars < 0:
            kept[0]["text"] = _cut(context["text"], max(0, len(context["text"]) + budget_chars))
            break
    return kept


def context_budget(model: ModelConfig | None) -> int | None:
    """Return how many characters of contexts fit beside prompt and reply; None where the context length is unknown."""
    if model is None or model.context_length is None:
        return None
    return max(_LEAST_BUDGET, _CHARACTERS_PER_TOKEN * (model.context_length - model.max_tokens - _PROMPT_TOKENS))


def _cut(text: str, length: int) -> str:
    """Cut a text to at most `length` characters, between words unless it has only one."""
    if length >= len(text) or text[length].isspace():
        return text[:length].rstrip()
    whole = text[:length].rsplit(None, 1)[0] if " " in text[:length].strip() else text[:length]
    return whole.rstrip()


def order_by_score(hits: Sequence[SearchHit], scores: Sequence[float | None]) -> list[SearchHit]:
    """Return the hits by score, ties in the given order; each has its score in `rerank`.

    Hits without a score (None or NaN) come last. Raises ValueError where hits and scores differ in number.
    """
    valid = (None if score is None or math.isnan(score) else float(score) for score in scores)
    scored = [replace(hit, rerank=score) for hit, score in zip(hits, valid, strict=True)]
    return sorted(scored, key=lambda hit: (hit.rerank is None, -(hit.rerank or 0.0)))


def score_calls(question: str, candidates: Sequence[SearchHit]) -> list[TaskCall]:
    """Return the calls of the scoring agent, one for each candidate."""
    return [(SCORE_CHUNK, {"question": question, **_fields(hit)}) for hit in candidates]


def read_score(response: Response, missing: list[str]) -> float | None:
    """Return the score from 1 to 10 in a reply of SCORE_CHUNK; where there is none, add a line to `missing`."""
    reply = _parse(SCORE_CHUNK, response, missing)
    return None if reply is None else float(reply.score)


def _parse(task: Task[Any], response: Response, missing: list[str]) -> Any:
    """Return the parsed reply; None for one that cannot be parsed, which adds a line to `missing`."""
    try:
        return task.parse(response)
    except Unparsable as error:
        missing.append(f"{task.name}: {error.reason}: {error.detail}")
        return None


def _fields(hit: SearchHit) -> dict[str, str]:
    return {"title": hit.chunk.title, "section": hit.chunk.section, "text": hit.chunk.text}


def _origin(hit: SearchHit) -> dict[str, Any]:
    """Return what the prompt says of the label of a hit, and of the client that uploaded it."""
    found, label = dict[str, Any](), hit.chunk.label
    if label is not None:
        found |= {"section_code": hit.section_code, "moieties": label.moieties}
    if hit.uploaded_by:
        return found | {"title": f"{hit.title} (uploaded by {hit.uploaded_by})", "uploaded_by": hit.uploaded_by}
    if label is not None:
        found |= {"labeler": label.labeler, "effective_date": label.effective_date, "version": label.version}
    return found


async def _write_queries(
    question: str, strategy: Strategy, backend: RagBackend
) -> tuple[list[Response], list[Any], list[str]]:
    """Ask for texts to search with; a reply that cannot be parsed is None, and adds a line to the last list."""
    calls = strategy.calls(question)
    if not calls:
        return [], [], []
    with span("rewrite", {"fdarx.strategy": strategy.name}):
        responses = await backend.ask(strategy.role, calls)
    missing = list[str]()
    replies = [_parse(task, response, missing) for (task, _), response in zip(calls, responses, strict=True)]
    return responses, replies, missing


async def _postprocess(
    query: RagQuery, candidates: list[SearchHit], backend: RagBackend, missing: list[str]
) -> tuple[list[SearchHit], list[Response]]:
    """Return all candidates, best first, and the responses of the scoring agent."""
    if query.postprocess == "none" or not candidates:
        return candidates, []
    if query.postprocess == "rerank":
        with span("rerank", {"fdarx.candidates": len(candidates)}):
            scores: Sequence[float | None] = await backend.rerank(
                query.question, [hit.chunk.text for hit in candidates]
            )
        return order_by_score(candidates, scores), []
    with span("score", {"fdarx.candidates": len(candidates)}):
        responses = await backend.ask("scorer", score_calls(query.question, candidates))
    scores = [read_score(response, missing) for response in responses]
    return order_by_score(candidates, scores), responses
