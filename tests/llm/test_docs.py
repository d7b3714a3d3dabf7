"""The code on the documentation page about tasks runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

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
        exec(code, names)
    assert capsys.readouterr().out.splitlines() == ["25 mg", "25 mg", ""]
