"""Factual questions from one passage by rules, the baseline's answer to the task generate_factual."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.tokens import clean_label_text, decapitalise, plain_case, with_full_stop
from fdarx_core.generation.library import MAX_ANSWER, MIN_ANSWER, any_of, has_right_length, load_library
from fdarx_core.generation.passage_reader import (
    PassageOutline,
    QuestionBlock,
    SentenceUnit,
    TableRow,
    ask,
    is_about,
    sentence_context,
    sound,
)
from fdarx_core.generation.question_rules import QuestionCandidate, apply_rule, opening_statement, question_rules

_IMPACT = re.compile(r"^(?:clinical (?:impact|effect|implication)s?|(?:clinical )?effects?|clinical comment.*)$", re.I)
_INTERVENTION = re.compile(
    r"^(?:intervention|prevention (?:or|and) management|prevention/management|management|recommendation)s?$", re.I
)
_COMPARED = re.compile(r"placebo|vehicle|mg\b|%|\bN\s?=", re.I)
_IMPRINT = re.compile(r"\b(?:Manufactured|Distributed|Marketed|trademarks?|Revised|approved by the U)\b", re.I)
_NDC = re.compile(r"\b\d{4,5}-\d{3,4}-\d{1,2}\b")
_SIZE = re.compile(r"\b(?:bottles?|cartons?|blisters?|packs?|box(?:es)?|unit.dose packages?) of \d+\b", re.I)
_STRENGTH = re.compile(r"\b\d[\d,.]*\s?(?:mg|mcg|g|%)(?:\s?/\s?\d[\d.]*\s?(?:mg|mL|mcg))?")
_SYSTEM = re.compile(
    rf"^(?P<system>(?:{any_of('body_systems')})(?: systems?| disorders?| tract)?)\s?(?::|–|—|-)\s+"
    r"(?P<list>[A-Za-z].{6,500})$",
    re.I,
)


def table_candidates(reading: PassageOutline, context: str, drug: str, code: str) -> Iterator[QuestionCandidate]:
    """Yield questions on tables and lists. Rows with equal headers under one caption are ambiguous and left out."""
    seen = Counter((row.header.lower(), row.caption) for row in reading.rows)
    for row in reading.rows:
        if len(row.cells) == 1:
            yield from _interaction(row, drug)
        elif seen[row.header.lower(), row.caption] == 1:
            yield from _values(row, drug, code)
    for block in reading.blocks:
        yield from _own_question(block, drug)
    if code in ("34084-4", "90374-0", "90375-7"):
        yield from _systems(reading.units, drug)
    if code == "34069-5":
        yield from package_candidates(context, drug)


def package_candidates(context: str, drug: str) -> Iterator[QuestionCandidate]:
    """Yield questions on NDCs by package size, if the passage has one strength and each size once."""
    if "NDC" not in context or len(strengths := set(_STRENGTH.findall(context))) != 1:
        return
    lines = [clean_label_text(line).replace(" | ", ", ") for line in context.split("\n") if _NDC.search(line)]
    sizes = [
        (size.group().lower(), line) for line in lines if len(_NDC.findall(line)) == 1 and (size := _SIZE.search(line))
    ]
    seen = Counter(name for name, _ in sizes)
    for order, (name, line) in enumerate(sizes):
        if seen[name] == 1 and len(line) <= 300:
            core = f"What NDC does the {drug} label give for the {min(strengths)} strength in {name}"
            yield QuestionCandidate(f"{core}?", with_full_stop(line), "numeric", 2.0, 3000 + order)


def _interaction(row: TableRow, drug: str) -> Iterator[QuestionCandidate]:
    """Yield questions on interaction tables in the PLR layout: impact and intervention for a drug class."""
    partner, text = decapitalise(plain_case(row.group, drug), drug), row.cells[0]
    if not partner or len(partner) > 110 or len(text) > MAX_ANSWER or re.match(r"(?:These|This|Such|It|They)\b", text):
        return
    if _IMPACT.match(row.header):
        core = f"What clinical impact does the {drug} label describe for concomitant use with {partner}"
    elif _INTERVENTION.match(row.header):
        core = f"What does the {drug} label recommend to manage concomitant use with {partner}"
    else:
        return
    yield QuestionCandidate(ask(core, drug), with_full_stop(text), "factual", 2.9, 1000 + row.order)


def _values(row: TableRow, drug: str, code: str) -> Iterator[QuestionCandidate]:
    header, answer = plain_case(row.header, drug), "; ".join(row.cells)
    named = (
        all(": " in cell for cell in row.cells)
        and len(row.cells) <= 5
        and row.header not in answer
        and ":" not in row.header
    )
    if not named or not sound(header, 70) or len(header) < 3 or header[:1].isdigit() or not number_strings(answer):
        return
    if (re.search(r"\d", header) and not row.caption) or len(answer) > 300:
        return
    if 8 <= len(row.caption) <= 90:
        core = f'In the {drug} label\'s table "{row.caption}", what is given for {header}'
    elif code == "34084-4" and not row.caption and _COMPARED.search(answer):
        what = decapitalise(header, drug)
        core = f"What frequencies does the adverse reactions table of the {drug} label give for {what}"
    else:
        return
    yield QuestionCandidate(f"{core}?", with_full_stop(f"{row.header}: {answer}"), "numeric", 1.8, 1000 + row.order)


def _own_question(block: QuestionBlock, drug: str) -> Iterator[QuestionCandidate]:
    """Yield the question of a Medication Guide ("How should I store X?"), reworded for a patient."""
    question, lines, order = block
    question = question.rstrip("?")
    for old, new in load_library("sentences")["rewordings"].items():
        question = question.replace(old, new)
    lines = [line for line in lines if not _IMPRINT.search(line)]
    answer = " ".join(with_full_stop(line.lstrip("-• ")) if line[-1:] != ":" else line for line in lines)
    if (
        re.search(r"\byou(?:r)?\b", question)
        or not MIN_ANSWER <= len(answer) <= MAX_ANSWER
        or answer.count(":") > 1
        or " | " in answer
    ):
        return
    yield QuestionCandidate(ask(question, drug), with_full_stop(answer), "factual", 2.4, 2000 + order)


def _systems(units: list[SentenceUnit], drug: str) -> Iterator[QuestionCandidate]:
    lists = [(unit, match) for unit in units if (match := _SYSTEM.match(_joined(unit)))]
    seen = Counter(match["system"].lower() for _, match in lists)
    for unit, found in lists:
        if (
            seen[found["system"].lower()] == 1
            and ": " not in found["list"]
            and ("," in found["list"] or ";" in found["list"])
        ):
            core = f"Which {_reactions(found['system'])} does the {drug} label list"
            yield QuestionCandidate(f"{core}?", with_full_stop(found["list"].replace("*", "")), "list", 2.2, unit.order)


def _joined(unit: SentenceUnit) -> str:
    return f"{unit.heading}: {unit.text}" if unit.heading and not unit.text.startswith(unit.heading) else unit.text


def _reactions(system: str) -> str:
    low = system.lower()
    if low.startswith("body as") or low.endswith(("disorders", "senses")):
        return f'adverse reactions of the group "{low}"'
    return f"adverse reactions of the {low}" if low.endswith(("system", "tract")) else f"{low} adverse reactions"


def factual_questions(slots: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return up to `k` (question, answer, kind) from one passage; kind is factual, list or numeric.

    Slots: drug, section_title, section_path, section_code (core LOINC code), context, k. The answers are sentences of
    the passage. The list is empty if no rule is certain.
    """
    drug, context = slots["drug"].strip(), slots["context"]
    if not drug or slots["k"] < 1:
        return []
    reading = PassageOutline(context)
    about_drug = is_about(drug, slots["section_path"], context)
    title, code = slots["section_title"], slots["section_code"]
    scenes = (sentence_context(unit, drug, title, code, about_drug) for unit in reading.units)
    made = (apply_rule(rule, scene) for scene in scenes if scene for rule in question_rules())
    candidates = [*filter(None, made), *table_candidates(reading, context, drug, code)]
    fit = [one for one in _merge_same_question(candidates) if _fits(one, drug, context)]
    if not fit and (last := opening_statement(reading, drug, title, code)):
        fit = [one for one in [last] if _fits(one, drug, context)]
    return [(one.question, one.answer, one.kind) for one in _choose(fit, slots["k"])]


def _merge_same_question(candidates: list[QuestionCandidate]) -> list[QuestionCandidate]:
    """Return one candidate per question; answers of the same question are joined."""
    kept: dict[str, QuestionCandidate] = {}
    for one in candidates:
        first = kept.get(one.question)
        if first is None:
            kept[one.question] = one
        elif one.answer not in first.answer:
            first.answer = f"{first.answer} {one.answer}"
    return list(kept.values())


def _fits(one: QuestionCandidate, drug: str, context: str) -> bool:
    return (
        has_right_length(one.question, one.answer)
        and drug.lower() in one.question.lower()
        and number_strings(one.answer) <= number_strings(context)
    )


def _choose(candidates: list[QuestionCandidate], k: int) -> list[QuestionCandidate]:
    """Return the k best candidates without repeated answers, in the order of the passage."""
    chosen: list[QuestionCandidate] = []
    for one in sorted(candidates, key=lambda one: (-one.weight, one.order, one.question)):
        if len(chosen) < k and not any(one.answer in other.answer or other.answer in one.answer for other in chosen):
            chosen.append(one)
    return sorted(chosen, key=lambda one: one.order)
