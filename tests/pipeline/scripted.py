"""A loopback model that answers every task of a build: plausible, and known beforehand.

It writes on the first sentences of the passages, reads its own answers back, and judges as `tests.loopback.readers` do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson
import yaml

from fdarx_core.filters.judges import judge_tasks, judges
from fdarx_core.filters.quotations import is_quoted
from fdarx_core.filters.round_trip import CompareReply, Comparison, RoundTripReply
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.generation.tasks import FactualItem, FactualReply, MultihopItem, MultihopReply, Twin
from fdarx_core.labels import Identity
from fdarx_core.llm import Reply
from fdarx_core.llm.baseline import response_to
from fdarx_core.llm.model_config import ModelConfig, load_models
from fdarx_core.pipeline.build_steps import Roles, build_steps
from fdarx_core.pipeline.steps import run_steps
from fdarx_core.records import Request, Response
from fdarx_core.text.sentences import split_sentences
from tests.llm.loopback_server import Call, Fault
from tests.loopback.prompts import ShownPrompt
from tests.loopback.readers import READERS
from tests.pipeline.test_steps import new_states

NAME = "scripted"
KEY_VARIABLE = "FDARX_TEST_KEY"
GARBAGE = "certainly! here is what you asked for: {"
PLANTED_KEY = "sk-planted-3f9a1c77e2"


def models_file(folder: Path, url: str, **options: Any) -> Path:
    """A models.yaml with one model on the server at `url`."""
    model = {"name": NAME, "model": "tiny", "base_url": url, "key_env": KEY_VARIABLE, "max_in_flight": 16, **options}
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump([model]))
    return file


def lot(prompt: str) -> int:
    """A number from 0 to 99 by which a prompt's weather is drawn."""
    return int(prompt, 16) % 100


