"""What the questions of a build are about and how they are worded, counted part by part."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pyarrow.compute as pc

from fdarx_core.labels.drugs import drug_of
from fdarx_core.records import Product, QuestionAnswer, from_table
from fdarx_core.report.samples import RunPart

OPENING_WORDS = 4
"""Words of a question without a template that stand for its wording."""


@dataclass(slots=True)
class QuestionCounts:
    """Counts of the questions of a run; their size depends on the kinds of questions, not on their number.

    `drugs`, `wordings`, `kinds` and `difficulties` count questions by (active moieties, type), (wording, type), (answer
    kind, type) and (difficulty, type). `writers` counts by (type, endpoint), `judges` by endpoint; the endpoint is ""
    where no model was asked. `words` counts the words of all passages by core code; `asked` counts there the questions
    with gold passages, of which each passage has an equal part. `named` are the drugs of the labels, with or without
    questions.
    """

    drugs: Counter[tuple[str, str]] = field(default_factory=Counter)
    wordings: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    difficulties: Counter[tuple[str, str]] = field(default_factory=Counter)
    writers: Counter[tuple[str, str]] = field(default_factory=Counter)
    judges: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    asked: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    named: set[str] = field(default_factory=set)

    def add(self, part: RunPart) -> None:
        """Add the rows of a part; all rows of a label must be in one part."""
        drugs = drug_names(part)
        self.named |= set(drugs.values())
        passages = part["passages"]
        lengths = pc.count_substring_regex(passages["text"], r"\S+").to_pylist()
        codes = passages["core_code"].to_pylist()
        for code, words in zip(codes, lengths, strict=True):
            self.words[code] += words
        places = zip(passages["set_id"].to_pylist(), passages["doc_chunk_index"].to_pylist(), strict=True)
        code_of = dict(zip(places, codes, strict=True))
        for question in from_table(part["questions"], QuestionAnswer):
            self.drugs[drugs.get(question.set_id, question.drug_name), question.type] += 1
            self.wordings[wording_of(question), question.type] += 1
            self.kinds[question.answer_kind, question.type] += 1
            self.difficulties[question.difficulty, question.type] += 1
            self.writers[question.type, question.endpoint] += 1
            self.judges[question.judge] += 1
            gold = [(question.set_id, index) for index in question.gold_passages]
            for place in gold:
                self.asked[code_of.get(place, "")] += 1 / len(gold)


def drug_names(part: RunPart) -> dict[str, str]:
    """Return for each label, by set id, the names of its active moieties, or its printed name if it lists none."""
    columns = (part["labels"][name].to_pylist() for name in ("set_id", "drug_name", "products"))
    names: dict[str, str] = {}
    for set_id, printed, products in zip(*columns, strict=True):
        moieties = drug_of(*(Product(**product) for product in products or ())).moieties
        names[set_id] = " + ".join(sorted(moieties)).capitalize() or printed
    return names


def wording_of(question: QuestionAnswer) -> str:
    """Return the template of a question, or its opening words with {drug} for the name of the drug."""
    if question.template:
        return question.template
    text = question.question
    if question.drug_name:
        text = text.replace(question.drug_name, "{drug}")
    words = text.split()
    return " ".join(words[:OPENING_WORDS]) + ("\N{NO-BREAK SPACE}…" if len(words) > OPENING_WORDS else "")
