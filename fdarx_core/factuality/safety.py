"""Safety candidates and flags: what in an answer may go against a label, and what a verifier decides of it.

Rules propose candidates by words and numbers. A claim that a label contradicts is a flag, and so is a candidate that
the verifying model finds contradicted; one that it finds to agree with the label, or not to bear on it, is dropped.
Without such a model all candidates stay to be reviewed. Source: FAS §3.2, §4.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from fdarx_core.baseline.sentences import sentence_spans
from fdarx_core.baseline.stems import terms
from fdarx_core.factuality.contraindications import Key, contraindications_of, key_of
from fdarx_core.factuality.doses import LabelDoses, doubtful_doses, lacks_dose
from fdarx_core.factuality.drug_names import DrugNameIndex, names_pattern
from fdarx_core.factuality.evidence.sources import evidence_of_passage, with_list_leads
from fdarx_core.factuality.prohibitions import CONTRAINDICATIONS, FURTHER, TABLE
from fdarx_core.factuality.scores import CONTRADICTED, SUPPORTED, UNSUPPORTED, ScoringMethod, class_of
from fdarx_core.labels.drugs import Drug
from fdarx_core.records import (
    CheckedAnswer,
    Claim,
    ClaimVerdict,
    Contraindication,
    Evidence,
    Label,
    PairVerdict,
    Passage,
    SafetyFlag,
    content_id,
)

SAFETY = "safety"
"""The kind of a pair of a claim, or a sentence, and what the label says of a candidate."""
FLAGGED, TO_REVIEW = "flagged", "to_review"
CONTRADICTED_BY_LABEL = "contradicted_by_label"

_LEAST_SHARE = 1 / 3
"""Of a drug's labels, where only its name is known: what fewer forbid may belong to another form of it."""
_ENOUGH = 1 / 3
"""The share of the weight of a subject's terms that question and sentence must have, or else its rarest term."""
_MOST_FORBIDDEN = 3
"""The most forbidden uses that are proposed for one answer."""


_Forbidden = tuple[Key, Contraindication, Evidence]
"""What a label forbids, the words by which two labels forbid the same, and its statement."""


@dataclass(frozen=True, slots=True)
class SafetyCandidate:
    """A part of an answer that may go against a label.

    Attributes:
        flag: the flag, to be reviewed.
        statement: what the label says, with which a verifier compares the answer; None for a missing dose.
    """

    flag: SafetyFlag
    statement: Evidence | None


@dataclass(frozen=True, slots=True)
class SafetyFindings:
    """What the labels of an answer's drug hold against it.

    Attributes:
        candidates: the parts that may go against a label.
        contraindications: the passages of Contraindications, which a verifying model is shown with each claim, because
            answers seldom use the label's words for what it forbids. Empty for answers on several drugs.
    """

    candidates: Sequence[SafetyCandidate] = ()
    contraindications: Sequence[Evidence] = ()