class Writer:
    """What a model replies that writes questions, one in five with an answer that says more than the label, and that
    answers those which it wrote from what it is shown."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[str, list[str]]] = {}

    def reply(self, task: str, slots: Mapping[str, Any]) -> Reply:
        return getattr(self, f"_{task}")(slots)  # type: ignore[no-any-return]

    def _generate_factual(self, slots: Mapping[str, Any]) -> FactualReply:
        items = [
            FactualItem(
                evidence=[sentence],
                question=self._asked(slots, _beginning(sentence), [sentence]),
                answer=_answered(sentence),
                type="factual",
                difficulty="direct",
                twin=_twin(slots) if at == 0 else None,
            )
            for at, sentence in enumerate(_sentences(slots["passages"][0]["text"])[: slots["k"]])
        ]
        return FactualReply(items=items)

    def _generate_multihop(self, slots: Mapping[str, Any]) -> MultihopReply:
        firsts = [_sentences(passage["text"])[:1] for passage in slots["passages"]]
        if not all(firsts):
            return MultihopReply(items=[])
        [one], [other] = firsts
        question = self._asked(slots, f"{_beginning(one)} with {_beginning(other)}", [one, other])
        item = MultihopItem(
            evidence_a=[one],
            evidence_b=[other],
            question=question,
            answer=_answered(f"{one} {other}"),
            kind="bridge",
            twin=_twin(slots),
        )
        return MultihopReply(items=[item])

    def _asked(self, slots: Mapping[str, Any], subject: str, evidence: list[str]) -> str:
        question = f"What does the label of {slots['drug']} say of {subject}?"
        self._written[question] = _answered(" ".join(evidence)), evidence
        return question

    def _round_trip_answer(self, slots: Mapping[str, Any]) -> RoundTripReply:
        answer, evidence = self._written.get(slots["question"], ("", []))
        found = [
            (quote, one["number"]) for quote in evidence for one in slots["passages"] if is_quoted(quote, one["text"])
        ]
        if not evidence or {quote for quote, _ in found} != set(evidence):
            return RoundTripReply(quotes=[], passages=[], answerable=False, answer="")
        return RoundTripReply(
            quotes=evidence, passages=sorted({number for _, number in found}), answerable=True, answer=answer
        )

    def _compare_answers(self, slots: Mapping[str, Any]) -> CompareReply:
        return CompareReply(
            comparisons=[Comparison(name=one["name"], difference="", relation="same") for one in slots["answers"]]
        )


def _sentences(text: str) -> list[str]:
    """The sentences of a passage that can be asked about: neither rows nor headings nor pointers."""
    found = (one.strip() for line in text.split("\n") if " | " not in line for one in split_sentences(line))
    return [one for one in found if one.endswith(".") and len(one.split()) >= 8 and len(one) < 250]


def _answered(text: str) -> str:
    errs = lot(blake2b(text.encode(), digest_size=8).hexdigest()) < 20
    return f"{text} It is best forgotten." if errs else text


def _beginning(sentence: str) -> str:
    return " ".join(re.findall(r"[A-Za-z][A-Za-z-]+", sentence)[:5])


def _twin(slots: Mapping[str, Any]) -> Twin:
    if not slots["absent"]:
        entity, attribute = _beginning(slots["passages"][0]["text"]) or slots["drug"], "frequency by moonlight"
        question = f"What does the label of {slots['drug']} say of the {attribute} of {entity}?"
        return Twin(kind="near_miss", entity=entity, attribute=attribute, question=question)
    entity = slots["absent"][0]
    question = f"What does the label of {slots['drug']} say of {entity}?"
    return Twin(kind="absent", entity=entity, attribute="", question=question)


class Script:
    """What is answered to each prompt of a build of these labels, by the prompt's messages.

    With `garbage`, five prompts in a hundred are answered with none of the sort, here as on a server that uses this
    script: `states` then show what a build must make of that.
    """

    def __init__(
        self,
        labels: Sequence[Identity],
        amounts: GenerationConfig,
        models: Mapping[str, ModelConfig],
        garbage: bool = False,
    ) -> None:
        self.texts: dict[bytes, str] = {}
        self.tasks: dict[bytes, str] = {}
        self._garbage = garbage
        self._writer = Writer()
        steps = build_steps(amounts, Roles(models, NAME, NAME, (NAME,)), judges())
        self.states = run_steps(steps, new_states(labels, amounts, by_model=True), self._record)

    def _record(self, requests: Sequence[Request]) -> list[Response]:
        responses = []
        for request in requests:
            if request.task in judge_tasks():
                reply = READERS[request.task](ShownPrompt.read({"messages": request.messages}))
            else:
                reply = self._writer.reply(request.task, request.slots)
            response = response_to(request, reply.model_dump_json())
            messages = orjson.dumps(request.messages)
            if self._garbage and lot(blake2b(messages, digest_size=8).hexdigest()) >= 95:
                response.text = GARBAGE
            self.texts[messages] = response.text
            self.tasks[messages] = request.task
            responses.append(response)
        return responses

    def __call__(self, body: Mapping[str, Any]) -> str:
        """Matches `LoopbackServer.answer`; to a prompt that the build does not send, a repair, it has no answer."""
        return self.texts.get(orjson.dumps(body["messages"]), GARBAGE)

    @property
    def questions(self) -> set[str]:
        """Ids of the benchmark's questions."""
        return {question.id for state in self.states for question in state.questions}

    @property
    def rejects(self) -> Counter[tuple[str, str]]:
        """How many rows each stage must reject for each reason."""
        return Counter((one.stage, one.reason) for state in self.states for one in state.rejects)


def read_models(file: Path) -> dict[str, ModelConfig]:
    """The models of a file as the job reads them."""
    return load_models(str(file))


def weather(call: Call) -> Fault | None:
    """10 % 429, 5 % 500 and 3 % dropped connections at the first try of a prompt."""
    drawn = lot(call.prompt)
    if call.attempt > 1 or drawn >= 18:
        return None
    if drawn < 10:
        return Fault(status=429, retry_after="0.2")
    return Fault(status=500) if drawn < 15 else Fault(drop=True)


def asking_process_of(driver: int) -> int:
    """Return the process in which a build on Ray asks; 0 while there is none."""
    return process_of(driver, "MapWorker(MapBatches(generate")


def process_of(driver: int, title: str) -> int:
    """The process with that in its title, among the driver's descendants; 0 while there is none."""
    parents, names = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, parent = int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
            parents[pid], names[pid] = parent, (stat.parent / "cmdline").read_text()
        except OSError:
            continue
    for pid, name in names.items():
        above = pid
        while above > 1 and above != driver:
            above = parents.get(above, 0)
        if above == driver and title in name:
            return pid
    return 0
