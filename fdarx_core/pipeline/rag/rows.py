"""One answer as a row, and what the judge says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fdarx_core.llm import TRANSIENT
from fdarx_core.pipeline.rag.tools import JobTools
from fdarx_core.pipeline.rag.what import Way
from fdarx_core.rag.flow import Finding, RagReply
from fdarx_core.rag.judging import context_asks
from fdarx_core.rag.judging import judged as with_verdicts
from fdarx_core.rag.metrics import token_f1
from fdarx_core.rag.titles import title_rank
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, Response


def answer_row(
    question: RagQuestion,
    way: Way,
    model: str,
    finding: Finding,
    reply: RagReply,
    tools: JobTools,
    cost: Callable[[Response], float],
) -> RagAnswer:
    """Its times are those of the models and of the work itself, without waiting; what a step asks goes out together."""
    asked = [*finding.rewritten, *finding.scored, *([reply.response] if reply.response else [])]
    return RagAnswer(
        question_id=question.id,
        strategy=way.strategy,
        postprocess=way.postprocess,
        model=model,
        searches=[search.text for search in finding.searches],
        candidates=[one.chunk.id for one in finding.candidates],
        candidate_titles=[one.chunk.title for one in finding.candidates],
        contexts=[one.chunk.id for one in finding.contexts],
        context_texts=[one.chunk.text for one in finding.contexts],
        answer=reply.read.text,
        citations=reply.read.citations,
        outcome="failed" if reply.reason else "refused" if reply.read.refused else "answered",
        reason="; ".join(filter(None, [reply.reason, *finding.missing])),
        requests=len(asked),
        prompt_tokens=sum(one.prompt_tokens for one in asked),
        completion_tokens=sum(one.completion_tokens for one in asked),
        cost=sum(map(cost, asked)),
        rewrite_s=_longest(finding.rewritten),
        search_s=tools.search_s,
        postprocess_s=tools.rerank_s + _longest(finding.scored),
        answer_s=reply.response.latency_s if reply.response else 0.0,
    )


async def judged(question: RagQuestion, row: RagAnswer, tools: JobTools) -> RagScore:
    """The row's measures, but for those that need a local model (`similarity`)."""
    score = RagScore(row.question_id, question.cluster, row.strategy, row.postprocess, row.model)
    score.title_rank = title_rank(row.candidate_titles, question.title)
    if row.outcome != "failed":
        score.token_f1 = token_f1(row.answer, question.references)
    responses = await tools.ask("judge", context_asks(question, row.context_texts))
    return with_verdicts(score, question, row.context_texts, responses)


def failed_for_now(row: RagAnswer, score: RagScore) -> bool:
    """Whether something failed that asking again may cure."""
    return any(TRANSIENT in reason for reason in (row.reason, *score.unscored))


def _longest(responses: Iterable[Response]) -> float:
    return max((response.latency_s for response in responses), default=0.0)
