"""The page of all answers of an evaluation, right and wrong: a list to search, filter and mark, in one file.

Each question is shown with its gold answer and the answers of all models side by side. The list is one compressed
block of JSON. What a reader sees of an opened answer (its explanation, the gold passages and the cited passages) is in
further blocks, each of a group of labels, which the script decompresses when it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.gold import PassageKey, eq_hits, equivalents_by_gold, gold_keys, passage_keys
from fdarx_core.evaluation.scoring import FAULTS
from fdarx_core.evaluation.settings import GIVEN_CONTEXT, REFERENCE
from fdarx_core.evaluation.tables import BASELINE
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Equivalence, Grade, Passage, Prediction, QuestionAnswer, SettingProgress, content_id
from fdarx_core.records.question_types import UNANSWERABLE_TYPES
from fdarx_core.report.browse import BrowseTable, chosen_labels
from fdarx_core.report.evaluation_figures import is_graded_file
from fdarx_core.report.page_engine import PAGE_WORDS, group_name, readable, render_page, setting_name, template_macros
from fdarx_core.storage import RunDirectory, read_records, read_table


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer: its kind (a key of `KINDS`), the prediction, and the grade if it has one."""

    kind: str
    prediction: Prediction
    grade: Grade | None


@dataclass(slots=True)
class AnswerSources:
    """Questions by id, passages by label and index, and the equivalent passages by question."""

    questions: dict[str, QuestionAnswer] = field(default_factory=dict)
    passages: dict[PassageKey, Passage] = field(default_factory=dict)
    equivalences: dict[str, Equivalence] = field(default_factory=dict)

    def equivalent_gold(self, question: QuestionAnswer, place: PassageKey) -> tuple[int, str] | None:
        """Return the gold passage that states the same as this one, and the reason."""
        row = self.equivalences.get(question.id)
        same = zip(row.members, row.gold, row.why, strict=True) if row and place[0] == question.set_id else ()
        return next(((gold, why) for member, gold, why in same if member == place[1]), None)

    def gold_among(self, question: QuestionAnswer, places: Sequence[PassageKey]) -> int:
        """Return how many gold passages are among the places, themselves or by a passage that states the same."""
        return eq_hits(places, gold_keys(question), equivalents_by_gold(self.equivalences.get(question.id)))


def cited_places(prediction: Prediction) -> list[PassageKey]:
    """Return the cited passages in the order of the citations."""
    return passage_keys(prediction.set_id, prediction.cited, prediction.cited_set_ids)


def prompt_passages(prediction: Prediction) -> list[PassageKey]:
    """Return the passages of the prompt in its order."""
    return passage_keys(prediction.set_id, prediction.shown, prediction.shown_set_ids)


_ANSWERABLE_FAULTS = ("incorrect", "not_attempted", "false_refusal")
"""The faults in answers to answerable questions; kinds without a verdict do not show how passages were read."""


def _worded(macro: str, *about: Any) -> str:
    """Return the sentences of a macro of the template."""
    return " ".join(str(getattr(template_macros("answers.txt.j2"), macro)(*about)).split())


def classify_evidence(answer: JudgedAnswer, question: QuestionAnswer, sources: AnswerSources) -> tuple[str, str]:
    """Return whether the evidence was in the prompt, and a sentence about this answer, "" if there is nothing to say.

    The former is a key of `evidence_shown` in names.yaml.
    """
    prediction, gold = answer.prediction, gold_keys(question)
    if not question.answerable:
        return "unanswerable", ""
    if prediction.setting == "closed_book":
        return "memory", "No passage was shown: the model had only its memory."
    if answer.kind not in (*_ANSWERABLE_FAULTS, "correct") or not prediction.shown or not gold:
        return "unknown", ""
    shown = prompt_passages(prediction)
    found = sources.gold_among(question, shown)
    if answer.kind == "correct":
        seen = found == len(gold)
        return ("seen", "") if seen else ("unseen", "The prompt did not hold every gold passage.")
    key = "shown" if found == len(gold) else "partly" if found else "missing"
    alike = found - sum(place in shown for place in gold)
    return key, _worded("evidence", key, answer, len(gold), found, alike)


def asks_for_citations(setting: str) -> bool:
    """Return whether a setting asks for citations; settings that the user named may."""
    return setting not in ("closed_book", "oracle", REFERENCE, GIVEN_CONTEXT)


def citation_note(prediction: Prediction, question: QuestionAnswer, sources: AnswerSources) -> str:
    """Return a sentence that counts the citations, "" if none were asked for or there is no answer."""
    if prediction.outcome != "answered" or not asks_for_citations(prediction.setting):
        return ""
    cited = cited_places(prediction)
    marks = [citation_mark(question, key, sources)[0] for key in cited]
    found = sources.gold_among(question, cited)
    return _worded("citations", marks, prediction.cited_unknown, len(gold_keys(question)), found)


