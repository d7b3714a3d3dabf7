"""Records of a factuality run: answers, claims, evidence, verdicts, scores and safety flags.

Source: FAS (seed 002) §3.2, §4, §5.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CheckedAnswer:
    """One answer to check, with its question.

    `dataset`, `type` and `setting` are "" if unknown; `cluster` groups answers that are not independent, such as those
    to one question or on one label. `set_id` and `drug` are those of the label of the question, if any. `outcome` is
    answered, refused or failed. `must_have` and `nice_to_have` are the statements of MedLFQA.
    """

    id: str
    question_id: str
    question: str
    answer: str
    model: str
    dataset: str = ""
    type: str = ""
    setting: str = ""
    cluster: str = ""
    set_id: str = ""
    drug: str = ""
    outcome: str = "answered"
    references: list[str] = field(default_factory=list)
    must_have: list[str] = field(default_factory=list)
    nice_to_have: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Claim:
    """One statement of an answer that can be true or false by itself.

    `text` is `answer[start:end]`, unchanged. The claims of an answer never overlap; `number` counts them in order, from
    0. `resolved` is the claim without context: a pronoun is replaced if its referent is certain, and a subject that a
    clause shares with the one before is put in front.
    """

    id: str
    answer_id: str
    number: int
    start: int
    end: int
    text: str
    resolved: str


@dataclass(slots=True)
class Evidence:
    """A passage to compare claims with. `source` is labels, index, pubmed, file or none (reference or question).

    `place` is its position in the source: the marker of a passage, the id of a chunk or of PubMed, the row of a file.
    `section` and `set_id` are those of a passage of a label; `year` is that of a publication, 0 for none. `lead` is
    what a passage that begins within a table or a list needs from above it: the headings of the table, or the line that
    introduces the list.
    """

    id: str
    source: str
    title: str
    text: str
    place: str = ""
    section: str = ""
    set_id: str = ""
    drug: str = ""
    year: int = 0
    lead: str = ""

    @property
    def heading(self) -> str:
        """The titles above the text, from the document's down, and `lead`."""
        return " > ".join(filter(None, (self.title, self.section, *self.lead.split("\n"))))


@dataclass(slots=True)
class PairVerdict:
    """A claim and one passage, with the probabilities of natural language inference, which sum to 1.

    `kind` is evidence (`rank` from 1 in the order of the search), reference (which replaces evidence without retrieval:
    `rank` 0), all_statements (a claim and all must-have and nice-to-have statements), must_have and nice_to_have (a
    statement, `number`, and the whole answer; `claim_id` is "" there). `start` and `end` bound the deciding window of
    the passage. The probabilities are None if the pair was not judged; then `reason` says why, else it explains the
    judgment. `engine` names the engine. `on_subject` tells whether the passage speaks of the claim's drug, `words` the
    share of the claim's words in it.
    """

    answer_id: str
    claim_id: str
    evidence_id: str
    kind: str
    rank: int
    engine: str
    entailment: float | None = None
    neutral: float | None = None
    contradiction: float | None = None
    start: int = 0
    end: int = 0
    number: int = 0
    reason: str = ""
    on_subject: bool = False
    words: float = 0.0


@dataclass(slots=True)
class ClaimVerdict:
    """The verdict on a claim from all its evidence: supported, contradicted, unsupported, undecided, or unscored.

    `evidence_id` is the passage that decided, `score` its probability of that verdict. For an unsupported claim it is
    the passage with the lowest probability of neutral; for an undecided one that with the highest probability of
    entailment or contradiction, below the threshold; of equal ones that with most words of the claim. `reason` explains
    the verdict, or why there is none.
    """

    claim_id: str
    answer_id: str
    verdict: str
    evidence_id: str = ""
    score: float | None = None
    reason: str = ""


@dataclass(slots=True)
class FactualityScore:
    """The numbers of one answer, each in 0 to 1, None where it has no meaning; `unscored` says which and why.

    `support`, `contra` and `unsupported` are shares of the decided claims, over the best k passages (Support@5,
    Contra@5); `decided` is the share of these among the claims that were judged, `coverage` the share of all claims
    with a passage that speaks of their drug. `similarity` is the first term of FAS, by the measure of the run. Overlaps
    are the best over the references. `completeness` is the share of must-have statements that the answer entails,
    reduced by contradictions; `stated_in_references` is the share of its claims that the statements entail. `flags` and
    `dropped_flags` count the safety flags, and those that are dropped because a quotation of them is not verbatim.
    """

    answer_id: str
    question_id: str
    model: str
    dataset: str
    type: str
    setting: str
    cluster: str
    outcome: str
    claims: int = 0
    supported: int = 0
    contradicted: int = 0
    unsupported_claims: int = 0
    undecided_claims: int = 0
    unscored_claims: int = 0
    support: float | None = None
    contra: float | None = None
    unsupported: float | None = None
    decided: float | None = None
    coverage: float | None = None
    similarity: float | None = None
    rouge_1: float | None = None
    rouge_2: float | None = None
    rouge_l: float | None = None
    bleu_4: float | None = None
    fas: float | None = None
    completeness: float | None = None
    stated_in_references: float | None = None
    flags: int = 0
    dropped_flags: int = 0
    unscored: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SafetyFlag:
    """A passage of an answer that may do harm; flags are not part of FAS.

    `kind` is contraindication, interaction, dose or warning for a statement that the label contradicts, or
    dose_missing. `text` is `answer[start:end]`, empty for a missing dose; `because` is the words of the label that
    contradict it, in passage `marker` of `set_id`; `subject` is the title of its section, "dose" for a missing dose.
    """

    answer_id: str
    kind: str
    start: int
    end: int
    text: str
    drug: str
    subject: str
    because: str
    set_id: str = ""
    marker: str = ""
