"""Engines without a model: the baseline's rules of English, one engine for each use.

`rules` judges any statement. The others decide a narrower question for one task, and are certain: the verdict has
probability 1, and the reason holds the evidence that the task needs. Of the text they use the fields of `TextPair`.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from fdarx_core.baseline.entailment import entail
from fdarx_core.baseline.grading import grade
from fdarx_core.baseline.judging import joint_support, sentence_naming, support, support_beyond_question
from fdarx_core.baseline.safety_advice import SubjectMatcher, compared, permits
from fdarx_core.verify.engine import Inference, Judgement, RuleEngine, TextPair, Unjudged

_CONTRADICTIONS = ("number_contradicted", "polarity")
"""Faults of an answer that contradict the reference; the others leave something out or add it."""


def _entailed(pair: TextPair) -> Inference:
    """Compare words, numbers with units, populations and polarity with each statement of the text."""
    return Inference(*entail(pair.premise, pair.hypothesis, pair.drug))


def _graded(pair: TextPair) -> Judgement:
    """Grade an answer by the reference answer, which is the text; an answer that attempts nothing is not judged."""
    outcome, fault, detail = grade(pair.drug, pair.question, pair.premise, pair.hypothesis)
    reason = f"{fault}: {detail}" if fault else detail
    if outcome == "NOT_ATTEMPTED":
        return Unjudged(reason)
    wrong: Literal["contradicted", "unsupported"] = "contradicted" if fault in _CONTRADICTIONS else "unsupported"
    return _certain("supported" if outcome == "CORRECT" else wrong, pair, reason)


def _supported(pair: TextPair) -> Inference:
    """Find the sentences that hold an answer, or its part that the text `beside` does not hold."""
    if pair.beside:
        return _by_evidence(pair, joint_support(pair.hypothesis, pair.premise, pair.beside))
    return _by_evidence(pair, support(pair.hypothesis, pair.premise, pair.heading))


def _attributed(pair: TextPair) -> Inference:
    """Find one or two sentences that hold the statement, and what the question does not already say."""
    return _by_evidence(pair, support_beyond_question(pair.hypothesis, pair.premise, pair.question))


def _mentioned(pair: TextPair) -> Inference:
    """Find a sentence that names the statement, which is the name of a thing."""
    return _by_evidence(pair, sentence_naming(pair.hypothesis, pair.premise))


def _recommended(subject: SubjectMatcher, pair: TextPair) -> Inference:
    said = compared(pair.premise)
    found = permits(said) and subject.stands_in(said)
    return _certain("supported" if found else "unsupported", pair, "it recommends the use" if found else "")


def _by_evidence(pair: TextPair, evidence: str) -> Inference:
    return _certain("supported" if evidence else "unsupported", pair, evidence)


def _certain(verdict: Literal["supported", "contradicted", "unsupported"], pair: TextPair, reason: str) -> Inference:
    yes, neither, no = (float(verdict == one) for one in ("supported", "unsupported", "contradicted"))
    return Inference(yes, neither, no, 0, len(pair.premise), reason)


ENGINES = {
    "rules": RuleEngine("baseline", _entailed),
    "rules:grading": RuleEngine("rules:grading", _graded),
    "rules:support": RuleEngine("rules:support", _supported),
    "rules:attribution": RuleEngine("rules:attribution", _attributed),
    "rules:mention": RuleEngine("rules:mention", _mentioned),
}
"""The engines by the names by which they are selected. Verdicts and tables call `rules` baseline."""


def recommendation_engine(subject: SubjectMatcher) -> RuleEngine:
    """Return the engine that judges whether a text recommends or permits use of a drug where a label forbids it."""
    return RuleEngine("rules:recommendation", partial(_recommended, subject))