def citation_mark(question: QuestionAnswer, place: PassageKey, sources: AnswerSources) -> tuple[str, str]:
    """Return gold, same or "" for a cited passage, with the words for it."""
    if place in gold_keys(question):
        return "gold", "gold"
    if replaced := sources.equivalent_gold(question, place):
        return "same", f"states the same as PASSAGE_{replaced[0]:04d} ({readable(replaced[1])})"
    return "", "not gold"


def detail_of(answer: JudgedAnswer) -> str:
    """Return what the judge said, or why there is no answer."""
    grade = answer.grade
    if answer.kind in ("hallucinated", "false_refusal", "declined"):
        return ""
    if not grade or not grade.detail:
        return readable(answer.prediction.reason)
    lead = PAGE_WORDS["detail_leads"].get(grade.reason, "")
    return f"{lead}{grade.detail}" if grade.judge == BASELINE else f"“{grade.detail}”"


def reason_of(answer: JudgedAnswer) -> str:
    """Return the reason to filter by: that of the judge, or of a missing or unreadable reply; "" without one."""
    if answer.kind in ("failed", "unparsed"):
        return answer.prediction.reason
    return "" if answer.grade is None or answer.grade.reason == "unnamed" else answer.grade.reason


KINDS = PAGE_WORDS["answers"]
"""The kinds of answers, as the page names them."""

NO_VERDICT = frozenset({"unparsed", "unscored", "failed"})
"""Kinds that are in no accuracy, because they do not show how good an answer is."""


def kind_of(question_type: str, outcome: str, grade: str) -> str:
    """Return a key of `KINDS`; `grade` is "" where there is none."""
    if outcome in ("failed", "unparsed"):
        return outcome
    if question_type in UNANSWERABLE_TYPES:
        return "hallucinated" if outcome == "answered" else "declined"
    if outcome == "refused":
        return "false_refusal"
    return grade or "unscored"


MOST_ANSWERS = 20_000
"""Answers of the page; of a larger evaluation it has the answers on some labels, which a hash picks."""
CITED_SHOWN = 12
"""Cited passages that are shown with their text."""
FIELDS = ("model", "setting", "type", "kind", "reason", "evidence", "topic")
"""The fields by which the page filters, in its order."""
_QUESTION_COLUMNS = ("id", "question", "answer", "drug_name", "category", "set_id")


def count_answers(run: RunDirectory, models: Iterable[str], types: Mapping[str, str]) -> Counter[tuple[CellKey, str]]:
    """Count the answers by cell and kind. One part of the run is in memory at a time.

    Args:
        run: the evaluation.
        models: the models.
        types: the type of each question, by its id.
    """
    counts: Counter[tuple[CellKey, str]] = Counter()
    for model in models:
        for part in run.parts(f"predictions/{model}"):
            graded = run.file(f"grades/{model}/{part.name}")
            grades = read_table(graded, ["prediction_id", "outcome"]).to_pylist() if graded.exists() else []
            verdicts = {row["prediction_id"]: row["outcome"] for row in grades}
            for row in read_table(part, ["id", "question_id", "outcome", "setting", "retriever"]).to_pylist():
                kind = kind_of(types[row["question_id"]], row["outcome"], verdicts.get(row["id"], ""))
                counts[CellKey(model, row["setting"], row["retriever"]), kind] += 1
    return counts


def _add_answer(table: BrowseTable, answer: JudgedAnswer, at: int, sources: AnswerSources) -> None:
    """Add an answer to the question at a position, with its explanation, its gold passages and the cited passages."""
    prediction, question = answer.prediction, sources.questions[answer.prediction.question_id]
    shown, cited = prompt_passages(prediction), cited_places(prediction)
    evidence, about_evidence = classify_evidence(answer, question, sources)
    reason = reason_of(answer)
    unnamed = answer.grade is not None and answer.grade.reason == "unnamed"  # it has none of the names of `FAULTS`

    def keep(place: PassageKey) -> int:
        passage = sources.passages[place]
        named = passage.section_path or passage.section_title
        title = named or SECTION_NAMES.get(passage.core_code, "untitled section")
        section = f"{passage.section_number} {title}" if passage.section_number else title
        return table.keep_passage(place, passage.text, passage.marker, section, passage.set_id)

    by_context = prediction.setting == GIVEN_CONTEXT
    gold = [place for place in (shown if by_context else gold_keys(question)) if place in sources.passages]
    details: dict[str, Any] = {
        "finding": _worded("finding", answer, question, reason, FAULTS.get(reason, readable(reason))),
        "detail": detail_of(answer),
        "notes": list(filter(None, (about_evidence, citation_note(prediction, question, sources)))),
        "gold": [[keep(place), place in shown if shown else None] for place in gold],
        "context": by_context,
        "answerable": question.answerable,
        "cited": None,
    }
    listed = [place for place in cited[:CITED_SHOWN] if place in sources.passages]
    if asks_for_citations(prediction.setting):
        passages = [[keep(place), *citation_mark(question, place, sources)] for place in listed]
        details["cited"] = {"passages": passages, "more": len(cited) - len(listed)}
    texts = {
        "id": prediction.id,
        "question": at,
        "answer": prediction.answer if prediction.outcome == "answered" else prediction.text,
    }
    values = {
        "model": prediction.model,
        "setting": setting_name(prediction.setting, prediction.retriever),
        "type": group_name(question.type),
        "kind": KINDS[answer.kind],
        "reason": readable(reason) or ("In the judge’s own words" if unnamed else "None"),
        "evidence": PAGE_WORDS["evidence_shown"][evidence],
        "topic": question.category or "No topic",
    }
    table.add_row(texts, values, details)


