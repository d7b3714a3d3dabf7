"""Verification by a language model, which is asked about a statement and all its texts at once. Source: FAS §3.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fdarx_core.llm import Model, Reply, Task, Unparsable
from fdarx_core.records import Response
from fdarx_core.verify.engine import THRESHOLD, Inference, Judgement, TextPair, Unjudged
from fdarx_core.verify.rules import ENGINES

Verdict = Literal["supported", "contradicted", "neutral"]


class PassageVerdict(Reply):
    """On the passage of this number, counted from 1."""

    passage: int
    reason: str
    verdict: Verdict


class JudgeClaimReply(Reply):
    """One verdict for each passage."""

    verdicts: list[PassageVerdict]


def by_rules(slots: Mapping[str, Any]) -> JudgeClaimReply:
    """Return the baseline's reply: the verdict whose probability by the engine `rules` reaches the threshold."""
    pairs = [TextPair(str(text), str(slots["claim"]), str(slots["drug"])) for text in slots["passages"]]
    found = enumerate(ENGINES["rules"].judge(pairs), 1)
    return JudgeClaimReply(verdicts=[_by_rules(number, one) for number, one in found if isinstance(one, Inference)])


def _by_rules(number: int, inference: Inference) -> PassageVerdict:
    verdict: Verdict = "neutral"
    if inference.entailment >= THRESHOLD:
        verdict = "supported"
    elif inference.contradiction >= THRESHOLD:
        verdict = "contradicted"
    return PassageVerdict(passage=number, reason=inference.reason, verdict=verdict)


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
            found = _judgements(reply, list(passages))
            judged |= {(*statement, text): one for text, one in zip(passages, found, strict=True)}
        return [judged[pair.hypothesis, pair.drug, pair.premise] for pair in pairs]


def _judgements(reply: JudgeClaimReply | Unparsable, passages: Sequence[str]) -> Sequence[Judgement]:
    try:
        if isinstance(reply, Unparsable):
            raise reply
        return _inferences(reply, passages)
    except Unparsable as error:
        return [Unjudged(f"{error.reason}: {error.detail}")] * len(passages)


def judge_asked(claim: str, passages: Sequence[str], drug: str = "") -> dict[str, Any]:
    """Return the task's slots: one request asks about a claim, as it reads by itself, with all its passages."""
    return {"claim": claim, "passages": list(passages), "drug": drug}


def read_judged(response: Response, passages: Sequence[str]) -> list[Inference]:
    """Return the judge's inference from each passage: 1 for its verdict, resting on the whole passage.

    Raises Unparsable as `Task.parse`, and with the reason wrong_passages where the reply leaves a passage out, judges
    one twice, or judges one that does not exist.
    """
    return _inferences(JUDGE_CLAIM.parse(response), passages)


def _inferences(reply: JudgeClaimReply, passages: Sequence[str]) -> list[Inference]:
    numbers = sorted(one.passage for one in reply.verdicts)
    if numbers != list(range(1, len(passages) + 1)):
        raise Unparsable("wrong_passages", f"verdicts on {numbers}, due were 1 to {len(passages)}")
    said = {one.passage: one for one in reply.verdicts}
    return [_certain(said[number], text) for number, text in enumerate(passages, 1)]


def _certain(said: PassageVerdict, text: str) -> Inference:
    supported, neutral, contradicted = (float(said.verdict == one) for one in ("supported", "neutral", "contradicted"))
    return Inference(supported, neutral, contradicted, 0, len(text), said.reason)
