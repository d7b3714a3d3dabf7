"""Verification by a language model, which is asked about a statement and all its texts at once. Source: FAS §3.2."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from fdarx_core.llm import Model, Note, Quote, Reply, Task, Undecided, Unparsable
from fdarx_core.records import Response
from fdarx_core.verify.engine import Inference, Judgement, TextPair, Unjudged
from fdarx_core.verify.exact import quoted_span
from fdarx_core.verify.numbers import check_numbers

Verdict = Literal["supported", "contradicted", "unsupported", "other_drug"]


class PassageVerdict(Reply):
    """On the passage of this number, counted from 1; `quote` are the words of the passage that decide."""

    passage: int
    reason: Note
    quote: Quote = ""
    verdict: Verdict


class JudgeClaimReply(Reply):
    """One verdict for each passage."""

    verdicts: Annotated[list[PassageVerdict], Field(max_length=500)]


def by_rules(slots: Mapping[str, Any]) -> JudgeClaimReply:
    """Return the baseline's reply: a claim that is quoted is supported. Raises Undecided where a passage lacks it."""
    verdicts = []
    for number, passage in enumerate(slots["passages"], 1):
        place = quoted_span(str(slots["claim"]), passage["text"])
        if place is None:
            raise Undecided(f"passage {number} does not have the claim word for word")
        quote = passage["text"][slice(*place)]
        verdicts.append(PassageVerdict(passage=number, reason="word for word", quote=quote, verdict="supported"))
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
        asked: dict[tuple[str, str, str], dict[TextPair, None]] = {}
        for pair in pairs:
            asked.setdefault((pair.hypothesis, pair.drug, pair.question), {})[pair] = None
        groups = [list(group) for group in asked.values()]
        replies = self._model.ask_many(JUDGE_CLAIM, list(map(judge_slots, groups)), return_exceptions=True)
        judged: dict[TextPair, Judgement] = {}
        for group, reply in zip(groups, replies, strict=True):
            try:
                if isinstance(reply, Unparsable):
                    raise reply
                judged |= zip(group, _inferences(reply, group), strict=True)
            except Unparsable as error:
                judged |= dict.fromkeys(group, Unjudged(f"{error.reason}: {error.detail}"))
        return [judged[pair] for pair in pairs]


def judge_slots(pairs: Sequence[TextPair]) -> dict[str, Any]:
    """Return the task's slots for pairs of one claim: one request asks about it with all its passages."""
    first = pairs[0]
    passages = [{"heading": " ".join(pair.heading.split()), "text": pair.premise} for pair in pairs]
    return {"claim": first.hypothesis, "drug": first.drug, "question": first.question, "passages": passages}


def read_judged(response: Response, pairs: Sequence[TextPair]) -> list[Judgement]:
    """Return the judge's inference on each pair, all of one claim, in the order in which their texts were shown.

    A verdict has probability 1, unless `check_numbers` objects. It rests on the words that the reply quotes, or on the
    whole text where the text lacks them. Raises Unparsable as `Task.parse`, and with the reason wrong_passages where
    the reply leaves a passage out, judges one twice, or judges one that does not exist.
    """
    return _inferences(JUDGE_CLAIM.parse(response), pairs)


def _inferences(reply: JudgeClaimReply, pairs: Sequence[TextPair]) -> list[Judgement]:
    numbers = sorted(verdict.passage for verdict in reply.verdicts)
    if numbers != list(range(1, len(pairs) + 1)):
        raise Unparsable("wrong_passages", f"verdicts on {numbers}, due were 1 to {len(pairs)}")
    found = list[Judgement]()
    for pair, judged in zip(pairs, sorted(reply.verdicts, key=lambda verdict: verdict.passage), strict=True):
        supported, contradicted = float(judged.verdict == "supported"), float(judged.verdict == "contradicted")
        neutral, place = 1 - supported - contradicted, _place_of(judged.quote, pair.premise)
        other_drug = judged.verdict == "other_drug"
        found.append(
            check_numbers(pair, Inference(supported, neutral, contradicted, *place, judged.reason, other_drug))
        )
    return found


def _place_of(quote: str, text: str) -> tuple[int, int]:
    """Return the place of a quotation in a text, the whole text where it has none.

    White space, case and the stop at the end are ignored.
    """
    words = r"\s+".join(map(re.escape, quote.strip(" .…\"'“”").split()))
    found = re.search(rf"{words}[.]?", text, re.IGNORECASE) if words else None
    return found.span() if found else (0, len(text))
