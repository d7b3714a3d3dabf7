"""Questions for several labels: how many of the drugs that are asked for are found, and how many found are wrong.

    python -m benchmarks.class_questions INDEX [--part dev] [--show]

INDEX is an index of labels. `marked/class_questions.jsonl` has questions with the moieties of which a drug must have
one, or with whole drugs; they are right by general knowledge, and were written before the labels were searched. A drug
belongs to the part `test` if one of its moieties does (see `drug_search`). Also prints how the models of
`question_scopes.tsv` do on each part of their data that they have not learned from. Exits 1 where the mean F1 is below
0.7, or the share of scopes found in a part below 0.75.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks import run
from benchmarks.drug_search import is_test
from fdarx_core.labels.question_scopes import (
    RoleTagger,
    ScopeClassifier,
    ScopedQuestion,
    frame_text,
    questions_for_one_drug,
    scoped_questions,
    section_classifier,
)
from fdarx_core.rag.group_question import asks_for_labels
from fdarx_core.rag.index import Index
from fdarx_core.rag.label_groups import find_label_groups
from fdarx_core.retrieval.index import ChunkFilter

QUESTIONS = Path(__file__).parent / "marked" / "class_questions.jsonl"
LEAST_F1, LEAST_SCOPES = 0.7, 0.75

Drug = frozenset[str]


def folds() -> Iterator[tuple[str, list[ScopedQuestion], list[ScopedQuestion], list[ScopedQuestion]]]:
    """Yield each part with the questions to learn from, those of the part, and questions for one drug left out."""
    rows, others = scoped_questions(), questions_for_one_drug()
    parts, writers = sorted({one.fold for one in rows}), sorted({one.fold for one in others})
    for at, part in enumerate(parts):
        left = writers[at :: len(parts)]
        learned = [one for one in (*others, *rows) if one.fold != part and one.fold not in left]
        yield part, learned, [one for one in rows if one.fold == part], [one for one in others if one.fold in left]


def measure_scopes() -> float:
    """Print the accuracy on each part left out, and return the lowest share of scopes found."""
    least = 1.0
    for part, learned, asked, others in folds():
        model, tagger, sections = ScopeClassifier(learned), RoleTagger(learned), section_classifier(learned)
        odds = [
            (one.group, sections.probabilities(frame_text(one.words, tagger.roles(one.words))))
            for one in asked
            if one.scope != "one"
        ]
        named = [group == max(odds, key=lambda name: odds[name]) for group, odds in odds]
        several = [one.scope != "one" for one in asked]
        found = np.mean([(model.scope(one.words) != "one") == own for one, own in zip(asked, several, strict=True)])
        wrong = sum(model.scope(one.words) != "one" for one in others)
        roles = [
            (tagged != "frame") == (role != "frame")
            for one in asked
            if one.scope != "one"
            for tagged, role in zip(tagger.roles(one.words), one.roles, strict=True)
        ]
        print(
            f"part {part}: for several labels or not, right for {found:.3f} of {len(asked)} questions, wrong for "
            f"{wrong} of {len(others)} for one drug; roles of words right for {np.mean(roles):.3f} of {len(roles)}, "
            f"sections for {np.mean(named):.3f} of {len(named)}"
        )
        least = min(least, float(found))
    return least


def main(place: str, /, *, part: Literal["dev", "test"] = "dev", show: bool = False) -> int:
    """Print the recall and precision of drugs; with `show`, those missed and wrong for each question."""
    least = measure_scopes()
    index = Index.open(place).reader
    every = {frozenset(moiety.lower() for moiety in label.moieties) for label in index.labels.values()}
    drugs = {one for one in every if one and any(map(is_test, one)) == (part == "test")}
    scores = list[tuple[float, float, float]]()
    for row in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines()):
        gold = {one for one in drugs if one & {*row.get("moieties", ())} or one in map(frozenset, row.get("drugs", ()))}
        if not gold:
            continue
        absent = [name for name, _ in index.label_drugs.absent(row["question"])]
        asks = asks_for_labels(row["question"], index.label_drugs.names.find(row["question"]), absent)
        result = find_label_groups(index, row["question"], ChunkFilter(), len(every)) if asks else None
        groups = result.groups if result else []
        found: set[Drug] = {frozenset(moiety.lower() for moiety in one.moieties) for one in groups} & drugs
        right = len(found & gold)
        recall, precision = right / len(gold), right / len(found) if found else 0.0
        scores.append((recall, precision, 2 * right / (len(gold) + len(found))))
        if show:
            missed, wrong = ([" + ".join(sorted(one)) for one in some] for some in (gold - found, found - gold))
            print(f"{recall:.2f} {precision:.2f} {row['question']}\n     missed {missed}\n     wrong {wrong}")
    recall, precision, f1 = np.mean(scores, axis=0)
    print(
        f"{len(scores)} questions on {len(drugs)} drugs of part {part}: mean recall {recall:.3f}, precision "
        f"{precision:.3f}, F1 {f1:.3f}"
    )
    return int(f1 < LEAST_F1 or least < LEAST_SCOPES)


if __name__ == "__main__":
    run(main)