def answers_page(run: RunDirectory, summary: Mapping[str, Any] | None = None, most_answers: int = MOST_ANSWERS) -> str:
    """Return the page of all answers of an evaluation. One part of the run is in memory at a time, beside the page.

    Args:
        run: the evaluation.
        summary: what `RunDirectory.finish` will add to run.json, for a page that is written before it.
        most_answers: the number of answers above which the page has only those on some labels.
    """
    info = {**run.info(), **(summary or {})}
    cells = list(read_records(run.file("cells.parquet"), SettingProgress))
    models = list(dict.fromkeys(cell.model for cell in cells))
    asked = (part for model in models for part in run.parts(f"predictions/{model}"))
    chosen, total = chosen_labels(asked, info["config"].get("seed", 0), most_answers)
    retrievers = sorted({cell.retriever for cell in cells} - {""})
    table, questions, label, marked = BrowseTable(("id", "question", "answer"), FIELDS), list[list[str]](), "", ""
    for part in run.parts("questions"):
        sources = _sources(run, part.name, retrievers, chosen)
        answers = _answers(run, models, part.name, sources)
        for question in sorted(sources.questions.values(), key=attrgetter("set_id", "type", "id")):
            if question.set_id != label:
                label = question.set_id
                table.begin_label()
            if question.id in answers:
                questions.append([getattr(question, name) for name in _QUESTION_COLUMNS])
                for answer in answers[question.id]:
                    _add_answer(table, answer, len(questions) - 1, sources)
                    marked = content_id(marked, answer.prediction.id, answer.prediction.text)
    about = {
        "run": marked,  # the reader's marks are those of these answers, wherever the run lies
        "right": [KINDS[kind] for kind in ("correct", "declined", "supported")],
        "no_verdict": [KINDS[kind] for kind in KINDS if kind in NO_VERDICT],
        "cut": [KINDS["unparsed"], readable("truncated_reply")],
        "graded": is_graded_file(info),
    }
    return render_page(
        "answers.html.j2",
        info=info,
        graded_file=is_graded_file(info),
        total=total,
        labels=len(chosen),
        fields={name: PAGE_WORDS["answer_fields"][name] for name in FIELDS},
        views=PAGE_WORDS["answer_views"],
        marks=PAGE_WORDS["answer_marks"],
        **table.packed(questions=questions, about=about),
    )


def _sources(run: RunDirectory, name: str, retrievers: Iterable[str], chosen: frozenset[str]) -> AnswerSources:
    """Return the questions on the chosen labels of a part, and all passages that the part has."""
    sources = AnswerSources()
    asked = read_records(run.file(f"questions/{name}"), QuestionAnswer)
    sources.questions = {one.id: one for one in asked if one.set_id in chosen}
    elsewhere = [run.file(f"elsewhere/{retriever}/{name}") for retriever in retrievers]
    for file in (run.file(f"passages/{name}"), *elsewhere):
        if file.exists():
            sources.passages |= {(one.set_id, one.doc_chunk_index): one for one in read_records(file, Passage)}
    equal = run.file(f"equivalences/{name}")
    sources.equivalences = {one.question_id: one for one in read_records(equal, Equivalence)} if equal.exists() else {}
    return sources


def _answers(
    run: RunDirectory, models: Iterable[str], name: str, sources: AnswerSources
) -> dict[str, list[JudgedAnswer]]:
    """Return the answers of a part by question."""
    found: dict[str, list[JudgedAnswer]] = {}
    for model in models:
        file, graded = (run.file(f"{kind}/{model}/{name}") for kind in ("predictions", "grades"))
        grades = {row.prediction_id: row for row in read_records(graded, Grade)} if graded.exists() else {}
        for prediction in read_records(file, Prediction) if file.exists() else ():
            if question := sources.questions.get(prediction.question_id):
                grade = grades.get(prediction.id)
                kind = kind_of(question.type, prediction.outcome, grade.outcome if grade else "")
                found.setdefault(question.id, []).append(JudgedAnswer(kind, prediction, grade))
    return found
