"""The code of the documentation on tasks runs as it stands, and the models on the page about models are valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fdarx_core.llm import ModelConfig
from tests.conftest import REPOSITORY


def test_the_code_of_adding_a_task_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```(yaml|python)\n(.*?)```", (REPOSITORY / "docs/adding-a-task.md").read_text(), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["yaml", "python", "python", "python"]
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/find_strength.yaml").write_text(blocks[0][1])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "a_task"}
    for _, code in blocks[1:]:
        # as in a module of its own, whose annotations are not those of this one
        exec(compile(code, "a_task", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out.splitlines() == ["25 mg", "25 mg", ""]


def test_the_models_of_the_documentation_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (REPOSITORY / "docs/models.md").read_text(), re.DOTALL)
    models = [ModelConfig.model_validate(fields) for block in blocks for fields in yaml.safe_load(block)]
    assert {model.kind for model in models} == {"openai", "anthropic"}


def test_every_field_of_a_model_is_documented() -> None:
    page = (REPOSITORY / "docs/models.md").read_text()
    assert not [name for name in ModelConfig.model_fields if f"`{name}`" not in page]
