"""Verification by a language model, which is asked about a statement and all its texts at once. Source: FAS §3.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from fdarx_core.llm import Model, Note, Reply, Task, Undecided, Unparsable
from fdarx_core.records import Response
from fdarx_core.verify.engine import THRESHOLD, Inference, Judgement, TextPair, Unjudged
from fdarx_core.verify.exact import ENGINE
from fdarx_core.verify.numbers import check_numbers

Verdict = Literal["supported", "contradicted", "neutral"]


class PassageVerdict(Reply):
    """On the passage of this number, counted from 1."""

    passage: int
    reason: Note
    verdict: Verdict


class JudgeClaimReply(Reply):
    """One verdict for each passage."""

    verdicts: Annotated[list[PassageVerdict], Field(max_length=500)]


def by_rules(slots: Mapping[str, Any]) -> JudgeClaimReply:
    """Return the baseline's reply: the verdicts of exact matching. Raises Undecided where one is undecided."""
    pairs = [TextPair(str(text), str(slots["claim"]), str(slots["drug"])) for text in slots["passages"]]
    verdicts = []
    for number, one in enumerate(ENGINE.judge(pairs), 1):
        if not isinstance(one, Inference) or max(one.entailment, one.contradiction) < THRESHOLD:
            raise Undecided(f"passage {number}: {one.reason}")
        verdict: Verdict = "supported" if one.entailment >= THRESHOLD else "contradicted"
        verdicts.append(PassageVerdict(passage=number, reason=one.reason, verdict=verdict))
    return JudgeClaimReply(verdicts=verdicts)


JUDGE_CLAIM = Task.load("judge_claim", JudgeClaimReply, by_rules)


class LanguageModel:
    """A language model as an engine. Equal statements on the same drug share a request, which shows all their texts.

    A request without a usable reply leaves its pairs unjudged. Errors that stop the model, such as a wrong address or
    a budget that is spent, are raised as by `Model.ask`.
    """

    def __init__(self, model: Model) -> None:
        self._model, self.name = model, model.name

    def judge(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        """Return one judgement for each pair, in order."""
        texts: dict[tuple[str, str], dict[str, None]] = {}
        for pair in pairs:
            texts.setdefault((pair.hypothesis, pair.drug), {})[pair.premise] = None
        slots = [judge_asked(claim, list(passages), drug) for (claim, drug), passages in texts.items()]
        replies = self._model.ask_many(JUDGE_CLAIM, slots, return_exceptions=True)
        judged: dict[tuple[str, str, str], Judgement] = {}
        for (statement, passages), reply in zip(texts.items(), replies, strict=True):
            pairs_shown = [TextPair(text, *statement) for text in passages]
            found = _judgements(reply, pairs_shown)
            judged |= {(*statement, one.premise): verdict for one, verdict in zip(pairs_shown, found, strict=True)}
        return [judged[pair.hypothesis, pair.drug, pair.premise] for pair in pairs]


def _judgements(reply: JudgeClaimReply | Unparsable, pairs: Sequence[TextPair]) -> Sequence[Judgement]:
    try:
        if isinstance(reply, Unparsable):
            raise reply
        return _inferences(reply, pairs)
    except Unparsable as error:
        return [Unjudged(f"{error.reason}: {error.detail}")] * len(pairs)


def judge_asked(claim: str, passages: Sequence[str], drug: str = "") -> dict[str, Any]:
    """Return the task's slots: one request asks about a claim, as it reads by itself, with all its passages."""
    return {"claim": claim, "passages": list(passages), "drug": drug}


def read_judged(response: Response, pairs: Sequence[TextPair]) -> list[Judgement]:
    """Return the judge's inference on each pair, all of one claim, in the order in which their texts were shown.

    A verdict has probability 1 and rests on the whole text, unless `check_numbers` objects. Raises Unparsable as
    `Task.parse`, and with the reason wrong_passages where the reply leaves a passage out, judges one twice, or judges
    one that does not exist.
    """
    return _inferences(JUDGE_CLAIM.parse(response), pairs)


def _inferences(reply: JudgeClaimReply, pairs: Sequence[TextPair]) -> list[Judgement]:
    numbers = sorted(one.passage for one in reply.verdicts)
    if numbers != list(range(1, len(pairs) + 1)):
        raise Unparsable("wrong_passages", f"verdicts on {numbers}, due were 1 to {len(pairs)}")
    said = {one.passage: one for one in reply.verdicts}
    return [check_numbers(one, _certain(said[number], one.premise)) for number, one in enumerate(pairs, 1)]


def _certain(said: PassageVerdict, text: str) -> Inference:
    supported, neutral, contradicted = (float(said.verdict == one) for one in ("supported", "neutral", "contradicted"))
    return Inference(supported, neutral, contradicted, 0, len(text), said.reason)
