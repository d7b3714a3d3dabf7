"""Candidate questions from a model's replies and from a label's Highlights. Source: FDARxBench §B.2, §B.3."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.stems import cover, term_weight
from fdarx_core.baseline.tokens import decapitalise, question_words, strip_references
from fdarx_core.generation.contexts import Context
from fdarx_core.generation.factual import factual_questions
from fdarx_core.generation.library import MAX_ANSWER, MIN_ANSWER, any_of, has_right_length, load_library
from fdarx_core.generation.passage_reader import running_title, telling_topic
from fdarx_core.generation.tasks import GENERATE_MULTIHOP, REPHRASE_REFUSAL, TASKS
from fdarx_core.labels.loinc import topic_of
from fdarx_core.llm import Unparsable
from fdarx_core.records import NO_ANSWER, Highlight, Label, Passage, QuestionAnswer, Reject, Response, content_id

STAGE = "generate"
_MAX_EVIDENCE = 5
_MIN_COVERED = 0.6
_MIN_SHARE = 0.2
_NOTICE = re.compile(rf"^(?:{any_of('notices')})", re.I)
_POINTER = re.compile(
    r"\s*(?:[.;(]\s*)?\bsee (?:the )?(?:full prescribing information|boxed warning|17)\b[^.]*\.?\)?", re.I
)
_LEAD_IN = re.compile(r"^([A-Z][^:.;]{2,90}?)\s*:\s*(?=\S)")
_INTRODUCES = re.compile(rf"\b(?:{any_of('introductions')})\s*:?$", re.I)


def parse_candidates(
    context: Context, response: Response, label: Label, passages: Sequence[Passage]
) -> list[QuestionAnswer] | Reject:
    """Return the questions in a response to a context, or a reject with the reason why there are none."""
    try:
        reply: Any = TASKS[context.task].parse(response)
    except Unparsable as error:
        return Reject(context.id, STAGE, error.reason, error.detail, label.set_id)
    gold = [passages[index] for index in context.passages]
    made_by = {
        "template": context.template,
        "entity": context.entity,
        "task": response.task,
        "task_version": response.task_version,
        "endpoint": response.endpoint,
        "response_key": response.key,
    }
    if context.task == REPHRASE_REFUSAL.name:
        made_by |= {"type": "refusal", "source": "refusal_template", "category": context.category}
        return [_question(label, reply.question, NO_ANSWER, gold, answer_kind="refusal", **made_by)]
    if not reply.items:
        where = " and ".join(f"{p.marker} {p.section_title}" for p in gold)
        return Reject(context.id, STAGE, "nothing_to_ask", where, label.set_id)
    made_by["category"] = topic_of(gold[0].core_code)
    if context.task == GENERATE_MULTIHOP.name:
        made_by |= {"type": "multihop", "source": "section_pair", "answer_kind": "multihop"}
        return [_question(label, item.question, item.answer, gold, **made_by) for item in reply.items]
    made_by |= {"type": "factual", "source": "section"}
    return [
        _question(label, item.question, item.answer, gold, answer_kind=item.type, **made_by) for item in reply.items
    ]


def _question(label: Label, question: str, answer: str, gold: Sequence[Passage], **fields: Any) -> QuestionAnswer:
    indices = [passage.doc_chunk_index for passage in gold]
    return QuestionAnswer(
        id=content_id(fields["type"], label.set_id, question, answer, ",".join(map(str, indices))),
        set_id=label.set_id,
        drug_name=label.drug_name,
        question=question,
        answer=answer,
        gold_passages=indices,
        gold_codes=[passage.section_code for passage in gold],
        **{"gold_has_answer": [True] * len(gold), **fields},
    )


def highlight_candidates(label: Label, passages: Sequence[Passage]) -> list[QuestionAnswer]:
    """Return factual questions on the Highlights, without a model: a statement is the answer, the body the evidence.

    There is one question a topic and one a heading, where the answer has at most 600 characters and passages support
    it. The baseline's rules write the question on a statement without a topic, under a heading too long for a question.
    The wording depends on set id and statement alone. All questions of a label differ.
    """
    by_code: dict[str, list[HighlightStatement]] = {}
    for statement in read_statements(label):
        by_code.setdefault(statement.code, []).append(statement)
    by_index = {passage.doc_chunk_index: passage for passage in passages}
    questions: dict[str, QuestionAnswer] = {}
    for code, group in by_code.items():
        if templates := load_library("highlights")["headings"].get(code):
            for question, answer, template in _drafts(label, group, templates):
                if (
                    question not in questions
                    and has_right_length(question, answer)
                    and (evidence := _evidence(answer, group, label, passages))
                ):
                    questions[question] = _question(
                        label, question, answer, [by_index[index] for index, _ in evidence],
                        type="factual", answer_kind="factual", source="highlights", category=templates["category"],
                        template=template, gold_has_answer=[has_answer for _, has_answer in evidence],
                    )  # fmt: skip
    return list(questions.values())


@dataclass(slots=True)
class HighlightStatement:
    """One statement of the Highlights. `topic` is "" where nothing names it; `references` are section numbers."""

    code: str
    topic: str
    parts: list[str]
    references: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(part if part.endswith((".", ":", ";", "!", "?")) else f"{part}." for part in self.parts)


def read_statements(label: Label) -> list[HighlightStatement]:
    """Return the statements of the Highlights in order; those of one heading on one topic are joined."""
    titles = {section.number: section.title for section in label.sections if "." in section.number}
    merged: dict[tuple[str, str], HighlightStatement] = {}
    plain: list[HighlightStatement] = []
    for one in _statements(label.highlights, titles):
        if not one.topic:
            plain.append(one)
        elif kept := merged.get((one.code, one.topic.lower())):
            kept.parts += one.parts
            kept.references += one.references
        else:
            merged[one.code, one.topic.lower()] = one
    return [*merged.values(), *plain]


def _statements(highlights: Iterable[Highlight], titles: dict[str, str]) -> Iterator[HighlightStatement]:
    """Yield a statement for each line, without notices and pointers; a line that ends with a colon names a group."""
    group, code = "", ""
    for one in highlights:
        whole = strip_references(one.text.replace("\n- ", "; ").replace(" | ", ": ")).replace(":; ", ": ")
        text = _POINTER.sub("", whole).strip().replace("..", ".")
        if one.code != code:
            group, code = "", one.code
        if not text or _NOTICE.match(text) or (text != whole and text.endswith(":")):
            continue
        if whole.endswith(":") and len(text.split()) <= 12 and not _INTRODUCES.search(text.rstrip(": ")):
            group = text.rstrip(": ")
            continue
        topic = _topic(one, text, group, titles)
        if text.removeprefix(topic).strip(" :.;,"):
            yield HighlightStatement(code, topic, [text], list(one.references))


def _topic(one: Highlight, text: str, group: str, titles: dict[str, str]) -> str:
    """Return the lead-in, within its group if any; else the group; else the title of the one section it refers to."""
    lead = _LEAD_IN.match(text)
    own = lead.group(1).strip() if lead and not _INTRODUCES.search(lead.group(1)) else ""
    if own:
        return f"{own} ({group})" if group else own
    if group:
        return group
    named = [titles[number] for number in one.references if titles.get(number)]
    return named[0] if len(named) == 1 and telling_topic(named[0], "") else ""


def _drafts(
    label: Label, group: list[HighlightStatement], templates: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Yield (question, answer, template) for the statements of one heading; the template is "" where a rule asks."""
    code, drug = group[0].code, label.drug_name
    whole = " ".join(one.text for one in group)
    asked_whole = MIN_ANSWER <= len(whole) <= MAX_ANSWER and (len(group) > 1 or not group[0].topic)
    if asked_whole:
        template = _pick(templates["whole"], label.set_id, code, whole)
        yield template.format(drug=drug), whole, template
    for one in group:
        if one.topic:
            template = _pick(templates["topic"], label.set_id, code, one.topic)
            topic = decapitalise(running_title(one.topic, drug), keep=drug)
            yield template.format(drug=drug, topic=topic), one.text, template
        elif not asked_whole:
            slots = {
                "drug": drug,
                "section_title": "",
                "section_path": drug,
                "section_code": code,
                "context": one.text,
                "k": 1,
            }
            for question, answer, _ in factual_questions(slots):
                yield question, answer, ""


