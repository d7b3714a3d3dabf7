"""What limits the figures of a factuality run, as sentences for the terminal and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fdarx_core.factuality.scores import CONTRADICTED, SUPPORTED, UNSUPPORTED, ScoringMethod, class_of
from fdarx_core.report.answer_viewer import ScoredAnswer
from fdarx_core.report.build_losses import TOO_MANY, meaning_of
from fdarx_core.report.evaluation_limits import COPIED_EXAMPLE
from fdarx_core.verify.exact import ENGINE, quoted_span

_CLAIMS_FAILED = "claims_failed: "


@dataclass(slots=True)
class FactualityChecks:
    """What can be checked of the models of a run without a request.

    Attributes:
        method: how the answers were scored.
        quoted: claims that stand in a passage word for word, each with this passage, on which there is a verdict.
        denied: those of them that the engine did not find supported.
        pairs: pairs that the engine was given.
        unjudged: the reasons of those on which it gave no usable verdict.
        answers: answers whose claims were to be extracted.
        unread: the reasons of those whose claims could not be.
        own: models whose answers the engine, which is the same model, judges.
    """

    method: ScoringMethod
    quoted: int = 0
    denied: int = 0
    pairs: int = 0
    unjudged: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    own: set[str] = field(default_factory=set)

    def counted(self, answers: Iterable[ScoredAnswer]) -> Iterator[ScoredAnswer]:
        """Yield the answers, and count each."""
        for one in answers:
            self._add(one)
            yield one

    def _add(self, one: ScoredAnswer) -> None:
        self.answers += one.answer.outcome == "answered"
        self.unread.update({_failure(entry) for entry in one.score.unscored if _CLAIMS_FAILED in entry})
        if self.method.engine == ENGINE.name:
            return
        claims = {claim.id: claim for claim in one.claims}
        for pair in one.pairs:
            if pair.engine != self.method.engine or (pair.kind == "evidence" and not pair.evidence_id):
                continue
            self.pairs += 1
            verdict = class_of(pair, self.method.threshold)[0]
            if pair.entailment is None:
                self.unjudged[pair.reason.partition(":")[0]] += 1
            elif pair.kind == "evidence" and verdict in (SUPPORTED, CONTRADICTED, UNSUPPORTED):
                quoted = quoted_span(claims[pair.claim_id].text, one.evidence[pair.evidence_id].text) is not None
                self.quoted += quoted
                self.denied += quoted and verdict != SUPPORTED
        if one.answer.model == self.method.engine:
            self.own.add(one.answer.model)

    def sentences(self) -> list[str]:
        """Return what limits the figures."""
        engine, claims = self.method.engine, self.method.claims
        found = []
        if self.denied:
            found.append(
                f"The verifier {engine} did not find {self.denied:,} of {self.quoted:,} claims supported by a passage "
                "in which they stand word for word. Take another verifier."
            )
        if copied := self.unjudged[COPIED_EXAMPLE]:
            found.append(
                f"On {copied:,} of {self.pairs:,} pairs the replies of {engine} repeat an example of its prompt and "
                "are no verdicts. Take a stronger model."
            )
        if self.own:
            found.append(f"The verifier {engine} judges its own answers, which favours them. Take another verifier.")
        found += _unusable(f"the verifier {engine}", "pairs of claim and passage", self.unjudged, self.pairs)
        found += _unusable(f"the model {claims}, which extracts claims,", "answers", self.unread, self.answers)
        return found


def _failure(entry: str) -> str:
    return entry.partition(_CLAIMS_FAILED)[2].partition(":")[0]


def _unusable(who: str, what: str, reasons: Counter[str], total: int) -> Iterator[str]:
    if reasons.total() > TOO_MANY * total:
        reason = reasons.most_common(1)[0][0]
        yield (
            f"The replies of {who} on {reasons.total():,} of {total:,} {what} were unusable, most as {reason}. "
            f"{meaning_of(reason)} Figures of this run cannot be compared with others."
        )