class CandidateFinder:
    """Finds safety candidates in answers by the labels of their drugs.

    Args:
        labels: returns labels with all their passages, of which only doses and prohibitions are kept.
        synonyms: names that no label has, each with its drug (`read_rxnorm`).
    """

    def __init__(
        self,
        labels: Callable[[], Iterable[tuple[Label, Sequence[Passage]]]],
        synonyms: Iterable[tuple[str, Drug]] = (),
    ) -> None:
        self._rows: dict[str, list[_Forbidden]] = {}
        self._doses: dict[str, LabelDoses] = {}
        self._own: dict[str, tuple[str, ...]] = {}
        self._contraindications: dict[str, list[Evidence]] = {}
        self._frequencies: Counter[str] = Counter()
        self.drugs = DrugNameIndex(self._kept(labels()), synonyms)

    def _kept(self, labels: Iterable[tuple[Label, Sequence[Passage]]]) -> Iterator[tuple[Label, Sequence[Passage]]]:
        shared: dict[object, object] = {}
        for label, passages in labels:
            rows = contraindications_of(label, passages, (*TABLE, *FURTHER))
            paths = {passage.marker: passage.section_path for passage in passages}
            self._rows[label.set_id] = [(key_of(row), row, _forbids(row, paths.get(row.marker, ""))) for row in rows]
            self._frequencies.update(term for row in rows for term in terms(row.subject))
            self._doses[label.set_id] = LabelDoses.of(passages, shared)
            self._own[label.set_id] = tuple(dict.fromkeys((label.drug_name, *label.aliases, *label.substances)))
            self._contraindications[label.set_id] = [
                evidence_of_passage(passage, label.drug_name, lead)
                for passage, lead in with_list_leads(one for one in passages if one.core_code == CONTRAINDICATIONS)
            ]
            yield label, passages

    def find(self, answer: CheckedAnswer) -> SafetyFindings:
        """Return what the labels hold against an answer; nothing if it failed or refused."""
        if answer.outcome != "answered" or not answer.answer.strip():
            return SafetyFindings()
        drugs = self.drugs.of(answer)
        passages = self._contraindications[drugs[0][0]] if len(drugs) == 1 else []
        return SafetyFindings(self.candidates(answer), passages)

    def candidates(self, answer: CheckedAnswer) -> list[SafetyCandidate]:
        """Return all candidates of an answer, in order; none if it failed or refused, or has no drug with a label."""
        if answer.outcome != "answered" or not answer.answer.strip():
            return []
        drugs = self.drugs.of(answer)
        found = [one for set_ids in drugs for one in self._forbidden(answer, set_ids)]
        if len(drugs) == 1:  # with several drugs it is not certain whose a dose is
            found += self._doubtful_doses(answer, drugs[0])
        return sorted(found, key=lambda one: (one.flag.start, one.flag.end, one.flag.kind, one.flag.subject))

    def _doubtful_doses(self, answer: CheckedAnswer, set_ids: Sequence[str]) -> Iterator[SafetyCandidate]:
        given = [(set_id, self._doses[set_id]) for set_id in set_ids if self._doses[set_id].sentences]
        if not given:
            return
        set_id, doses = given[0]
        names = self._own[set_id]

        def candidate(kind: str, start: int, end: int, subject: str) -> SafetyCandidate:
            text = answer.answer[start:end]
            quoted = doses.quoted(f"{answer.question} {text}")
            first = quoted[0][1]
            told = "\n".join(dict.fromkeys(one for one, _ in quoted))
            statement = _statement(set_id, first.marker, first.section_path, names[0], told)
            said = statement.text, set_id, statement.place, TO_REVIEW
            flag = SafetyFlag(answer.id, kind, start, end, text, names[0], subject, *said)
            return SafetyCandidate(flag, statement if text else None)

        if lacks_dose(answer.question, answer.answer):
            yield candidate("dose_missing", 0, 0, "dose")
        labels = [one for _, one in given]
        for start, end, dose in doubtful_doses(answer, labels, names_pattern(names), self.drugs.names_in):
            yield candidate("dose_unsupported", start, end, dose)

    def _forbidden(self, answer: CheckedAnswer, set_ids: Sequence[str]) -> Iterator[SafetyCandidate]:
        """Yield the uses that a third of the labels or more forbid and whose words question or answer have."""
        own = names_pattern(self._own[set_ids[0]])
        question = self._terms(answer.question, own)
        spans = sentence_spans(answer.answer)
        told = [self._terms(answer.answer[start:end], own) for start, end in spans]
        alike: dict[Key, list[_Forbidden]] = defaultdict(list)
        for one in (one for set_id in set_ids for one in self._rows[set_id]):
            alike[one[0]].append(one)
        found = list[tuple[float, int, _Forbidden]]()
        for rows in alike.values():
            if rows[0][1].kind == "drug" and own.search(rows[0][1].subject):  # it names no other drug
                continue
            wanted = terms(own.sub(" ", rows[0][1].subject))
            place = max(range(len(told)), key=lambda at: (self._weight(wanted & told[at]), -at))
            held = wanted & (question | told[place])
            share = self._weight(held) / max(self._weight(wanted), 1e-9)
            rarest = max(wanted, key=lambda term: (self._weight([term]), term), default="")
            enough = rarest in held or share >= _ENOUGH
            if enough and len({row.set_id for _, row, _ in rows}) >= _LEAST_SHARE * len(set_ids):
                found.append((-share, place, rows[0]))
        for _, place, (_, row, statement) in sorted(found, key=lambda one: one[:2])[:_MOST_FORBIDDEN]:
            start, end = spans[place]
            about = answer.answer[start:end], row.drug, row.subject, row.statement, row.set_id, row.marker, TO_REVIEW
            yield SafetyCandidate(SafetyFlag(answer.id, f"contraindicated_{row.kind}", start, end, *about), statement)

    def _terms(self, text: str, own: re.Pattern[str]) -> frozenset[str]:
        others = own.sub(" ", text)
        return terms(others) | terms(" ; ".join(self.drugs.substances_in(others)))

    def _weight(self, found: Iterable[str]) -> float:
        """Return the weight of terms of subjects: the rarer in the subjects of all labels, the more."""
        total = self._frequencies.total()
        return sum(log(1 + total / (1 + self._frequencies[term])) for term in found)