def _pick(templates: Sequence[str], *content: str) -> str:
    return templates[int(content_id(*content), 16) % len(templates)]


def _evidence(
    answer: str, group: list[HighlightStatement], label: Label, passages: Sequence[Passage]
) -> list[tuple[int, bool]]:
    """Return the evidence of an answer, empty where the body does not support it."""
    references = [number for one in group if one.text in answer or answer in one.text for number in one.references]
    evidence = find_evidence(answer, group[0].code, references, label, passages)
    indices = [index for index, _ in evidence]
    texts = " ".join(one.text for one in passages if one.doc_chunk_index in indices)
    return evidence if number_strings(answer, thousands=False) <= number_strings(texts, thousands=False) else []


def find_evidence(
    answer: str, code: str, references: Sequence[str], label: Label, passages: Sequence[Passage]
) -> list[tuple[int, bool]]:
    """Return at most 5 passages as (doc_chunk_index, whether it has the answer), ascending; none where support is low.

    They are from the section with the LOINC code, narrowed to the referenced sections where these hold enough: all
    numbers of the answer and 60 % of its informative words. The passage with the largest share of the terms has the
    answer, and so has each with a fifth of them that no passage before it holds.
    """
    # Subsections may have codes of their own (8.1 Pregnancy), so the section's number counts as well as its code.
    numbers = {section.number for section in label.sections if section.code == code and section.depth == 0}
    section = [
        one
        for one in passages
        if one.core_code == code or any(number and _is_within(one.section_number, number) for number in numbers)
    ]
    narrowed = [one for one in section if any(_is_within(one.section_number, number) for number in references)]
    return _cover(answer, narrowed) or _cover(answer, section)


def _is_within(number: str, above: str) -> bool:
    return number == above or number.startswith(f"{above}.")


def _cover(answer: str, passages: Sequence[Passage]) -> list[tuple[int, bool]]:
    """Return the passages that `cover` chooses for the answer's terms, unless they leave out too much."""
    wanted = _terms(answer)
    held = [_terms(one.text) for one in passages]
    gains = cover(wanted, held, _MAX_EVIDENCE)
    missing = wanted.difference(*(held[place] for place in gains))
    if not gains or any(term[:1].isdigit() for term in missing) or len(missing) > (1 - _MIN_COVERED) * len(wanted):
        return []
    whole, most = term_weight(wanted), max(gains.values())
    return sorted(
        (passages[place].doc_chunk_index, gain == most or gain / whole >= _MIN_SHARE) for place, gain in gains.items()
    )


def _terms(text: str) -> frozenset[str]:
    plain = (word.rstrip(".,'’").removesuffix("s") for word in question_words(text) if not word[0].isdigit())
    return number_strings(text).union(plain)
