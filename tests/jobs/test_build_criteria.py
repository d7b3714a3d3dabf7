"""Judges and writer by criteria of a user's own: what they change is asked anew, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from fdarx_core.filters.judges import KEPT_AS, Judge, criteria_readers, guided_tasks, judges, judges_by, read_criteria
from fdarx_core.generation.contexts import Context, GenerationConfig
from fdarx_core.generation.tasks import GENERATE_FACTUAL, GENERATE_MULTIHOP
from fdarx_core.llm import Criteria, ModelConfig, PromptError
from fdarx_core.llm.prompts import Criterion
from fdarx_core.pipeline.build_steps import Roles, build_steps
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.steps import AskStep
from fdarx_core.records import QuestionAnswer
from fdarx_core.specs.build import BuildSpec, judges_of, keep_criteria
from fdarx_core.storage import RunDirectory
from tests.filters.judged import LABEL, PASSAGES, QUESTIONS

OURS = Criteria.load()
MODEL = ModelConfig(name="m", model="m", base_url="http://127.0.0.1:1/v1")
STRICTER = "Ask of every question whether the label alone settles it."


def with_rule(*applies_to: str) -> Criteria:
    rule = Criterion(id="settled", text=STRICTER, applies_to=list(applies_to))
    return Criteria(purpose=OURS.purpose, rules=[*OURS.rules, rule])


def requests(judged_by: Sequence[Judge], question: QuestionAnswer) -> dict[str, tuple[str, str]]:
    """Key and system message by task, of all that a build's judges would ask about a question."""
    state = LabelState(identity=None, label=LABEL, passages=PASSAGES, questions=[question])  # type: ignore[arg-type]
    stages = {judge.stage for judge in judges()}
    steps = [
        step
        for step in build_steps(GenerationConfig(), Roles({"m": MODEL}, judges=("m",)), judged_by)
        if isinstance(step, AskStep) and step.name in stages
    ]
    asked = [one for step in steps for one in next(step.ask(state), [])]
    return {one.task: (one.key, one.messages[0]["content"]) for one in asked}


def written(criteria: Criteria | None) -> dict[str, tuple[str, str]]:
    """Key and system message by task, of all that a build would ask the writer about two contexts."""
    contexts = [
        Context(task.name, task.name, task.prompt.examples[0].slots) for task in (GENERATE_FACTUAL, GENERATE_MULTIHOP)
    ]
    state = LabelState(identity=None, label=LABEL, passages=PASSAGES, contexts=contexts)  # type: ignore[arg-type]
    [step] = [
        step
        for step in build_steps(GenerationConfig(), Roles(), judges(), criteria)
        if isinstance(step, AskStep) and step.name == "generate"
    ]
    return {one.task: (one.key, one.messages[0]["content"]) for one in next(step.ask(state), [])}


@pytest.mark.parametrize("kind", sorted(QUESTIONS))
def test_only_tasks_that_read_the_rule_are_asked_anew(kind: str) -> None:
    before = requests(judges(), QUESTIONS[kind])
    after = requests(judges_by(with_rule("judge_relevance"), "ours.yaml"), QUESTIONS[kind])
    assert {task for task in before if before[task] != after[task]} == {"judge_relevance"}
    assert before["judge_relevance"][0] != after["judge_relevance"][0]
    assert f"- [settled] {STRICTER}" in after["judge_relevance"][1]


def test_only_the_writing_task_that_reads_the_rule_is_asked_anew() -> None:
    before, after = written(None), written(with_rule("generate_factual"))
    assert {task for task in before if before[task] != after[task]} == {"generate_factual"}
    assert before["generate_factual"][0] != after["generate_factual"][0]
    assert f"- [settled] {STRICTER}" in after["generate_factual"][1]


def test_a_writing_task_that_no_rule_names_keeps_its_own() -> None:
    judges_alone = [rule for rule in OURS.rules if not any("generate" in name for name in rule.applies_to)]
    assert written(Criteria(purpose="", rules=judges_alone)) == written(None)


def test_the_same_criteria_ask_the_same() -> None:
    assert written(OURS) == written(None)
    for question in QUESTIONS.values():
        assert requests(judges_by(OURS, "ours.yaml"), question) == requests(judges(), question)


@pytest.mark.parametrize(
    ("criteria", "said"),
    [
        (with_rule("grade_answer"), "rules apply to ['grade_answer'], which read none"),
        (
            Criteria(purpose="", rules=[rule for rule in OURS.rules if rule.applies_to == ["judge_relevance"]]),
            "no rule applies to ['judge_quality_factual', 'judge_quality_multihop']",
        ),
    ],
)
def test_criteria_that_no_judge_reads_or_that_leave_one_bare(criteria: Criteria, said: str) -> None:
    with pytest.raises(PromptError) as caught:
        judges_by(criteria, "ours.yaml")
    assert str(caught.value).startswith("ours.yaml: ") and said in str(caught.value)


def test_which_tasks_read_criteria() -> None:
    assert {"judge_relevance", "judge_quality_factual", "judge_quality_multihop"} == guided_tasks()
    assert criteria_readers() - guided_tasks() == {"generate_factual", "generate_multihop"}


def config(**options: Any) -> BuildSpec:
    return BuildSpec.model_validate({"labels": ["x"], "out": "y", **options})


def test_a_build_is_another_by_other_criteria_and_the_same_without(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump(with_rule(*guided_tasks()).model_dump()))
    given, plain = config(criteria=str(file)), config()
    assert "criteria" not in plain.identity(plain.load_roles())
    one = given.identity(given.load_roles())["criteria"]
    file.write_text(yaml.safe_dump(with_rule("judge_relevance").model_dump()))
    assert given.identity(given.load_roles())["criteria"] != one
    run = RunDirectory.begin(
        str(tmp_path / "run"), job="build_benchmark", config=given.identity(given.load_roles()), versions={}
    )
    keep_criteria(str(file), run)
    assert read_criteria(str(run.file(KEPT_AS))) == with_rule("judge_relevance")
    assert all(
        STRICTER in system for _, system in [requests(judges_of(str(file)), QUESTIONS["factual"])["judge_relevance"]]
    )


@pytest.mark.parametrize("text", [None, "purpose: [", "purpose: x\nrules: []", "rules: 3"])
def test_a_build_refuses_criteria_that_are_of_no_use(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "ours.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValidationError, match=r"ours\.yaml"):
        config(criteria=str(file))
