"""A loopback model that writes questions, a known share of them spoilt, for whole builds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import orjson

from benchmarks.defects import DEFECTS, Defect, Surroundings
from benchmarks.spoilt_labels import Runner, WrittenLabels
from fdarx_core.generation.candidates import parse_candidates
from fdarx_core.generation.contexts import Context, GenerationConfig
from fdarx_core.generation.tasks import TASKS
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.build_steps import Roles, build_steps, chunk
from fdarx_core.pipeline.label_state import LabelState, TopicPlan
from fdarx_core.pipeline.steps import run_steps
from fdarx_core.records import QuestionAnswer, Reject, Response, content_id
from tests.llm.loopback_server import LoopbackServer

NAME = "spoiling-writer"
AMOUNTS = GenerationConfig(passages=0, section_pairs=0)
"""A model is given the passages of the topics alone, since the writer knows no questions on others."""
NOTHING = '{"items": []}'
_WRITTEN = tuple(defect for defect in DEFECTS if defect.written)


@dataclass(slots=True)
class SpoilingWriter:
    """What the writer replies to each prompt of a build, and which of its questions are spoilt, by id.

    `good` are the questions of the built-in rules by set id, from which those that are spoilt are drawn.
    """

    written: WrittenLabels
    good: Mapping[str, Sequence[QuestionAnswer]]
    rate: float
    seed: int
    replies: dict[bytes, str] = field(default_factory=dict)
    spoilt: dict[str, Defect] = field(default_factory=dict)
    states: list[LabelState] = field(default_factory=list)

    def __post_init__(self) -> None:
        for written in self.written.states:
            assert written.label is not None
            plan = TopicPlan(written.plan.pairs, by_model=True)
            state = LabelState(written.identity, plan, written.label, written.passages)
            run_steps([partial(chunk, AMOUNTS)], [state], lambda _: [])
            around = self.written.surroundings(state, self.good.get(state.identity.set_id, []))
            for context in state.contexts:
                request = TASKS[context.task].request(context.slots | {"written": []}, endpoint="", sampling={})
                # Contexts of the same passages may have the same prompt; a model writes one reply to it.
                prompt = orjson.dumps(request.messages)
                if prompt not in self.replies:
                    self.replies[prompt] = self._reply(context, around)
            self.states.append(LabelState(written.identity, plan))

    def answer(self, body: Mapping[str, Any]) -> str:
        """Reply to a request."""
        return self.replies.get(orjson.dumps(body["messages"]), NOTHING)

    def build(self, folder: str) -> list[LabelState]:
        """Build with this writer over HTTP and the built-in rules as judges; return the states at the end."""
        with LoopbackServer(self.answer, keep_calls=False) as server:
            models = {NAME: ModelConfig(name=NAME, model="writer", base_url=server.openai_url)}
            Runner(models, folder).run(build_steps(AMOUNTS, Roles(models, generator=NAME)), self.states)
        return self.states

    def _reply(self, context: Context, around: Surroundings) -> str:
        """Return the reply to a context: the questions of the rules, one of them spoilt at the rate of the writer."""
        [item] = context.slots["written"]
        rng = Random(content_id(str(self.seed), around.label.set_id, context.id))
        if rng.random() >= self.rate:
            return _items(item)
        made = _parsed(context, around, _items(item))
        drawn = [(defect, one) for defect in _WRITTEN for one in made if one.type in defect.types]
        for defect, question in rng.sample(drawn, len(drawn)):
            spoilt = defect.spoil(question, around, rng)
            if spoilt is None:
                continue
            reply = _items(_changed(item, spoilt))
            again = _parsed(context, around, reply)
            place = [one.id for one in made].index(question.id)
            self.spoilt[again[place].id] = defect
            return reply
        return _items(item)


def _items(item: Mapping[str, Any]) -> str:
    return json.dumps({"items": [item]})


def _parsed(context: Context, around: Surroundings, reply: str) -> list[QuestionAnswer]:
    """Return the questions that a build reads in a reply: the answerable one first, then its twin."""
    task = TASKS[context.task]
    response = Response("", task.name, task.version, NAME, reply)
    made = parse_candidates(context, response, around.label, around.passages)
    assert not isinstance(made, Reject), made
    return made


def _changed(item: Mapping[str, Any], spoilt: QuestionAnswer) -> dict[str, Any]:
    """Return the item of a reply with a spoilt question in place of the one that it was made of."""
    if spoilt.type == "refusal":
        twin = {"kind": "absent", "entity": spoilt.entity, "attribute": "", "question": spoilt.question}
        return {**item, "twin": twin}
    return {**item, "question": spoilt.question, "answer": spoilt.answer}
