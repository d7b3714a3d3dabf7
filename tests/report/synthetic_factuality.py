"""An invented scoring: answers, claims, passages and verdicts that hang together; the tables are worked out of them."""

from __future__ import annotations

from functools import cached_property
from random import Random
from typing import Any

from fdarx_core.factuality.figures import FactualityRows
from fdarx_core.factuality.scores import ScoringMethod, Weights, score_of, verdicts_of
from fdarx_core.factuality.tables import Summary, summarize
from fdarx_core.records import CheckedAnswer, Claim, Evidence, PairVerdict, SafetyFlag, to_table
from fdarx_core.report.answer_viewer import ScoredAnswer

ENGINE = "exact"
METHOD = ScoringMethod(
    claims="baseline", engine=ENGINE, evidence="labels:build", similarity="token_f1", threshold=0.7, k=5,
    weights=Weights(), compared="tiny-nli", least_coverage=0.0, least_decided=0.3,
)  # fmt: skip
DATASETS = ("clinic", "ward")
_KINDS = ("yes/no", "open")
_PARTS = (
    "Tablets of it hold {n} mg of the active substance",
    "it is taken once a day with water",
    "the dose is halved to {n} mg in renal impairment",
    "nobody has studied it in children 😀 below {n} years",
)


class SyntheticFactuality:
    """Answers of each model to so many questions. `hostile` stands in every text that a reader's page shows."""

    def __init__(self, questions: int = 40, models: tuple[str, ...] = ("small", "large"), hostile: str = "") -> None:
        self._dice, self._hostile = Random(11), hostile
        self.passages = [self._passage(number) for number in range(60)]
        self.answers = [self._examined(number, model) for number in range(questions) for model in models]

    @cached_property
    def summary(self) -> Summary:
        pairs = to_table([pair for one in self.answers for pair in one.pairs], PairVerdict)
        flags = [flag for one in self.answers for flag in one.flags]
        rows = FactualityRows([one.score for one in self.answers], pairs, flags, METHOD)
        return summarize(rows, seed=3, resamples=50)

    def results(self, summary: Summary | None = None) -> dict[str, Any]:
        """With the summary of another scoring where one is given: to work it out takes a second."""
        return {
            "info": {
                "started": "2026-05-04T08:00:00+00:00",
                "finished": "2026-05-04T08:12:30+00:00",
                "config": {"seed": 3, "evidence": f"labels:{self._hostile or 'build'}", "k": 5},
                "versions": {"fdarx": "0.1.0"},
                "notes": ["No BERTScore: no model was given."],
                "safety": "build",
            },
            "method": METHOD,
            "summary": summary or self.summary,
            "answers": iter(self.answers),
            "rejects": {("read", "no_answer"): 3},
        }

    def _passage(self, number: int) -> Evidence:
        text = f"Passage {number}. {self._hostile} " + "Its tablets are swallowed whole 😀 with water. " * (
            5 + number % 50 * 3
        )
        return Evidence(
            f"e{number}", "labels", f"Label {number} {self._hostile}".strip(), text, place=f"PASSAGE_{number:04d}",
            section=f"2.{number} Dosing", set_id=f"s{number}", drug="velocimab",
        )  # fmt: skip

    def _examined(self, number: int, model: str) -> ScoredAnswer:
        name = f"a{number}-{model}"
        parts = [part.format(n=5 * number) for part in _PARTS[: self._dice.randrange(len(_PARTS) + 1)]]
        text = f"{self._hostile} Well: " + "; and ".join(parts) + ". That is all." if parts else ""
        answer = CheckedAnswer(
            name, f"q{number}", f"How is velocimab taken, case {number}? {self._hostile}".strip(), text, model,
            dataset=DATASETS[number % 2], setting="full_label" if model == "large" else "",
            type=_KINDS[number % 3 % 2], cluster=f"q{number}", set_id="s1",
            drug="velocimab", outcome="answered" if text else "refused",
            references=[f"Tablets of it hold {5 * number} mg. {self._hostile}"],
            must_have=[f"It holds {5 * number} mg. {self._hostile}"], nice_to_have=["It is taken with water."],
        )  # fmt: skip
        claims = [self._claim(answer, place, part) for place, part in enumerate(parts)]
        pairs = [pair for claim in claims for pair in self._pairs(answer, claim)]
        pairs += [self._judged(answer, "", kind, 0) for kind in ("must_have", "nice_to_have")] if parts else []
        pairs += [self._judged(answer, claim.id, "all_statements", 0) for claim in claims]
        verdicts = verdicts_of(claims, pairs, METHOD)
        flags = self._flags(answer, claims)
        found = {one.id: one for one in self.passages if any(pair.evidence_id == one.id for pair in pairs)}
        score = score_of(answer, claims, verdicts, pairs, self._dice.random(), flags, METHOD)
        return ScoredAnswer(answer, score, claims, verdicts, pairs, found, flags)

    def _claim(self, answer: CheckedAnswer, number: int, text: str) -> Claim:
        start = answer.answer.index(text)
        resolved = text.replace("it is", "Velocimab is")
        return Claim(f"{answer.id}/{number}", answer.id, number, start, start + len(text), text, resolved)

    def _pairs(self, answer: CheckedAnswer, claim: Claim) -> list[PairVerdict]:
        found = self._dice.sample(self.passages, self._dice.choice((0, 5, 5, 5, 5, 5)))
        return [self._judged(answer, claim.id, "evidence", rank, evidence) for rank, evidence in enumerate(found, 1)]

    def _judged(
        self, answer: CheckedAnswer, claim_id: str, kind: str, rank: int, evidence: Evidence | None = None
    ) -> PairVerdict:
        one = PairVerdict(answer.id, claim_id, evidence.id if evidence else "", kind, rank, ENGINE)
        if self._dice.random() < 0.03:
            one.reason = f"http_500: the server is down {self._hostile}"
            return one
        one.entailment, one.contradiction = self._dice.choice(
            ((0.9, 0.05), (0.05, 0.85), (0.4, 0.1), (0.1, 0.1), (0.1, 0.1))
        )
        one.neutral = 1 - one.entailment - one.contradiction
        size = len(evidence.text) if evidence else 0
        one.start = self._dice.randrange(max(size - 120, 1))
        one.end, one.reason = min(one.start + 110, size), f"5 mg stands in both {self._hostile}".strip()
        return one

    def _flags(self, answer: CheckedAnswer, claims: list[Claim]) -> list[SafetyFlag]:
        if not claims or self._dice.random() < 0.8:
            return []
        start = answer.answer.index("mg") - 3
        words = answer.answer[start : start + 14]
        why = f"Recommended dose: 7 mg. {self._hostile}".strip()
        return [
            SafetyFlag(answer.id, "dose", start, start + len(words), words, "velocimab", "mg", why, "s1",
                       "PASSAGE_0003"),
            SafetyFlag(answer.id, "dose_missing", 0, 0, "", "velocimab", "dose", why, "s1"),
        ]  # fmt: skip
