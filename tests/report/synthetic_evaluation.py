"""A small evaluation's run directory made up from a seed: 3 models, one of which fails, 4 settings, 2 retrievers."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from fdarx_core.evaluation.figures import CellKey, length_edges
from fdarx_core.evaluation.scoring import question_features, score, score_ranking
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records import (
    NO_ANSWER,
    Difference,
    Equivalence,
    Figure,
    Grade,
    LabelSummary,
    Passage,
    Prediction,
    QuestionAnswer,
    Ranking,
    RetrievalScore,
    Score,
    SettingProgress,
    content_id,
    to_table,
)
from fdarx_core.storage import RunDirectory, write_records
from tests.evaluation.whole_tables import comparisons, figures, filled_cells, retrieval_figures

RETRIEVERS = ("bm25", "cosine")
ASKED = (("closed_book", ""), ("full_label", ""), ("oracle", ""), *(("retrieved", name) for name in RETRIEVERS))
MODELS = {"steady-70b": 0.75, "hasty-8b": 0.4}
BROKEN = "broken-14b"
"""Each of its requests failed."""
DRUGS = ("Abacorin", "Benzolex", "Cardivane", "Dolomerin", "Exafenac", "Fluvorine")
SECTIONS = (
    ("34068-7", "DOSAGE AND ADMINISTRATION", "The recommended starting dose of {drug} is {n} mg once daily."),
    ("34070-3", "CONTRAINDICATIONS", "{drug} is contraindicated in patients with creatinine clearance < {n} mL/min."),
    ("34084-4", "ADVERSE REACTIONS", "Rash & pruritus occurred in {n} % of patients treated with {drug}."),
    ("43682-4", "CLINICAL PHARMACOLOGY", "Steady state of {drug} is reached after {n} days of dosing."),
)
FAULTS = ("number_contradicted", "key_content_missing", "polarity", "population_missing")


class SyntheticEvaluation:
    """Rows are made label by label; figures, comparisons and counts come from the evaluation's own functions."""

    def __init__(self, root: Path, labels: int = 6, seed: int = 0) -> None:
        config = {"benchmark": "runs/made-up", "judge": "baseline", "seed": seed, "models": [*MODELS, BROKEN]}
        config |= {"settings": ["closed_book", "full_label", "oracle", "retrieved"], "retrievers": list(RETRIEVERS)}
        versions = {"fdarx": "0.1.0", "python": "3.11.9"}
        self.run = RunDirectory.begin(str(root), job="evaluate", config=config, versions=versions)
        self.random = Random(seed)
        self.scores: dict[CellKey, list[Score]] = defaultdict(list)
        self.found: dict[str, list[RetrievalScore]] = defaultdict(list)
        for number in range(labels):
            self._write_label(number)
        self._write_tables()

    def finish(self) -> RunDirectory:
        self.run.finish(self.summary())
        return self.run

    def summary(self) -> dict[str, Any]:
        return {"timings": {"retrieve": 0.4, "answer": 12.5}, "overlap": "METEOR without WordNet: no synonyms."}

    def _write_label(self, number: int) -> None:
        set_id, drug = f"set-{number:04d}", DRUGS[number % len(DRUGS)]
        self.passages = make_passages(set_id, drug, self.random)
        subject = LabelSummary(set_id, drug, True, len(self.passages), 4000 * (number + 1))
        questions = make_questions(set_id, drug, self.passages)
        equivalences = [Equivalence(q.id, set_id, q.gold_passages[:1], [5], ["near_duplicate"]) for q in questions[:1]]
        self._put("subjects", number, [subject], LabelSummary)
        self._put("passages", number, self.passages, Passage)
        self._put("questions", number, questions, QuestionAnswer)
        self._put("equivalences", number, equivalences, Equivalence)
        self.same = {one.question_id: one for one in equivalences}
        rankings = {(q.id, name): self._rank(q, name) for q in questions for name in RETRIEVERS}
        self._score_rankings(subject, questions, rankings)
        for model in [*MODELS, BROKEN]:
            self._answer_all(model, number, subject, questions, rankings)

    def _answer_all(
        self,
        model: str,
        number: int,
        subject: LabelSummary,
        questions: list[QuestionAnswer],
        rankings: dict[tuple[str, str], Ranking],
    ) -> None:
        predictions, grades = [], []
        for setting, retriever in ASKED:
            for question in questions:
                if question.type == "refusal" and setting in ("closed_book", "oracle"):
                    continue
                shown = self._shown(question, setting, rankings.get((question.id, retriever)))
                prediction = self._answer(model, question, (setting, retriever), shown)
                grade = self._grade(question, prediction)
                predictions.append(prediction)
                grades.append(grade)
                described = question_features(question, subject, {p.doc_chunk_index: p for p in self.passages})
                row = score(described, question, prediction, grade, self.same.get(question.id))
                self.scores[CellKey(model, setting, retriever)].append(row)
        self._put(f"predictions/{model}", number, predictions, Prediction)
        self._put(f"grades/{model}", number, grades, Grade)

    def _shown(self, question: QuestionAnswer, setting: str, ranking: Ranking | None) -> list[int]:
        if setting == "retrieved" and ranking is not None:
            return ranking.ranked[:3]
        whole = [passage.doc_chunk_index for passage in self.passages]
        return {"closed_book": [], "oracle": question.gold_passages}.get(setting, whole)

    def _answer(self, model: str, question: QuestionAnswer, asked: tuple[str, str], shown: list[int]) -> Prediction:
        row_id = content_id(model, *asked, question.id)
        said = Prediction(row_id, question.id, question.set_id, model, *asked, shown=shown)
        if model == BROKEN:
            said.outcome, said.reason = "failed", "server_error"
            return said
        said.prompt_tokens, said.completion_tokens = 200 + 40 * len(shown), 30
        said.latency_s, said.cost = self.random.random(), 0.0004 if model == "steady-70b" else 0.00005
        chance = self.random.random()
        if chance < 0.05:
            said.outcome, said.reason, said.text = "unparsed", "no_answer", "I think that, well, "
        elif chance < (0.6 if question.type == "refusal" else 0.15):
            said.outcome, said.text = "refused", "NOT_ANSWERABLE"
        else:
            said.answer = self._say(question, self.random.random() < MODELS[model])
            said.cited = (
                self.random.sample(shown, min(2, len(shown))) if asked[0] in ("full_label", "retrieved") else []
            )
        return said

    def _say(self, question: QuestionAnswer, right: bool) -> str:
        return question.answer if right else f"The dose of {question.drug_name} is {self.random.randint(200, 900)} mg."

    def _grade(self, question: QuestionAnswer, said: Prediction) -> Grade:
        grade = Grade(said.id, said.question_id, said.set_id, "unscored", said.reason, judge="rule")
        if said.outcome == "refused":
            grade.outcome, grade.reason = "not_attempted", "refused"
        elif said.outcome == "answered" and question.type == "refusal":
            grade.outcome, grade.reason = "incorrect", "answered_unanswerable"
        elif said.outcome == "answered":
            grade.judge = "baseline"
            right = said.answer == question.answer
            grade.outcome = "correct" if right else "incorrect"
            grade.reason = "" if right else self.random.choice(FAULTS)
            grade.detail = "the numbers are there" if right else "the answer says 400 mg, the reference 25 mg"
        return grade

    def _rank(self, question: QuestionAnswer, retriever: str) -> Ranking:
        ranked = [passage.doc_chunk_index for passage in self.passages]
        self.random.shuffle(ranked)
        if retriever == "bm25" and question.gold_passages and self.random.random() < 0.6:
            ranked.remove(question.gold_passages[0])
            ranked.insert(0, question.gold_passages[0])
        return Ranking(question.id, question.set_id, retriever, ranked[:10])

    def _score_rankings(
        self, subject: LabelSummary, questions: list[QuestionAnswer], rankings: dict[tuple[str, str], Ranking]
    ) -> None:
        by_index = {passage.doc_chunk_index: passage for passage in self.passages}
        for question in questions:
            described = question_features(question, subject, by_index)
            for name in RETRIEVERS:
                row = score_ranking(described, question, rankings[question.id, name], self.same.get(question.id))
                if row is not None:
                    self.found[name].append(row)

    def _write_tables(self) -> None:
        tables = {key: to_table(rows, Score) for key, rows in self.scores.items()}
        found = {name: to_table(rows, RetrievalScore) for name, rows in self.found.items()}
        edges = length_edges(tables.values())
        rows = [one for table in tables.values() for one in figures(table, seed=0, resamples=100, edges=edges)]
        rows += [one for table in found.values() for one in retrieval_figures(table, seed=0, resamples=100)]
        write_records(self.run.file("metrics.parquet"), rows, Figure)
        whole = {key: table for key, table in tables.items() if key[0] != BROKEN}
        compared = comparisons(whole, seed=0, resamples=100, flips=200)
        write_records(self.run.file("comparisons.parquet"), compared, Difference)
        write_records(self.run.file("cells.parquet"), filled_cells(self._cells(tables), tables), SettingProgress)

    def _cells(self, tables: dict[CellKey, pa.Table]) -> list[SettingProgress]:
        cells = [SettingProgress(*key, "done", due=table.num_rows) for key, table in tables.items()]
        for cell in cells:
            if cell.model == BROKEN:
                cell.status, cell.reason = "incomplete", "the server answered 500 to every request"
        return cells

    def _put(self, kind: str, number: int, rows: list[Any], record: type) -> None:
        write_records(self.run.part(kind, number), rows, record)


