"""All that a build asks about the example labels, label by label: what the engine's tests send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from fdarx_core.filters.judges import judges
from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import Context, GenerationConfig, make_contexts
from fdarx_core.generation.tasks import RULES_VERSION, TASKS
from fdarx_core.labels import parse_document
from fdarx_core.llm import Baseline, ask
from fdarx_core.records import Label, Passage, QuestionAnswer, Reject, Request

AMOUNTS = GenerationConfig(passages=4, pairs_per_passage=2, section_pairs=3, refusals=2)
JUDGED = 3
"""Questions of each type that are judged, a label."""


def asked_of(file: Path, endpoint: str, sampling: Mapping[str, Any]) -> list[Request]:
    """Every generation request of one label, then every judge's on the questions that the baseline makes of it."""
    label, passages = parse_document(file.read_bytes(), file.name)
    pieces = make_contexts(label, passages, AMOUNTS)
    requests = [TASKS[piece.task].request(piece.slots, endpoint=endpoint, sampling=sampling) for piece in pieces]
    made = [question for piece in pieces for question in _made(piece, label, passages)]
    for judge in judges():
        for kind in ("factual", "multihop", "refusal"):
            for question in islice((one for one in made if one.type == kind), JUDGED):
                if task := judge.task(question):
                    slots = judge.slots(question, label, passages)
                    requests.append(task.request(slots, endpoint=endpoint, sampling=sampling))
    return requests


def _made(piece: Context, label: Label, passages: list[Passage]) -> Iterator[QuestionAnswer]:
    rules = Baseline(TASKS, RULES_VERSION)
    request = TASKS[piece.task].request(piece.slots, endpoint=rules.name, sampling=rules.sampling)
    understood = parse_candidates(piece, ask([request], rules, None)[0], label, passages)
    if not isinstance(understood, Reject):
        yield from understood
