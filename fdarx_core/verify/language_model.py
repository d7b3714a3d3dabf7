"""Whether passages support a claim or contradict it, by a language model. Source: FAS §3.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fdarx_core.baseline.entailment import RuleEngine
from fdarx_core.factuality.scores import THRESHOLD
from fdarx_core.llm import Reply, Task, Unparsable
from fdarx_core.records import Response
from fdarx_core.verify.engine import Inference, TextPair

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
    """The baseline's answer: the verdict that the rules are sure of by the threshold for a claim."""
    pairs = [TextPair(str(text), str(slots["claim"]), str(slots["drug"])) for text in slots["passages"]]
    found = enumerate(RuleEngine().judge(pairs), 1)
    return JudgeClaimReply(verdicts=[_by_rules(number, inference) for number, inference in found])


def _by_rules(number: int, inference: Inference) -> PassageVerdict:
    verdict: Verdict = "neutral"
    if inference.entailment >= THRESHOLD:
        verdict = "supported"
    elif inference.contradiction >= THRESHOLD:
        verdict = "contradicted"
    return PassageVerdict(passage=number, reason=inference.reason, verdict=verdict)


def judge_asked(claim: str, passages: Sequence[str], drug: str = "") -> dict[str, Any]:
    """The task's slots: one request asks about a claim, as it reads by itself, with all its passages' texts."""
    return {"claim": claim, "passages": list(passages), "drug": drug}


def read_judged(response: Response, passages: Sequence[str]) -> list[Inference]:
    """What the judge says of each passage: 1 for its verdict, resting on the whole passage.

    Raises Unparsable as `Task.parse`, and with the reason wrong_passages where the reply leaves a passage out, judges
    one twice, or judges one that there is not.
    """
    verdicts = JUDGE_CLAIM.parse(response).verdicts
    numbers = sorted(one.passage for one in verdicts)
    if numbers != list(range(1, len(passages) + 1)):
        raise Unparsable("wrong_passages", f"verdicts on {numbers}, due were 1 to {len(passages)}")
    said = {one.passage: one for one in verdicts}
    return [_certain(said[number], text) for number, text in enumerate(passages, 1)]


def _certain(said: PassageVerdict, text: str) -> Inference:
    supported, neutral, contradicted = (float(said.verdict == one) for one in ("supported", "neutral", "contradicted"))
    return Inference(supported, neutral, contradicted, 0, len(text), said.reason)


JUDGE_CLAIM = Task.load("judge_claim", JudgeClaimReply, by_rules)
