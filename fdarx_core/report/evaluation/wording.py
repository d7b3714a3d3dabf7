"""How the pages name what an evaluation's rows hold."""

from __future__ import annotations

from fdarx_core.records import Cell

SETTING_NAMES: dict[str, str] = {
    "closed_book": "Closed-book",
    "full_label": "Full label",
    "oracle": "Oracle",
    "retrieved": "Retrieved",
}
"""In the order in which the pages show settings; others follow as their users named them."""

SETTING_COLOURS: dict[str, str] = {"closed_book": "#8a8a94", "full_label": "#4477aa", "oracle": "#2f9c80"}
RETRIEVED_COLOURS = ("#d98b33", "#b35a9c", "#7f9f3f", "#c8553d", "#6a6fc4", "#3aa6c9", "#a07850")

GROUP_NAMES: dict[str, str] = {
    "factual": "Factual",
    "multihop": "Multi-hop",
    "refusal": "Refusal",
    "answerable": "Factual and multi-hop",
    "all": "All questions",
}

METRIC_NAMES: dict[str, str] = {
    "accuracy": "Accuracy",
    "false_refusal_rate": "False-refusal rate",
    "citation_f1": "Citation F1",
    "citation_f1_eq": "Citation F1, under equivalence",
    "refusal_f1": "Refusal F1",
    "recall_5": "recall@5",
    "eq_recall_5": "recall@5, under equivalence",
    "mrr": "MRR",
    "ndcg_10": "nDCG@10",
}

FAULT_MEANINGS: dict[str, str] = {
    "number_missing": "a number of the gold answer is missing",
    "number_contradicted": "a number differs from the gold answer's",
    "unsupported_number": "it states a number that the gold answer does not",
    "population_missing": "it leaves out patients whom the gold answer names",
    "unsupported_population": "it names patients whom the gold answer does not",
    "warning_missing": "a warning or contraindication of the gold answer is missing",
    "unsupported_warning": "it states a warning or contraindication that the gold answer does not",
    "polarity": "it affirms what the gold answer denies, or the reverse",
    "key_content_missing": "what matters in the gold answer is missing",
    "unsupported_content": "it says much that the gold answer does not",
    "abstained": "it claims nothing",
    "vague": "it only says where to look or whom to ask",
}
"""The judge's fixed names in words."""

STATUS_NAMES: dict[str, str] = {"done": "Done", "incomplete": "Incomplete", "skipped": "Skipped"}


def setting_name(setting: str, retriever: str = "") -> str:
    """ "Retrieved (bm25)"."""
    name = SETTING_NAMES.get(setting, setting)
    return f"{name} ({retriever})" if retriever else name


def setting_order(condition: tuple[str, str]) -> tuple[int, str, str]:
    """Sorts (setting, retriever) as the pages show them."""
    known = list(SETTING_NAMES)
    setting, retriever = condition
    return (known.index(setting) if setting in known else len(known), setting, retriever)


def condition_of(cell: Cell) -> tuple[str, str]:
    """The (setting, retriever) of a cell."""
    return cell.setting, cell.retriever


def plural(number: int, one: str, more: str = "") -> str:
    """ "1 passage", "3 passages"."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"