def make_passages(set_id: str, drug: str, random: Random) -> list[Passage]:
    """Eight passages, two of each section."""
    passages = []
    for at in range(2 * len(SECTIONS)):
        code, title, text = SECTIONS[at % len(SECTIONS)]
        said = text.format(drug=drug, n=random.randint(2, 90))
        passages.append(Passage(set_id, at, at // len(SECTIONS), code, code, str(at % 4 + 1), title, title, said))
    return passages


def make_questions(set_id: str, drug: str, passages: list[Passage]) -> list[QuestionAnswer]:
    """Six factual, three multi-hop and three refusal questions."""
    questions = []
    for at in range(12):
        kind = ("factual", "factual", "multihop", "refusal")[at % 4]
        gold = {"factual": [at % 8], "multihop": [at % 8, (at + 3) % 8], "refusal": []}[kind]
        asked = f"What does the label of {drug} say on point {at} of {passages[at % 8].section_title.lower()}?"
        answer = " ".join(passages[index].text for index in gold) or NO_ANSWER
        questions.append(
            QuestionAnswer(
                content_id(set_id, str(at)), kind, kind, "section", TOPICS[at % len(TOPICS)], set_id, drug, asked,
                answer, gold, [passages[index].section_code for index in gold], [True] * len(gold),
                entity="myasthenia gravis" if kind == "refusal" else "",
            )
        )  # fmt: skip
    return questions


def make_evaluation(root: Path, labels: int = 6, seed: int = 0) -> RunDirectory:
    """A finished run."""
    return SyntheticEvaluation(root, labels, seed).finish()
