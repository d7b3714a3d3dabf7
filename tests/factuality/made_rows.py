"""Answers with claims and judged pairs, made from a seed: good models state what is true, bad ones less often."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fdarx_core.factuality.figures import FactualityRows
from fdarx_core.factuality.scores import ScoringMethod, score_of, verdicts_of
from fdarx_core.records import CheckedAnswer, Claim, FactualityScore, PairVerdict, SafetyFlag, to_table

ENGINE, OTHER = "exact", "other-nli"
METHOD = ScoringMethod(engine=ENGINE, least_decided=0.2)
WORDS = "take one tablet daily with food the dose is 40 mg avoid grapefruit children adults kidney".split()  # noqa: SIM905


@dataclass
class MadeRows:
    """`questions` to each model, on datasets `alpha` (types factoid and summary) and `beta` (no types)."""

    questions: int = 30
    seed: int = 5
    skill: dict[str, float] = field(default_factory=lambda: {"good": 0.75, "poor": 0.45})
    answers: list[CheckedAnswer] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    pairs: list[PairVerdict] = field(default_factory=list)
    flags: list[SafetyFlag] = field(default_factory=list)
    scores: list[FactualityScore] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = np.random.default_rng(self.seed)
        for number in range(self.questions):
            for model in self.skill:
                self._add(number, model)

    @property
    def rows(self) -> FactualityRows:
        pairs = to_table(self.pairs, PairVerdict)
        return FactualityRows(self.scores, pairs, self.flags, METHOD)

    def _add(self, number: int, model: str) -> None:
        answer = self._answer(number, model)
        skill = float(np.clip(self.skill[model] + self._dice.normal(0, 0.25), 0, 1))
        claims = [
            Claim(f"{answer.id}:{at}", answer.id, at, at, at + 1, "x", "x") for at in range(self._dice.integers(0, 6))
        ]
        pairs = [pair for claim in claims for pair in self._of_claim(claim, skill)]
        pairs += self._of_statements(answer, claims, skill)
        flags = [SafetyFlag(answer.id, "dose", 0, 0, "", "", "40 mg", "")] if self._dice.random() < 0.2 else []
        verdicts = verdicts_of(claims, pairs, METHOD)
        score = score_of(answer, claims, verdicts, pairs, float(self._dice.random()), flags, METHOD)
        self.answers.append(answer)
        self.claims += claims
        self.pairs += pairs
        self.flags += flags
        self.scores.append(score)

    def _answer(self, number: int, model: str) -> CheckedAnswer:
        said, wanted = (" ".join(self._dice.choice(WORDS, 12)) for _ in range(2))
        dataset = "alpha" if number % 3 else "beta"
        kind = ("factoid", "summary")[number % 2] if dataset == "alpha" else ""
        return CheckedAnswer(
            f"{model}-{number}", f"q{number}", "What is the dose?", said, model, dataset, kind,
            cluster=f"c{number // 2}", references=[wanted], must_have=["a", "b", "c"], nice_to_have=["d"],
        )  # fmt: skip

    def _of_claim(self, claim: Claim, skill: float) -> list[PairVerdict]:
        found = [self._pair(claim, "evidence", rank, ENGINE, skill) for rank in range(1, self._dice.integers(1, 7))]
        found += [self._pair(claim, "evidence", rank, OTHER, skill / 2) for rank in (1, 2)]
        return [*found, self._pair(claim, "reference", 0, ENGINE, skill / 2)]

    def _of_statements(self, answer: CheckedAnswer, claims: list[Claim], skill: float) -> list[PairVerdict]:
        stand_in = Claim("", answer.id, 0, 0, 0, "", "")
        found = [self._pair(stand_in, "must_have", 0, ENGINE, skill) for _ in answer.must_have]
        found += [self._pair(stand_in, "nice_to_have", 0, ENGINE, skill) for _ in answer.nice_to_have]
        return [*found, *(self._pair(claim, "all_statements", 0, ENGINE, skill) for claim in claims)]

    def _pair(self, claim: Claim, kind: str, rank: int, engine: str, skill: float) -> PairVerdict:
        """One in twelve could not be judged."""
        pair = PairVerdict(
            claim.answer_id, claim.id, f"e{rank}", kind, rank, engine, on_subject=bool(self._dice.random() < 0.9)
        )
        if self._dice.random() < 1 / 12:
            pair.reason = "judge_failed"
            return pair
        strengths = np.array([0.3 + skill, 0.9, 0.9 - skill * 0.8])
        pair.entailment, pair.neutral, pair.contradiction = (float(v) for v in self._dice.dirichlet(strengths))
        return pair
