"""Order is performance: what shares a label goes out together, so that a server's cache need hold few labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.settings import CLOSED_BOOK, FULL_LABEL, ORACLE, TokenBudget
from fdarx_core.llm import ModelConfig, ResponseStore
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.evaluation_steps import EVALUATION_RULES, EvalSample, answer_questions, grade_answers
from fdarx_core.pipeline.executor import Work
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.pipeline.steps import Address, Part, Stage, Step
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.storage import Location
from fdarx_core.storage.benchmark_reader import BenchmarkItem
from tests.jobs.evaluating import evaluate, models_file, respond
from tests.llm.loopback_server import Call, Fault, LoopbackServer, text_of

PARTS, LABELS_A_PART = 4, 3


def sample(name: str, questions: int) -> EvalSample:
    """A label's questions in three settings."""
    passages = [Passage(name, 0, 0, "", "", "1", "Use", "Use", f"Label {name}. Take with food.")]
    asked = [
        QuestionAnswer(f"{name}-{number}", "factual", "", "", "", name, name, f"{number}?", "Yes.", [0], [""], [True])
        for number in range(questions)
    ]
    due = {CellKey("m", setting, ""): asked for setting in (CLOSED_BOOK, FULL_LABEL, ORACLE)}
    return EvalSample(BenchmarkItem.of(name, name, True, passages, asked), {}, {}, {}, due)


def labels_of(calls: Sequence[Call]) -> list[str]:
    """The labels that were shown whole, in the order of the requests, each request once."""
    systems = [text_of(call.body["messages"][0]) for call in calls if call.attempt == 1]
    return [label for _, shown, label in (system.partition("\nLabel:\n") for system in systems) if shown]


def assert_in_turn(labels: Sequence[str], in_flight: int) -> None:
    """Each label's requests stand in a row, but for as many as cross on their way to the server."""
    for label in set(labels):
        places = [place for place, one in enumerate(labels) if one == label]
        assert places[-1] - places[0] < len(places) + in_flight


@given(
    sizes=st.lists(st.integers(1, 12), min_size=PARTS * LABELS_A_PART, max_size=PARTS * LABELS_A_PART),
    in_flight=st.integers(1, 5),
    refused=st.integers(0, 30),
)
@settings(max_examples=settings().max_examples // 4)
def test_a_label_s_questions_stand_in_a_row(sizes: list[int], in_flight: int, refused: int) -> None:
    """Of four parts at once, in three settings, with a judge on the same server, and with some refusals."""
    parts: list[list[EvalSample]] = [[] for _ in range(PARTS)]
    for number, questions in enumerate(sizes):
        parts[number // LABELS_A_PART].append(sample(f"label-{number:02d}", questions))

    def run(url: str, responses: Location) -> None:
        model = ModelConfig(name="m", model="m", base_url=url, max_in_flight=in_flight)
        address = Address("m", model.request_parameters)
        steps: list[Step[EvalSample]] = [
            address.step("answer", partial(answer_questions, address, TokenBudget(), 5, None, False)),
            address.step("grade", partial(grade_answers, address)),
        ]
        stage = Stage("m", lambda part: parts[part.number], steps, lambda number, samples: None, window=PARTS)
        clients = ClientPool(EVALUATION_RULES, {"m": model})
        work = Work([(stage, [Part(number) for number in range(PARTS)])], clients, ResponseStore(responses))
        assert [result.ended for result in LocalExecutor().run(work)] == [""] * PARTS

    with LoopbackServer(answer=respond, latency=0.001) as server:
        server.faults = lambda call: (
            Fault(status=500) if call.attempt == 1 and int(call.prompt, 16) % 100 < refused else None
        )
        with TemporaryDirectory() as folder:
            run(server.openai_url, Location(folder))
    labels = labels_of(server.calls)
    assert len(labels) == sum(sizes)
    assert_in_turn(labels, in_flight)
    assert list(dict.fromkeys(labels)) == sorted(set(labels)), "parts go one after the other"


@pytest.mark.slow
def test_the_order_holds_through_a_whole_sweep(example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(answer=respond, latency=0.005) as server:
        models = models_file(tmp_path, server.openai_url, {"name": "small", "max_in_flight": 3})
        done = evaluate(example_build, tmp_path / "run", "--models", models, "--judge", "small", "--only", "small")
    assert done.returncode == 0, done.stderr
    labels = labels_of(server.calls)
    assert len(set(labels)) > 8
    assert_in_turn(labels, 3)
