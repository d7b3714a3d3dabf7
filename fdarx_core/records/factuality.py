"""What checking answers against evidence makes: claims, evidence, verdicts, scores, safety flags and figures.

Source: FAS (seed 002) §3.2, §4, §5.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CheckedAnswer:
    """One answer to be checked, with all that is known of its question.

    `dataset`, `type` and `setting` are "" where nobody names them; `cluster` groups answers that are not independent
    (those to one question, or on one label). `set_id` and `drug` name the label that the question is about, if any.
    `outcome` is answered, refused or failed. `must_have` and `nice_to_have` are MedLFQA's statements.
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

    `text` is `answer[start:end]`, letter for letter; claims of an answer never overlap and are in its order, `number`
    from 0. `resolved` is how it reads by itself: a pronoun replaced by what it certainly stands for, the subject that a
    clause shares with the one before it put in front.
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
    """A passage to hold claims against. `source` is labels, index, pubmed, file or none (the reference, or question).

    `place` says where it stands in its source: a passage's marker, a chunk's or PubMed's id, a file's row. `section`
    and `set_id` are those of a label's passage; `year` of a publication, 0 where there is none.
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


@dataclass(slots=True)
class PairVerdict:
    """A claim held against one passage: probabilities of a natural language inference, that sum to 1.

    `kind` is evidence (`rank` from 1 in the order of the search), reference (what stands in for evidence without
    retrieval: `rank` 0), claim_in_gold (a claim against all must-have and nice-to-have statements) or must_have and
    nice_to_have (a statement, `number`, against the whole answer; `claim_id` is "" there). `start` and `end` bound the
    window of the passage that decided. The three are None where no judgement was reached; `reason` then says why,
    else what the rules or the judge saw. `engine` names who judged.
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


@dataclass(slots=True)
class ClaimVerdict:
    """What all evidence together says of a claim: supported, contradicted, unsupported, or unscored with the `reason`.

    `evidence_id` is the passage that decided, `score` its probability of that verdict (of an unsupported claim: the
    highest of entailment that was reached, below the threshold).
    """

    claim_id: str
    answer_id: str
    verdict: str
    evidence_id: str = ""
    score: float | None = None
    reason: str = ""


@dataclass(slots=True)
class FactualityScore:
    """One answer in numbers, each in 0 to 1, None where it has no meaning; `unscored` says which and why.

    `support`, `contra` and `unsupported` are shares of the claims that have a verdict, over the best k passages
    (Support@5, Contra@5). `similarity` is the first term of FAS by the measure that the run names. Overlaps are the
    best over the references. `gold` is the share of must-have statements that the answer states, less what it
    violates; `gold_claims` the share of its claims that the statements support.
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
    unscored_claims: int = 0
    support: float | None = None
    contra: float | None = None
    unsupported: float | None = None
    similarity: float | None = None
    rouge_1: float | None = None
    rouge_2: float | None = None
    rouge_l: float | None = None
    bleu_4: float | None = None
    fas: float | None = None
    gold: float | None = None
    gold_claims: float | None = None
    flags: int = 0
    unscored: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Contraindication:
    """One thing that a label's Contraindications (34070-3) or Boxed Warning (34066-1) forbids, and where it says so.

    `kind` is population, condition, drug or procedure; `subject` is what is forbidden, in few words as the label has
    it, `names` how else an answer may name it. `statement` is the label's own sentence, in passage `marker` of
    `set_id`. `substances` are the active ingredients' names, `uniis` their codes, `aliases` all names of the drug.
    """

    id: str
    set_id: str
    drug: str
    aliases: list[str]
    substances: list[str]
    uniis: list[str]
    section: str
    kind: str
    subject: str
    names: list[str]
    statement: str
    marker: str
    source: str = ""


@dataclass(slots=True)
class SafetyFlag:
    """Something in an answer that may do harm; apart from FAS.

    `kind` is dose_missing, dose_unsupported, contraindicated_population, contraindicated_condition or
    contraindicated_drug. `text` is `answer[start:end]`, the words that raise it (empty for a dose that is missing);
    `because` is what the label says, with `set_id` and `marker`; `subject` the dose, population or drug in question.
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
