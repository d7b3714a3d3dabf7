"""All that a build asks about the example labels, label by label: what the engine's tests send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from fdarx_core.filters.judges import judges
from fdarx_core.filters.round_trip import (
    COMPARE_ANSWERS,
    ROUND_TRIP_ANSWER,
    RoundTripReply,
    answer_slots,
    compare_slots,
    settings_of,
)
from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import Context, GenerationConfig, make_contexts
from fdarx_core.generation.pairing import pair_topics
from fdarx_core.generation.tasks import RULES_VERSION
from fdarx_core.generation.topics import survey_label
from fdarx_core.generation.writing import writing_tasks
from fdarx_core.labels import parse_document
from fdarx_core.llm import Baseline, Task, ask
from fdarx_core.pipeline.label_state import TopicPlan
from fdarx_core.records import Label, Passage, QuestionAnswer, Reject, Request
from tests.conftest import EXAMPLES

AMOUNTS = GenerationConfig(passages=4, pairs_per_passage=2, section_pairs=3, twins=8)
JUDGED = 3
"""Questions of each type that are judged and answered again, a label."""


@cache
def plans_of_examples() -> Mapping[str, TopicPlan]:
    parsed = [parse_document(file.read_bytes(), file.name) for file in sorted(EXAMPLES.glob("*.xml"))]
    surveys = [survey_label(label, passages) for label, passages in parsed if passages]
    pairs = pair_topics(surveys, AMOUNTS.twins, AMOUNTS.topic_labels, AMOUNTS.seed)
    return {one.set_id: TopicPlan(pairs[one.set_id], by_model=True) for one in surveys}


def asked_of(file: Path, endpoint: str, sampling: Mapping[str, Any]) -> list[Request]:
    """Every generation request of one label, then those of the judges and the round trip on what the baseline makes."""

    def request(task: Task[Any], slots: Mapping[str, Any]) -> Request:
        return task.request(slots, endpoint=endpoint, sampling=sampling)

    label, passages = parse_document(file.read_bytes(), file.name)
    plan = plans_of_examples()[label.set_id]
    pieces = make_contexts(label, passages, AMOUNTS, plan.pairs, by_model=plan.by_model)
    requests = [request(writing_tasks()[piece.task], {**piece.slots, "written": []}) for piece in pieces]
    made = [question for piece in pieces for question in _made(piece, label, passages)]
    for kind in ("factual", "multihop", "refusal"):
        for question in islice((one for one in made if one.type == kind), JUDGED):
            for judge in judges():
                if task := judge.task(question):
                    requests.append(request(task, judge.slots(question, label, passages)))
            for setting in settings_of(question):
                requests.append(request(ROUND_TRIP_ANSWER, answer_slots(question, setting, label, passages)))
            same = RoundTripReply(quotes=[], passages=[], answerable=True, answer=question.answer)
            if slots := compare_slots(question, {"passages": same, "label": same}):
                requests.append(request(COMPARE_ANSWERS, slots))
    return requests


def _made(piece: Context, label: Label, passages: list[Passage]) -> Iterator[QuestionAnswer]:
    rules = Baseline(writing_tasks(), RULES_VERSION)
    request = writing_tasks()[piece.task].request(piece.slots, endpoint=rules.name, sampling=rules.sampling)
    understood = parse_candidates(piece, ask([request], rules, None)[0], label, passages)
    if not isinstance(understood, Reject):
        yield from understood
