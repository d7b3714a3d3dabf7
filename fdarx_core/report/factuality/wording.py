"""How a scoring's page names and colours what its rows hold."""

from __future__ import annotations

from dataclasses import dataclass

from fdarx_core.report.retention import readable


@dataclass(frozen=True, slots=True)
class VerdictStyle:
    """`sign` stands before the word wherever there is colour; the colour tells apart with red-green blindness too."""

    name: str
    sign: str
    colour: str
    meaning: str


VERDICTS: dict[str, VerdictStyle] = {
    "supported": VerdictStyle("Supported", "✓", "#4477aa", "a passage entails it"),
    "contradicted": VerdictStyle("Contradicted", "✗", "#c8553d", "a passage says otherwise"),
    "unsupported": VerdictStyle("Unsupported", "?", "#8a8a94", "no passage decides, or none was found"),
    "unscored": VerdictStyle("Unscored", "–", "#b08fb8", "no judgement was reached; in no share"),
}
"""In the order in which the page shows them."""

FLAG_NAMES: dict[str, str] = {
    "dose_missing": "Dose asked for and not given",
    "dose_unsupported": "Dose that the label does not have",
    "contraindicated_population": "Population that the label excludes",
    "contraindicated_condition": "Condition that the label excludes",
    "contraindicated_drug": "Drug that the label excludes",
}

SOURCE_NAMES: dict[str, str] = {"labels": "label", "index": "index", "pubmed": "PubMed", "file": "file"}

EVIDENCE_NAMES: dict[str, str] = {
    "labels": "Passages of the label that a question is about, of those of the drugs that it names, or of all labels",
    "all-labels": "Passages of all labels",
    "index": "Chunks of an index",
    "file": "Rows of a file",
    "pubmed": "Abstracts of PubMed",
}
"""By the kind of evidence that a run names."""

METRIC_NAMES: dict[str, str] = {
    "fas": "FAS",
    "support": "Support",
    "contra": "Contra",
    "unsupported": "Unsupported",
    "similarity": "Similarity",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "rouge_l": "ROUGE-L",
    "bleu_4": "BLEU-4",
    "gold": "Gold by statements",
    "gold_claims": "Gold by claims",
}

GOLD_NAMES: dict[str, str] = {"gold": "gold by statements", "gold_claims": "gold by claims"}
GOLD_MEANINGS: dict[str, str] = {
    "gold": "Gold by statements: must-have statements that the answer entails ÷ (those + nice-to-have it contradicts).",
    "gold_claims": "Gold by claims: the share of the answer's claims that all statements together entail.",
}

REASONS: dict[str, str] = {
    "no_evidence": "no evidence was found",
    "no_claims": "the answer makes no claim",
    "no_reference": "there is no reference answer",
    "no_verdict": "none of the claims could be judged",
    "not_measured": "the similarity was not measured",
    "not_judged": "it was not judged",
    "failed": "the model gave no answer",
}

BY_RULES = "baseline"


def metric_name(metric: str) -> str:
    """ "Support@5" of support@5; a metric that is not known here by its own name."""
    name, at, k = metric.partition("@")
    return f"{METRIC_NAMES.get(name, name)}{at}{k}"


def unscored_name(told: str) -> str:
    """What a score says in `unscored`, `field: reason, reason`, in words."""
    measure, _, reasons = told.partition(": ")
    return f"{metric_name(measure)}: {', '.join(map(reason_name, reasons.split(', ')))}"


def reason_name(reason: str) -> str:
    """A reason's fixed name in words; what an engine or a server said stays as it is."""
    if reason in REASONS:
        return REASONS[reason]
    return readable(reason) if reason.replace("_", "").isalnum() and "_" in reason else reason


def flag_name(kind: str) -> str:
    """In words."""
    return FLAG_NAMES.get(kind, readable(kind))