def _statement(set_id: str, marker: str, section: str, drug: str, text: str) -> Evidence:
    return Evidence(content_id(SAFETY, set_id, marker, text), "labels", drug, text, marker, section, set_id, drug)


def _forbids(row: Contraindication, section: str) -> Evidence:
    return _statement(row.set_id, row.marker, section, row.drug, row.statement)


def flags_of(
    candidates: Sequence[SafetyCandidate],
    claims: Sequence[Claim],
    verdicts: Sequence[ClaimVerdict],
    pairs: Sequence[PairVerdict],
    evidence: Mapping[str, Evidence],
    method: ScoringMethod,
) -> list[SafetyFlag]:
    """Return the flags of an answer as the verifying model decides them, in order.

    Args:
        candidates: what rules propose.
        claims: the claims of the answer.
        verdicts: their verdicts.
        pairs: pairs of the engine of the method, those of the candidates among them (`SAFETY`).
        evidence: the passages and statements of the pairs by id.
        method: how answers are scored.
    """
    mine = [pair for pair in pairs if pair.engine == method.engine]
    found = [flag for one in candidates if (flag := _decided(one, claims, mine, evidence, method.threshold))]
    flagged = [flag for flag in found if flag.status == FLAGGED]
    for claim, verdict in zip(claims, verdicts, strict=True):
        if any(flag.start < claim.end and claim.start < flag.end for flag in flagged):
            continue
        if flag := _contradicted(claim, verdict, mine, evidence, method.threshold):
            found.append(flag)
    return sorted(found, key=lambda flag: (flag.start, flag.end, flag.kind, flag.subject))


def _decided(
    candidate: SafetyCandidate,
    claims: Sequence[Claim],
    pairs: Sequence[PairVerdict],
    evidence: Mapping[str, Evidence],
    threshold: float,
) -> SafetyFlag | None:
    """Return the flag of a candidate with its status; None where the verifier clears it."""
    flag, statement = candidate.flag, candidate.statement
    if statement is None:
        return flag
    within = {claim.id for claim in claims_in(flag, claims)} or {""}
    found = {
        class_of(pair, threshold)[0]
        for pair in pairs
        if pair.kind in (SAFETY, "evidence") and pair.claim_id in within and pair.evidence_id in evidence
        if states(evidence[pair.evidence_id], statement)
    }
    if CONTRADICTED in found:
        return replace(flag, status=FLAGGED)
    return None if found and found <= {SUPPORTED, UNSUPPORTED} else flag


def safety_sentence(flagged: int, to_review: int, *, verified: bool) -> str:
    """Return what was found, in words: how many flags, and how many candidates that nothing has decided.

    `verified` says whether a model verifies.
    """
    if not verified:
        return (
            f"{to_review:,} parts of answers may go against a label. No model verifies them, so that none is flagged "
            "and all are to be reviewed; name a language model or an NLI cross-encoder with --entailment."
        )
    return f"{flagged:,} parts of answers are contradicted by a label; {to_review:,} are to be reviewed."


def states(passage: Evidence, statement: Evidence) -> bool:
    """Return whether a passage is of the label of a statement and has its words."""
    return passage.set_id == statement.set_id and statement.text in passage.text


def claims_in(flag: SafetyFlag, claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims that share words of the answer with a flag."""
    return [claim for claim in claims if flag.start < claim.end and claim.start < flag.end]


def _contradicted(
    claim: Claim,
    verdict: ClaimVerdict,
    pairs: Sequence[PairVerdict],
    evidence: Mapping[str, Evidence],
    threshold: float,
) -> SafetyFlag | None:
    """Return a flag where the passage that decides the claim, or what a label forbids, contradicts it.

    Only labels of the claim's drug count.
    """
    own = [one for one in pairs if one.claim_id == claim.id and one.on_subject and one.evidence_id in evidence]
    decisive = [
        one
        for one in own
        if one.kind == SAFETY
        or (one.kind == "evidence" and verdict.verdict == CONTRADICTED and one.evidence_id == verdict.evidence_id)
    ]
    against = [
        one for one in decisive if class_of(one, threshold)[0] == CONTRADICTED and evidence[one.evidence_id].set_id
    ]
    if not against:
        return None
    pair = against[0]
    passage = evidence[pair.evidence_id]
    because = passage.text[pair.start : pair.end] or passage.text
    about = claim.text, passage.drug, passage.section.rpartition(" > ")[2], because, passage.set_id, passage.place
    return SafetyFlag(claim.answer_id, CONTRADICTED_BY_LABEL, claim.start, claim.end, *about, FLAGGED)
